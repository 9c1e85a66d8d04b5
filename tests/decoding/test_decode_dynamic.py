"""Trees that follow the draft in the engine: against the slow obvious reference, with errors planted, and without a look at a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from slow import slow_except
from tiny_models import tiny_llama, tiny_pair

import ot_draft as otd

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.cli.decode.page import mass_of  # noqa: E402
from ot_draft.decoding import (  # noqa: E402
    DecodeOptions,
    Drafting,
    Pair,
    Processed,
    PromptLookup,
    SamplingParams,
    decode,
    decode_steps,
)
from ot_draft.decoding.cache import tree_mask  # noqa: E402
from ot_draft.decoding.draft_models import SubsetDraft  # noqa: E402
from ot_draft.decoding.drafters import ModelDrafter, SlotVisibility  # noqa: E402
from ot_draft.decoding.loop import begin  # noqa: E402
from ot_draft.decoding.model_runner import ModelRunner  # noqa: E402
from ot_draft.decoding.reference import reference_decode  # noqa: E402
from ot_draft.trees.drafting.baselines import ConfidentTree, SampledTree  # noqa: E402
from ot_draft.trees.tree import TreeBounds  # noqa: E402

paths, rules = otd.trees, otd.rules
WITHOUT = paths.TokenWise(rules.RecursiveRejectionWithoutReplacement())
PROMPTS = [[1, 2, 3, 4, 5, 6, 7], [5], [3, 1, 0]]
DRAFTINGS: dict[str, Callable[[], Drafting]] = {
    "ours": lambda: Drafting.of(paths.AdaptiveTree(8, 4, 4)),
    "ours, optimal": lambda: Drafting(
        paths.AdaptiveTree(8, 4, 4), paths.TokenWise(rules.Optimal(law=otd.laws.PerNodeFixedTokens()))
    ),
    "ours, traversal": lambda: Drafting.of(paths.CountedTree(8, 4)),
    "lookup and model": lambda: Drafting.of(paths.LookupTree(10, 4), lookup=PromptLookup(3, 1)),
    "ours, fixed first": lambda: Drafting(paths.AdaptiveTree(8, 4, 4), paths.Traversal()),
    "EAGLE-2": lambda: Drafting.of(ConfidentTree(8, 4, 3, 2)),
    "OPT-Tree": lambda: Drafting.of(ConfidentTree.opt_tree(7, 4)),
    "DySpec": lambda: Drafting.of(SampledTree(8, 4, 3, 3)),
    "DySpec, traversal": lambda: Drafting(SampledTree(8, 4, 3, 3), paths.Traversal()),
    "SpecDec++": lambda: Drafting.of(paths.StoppedPath(5, 0.6)),
    "SpecDec++, token by token": lambda: Drafting(
        paths.StoppedPath(4, 0.6), paths.TokenWise(rules.SpeculativeSampling())
    ),
}
EACH = pytest.mark.parametrize("name", DRAFTINGS)
SOME = pytest.mark.parametrize("name", slow_except(DRAFTINGS, "ours", "lookup and model", "DySpec, traversal"))
OPTIONS = DecodeOptions(max_tokens=9, seed=7)


@cache
def pair() -> Pair:
    return tiny_pair(seed=3, n=12)


@cache
def expected(name: str) -> list[list[int]]:
    """What the reference emits after every prompt."""
    return [reference_decode(pair(), prompt, DRAFTINGS[name](), OPTIONS, row) for row, prompt in enumerate(PROMPTS)]


@SOME
def test_a_batch_of_trees_of_several_shapes_equals_the_reference(name: str) -> None:
    made = decode(pair(), PROMPTS, DRAFTINGS[name](), OPTIONS)
    assert made.tokens == expected(name)
    assert len(torch.cat([step.length[step.active] for step in made.steps]).unique()) > 1
    shapes = {step.shape(row) for step in made.steps for row in range(3) if step.active[row]}
    assert len(shapes) > 1, "the shapes follow the draft"


@dataclass(frozen=True)
class AsData(paths.FixedTree):
    """Trees of one shape, of which nobody is told that they are."""

    @property
    def bounds(self) -> Any:
        return TreeBounds(self.shape.size, self.shape.length, self.shape.max_children)

    @property
    def reads(self) -> int:
        return self.shape.size


@pytest.mark.parametrize("rule", [paths.Traversal(), WITHOUT], ids=lambda rule: rule.name)
def test_a_shape_is_parents_that_never_change(rule: paths.PathRule) -> None:
    shape, law = paths.TreeShape((0, 0, 0, 1, 1, 3, 6)), otd.WithoutReplacement()
    texts = [decode(pair(), PROMPTS, Drafting(kind(shape, law), rule), OPTIONS) for kind in (paths.FixedTree, AsData)]
    assert texts[0].tokens == texts[1].tokens
    for one, other in zip(texts[0].steps, texts[1].steps, strict=True):
        assert torch.equal(one.drafted, other.drafted) and torch.equal(one.nodes, other.nodes)
        assert one.shape(0) == other.shape(0) == shape


def _slots_are_taken_for_nodes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ModelDrafter, "slots", lambda self, nodes: nodes)


def _draft_rows_are_not_moved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ModelDrafter, "slots", lambda self, nodes: torch.full_like(nodes, -1))


def _the_draft_sees_all_that_was_read(patch: pytest.MonkeyPatch) -> None:
    made = SlotVisibility.add

    def add(self: SlotVisibility, slots: Any, above: Any) -> Any:
        made(self, slots, above)
        return torch.ones_like(self.rows[:, :1]).expand(-1, slots.shape[1], -1)

    patch.setattr(SlotVisibility, "add", add)


def _a_level_stands_one_too_far(patch: pytest.MonkeyPatch) -> None:
    made = ModelRunner.read_level
    patch.setattr(
        ModelRunner,
        "read_level",
        lambda self, read, above, mask, slots, depth: made(self, read, above, mask, slots, depth + 1),
    )


@pytest.mark.parametrize(
    "plant",
    [
        _slots_are_taken_for_nodes,
        _draft_rows_are_not_moved,
        _the_draft_sees_all_that_was_read,
        _a_level_stands_one_too_far,
    ],
)
def test_an_error_on_the_drafts_side_is_found(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs no losslessness, only acceptance: the law of the texts does not show it, their tokens do."""
    right = by_samples()
    assert [text[:9] for text in right] == expected("DySpec")
    plant(monkeypatch)
    assert by_samples.__wrapped__() != right


