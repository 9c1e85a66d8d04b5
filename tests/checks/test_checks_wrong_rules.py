"""Wrong rules made by combining where a rule goes wrong with what it does there: each is refuted in the first lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from slow import slow, slow_except

import ot_draft as ot
from ot_draft.arrays import as_number, gather, is_exact, is_torch, namespace, normalise, to_host, where
from ot_draft.checks import lossless, search
from ot_draft.checks.properties import FLOATS, LOSSLESS, choose
from ot_draft.checks.report import check_property
from ot_draft.checks.search import Drawn

Array = Any
Where = Callable[["Wrong", Array, Array, Array], Any]  # a bool, or bool (..., 1): the rows in which the rule goes wrong
What = Callable[[ot.Selection, Array, Array, Array], ot.Selection]


class Wrong(ot.SelectionRule):
    """Recursive rejection, and something else where it goes wrong."""

    law = ot.IID()

    def __init__(self, where_: Where, what: What) -> None:
        self.where, self.what, self.calls, self.last = where_, what, 0, 0.0

    def __call__(self, p: Array, q: Array, drafts: Array) -> ot.Selection:
        self.calls += 1
        right = ot.rules.RecursiveRejection()(p, q, drafts)
        here = self.where(self, p, q, drafts)
        self.last = 0.0 if not p.size else float(to_host(p).reshape(-1)[0]) if not (is_torch(p) and p.is_meta) else 0.0
        wrong = self.what(right, p, q, drafts)
        if isinstance(here, bool):
            return wrong if here else right
        return ot.Selection(where(here, wrong.accept, right.accept), where(here, wrong.residual, right.residual))


def residual_is_p(right: ot.Selection, p: Array, q: Array, drafts: Array) -> ot.Selection:
    return ot.Selection(right.accept, p + 0 * right.residual)


def accepts_less(right: ot.Selection, p: Array, q: Array, drafts: Array) -> ot.Selection:
    return ot.Selection(right.accept * 99 / 100, right.residual)


def residual_is_uniform(right: ot.Selection, p: Array, q: Array, drafts: Array) -> ot.Selection:
    return ot.Selection(right.accept, (0 * right.residual + as_number(right.residual >= 0, p)) / p.shape[-1])


def swapped(right: ot.Selection, p: Array, q: Array, drafts: Array) -> ot.Selection:
    return ot.rules.RecursiveRejection()(q, p, drafts)


def next_draft(right: ot.Selection, p: Array, q: Array, drafts: Array) -> ot.Selection:
    """Off by one: the acceptance of the token beside the draft."""
    return ot.Selection(ot.rules.RecursiveRejection()(p, q, (drafts + 1) % p.shape[-1]).accept, right.residual)


def residual_rolled(right: ot.Selection, p: Array, q: Array, drafts: Array) -> ot.Selection:
    n = p.shape[-1]
    return ot.Selection(right.accept, right.residual[..., [n - 1, *range(n - 1)]])


def whole(condition: Callable[..., bool]) -> Where:
    """A place in sizes, types or memory: the same for all rows."""
    return lambda rule, p, q, drafts: bool(condition(rule, p, q, drafts))


def rows(p: Array) -> int:
    return int(np.prod(p.shape[:-1]))


def steps(x: Array) -> tuple[int, ...]:
    """From one number to the next in memory, along every axis."""
    return tuple(x.stride()) if is_torch(x) else tuple(step // x.itemsize for step in x.strides)


def axes(p: Array) -> int:
    return sum(size > 1 for size in p.shape[:-1])


def beyond_row_7(rule: Wrong, p: Array, q: Array, drafts: Array) -> Any:
    first = np.arange(p.shape[0]) >= 8 if p.ndim > 1 else np.zeros(1, dtype=bool)
    return _there(first.reshape(-1, *[1] * max(0, p.ndim - 1)), p)


def last_row(rule: Wrong, p: Array, q: Array, drafts: Array) -> Any:
    last = np.arange(rows(p)).reshape(*p.shape[:-1], 1) == rows(p) - 1 if rows(p) > 3 else np.zeros(1, dtype=bool)
    return _there(last, p)


def _there(x: Array, p: Array) -> Any:
    return namespace(p).as_tensor(x, device=p.device) if is_torch(p) else x


def some(x: Array) -> Array:
    """bool (..., n) -> bool (..., 1)."""
    return x.any(-1)[..., None]


PLACES: dict[str, Where] = {
    "n > 6": whole(lambda rule, p, q, drafts: p.shape[-1] > 6),
    "n > 60": whole(lambda rule, p, q, drafts: p.shape[-1] > 60),
    "n > 500": whole(lambda rule, p, q, drafts: p.shape[-1] > 500),
    "n = 64": whole(lambda rule, p, q, drafts: p.shape[-1] == 64),
    "k > 5": whole(lambda rule, p, q, drafts: drafts.shape[-1] > 5),
    "k = 8": whole(lambda rule, p, q, drafts: drafts.shape[-1] == 8),
    "n >= 4, k >= 4": whole(lambda rule, p, q, drafts: p.shape[-1] >= 4 <= drafts.shape[-1]),
    "n >= 30, k >= 3": whole(lambda rule, p, q, drafts: p.shape[-1] >= 30 and drafts.shape[-1] >= 3),
    "rows beyond 7": beyond_row_7,
    "last row": last_row,
    "batch >= 16": whole(lambda rule, p, q, drafts: rows(p) >= 16),
    "two axes": whole(lambda rule, p, q, drafts: axes(p) == 2),
    "three axes": whole(lambda rule, p, q, drafts: axes(p) >= 3),
    "no axes": whole(lambda rule, p, q, drafts: p.ndim == 1),
    "strides": whole(
        lambda rule, p, q, drafts: (
            p.ndim > 0 and not is_torch(p) and abs(p.strides[-1]) > p.itemsize and p.shape[-1] > 1
        )
    ),
    "no axes, nor of the drafts": whole(lambda rule, p, q, drafts: p.ndim == 1 == drafts.ndim),
    "steps of q only": whole(lambda rule, p, q, drafts: steps(q) != steps(p) and p.shape == q.shape),
    "steps of the drafts": whole(lambda rule, p, q, drafts: drafts.ndim and drafts.shape[-1] > 1 != steps(drafts)[-1]),
    "steps of -1": whole(lambda rule, p, q, drafts: p.ndim and p.shape[-1] > 1 and steps(p)[-1] < 0),
    "one row for all requests": whole(lambda rule, p, q, drafts: p.ndim > 1 and p.shape[0] > 1 and steps(p)[0] == 0),
    "p and q in one array": whole(lambda rule, p, q, drafts: not is_torch(p) and np.may_share_memory(p, q)),
    "drafts of 32 bits": whole(lambda rule, p, q, drafts: "int32" in str(drafts.dtype)),
    "all requests have one p": whole(
        lambda rule, p, q, drafts: (
            p.ndim == 2 and len(p) > 1 and bool((p == p[:1]).all()) and not bool((q == q[:1]).all())
        )
    ),
    "drafts that are one in 64 bits": lambda rule, p, q, drafts: (
        (drafts[..., 1:] % 64 == drafts[..., :1] % 64) & (drafts[..., 1:] != drafts[..., :1])
    ).any(-1)[..., None],
    "small q": lambda rule, p, q, drafts: some((q > 0) & (q * 10**9 > 1) & (q * 10**4 < 1)),
    "tiny q": lambda rule, p, q, drafts: some((q > 0) & (q * 10**10 < 1)),
    "small p": lambda rule, p, q, drafts: some((p > 0) & (p * 10**6 < 1)),
    "small draft": lambda rule, p, q, drafts: some(
        (drafts >= 0) & (gather(q, drafts) * 10**5 < 1) & (gather(q, drafts) > 0)
    ),
    "many zeros in q": lambda rule, p, q, drafts: as_number(q == 0, q).sum(-1)[..., None] >= 5,
    "zero at the end": lambda rule, p, q, drafts: (q[..., -1:] == 0) & (q[..., :1] > 0) & (p[..., -1:] > 0),
    "one-hot q": lambda rule, p, q, drafts: some((q == 1) & (p < 1)),
    "all drafts equal": lambda rule, p, q, drafts: (
        (drafts == drafts[..., :1]).all(-1)[..., None] & (drafts.shape[-1] > 3)
    ),
    "tokens from 100 on": lambda rule, p, q, drafts: some(drafts >= 100),
    "after 5,000 calls": whole(lambda rule, p, q, drafts: rule.calls > 5_000),
    "every 50th call": whole(lambda rule, p, q, drafts: rule.calls % 50 == 0),
    "after another p": whole(lambda rule, p, q, drafts: rule.last == 0.5),
    "float64": whole(lambda rule, p, q, drafts: "float64" in str(p.dtype)),
    "float32": whole(lambda rule, p, q, drafts: "float32" in str(p.dtype)),
    "Fractions, n > 6": whole(lambda rule, p, q, drafts: is_exact(p) and p.shape[-1] > 6),
    "floats, n > 6": whole(lambda rule, p, q, drafts: not is_exact(p) and p.shape[-1] > 6),
    "torch": whole(lambda rule, p, q, drafts: is_torch(p)),
    "torch float32": whole(lambda rule, p, q, drafts: is_torch(p) and "32" in str(p.dtype)),
}
ERRORS: list[What] = [residual_is_p, accepts_less, residual_is_uniform, swapped, next_draft, residual_rolled]
CASES = [(place, ERRORS[(turn + shift) % len(ERRORS)]) for turn, place in enumerate(PLACES) for shift in (0, 1)]


def refute(rule: ot.SelectionRule) -> None:
    """Fail unless a property of the first lines refutes the rule: those of an engine's sizes first, which find most."""
    first = ["engine_sizes", "output_law_in_batches", "repeated_calls", "law_in_floats", "inputs_unchanged"]
    chosen = choose([*first, *(each.name for each in (*LOSSLESS, *FLOATS) if each.name not in first)])
    drawn: Drawn = {}
    assert any(check_property(each, rule, 100, 0, drawn).refutes for each in chosen)


