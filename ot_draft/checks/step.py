"""check_step(fn): drafting and verifying by one piece of code, as an engine does it; the joint law of what comes out is tested."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..arrays import Array, to_host
from ..errors import InvalidArgument
from ..laws import IID, DraftLaw
from ..problem import Problem
from ..selection import SelectionRule
from .black_box import BlackBox, NoOutcome, one_token, some_drafts
from .corners import Case
from .sampler_report import SamplerReport
from .trial import examine
from .views import CLASSES, PARTS, View, draft_view, joint_view, part, pooled, stacked, token_view


def check_step(
    step: Callable[..., Any],
    problems: Iterable[Problem] | None = None,
    *,
    law: DraftLaw = IID(),
    k: int | None = None,
    path: bool = False,
    rule: SelectionRule | None = None,
    batched: bool = False,
    samples: int | None = None,
    seconds: float | None = 8.0,
    false_alarm: float = 1e-9,
    seed: int = 0,
) -> SamplerReport:
    """Check a step that drafts and verifies: `step(p, q, k, generator) -> drafts, accepted, token`.

    One place (the default): p (n,) and q (n,), float64 numpy; k drafts int (k,) by `law`, accepted bool (k,), true at the
    draft that is taken, if any, and the token that comes out. With `path`, k tokens are drafted one after the other, and p
    and q are functions, a small model: `p(tokens)`, tokens int (t,) the text so far, t = 0 .. k, gives the law (n,) of the
    next token, `p()` that of the first, and so does q. accepted is true at the drafts that are kept, the first ones; the
    token stands behind them. With `batched` everything has m rows in front: p (m, n), tokens (m, t), drafts (m, k), accepted
    (m, k), token (m,). What comes back may be numpy or torch; randomness as for `check_sampler`.

    rule: the selection rule that the step is said to follow, at every place of a path; then what it accepts and emits is held
    to the rule's law given the drafts, so that they are coupled by nothing but the rule.

    Outcomes, beside those of `check_sampler` (`output_law`: of every token of a text, in a path continued by p):
    possible_step: as possible_tokens; drafts that q can draw; accepted flags and the token agree.
    declared_law: the drafts follow the law given q.
    joint_law: with `path`, the whole text, in classes of tokens, follows the target.
    given_drafts: with `rule`, what is accepted and emitted follows the rule, given the drafts.
    problems and the other arguments are those of `check_sampler`; k is the length of a path. Sees no more than one step at a
    time and the step before it: not what a real model, its cache or its batching does.
    """
    if path and law != IID():
        raise InvalidArgument(f"law is {law!r} with path=True: a path has one draft at every place, so give ot.IID()")
    calls = (samples, seconds, false_alarm, seed)
    return examine((PathStep if path else Step)(step, batched, rule), problems, law, k, calls, path=path, rule=rule)


class Step(BlackBox):
    """One place; the outcome is k drafts, k flags and the token."""

    possible, called = "possible_step", "check_step"

    def __init__(self, function: Callable[..., Any], batched: bool, rule: SelectionRule | None) -> None:
        super().__init__(function, batched)
        self.rule = rule

    def views(self, cases: list[Case]) -> list[View]:
        views = [token_view("output_law", cases, lambda which, outcomes, generator: outcomes[:, -1:], 1)]
        return [*views, draft_view("declared_law", cases), *self._given(cases, 1)]

    def read(self, returned: Any, problem: Problem) -> Any:
        try:
            drafts, accepted, token = returned
        except (TypeError, ValueError):
            raise NoOutcome(f"gave {type(returned).__name__}, not drafts, accepted, token") from None
        drafts, token = some_drafts(drafts, problem, self.batched), one_token(token, problem, self.batched)
        flags = to_host(accepted)
        if flags.dtype != bool or flags.shape != drafts.shape:
            raise NoOutcome(f"gave accepted of {flags.dtype} {flags.shape}, not of bool {drafts.shape}")
        if self.batched and len(drafts) != len(token):
            raise NoOutcome(f"gave {len(drafts)} rows of drafts and {len(token)} tokens")
        self.agree(drafts, flags, token[..., None])
        return np.concatenate((drafts, flags, token[..., None]), axis=-1)

    def agree(self, drafts: Array, flags: Array, token: Array) -> None:
        """Raise NoOutcome where flags and token contradict each other: (..., k), (..., k), (..., 1)."""
        if (flags.sum(-1) > 1).any() or (flags & (drafts != token)).any():
            raise NoOutcome(
                "gave accepted flags that disagree with the token: one at most is true, at a draft that is the token"
            )

    def outcome_shown(self, outcome: Array, problem: Problem) -> str:
        drafts, flags = outcome[: problem.k].tolist(), outcome[problem.k : -1].astype(bool)
        return f"drafts {drafts}, accepted {flags.tolist()}, token {outcome[-1]}"

    def _given(self, cases: list[Case], places: int) -> list[View]:
        """What is accepted or emitted at every place, in parts of its law given the drafts and what was emitted before."""
        if self.rule is None:
            return []
        rule, (p, q), k = self.rule, (stacked(cases, name) for name in "pq"), cases[0].problem.k
        classes, _ = pooled(q, p, CLASSES - 1)  # and the tokens of mass 0
        laws = np.full((len(cases), places * CLASSES, PARTS), 1 / PARTS)

        def read(which: Array, outcomes: Array, generator: np.random.Generator) -> tuple[Array, Array]:
            conditions, cells = [], []
            for place, (drafts, taken, token, reached) in enumerate(self.decisions(outcomes, p.shape[-1], k)):
                accept, left, first = np.zeros(drafts.shape), p[which], 0 * which
                if drafts.shape[-1]:
                    selection = rule(p[which], q[which], drafts)
                    accept, first = np.maximum(selection.accept, 0), classes[which, drafts[:, 0]]
                    left = np.maximum(1 - accept.sum(-1, keepdims=True), 0) * selection.residual
                outcome = np.where(taken >= 0, taken, drafts.shape[-1] + token)
                cells.append(np.where(reached, part(np.concatenate((accept, left), -1), outcome, generator), -1))
                conditions.append(place * CLASSES + first)
            return np.stack(conditions, -1), np.stack(cells, -1)

        def shown(case: int, cell: int) -> str:
            return f"what is decided, in the {cell + 1}. of {PARTS} equal parts of its law given the drafts (the likeliest first),"

        return [View("given_drafts", laws, read, shown)]

    def decisions(self, outcomes: Array, n: int, k: int) -> list[tuple[Array, Array, Array, Array]]:
        """For every place: drafts (m, j), the number of the one taken or -1, the token, whether the place was reached: (m,)."""
        flags = outcomes[:, k:-1]
        taken = np.where(flags.any(-1), flags.argmax(-1), -1)
        return [(outcomes[:, :k], taken, outcomes[:, -1], np.ones(len(outcomes), dtype=bool))]


class PathStep(Step):
    """k drafts in a row. The laws after a text are those of the case, with the tokens renumbered by its length and last token.

    So every place has the case's laws, and no law of another place or text will do. Views see the tokens with their old numbers.
    """

    def views(self, cases: list[Case]) -> list[View]:
        p, k = stacked(cases, "p"), cases[0].problem.k

        def texts(which: Array, outcomes: Array, generator: np.random.Generator) -> Array:
            """Emitted tokens, and behind them draws from p: (m, k + 1)."""
            sums, text = p.cumsum(-1)[which], numbered_back(written(outcomes, k), p.shape[-1])
            length = outcomes[:, k:-1].sum(-1)
            for place in range(1, k + 1):
                drawn = (sums <= generator.random((len(which), 1)) * sums[:, -1:]).sum(-1)
                text[:, place] = np.where(place > length, drawn, text[:, place])
            return text

        views = [token_view("output_law", cases, texts, k + 1), joint_view("joint_law", cases, texts, k + 1)]
        drafts = draft_view("declared_law", cases)
        of_drafts = drafts.read

        def read(which: Array, outcomes: Array, generator: np.random.Generator) -> tuple[Array, Array]:
            return of_drafts(which, numbered_back(outcomes[:, :k], p.shape[-1]), generator)

        drafts.read = read
        return [*views, drafts, *self._given(cases, k + 1)]

    def call(self, row: tuple[Array, ...], problem: Problem, generator: Any) -> Any:
        p, q = (renumbered(law, self.batched) for law in row)
        return self.function(p, q, problem.k, generator)

    def agree(self, drafts: Array, flags: Array, token: Array) -> None:
        if (flags[..., 1:] & ~flags[..., :-1]).any():
            raise NoOutcome("gave accepted flags that are true behind one that is not: the first drafts are kept")

    def decisions(self, outcomes: Array, n: int, k: int) -> list[tuple[Array, Array, Array, Array]]:
        length = outcomes[:, k:-1].sum(-1)
        text = numbered_back(written(outcomes, k), n)
        drafts = numbered_back(outcomes[:, :k], n)
        of_drafts = [(drafts[:, i : i + 1], np.where(length > i, 0, -1), text[:, i], length >= i) for i in range(k)]
        return [*of_drafts, (drafts[:, :0], 0 * length - 1, text[:, k], length == k)]


def renumbered(law: Array, batched: bool) -> Callable[[Any], Array]:
    """The law of the next token after a text: law (n,), tokens (t,) -> (n,); with rows in front of all, if batched."""
    n = law.shape[-1]

    def model(tokens: Any = None) -> Array:
        text = np.empty((*law.shape[:-1], 0), dtype=np.int64) if tokens is None else to_host(tokens)
        numbers = text.dtype.kind in "iu" or not text.size
        if not numbers or text.ndim != 1 + batched or (batched and len(text) != len(law)):
            raise InvalidArgument(
                f"the text is of {text.dtype} {text.shape}: give whole numbers {'(m, t)' if batched else '(t,)'}"
            )
        if not text.shape[-1]:
            return law.copy()
        by = (text[..., -1:] + text.shape[-1]) % n
        return np.take_along_axis(law, (np.arange(n) - by) % n, -1)

    return model


def numbered_back(text: Array, n: int) -> Array:
    """Tokens of texts (m, t), with the numbers that they have in the case."""
    before = np.concatenate((0 * text[:, :1], text[:, :-1]), axis=-1)
    return (text - before - np.arange(text.shape[-1])) % n


def written(outcomes: Array, k: int) -> Array:
    """The emitted tokens of a path, (m, k + 1); behind them whatever was drafted."""
    text = np.concatenate((outcomes[:, :k], outcomes[:, -1:]), axis=-1)
    np.put_along_axis(text, outcomes[:, k:-1].sum(-1, keepdims=True), outcomes[:, -1:], -1)
    return text