@cache
def by_samples() -> list[list[int]]:
    """What the engine emits on sampled trees."""
    return decode(pair(), PROMPTS, DRAFTINGS["DySpec"](), replace(OPTIONS, max_tokens=30)).tokens


@pytest.mark.parametrize(
    "name",
    slow_except(
        DRAFTINGS, "ours", "EAGLE-2", "DySpec", "DySpec, traversal", "SpecDec++", "OPT-Tree", "lookup and model"
    ),
)
def test_a_text_does_not_depend_on_the_rest_of_the_batch(name: str) -> None:
    options = replace(OPTIONS, max_tokens=10)
    together = decode(pair(), PROMPTS, DRAFTINGS[name](), options).tokens
    for row, prompt in enumerate(PROMPTS):
        alone = decode(pair(), [prompt], DRAFTINGS[name](), replace(options, rows=[row])).tokens
        assert alone == [together[row]]


def test_greedy_texts_are_the_targets() -> None:
    greedy = DecodeOptions(SamplingParams(0), max_tokens=8)
    plain = decode(pair(), PROMPTS, Drafting.autoregressive(), greedy).tokens
    for name in ("ours", "ours, traversal", "EAGLE-2", "DySpec", "SpecDec++"):
        assert decode(pair(), PROMPTS, DRAFTINGS[name](), greedy).tokens == plain


@pytest.mark.parametrize("name", ["ours", "EAGLE-2"])
def test_a_draft_that_scores_a_subset_of_the_vocabulary(name: str) -> None:
    target, other = tiny_llama(1, 12), tiny_llama(2, 12)
    draft = SubsetDraft(other.model, target.get_input_embeddings(), torch.tensor([0, 2, 3, 7, 11])).to(torch.float64)
    subset = Pair(target, draft)
    made = decode(subset, PROMPTS[:2], DRAFTINGS[name](), OPTIONS).tokens
    assert made == [reference_decode(subset, p, DRAFTINGS[name](), OPTIONS, row) for row, p in enumerate(PROMPTS[:2])]


def no_repetition(tokens: Any, scores: Any) -> Any:
    """A processor that looks at the text: the last token does not come again."""
    return scores.scatter(1, tokens[:, -1:], -torch.inf)


@pytest.mark.parametrize("name", ["EAGLE-2"])
def test_processors_see_the_way_to_every_node(name: str) -> None:
    options = replace(OPTIONS, max_tokens=6, processed=[Processed([no_repetition])] * 2)
    made = decode(pair(), PROMPTS[:2], DRAFTINGS[name](), options).tokens
    assert made == [reference_decode(pair(), p, DRAFTINGS[name](), options, row) for row, p in enumerate(PROMPTS[:2])]
    assert all(one != other for text in made for one, other in pairwise(text))


def one_step(engine: Any) -> None:
    engine.propose()
    engine.verify()
    engine.select()
    engine.keep()


@EACH
def test_a_part_of_a_step_leaves_nothing_to_the_next_that_it_worked_out_late(name: str) -> None:
    """A CUDA graph holds one part. What `select` asks of a layout, and that keeps, would not be worked out again for the next tree."""
    engine = begin(tiny_pair(), [[1, 2, 3], [4]], DRAFTINGS[name](), DecodeOptions(max_tokens=12)).next()
    engine.draw(0, [0, 1], 0)
    engine.propose()
    engine.verify()
    known = set(vars(engine.layout))
    engine.select()
    engine.keep()
    assert set(vars(engine.layout)) == known


