"""A trial of one form of a work: the verdict by exact enumeration, the simplest counterexample, its confirmation, the
planted errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from . import by_hand, cases
from .defendants import Defendant, Trial
from .record import LOSSLESS, NOT_LOSSLESS, Form, Work

REAL = "figures/data/smollm2_pairs.npz"
PLANTED = 24  # cases on which a planted error is looked for at first


@dataclass(frozen=True)
class Judgement:
    """What came out for one form.

    example: the simplest case in which the text has another law; confirmed: the independent enumeration found the same law
    there. worst: the trial of the least share of the optimum. found_out: whether each planted error was. repaired: the trial of
    the repair on the example. tried: the cases in words.
    """

    form: Form
    verdict: str
    tried: str
    cases: int
    example: Trial | None
    confirmed: bool
    worst: Trial
    found_out: dict[str, bool]
    repaired: Trial | None
    repair_holds: bool

    @property
    def sound(self) -> bool:
        """It came out as the record says, with every control."""
        if self.verdict != self.form.expects or not all(self.found_out.values()):
            return False
        return self.verdict == LOSSLESS or (self.confirmed and (self.form.repair is None or self.repair_holds))


def judge(form: Form, quick: bool = True) -> Judgement:
    """Enumerate the form on all cases."""
    defendant = form.defendant
    trials = defendant.trials(_cases(defendant, quick))
    example = next((trial for trial in trials if not trial.lossless), None)
    verdict = LOSSLESS if example is None else NOT_LOSSLESS
    confirmed = example is not None and _confirmed(form, example)
    errors = {} if example else {name: _found_out(wrong, quick) for name, wrong in defendant.errors.items()}
    repaired, holds = None, False
    if example is not None and form.repair is not None:
        again = form.repair.trials(_cases(form.repair, quick))
        holds = all(trial.lossless for trial in again)
        (repaired,) = form.repair.trials([example.case])
    tried = f"{cases.span(quick, defendant.length)}; k = {', '.join(map(str, defendant.ks))}"
    worst = min(trials, key=lambda trial: trial.share)
    return Judgement(form, verdict, tried, len(trials), example, confirmed, worst, errors, repaired, holds)


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


def _cases(defendant: Any, quick: bool) -> list[cases.Case]:
    make = cases.one_token if defendant.length == 1 else cases.along_path
    return make(defendant.ks, quick)


def _found_out(wrong: Any, quick: bool) -> bool:
    """Whether some case shows that a planted error is not lossless."""
    tried = _cases(wrong, quick)
    return any(not trial.lossless for part in (tried[:PLANTED], tried) for trial in wrong.trials(part))


def _confirmed(form: Form, example: Trial) -> bool:
    """Whether the independent enumeration has the same law of the text, and the same law of the target's."""
    if form.by_hand is None:
        return False
    case, length = example.case, len(next(iter(example.due)))
    law = by_hand.emitted(form.by_hand, case.target, case.draft, case.k, length)
    due = by_hand.continued((), case.target, length)
    return law == example.emitted and due == example.due and law != due


def judge_work(work: Work, quick: bool = True) -> list[Judgement]:
    """Every form of a work."""
    return [judge(form, quick) for form in work.forms]
