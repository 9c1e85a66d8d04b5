"""A rule under watch: what it was called with, and whether what it raised is a refusal in words or a crash."""

from __future__ import annotations

import dis
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from math import ceil, log10, prod
from operator import ge
from time import perf_counter, process_time
from types import FrameType, TracebackType
from typing import Any

import hypothesis
import numpy as np

from ..arrays import Array, is_exact, is_torch, to_host
from ..errors import DraftSelectionError, InvalidArgument
from ..problem import Problem
from ..selection import Selection, SelectionRule, checked
from .rule_property import FEW_CELLS, RuleProperty
from .source import Counterexample
from .strategies import Strategy

SHAPES = (
    "p and q are (..., n), drafts (..., k), with any axes before the last, or none: go over the positions,"
    " drafts[..., i : i + 1], and end with  return ot.Selection(accept, residual)"
)
REMEDIES = {"ZeroDivisionError": "a mass is 0: divide and normalise of ot_draft.arrays say what 0/0 is"}
FRACTIONS = (
    "p and q hold Fractions here: use the functions of ot_draft.arrays, which take them, and floats and tensors; where"
    " p is (n,), a sum over its axis is a bare number, which xp.total is not"
)
WRITES = "the rule writes into p, q or drafts, which are the caller's: write into a copy, x = xp.copy(p), or make a new array"
WRITTEN = (
    "written-to tensor",
    "read-only",
    "in-place",
    "inplace",
)  # words of numpy and torch on arrays that one may not write into
OTHERS = {"numpy", "torch", "scipy"}


class Refusal(Exception):
    """The rule said in words, by an error of its own, that it does not take such a problem."""


class Crash(Exception):
    """The rule raised an error that is none of its own words, or gave what is no selection."""


BATCHES_SAID = 2  # sizes of batches in a sentence
Size = tuple[int, int, int]  # n, k, and the mass, as a power of ten, down to which both laws went


def _within(size: Size, other: Size) -> bool:
    """Whether a size is no larger in anything than one that was tried."""
    return size[0] <= other[0] and size[1] <= other[1] and size[2] >= other[2]


@dataclass
class Range:
    """With what arrays of one kind a rule was called: for every shape of a batch the largest n, k and masses that stood together.

    sizes: by the axes before the last that are longer than 1, as "8 x 8", "" for none; those that lie within no other. calls: all.
    """

    sizes: dict[str, list[Size]] = field(default_factory=dict)
    calls: int = 0

    def add(self, other: Range) -> Range:
        """Widen it by another one, and give it."""
        for shape, sizes in other.sizes.items():
            for size in ((n, k, power) for n, k, power in sizes):
                here = self.sizes.setdefault(shape, [])
                if not any(_within(size, each) for each in here):
                    here[:] = sorted([size, *(each for each in here if not _within(each, size))])
        self.calls += other.calls
        return self

    def and_in(self, other: Range) -> Range:
        """What lies within both."""
        found = Range(calls=self.calls + other.calls)
        for shape in self.sizes.keys() & other.sizes.keys():
            for one, two in product(self.sizes[shape], other.sizes[shape]):
                found.add(Range({shape: [(min(one[0], two[0]), min(one[1], two[1]), max(one[2], two[2]))]}))
        return found

    def __str__(self) -> str:
        """Ranges that were tried together: of single pairs, and of the largest batches in one, two and three axes."""
        alone = self.sizes.get("", [])
        told = (
            dict.fromkeys(
                max(alone, key=key)
                for key in (_extent, tuple, lambda size: (size[1], size[0]), lambda size: (-size[2], _extent(size)))
            )
            if alone
            else ()
        )
        parts = [" or ".join(map(_said, sorted(told, reverse=True)))] if told else []
        rows = {shape: prod(map(int, shape.split(" x "))) for shape in self.sizes if shape}
        most: dict[int, int] = {}
        for shape, number in rows.items():
            most[shape.count(" x ")] = max(number, most.get(shape.count(" x "), 0))
        alike: dict[Size, list[str]] = {}
        for shape in sorted(rows, key=lambda shape: (shape.count(" x "), shape)):
            if rows[shape] == most[shape.count(" x ")]:
                alike.setdefault(max(self.sizes[shape], key=_extent), []).append(shape)
        largest = sorted(alike, key=lambda size: -_extent(size))[:BATCHES_SAID]
        parts += [f"batches of {', '.join(alike[size])} with {_said(size)}" for size in largest]
        return "; ".join([*parts, f"{self.calls:,} calls"])


