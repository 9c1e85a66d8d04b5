"""The SGLang adapters keep the target's law on SGLang's own tensor shapes. Nothing here runs inside SGLang."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from slow import slow

torch = pytest.importorskip("torch")

import ot_draft_sglang as sglang  # noqa: E402
from host_models import FALSE_ALARM, Tables, drawn, p_value  # noqa: E402

import ot_draft as otd  # noqa: E402
from ot_draft import errors  # noqa: E402
from ot_draft.integrations.chains import CHAIN_RULES  # noqa: E402

N = 3
RULES = pytest.mark.parametrize("rule", CHAIN_RULES.values(), ids=CHAIN_RULES)

# A tree is a list of (parent, token) in the order of its nodes, the root (no parent) first; a child may stand before its parent,
# as in SGLang's own test of the kernel.
TREES = {
    "wide": [(-1, 0), (0, 2), (0, 0), (0, 1), (1, 1), (1, 0), (4, 2)],
    "deep": [(-1, 0), (2, 1), (0, 1), (2, 2), (1, 0), (1, 2), (0, 2)],
    "chain": [(-1, 0), (0, 1), (1, 1), (2, 1), (-1, 0), (-1, 0), (-1, 0)],
    "equal siblings": [(-1, 0), (0, 1), (0, 1), (0, 1), (2, 2), (2, 2), (1, 0)],
    "root alone": [(-1, 0)] * 7,
}
NODES, SLOTS = 7, 4


def pointers(tree: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """First child and next sibling of every node, -1 for none; siblings in falling order, as the kernel does not care."""
    child, sibling = [-1] * NODES, [-1] * NODES
    for node, (parent, _) in enumerate(tree):
        if parent >= 0:
            sibling[node], child[parent] = child[parent], node
    return child, sibling


def path(tree: list[tuple[int, int]], node: int) -> list[int]:
    """Tokens from the root's child down to the node."""
    parent, token = tree[node]
    return [] if parent < 0 else [*path(tree, parent), token]


def call(function: Callable[..., None], slots: int = SLOTS, **inputs: Any) -> np.ndarray:
    """Call as SGLang does, check what it writes, and read it as SGLang does: emitted tokens (m, slots), -1 beyond."""
    m, nodes = inputs["candidates"].shape
    predicts = torch.full((m * nodes,), -7, dtype=torch.int32)
    accept_index = torch.full((m, slots), -1, dtype=torch.int32)
    number = torch.full((m,), -7, dtype=torch.int32)
    places = torch.arange(m * nodes).reshape(m, nodes)
    function(
        predicts=predicts, accept_index=accept_index, accept_token_num=number, retrive_index=places,
        **{"threshold_single": 1.0, "threshold_acc": 1.0, "deterministic": True} | inputs,
    )  # fmt: skip
    assert ((accept_index >= 0).sum(-1) - 1 == number).all()
    assert (accept_index[:, 0] == places[:, 0]).all()
    emitted = torch.where(accept_index >= 0, predicts[accept_index.long()], -1).numpy()
    for row, last in enumerate(number[:50].tolist()):  # a node's token is what was predicted at the node before
        nodes_taken = accept_index[row, 1 : last + 1] - row * nodes
        assert inputs["candidates"][row, nodes_taken.long()].tolist() == emitted[row, :last].tolist()
    return emitted


