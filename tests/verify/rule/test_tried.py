"""What stands beside a yes was tried together: a rule that is wrong at a combination of sizes is found, or the sentence leaves it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ot_draft as otd
from ot_draft.arrays import is_torch, to_host
from ot_draft.verify.ranges import Range
from ot_draft.verify.rule import calls
from ot_draft.verify.rule.lossless import in_numpy, in_torch
from ot_draft.verify.rule.strategies import MOST_ROWS, all_together, batches_together

pytestmark = pytest.mark.usefixtures("short_searches")

When = Callable[[Any, Any, Any], Any]


class Sometimes(otd.SelectionRule):
    """Recursive rejection; the draft model's law where `when` says so, (..., 1) or one truth value."""

    law = otd.IID()

    def __init__(self, when: When) -> None:
        self.when = when

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        right = otd.rules.RecursiveRejection()(p, q, drafts)
        wrong = self.when(p, q, drafts)
        if wrong is False or not np.any(to_host(wrong)):
            return right
        wrong = np.broadcast_to(wrong, (*p.shape[:-1], 1))
        if is_torch(p):
            import torch

            wrong = torch.from_numpy(np.array(wrong))
            return otd.Selection(torch.where(wrong, 0, right.accept), torch.where(wrong, q, right.residual))
        return otd.Selection(np.where(wrong, 0, right.accept), np.where(wrong, q, right.residual))


def least(p: Any) -> float:
    mass = to_host(p).astype(float)
    return float(mass[mass > 0].min()) if (mass > 0).any() else 1.0


def rows_from(number: int, axis: int, axes: int) -> When:
    """Rows from this one on, by one axis of those before the last, in a batch of so many or more."""

    def when(p: Any, q: Any, drafts: Any) -> Any:
        shape = tuple(p.shape[:-1])
        if sum(each > 1 for each in shape) < axes or shape[axis] <= number:
            return False
        at = np.arange(shape[axis]) >= number
        return at.reshape(*(-1 if i == axis % len(shape) else 1 for i in range(len(shape))), 1)

    return when


def late_rows(p: Any, q: Any, drafts: Any) -> Any:
    """Flattened rows from the eighth on, where there are two axes or more."""
    shape = tuple(p.shape[:-1])
    return sum(each > 1 for each in shape) >= 2 and (np.arange(np.prod(shape)) >= 8).reshape(*shape, 1)


WRONG: dict[str, When] = {
    "rows from the eighth on, in two axes or more": late_rows,
    "the first of two axes from 8 on": rows_from(8, 0, 2),
    "the last of two axes from 20 on": rows_from(20, -1, 2),
    "the middle of three axes from 8 on": rows_from(8, 1, 3),
    "a thousand tokens with eight drafts": lambda p, q, drafts: p.shape[-1] >= 1000 and drafts.shape[-1] >= 8,
    "float32 with masses below 1e-11": lambda p, q, drafts: "float32" in str(p.dtype) and least(p) < 1e-11,
    "64 rows with a hundred tokens": lambda p, q, drafts: np.prod(p.shape[:-1]) >= 64 and p.shape[-1] >= 100,
    "64 rows with eight drafts": lambda p, q, drafts: np.prod(p.shape[:-1]) >= 64 and drafts.shape[-1] >= 8,
    "tensors of 64 rows in three axes": lambda p, q, drafts: (
        is_torch(p) and p.ndim == 4 and np.prod(p.shape[:-1]) >= 64
    ),
    "a thousand tokens with masses below 1e-11": lambda p, q, drafts: p.shape[-1] >= 1000 and least(p) < 1e-11,
}


BY = {  # the property that finds it, where it is not that of batches in Fractions
    "a thousand tokens with eight drafts": "engine_sizes",
    "float32 with masses below 1e-11": "float_distribution",
    "tensors of 64 rows in three axes": "distribution_in_torch",
    "a thousand tokens with masses below 1e-11": "engine_sizes",
    "64 rows with a hundred tokens": "float_distribution",
    "64 rows with eight drafts": "float_distribution",
}
QUICK = ("rows from the eighth on, in two axes or more", "the first of two axes from 8 on")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in WRONG]
)
@pytest.mark.usefixtures("unhurried_searches", "as_found")
def test_a_rule_that_is_wrong_at_a_combination_of_sizes_is_found(name: str) -> None:
    by = BY.get(name, "output_distribution_in_batches")
    report = otd.check_rule(Sometimes(WRONG[name]), max_examples=1 if name in QUICK else 2, properties=(by,))
    assert report[by].status == "failed" and report[by].refutes, str(report)


