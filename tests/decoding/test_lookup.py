"""Prompt lookup as a source of drafts: what it finds, and the texts that come of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tiny_models import tiny_llama, tiny_pair

import ot_draft as otd
from ot_draft import trees

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.decoding import (  # noqa: E402
    CannotDecode,
    DecodeOptions,
    Drafting,
    Pair,
    PromptLookup,
    SamplingParams,
    decode,
    reference_decode,
)
from ot_draft.decoding.prompt_lookup import Match  # noqa: E402


@dataclass(frozen=True)
class Knows(PromptLookup):
    """Finds the given tokens behind every text of seven tokens or more."""

    tokens: tuple[int, ...] = ()

    def find(self, text: Sequence[int]) -> Match:
        return Match(self.tokens, 1) if len(text) >= 7 else Match()


PROMPTS = [[1, 2, 3, 1, 2, 3, 1], [5], [3, 1, 0, 3, 1]]


def test_what_followed_is_drafted_again() -> None:
    lookup = PromptLookup(num_tokens=3, max_ngram=2)
    assert lookup.find([7, 8, 9, 4, 8, 9]) == Match((4, 8, 9), 2)
    assert lookup.find([1, 9, 2, 3, 9]) == Match((2, 3, 9), 1)
    assert lookup.find([8, 9, 1, 8, 9, 2, 8, 9]) == Match((1, 8, 9), 2)  # the first place of the longest match
    assert lookup.find([4, 4]) == Match((4,), 1)
    assert lookup.find([1, 2, 3]) == lookup.find([1]) == Match()


def test_it_finds_what_transformers_finds() -> None:
    from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

    generator = np.random.default_rng(3)
    found = 0
    for _ in range(200):
        tokens, ngram, n = (int(generator.integers(1, high)) for high in (6, 5, 7))
        text = generator.integers(0, n, int(generator.integers(2, 30)))
        theirs = PromptLookupCandidateGenerator(
            num_output_tokens=tokens, max_matching_ngram_size=ngram, max_length=1000, vocab_size=n
        )
        given = torch.tensor(text)[None]
        candidates = theirs.get_candidates(given)[0][0, len(text) :].tolist()
        assert list(PromptLookup(tokens, ngram).find(text.tolist()).tokens) == candidates
        found += bool(candidates)
    assert found > 50


@pytest.mark.parametrize("sampling", [SamplingParams(), SamplingParams(0.4, top_k=4)], ids=str)
def test_a_batch_equals_the_reference_without_a_draft_model(sampling: SamplingParams) -> None:
    pair, drafting = Pair(tiny_llama(3, 6)), Drafting.looked_up(PromptLookup(4, 2))
    options = DecodeOptions(sampling, max_tokens=24, seed=7)
    made = decode(pair, PROMPTS, drafting, options)
    assert made.tokens == [reference_decode(pair, p, drafting, options, row) for row, p in enumerate(PROMPTS)]
    assert len(torch.cat([step.length[step.active] for step in made.steps]).unique()) > 2
    texts = [list(prompt) for prompt in PROMPTS]
    for step in made.steps:  # no more is verified than was found
        found = [
            len(PromptLookup(4, 2).find(text).tokens) for text, going in zip(texts, step.active, strict=True) if going
        ]
        assert step.drafting.tree.bounds.size == max(found)
        for row, text in enumerate(texts):
            text.extend(step.tokens(row))
    assert len({step.drafting.tree.bounds.size for step in made.steps}) > 2
    alone = decode(pair, PROMPTS[2:], drafting, DecodeOptions(sampling, max_tokens=24, seed=7, rows=[2]))
    assert alone.tokens == made.tokens[2:]


def test_a_text_that_has_ended_is_not_looked_up() -> None:
    pair, prompts = Pair(tiny_llama(3, 6)), [[3, 1, 0, 3, 1, 0, 2], [2]]
    options = DecodeOptions(SamplingParams(0), max_tokens=4)
    plain = decode(pair, prompts, options=options).tokens
    made = decode(pair, prompts, Drafting.looked_up(Knows(4, tokens=tuple(plain[0]))), options)
    assert made.tokens == plain
    assert [step.drafting.tree.bounds.size for step in made.steps] == [
        4,
        0,
        0,
        0,
    ]  # the first text has ended after one step


def test_greedy_text_is_the_plain_one() -> None:
    pair, options = tiny_pair(seed=5, n=6), DecodeOptions(SamplingParams(0), max_tokens=30)
    looked_up = decode(pair, PROMPTS, Drafting.looked_up(PromptLookup(6)), options)
    assert looked_up.tokens == decode(pair, PROMPTS, options=options).tokens
    assert len(looked_up.steps) < 20


def test_the_law_of_a_looked_up_token_is_a_point_mass() -> None:
    steps = decode(Pair(tiny_llama(3, 6)), PROMPTS, Drafting.looked_up(PromptLookup(4)), DecodeOptions(laws=True)).steps
    seen = 0
    for step in steps:
        assert step.q is not None
        for row, tokens in enumerate(step.drafted.tolist()):
            for node, token in enumerate(tokens):
                law: Any = step.q[row, node]
                assert law.sum() == (token >= 0) and (token < 0 or law[token] == 1)
                seen += token >= 0
    assert seen > 20


def test_for_a_tree_one_equal_token_is_not_enough() -> None:
    alone, two = [1, 2, 3, 2], [1, 2, 3, 1, 2]
    assert PromptLookup(4).find(alone).tokens == (3, 2) and PromptLookup(4).for_tree.find(alone).tokens == ()
    assert PromptLookup(4).for_tree.find(two) == PromptLookup(4).find(two) == Match((3, 1, 2), 2)
    assert PromptLookup(4, 1).for_tree == PromptLookup(4, 1) and PromptLookup(4, 3, 3).for_tree == PromptLookup(4, 3, 3)


def test_bad_settings_are_told() -> None:
    with pytest.raises(CannotDecode, match="prompt-lookup-num-tokens must be an integer of at least 1, got 0"):
        PromptLookup(0)
    with pytest.raises(CannotDecode, match="max-matching-ngram-size must be an integer of at least 1, got -1"):
        PromptLookup(max_ngram=-1)
    with pytest.raises(CannotDecode, match=r"min_ngram must be from 1 to max_ngram \(2\), got 3"):
        PromptLookup(min_ngram=3)
    with pytest.raises(CannotDecode, match="draft must be a model for this drafting"):
        decode(Pair(tiny_llama(3)), [[1]], Drafting.chains(1, 2, otd.trees.BlockVerification()))


@dataclass(frozen=True)
class Counts(PromptLookup):
    """Notes the texts that it was asked about."""

    asked: list[tuple[int, ...]] = field(default_factory=list, compare=False)

    def find(self, text: Sequence[int]) -> Match:
        self.asked.append(tuple(text))
        return super().find(text)


@pytest.mark.parametrize("alone", [True, False])
def test_a_text_is_searched_once_a_step(alone: bool) -> None:
    lookup = Counts(4, 2)
    plan = Drafting.looked_up(lookup) if alone else Drafting.of(trees.LookupTree(6, 3), lookup=lookup)
    decode(tiny_pair(seed=5, n=6), PROMPTS[:1], plan, DecodeOptions(max_tokens=12))
    assert len(lookup.asked) == len(set(lookup.asked)) > 3


def test_only_a_tree_that_takes_them_is_given_looked_up_tokens() -> None:
    with pytest.raises(CannotDecode, match="counted, which takes no looked-up tokens"):
        Drafting.of(trees.CountedTree(6), lookup=PromptLookup())
    assert Drafting.of(trees.LookupTree(6, 4)).lookup == PromptLookup(4, max_ngram=2, min_ngram=2)
