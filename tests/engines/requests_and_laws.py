"""The kinds of requests of the mixed batches, and the law of each one's first tokens, enumerated with transformers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from tiny_pair import LETTERS, N

DEPTH = 4  # tokens of a text whose joint law is compared
TOKENS = 6  # that a request asks for, so that the last of those compared are drafted and tested too
FALSE_ALARM = 1e-9

Text = tuple[int, ...]


@dataclass(frozen=True)
class Kind:
    """One kind of request. options: vLLM's sampling parameters; grammar: the letters allowed at each place, if any."""

    prompt: Text
    temperature: float = 1.0
    options: dict[str, Any] = field(default_factory=dict)
    seeded: bool = False
    grammar: tuple[str, ...] = ()

    def law(self, model: Any) -> dict[Text, float]:
        """Probability of every beginning of DEPTH tokens."""
        import torch

        law: dict[Text, float] = {(): 1.0}
        for _ in range(DEPTH):
            texts = list(law)
            ids = torch.tensor([self.prompt + text for text in texts])
            with torch.no_grad():
                logits = torch.cat([model(part).logits[:, -1] for part in ids.split(1024)]).double().numpy()
            rows = (self._next(text, row) for text, row in zip(texts, logits, strict=True))
            law = {
                (*text, y): law[text] * mass
                for text, row in zip(texts, rows, strict=True)
                for y, mass in enumerate(row.tolist())
                if mass > 0
            }
        return law

    def _next(self, text: Text, logits: np.ndarray) -> np.ndarray:
        """The law of the token after a text, as vLLM's documentation has it: penalties, temperature, top-k, top-p, min-p in turn."""
        options, logits = self.options, logits.copy()
        if self.grammar:
            logits[[y for y in range(N) if y >= len(LETTERS) or LETTERS[y] not in self.grammar[len(text)]]] = -np.inf
        if allowed := options.get("allowed_token_ids"):
            logits[[y for y in range(N) if y not in allowed]] = -np.inf
        counts = np.bincount(text, minlength=N)
        seen = (counts + np.bincount(self.prompt, minlength=N)) > 0
        by = np.where(seen, options.get("repetition_penalty", 1.0), 1.0)
        logits = np.where(logits > 0, logits / by, logits * by)
        logits = (
            logits
            - options.get("frequency_penalty", 0.0) * counts
            - options.get("presence_penalty", 0.0) * (counts > 0)
        )
        if self.temperature == 0:
            return np.eye(N)[logits.argmax()]
        logits = logits / self.temperature
        if k := options.get("top_k"):
            logits[logits < np.sort(logits)[-k]] = -np.inf
        mass = np.exp(logits - logits.max())
        mass /= mass.sum()
        if top_p := options.get("top_p"):
            order = np.argsort(mass)
            mass[order[mass[order].cumsum() <= 1 - top_p]] = 0
        if min_p := options.get("min_p"):
            mass[mass < min_p * mass.max()] = 0
        return mass / mass.sum()


KINDS = {
    "sampled": Kind((1, 2, 3, 4, 5)),
    "top-k": Kind((5, 1, 6), 0.7, {"top_k": 4}),
    "top-p": Kind((2, 0, 2), 1.2, {"top_p": 0.8}),
    "seeded": Kind((1, 2, 3, 4, 5), seeded=True),
    "penalised": Kind(
        (4, 4, 1, 0), 0.9, {"repetition_penalty": 1.4, "presence_penalty": 0.6, "frequency_penalty": 0.5}
    ),
    "greedy": Kind((3, 3, 2), 0.0),
    "some tokens": Kind((6, 5, 4), 1.0, {"allowed_token_ids": [0, 2, 3, 5]}),
    "repeating": Kind((1, 2, 3, 1, 2, 3, 1, 2)),
    "grammar": Kind((0, 1), grammar=("abc", "cdef", "abg", "ade", "abcdefg", "abcdefg", "abcdefg", "abcdefg")),
}
MIN_P = {"min-p": Kind((2, 3), 1.0, {"min_p": 0.15})}  # vLLM refuses it beside drafts


def p_value(law: dict[Text, float], texts: Sequence[Sequence[int]]) -> float:
    """By chi-square: of whole beginnings, of neighbouring pairs, of single places, times their number; 0 for a text without mass."""
    found = [tuple(text[:DEPTH]) for text in texts]
    if any(text not in law for text in found):
        return 0.0
    views = [slice(0, DEPTH), *(slice(i, i + width) for width in (1, 2) for i in range(DEPTH - width + 1))]
    return min(1.0, len(views) * min(_p_value(law, found, view) for view in views))


def _p_value(law: dict[Text, float], texts: list[Text], view: slice) -> float:
    """Of a part of the texts, small cells taken together."""
    counts, masses = Counter(text[view] for text in texts), Counter[Text]()
    for text, mass in law.items():
        masses[text[view]] += mass  # type: ignore[assignment]  # a Counter of floats
    cells, observed, expected = [], 0, 0.0
    for part, mass in masses.most_common():
        observed, expected = observed + counts[part], expected + mass * len(texts)
        if expected >= 8:
            cells.append((observed, expected))
            observed, expected = 0, 0.0
    if cells:
        cells[-1] = (cells[-1][0] + observed, cells[-1][1] + expected)
    if len(cells) < 2:
        return 1.0
    o, e = np.array(cells).T
    return float(stats.chisquare(o, e * o.sum() / e.sum()).pvalue)


def laws(target: Path, kinds: dict[str, Kind]) -> dict[str, dict[Text, float]]:
    """The law of every kind."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(target, dtype="float32").eval()
    return {name: kind.law(model) for name, kind in kinds.items()}
