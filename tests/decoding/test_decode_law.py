"""The first tokens out of the whole engine follow the target's law: against its exact enumeration, for every rule.

Caches, masks, padding, batching, draws and selection are all on the way. Each verdict is a chi-square test that rejects a
right engine with probability 1e-9; planted errors must be rejected by it, those of static trees from as many texts as pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from chances import chance
from slow import slow
from tiny_models import tiny_pair, tiny_state_pair

import ot_draft as otd

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


from ot_draft.decoding import (  # noqa: E402
    Drafting,
    Policy,
    PromptLookup,
    model_runner,
)
from ot_draft.decoding import engine as engine_module  # noqa: E402
from ot_draft.decoding.cache import SlotCache  # noqa: E402
from ot_draft.decoding.engine import Engine  # noqa: E402
from ot_draft.decoding.language_model import LanguageModel  # noqa: E402
from ot_draft.decoding.loop import DecodeOptions, decode  # noqa: E402
from ot_draft.decoding.reference import next_token  # noqa: E402
from ot_draft.decoding.sampling import SamplingParams  # noqa: E402
from ot_draft.decoding.tuning import Auto  # noqa: E402
from ot_draft.trees.drafting.baselines import ConfidentTree, SampledTree, StoppedGrowth  # noqa: E402

paths, rules = otd.trees, otd.rules
FALSE_ALARM = 1e-9
N, EMITTED = 8, 3  # vocabulary, tokens looked at
# Texts a prompt, few and many.
TEXTS = 600, 2000
ON_TREES = 600, 1000  # where the trees follow the draft
FEWER = 150, 500  # for the rules that solve every row of a batch by itself
MANY = pytest.mark.parametrize("many", [False, slow(True)], ids=["few texts", "many texts"])
PROMPTS = [[1, 2, 3, 4], [5], [3, 1]]
REPEATING = [[1, 2, 3, 1, 2], [0, 0], [3, 1, 0, 3]]  # where prompt lookup finds something
TREE = paths.TreeShape.by_level((2, 2))
GREEDY = otd.Hybrid(top=1)
FREE_POSITIONS = paths.Costs({1: 1.0, 64: 1.1}, {1: 0.01, 8: 0.01})  # of a machine on which much is drafted
WITHOUT = otd.WithoutReplacement()

DRAFTINGS: dict[str, Callable[[], Policy]] = {
    "autoregressive": Drafting.autoregressive,
    "speculative sampling": lambda: Drafting.chains(1, 2, paths.TokenWise(rules.SpeculativeSampling())),
    "k-seq": lambda: Drafting.chains(3, 2, paths.TokenWise(rules.KSeq())),
    "recursive rejection": lambda: Drafting.chains(3, 2, paths.TokenWise(rules.RecursiveRejection())),
    "optimal": lambda: Drafting.chains(3, 2, paths.TokenWise(rules.Optimal())),
    "optimal, hybrid drafts": lambda: Drafting(
        otd.trees.FixedTree(TREE, GREEDY), paths.TokenWise(rules.Optimal(law=GREEDY))
    ),
    "without replacement": lambda: Drafting(
        paths.FixedTree(TREE, WITHOUT), paths.TokenWise(rules.RecursiveRejectionWithoutReplacement())
    ),
    "block verification": lambda: Drafting.chains(1, 3, paths.BlockVerification()),
    "traversal": lambda: Drafting.chains(3, 2, paths.Traversal()),
    "joint": lambda: Drafting.chains(3, 2, paths.Joint()),
    "top tokens": lambda: Drafting(otd.trees.FixedTree(TREE, otd.Hybrid(top=2)), paths.NaivePath()),
    "prompt lookup": lambda: Drafting.looked_up(PromptLookup(2)),
    "auto": lambda: Auto(costs=FREE_POSITIONS, paths=((2, 2), (3, 2))),
}
DYNAMIC: dict[str, Callable[[], Drafting]] = {
    "ours": lambda: Drafting.of(paths.AdaptiveTree(5, 2, 3)),
    "optimal, ours": lambda: Drafting(
        paths.AdaptiveTree(5, 2, 3), paths.TokenWise(rules.Optimal(law=otd.laws.PerNodeFixedTokens()))
    ),
    "ours, traversal": lambda: Drafting.of(paths.CountedTree(6, 3)),
    "EAGLE-2": lambda: Drafting.of(ConfidentTree(6, 3, 3, 2)),
    "OPT-Tree": lambda: Drafting.of(ConfidentTree.opt_tree(6, 3)),
    "DySpec": lambda: Drafting.of(SampledTree(6, 3, 3, 2)),
    "lookup and model": lambda: Drafting.of(paths.LookupTree(6, 3), lookup=PromptLookup(2, 1)),
    "DySpec, traversal": lambda: Drafting(SampledTree(6, 3, 3, 2), paths.Traversal()),
    "SpecDec++": lambda: Drafting.of(paths.StoppedPath(3, 0.5)),
    "SpecDec++, token by token": lambda: Drafting(
        paths.StoppedPath(3, 0.5), paths.TokenWise(rules.SpeculativeSampling())
    ),
}


def models() -> Any:
    return tiny_pair(seed=11, n=N, layers=2)


@cache
def exact_law(prompt: tuple[int, ...], sampling: SamplingParams) -> np.ndarray:
    """Law of the first EMITTED tokens after the prompt, (N,) * EMITTED: the product of the target's conditionals."""
    law, target = np.ones(()), models().target_model
    for depth in range(EMITTED):
        texts = [[*prompt, *prefix] for prefix in product(range(N), repeat=depth)]
        rows = [next_token(target, text, sampling).numpy() for text in texts]
        law = law[..., None] * np.reshape(rows, (N,) * (depth + 1))
    return law


