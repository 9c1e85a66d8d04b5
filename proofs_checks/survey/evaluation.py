"""A result of one form of a work: the verdict by exact enumeration, the simplest counterexample, its confirmation, the
injected errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import branches
from . import cases
from .record import LOSSLESS, NOT_LOSSLESS, Form, Known, Work
from .verifiers import CaseResult, Verifier

REAL = "figures/data/smollm2_pairs.npz"
INJECTED = 24  # cases on which a injected error is looked for at first


@dataclass(frozen=True)
class Evaluation:
    """Result for one form.

    example: the simplest case in which the text has another distribution; confirmed: the independent enumeration agrees
    there. worst: the result of the least share of the optimum. detected: whether each injected error was. repaired: the result of
    the repair on the example. tried: the cases in words. positions: tokens of each compared text. known:
    results of the recorded cases, and whether each came out as recorded in both enumerations.
    """

    form: Form
    verdict: str
    tried: str
    cases: int
    positions: int
    example: CaseResult | None
    confirmed: bool
    worst: CaseResult
    detected: dict[str, bool]
    repaired: CaseResult | None
    repair_holds: bool
    known: tuple[tuple[CaseResult, bool], ...] = ()

    @property
    def sound(self) -> bool:
        """It came out as the record says, with every control."""
        if (
            self.verdict != self.form.expects
            or not all(self.detected.values())
            or not all(agrees for _, agrees in self.known)
        ):
            return False
        return self.verdict == LOSSLESS or (self.confirmed and (self.form.repair is None or self.repair_holds))


def evaluate_form(form: Form, quick: bool = True) -> Evaluation:
    """Enumerate the form on all cases."""
    verifier = form.verifier
    results = _results(verifier, form.through, quick)
    example = next((result for result in results if not result.lossless), None)
    verdict = LOSSLESS if example is None else NOT_LOSSLESS
    confirmed = example is not None and _confirmed(form.by_hand, verifier, example)
    errors = {} if example else _detected(verifier, form.through, quick)
    repaired, holds = None, False
    if example is not None and form.repair is not None:
        holds = all(result.lossless for result in _results(form.repair, form.through, quick))
        (repaired,) = form.repair.results([example.case])
    tried = f"{cases.span(quick, verifier.length, verifier.many_trees)}; k = {', '.join(map(str, verifier.ks))}"
    worst = min(results, key=lambda result: result.share)
    positions = len(next(iter(worst.expected)))
    known = tuple(_known(form, each) for each in form.known)
    return Evaluation(
        form, verdict, tried, len(results), positions, example, confirmed, worst, errors, repaired, holds, known
    )


@cache
def on_real(verifier: Verifier | None) -> tuple[float, float] | None:
    """Mean of what it accepts on the real pairs, and what it is compared with."""
    return None if verifier is None else verifier.on_real(*real_pairs())


@cache
def real_pairs() -> tuple[Any, Any]:
    """32 contexts of the committed real pairs at temperature 1, evenly spaced: p, q (32, n)."""
    with np.load(Path(__file__).parents[2] / REAL) as file:
        (hot,) = np.flatnonzero(file["temperatures"] == 1)
        some = np.linspace(0, file["p"].shape[1] - 1, 32).astype(int)
        return file["p"][hot][some], file["q"][hot][some]


def _cases(verifier: Verifier, through: Any, quick: bool) -> list[cases.Case]:
    """The cases for a verifier, after the sampling settings."""
    along = partial(cases.along_path, many_trees=verifier.many_trees)
    make = cases.one_token if verifier.length == 1 else along
    return [case.through(through) for case in make(verifier.ks, quick)]


@cache
def _results(verifier: Verifier, through: Any, quick: bool) -> tuple[CaseResult, ...]:
    """Every case of a verifier; several works have the same."""
    return tuple(verifier.results(_cases(verifier, through, quick)))


def _known(form: Form, known: Known) -> tuple[CaseResult, bool]:
    """The result of a recorded case, and whether both enumerations give the recorded total variation."""
    verifier = known.verifier or form.verifier
    (result,) = verifier.results([known.case])
    agrees = result.lossless or _confirmed(known.by_hand or form.by_hand, verifier, result)
    return result, agrees and result.total_variation == known.total_variation


@cache
def _detected(verifier: Verifier, through: Any, quick: bool) -> dict[str, bool]:
    """Map every injected error to whether some case shows that it is not lossless."""
    tried = _cases(verifier, through, quick)
    return {
        name: any(not result.lossless for part in (tried[:INJECTED], tried) for result in wrong.results(part))
        for name, wrong in verifier.errors.items()
    }


def _confirmed(program: Any, verifier: Any, example: CaseResult) -> bool:
    """Whether the independent enumeration has the same distribution of the text, and of the target's text."""
    if program is None:
        return False
    case, length = example.case, len(next(iter(example.expected)))
    law = branches.emitted(program, case.target, case.draft, case.k, length)
    wanted = getattr(verifier, "expected", None) or tuple
    expected = branches.continued((), lambda prefix: wanted(case.target(prefix)), length)
    return law == example.emitted and expected == example.expected and law != expected


def evaluate_work(work: Work, quick: bool = True) -> list[Evaluation]:
    """Every form of a work."""
    return [evaluate_form(form, quick) for form in work.forms]
