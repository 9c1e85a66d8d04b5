"""Watermarks: over the keys the text follows the target, under the race it is the same whatever the draft is, and its key is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from chances import chance
from tiny_models import constant_llama, tiny_llama, tiny_pair

import ot_draft as otd

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.decoding import CannotDecode, DecodeOptions, Drafting, Pair, decode  # noqa: E402
from ot_draft.decoding.reference import next_token, reference_decode  # noqa: E402
from ot_draft.decoding.sampling import SamplingParams  # noqa: E402
from ot_draft.decoding.watermark import (  # noqa: E402
    KeyedNoise,
    RacePath,
    RaceTree,
    detect,
    exponentials,
    scores,
    watermarked,
)

N, TEXTS, EMITTED = 8, 1500, 3
FALSE_ALARM = 1e-9
P = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05])
Q = P[::-1].copy()
K_SEQ = otd.trees.TokenWise(otd.rules.KSeq())
RULES = {"race": None, "KSeq": K_SEQ, "recursive": otd.trees.TokenWise(otd.rules.RecursiveRejection())}


def constant_pair() -> Pair:
    return Pair(constant_llama(P), constant_llama(Q))


def texts(rule: Any, paths: int = 2) -> np.ndarray:
    """(TEXTS, EMITTED) of one key, which has numbers of its own for every text."""
    options = DecodeOptions(max_tokens=EMITTED, stop=())
    return np.array(decode(constant_pair(), [[1]] * TEXTS, watermarked("key", paths, 2, rule), options).tokens)


def found(tokens: np.ndarray) -> float:
    counts = np.zeros((N,) * EMITTED)
    np.add.at(counts, tuple(tokens.T), 1)
    return chance(counts, P[:, None, None] * P[:, None] * P)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_over_the_keys_the_text_follows_the_target(rule: Any) -> None:
    assert found(texts(rule)) > FALSE_ALARM


def test_races_of_one_place_for_all_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = KeyedNoise.__call__
    monkeypatch.setattr(
        KeyedNoise, "__call__", lambda self, rows, emitted, *rest: usual(self, rows, [0] * len(emitted), *rest)
    )
    assert found(texts(None)) < FALSE_ALARM


def test_a_rule_that_looks_ahead_raises() -> None:
    toward = otd.trees.TowardPath(otd.lossy.KL(0.1), otd.trees.Joint())
    for rule in (otd.trees.Joint(), otd.trees.Traversal(), otd.trees.BlockVerification(), toward):
        with pytest.raises(CannotDecode, match=r"rule must not look at nodes below .* Use RacePath\(\)"):
            watermarked("key", 1, 2, rule)
    with pytest.raises(CannotDecode, match="empty"):
        watermarked("", 1, 2)


CHAINS, NAIVE = otd.trees.FixedTree.chains(2, 3), otd.trees.NaivePath()


@pytest.mark.parametrize(
    ("tree", "rule", "noise", "says"),
    [
        (RaceTree.chains(2, 3), K_SEQ, None, r"noise must be a NoiseSource for 2 × 3, got None\. Use watermarked"),
        (CHAINS, RacePath(), None, "noise must be a NoiseSource for RacePath, got None"),
        (RaceTree.chains(2, 3), RacePath(), 5, "noise must be a NoiseSource for 2 × 3 and RacePath, got 5"),
        (CHAINS, NAIVE, KeyedNoise("k", 2, 3), r"noise must be None for 2 × 3 and NaivePath, .*got KeyedNoise"),
        (
            RaceTree.chains(1, 3),
            otd.trees.Joint(),
            KeyedNoise("k", 1, 3),
            "rule must not look at nodes below .* got Joint",
        ),
        (RaceTree.chains(2, 3), K_SEQ, KeyedNoise("k", 1, 3), r"shape \(B, 4, 2, n\) .* got \(1, 4, 1, 2\)"),
        (RaceTree.chains(2, 3), K_SEQ, KeyedNoise("k", 3, 3), r"shape \(B, 4, 2, n\) .* got \(1, 4, 3, 2\)"),
        (RaceTree.chains(2, 3), K_SEQ, KeyedNoise("k", 2, 2), r"shape \(B, 4, 2, n\) .* got \(1, 3, 2, 2\)"),
        (CHAINS, RacePath(), KeyedNoise("k", 2, 2), r"shape \(B, 4, K, n\) .* got \(1, 3, 2, 2\)"),
        (CHAINS, RacePath(), KeyedNoise("k", 0, 3), r"shape \(B, 4, K, n\) .* got \(1, 4, 0\)"),
    ],
)
def test_noise_that_does_not_fit_raises(tree: Any, rule: Any, noise: Any, says: str) -> None:
    with pytest.raises(CannotDecode, match=says):
        Drafting(tree, rule, noise=noise)


def test_races_have_independent_paths() -> None:
    for shape, law in ((otd.trees.TreeShape.by_level((2, 2)), otd.IID()), (CHAINS.shape, otd.WithoutReplacement())):
        with pytest.raises(otd.InvalidDrafts, match=r"shape and law must be those of i\.i\.d\. paths"):
            RaceTree(shape, law)


def test_a_race_follows_drafts_that_are_no_races() -> None:
    drafting = Drafting(CHAINS, RacePath(), noise=KeyedNoise("k", 2, 3))
    pair, options = tiny_pair(seed=3, n=N), DecodeOptions(max_tokens=9, stop=())
    tokens = decode(pair, [[1, 2]], drafting, options).tokens
    assert tokens == decode(pair, [[1, 2]], watermarked("k", 2, 3), options).tokens


def test_what_is_no_path_rule_is_told() -> None:
    for rule in (otd.rules.KSeq(), "race"):
        with pytest.raises(CannotDecode, match=r"must be a path rule, got .* Use one, such as"):
            watermarked("key", 1, 2, rule)


@pytest.mark.parametrize("token", [-1, N])
def test_a_token_outside_the_vocabulary_is_no_evidence(token: int) -> None:
    with pytest.raises(otd.InvalidDrafts, match=f"position 1 must be from 0 to 7, got {token}"):
        detect([0, token], "key", 0, 2, N)


def test_the_text_does_not_depend_on_the_draft() -> None:
    pair = tiny_pair(seed=3, n=N)
    drafts = pair.draft, tiny_llama(9, N)
    prompts = [[1, 2], [3], [4, 4, 1]]
    options = DecodeOptions(max_tokens=20, stop=())
    made = [decode(Pair(pair.target, draft), prompts, watermarked("k", 3, 2), options) for draft in drafts]
    assert made[0].tokens == made[1].tokens
    assert made[0].block_efficiency > made[1].block_efficiency > 1  # a better draft only makes it quicker
    for row, prompt in enumerate(prompts):
        text = list(prompt)
        for place in range(20):
            law = next_token(pair.target_model, text, SamplingParams()).numpy()
            least = np.min([exponentials("k", row, place, number, N) for number in range(3)], 0)
            text.append(int((least / law).argmin()))
        assert made[0].tokens[row] == text[len(prompt) :]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_a_watermarked_text_equals_the_reference(rule: Any) -> None:
    pair, options, drafting = (
        tiny_pair(seed=3, n=N),
        DecodeOptions(max_tokens=20, stop=()),
        watermarked("k", 3, 2, rule),
    )
    prompts = [[1, 2], [3]]
    tokens = decode(pair, prompts, drafting, options).tokens
    assert tokens == [reference_decode(pair, prompt, drafting, options, row) for row, prompt in enumerate(prompts)]


def test_a_key_is_found_by_those_who_have_it() -> None:
    options = DecodeOptions(max_tokens=60, stop=(), rows=[7])
    tokens = decode(constant_pair(), [[1]], watermarked("key", 2, 2), options).tokens[0]
    right = detect(tokens, "key", 7, 2, N)
    assert right.z > 5 and right.chance < 1e-5
    for other in (detect(tokens, "other", 7, 2, N), detect(tokens, "key", 8, 2, N)):
        assert abs(other.z) < 4 and other.chance > 1e-4
    assert detect([], "key", 7, 2, N).chance == 1


def test_a_token_by_token_rule_keeps_a_part_of_the_strength() -> None:
    def mean(rule: Any) -> float:
        options = DecodeOptions(max_tokens=40, stop=())
        made = decode(constant_pair(), [[1]] * 40, watermarked("key", 2, 2, rule), options).tokens
        return float(np.mean([scores(text, "key", row, 2, N).mean() for row, text in enumerate(made)]))

    race, k_seq = mean(None), mean(K_SEQ)
    assert race > k_seq + 0.1 and k_seq > 1.05  # 1 without the key


def test_scores_without_the_key_are_exponential() -> None:
    tokens = np.random.default_rng(0).choice(N, 3000, p=P)
    made = np.sort(scores(tokens, "key", 0, 3, N))
    assert abs((1 - np.exp(-made)) - (np.arange(3000) + 0.5) / 3000).max() < 0.036  # Kolmogorov-Smirnov, 1e-3
    assert detect(tokens, "key", 0, 3, N).chance > 1e-4