def _extent(size: Size) -> int:
    """How much a size covers: tokens times drafts times decades of the masses."""
    return size[0] * size[1] * (1 - size[2])


def _said(size: Size) -> str:
    return f"n <= {size[0]}, k <= {size[1]}, masses down to 1e{size[2]}"


class Watched:
    """The rule itself, in every other respect."""

    def __init__(self, rule: Any, ranges: dict[str, Range]) -> None:
        self.rule, self.ranges = rule, ranges

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rule, name)

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        """What the rule decides. Raises Refusal or Crash for what it raises."""
        before = self._range(p, q, drafts)  # before the call: the rule may write into its arguments
        try:
            given = self.rule(p, q, drafts)
        except (KeyboardInterrupt, TooLong):
            raise
        except BaseException as error:  # SystemExit, too: its status would be ours
            if _is_refusal(error):
                raise Refusal(" ".join(str(error).split())) from error
            raise _crash(error, exact=is_exact(p)) from error
        try:
            selection = checked(given, p, drafts)
        except InvalidArgument as error:
            raise _crash(error, exact=False) from error
        kind = "Fractions" if is_exact(p) else f"torch {p.dtype}".replace("torch.", "") if is_torch(p) else str(p.dtype)
        self.ranges.setdefault(kind, Range()).add(before)
        return selection

    def _range(self, p: Array, q: Array, drafts: Array) -> Range:
        least = 1.0
        if not (is_torch(p) and p.device.type == "meta"):
            # Of both laws: a q of one token says nothing of small masses, however small those of p.
            least = max([float(x[x > 0].min()) for x in map(to_host, (p, q)) if (x > 0).any()], default=1.0)
        size = int(p.shape[-1]), int(drafts.shape[-1]), ceil(log10(max(least, 5e-324)))
        return Range({" x ".join(str(axis) for axis in p.shape[:-1] if axis != 1): [size]}, 1)


def _crash(error: BaseException, exact: bool) -> Crash:
    text, name = " ".join(str(error).split()), type(error).__name__
    remedy = REMEDIES.get(name, FRACTIONS if exact and "Fraction" in text else SHAPES)
    remedy = WRITES if any(words in text for words in WRITTEN) else remedy
    return Crash(f"raised {name}: {text}. Remedy: {remedy}")


