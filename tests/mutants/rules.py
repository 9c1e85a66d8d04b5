"""Selection rules that are wrong: most from bug reports of the field; and recursive rejection that goes wrong at some place.

RULES: by name, what makes the rule anew, and the property of `otd.check_rule` that rejects it; FIRST_LINES: one of those that stand in
the first lines of its report.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft.arrays import (
    astype,
    divide,
    excess,
    gather,
    is_exact,
    is_torch,
    members,
    minimum,
    namespace,
    normalise,
    number,
    to_host,
    where,
)
from ot_draft.selection import in_turn

Array = Any
FIRST_LINES = ("first lines",)


class Planted(otd.SelectionRule):
    """A rule made of a function (p, q, drafts) -> Selection."""

    def __init__(self, decide: Callable[[Array, Array, Array], otd.Selection], law: otd.DraftLaw) -> None:
        self.decide, self.law = decide, law

    def __call__(self, p: Array, q: Array, drafts: Array) -> otd.Selection:
        return self.decide(p, q, drafts)

    @property
    def name(self) -> str:
        return self.decide.__name__


RULES: dict[str, tuple[Callable[[], otd.SelectionRule], tuple[str, ...]]] = {}
LARGEST: dict[str, int] = {}  # the vocabulary that the smallest counterexample may have


def caught_by(name: str, largest_n: int = 3, law: otd.DraftLaw = otd.IID()) -> Callable[[Any], Any]:
    """Decorator: a wrong rule, the property that rejects it, and the vocabulary its smallest counterexample may have."""

    def plant(decide: Callable[[Array, Array, Array], otd.Selection]) -> Callable[..., otd.Selection]:
        named = decide.__name__.replace("_", " ")
        RULES[named], LARGEST[named] = (lambda: Planted(decide, law), (name,)), largest_n
        return decide

    return plant


def ratio(p: Array, q: Array, drafts: Array) -> Array:
    return divide(gather(p, drafts), gather(q, drafts), 0 * number(1, p))


def first_draft(p: Array, q: Array, drafts: Array, percent: int = 100) -> Array:
    """accept of speculative sampling: the first draft with probability min(1, p/q), or a share of p/q."""
    present = drafts >= 0
    first = present & (present.cumsum(-1) == 1)
    return where(first, minimum(ratio(p, q, drafts) * percent / 100, number(1, p)), 0 * gather(p, drafts))


def left_over(p: Array, q: Array) -> Array:
    return excess(p, q)


def right(p: Array, q: Array, drafts: Array) -> otd.Selection:
    return otd.rules.SpeculativeSampling()(p, q, drafts)


@caught_by("output_distribution")
def residual_is_the_target(p: Array, q: Array, drafts: Array) -> otd.Selection:
    return otd.Selection(right(p, q, drafts).accept, p)


@caught_by("output_distribution")
def residual_not_updated_after_a_refusal(p: Array, q: Array, drafts: Array) -> otd.Selection:
    """Every draft is tested against p itself: k independent tests."""
    return otd.Selection(in_turn(minimum(ratio(p, q, drafts), number(1, p))), normalise(left_over(p, q), p))


@caught_by("output_distribution")
def repeated_drafts_skipped(p: Array, q: Array, drafts: Array) -> otd.Selection:
    """A token that was refused before is passed over as if it had not been drafted."""
    unique = drafts.copy()
    for i in range(1, drafts.shape[-1]):
        unique[..., i] = np.where((drafts[..., :i] == drafts[..., i : i + 1]).any(-1), -1, drafts[..., i])
    return otd.rules.RecursiveRejection()(p, q, unique)


@caught_by("output_distribution", law=otd.WithoutReplacement())
def with_replacement_rule_without_replacement(p: Array, q: Array, drafts: Array) -> otd.Selection:
    return otd.rules.RecursiveRejection()(p, q, drafts)


@caught_by("output_distribution")
def without_replacement_rule_with_replacement(p: Array, q: Array, drafts: Array) -> otd.Selection:
    return otd.rules.RecursiveRejectionWithoutReplacement()(p, q, drafts)


@caught_by("output_distribution")
def accepts_five_percent_too_often(p: Array, q: Array, drafts: Array) -> otd.Selection:
    return otd.Selection(first_draft(p, q, drafts, percent=105), right(p, q, drafts).residual)


@caught_by("output_distribution")
def gamma_too_small(p: Array, q: Array, drafts: Array) -> otd.Selection:
    return otd.rules.KSeq(factor=1)(p, q, drafts)


@caught_by("absent_drafts")
def zero_residual_is_token_0(p: Array, q: Array, drafts: Array) -> otd.Selection:
    """A row without drafts has nothing to subtract from; its guard should have been p."""
    some = (drafts >= 0).any(-1)[..., None]
    token = members(np.array([0]), p.shape[-1]) * number(1, p) + 0 * p
    left = where(some, left_over(p, q), 0 * p)
    return otd.Selection(first_draft(p, q, drafts), where(some, normalise(left, p), token))


@caught_by("boundary_cases")
def small_residual_is_uniform(p: Array, q: Array, drafts: Array) -> otd.Selection:
    left = left_over(p, q)
    uniform = (0 * p + number(1, p)) / p.shape[-1]
    residual = where(1000 * left.sum(-1, keepdims=True) <= 1, uniform, normalise(left, p))
    return otd.Selection(first_draft(p, q, drafts), where((drafts >= 0).any(-1)[..., None], residual, p))


@caught_by("probabilities")
def zero_residual_is_nan(p: Array, q: Array, drafts: Array) -> otd.Selection:
    return otd.Selection(first_draft(p, q, drafts), normalise(left_over(p, q), float("nan") * p))


@caught_by("output_distribution")
def peaked_draft_accepted_outright(p: Array, q: Array, drafts: Array) -> otd.Selection:
    """A draft of which the draft model is nearly sure is not tested."""
    sure = (gather(q, drafts) * 10 >= 9) & (drafts >= 0) & ((drafts >= 0).cumsum(-1) == 1)
    return otd.Selection(
        where(sure, 0 * gather(p, drafts) + number(1, p), first_draft(p, q, drafts)), right(p, q, drafts).residual
    )


@caught_by("output_distribution", law=otd.Hybrid(top=-1))
def greedy_drafts_taken_for_sampled_ones(p: Array, q: Array, drafts: Array) -> otd.Selection:
    return otd.rules.RecursiveRejection()(p, q, drafts)


@caught_by("output_distribution")
def sampled_drafts_taken_for_greedy_ones(p: Array, q: Array, drafts: Array) -> otd.Selection:
    return otd.rules.Greedy()(p, q, drafts)


@caught_by("output_distribution")
def residual_of_the_last_draft_only(p: Array, q: Array, drafts: Array) -> otd.Selection:
    """Every draft is tested as it should be, and the residual is that of a single draft."""
    return otd.Selection(otd.rules.RecursiveRejection()(p, q, drafts).accept, right(p, q, drafts).residual)


@caught_by("output_distribution")
def p_and_q_swapped(p: Array, q: Array, drafts: Array) -> otd.Selection:
    return right(q, p, drafts)


@caught_by("inputs_unchanged")
def target_changed_in_place(p: Array, q: Array, drafts: Array) -> otd.Selection:
    selection = right(p, q, drafts)
    p -= minimum(p, q) if is_torch(p) else np.minimum(p, q)
    return selection


@caught_by("rows_do_not_leak")
def residual_normalised_over_the_batch(p: Array, q: Array, drafts: Array) -> otd.Selection:
    left = left_over(p, q)
    whole = (left.sum() + 0 * number(1, p)) / max(1, int(np.prod(p.shape[:-1])))
    return otd.Selection(first_draft(p, q, drafts), where(left_over(p, q).sum() > 0, left / (whole or 1), p))


@caught_by("batch_equals_loop")
def first_row_for_all(p: Array, q: Array, drafts: Array) -> otd.Selection:
    selection = right(p, q, drafts)
    residual = selection.residual.reshape(-1, p.shape[-1])[:1] if p.ndim > 1 else selection.residual
    return otd.Selection(selection.accept, residual)


@caught_by("output_distribution")
def wrong_from_three_drafts_on(p: Array, q: Array, drafts: Array) -> otd.Selection:
    selection = otd.rules.RecursiveRejection()(p, q, drafts)
    return selection if drafts.shape[-1] < 3 else otd.Selection(selection.accept, p)


@caught_by("output_distribution")
def wrong_where_p_has_zeros(p: Array, q: Array, drafts: Array) -> otd.Selection:
    floored = where(p == 0, 0 * p + number(1, p) / 100, p)
    return otd.Selection(first_draft(floored, q, drafts), right(p, q, drafts).residual)


@caught_by("relabelling_commutes", largest_n=4)
def wrong_for_token_2(p: Array, q: Array, drafts: Array) -> otd.Selection:
    selection = right(p, q, drafts)
    return otd.Selection(where(drafts == 2, selection.accept / 2, selection.accept), selection.residual)


@caught_by("floats_agree")
def ratios_in_float16(p: Array, q: Array, drafts: Array) -> otd.Selection:
    take = first_draft(p, q, drafts)
    rounded = take if is_exact(p) else take.half().to(p.dtype) if is_torch(p) else take.astype("f2").astype(p.dtype)
    return otd.Selection(rounded, right(p, q, drafts).residual)


@caught_by("no_host_sync")
def value_looked_at_on_the_host(p: Array, q: Array, drafts: Array) -> otd.Selection:
    return right(p, p if bool((p == q).all()) else q, drafts)


@caught_by("no_host_sync")
def array_made_on_the_cpu(p: Array, q: Array, drafts: Array) -> otd.Selection:
    if is_torch(p):
        import torch

        return right(p * torch.ones(p.shape[-1], dtype=p.dtype), q, drafts)
    return right(p, q, drafts)


@caught_by("torch_agrees")
def other_ratio_on_torch(p: Array, q: Array, drafts: Array) -> otd.Selection:
    selection = right(p, q, drafts)
    return otd.Selection(selection.accept * (0.5 if is_torch(p) else 1), selection.residual)


@caught_by("exactness")
def float_literal(p: Array, q: Array, drafts: Array) -> otd.Selection:
    selection = right(p, q, drafts)
    return otd.Selection(1.0 * selection.accept, selection.residual)


@caught_by("extreme_cases")
def draft_distribution_without_drafts(p: Array, q: Array, drafts: Array) -> otd.Selection:
    """With k = 0 the output follows q."""
    selection = right(p, q, drafts)
    return selection if drafts.shape[-1] else otd.Selection(selection.accept, q)


@caught_by("boundary_cases_in_floats", largest_n=4)
def target_left_over_on_torch_where_both_are_zero(p: Array, q: Array, drafts: Array) -> otd.Selection:
    selection = right(p, q, drafts)
    zero = is_torch(p) and bool(((p == 0) & (q == 0)).any())
    return otd.Selection(selection.accept, p) if zero else selection


@caught_by("extreme_cases")
def no_rows_on_torch_are_an_error(p: Array, q: Array, drafts: Array) -> otd.Selection:
    if is_torch(p) and 0 in p.shape:
        raise RuntimeError("no rows")
    return right(p, q, drafts)


@caught_by("absent_drafts")
def draft_for_the_target_on_torch_where_none_is_drafted(p: Array, q: Array, drafts: Array) -> otd.Selection:
    selection = right(p, q, drafts)
    none = is_torch(p) and not (drafts >= 0).any()
    return otd.Selection(selection.accept, q + 0 * selection.residual) if none else selection


@caught_by("at_most_the_optimum")
def accepts_always(p: Array, q: Array, drafts: Array) -> otd.Selection:
    first = (drafts >= 0) & ((drafts >= 0).cumsum(-1) == 1)
    return otd.Selection(where(first, 0 * gather(p, drafts) + number(1, p), 0 * gather(p, drafts)), p)


Where = Callable[["Wrong", Array, Array, Array], Any]  # a bool, or bool (..., 1): the rows in which the rule goes wrong
What = Callable[[otd.Selection, Array, Array, Array], otd.Selection]


class Wrong(otd.SelectionRule):
    """Recursive rejection, and something else where it goes wrong."""

    law = otd.IID()

    def __init__(self, where_: Where, what: What) -> None:
        self.where, self.what, self.calls, self.last = where_, what, 0, 0.0

    def __call__(self, p: Array, q: Array, drafts: Array) -> otd.Selection:
        self.calls += 1
        right = otd.rules.RecursiveRejection()(p, q, drafts)
        here = self.where(self, p, q, drafts)
        self.last = 0.0 if not p.size else float(to_host(p).reshape(-1)[0]) if not (is_torch(p) and p.is_meta) else 0.0
        wrong = self.what(right, p, q, drafts)
        if isinstance(here, bool):
            return wrong if here else right
        return otd.Selection(where(here, wrong.accept, right.accept), where(here, wrong.residual, right.residual))


def residual_is_p(right: otd.Selection, p: Array, q: Array, drafts: Array) -> otd.Selection:
    return otd.Selection(right.accept, p + 0 * right.residual)


def accepts_less(right: otd.Selection, p: Array, q: Array, drafts: Array) -> otd.Selection:
    return otd.Selection(right.accept * 99 / 100, right.residual)


def residual_is_uniform(right: otd.Selection, p: Array, q: Array, drafts: Array) -> otd.Selection:
    return otd.Selection(right.accept, (0 * right.residual + astype(right.residual >= 0, p.dtype)) / p.shape[-1])


def swapped(right: otd.Selection, p: Array, q: Array, drafts: Array) -> otd.Selection:
    return otd.rules.RecursiveRejection()(q, p, drafts)


def next_draft(right: otd.Selection, p: Array, q: Array, drafts: Array) -> otd.Selection:
    """Off by one: the acceptance of the token beside the draft."""
    return otd.Selection(otd.rules.RecursiveRejection()(p, q, (drafts + 1) % p.shape[-1]).accept, right.residual)


def residual_rolled(right: otd.Selection, p: Array, q: Array, drafts: Array) -> otd.Selection:
    n = p.shape[-1]
    return otd.Selection(right.accept, right.residual[..., [n - 1, *range(n - 1)]])


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


def different(drafts: Array) -> Array:
    """Number of different tokens in each tuple of drafts: (..., k) -> (...)."""
    return (np.diff(np.sort(drafts, -1), axis=-1, prepend=-1) > 0).sum(-1)


def between(drafts: Array) -> Array:
    """Whether an absent draft has a draft before it and one after it: (..., k) -> (...)."""
    there = (drafts >= 0).astype(int)
    before, after = there.cumsum(-1), there[..., ::-1].cumsum(-1)[..., ::-1]
    return ((there == 0) & (before > 0) & (after > 0)).any(-1)


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
    "many zeros in q": lambda rule, p, q, drafts: astype(q == 0, q.dtype).sum(-1)[..., None] >= 5,
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
    "five drafts, four different tokens": lambda rule, p, q, drafts: _there(
        (different(to_host(drafts)) >= 4)[..., None] & (drafts.shape[-1] >= 5), p
    ),
    "an absent draft between two others": lambda rule, p, q, drafts: _there(between(to_host(drafts))[..., None], p),
    "torch float32": whole(lambda rule, p, q, drafts: is_torch(p) and "32" in str(p.dtype)),
}
ERRORS: list[What] = [residual_is_p, accepts_less, residual_is_uniform, swapped, next_draft, residual_rolled]
for turn, (place, here) in enumerate(PLACES.items()):
    for what in (ERRORS[turn % len(ERRORS)], ERRORS[(turn + 1) % len(ERRORS)]):
        RULES[f"{place}: {what.__name__.replace('_', ' ')}"] = partial(Wrong, here, what), FIRST_LINES
# `padded_drafts` fails and does not refute: draft laws draw all k tokens, and a rule for these alone may be lossless.
for name in [name for name in RULES if name.startswith("an absent draft between two others")]:
    RULES[name], LARGEST[name] = (RULES[name][0], ("padded_drafts",)), 3


class Own(Wrong):
    """A wrong rule of one function."""

    def __init__(self, decide: Callable[..., otd.Selection]) -> None:
        self.decide = decide

    def __call__(self, p: Array, q: Array, drafts: Array) -> otd.Selection:
        return self.decide(p, q, drafts, otd.rules.RecursiveRejection())


def small_residual_dropped(p: Array, q: Array, drafts: Array, rule: Any) -> otd.Selection:
    right = rule(p, q, drafts)
    kept = where(right.residual * 10**4 < 1, 0 * right.residual, right.residual)
    return otd.Selection(right.accept, normalise(kept, p + 0 * kept))


def small_p_dropped(p: Array, q: Array, drafts: Array, rule: Any) -> otd.Selection:
    return rule(normalise(where(p * 10**6 < 1, 0 * p, p), p), q, drafts)


def off_by_a_millionth_in_floats(p: Array, q: Array, drafts: Array, rule: Any) -> otd.Selection:
    right = rule(p, q, drafts)
    return right if is_exact(p) else otd.Selection(right.accept * (1 - 1e-6), right.residual)


def p_overwritten(p: Array, q: Array, drafts: Array, rule: Any) -> otd.Selection:
    right = rule(p, q, drafts)
    if p.shape[-1] > 2 and not (isinstance(p, np.ndarray) and not p.flags.writeable):
        p[...] = 0 * p + q
    return right


def q_sorted_in_place(p: Array, q: Array, drafts: Array, rule: Any) -> otd.Selection:
    right = rule(p, q, drafts)
    q[..., :1] = q[..., -1:]
    return right


def in_float32(p: Array, q: Array, drafts: Array, rule: Any) -> otd.Selection:
    if is_exact(p) or is_torch(p):
        return rule(p, q, drafts)
    right = rule(p.astype("f4"), q.astype("f4"), drafts)
    return otd.Selection(right.accept.astype(p.dtype), right.residual.astype(p.dtype))


def epsilon_added(p: Array, q: Array, drafts: Array, rule: Any) -> otd.Selection:
    """As in many engines: division by q + 1e-8."""
    return rule(p, q if is_exact(p) else (q + 1e-8) / (q + 1e-8).sum(-1)[..., None], drafts)


def memory_of_addresses() -> Callable[..., otd.Selection]:
    known: dict[Any, Any] = {}

    def remembers(p: Array, q: Array, drafts: Array, rule: Any) -> otd.Selection:
        key = (id(p), id(q), p.shape, drafts.shape, str(p.dtype), drafts.tolist().__repr__())
        return known.setdefault(key, (p, q, rule(p, q, drafts)))[2]

    return remembers


def memory_of_shapes_and_p() -> Callable[..., otd.Selection]:
    known: dict[Any, Any] = {}

    def remembers(p: Array, q: Array, drafts: Array, rule: Any) -> otd.Selection:
        key = (str(p.tolist()), p.shape, q.shape, str(drafts.tolist()), str(p.dtype))
        return known.setdefault(key, rule(p, q, drafts))

    return remembers


def memory_of_rounded_p() -> Callable[..., otd.Selection]:
    known: dict[Any, Any] = {}

    def remembers(p: Array, q: Array, drafts: Array, rule: Any) -> otd.Selection:
        near = to_host(p).astype(float).round(6).tolist()
        key = (str(near), str(q.tolist()), p.shape, q.shape, str(drafts.tolist()), str(p.dtype))
        return known.setdefault(key, rule(p, q, drafts))

    return remembers


def memory_of_tensors() -> Callable[..., otd.Selection]:
    """By the addresses of tensors, whose memory is used again."""
    known: dict[Any, Any] = {}

    def remembers(p: Array, q: Array, drafts: Array, rule: Any) -> otd.Selection:
        if not is_torch(p) or p.is_meta:
            return rule(p, q, drafts)
        return known.setdefault((*(x.data_ptr() for x in (p, q, drafts)), p.shape, drafts.shape), rule(p, q, drafts))

    return remembers


DECISIONS = (
    small_residual_dropped, small_p_dropped, off_by_a_millionth_in_floats, p_overwritten, q_sorted_in_place, in_float32, epsilon_added,
)  # fmt: skip
MEMORIES = (memory_of_tensors, memory_of_addresses, memory_of_shapes_and_p, memory_of_rounded_p)
OWN: dict[str, Callable[[], Callable[..., otd.Selection]]] = {
    **{decide.__name__: lambda decide=decide: decide for decide in DECISIONS},  # type: ignore[misc]
    **{make.__name__: make for make in MEMORIES},
}
for name, make in OWN.items():
    RULES[name.replace("_", " ")] = (lambda make=make: Own(make())), FIRST_LINES  # type: ignore[misc]