@pytest.mark.parametrize(
    ("place", "what"),
    slow_except(
        CASES,
        "n > 6-residual_is_p",
        "zero at the end-residual_rolled",
        name=lambda case: f"{case[0]}-{case[1].__name__}",
    ),
)
def test_a_wrong_rule_is_refuted_in_the_first_lines(place: str, what: What) -> None:
    if place.startswith("torch"):
        pytest.importorskip("torch")
    refute(Wrong(PLACES[place], what))


class Own(Wrong):
    """A wrong rule of one function."""

    def __init__(self, decide: Callable[..., ot.Selection]) -> None:
        self.decide = decide

    def __call__(self, p: Array, q: Array, drafts: Array) -> ot.Selection:
        return self.decide(p, q, drafts, ot.rules.RecursiveRejection())


def small_residual_dropped(p: Array, q: Array, drafts: Array, rule: Any) -> ot.Selection:
    right = rule(p, q, drafts)
    kept = where(right.residual * 10**4 < 1, 0 * right.residual, right.residual)
    return ot.Selection(right.accept, normalise(kept, p + 0 * kept))


def small_p_dropped(p: Array, q: Array, drafts: Array, rule: Any) -> ot.Selection:
    return rule(normalise(where(p * 10**6 < 1, 0 * p, p), p), q, drafts)


