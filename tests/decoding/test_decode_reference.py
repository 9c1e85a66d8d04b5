"""The engine emits the very tokens that the slow obvious reference emits from the same uniforms."""

from __future__ import annotations

from typing import Any

import pytest
from slow import slow, slow_except
from tiny_models import tiny_llama, tiny_pair

import ot_draft as otd

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.cli.decode.page import mass_of  # noqa: E402
from ot_draft.decoding.drafting import Drafting  # noqa: E402
from ot_draft.decoding.loop import (  # noqa: E402
    DecodeOptions,
    decode,
    decode_steps,
)
from ot_draft.decoding.pair import Pair  # noqa: E402
from ot_draft.decoding.reference import reference_decode  # noqa: E402
from ot_draft.decoding.sampling import SamplingParams  # noqa: E402

paths, rules = otd.trees, otd.rules
PROMPTS = [[1, 2, 3, 4, 5, 6, 7], [5], [3, 1, 0]]
TREE = paths.TreeShape.by_level((3, 2, 1))
UNEVEN = paths.TreeShape((0, 0, 0, 1, 1, 3, 6))
WITHOUT = otd.WithoutReplacement()


def drafting(name: str) -> Drafting:
    """One of the draftings that are compared."""
    without = paths.TokenWise(rules.RecursiveRejectionWithoutReplacement())
    return {
        "autoregressive": Drafting.autoregressive,
        "one draft": lambda: Drafting.chains(1, 3, paths.TokenWise(rules.SpeculativeSampling())),
        "k-seq": lambda: Drafting.chains(3, 3, paths.TokenWise(rules.KSeq())),
        "optimal on a tree": lambda: Drafting(otd.trees.FixedTree(TREE), paths.TokenWise(rules.Optimal())),
        "without replacement": lambda: Drafting(otd.trees.FixedTree(TREE, WITHOUT), without),
        "without replacement, uneven": lambda: Drafting(otd.trees.FixedTree(UNEVEN, WITHOUT), without),
        "hybrid": lambda: Drafting(
            otd.trees.FixedTree(TREE, otd.Hybrid(top=1)), paths.TokenWise(rules.Optimal(law=otd.Hybrid(top=1)))
        ),
        "block": lambda: Drafting.chains(1, 4, paths.BlockVerification()),
        "traversal": lambda: Drafting.chains(3, 3, paths.Traversal()),
        "joint": lambda: Drafting.chains(3, 3, paths.Joint()),
        "top-k tokens": lambda: Drafting(otd.trees.FixedTree(TREE, otd.Hybrid(top=3)), paths.NaivePath()),
    }[name]()


NAMES = (
    "autoregressive",
    "one draft",
    "k-seq",
    "optimal on a tree",
    "without replacement",
    "without replacement, uneven",
    "hybrid",
    "block",
    "traversal",
    "joint",
    "top-k tokens",
)


@pytest.mark.parametrize("name", slow_except(NAMES, "autoregressive", "top-k tokens"))
def test_a_batch_of_three_equals_the_reference(name: str) -> None:
    pair, options = tiny_pair(seed=3, n=12), DecodeOptions(max_tokens=20, seed=7)
    made = decode(pair, PROMPTS, drafting(name), options)
    expected = [reference_decode(pair, prompt, drafting(name), options, row) for row, prompt in enumerate(PROMPTS)]
    assert made.tokens == expected
    lengths = torch.cat([step.length[step.active] for step in made.steps])
    assert name == "autoregressive" or len(lengths.unique()) > 2  # accepted lengths differ, also inside the batch


@pytest.mark.parametrize(
    "sampling",
    [
        slow(SamplingParams(0.7)),
        SamplingParams(0),
        slow(SamplingParams(1.3, top_k=5)),
        slow(SamplingParams(1, top_p=0.8)),
        SamplingParams(0.9, 6, 0.9, 0.05),
    ],
    ids=str,
)
def test_sampling_settings_apply_to_both_models_and_every_node(sampling: SamplingParams) -> None:
    pair, options = tiny_pair(seed=4, n=12), DecodeOptions(sampling, max_tokens=8, seed=1)
    made = decode(pair, PROMPTS, drafting("k-seq"), options).tokens
    assert made == [reference_decode(pair, p, drafting("k-seq"), options, row) for row, p in enumerate(PROMPTS)]