def _is_refusal(error: BaseException) -> bool:
    """Whether an error is raised on purpose: one of ot_draft's, or a ValueError, with words, of a `raise` of the user's."""
    if isinstance(error, DraftSelectionError):  # what a rule raises is anybody's
        return True
    if not isinstance(error, ValueError | NotImplementedError) or not str(error):  # as above
        return False
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    module = str(last.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
    raised = last.tb_frame.f_code.co_code[last.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return raised and module not in OTHERS | set(sys.stdlib_module_names) - {"__main__"}


# Seconds of the CPU: for one property of an engine's sizes, for another one, for a problem after which no larger one is
# tried, for the first problem. Of the clock ten times as many: a rule may sleep, and the machine may have other work.
ENOUGH, LONG, SLOW, PATIENCE, AGAIN = 5.0, 20.0, 0.25, 12.0, 0.02
CLOCK = 10
TIMES = 4  # as many problems of such a property
# Whose Python code is never stopped half-way: a module that was imported in part, or compiled in part, stays broken.
WHOLE = ("importlib", "_frozen_importlib", "numba", "llvmlite", "torch", "jax", "gc")


class TooLong(BaseException):
    """A problem that took longer than what is left of the time."""


@dataclass
class Alarm:
    """Whether the body was stopped, whatever came out of it: a rule may catch everything."""

    rung: bool = False


@contextmanager
def at_most(seconds: float) -> Iterator[Alarm]:
    """Raise TooLong in the body after so many seconds of the CPU, or ten times as many of the clock.

    No limit outside of the main thread, and none on the clock where another alarm is set.
    """
    alarm = Alarm()
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield alarm
        return

    def stop(_: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_globals is not globals():
            module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if module in WHOLE or "gc" in frame.f_code.co_name:
                return  # the next alarm comes soon
            frame = frame.f_back
        alarm.rung = True
        raise TooLong

    def swallowed(unraisable: sys.UnraisableHookArgs) -> None:
        """An alarm in a callback of a weak reference or in __del__ goes nowhere: the next one comes soon."""
        if not isinstance(unraisable.exc_value, TooLong):
            hook(unraisable)

    hook = sys.unraisablehook
    timers = {signal.ITIMER_VIRTUAL: signal.SIGVTALRM}
    if signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0):
        timers[signal.ITIMER_REAL] = signal.SIGALRM
    before = {number: signal.signal(number, stop) for number in timers.values()}
    sys.unraisablehook = swallowed
    try:
        for timer in timers:
            signal.setitimer(timer, seconds * (CLOCK if timer == signal.ITIMER_REAL else 1), AGAIN)
        yield alarm
    finally:
        with suppress(TooLong):  # an alarm on the way out
            _silence(timers)
        _silence(timers)
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def _silence(timers: Iterable[int]) -> None:
    for timer in timers:
        signal.setitimer(timer, 0)


@dataclass
class Tried:
    """What was tried with k drafts: number of problems, time spent on them, "failed" where the property failed on one."""

    k: int
    cases: int = 0
    seconds: float = 0.0
    status: str = "passed"


@dataclass
class Search:
    """A search: what was tried, by the number of drafts, and the smallest counterexample, if there is one.

    ranges: what the rule was called with where it held, by the kind of array. refused, refusal: how many problems the rule
    does not take, and its words. slow: sizes (n, k, rows) of problems that took long. interrupted: whether the rule was ever
    stopped half-way; endless: what is said of a rule that does not come to an end.
    """

    by_k: dict[int, Tried] = field(default_factory=dict)
    counterexample: Counterexample | None = None
    ranges: dict[str, Range] = field(default_factory=dict)
    refused: int = 0
    refusal: str = ""
    slow: list[tuple[int, int, int]] = field(default_factory=list)
    spent: float = 0.0
    begun: bool = False
    interrupted: bool = False
    endless: str = ""

    def attempt(self, claim: RuleProperty, rule: SelectionRule, problem: Problem) -> Counterexample | None:
        """Try one problem, and count it."""
        most = ENOUGH if claim.large else LONG
        size = problem.n, problem.k, int(np.prod(problem.batch))
        slow = any(all(map(ge, size, each)) for each in self.slow)  # it is larger than one that took long
        if self.spent > most or self.endless or (claim.large and slow):
            return None
        tried = self.by_k.setdefault(problem.k, Tried(problem.k))
        tried.cases += 1
        start, cpu = perf_counter(), process_time()
        ranges: dict[str, Range] = {}
        counterexample, alarm = None, Alarm()
        limit = max(most - self.spent, SLOW) if claim.large and self.begun else PATIENCE
        try:
            with at_most(limit) as alarm:
                counterexample = check_once(claim, rule, problem, ranges)
        except TooLong:
            pass
        except Refusal as refusal:
            self.refused, self.refusal, ranges = self.refused + 1, self.refusal or str(refusal), {}
        if alarm.rung:  # a rule that enumerates may go on for ever; what it gave when it was stopped says nothing
            counterexample, ranges, self.interrupted = None, {}, True
            tried.cases -= 1
            if limit == PATIENCE:
                within = f"{PATIENCE:.0f} s of the CPU or {CLOCK * PATIENCE:.0f} s in all"
                self.endless = f"gave no answer within {within} for n = {problem.n}, k = {problem.k}"
        clock = perf_counter() - start
        tried.seconds += clock
        took = max(process_time() - cpu, clock / CLOCK) if self.begun else 0.0  # the first one may import torch
        self.begun = True
        self.spent += took
        self.slow += [size] if took > SLOW else []
        tried.status = "failed" if counterexample is not None else tried.status
        for kind, range_ in ranges.items() if counterexample is None else ():
            self.ranges.setdefault(kind, Range()).add(range_)
        return counterexample


Drawn = dict[Any, list[Problem]]  # problems by the function that makes them: properties of one rule share them


def search(
    claim: RuleProperty, rule: SelectionRule, max_examples: int, seed: int, drawn: Drawn | None = None
) -> Search:
    """Try the property on up to max_examples problems; the same seed gives the same problems. Raises nothing of the rule's.

    A counterexample that decides goes before one that does not. drawn: problems that were drawn for other properties of the
    same rule with the same settings; added to.
    """
    few = (
        {"cells": FEW_CELLS} if claim.large and rule.cost.solves_program else {}
    )  # a rule that solves a program for every problem
    cases, number = claim.cases(rule.law, **few), min(max_examples * (TIMES if claim.large else 1), claim.most)
    if isinstance(cases, list):
        return _first_failure(claim, rule, cases)
    drawn = {} if drawn is None else drawn
    known = drawn.setdefault(claim.cases, [])
    if len(known) < number:
        known.clear()
        _run(cases, known.append, number, seed)
    asked = [*known[:number], *([] if rule.cost.solves_program else claim.together(rule.law))]
    if claim.large:  # small ones first: a rule may enumerate the drafts itself
        asked = sorted(asked, key=lambda problem: (problem.n**problem.k, int(np.prod(problem.batch))))
    first = _first_failure(claim, rule, asked)
    if first.counterexample is None:
        return first
    smaller, decides = Search(slow=first.slow), first.counterexample.decides

    def shrink(problem: Problem) -> None:
        counterexample = smaller.attempt(claim, rule, problem)
        if counterexample is not None and counterexample.decides == decides:
            smaller.counterexample = counterexample
            raise counterexample

    with suppress(Counterexample, hypothesis.errors.Flaky):  # flaky: the rule is no function; its last failure stands
        _run(cases, shrink, number, seed)
    return smaller if smaller.counterexample else first


def _first_failure(claim: RuleProperty, rule: SelectionRule, problems: list[Problem]) -> Search:
    """Every problem of a list, up to one that decides; without one, the first on which the property could not be looked at."""
    tried = Search()
    for problem in problems:
        counterexample = tried.attempt(claim, rule, problem)
        if counterexample is None:
            continue
        if counterexample.decides:
            tried.counterexample = counterexample
            break
        tried.counterexample = tried.counterexample or counterexample
    return tried


def _run(cases: Strategy, use: Callable[[Problem], None], number: int, seed: int) -> None:
    """Hand over so many problems; shrink one on which `use` raises, and raise what it raises on the smallest."""

    # Not derandomized: the seed decides; a CI profile would set it.
    settings = hypothesis.settings(
        max_examples=number, database=None, derandomize=False, deadline=None, print_blob=False, report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck), verbosity=hypothesis.Verbosity.quiet,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
    )  # fmt: skip

    @hypothesis.seed(seed)
    @settings
    @hypothesis.given(cases)
    def tried(problem: Problem) -> None:
        use(problem)

    tried()


def check_once(
    claim: RuleProperty, rule: SelectionRule, problem: Problem, ranges: dict[str, Range] | None = None
) -> Counterexample | None:
    """The property on a copy of one problem; whatever the rule raises is a counterexample that decides nothing.

    ranges: what the rule was called with, added to. Raises Refusal where the rule says that it does not take the problem.
    """
    copy = Problem(problem.p.copy(), problem.q.copy(), problem.k, problem.law)
    watched: Any = Watched(rule, {} if ranges is None else ranges)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the verdict must not depend on the caller's filters
            claim(watched, copy)
        return None
    except Counterexample as counterexample:
        found = counterexample
    except Refusal:
        raise
    except Crash as crash:
        found = Counterexample(problem, str(crash), decides=False, crash=True)
    except Exception as error:
        found = Counterexample(problem, f"raised {type(error).__name__}: {error}", decides=False)
    found.problem, found.shows = problem, claim.code
    return found