def off_by_a_millionth_in_floats(p: Array, q: Array, drafts: Array, rule: Any) -> ot.Selection:
    right = rule(p, q, drafts)
    return right if is_exact(p) else ot.Selection(right.accept * (1 - 1e-6), right.residual)


def p_overwritten(p: Array, q: Array, drafts: Array, rule: Any) -> ot.Selection:
    right = rule(p, q, drafts)
    if p.shape[-1] > 2 and not (isinstance(p, np.ndarray) and not p.flags.writeable):
        p[...] = 0 * p + q
    return right


def q_sorted_in_place(p: Array, q: Array, drafts: Array, rule: Any) -> ot.Selection:
    right = rule(p, q, drafts)
    q[..., :1] = q[..., -1:]
    return right


def in_float32(p: Array, q: Array, drafts: Array, rule: Any) -> ot.Selection:
    if is_exact(p) or is_torch(p):
        return rule(p, q, drafts)
    right = rule(p.astype("f4"), q.astype("f4"), drafts)
    return ot.Selection(right.accept.astype(p.dtype), right.residual.astype(p.dtype))


def epsilon_added(p: Array, q: Array, drafts: Array, rule: Any) -> ot.Selection:
    """As in many engines: division by q + 1e-8."""
    return rule(p, q if is_exact(p) else (q + 1e-8) / (q + 1e-8).sum(-1)[..., None], drafts)


def memory_of_addresses() -> Callable[..., ot.Selection]:
    known: dict[Any, Any] = {}

    def remembers(p: Array, q: Array, drafts: Array, rule: Any) -> ot.Selection:
        key = (id(p), id(q), p.shape, drafts.shape, str(p.dtype), drafts.tolist().__repr__())
        return known.setdefault(key, (p, q, rule(p, q, drafts)))[2]

    return remembers


def memory_of_shapes_and_p() -> Callable[..., ot.Selection]:
    known: dict[Any, Any] = {}

    def remembers(p: Array, q: Array, drafts: Array, rule: Any) -> ot.Selection:
        key = (str(p.tolist()), p.shape, q.shape, str(drafts.tolist()), str(p.dtype))
        return known.setdefault(key, rule(p, q, drafts))

    return remembers


def memory_of_rounded_p() -> Callable[..., ot.Selection]:
    known: dict[Any, Any] = {}

    def remembers(p: Array, q: Array, drafts: Array, rule: Any) -> ot.Selection:
        near = to_host(p).astype(float).round(6).tolist()
        key = (str(near), str(q.tolist()), p.shape, q.shape, str(drafts.tolist()), str(p.dtype))
        return known.setdefault(key, rule(p, q, drafts))

    return remembers


