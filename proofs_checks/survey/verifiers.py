"""What is evaluated: a selection rule under a draft distribution, a path rule under a drafting, or a sampler with its own exact
distribution.

Each answers the same two questions: what is emitted on a case and what the target would emit, in Fractions; and how much is accepted,
compared with the most that any lossless rule accepts under the same draft distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any, ClassVar

import numpy as np

import ot_draft as otd
from ot_draft import arrays as xp
from ot_draft import trees

from ..paths.path_cases import Told
from .cases import Case
from .rules import TOP, among

OPTIMUM, JOINT = "the optimum", "what joint selection accepts"
ZERO = Fraction(0)
TUPLES = 32  # random draft tuples for a real pair
TEXT = dict[tuple[int, ...], Fraction]
BONUS, UNIFORM, MORE, PLAIN, FORGET = (
    "bonus token from the draft", "drafts reported as uniform", "acceptance times 1.1", "residual is p", "one draft is forgotten",
)  # fmt: skip


@dataclass(frozen=True)
class CaseResult:
    """Result of a rule on one case: distribution of the text, and the due one; accepted drafted tokens, and the most that is possible."""

    case: Case
    emitted: TEXT
    expected: TEXT
    accepted: Any
    most: Any

    @property
    def lossless(self) -> bool:
        return self.emitted == self.expected

    @property
    def total_variation(self) -> Fraction:
        texts = self.emitted.keys() | self.expected.keys()
        return sum((max(ZERO, self.emitted.get(t, ZERO) - self.expected.get(t, ZERO)) for t in texts), ZERO)

    @property
    def share(self) -> Any:
        """Accepted, of the most that is possible; 1 where nothing is."""
        return self.accepted / self.most if self.most else Fraction(1)


def text_of(masses: Any) -> TEXT:
    return {(token,): mass for token, mass in enumerate(masses.tolist()) if mass}


@dataclass(frozen=True)
class OneToken:
    """A selection rule, for `ks` numbers of drafts. law: what its drafts really follow, where that is not the distribution it declares.

    injected: the errors that a lossless rule is tried with.
    expected: what the text should follow, as a function of one distribution, where that is not the target's.
    """

    rule: Any
    ks: tuple[int, ...] = (1, 2, 3)
    law: otd.DraftLaw | None = None
    length: int = 1
    baseline: str = OPTIMUM
    expected: Callable[[Any], Any] | None = None
    injected: tuple[str, ...] = (MORE, PLAIN, FORGET)
    many_trees: ClassVar[bool] = False

    @property
    def drafted_by(self) -> otd.DraftLaw:
        law: otd.DraftLaw = self.rule.law if self.law is None else self.law
        return law

    def results(self, cases: Sequence[Case]) -> list[CaseResult]:
        made: dict[Case, CaseResult] = {}
        for n, k in sorted({(case.n, case.k) for case in cases}):
            batch = [case for case in cases if (case.n, case.k) == (n, k)]
            p, q = (np.array([list(side(case)) for case in batch], dtype=object) for side in (Case.target, Case.draft))
            problem = otd.Problem(p, q, k, self.drafted_by)
            result = otd.evaluate(self.rule, problem)
            most = np.broadcast_to(otd.optimal_acceptance(p, q, k, self.drafted_by), (len(batch),))
            expected = (
                p if self.expected is None else np.array([self.expected(row) for row in p.tolist()], dtype=object)
            )
            for row, case in enumerate(batch):
                made[case] = CaseResult(
                    case, text_of(result.output[row]), text_of(expected[row]), result.acceptance[row], most[row]
                )
        return [made[case] for case in cases]

    def on_real(self, p: Any, q: Any) -> tuple[float, float] | None:
        """With one draft exact, with two by random draft tuples; programs over the vocabulary are left out."""
        k = 2 if 2 in self.ks else self.ks[0]
        if self.rule.cost.solves_program:
            return None
        law, n = self.drafted_by, p.shape[-1]
        optimum = float(np.mean(otd.optimal_acceptance(p, q, k, law)))
        formula = self.rule.closed_form(otd.Problem(p, q, k, law)) if law == self.rule.law else None
        if formula is not None:
            return float(formula[0].mean()), optimum
        generator, found = np.random.default_rng(0), []
        for row in range(len(p)):
            drawn = law.draw(np.repeat(q[row, None], TUPLES, 0), generator.random((TUPLES, k)))
            drafts = np.arange(n)[:, None] if k == 1 else drawn
            chance = law.probability(q[row], drafts) if k == 1 else np.full(TUPLES, 1 / TUPLES)
            output = self.rule(p[row, None], q[row, None], drafts).output(drafts)
            found.append((chance * np.where(among(drafts, p), output, 0).sum(-1)).sum())
        return float(np.mean(found)), optimum

    @property
    def errors(self) -> dict[str, Any]:
        """The same with an error injected, by its name: each must be found not lossless."""
        return {name: replace(self, rule=Wrong(self.rule, name)) for name in self.injected}


@dataclass(frozen=True)
class Wrong(otd.SelectionRule):
    """A selection rule with an error injected in what it decides."""

    rule: Any
    error: str

    @property
    def law(self) -> otd.DraftLaw:  # type: ignore[override]
        law: otd.DraftLaw = self.rule.law
        return law

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        right = self.rule(p, q, drafts)
        accept, residual = right.accept + 0, right.residual
        if self.error == MORE:
            taken = accept.sum(-1, keepdims=True)
            accept = accept * xp.minimum(Fraction(11, 10), xp.divide(1 + 0 * taken, taken, 1))
        elif self.error in (PLAIN, BONUS):
            residual = p if self.error == PLAIN else q
        else:
            accept[..., -1] = 0 * accept[..., -1]
        return otd.Selection(accept, residual)


@dataclass(frozen=True)
class AlongPath:
    """A path rule, or a function of (model, drafts) that gives the distribution of what is emitted.

    drafting: a tree shape with the distribution of its children, or None: the case's k i.i.d. paths, each of `length` tokens.
    measured: the rule is fast enough for large vocabularies, on which its acceptance is measured.
    """

    rule: Callable[[Any, Any], Any]
    ks: tuple[int, ...] = (1,)
    length: int = 2
    shape: Any = None
    law: otd.DraftLaw | None = None
    measured: bool = True

    @property
    def many_trees(self) -> bool:
        """Whether cases of three tokens take long, as many trees can be drawn."""
        return getattr(self.shape, "size", 0) > 4 and self.law != TOP

    @property
    def best(self) -> Any:
        """The rule whose acceptance is the baseline: block verification, the optimum for one path; else joint selection, not a bound."""
        return None if self.shape is not None else trees.BlockVerification() if self.ks == (1,) else trees.Joint()

    @property
    def baseline(self) -> str:
        return {None: "", trees.BlockVerification(): OPTIMUM}.get(self.best, JOINT)

    def results(self, cases: Sequence[Case]) -> list[CaseResult]:
        made = []
        for case in cases:
            drafting = (case.k, self.length) if self.shape is None else self.shape
            mine = trees.evaluate(self.rule, case.model, drafting, self.law)
            same = self.best is None or self.rule == self.best
            most = mine if same else trees.evaluate(self.best, case.model, drafting)
            made.append(CaseResult(case, mine.law, mine.target_law, mine.expected_length, most.expected_length))
        return made

    @property
    def errors(self) -> dict[str, Any]:
        """The same with an error injected, by its name: each must be found not lossless."""
        injected = (BONUS,) if self.law == TOP else (BONUS, UNIFORM)  # q plays no part for a chosen draft
        return {name: replace(self, rule=wrong_path(self.rule, name)) for name in injected}

    def on_real(self, p: Any, q: Any) -> tuple[float, float] | None:
        """Accepted tokens of drafted paths of three tokens, along strings of the pairs; i.i.d. paths only."""
        if self.best is None or not self.measured:
            return None
        k, generator, found = max(self.ks), np.random.default_rng(0), []
        for start in range(len(p)):
            here, there = np.roll(p, start, 0), np.roll(q, start, 0)
            model = Told(lambda prefix, here=here: here[len(prefix)], lambda prefix, there=there: there[len(prefix)])  # type: ignore[misc]
            for _ in range(24 // k**2 + 1):
                drafts = tuple(map(tuple, otd.IID().draw(there[:3], generator.random((3, k))).T.tolist()))
                mine = accepted(self.rule, model, drafts)
                found.append((mine, mine if self.rule == self.best else accepted(self.best, model, drafts)))
        mean, most = np.mean(found, 0).tolist()
        return mean, most


def accepted(rule: Any, model: Any, drafts: Any) -> float:
    """Expected number of accepted tokens, given the drafts."""
    if isinstance(rule, trees.PathRule):
        return float(sum(length * mass for length, mass in otd.trees.rules.lengths(rule, model, drafts).items()))
    return float(sum((len(text) - 1) * mass for text, mass in rule(model, drafts).items()))


def wrong_path(rule: Callable[[Any, Any], Any], error: str) -> Callable[[Any, Any], Any]:
    """A path rule that is told the draft instead of the target after the first token, or a uniform draft."""

    def told(model: Any, drafts: Any) -> Any:
        def target(prefix: tuple[int, ...]) -> Any:
            return model.draft(prefix) if error == BONUS and len(prefix) == 1 else model.target(prefix)

        def draft(prefix: tuple[int, ...]) -> Any:
            q = model.draft(prefix)
            return 0 * q + Fraction(1, len(q)) if error == UNIFORM else q

        return rule(Told(target, draft), drafts)

    return told


@dataclass(frozen=True)
class Coupled:
    """A sampler whose drafts and output share their randomness: law(p, q, k) gives the output's distribution and P(output is drafted).

    injected: the same with errors, by name. in_floats: P(output is drafted) for one draft and large vocabularies. text: how many tokens
    the evaluated text has; above 1 the distribution is one of texts, at one pair of distributions for all contexts.
    """

    law: Callable[..., tuple[Any, Any]]
    ks: tuple[int, ...] = (1,)
    injected: tuple[tuple[str, Callable[..., tuple[Any, Any]]], ...] = ()
    in_floats: Callable[[Any, Any], Any] | None = None
    length: int = 1
    baseline: str = OPTIMUM
    text: int = 1
    many_trees: ClassVar[bool] = False

    def results(self, cases: Sequence[Case]) -> list[CaseResult]:
        made = []
        for case in cases:
            p, q = case.p[0], case.q[0]
            output, accepted = self.law(p, q, case.k)
            if self.text > 1:
                texts = product(range(case.n), repeat=self.text)
                wanted = {text: prod((p[y] for y in text), start=Fraction(1)) for text in texts}
                emitted, expected = ({text: mass for text, mass in law.items() if mass} for law in (output, wanted))
                made.append(CaseResult(case, emitted, expected, accepted, accepted))
                continue
            expected = text_of(np.array(p, dtype=object))
            most = otd.optimal_acceptance(list(p), list(q), case.k)
            made.append(CaseResult(case, text_of(np.array(list(output), dtype=object)), expected, accepted, most))
        return made

    def on_real(self, p: Any, q: Any) -> tuple[float, float] | None:
        if self.in_floats is None:
            return None
        rows = zip(p, q, strict=True)
        return float(np.mean([self.in_floats(*row) for row in rows])), float(np.mean(otd.optimal_acceptance(p, q, 1)))

    @property
    def errors(self) -> dict[str, Any]:
        """The same with an error injected, by its name: each must be found not lossless."""
        return {name: replace(self, law=law) for name, law in self.injected}


Verifier = (
    OneToken | AlongPath | Coupled
)  # each with its length, ks, what it is compared with, errors, results, on_real
