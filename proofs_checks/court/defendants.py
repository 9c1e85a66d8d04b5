"""What is judged: a selection rule under a draft law, a path rule under a drafting, or a sampler with its own exact law.

Each answers the same two questions: what is emitted on a case and what the target would emit, in Fractions; and how much is accepted, beside
the most that any lossless rule accepts under the same draft law.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

import ot_draft as ot
from ot_draft import arrays as xp
from ot_draft import paths

from .cases import Case

TEXT = dict[tuple[int, ...], Fraction]
BONUS, UNIFORM, MORE, PLAIN, FORGET = (
    "bonus token from the draft", "drafts reported as uniform", "acceptance times 1.1", "residual is p", "one draft is forgotten",
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """What a rule did on one case: law of the text and what it should be; accepted drafted tokens, and the most that is possible."""

    case: Case
    emitted: TEXT
    due: TEXT
    accepted: Any
    most: Any

    @property
    def lossless(self) -> bool:
        return self.emitted == self.due

    @property
    def total_variation(self) -> Fraction:
        texts = self.emitted.keys() | self.due.keys()
        return sum((abs(self.emitted.get(t, Fraction(0)) - self.due.get(t, Fraction(0))) for t in texts), Fraction(0)) / 2

    @property
    def share(self) -> Any:
        """Accepted, of the most that is possible; 1 where nothing is."""
        return self.accepted / self.most if self.most else Fraction(1)


class Defendant(Protocol):
    """A rule of a work."""

    length: int  # tokens along a drafted path

    @property
    def errors(self) -> dict[str, Defendant]:
        """The same with an error planted, by the error's name: each must be found not lossless."""

    def trials(self, cases: Sequence[Case]) -> list[Trial]:
        """One for every case, in order."""


def text_of(masses: Any) -> TEXT:
    return {(token,): mass for token, mass in enumerate(masses.tolist()) if mass}


@dataclass(frozen=True)
class OneToken:
    """A selection rule, for `ks` numbers of drafts. law: what its drafts really follow, where that is not the law it declares."""

    rule: Any
    ks: tuple[int, ...] = (1, 2, 3)
    law: ot.DraftLaw | None = None
    length: int = 1

    @property
    def drafted_by(self) -> ot.DraftLaw:
        law: ot.DraftLaw = self.rule.law if self.law is None else self.law
        return law

    def trials(self, cases: Sequence[Case]) -> list[Trial]:
        made: dict[Case, Trial] = {}
        for n, k in sorted({(case.n, case.k) for case in cases}):
            batch = [case for case in cases if (case.n, case.k) == (n, k)]
            p, q = (np.array([list(side(case)) for case in batch], dtype=object) for side in (Case.p_root, Case.q_root))
            problem = ot.Problem(p, q, k, self.drafted_by)
            result = ot.evaluate(self.rule, problem)
            most = np.broadcast_to(ot.optimal_acceptance(p, q, k, self.drafted_by), (len(batch),))
            for row, case in enumerate(batch):
                made[case] = Trial(case, text_of(result.output[row]), text_of(p[row]), result.acceptance[row], most[row])
        return [made[case] for case in cases]

    @property
    def errors(self) -> dict[str, Defendant]:
        made: dict[str, Defendant] = {name: replace(self, rule=Wrong(self.rule, name)) for name in (MORE, PLAIN, FORGET)}
        return made


@dataclass(frozen=True)
class Wrong(ot.SelectionRule):
    """A selection rule with an error planted in what it decides."""

    rule: Any
    error: str

    @property
    def law(self) -> ot.DraftLaw:  # type: ignore[override]
        law: ot.DraftLaw = self.rule.law
        return law

    def __call__(self, p: Any, q: Any, drafts: Any) -> ot.Selection:
        right = self.rule(p, q, drafts)
        accept, residual = right.accept + 0, right.residual
        if self.error == MORE:
            taken = xp.total(accept)
            accept = accept * xp.minimum(Fraction(11, 10), xp.divide(1 + 0 * taken, taken, 1))
        elif self.error == PLAIN:
            residual = p
        else:
            accept[..., -1] = 0 * accept[..., -1]
        return ot.Selection(accept, residual)


@dataclass(frozen=True)
class AlongPath:
    """A path rule, or a function of (model, drafts) that gives the law of what is emitted.

    drafting: a tree shape with the law of its children, or None: the case's k i.i.d. paths, each of `length` tokens.
    """

    rule: Callable[[Any, Any], Any]
    ks: tuple[int, ...] = (1,)
    length: int = 2
    shape: Any = None
    law: ot.DraftLaw | None = None

    def trials(self, cases: Sequence[Case]) -> list[Trial]:
        return [self.trial(case) for case in cases]

    def trial(self, case: Case) -> Trial:
        model = case.model
        drafting = (case.k, self.length) if self.shape is None else self.shape
        result = paths.evaluate(self.rule, model, drafting, self.law)
        return Trial(case, result.law, result.target_law, result.expected_length, self.most(case, model, result))

    def most(self, case: Case, model: Any, result: Any) -> Any:
        """One path: block verification, which is optimal. Else what joint selection accepts, a rule and no bound."""
        best = paths.BlockVerification() if case.k == 1 and self.shape is None else None
        if best is None and self.shape is None:
            best = paths.Joint()
        if best is None or self.rule == best:
            return result.expected_length
        return paths.evaluate(best, model, (case.k, self.length)).expected_length

    @property
    def errors(self) -> dict[str, Defendant]:
        made: dict[str, Defendant] = {name: replace(self, rule=WrongPath(self.rule, name)) for name in (BONUS, UNIFORM)}
        return made if self.uses_q else {BONUS: made[BONUS]}

    @property
    def uses_q(self) -> bool:
        return not isinstance(self.rule, paths.NaivePath)


@dataclass(frozen=True)
class WrongPath:
    """A path rule that is told wrong distributions."""

    rule: Callable[[Any, Any], Any]
    error: str

    def __call__(self, model: Any, drafts: Any) -> Any:
        return self.rule(Told(model, self.error), drafts)


@dataclass(frozen=True)
class Told:
    """A model as the error has it: the draft in the place of the target after the first token, or a uniform draft."""

    model: Any
    error: str

    def target(self, prefix: tuple[int, ...]) -> Any:
        return self.model.draft(prefix) if self.error == BONUS and len(prefix) == 1 else self.model.target(prefix)

    def draft(self, prefix: tuple[int, ...]) -> Any:
        q = self.model.draft(prefix)
        return 0 * q + Fraction(1, len(q)) if self.error == UNIFORM else q


@dataclass(frozen=True)
class Coupled:
    """A sampler whose drafts and output share their randomness: law(p, q, k) gives its output law and P(output is drafted).

    planted: the same with errors, by name.
    """

    law: Callable[..., tuple[Sequence[Fraction], Fraction]]
    ks: tuple[int, ...] = (1,)
    planted: tuple[tuple[str, Callable[..., tuple[Sequence[Fraction], Fraction]]], ...] = ()
    length: int = 1

    def trials(self, cases: Sequence[Case]) -> list[Trial]:
        made = []
        for case in cases:
            p, q = case.p_root(), case.q_root()
            output, accepted = self.law(p, q, case.k)
            due = text_of(np.array(p, dtype=object))
            most = ot.optimal_acceptance(list(p), list(q), case.k)
            made.append(Trial(case, text_of(np.array(list(output), dtype=object)), due, accepted, most))
        return made

    @property
    def errors(self) -> dict[str, Defendant]:
        made: dict[str, Defendant] = {name: replace(self, law=law) for name, law in self.planted}
        return made