def verdicts(drafting: Policy, sampling: SamplingParams, texts: int, prompts: list[list[int]] = PROMPTS) -> list[float]:
    """The chance, for each prompt, of what the engine emits in one batch of all of them."""
    laws = (exact_law(tuple(prompt), sampling) for prompt in prompts)
    return [chance(*each) for each in zip(emitted(drafting, sampling, texts, prompts), laws, strict=True)]


def emitted(
    drafting: Policy, sampling: SamplingParams, texts: int, prompts: list[list[int]] = PROMPTS
) -> list[np.ndarray]:
    """How often the engine emits which tokens after each prompt, in one batch of all of them: (N,) * EMITTED each."""
    batch = [prompt for prompt in prompts for _ in range(texts)]
    tokens = np.array(decode(models(), batch, drafting, DecodeOptions(sampling, max_tokens=EMITTED)).tokens)
    found = []
    for rows in tokens.reshape(len(prompts), texts, EMITTED):
        counts = np.zeros((N,) * EMITTED)
        np.add.at(counts, tuple(rows.T), 1)
        found.append(counts)
    return found


@MANY
@pytest.mark.parametrize("name", DRAFTINGS)
def test_the_first_tokens_follow_the_target(name: str, many: bool) -> None:
    texts = FEWER if name.startswith(("optimal", "joint", "auto")) else TEXTS
    prompts = REPEATING if name in ("prompt lookup", "auto") else PROMPTS
    assert min(verdicts(DRAFTINGS[name](), SamplingParams(), texts[many], prompts)) > FALSE_ALARM / len(PROMPTS)


@MANY
@pytest.mark.parametrize("name", DYNAMIC)
def test_the_first_tokens_follow_the_target_where_the_tree_follows_the_draft(name: str, many: bool) -> None:
    """Every text of the batch has a tree of its own shape."""
    texts = FEWER if name in ("ours", "optimal, ours") else ON_TREES
    prompts = REPEATING if name == "lookup and model" else PROMPTS
    assert min(verdicts(DYNAMIC[name](), SamplingParams(), texts[many], prompts)) > FALSE_ALARM / len(PROMPTS)


@MANY
def test_a_draft_that_reads_hidden_states_costs_acceptance_only(many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    draft = tiny_state_pair(0, N).draft
    pair = replace(models(), draft=draft)
    monkeypatch.setitem(globals(), "models", lambda: pair)
    assert min(verdicts(DRAFTINGS["k-seq"](), SamplingParams(), TEXTS[many])) > FALSE_ALARM / len(PROMPTS)


@MANY
def test_with_truncated_laws_too(many: bool) -> None:
    sampling = SamplingParams(0.8, top_k=5, top_p=0.95)
    assert min(verdicts(DRAFTINGS["k-seq"](), sampling, TEXTS[many])) > FALSE_ALARM / len(PROMPTS)


def _siblings_see_each_other(patch: pytest.MonkeyPatch) -> None:
    made = model_runner.ModelRunner.read_tree

    def read_tree(self: Any, tokens: Any, parents: Any, attention_mask: Any, depths: Any) -> Any:
        attention_mask[:, 1:, 1:] |= parents[:, :, None] == parents[:, None]
        return made(self, tokens, parents, attention_mask, depths)

    patch.setattr(model_runner.ModelRunner, "read_tree", read_tree)


def _rows_are_not_moved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SlotCache, "move", lambda self, sources, destinations: None)


def _uniforms_are_used_again(patch: pytest.MonkeyPatch) -> None:
    made = engine_module.uniforms
    patch.setattr(engine_module, "uniforms", lambda seed, rows, step, *given: made(seed, rows, 0, *given))