@pytest.mark.slow
@pytest.mark.usefixtures("unhurried_searches")
def test_what_is_said_of_a_right_rule() -> None:
    report = otd.check_rule(Sometimes(lambda p, q, drafts: False), max_examples=10)
    lossless, _, in_floats = "\n".join(report.answers.tried_lines()).partition("tried for in floats:")
    assert "Fractions: n <= 1000 (q > 0: 1), k <= 8 (distinct: 1) or n <= " in lossless
    assert "(distinct: 3)" in lossless.partition("float64")[0]
    drawn = "drafts drawn: n <= 1000 (q > 0: 1000), k <= 8 (distinct: 8)"
    assert f"  float64, {drawn}" in lossless
    assert "with n <= 5 (q > 0: 2), k <= 2 (distinct: 2), probabilities >= 1e-12" in lossless
    said = "n <= 100 (q > 0: 2), k <= 4 (distinct: 2), probabilities >= 1e-12"
    assert f"batches of 64, 8 x 8, 4 x 4 x 4 with {said}" in in_floats, in_floats


def test_a_rule_that_writes_into_p_hears_of_that_first() -> None:
    class Writes(otd.SelectionRule):
        law = otd.IID()

        def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
            chosen = otd.rules.RecursiveRejection()(p, q, drafts)
            p[...] = 0
            return chosen

    report = otd.check_rule(Writes(), max_examples=2, properties=("distribution_in_torch", "inputs_unchanged"))
    first = str(report).splitlines()[1]
    assert "overwritten" in first and "write into a copy" in first, str(report)
    assert "any axes before the last" not in str(report)


def test_a_rule_that_takes_the_first_column_is_checked_without_k_0() -> None:
    class First(otd.SelectionRule):
        law = otd.IID()

        def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
            _ = drafts[..., 0]
            return otd.rules.RecursiveRejection()(p, q, drafts)

    report = otd.check_rule(First(), max_examples=2, properties=("extreme_cases",))
    assert "robust: yes (without k = 0, where it raised IndexError: index 0 is out of bounds" in str(report)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("temperature"), "in the rule's own code"),
        (AttributeError("'NoneType' object has no attribute 'shape'"), "in the rule's own code"),
        (RuntimeError("no server"), "in the rule's own code"),
        (AssertionError(), "instead of the assertion, or pass --k"),
        (ValueError("operands could not be broadcast together with shapes (2,) (3,)"), "any axes before the last"),
        (IndexError("too many"), "any axes before the last"),
        (TypeError("only 0-dimensional arrays can be converted to Python scalars"), "any axes before the last"),
    ],
)
def test_the_remedy_is_that_of_the_error(error: Exception, said: str) -> None:
    class Raises(otd.SelectionRule):
        law = otd.IID()

        def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
            raise error

    crash = otd.check_rule(Raises(), max_examples=1, properties=("probabilities",))["probabilities"].evidence.crash
    assert said in crash, crash


def a_sampler(*arguments: Any) -> int:
    return 0


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: otd.check_step(None), r"check_step takes a function step\(p, q, k, generator\) .*, got None"),  # type: ignore[arg-type]
    (lambda: otd.check_sampler("a"), "check_sampler takes a function sampler.*, got 'a'"),  # type: ignore[arg-type]
    (lambda: otd.check_sampler(a_sampler, draft="a"), "takes a function draft.*, got 'a'"),  # type: ignore[arg-type]
    (lambda: otd.check_draws(None), "check_draws takes a function draft.*, got None"),  # type: ignore[arg-type]
    (lambda: otd.check_draws(a_sampler, "iid"), "law must be a draft law, got 'iid'"),  # type: ignore[arg-type]
    (lambda: otd.check_draws(a_sampler, otd.IID), "law must be a draft law, got <class"),  # type: ignore[arg-type]
    (lambda: otd.check_step(a_sampler, rule="KSeq"), "rule must be an instance of a selection rule, got 'KSeq'"),  # type: ignore[arg-type]
    (lambda: otd.check_sampler(a_sampler, 3), "problems must be an iterable of otd.Problem, got 3"),  # type: ignore[arg-type]
    (lambda: otd.check_sampler(a_sampler, seconds=-1), "seconds must be a number >= 0 or None, got -1"),
    (lambda: otd.check_sampler(a_sampler, seed=-1), "seed must be an integer of at least 0, got -1"),
    (lambda: otd.check_sampler(a_sampler, samples=1.5), "samples must be an integer of at least 1, got 1.5"),  # type: ignore[arg-type]
    (lambda: otd.check_sampler(a_sampler, false_alarm=1), "false_alarm must be above 0 and below 1, got 1"),
    (lambda: otd.check_rule(otd.rules.KSeq(), max_examples=0), "max_examples must be an integer of at least 1, got 0"),
    (lambda: otd.check_rule(otd.rules.KSeq(), seed="a"), "seed must be an integer of at least 0, got 'a'"),  # type: ignore[arg-type]
    (lambda: otd.check_rule(otd.rules.KSeq(), draft_sampler=3), "takes a function draft.*, got 3"),  # type: ignore[arg-type]
    (
        lambda: otd.check_rule(otd.rules.KSeq(), properties="floats"),
        r"properties must be a list of names, got 'floats'. Pass \['floats'\]",
    ),
]


