"""Decoding for another target: texts follow r, token by token, in the decoding engine and through transformers' `generate`.

r is enumerated from plain `generate`'s own scores of both models behind every prefix. Each verdict is a chi-square test that rejects a
right loop with probability 1e-9; planted errors, and p in the place of r, must be rejected by it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from chances import chance
from tiny_models import tiny_pair

from ot_draft import lossy, rules, trees
from proofs_checks.lossy import published_targets

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.decoding.drafting import Drafting  # noqa: E402
from ot_draft.decoding.loop import DecodeOptions, decode  # noqa: E402
from ot_draft.decoding.sampling import SamplingParams  # noqa: E402
from ot_draft.integrations.transformers import multi_draft  # noqa: E402

N, FALSE_ALARM = 8, 1e-9
PROMPT = [1, 2, 3, 4]
WARPED = {"temperature": 0.8, "top_k": 7, "top_p": 0.98}
EVEN = trees.TreeShape.by_level((2, 2))  # as many children at every node: r depends on the tokens before alone
TV = lossy.TotalVariation(0.3)

# The rule, how it drafts, and the k that its target is told; texts, and tokens of each: no more than are drafted at once.
WAYS: dict[str, tuple[Any, dict[str, Any], int, int, int]] = {
    "joint": (trees.TowardPath(TV, trees.Joint()), {"tree": EVEN}, 2, 200, 2),
    "one path": (trees.TowardPath(lossy.KL(0.4), trees.BlockVerification()), {"paths": 1, "length": 3}, 1, 1000, 3),
    "token by token": (lossy.Toward(TV, rules.KSeq()), {"paths": 3, "length": 3}, 3, 1000, 3),
}


@cache
def pair() -> Any:
    return tiny_pair(seed=11, n=N, layers=2)


@cache
def next_laws(depth: int) -> tuple[np.ndarray, np.ndarray]:
    """p and q behind every prefix of so many tokens, (N,) * (depth + 1), as plain `generate` has them."""
    prefixes = torch.tensor(list(product(range(N), repeat=depth)), dtype=torch.int64).reshape(N**depth, depth)
    ids = torch.cat((torch.tensor(PROMPT).expand(len(prefixes), -1), prefixes), 1)
    asked = {"max_new_tokens": 1, "do_sample": True, "output_scores": True, "return_dict_in_generate": True}
    found = []
    for model in (pair().target, pair().draft):
        scores = model.generate(ids, attention_mask=torch.ones_like(ids), **asked, **WARPED).scores[0]
        found.append(scores.double().softmax(-1).numpy().reshape((N,) * (depth + 1)))
    return found[0], found[1]


def law_of_texts(tokens: int, make: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """Law (N,) * tokens of a text whose tokens follow make(p, q)."""
    law = np.ones(())
    for depth in range(tokens):
        law = law[..., None] * make(*next_laws(depth))
    return law


def generated(name: str) -> np.ndarray:
    """How often each text came, (N,) * tokens, from `generate` with `multi_draft`."""
    rule, drafting, _, number, tokens = WAYS[name]
    loop = multi_draft(pair().draft, rule, seed=3, **drafting)
    prompts = torch.tensor([PROMPT] * number)
    given = {"attention_mask": torch.ones_like(prompts), "max_new_tokens": tokens, "do_sample": True}
    texts = pair().target.generate(prompts, custom_generate=loop, **given, **WARPED)[:, len(PROMPT) :].numpy()
    counts = np.zeros((N,) * tokens)
    np.add.at(counts, tuple(texts.T), 1)
    return counts


@pytest.mark.parametrize("name", WAYS)
def test_texts_of_generate_follow_the_target_of_the_rule(name: str) -> None:
    rule, _, k, _, tokens = WAYS[name]
    counts = generated(name)
    assert chance(counts, law_of_texts(tokens, lambda p, q: rule.target(p, q, k))) > FALSE_ALARM
    assert chance(counts, law_of_texts(tokens, lambda p, q: p)) < FALSE_ALARM


def _the_target_of_the_first_text_is_everyones(patch: pytest.MonkeyPatch) -> None:
    made = lossy.TotalVariation.__call__

    def of_the_first(self: Any, p: Any, q: Any, k: int = 1, law: Any = None) -> Any:
        return made(self, p, q, k, law)[:1].expand(p.shape)

    patch.setattr(lossy.TotalVariation, "__call__", of_the_first)


def _the_target_is_made_for_one_draft(patch: pytest.MonkeyPatch) -> None:
    made = lossy.TotalVariation.__call__
    patch.setattr(lossy.TotalVariation, "__call__", lambda self, p, q, k=1, law=None: made(self, p, q, 1, law))


def _draft_and_target_change_places(patch: pytest.MonkeyPatch) -> None:
    made = lossy.TotalVariation.__call__
    patch.setattr(lossy.TotalVariation, "__call__", lambda self, p, q, k=1, law=None: made(self, q, p, k, law))


@pytest.mark.parametrize(
    "plant",
    [
        _the_target_of_the_first_text_is_everyones,
        _the_target_is_made_for_one_draft,
        _draft_and_target_change_places,
    ],
)
def test_a_planted_error_is_rejected(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "token by token"
    rule, _, k, _, tokens = WAYS[name]
    right = law_of_texts(tokens, lambda p, q: rule.target(p, q, k))
    plant(monkeypatch)
    assert chance(generated(name), right) < FALSE_ALARM


@pytest.mark.parametrize(
    "rule",
    [
        trees.TowardPath(TV, trees.Joint()),
        trees.TowardPath(published_targets.Ensemble(0.2), trees.TokenWise(rules.KSeq())),
    ],
)
def test_the_first_token_of_the_engine_follows_the_target_of_the_rule(rule: trees.TowardPath) -> None:
    sampling = SamplingParams(WARPED["temperature"], int(WARPED["top_k"]), WARPED["top_p"])
    drafting = Drafting.chains(3, 2, rule)
    tokens = np.array(decode(pair(), [PROMPT] * 400, drafting, DecodeOptions(sampling, max_tokens=1)).tokens)
    counts = np.bincount(tokens[:, 0], minlength=N)
    p, q = next_laws(0)
    assert chance(counts, rule.target(p, q, 3)) > FALSE_ALARM
    assert chance(counts, p) < FALSE_ALARM
