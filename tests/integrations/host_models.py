"""Small random models, drafts and emitted tokens in bulk, for the contract tests of the adapters to inference engines."""

from __future__ import annotations

import importlib.metadata
import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

FALSE_ALARM = 1e-9


@dataclass(frozen=True)
class Tables:
    """Laws of the next token after every prefix of at most `depth` tokens: laws[d] has shape (n,) * d + (n,)."""

    laws: tuple[np.ndarray, ...]

    @classmethod
    def random(cls, n: int, depth: int, generator: np.random.Generator) -> Tables:
        return cls(tuple(generator.dirichlet(np.full(n, 0.7), (n,) * d) for d in range(depth + 1)))

    def forbidding(self, n_forbidden: int, generator: np.random.Generator) -> Tables:
        """Some tokens of mass 0 after every prefix, as a grammar makes them."""
        laws = []
        for law in self.laws:
            mass = law * (generator.random(law.shape).argsort(-1) >= n_forbidden)
            laws.append(mass / mass.sum(-1, keepdims=True))
        return Tables(tuple(laws))

    def after(self, prefixes: np.ndarray) -> np.ndarray:
        """int (m, d) -> (m, n)."""
        d = prefixes.shape[1]
        return (
            self.laws[d][tuple(prefixes.T)] if d else np.broadcast_to(self.laws[0], (len(prefixes), len(self.laws[0])))
        )

    def continued(self, tokens: np.ndarray, to: int, generator: np.random.Generator) -> np.ndarray:
        """Rows (m, w) of tokens, -1 where they end, filled up to length `to` with draws from these laws."""
        done = np.full((len(tokens), to), -1)
        done[:, : tokens.shape[1]] = tokens[:, :to]
        for depth in range(to):
            missing = done[:, depth] < 0
            done[missing, depth] = drawn(self.after(done[missing, :depth]), generator)
        return done

    def probability(self, sequences: np.ndarray) -> np.ndarray:
        rows = np.arange(len(sequences))
        steps = [self.after(sequences[:, :d])[rows, sequences[:, d]] for d in range(sequences.shape[1])]
        return np.prod(steps, axis=0)


def drawn(laws: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """One token a row: (m, n) -> (m,)."""
    return (laws.cumsum(-1)[:, :-1] <= generator.random((len(laws), 1))).sum(-1)


def p_value(emitted: np.ndarray, target: Tables, length: int, generator: np.random.Generator) -> float:
    """Of Pearson's test that emitted tokens, continued by the target to this length, follow the target."""
    assert_ends(emitted)
    n = len(target.laws[0])
    sequences = target.continued(emitted, length, generator)
    cells = np.stack(np.meshgrid(*[np.arange(n)] * length, indexing="ij"), -1).reshape(-1, length)
    seen = np.bincount(sequences @ n ** np.arange(length)[::-1], minlength=n**length)
    expected = target.probability(cells) * len(sequences)
    assert (seen[expected == 0] == 0).all()
    rare = expected < 5
    seen, expected = (np.append(x[~rare], x[rare].sum()) for x in (seen, expected))
    if expected[-1] == 0:
        seen, expected = seen[:-1], expected[:-1]
    return float(stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1))


def assert_ends(emitted: np.ndarray) -> None:
    """At least one token a row, and nothing but -1 behind the first -1."""
    assert (emitted[:, 0] >= 0).all()
    assert (np.diff((emitted < 0).astype(int), axis=1) >= 0).all()


class MinTokens:
    """Hides token 0 in the rows of requests whose text is shorter than their min_tokens, as vLLM's MinTokensLogitsProcessor does."""

    def __init__(self, min_toks: dict[int, tuple[Any, ...]]) -> None:
        self.min_toks, self.hidden = min_toks, sorted(min_toks)

    def update_state(self, update: None) -> None:
        self.min_toks = {row: entry for row, entry in self.min_toks.items() if len(entry[1]) < entry[0]}
        self.hidden = sorted(self.min_toks)

    def apply(self, logits: Any) -> Any:
        logits[self.hidden, 0] = -np.inf
        return logits


class RejectionSampler:
    """Samples the token behind the last draft as vLLM's does: the processor is asked in the middle of `forward`."""

    def __init__(self, processor: Any) -> None:
        self.processor = processor

    def forward(self, metadata: Any, draft_probs: Any, logits: Any, sampling_metadata: Any) -> Any:
        return self.processor.apply(logits)


def of_vllm(on_cpu: bool) -> dict[str, dict[str, Any]]:
    """Modules of vLLM that the plugin looks at on every platform, beside the samplers."""
    platform = SimpleNamespace(is_cpu=lambda: on_cpu)
    return {
        "vllm.platforms": {"current_platform": platform},
        "vllm.v1.sample.logits_processor.builtin": {
            "MinTokensLogitsProcessor": type("MinTokensLogitsProcessor", (MinTokens,), dict(vars(MinTokens)))
        },
    }


def installed(monkeypatch: pytest.MonkeyPatch, package: str, found: str, modules: dict[str, dict[str, Any]]) -> None:
    """Pretend that a package of this version is installed, with these modules and what is in them."""
    real = importlib.metadata.version
    monkeypatch.setattr("ot_draft.integrations.host.version", lambda name: found if name == package else real(name))
    for name, content in modules.items():
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            path = ".".join(parts[:end])
            if path not in sys.modules or end == len(parts):
                monkeypatch.setitem(sys.modules, path, ModuleType(path))
        vars(sys.modules[name]).update(content)
