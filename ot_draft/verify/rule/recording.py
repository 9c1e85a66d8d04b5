"""A proxy of a rule that records its arguments, and classifies its errors: it declined the problem (`Refusal`), or crashed."""

from __future__ import annotations

import warnings
from contextlib import suppress
from math import floor, log10, prod
from typing import Any

import numpy as np

from ...arrays import Array, copy, floats, is_exact, is_torch, to_host
from ...errors import DraftSelectionError, InvalidArgument
from ...problem import Problem
from ...selection import Selection, SelectionRule, checked
from ..ranges import Range
from ..source import Counterexample
from .rule_property import RuleProperty

WRITES = "the rule writes into p, q or drafts, which are the caller's: write into a copy, x = xp.copy(p), or make a new array"


NO_DRAFTS = "without k = 0"  # start of the message on a rule that raises an error if there is no draft token


class Refusal(Exception):
    """The rule raised an error by which it declines a problem."""


class Crash(Exception):
    """The rule raised an unexpected error, or did not return a `Selection`."""


class RecordingRule:
    """A proxy of a rule that records the arguments of its calls in `ranges`, by kind of array. Attributes are those of the rule.

    copies: whether the rule gets copies of its arguments, so that it cannot change those of its caller. overwrites: whether it changed
    such a copy.
    """

    def __init__(self, rule: Any, ranges: dict[str, Range], copies: bool = False) -> None:
        self.rule, self.ranges, self.copies, self.overwrites = rule, ranges, copies, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rule, name)

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        """The rule's selection. Raises Refusal or Crash for what it raises; without draft tokens (k = 0) Refusal for every error."""
        try:
            return self._selection(p, q, drafts)
        except Crash as crash:
            if drafts.shape[-1]:
                raise
            said = str(crash).partition(" Remedy: ")[0].removesuffix(".")
            raise Refusal(f"{NO_DRAFTS}, where it {said}") from crash

    def _selection(self, p: Array, q: Array, drafts: Array) -> Selection:
        before = self._range(p, q, drafts)  # before the call: the rule may write into its arguments
        try:
            given = self._on_copies(p, q, drafts) if self.copies else self.rule(p, q, drafts)
        except KeyboardInterrupt:
            raise
        except (DraftSelectionError, NotImplementedError) as error:
            if str(error):  # with a message the rule declines the problem
                raise Refusal(" ".join(str(error).split())) from error
            raise _crash(error, is_exact(p)) from error
        except BaseException as error:  # SystemExit, too: its status would be ours
            raise _crash(error, is_exact(p)) from error
        try:
            selection = checked(given, p, drafts)
        except InvalidArgument as error:
            raise _crash(error, False) from error
        kind = "Fractions" if is_exact(p) else f"torch {p.dtype}".replace("torch.", "") if is_torch(p) else str(p.dtype)
        self.ranges.setdefault(kind, Range()).add(before)
        return selection

    def _on_copies(self, *arrays: Array) -> Any:
        copies = [copy(x) for x in arrays]
        given = self.rule(*copies)
        same = (np.array_equal(to_host(x), to_host(old)) for x, old in zip(copies, arrays, strict=True))
        self.overwrites = self.overwrites or not all(same)
        return given

    def _range(self, p: Array, q: Array, drafts: Array) -> Range:
        n, k = int(p.shape[-1]), int(drafts.shape[-1])
        if (is_torch(p) and p.device.type == "meta") or not prod(p.shape):
            size = (n, 0, k, 0, 0)
        else:
            p, q, ordered = to_host(p), to_host(q), np.sort(to_host(drafts), -1)
            # The larger of the two minima: a one-hot q does not test small probabilities, however small those of p are.
            held = [x.astype(bool) if is_exact(x) else x > 0 for x in (p, q)]
            masses = [floats(x[some]) for x, some in zip((p, q), held, strict=True) if some.any()]
            least = max([float(x.min()) for x in masses], default=1.0)
            new = np.diff(ordered, axis=-1, prepend=-1) > 0
            decades = floor(-log10(max(least, 5e-324)))
            size = (n, int(held[1].sum(-1).max()), k, int(new.sum(-1).max(initial=0)), decades)
        return Range({" x ".join(str(axis) for axis in p.shape[:-1] if axis != 1): [size]}, 1)


def _crash(error: BaseException, exact: bool) -> Crash:
    text, name = " ".join(str(error).split()).removesuffix("."), type(error).__name__
    return Crash(f"raised {name}{f': {text}' if text else ''}. Remedy: {_remedy(error, text, exact)}")


def _remedy(error: BaseException, text: str, exact: bool) -> str:
    """Return the change that fixes a rule that raised this error with this text."""
    # Words of NumPy and torch in errors about arrays that must not be written to.
    if any(words in text for words in ("written-to tensor", "read-only", "in-place", "inplace")):
        return WRITES
    axes = (
        "ambiguous",
        "array",
        "axes",
        "axis",
        "broadcast",
        "dimension",
        "index",
        "length",
        "shape",
        "size",
        "subscript",
    )
    of_axes = isinstance(error, IndexError | InvalidArgument) or any(word in text.lower() for word in axes)
    of_axes = of_axes and not isinstance(error, KeyError | AttributeError | NameError)
    if type(error) is ZeroDivisionError:
        remedy = "a mass is 0: divide and normalise of ot_draft.arrays say what 0/0 is"
    elif type(error) is AssertionError:
        remedy = 'if the rule is for some k only, raise otd.InvalidArgument("why") instead of the assertion, or pass --k (k=)'
    elif exact and "Fraction" in text:
        remedy = (
            "p and q hold Fractions here: use the functions of ot_draft.arrays, which take them, and floats and tensors; where"
            " p is (n,), a sum over its axis is a bare number, unless it is kept: x.sum(-1, keepdims=True)"
        )
    elif of_axes:
        remedy = (
            "p and q are (..., n), drafts (..., k), with any axes before the last, or none: go over the positions,"
            " drafts[..., i : i + 1], and end with  return otd.Selection(accept, residual)"
        )
    else:
        remedy = (
            "the error is in the rule's own code, not in shapes of arrays; the Python of this problem raises it again"
        )
    if isinstance(error, ValueError | NotImplementedError):
        remedy += '; to say that the rule does not take a problem, raise otd.InvalidArgument("why")'
    return remedy


def check_once(
    claim: RuleProperty, rule: SelectionRule, problem: Problem, ranges: dict[str, Range] | None = None
) -> Counterexample | None:
    """Check the property on a copy of one problem. An error of the rule is a counterexample that decides nothing.

    ranges: the arguments of the rule are added to it. Raises Refusal if the rule declines the problem.
    """
    return _counterexample(claim, RecordingRule(rule, {} if ranges is None else ranges), problem)


def only_overwrites(claim: RuleProperty, rule: SelectionRule, problem: Problem) -> bool:
    """Whether the rule changes its arguments on a problem, and the property holds if the rule gets copies."""
    again = RecordingRule(rule, {}, copies=True)
    with suppress(Refusal):
        return _counterexample(claim, again, problem) is None and again.overwrites
    return False


def _counterexample(claim: RuleProperty, rule: Any, problem: Problem) -> Counterexample | None:
    """Check the property on a copy of one problem. Raises Refusal."""
    own = Problem(problem.p.copy(), problem.q.copy(), problem.k, problem.law)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the verdict must not depend on the caller's filters
            claim(rule, own)
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