@SOME
def test_a_step_waits_for_no_value_and_takes_nothing_from_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the meta device, which has no values; what is recorded must not copy Python numbers to the device."""
    nowhere = Pair(tiny_llama(0).to("meta"), tiny_llama(1).to("meta"))
    engine = begin(nowhere, [[1, 2, 3], [4]], DRAFTINGS[name](), DecodeOptions(max_tokens=8)).next()
    assert engine.recordable
    engine.draw(0, [0, 1], 0)
    one_step(engine)
    assert engine.p.shape == (2, engine.drafting.tree.bounds.size + 1, 8) and engine.p.device.type == "meta"
    asked: list[str] = []
    for function in ("tensor", "as_tensor", "from_numpy"):
        made = getattr(torch, function)
        monkeypatch.setattr(
            torch, function, lambda *given, made=made, **more: (asked.append(str(given)), made(*given, **more))[1]
        )
    one_step(engine)
    assert asked == []


def test_the_tensors_of_a_step_stay_where_they_are() -> None:
    for name in ("ours", "EAGLE-2"):
        engine = begin(tiny_pair(), [[1, 2, 3], [4]], DRAFTINGS[name](), DecodeOptions(max_tokens=12)).next()
        addresses = None
        for step in range(3):
            engine.draw(0, [0, 1], step)
            one_step(engine)
            drafter: Any = engine.drafter
            fixed = [drafter.tokens, drafter.q, drafter.parents, drafter.fixed_count, drafter.slot_of]
            fixed += [engine.nodes, engine.chosen]
            readers = engine.target, drafter.runner
            fixed += [memory for each in readers for memory in (*each.cache.keys.values(), *each.cache.values.values())]
            now = [tensor.data_ptr() for tensor in fixed]
            assert addresses in (None, now)
            addresses = now


def test_steps_carry_what_they_did() -> None:
    options = replace(OPTIONS, laws=True)
    for name in ("ours", "ours, traversal", "EAGLE-2", "DySpec"):
        for step in decode_steps(pair(), PROMPTS, DRAFTINGS[name](), options):
            for row in range(3):
                _check_row(step, row)


def _check_row(step: Any, row: int) -> None:
    shape, length = step.shape(row), int(step.length[row])
    accepted = step.nodes[row, :length].tolist()
    assert tuple(accepted) == shape.path(accepted[-1] if accepted else 0)
    assert [int(step.drafted[row, node - 1]) for node in accepted] == step.chosen[row, :length].tolist()
    assert (step.drafted[row, shape.size :] == -1).all() and step.p.shape[1] > shape.size
    for node, parent in enumerate(shape.parents, 1):
        token = int(step.drafted[row, node - 1])
        mass = mass_of(step, row, parent, token)
        assert (mass.p, mass.q) == (step.p[row, parent, token], step.q[row, parent, token]) and mass.q > 0
        assert abs(float(step.q[row, parent].sum()) - 1) < 1e-9
    for node in range(shape.size + 1):
        assert len(shape.children(node)) > 0 or not step.q[row, node : node + 1].any()
    again = step.tree(row)
    assert again.tokens.shape[1] == step.p.shape[1] - 1 and again.law == step.drafting.tree.law


def test_a_node_sees_the_context_itself_and_its_ancestors() -> None:
    parents = torch.tensor([[0, 0, 1, 3, 5], [0, 1, 1, 2, 4]])
    attention_mask = torch.from_numpy(TreeBounds(5, 4, 2).layout(parents).attention_mask)
    for row, shape in enumerate([paths.TreeShape((0, 0, 1, 3)), paths.TreeShape((0, 1, 1, 2, 4))]):
        for node in range(shape.size + 1):
            assert attention_mask[row, node].nonzero()[:, 0].tolist() == [0, *shape.path(node)]
    lengths = torch.tensor([3, 1])
    visible = tree_mask(attention_mask, lengths, 12)
    for row, length in enumerate(lengths.tolist()):
        assert visible[row, :, :length].all() and not visible[row, :, length + 6 :].any()
        assert torch.equal(visible[row, :, length : length + 6], attention_mask[row])
    seen = SlotVisibility(2, 6, torch.device("cpu"))
    first = seen.add(torch.tensor([[1, 2], [1, -1]]), torch.tensor([[0, 0], [0, 0]]))
    second = seen.add(torch.tensor([[3], [2]]), torch.tensor([[1], [1]]))
    assert torch.equal(torch.cat((first[0], second[0])), attention_mask[0, 1:4])
    assert torch.equal(torch.stack((first[1, 0], second[1, 0])), attention_mask[1, 1:3])


def test_a_rule_that_is_not_lossless_there_is_refused() -> None:
    for grower, rule, text in (
        (SampledTree(8), paths.Joint(), "valid on trees whose children follow"),
        (paths.CountedTree(8), paths.Joint(), "valid on trees whose children follow"),
        (paths.AdaptiveTree(8), paths.TokenWise(rules.KSeq()), "drawn by PerNodeFixedTokens"),
    ):
        with pytest.raises(otd.InvalidDrafts, match=text):
            Drafting(grower, rule)
