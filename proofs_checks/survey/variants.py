"""The question that comes up again and again: is tree verification lossless with top-k drafts, with q set to 1, with
temperature on one side?

One node, two children or one; every variant is one way to choose the children, and one q that the test is told.
"""

from __future__ import annotations

from typing import Any

import ot_draft as otd

from . import pages
from .by_hand import mode, recursive, single, squared, top_two, usual_residual, usual_test
from .evaluation import evaluate_form
from .record import TOP, Form, OneToken, biased
from .rules import DrawnFrom, sharp, top
from .works.llama_cpp import DRAWN, example

RECURSIVE, WITHOUT = otd.rules.RecursiveRejection(), otd.rules.RecursiveRejectionWithoutReplacement()
ONE, NAIVE = otd.rules.SpeculativeSampling(), otd.rules.NaiveTarget(law=TOP)


def holds(name: str, rule: Any, ks: tuple[int, ...], law: Any = None) -> Form:
    return Form(name, OneToken(rule, ks, law), "Coq: sampling.v")


def fails(name: str, rule: Any, ks: tuple[int, ...], law: Any, program: Any, repair: Any, fix: str) -> Form:
    return biased(name, OneToken(rule, ks, law), program, name, OneToken(repair, ks), fix)


DRAW_IT, REPORT = "draw the children, or set q = 1", "report the distribution that was drawn from"
GREEDY = single(usual_test, usual_residual, mode)
CUT, COOLED = (single(usual_test, usual_residual, drawn) for drawn in (top_two, squared))
VARIANTS = (
    holds("children drawn i.i.d., q as it is", RECURSIVE, (1, 2, 3)),
    holds("children without replacement, q renormalised after each rejection", WITHOUT, (1, 2, 3)),
    fails("children without replacement, q not renormalised", RECURSIVE, (2,), WITHOUT.law, recursive(False, False), WITHOUT,
          "renormalise q after each rejection"),
    holds("top-k children, q set to 1, a rejected child's p set to 0", NAIVE, (1, 2, 3)),
    fails("top-k children, tested with q as it is", RECURSIVE, (1, 2), TOP, recursive(True, False), NAIVE, DRAW_IT),
    fails("top-k children, tested with q renormalised after each rejection", WITHOUT, (1, 2), TOP, recursive(True, True), NAIVE, DRAW_IT),
    holds("one draft from q truncated to its top 2, that distribution reported", ONE, (1,)),
    fails("one draft from q truncated to its top 2, q reported untruncated", ONE, (1,), DrawnFrom(top(2)), CUT, ONE, REPORT),
    fails("one draft at temperature 1/2, q reported at temperature 1", ONE, (1,), DrawnFrom(sharp), COOLED, ONE, REPORT),
    fails("one greedy draft, tested with q", ONE, (1,), TOP, GREEDY, NAIVE, "set q = 1"),
    biased("one draft, residual by index of two lists cut apart", DRAWN, example(drawn=True), "by place", OneToken(ONE, (1,)),
           "subtract token by token"),
    holds("target at its temperature, draft at another, each q and p as sampled from", ONE, (1,)),
)  # fmt: skip
HEADS = ("variant", "verdict", "remedy", *pages.CASE[:4])


def rows(quick: bool = True) -> tuple[bool, list[tuple[str, ...]]]:
    """Whether all came out as recorded, and the table."""
    evaluated = [evaluate_form(each, quick) for each in VARIANTS]
    table = [(one.form.name, one.verdict, one.form.fix, *pages.case(one)[:4]) for one in evaluated]
    return all(one.sound for one in evaluated), table