def _all_texts_as_long_as_the_longest(patch: pytest.MonkeyPatch) -> None:
    made = model_runner.tree_mask
    patch.setattr(
        model_runner,
        "tree_mask",
        lambda attention_mask, lengths, *given: made(attention_mask, lengths.amax().expand_as(lengths), *given),
    )


def _texts_share_their_uniforms(patch: pytest.MonkeyPatch) -> None:
    made = engine_module.uniforms
    patch.setattr(engine_module, "uniforms", lambda seed, rows, *given: made(seed, [row % 100 for row in rows], *given))


def _drafts_at_another_temperature(patch: pytest.MonkeyPatch) -> None:
    made = Engine.propose

    def propose(self: Engine) -> None:
        made(self)
        q = self.drafter.q
        q.copy_(q**0.5)
        q.div_(q.sum(-1, keepdim=True))

    patch.setattr(Engine, "propose", propose)


@pytest.mark.parametrize(
    ("plant", "texts"),
    [
        (_siblings_see_each_other, 600),
        (_rows_are_not_moved, 600),
        slow(_uniforms_are_used_again, 2000),
        (_all_texts_as_long_as_the_longest, 600),
        (_texts_share_their_uniforms, 600),
        (_drafts_at_another_temperature, 600),
    ],
)
def test_a_planted_error_is_rejected(
    plant: Callable[[pytest.MonkeyPatch], None], texts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert min(verdicts(DRAFTINGS["k-seq"](), SamplingParams(), texts)) < FALSE_ALARM / len(PROMPTS)


def _nodes_stand_one_too_far(patch: pytest.MonkeyPatch) -> None:
    made = LanguageModel.forward

    def forward(
        self: LanguageModel,
        cache: Any,
        tokens: Any,
        slots: Any,
        positions: Any,
        attention_mask: Any,
        last: int = 0,
        **more: Any,
    ) -> Any:
        verifies = not last and tokens.shape[1] > 1
        shifted = positions + (positions > positions[:, :1]) if verifies else positions
        return made(self, cache, tokens, slots, shifted, attention_mask, last, **more)

    patch.setattr(LanguageModel, "forward", forward)


def _trees_of_other_texts_are_verified(patch: pytest.MonkeyPatch) -> None:
    made = Engine._trees

    def trees(self: Engine) -> tuple[Any, Any]:
        tokens, parents = made(self)
        return tokens, parents.roll(1, 0)

    patch.setattr(Engine, "_trees", trees)


def _the_last_draw_knows_its_token(patch: pytest.MonkeyPatch) -> None:
    """A drafted node whose token the draft thinks unlikely is dropped again."""
    made = StoppedGrowth.grow

    def grow(self: StoppedGrowth, q: Any) -> None:
        made(self, q)
        last = self.drafting.bounds.length - self.levels - 1
        token = torch.from_numpy(self._tokens[:, last : last + 1])
        unlikely = (q[:, 0].gather(1, token.clamp(min=0)) < 0.3).numpy()
        self._tokens[:, last : last + 1][unlikely] = -1
        self._parents[:, last : last + 1][unlikely] = self.drafting.budget
        self._slots[unlikely] = -1
        self.slots = torch.from_numpy(self._slots)

    patch.setattr(StoppedGrowth, "grow", grow)


@pytest.mark.parametrize(
    ("name", "plant", "texts"),
    [
        ("EAGLE-2", _siblings_see_each_other, 1500),
        slow("EAGLE-2", _rows_are_not_moved, 2000),
        slow("DySpec", _nodes_stand_one_too_far, 2000),
        slow("DySpec", _trees_of_other_texts_are_verified, 2000),
        ("SpecDec++", _the_last_draw_knows_its_token, 1200),
    ],
)
def test_a_planted_error_on_dynamic_trees_is_rejected(
    name: str, plant: Callable[[pytest.MonkeyPatch], None], texts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert min(verdicts(DYNAMIC[name](), SamplingParams(), texts)) < FALSE_ALARM / len(PROMPTS)


def test_a_draft_that_is_drawn_again_from_the_targets_draw_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked-up tokens that are taken as drawn by the target where its draw differs: the planted error of naive sampling."""
    made = Engine.select

    def select(self: Engine) -> None:
        made(self)
        if self.drafting.tree.counts.n_lookup_tokens:  # the first drafted token is accepted at every third refusal
            first = self.drafter.tokens[:, 0]
            refused = (self.length == 0) & (first >= 0) & (self.uniforms[:, 0] < 1 / 3)
            self.chosen[:, 0] = torch.where(refused, first, self.chosen[:, 0])

    monkeypatch.setattr(Engine, "select", select)
    found = verdicts(DRAFTINGS["prompt lookup"](), SamplingParams(), min(TEXTS), REPEATING)
    assert min(found) < FALSE_ALARM / len(PROMPTS)