def on_trees(
    names: list[str], target: Tables, m: int, coins: Any, function: Any = sglang.along_tree, **more: Any
) -> np.ndarray:
    """m requests, each with a tree of its own."""
    kinds = np.arange(m) % len(names)
    shapes = [TREES[name] for name in names]
    child, sibling = (np.array([pointers(tree)[i] for tree in shapes])[kinds] for i in (0, 1))
    tokens = np.array([[token for _, token in tree] for tree in shapes])[kinds]
    p = [
        [target.after(np.array([path(tree, v)], dtype=int).reshape(1, -1))[0] for v in range(NODES)] for tree in shapes
    ]
    probabilities = torch.tensor(np.array(p)[kinds], dtype=torch.float32)
    return call(
        function,
        candidates=torch.tensor(tokens),
        retrive_next_token=torch.tensor(child),
        retrive_next_sibling=torch.tensor(sibling),
        uniform_samples=coins,
        uniform_samples_for_final_sampling=torch.rand(m),
        target_probs=probabilities,
        draft_probs=more.pop("draft_probs", torch.zeros_like(probabilities)),
        **more,
    )


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("names", [[name] for name in TREES] + [list(TREES)], ids="-".join)
def test_trees_of_all_shapes_follow_the_target(names: list[str], seed: int) -> None:
    generator = np.random.default_rng(seed)
    torch.manual_seed(seed)
    target = Tables.random(N, SLOTS, generator)
    emitted = on_trees(names, target, 20_000, torch.rand(20_000, NODES), draft_probs=torch.tensor(float("nan")))
    assert p_value(emitted, target, SLOTS, generator) > FALSE_ALARM


def test_law_on_a_tree_by_counting_a_grid_of_uniforms_exactly() -> None:
    """All probabilities are quarters: 4 values of each coin that can be looked at give the law with ==."""
    quarters = np.array([[2, 1, 1], [1, 2, 1], [1, 1, 2]]) / 4
    laws = (quarters[0], quarters, np.stack([quarters] * 3), *[np.full((3,) * d, 1 / 3) for d in (4, 5)])
    grid = torch.tensor(list(product((0.125, 0.375, 0.625, 0.875), repeat=5)))
    coins = torch.full((4**5, NODES), 0.5)
    coins[:, [0, 1, 2, 3, 4]] = grid  # "wide": the root, its children 1, 2, 3 and node 4 below node 1
    emitted = on_trees(["wide"], Tables(laws), len(coins), coins)
    seen = np.zeros((3, 3))
    np.add.at(seen, (emitted[:, 0], emitted[:, 1]), 1)  # all three tokens are drafted: two are always emitted
    assert (seen / len(coins) == quarters[0][:, None] * quarters).all()
    third = emitted[(emitted[:, 0] == 2) & (emitted[:, 1] == 1)][:, 2]  # node 4 holds (2, 1)
    assert (np.bincount(third) / len(third) == quarters[1]).all()


def test_coins_at_both_ends_never_take_a_token_without_mass() -> None:
    laws = (
        np.array([0.0, 1.0, 0.0]),
        *[np.broadcast_to(np.array([0.0, 0.5, 0.5]), (3,) * (d + 1)) for d in range(1, 5)],
    )
    for coin in (0.0, 1 - 2.0**-24):
        emitted = on_trees(list(TREES), Tables(laws), 100, torch.full((100, NODES), coin))
        assert (emitted[:, 0] == 1).all()
        assert (emitted != 0).all()


def test_the_same_coins_emit_the_same_tokens_and_inputs_stay() -> None:
    target = Tables.random(N, SLOTS, np.random.default_rng(0))
    coins = torch.rand(500, NODES, generator=torch.Generator().manual_seed(1))
    before = coins.clone()
    first = on_trees(list(TREES), target, 500, coins)
    assert (on_trees(list(TREES), target, 500, coins) == first).all()
    assert (coins == before).all()
    alone = on_trees(["wide"], target, 1, coins[:1])  # the first tree, without the others
    assert (alone == first[:1]).all()


def test_a_planted_bug_is_seen() -> None:
    """The coin of the root used at every node: uniforms drawn once and reused at every step."""

    def reused(**inputs: Any) -> None:
        inputs["uniform_samples"] = inputs["uniform_samples"][:, :1].expand(-1, NODES).contiguous()
        sglang.along_tree(**inputs)

    generator = np.random.default_rng(1)
    target = Tables.random(N, SLOTS, generator)
    emitted = on_trees(list(TREES), target, 20_000, torch.rand(20_000, NODES), reused)
    assert p_value(emitted, target, SLOTS, generator) < FALSE_ALARM


