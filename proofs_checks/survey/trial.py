"""A trial of one form of a work: the verdict by exact enumeration, the simplest counterexample, its confirmation, the
planted errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import branches
from . import cases
from .defendants import CaseResult, Defendant
from .record import LOSSLESS, NOT_LOSSLESS, Form, Known, Work

REAL = "figures/data/smollm2_pairs.npz"
PLANTED = 24  # cases on which a planted error is looked for at first


@dataclass(frozen=True)
class Judgement:
    """What came out for one form.

    example: the simplest case in which the text has another law; confirmed: the independent enumeration found the same law
    there. worst: the trial of the least share of the optimum. found_out: whether each planted error was. repaired: the trial of
    the repair on the example. tried: the cases in words. known: trials of the recorded cases, and whether each came out as recorded
    in both enumerations.
    """

    form: Form
    verdict: str
    tried: str
    cases: int
    example: CaseResult | None
    confirmed: bool
    worst: CaseResult
    found_out: dict[str, bool]
    repaired: CaseResult | None
    repair_holds: bool
    known: tuple[tuple[CaseResult, bool], ...] = ()

    @property
    def sound(self) -> bool:
        """It came out as the record says, with every control."""
        if (
            self.verdict != self.form.expects
            or not all(self.found_out.values())
            or not all(agrees for _, agrees in self.known)
        ):
            return False
        return self.verdict == LOSSLESS or (self.confirmed and (self.form.repair is None or self.repair_holds))


def judge(form: Form, quick: bool = True) -> Judgement:
    """Enumerate the form on all cases."""
    defendant = form.defendant
    trials = _trials(defendant, form.through, quick)
    example = next((trial for trial in trials if not trial.lossless), None)
    verdict = LOSSLESS if example is None else NOT_LOSSLESS
    confirmed = example is not None and _confirmed(form.by_hand, defendant, example)
    errors = {} if example else _found_out(defendant, form.through, quick)
    repaired, holds = None, False
    if example is not None and form.repair is not None:
        holds = all(trial.lossless for trial in _trials(form.repair, form.through, quick))
        (repaired,) = form.repair.trials([example.case])
    tried = f"{cases.span(quick, defendant.length, defendant.many_trees)}; k = {', '.join(map(str, defendant.ks))}"
    worst = min(trials, key=lambda trial: trial.share)
    known = tuple(_known(form, each) for each in form.known)
    return Judgement(form, verdict, tried, len(trials), example, confirmed, worst, errors, repaired, holds, known)


@cache
def on_real(defendant: Defendant | None) -> tuple[float, float] | None:
    """Mean of what it accepts on the real pairs, and what that is set beside."""
    return None if defendant is None else defendant.on_real(*real_pairs())


@cache
def real_pairs() -> tuple[Any, Any]:
    """32 contexts of the committed real pairs at temperature 1, evenly spaced: p, q (32, n)."""
    with np.load(Path(__file__).parents[2] / REAL) as file:
        (hot,) = np.flatnonzero(file["temperatures"] == 1)
        some = np.linspace(0, file["p"].shape[1] - 1, 32).astype(int)
        return file["p"][hot][some], file["q"][hot][some]


def _cases(defendant: Defendant, through: Any, quick: bool) -> list[cases.Case]:
    """The cases for a defendant, after the sampling settings."""
    along = partial(cases.along_path, many_trees=defendant.many_trees)
    make = cases.one_token if defendant.length == 1 else along
    return [case.through(through) for case in make(defendant.ks, quick)]


@cache
def _trials(defendant: Defendant, through: Any, quick: bool) -> tuple[CaseResult, ...]:
    """Every case of a defendant; several works have the same."""
    return tuple(defendant.trials(_cases(defendant, through, quick)))


def _known(form: Form, known: Known) -> tuple[CaseResult, bool]:
    """The trial of a recorded case, and whether both enumerations give the recorded total variation."""
    defendant = known.defendant or form.defendant
    (trial,) = defendant.trials([known.case])
    agrees = trial.lossless or _confirmed(known.by_hand or form.by_hand, defendant, trial)
    return trial, agrees and trial.total_variation == known.total_variation


@cache
def _found_out(defendant: Defendant, through: Any, quick: bool) -> dict[str, bool]:
    """Of every planted error, whether some case shows that it is not lossless."""
    tried = _cases(defendant, through, quick)
    return {
        name: any(not trial.lossless for part in (tried[:PLANTED], tried) for trial in wrong.trials(part))
        for name, wrong in defendant.errors.items()
    }


def _confirmed(program: Any, defendant: Any, example: CaseResult) -> bool:
    """Whether the independent enumeration has the same law of the text, and the same law of the target's."""
    if program is None:
        return False
    case, length = example.case, len(next(iter(example.due)))
    law = branches.emitted(program, case.target, case.draft, case.k, length)
    wanted = getattr(defendant, "due", None) or tuple
    due = branches.continued((), lambda prefix: wanted(case.target(prefix)), length)
    return law == example.emitted and due == example.due and law != due


def judge_work(work: Work, quick: bool = True) -> list[Judgement]:
    """Every form of a work."""
    return [judge(form, quick) for form in work.forms]
