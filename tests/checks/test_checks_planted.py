"""Planted wrong rules, most of them from bug reports of the field: each is rejected, by the property that its entry names."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import ot_draft as ot
from ot_draft.arrays import (
    divide,
    excess,
    gather,
    is_exact,
    is_torch,
    members,
    minimum,
    normalise,
    number,
    total,
    where,
)
from ot_draft.checks.properties import choose
from ot_draft.checks.report import PropertyOutcome, check_property
from ot_draft.selection import in_turn

Array = Any


class Planted(ot.SelectionRule):
    """A rule made of a function (p, q, drafts) -> Selection."""

    def __init__(self, decide: Callable[[Array, Array, Array], ot.Selection], law: ot.DraftLaw) -> None:
        self.decide, self.law = decide, law

    def __call__(self, p: Array, q: Array, drafts: Array) -> ot.Selection:
        return self.decide(p, q, drafts)

    @property
    def name(self) -> str:
        return self.decide.__name__


PLANTED: list[tuple[Planted, str, int]] = []


def caught_by(name: str, largest_n: int = 3, law: ot.DraftLaw = ot.IID()) -> Callable[[Any], Any]:
    """Decorator: a wrong rule, the property that rejects it, and the vocabulary its smallest counterexample may have."""

    def plant(decide: Callable[[Array, Array, Array], ot.Selection]) -> Callable[..., ot.Selection]:
        PLANTED.append((Planted(decide, law), name, largest_n))
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


def right(p: Array, q: Array, drafts: Array) -> ot.Selection:
    return ot.rules.SpeculativeSampling()(p, q, drafts)


@caught_by("output_law")
def residual_is_the_target(p: Array, q: Array, drafts: Array) -> ot.Selection:
    return ot.Selection(right(p, q, drafts).accept, p)


@caught_by("output_law")
def residual_not_updated_after_a_refusal(p: Array, q: Array, drafts: Array) -> ot.Selection:
    """Every draft is tested against p itself: k independent tests."""
    return ot.Selection(in_turn(minimum(ratio(p, q, drafts), number(1, p))), normalise(left_over(p, q), p))


@caught_by("output_law")
def repeated_drafts_skipped(p: Array, q: Array, drafts: Array) -> ot.Selection:
    """A token that was refused before is passed over as if it had not been drafted."""
    unique = drafts.copy()
    for i in range(1, drafts.shape[-1]):
        unique[..., i] = np.where((drafts[..., :i] == drafts[..., i : i + 1]).any(-1), -1, drafts[..., i])
    return ot.rules.RecursiveRejection()(p, q, unique)


@caught_by("output_law", law=ot.WithoutReplacement())
def with_replacement_rule_without_replacement(p: Array, q: Array, drafts: Array) -> ot.Selection:
    return ot.rules.RecursiveRejection()(p, q, drafts)


@caught_by("output_law")
def without_replacement_rule_with_replacement(p: Array, q: Array, drafts: Array) -> ot.Selection:
    return ot.rules.RecursiveRejectionWithoutReplacement()(p, q, drafts)


@caught_by("output_law")
def accepts_five_percent_too_often(p: Array, q: Array, drafts: Array) -> ot.Selection:
    return ot.Selection(first_draft(p, q, drafts, percent=105), right(p, q, drafts).residual)


@caught_by("output_law")
def gamma_too_small(p: Array, q: Array, drafts: Array) -> ot.Selection:
    return ot.rules.KSeq(factor=1)(p, q, drafts)


@caught_by("absent_drafts")
def zero_residual_is_token_0(p: Array, q: Array, drafts: Array) -> ot.Selection:
    """A row without drafts has nothing to subtract from; its guard should have been p."""
    some = (drafts >= 0).any(-1)[..., None]
    token = members(np.array([0]), p.shape[-1], p) * number(1, p) + 0 * p
    left = where(some, left_over(p, q), 0 * p)
    return ot.Selection(first_draft(p, q, drafts), where(some, normalise(left, p), token))


@caught_by("boundary_cases")
def small_residual_is_uniform(p: Array, q: Array, drafts: Array) -> ot.Selection:
    left = left_over(p, q)
    uniform = (0 * p + number(1, p)) / p.shape[-1]
    residual = where(1000 * total(left) <= 1, uniform, normalise(left, p))
    return ot.Selection(first_draft(p, q, drafts), where((drafts >= 0).any(-1)[..., None], residual, p))


@caught_by("probabilities")
def zero_residual_is_nan(p: Array, q: Array, drafts: Array) -> ot.Selection:
    return ot.Selection(first_draft(p, q, drafts), normalise(left_over(p, q), float("nan") * p))


@caught_by("output_law")
def peaked_draft_accepted_outright(p: Array, q: Array, drafts: Array) -> ot.Selection:
    """A draft of which the draft model is nearly sure is not tested."""
    sure = (gather(q, drafts) * 10 >= 9) & (drafts >= 0) & ((drafts >= 0).cumsum(-1) == 1)
    return ot.Selection(
        where(sure, 0 * gather(p, drafts) + number(1, p), first_draft(p, q, drafts)), right(p, q, drafts).residual
    )


@caught_by("output_law", law=ot.Hybrid(top=-1))
def greedy_drafts_taken_for_sampled_ones(p: Array, q: Array, drafts: Array) -> ot.Selection:
    return ot.rules.RecursiveRejection()(p, q, drafts)


@caught_by("output_law")
def sampled_drafts_taken_for_greedy_ones(p: Array, q: Array, drafts: Array) -> ot.Selection:
    return ot.rules.Greedy()(p, q, drafts)


@caught_by("output_law")
def residual_of_the_last_draft_only(p: Array, q: Array, drafts: Array) -> ot.Selection:
    """Every draft is tested as it should be, and the residual is that of a single draft."""
    return ot.Selection(ot.rules.RecursiveRejection()(p, q, drafts).accept, right(p, q, drafts).residual)


@caught_by("output_law")
def p_and_q_swapped(p: Array, q: Array, drafts: Array) -> ot.Selection:
    return right(q, p, drafts)


@caught_by("inputs_unchanged")
def target_changed_in_place(p: Array, q: Array, drafts: Array) -> ot.Selection:
    selection = right(p, q, drafts)
    p -= minimum(p, q) if is_torch(p) else np.minimum(p, q)
    return selection


@caught_by("rows_do_not_leak")
def residual_normalised_over_the_batch(p: Array, q: Array, drafts: Array) -> ot.Selection:
    left = left_over(p, q)
    whole = (left.sum() + 0 * number(1, p)) / max(1, int(np.prod(p.shape[:-1])))
    return ot.Selection(first_draft(p, q, drafts), where(left_over(p, q).sum() > 0, left / (whole or 1), p))


@caught_by("batch_equals_loop")
def first_row_for_all(p: Array, q: Array, drafts: Array) -> ot.Selection:
    selection = right(p, q, drafts)
    residual = selection.residual.reshape(-1, p.shape[-1])[:1] if p.ndim > 1 else selection.residual
    return ot.Selection(selection.accept, residual)


@caught_by("output_law")
def wrong_from_three_drafts_on(p: Array, q: Array, drafts: Array) -> ot.Selection:
    selection = ot.rules.RecursiveRejection()(p, q, drafts)
    return selection if drafts.shape[-1] < 3 else ot.Selection(selection.accept, p)


@caught_by("output_law")
def wrong_where_p_has_zeros(p: Array, q: Array, drafts: Array) -> ot.Selection:
    floored = where(p == 0, 0 * p + number(1, p) / 100, p)
    return ot.Selection(first_draft(floored, q, drafts), right(p, q, drafts).residual)


@caught_by("relabelling_commutes", largest_n=4)
def wrong_for_token_2(p: Array, q: Array, drafts: Array) -> ot.Selection:
    selection = right(p, q, drafts)
    return ot.Selection(where(drafts == 2, selection.accept / 2, selection.accept), selection.residual)


@caught_by("floats_agree")
def ratios_in_float16(p: Array, q: Array, drafts: Array) -> ot.Selection:
    take = first_draft(p, q, drafts)
    rounded = take if is_exact(p) else take.half().to(p.dtype) if is_torch(p) else take.astype("f2").astype(p.dtype)
    return ot.Selection(rounded, right(p, q, drafts).residual)


@caught_by("no_host_sync")
def value_looked_at_on_the_host(p: Array, q: Array, drafts: Array) -> ot.Selection:
    return right(p, p if bool((p == q).all()) else q, drafts)


@caught_by("no_host_sync")
def array_made_on_the_cpu(p: Array, q: Array, drafts: Array) -> ot.Selection:
    if is_torch(p):
        import torch

        return right(p * torch.ones(p.shape[-1], dtype=p.dtype), q, drafts)
    return right(p, q, drafts)


@caught_by("torch_agrees")
def other_ratio_on_torch(p: Array, q: Array, drafts: Array) -> ot.Selection:
    selection = right(p, q, drafts)
    return ot.Selection(selection.accept * (0.5 if is_torch(p) else 1), selection.residual)


@caught_by("exactness")
def float_literal(p: Array, q: Array, drafts: Array) -> ot.Selection:
    selection = right(p, q, drafts)
    return ot.Selection(1.0 * selection.accept, selection.residual)


@caught_by("extreme_cases")
def fails_without_drafts(p: Array, q: Array, drafts: Array) -> ot.Selection:
    """Reads the first draft, where there may be none."""
    return right(p, q, where(drafts[..., :1] == drafts[..., 0, None], drafts, -1))


@caught_by("boundary_cases_in_floats", largest_n=4)
def target_left_over_on_torch_where_both_are_zero(p: Array, q: Array, drafts: Array) -> ot.Selection:
    selection = right(p, q, drafts)
    zero = is_torch(p) and bool(((p == 0) & (q == 0)).any())
    return ot.Selection(selection.accept, p) if zero else selection


@caught_by("extreme_cases")
def no_rows_on_torch_are_an_error(p: Array, q: Array, drafts: Array) -> ot.Selection:
    if is_torch(p) and 0 in p.shape:
        raise RuntimeError("no rows")
    return right(p, q, drafts)


@caught_by("absent_drafts")
def draft_for_the_target_on_torch_where_none_is_drafted(p: Array, q: Array, drafts: Array) -> ot.Selection:
    selection = right(p, q, drafts)
    none = is_torch(p) and not (drafts >= 0).any()
    return ot.Selection(selection.accept, q + 0 * selection.residual) if none else selection


@caught_by("at_most_the_optimum")
def accepts_always(p: Array, q: Array, drafts: Array) -> ot.Selection:
    first = (drafts >= 0) & ((drafts >= 0).cumsum(-1) == 1)
    return ot.Selection(where(first, 0 * gather(p, drafts) + number(1, p), 0 * gather(p, drafts)), p)


def outcome_of(rule: ot.SelectionRule, name: str, max_examples: int = 100) -> PropertyOutcome:
    (claim,) = choose([name])
    return check_property(claim, rule, max_examples)


STOPS = (AssertionError, RuntimeError, IndexError)  # a counterexample, and what the planted rules raise


@pytest.mark.parametrize(
    ("rule", "name", "largest_n"), PLANTED, ids=[f"{rule.name}-{name}" for rule, name, _ in PLANTED]
)
def test_a_planted_bug_is_rejected_by_its_property(
    rule: Planted, name: str, largest_n: int, record_property: Callable[[str, object], None]
) -> None:
    """By a small problem, and by code that runs; the time goes into the test report."""
    if "torch" in rule.name or name == "no_host_sync":
        pytest.importorskip("torch")
    outcome = outcome_of(rule, name)
    record_property("seconds", outcome.seconds)
    assert outcome.status == "failed" and outcome.counterexample is not None
    assert outcome.counterexample.problem.n <= largest_n and outcome.counterexample.problem.k <= 3
    # The planted rules cannot be imported by name: the lines that make them are left out, and the rest is executed.
    lines = [line for line in outcome.code.splitlines() if "Planted" not in line and "sys.path" not in line]
    names: dict[str, Any] = {"rule": rule}
    with (
        nullcontext() if "ot.evaluate" in outcome.code else pytest.raises(STOPS) as raised,
        np.errstate(all="ignore"),
    ):
        exec("\n".join(lines), names)
    if raised is None:
        assert (names["result"].output != names["problem"].p).any()
    elif not outcome.reason.startswith("raised "):
        assert isinstance(raised.value, AssertionError) and str(raised.value) == outcome.reason
    else:
        assert isinstance(raised.value, RuntimeError | IndexError) and str(raised.value) in outcome.reason


class Forgetful(ot.SelectionRule):
    """As a user would write it: recursive rejection with the target in the place of the residual."""

    law = ot.IID()

    def __call__(self, p: Array, q: Array, drafts: Array) -> ot.Selection:
        return ot.Selection(ot.rules.RecursiveRejection()(p, q, drafts).accept, p)


def test_the_code_of_a_counterexample_shows_what_the_report_says(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = outcome_of(Forgetful(), "output_law")
    names: dict[str, Any] = {}
    exec(compile(outcome.code, "counterexample", "exec"), names)
    assert outcome.counterexample is not None
    problem, output = names["problem"], names["result"].output
    assert (problem.p == outcome.counterexample.problem.p).all() and (output != problem.p).any()
    printed = capsys.readouterr().out.splitlines()
    masses = [" ".join(str(mass) for mass in law) for law in (output, problem.p)]
    assert printed == [f"output: {masses[0]}", f"target: {masses[1]}"]
    assert outcome.reason == "output law ({}) instead of ({})".format(*(text.replace(" ", ", ") for text in masses))
    assert problem.n == 2 and problem.k == 1