def test_a_text_does_not_depend_on_the_rest_of_the_batch() -> None:
    pair, options = tiny_pair(seed=5), DecodeOptions(max_tokens=15, seed=2)
    together = decode(pair, PROMPTS, drafting("k-seq"), options).tokens
    for row, prompt in enumerate(PROMPTS):
        alone = decode(pair, [prompt], drafting("k-seq"), DecodeOptions(max_tokens=15, seed=2, rows=[row])).tokens
        assert alone == [together[row]]
    assert decode(pair, PROMPTS, drafting("k-seq"), options).tokens == together
    assert decode(pair, PROMPTS, drafting("k-seq"), DecodeOptions(max_tokens=15, seed=3)).tokens != together


def test_texts_end_at_a_stop_token_or_at_the_last_token_allowed() -> None:
    pair = tiny_pair(seed=6)
    free = decode(pair, PROMPTS, drafting("k-seq"), DecodeOptions(max_tokens=24, stop=(), seed=4)).tokens
    ended = decode(pair, PROMPTS, drafting("k-seq"), DecodeOptions(max_tokens=24, stop=(2, 5), seed=4)).tokens
    assert [len(tokens) for tokens in free] == [24] * 3
    for tokens, whole in zip(ended, free, strict=True):
        first = next((place for place, token in enumerate(whole) if token in (2, 5)), 23)
        assert tokens == whole[: first + 1]
    assert len({len(tokens) for tokens in ended}) > 1


@pytest.mark.parametrize("tokens", [6, slow(16)])
def test_a_draft_that_scores_a_subset_of_the_vocabulary(tokens: int) -> None:
    from ot_draft.decoding.draft_models import SubsetDraft

    target, other = tiny_llama(1, 12), tiny_llama(2, 12)
    draft = SubsetDraft(other.model, target.get_input_embeddings(), torch.tensor([0, 2, 3, 7, 11])).to(torch.float64)
    pair, options = Pair(target, draft), DecodeOptions(max_tokens=tokens)
    for name in ("k-seq", "without replacement"):  # five tokens a node at most: the sixth is drawn where q is 0
        made = decode(pair, PROMPTS, drafting(name), options).tokens
        assert made == [reference_decode(pair, p, drafting(name), options, row) for row, p in enumerate(PROMPTS)]


def test_steps_carry_what_they_did() -> None:
    pair, options = tiny_pair(seed=3, n=12), DecodeOptions(max_tokens=12, laws=True)
    plan = drafting("optimal on a tree")
    steps = list(decode_steps(pair, PROMPTS, plan, options))
    for step in steps:
        assert step.p is not None and step.q is not None
        assert step.drafted.shape == (3, TREE.size) and step.p.shape == (3, TREE.size + 1, 12)
        for row in range(3):
            _check_row(step, plan, row)
    assert [row[0].item() for row in torch.stack([step.root for step in steps]).T] == [p[-1] for p in PROMPTS]


def _check_row(step: Any, plan: Drafting, row: int) -> None:
    length = int(step.length[row])
    accepted = step.nodes[row, :length].tolist()
    assert [step.drafted[row, node - 1].item() for node in accepted] == step.chosen[row, :length].tolist()
    assert step.nodes[row, length:].tolist() == [-1] * (plan.tree.length - length)
    for node, parent in enumerate(step.shape(row).parents, 1):
        token = step.drafted[row, node - 1]
        law, drawn_from = step.p[row, parent], step.q[row, parent]
        mass = mass_of(step, row, parent, int(token))
        assert (mass.p, mass.q) == (law[token], drawn_from[token])
        assert (mass.p_rank, mass.q_rank) == (1 + (law > law[token]).sum(), 1 + (drawn_from > drawn_from[token]).sum())
    following, at = int(step.chosen[row, length]), (accepted or [0])[-1]
    assert mass_of(step, row, at, following).p == step.p[row, at, following] > 0