OWN = [
    small_residual_dropped, small_p_dropped, off_by_a_millionth_in_floats, p_overwritten, q_sorted_in_place, in_float32,
    epsilon_added, memory_of_addresses(), memory_of_shapes_and_p(), memory_of_rounded_p(),
]  # fmt: skip


@pytest.mark.parametrize(
    "decide", slow_except(OWN, "small_p_dropped", name=lambda decide: decide.__qualname__.split(".")[0])
)
def test_a_wrong_rule_of_its_own_kind_is_refuted(decide: Callable[..., ot.Selection]) -> None:
    refute(Own(decide))


class Own2(Own):
    """A right rule of one function."""


def mixture(p: Array, q: Array, drafts: Array, rule: Any) -> ot.Selection:
    """A third of K-SEQ, two thirds of the naive rule: of laws given the drafts, so that the residual is a mixture, too."""
    left, right = rule(p, q, drafts), ot.rules.NaiveTarget()(p, q, drafts)
    accept = (left.accept + 2 * right.accept) / 3
    rest = (1 - left.accept.sum(-1)[..., None]) * left.residual + 2 * (
        1 - right.accept.sum(-1)[..., None]
    ) * right.residual
    return ot.Selection(accept, normalise(rest, p + 0 * rest))


def memoised() -> Callable[..., ot.Selection]:
    """By value, as it should be."""
    known: dict[Any, Any] = {}

    def remembers(p: Array, q: Array, drafts: Array, rule: Any) -> ot.Selection:
        if is_torch(p):
            return rule(p, q, drafts)
        key = (str(p.dtype), *(str((x.shape, x.tolist())) for x in (p, q, drafts)))
        if key not in known:
            known[key] = rule(p, q, drafts)
        return ot.Selection(known[key].accept.copy(), known[key].residual.copy())

    return remembers


def row_by_row(p: Array, q: Array, drafts: Array, rule: Any) -> ot.Selection:
    """A loop over the rows of the batch, on numpy."""
    if is_torch(p) or 0 in p.shape or 0 in drafts.shape:
        return rule(p, q, drafts)
    shape = np.broadcast_shapes(p.shape[:-1], q.shape[:-1], drafts.shape[:-1])
    arrays = [np.broadcast_to(x, (*shape, x.shape[-1])) for x in (p, q, drafts)]
    chosen = [rule(*(x[row] for x in arrays)) for row in np.ndindex(shape)]
    parts = [np.array([getattr(each, name) for each in chosen], dtype=p.dtype) for name in ("accept", "residual")]
    return ot.Selection(*(x.reshape(*shape, x.shape[-1]) for x in parts))


def never_accepts(p: Array, q: Array, drafts: Array, rule: Any) -> ot.Selection:
    return ot.Selection(0 * rule(p, q, drafts).accept, p)


def only_small(p: Array, q: Array, drafts: Array, rule: Any) -> ot.Selection:
    if p.shape[-1] > 5:
        raise NotImplementedError("five tokens at most")
    return rule(p, q, drafts)


RIGHT = {"mixture": lambda: mixture, "memoised": memoised, "row_by_row": lambda: row_by_row,
         "never_accepts": lambda: never_accepts, "only_small": lambda: only_small}  # fmt: skip


def refuted(rule: ot.SelectionRule, seed: int) -> bool:
    """Whether a right rule is refuted by a check with a tenth of the usual time, by any property of the first lines."""
    chosen = [*LOSSLESS, *FLOATS, *choose(["inputs_unchanged"])]
    with patch.object(search, "ENOUGH", 0.5), patch.object(lossless, "PATIENCE", 0.15):
        report = ot.check_rule(rule, max_examples=3, properties=chosen, seed=seed)
    return report.answers.refuted or report.lossless != "yes"


def right_rules() -> list[ot.SelectionRule]:
    """All of the library, and five of other kinds."""
    return [*ot.rules.ALL, *(Own2(make()) for make in RIGHT.values())]


@pytest.mark.parametrize("seed", [0, *map(slow, range(1, 4))])
def test_a_right_rule_is_never_refuted(seed: int) -> None:
    """Of 16 rules with four seeds; `python tests/checks/test_checks_wrong_rules.py` takes 63 seeds: 1,008 runs."""
    rules = right_rules()
    assert [rule.label for rule in (rules[::8] if seed == 0 else rules) if refuted(rule, seed)] == []


if __name__ == "__main__":
    for seed in range(*map(int, sys.argv[1:3] or (0, 63))):
        print(seed, [rule.label for rule in right_rules() if refuted(rule, seed)], flush=True)
