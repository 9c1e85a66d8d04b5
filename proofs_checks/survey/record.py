"""One work of the survey: where it was read, what it claims, and the rules that it describes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import ot_draft as otd
from ot_draft import trees

from .by_hand import mode
from .cases import Case
from .rules import TOP, Single, best
from .verifiers import BONUS, AlongPath, Coupled, OneToken, Verifier

__all__ = ["BLOCK", "BUG", "BY_DESIGN", "CHAIN", "CONDITIONAL", "ENGINE", "GREEDY", "GREEDY_CHAIN", "LOSSLESS", "LOSSY", "METHOD", "MODES",
           "NAIVE_TREE", "NGRAM", "NOT_LOSSLESS", "PATH", "READ", "RUN", "SPECULATIVE", "TARGET_SAMPLE", "TOP", "TREE", "TREES", "TYPICAL",
           "UNDECIDED", "AlongPath", "Argued", "Case", "Coupled", "Form", "Known", "OneToken", "Work", "biased", "greedy"]  # fmt: skip

SPECULATIVE = OneToken(otd.rules.SpeculativeSampling(), (1,))
TARGET_SAMPLE = OneToken(otd.rules.NaiveTarget(law=TOP), (1,))  # for a draft that is chosen
TREE = trees.TreeShape.by_level((2, 2))  # on which every verifier of trees is evaluated as a walk
GREEDY_CHAIN = OneToken(
    Single(lambda p, q: best(p), lambda p, q: best(p), TOP), (1,), injected=(BONUS,)
)  # for temperature 0
PATH = AlongPath(trees.TokenWise(otd.rules.SpeculativeSampling()))
NAIVE_TREE = AlongPath(trees.NaivePath(), (2,), 2, TREE, TOP)  # the same for chosen children: the target's own walk
LOSSLESS, NOT_LOSSLESS = "lossless", "not lossless"  # what an enumeration finds
CONDITIONAL, BY_DESIGN, BUG, UNDECIDED = (
    "lossless under a condition", "lossy by design", "not lossless (bug)", "undecided",
)  # fmt: skip
MODES = GREEDY, CHAIN, BLOCK, TREES, NGRAM, TYPICAL = "greedy", "chain", "block", "tree", "n-gram", "typical"
ENGINE, METHOD, LOSSY = "engine", "method", "lossy"  # the three tables of the page
READ, RUN = "read, not run", "run: its own function over all its random numbers, in float64, has the same distribution"


class Known(NamedTuple):
    """A recorded case and the total variation that must come out; under another drafting than the form's, `what`, if one is given."""

    case: Case
    total_variation: Fraction
    what: str = ""
    verifier: Any = None
    by_hand: Callable[..., Any] | None = None


class Argued(NamedTuple):
    """A rule whose verdict follows from an argument: its probabilities are irrational, so that no enumeration in Fractions decides it.

    why: the argument. example: p, q, k and the total variation, as text. seen, fixed: as for a form.
    """

    rule: str
    mode: str
    when: str
    verdict: str
    why: str
    example: tuple[str, str, str, str]
    code: str
    seen: str
    fixed: str = ""


@dataclass(frozen=True)
class Form:
    """One rule of a work, as its paper or its code has it; or one of the choices that a description leaves open.

    expects: the verdict that the exact checks must reproduce. rests_on: the theorem or the check that supports it. by_hand: the rule
    once more, as a program of random draws, for the independent enumeration; needed where it is not lossless.
    line: the line of the algorithm or the code that decides. repair: the smallest change that makes it lossless, `fix` in words.
    on_purpose: this form is lossy by design, where the work as a whole is not. condition: what a lossless form needs besides its
    settings. mode: the mode of an engine that the form serves, one of MODES. cycles: over how many cycles of drafting and verification
    the distribution of the tokens is compared. when: version and settings in which the form is reached. code: where this form was
    read, if elsewhere than the work's.
    seen: for released code that is not lossless, how that was seen in the code itself. fixed: where its authors repaired it.
    through: the sampling settings, which the distributions of every case go through before the result. sampling: the temperature, top-p
    or top-k with which the form is evaluated, where p and q of a case are not the distributions after all of them. known: cases with the
    total variation that must come out, in addition to the smallest.
    """

    name: str
    verifier: Verifier
    rests_on: str
    expects: str = LOSSLESS
    by_hand: Callable[..., Any] | None = None
    line: str = ""
    repair: Verifier | None = None
    fix: str = ""
    on_purpose: bool = False
    condition: str = ""
    mode: str = ""
    cycles: int = 1
    when: str = ""
    code: str = ""
    seen: str = ""
    fixed: str = ""
    sampling: str = ""
    through: Callable[[Any], Any] | None = None
    known: tuple[Known, ...] = ()


def biased(
    name: str, verifier: Verifier, by_hand: Callable[..., Any], line: str, repair: Verifier, fix: str, **others: Any
) -> Form:
    """A form that is not lossless, by exact enumeration unless `rests_on` says more."""
    others = {"rests_on": "exact enumeration"} | others
    return Form(name, verifier, expects=NOT_LOSSLESS, by_hand=by_hand, line=line, repair=repair, fix=fix, **others)


def greedy(name: str, **others: Any) -> Form:
    """Verification at temperature 0: every distribution has all mass on its most probable token, drafts are compared with the target's."""
    return Form(
        name,
        GREEDY_CHAIN,
        "comparison with the target's most probable token; exact checks",
        sampling="temperature 0",
        through=mode,
        mode=GREEDY,
        **others,
    )


@dataclass(frozen=True)
class Work:
    """One published verifier, or an engine's own sampler at a version.

    paper: source, with its version and section. code: repository, path and commit, "" where none was read. read: what of it was read.
    claim: what the work says of itself. on_purpose: it is lossy by design and says so, so that "not lossless" contradicts nothing.
    engine: the name of the engine that people run, under which the index lists it. undecided: what of it has no verdict,
    and why, rule by rule. argued: rules that an argument decides.
    """

    name: str
    title: str
    paper: str
    read: str
    claim: str
    cost: str
    forms: tuple[Form, ...]
    code: str = ""
    on_purpose: bool = False
    remarks: str = ""
    undecided: tuple[tuple[str, str], ...] = ()
    argued: tuple[Argued, ...] = ()
    engine: str = ""

    @property
    def kind(self) -> str:
        return ENGINE if self.engine else LOSSY if self.on_purpose else METHOD