@pytest.mark.parametrize(("call", "said"), BAD)
def test_a_bad_argument_is_refused_before_anything_is_tried(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(otd.DraftSelectionError, match=said):
        call()


def test_ranges_that_stand_together_were_tried_together() -> None:
    here = Range({"": [(1000, 2, 1, 1, 0)], "8 x 8": [(2, 2, 1, 1, 3)]}, 1)
    here.add(Range({"": [(5, 3, 4, 2, 12), (4, 3, 4, 2, 0)], "64": [(3, 2, 2, 1, 1)]}, 2)).add(
        Range({"64": [(2, 2, 2, 1, 0)]}, 1)
    )
    single, rows = [(5, 3, 4, 2, 12), (1000, 2, 1, 1, 0)], {"8 x 8": [(2, 2, 1, 1, 3)], "64": [(3, 2, 2, 1, 1)]}
    assert here.sizes == {"": single, **rows} and here.calls == 4
    assert str(here) == (
        "n <= 1000 (q > 0: 2), k <= 1 (distinct: 1) or n <= 5 (q > 0: 3), k <= 4 (distinct: 2), probabilities >= 1e-12; "
        "batches of 64 with n <= 3 (q > 0: 2), k <= 2 (distinct: 1), probabilities >= 1e-1; "
        "batches of 8 x 8 with n <= 2 (q > 0: 2), k <= 1 (distinct: 1), probabilities >= 1e-3; 4 calls"
    )
    both = here.and_in(Range({"": [(7, 9, 2, 2, 4)], "8 x 8": [(9, 9, 9, 9, 9)]}, 5))
    assert both.sizes == {"": [(5, 3, 2, 2, 4), (7, 2, 1, 1, 0)], "8 x 8": [(2, 2, 1, 1, 3)]} and both.calls == 9


@pytest.mark.parametrize(
    "law", [otd.IID(), otd.WithoutReplacement(), otd.SpecHubLaw(), otd.Hybrid(top=1)], ids=lambda law: law.name
)
def test_what_is_always_tried(law: otd.DraftLaw) -> None:
    """Every largest batch, and in a single pair the largest vocabulary, all with masses over twelve decades."""
    problems = all_together(law)
    assert {problem.batch for problem in problems} == {(), *MOST_ROWS}
    assert max(problem.n for problem in problems if not problem.batch) == 1000
    few = [
        problem for problem in problems if not problem.batch and problem.n < 1000
    ]  # many different drafts, all of which count in floats
    assert any(problem.k >= 2 and (problem.q > 0).sum() >= problem.k for problem in few)
    for problem in (each for each in problems if each.batch or each.n == 1000):
        of_both = max(least(problem.p), least(problem.q))
        one_token = (
            not problem.batch and (problem.q > 0).sum() == 1
        )  # the one with the most drafts that is tried in Fractions
        assert (least(problem.p) if one_token else of_both) < 1.1e-12


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", [in_numpy, in_torch])
def test_a_rule_is_given_the_floats_of_the_fractions(library: Callable[[str], calls.Convert], dtype: str) -> None:
    """Fractions are rounded to float64 once a problem, and not again in each call: values and memory are the same."""
    if library is in_torch:
        pytest.importorskip("torch")
    convert = library(dtype)
    for problem in batches_together(otd.IID()):
        drafts, pair = np.zeros((*problem.batch, problem.k), dtype=np.int64), (problem.p, problem.q)
        for call in range(len(calls.MEMORY)):
            found = calls._given(calls._rounded_once(problem, convert), drafts, call, convert)
            for x, wanted in zip(found, calls._given(pair, drafts, call, convert), strict=True):
                assert x.dtype == wanted.dtype and np.array_equal(to_host(x), to_host(wanted))
                assert (x.stride() == wanted.stride()) if is_torch(x) else (x.strides == wanted.strides)