def on_chains(
    rule: Any, target: Tables, draft: Tables, m: int, generator: np.random.Generator, function: Any
) -> np.ndarray:
    drafts, p, q = np.zeros((m, 0), int), [], []
    for _ in range(SLOTS - 1):
        p.append(target.after(drafts))
        q.append(draft.after(drafts))
        drafts = np.column_stack((drafts, drawn(q[-1], generator)))
    p.append(target.after(drafts))
    return call(
        partial(function, rule=rule),
        candidates=torch.tensor(np.column_stack((np.zeros(m, int), drafts))),
        retrive_next_token=None,
        retrive_next_sibling=None,
        uniform_samples=torch.tensor(generator.random((m, SLOTS)), dtype=torch.float32),
        uniform_samples_for_final_sampling=torch.tensor(generator.random(m), dtype=torch.float32),
        target_probs=torch.tensor(np.stack(p, 1), dtype=torch.float32),
        draft_probs=torch.tensor(np.stack(q, 1), dtype=torch.float32),
    )


@RULES
@pytest.mark.parametrize("seed", [1, 2])
def test_chains_follow_the_target(rule: Any, seed: int) -> None:
    generator = np.random.default_rng(seed)
    target, draft = (Tables.random(N, SLOTS, generator) for _ in range(2))
    emitted = on_chains(rule, target, draft, 20_000, generator, sglang.along_chain)
    assert p_value(emitted, target, SLOTS, generator) > FALSE_ALARM

    def swapped(**inputs: Any) -> None:
        sglang.along_chain(**inputs | {"uniform_samples_for_final_sampling": inputs["uniform_samples"][:, 0]})

    emitted = on_chains(rule, target, draft, 20_000, generator, swapped)  # one coin both accepts and draws what is left
    assert p_value(emitted, target, SLOTS, generator) < FALSE_ALARM


@pytest.mark.parametrize("law", [otd.WithoutReplacement(), slow(otd.Hybrid(top=2)), slow(otd.IID())], ids=repr)
def test_black_box_on_a_tree(law: otd.DraftLaw) -> None:
    def sampler(p: Any, q: Any, drafts: Any, generator: Any) -> Any:
        m, k = drafts.shape
        laws = np.repeat(p[:, None], k + 1, axis=1)
        chain = np.broadcast_to([*range(2, k + 1), -1], (m, k))
        return call(
            sglang.along_tree,
            slots=2,
            candidates=torch.tensor(np.column_stack((np.zeros(m, int), drafts))),
            retrive_next_token=torch.tensor(np.column_stack((np.ones(m, int), np.full((m, k), -1)))),
            retrive_next_sibling=torch.tensor(np.column_stack((np.full(m, -1), chain))),
            uniform_samples=torch.tensor(generator.random((m, k + 1)), dtype=torch.float64),
            uniform_samples_for_final_sampling=None,
            target_probs=torch.tensor(laws),
            draft_probs=None,
        )[:, 0]

    report = otd.check_sampler(sampler, law=law, k=2, batched=True, samples=5_000, seconds=None)
    assert report.passed, report


@pytest.mark.parametrize("thresholds", [{"threshold_single": 0.9}, {"threshold_acc": 0.9}])
def test_thresholds_below_one_are_refused(thresholds: dict[str, float]) -> None:
    target = Tables.random(N, SLOTS, np.random.default_rng(0))
    with pytest.raises(errors.NotLossless, match="below 1 tokens are accepted more often"):
        on_trees(["wide"], target, 2, torch.rand(2, NODES), **thresholds)


@RULES
def test_nothing_is_asked_of_the_device(rule: Any) -> None:
    on = partial(torch.zeros, device="meta")
    whole, half = partial(on, dtype=torch.int64), partial(on, dtype=torch.int32)
    written = half(14), half(2, 4), half(2)
    read = (*[whole(2, 7) for _ in range(4)], on(2, 7), on(2), on(2, 7, 5), on(2, 7, 5), 1.0, 1.0, True)
    sglang.along_tree(*written, *read)
    sglang.along_chain(*written, *read, rule=rule)
