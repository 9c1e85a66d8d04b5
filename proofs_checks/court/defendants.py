"""What is judged: a selection rule under a draft law, a path rule under a drafting, or a sampler with its own exact
law.

Each answers the same two questions: what is emitted on a case and what the target would emit, in Fractions; and how much is accepted,
beside the most that any lossless rule accepts under the same draft law.
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
from .rules import among

OPTIMUM, JOINT = "the optimum", "what joint selection accepts"
TUPLES = 32  # random draft tuples for a real pair
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
        return (
            sum((abs(self.emitted.get(t, Fraction(0)) - self.due.get(t, Fraction(0))) for t in texts), Fraction(0)) / 2
        )

    @property
    def share(self) -> Any:
        """Accepted, of the most that is possible; 1 where nothing is."""
        return self.accepted / self.most if self.most else Fraction(1)


class Defendant(Protocol):
    """A rule of a work."""

    length: int  # tokens along a drafted path
    ks: tuple[int, ...]  # numbers of drafts or paths
    beside: str  # what its acceptance is set beside; "" where there is nothing

    def on_real(self, p: Any, q: Any) -> tuple[float, float] | None:
        """Mean of what is accepted on real pairs (B, n), and of the most; None where it cannot be said at that size."""

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
    beside: str = OPTIMUM

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
                made[case] = Trial(
                    case, text_of(result.output[row]), text_of(p[row]), result.acceptance[row], most[row]
                )
        return [made[case] for case in cases]

    def on_real(self, p: Any, q: Any) -> tuple[float, float] | None:
        """With one draft exact, with two by random draft tuples; programs over the vocabulary are left out."""
        k = 2 if 2 in self.ks else self.ks[0]
        if self.rule.solves:
            return None
        law, n = self.drafted_by, p.shape[-1]
        optimum = float(np.mean(ot.optimal_acceptance(p, q, k, law)))
        formula = self.rule.closed_form(ot.Problem(p, q, k, law)) if law == self.rule.law else None
        if formula is not None:
            return float(formula[0].mean()), optimum
        if k == 1:
            drafts = np.arange(n)[:, None]
            chance = law.probability(q[:, None], drafts)
        else:
            drafts = law.draw(np.repeat(q[:, None], TUPLES, 1), np.random.default_rng(0).random((len(q), TUPLES, k)))
            chance = np.full(drafts.shape[:-1], 1 / TUPLES)
        accepted = 0.0
        for row in range(len(p)):
            mine = drafts if k == 1 else drafts[row]
            output = self.rule(p[row, None], q[row, None], mine).output(mine)
            accepted += float((chance[row] * np.where(among(mine, p), output, 0).sum(-1)).sum())
        return accepted / len(p), optimum

    @property
    def errors(self) -> dict[str, Defendant]:
        made: dict[str, Defendant] = {
            name: replace(self, rule=Wrong(self.rule, name)) for name in (MORE, PLAIN, FORGET)
        }
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

    @property
    def beside(self) -> str:
        """One path: block verification, which is optimal. Several: joint selection, a rule and no bound."""
        return "" if self.shape is not None else OPTIMUM if self.ks == (1,) else JOINT

    def most(self, case: Case, model: Any, result: Any) -> Any:
        """What its acceptance is set beside."""
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

    def on_real(self, p: Any, q: Any) -> tuple[float, float] | None:
        """Accepted tokens of drafted paths of three tokens, along strings of the pairs; i.i.d. paths only."""
        if self.shape is not None:
            return None
        k, generator = max(self.ks), np.random.default_rng(0)
        best: Any = paths.BlockVerification() if k == 1 else paths.Joint()
        found = []
        for start in range(len(p)):
            model = Strung(np.roll(p, start, 0), np.roll(q, start, 0))
            for _ in range(6 // k**2 + 1):
                tokens = (
                    (generator.choice(p.shape[-1], p=model.q[i] / model.q[i].sum()) for i in range(3)) for _ in range(k)
                )
                drafts = tuple(tuple(map(int, path)) for path in tokens)
                mine = accepted(self.rule, model, drafts)
                found.append((mine, mine if self.rule == best else accepted(best, model, drafts)))
        mean, most = np.mean(found, 0).tolist()
        return mean, most

    @property
    def uses_q(self) -> bool:
        return not isinstance(self.rule, paths.NaivePath)


def accepted(rule: Any, model: Any, drafts: Any) -> float:
    """Expected number of accepted tokens, given the drafts."""
    if isinstance(rule, paths.PathRule):
        return float(sum(length * mass for length, mass in rule.lengths(model, drafts).items()))
    return float(sum((len(text) - 1) * mass for text, mass in rule(model, drafts).items()))


@dataclass(frozen=True)
class Strung:
    """A model whose laws depend on the position alone: p, q (B, n)."""

    p: Any
    q: Any

    def target(self, prefix: tuple[int, ...]) -> Any:
        return self.p[len(prefix)]

    def draft(self, prefix: tuple[int, ...]) -> Any:
        return self.q[len(prefix)]


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

    planted: the same with errors, by name. in_floats: P(output is drafted) for one draft and large vocabularies.
    """

    law: Callable[..., tuple[Sequence[Fraction], Fraction]]
    ks: tuple[int, ...] = (1,)
    planted: tuple[tuple[str, Callable[..., tuple[Sequence[Fraction], Fraction]]], ...] = ()
    in_floats: Callable[[Any, Any], Any] | None = None
    length: int = 1
    beside: str = OPTIMUM

    def trials(self, cases: Sequence[Case]) -> list[Trial]:
        made = []
        for case in cases:
            p, q = case.p_root(), case.q_root()
            output, accepted = self.law(p, q, case.k)
            due = text_of(np.array(p, dtype=object))
            most = ot.optimal_acceptance(list(p), list(q), case.k)
            made.append(Trial(case, text_of(np.array(list(output), dtype=object)), due, accepted, most))
        return made

    def on_real(self, p: Any, q: Any) -> tuple[float, float] | None:
        if self.in_floats is None:
            return None
        rows = zip(p, q, strict=True)
        return float(np.mean([self.in_floats(*row) for row in rows])), float(np.mean(ot.optimal_acceptance(p, q, 1)))

    @property
    def errors(self) -> dict[str, Defendant]:
        made: dict[str, Defendant] = {name: replace(self, law=law) for name, law in self.planted}
        return made
