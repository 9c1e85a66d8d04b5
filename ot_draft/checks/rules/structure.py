"""Properties of a rule as a function: rows are independent, names of tokens do not matter, absent drafts are not there."""

from __future__ import annotations

import numpy as np

from ...arrays import Array
from ...exact import evaluate
from ...problem import Problem
from ...selection import SelectionRule
from ..strategies import Strategy, batches, problems_without_ties
from .counterexample import Counterexample, drafts_shown
from .number_texts import numbers
from .rule_property import a_few, as_floats, possible_drafts, rule_property, small_problems_of

ROWS = 4  # draft tuples of a pair (p, q) that stand in one batch
NEAR = 1e-9  # of laws in floats
ACCEPTANCE = 1e-5  # the same rule's acceptance after relabelling: parameters may be rounded in another way
SHOW_ROWS = (
    "drafts = np.zeros((len(problem.p), problem.k), dtype=np.int64)\n"
    "together = rule(problem.p, problem.q, drafts)\n"
    "for row in range(len(drafts)):\n"
    "    alone = rule(problem.p[row], problem.q[row], drafts[row])\n"
    "    print(together.output(drafts)[row], alone.output(drafts[row]))"
)


def batches_of(rule: SelectionRule) -> Strategy:
    """Batches of problems under the rule's law."""
    return batches(rule.law)


@rule_property(cases=batches_of, shows=SHOW_ROWS)
def batch_equals_loop(rule: SelectionRule, problem: Problem) -> None:
    """A batch of rows gives what each row gives alone, == on Fractions."""
    for case in (problem, as_floats(problem)):
        pair_of, drafts = _rows(problem)
        selection = rule(case.p[pair_of], case.q[pair_of], drafts)
        together = selection.output(drafts)
        # In floats one row of each pair: what goes wrong for a row of Fractions alone is found above.
        rows = range(len(pair_of)) if case is problem else np.unique(pair_of, return_index=True)[1].tolist()
        for row in rows:
            pair = pair_of[row]
            alone = rule(case.p[pair], case.q[pair], drafts[row]).output(drafts[row])
            if not _same(together[row], alone):
                seen = f"{numbers(together[row])} in a batch, {numbers(alone)} alone"
                raise Counterexample(problem, _row_seen(row, pair, drafts, seen), _shown(pair_of, drafts))


@rule_property(cases=batches_of, shows=SHOW_ROWS)
def rows_do_not_leak(rule: SelectionRule, problem: Problem) -> None:
    """What a row gives does not change when the other rows of its batch do."""
    for case in (problem, as_floats(problem)):
        pair_of, drafts = _rows(problem)
        whole = rule(case.p[pair_of], case.q[pair_of], drafts).output(drafts)
        for pair in range(len(problem.p)):
            of_pair = pair_of == pair
            part = rule(case.p[pair_of[of_pair]], case.q[pair_of[of_pair]], drafts[of_pair]).output(drafts[of_pair])
            for row, law, other in zip(np.flatnonzero(of_pair), whole[of_pair], part, strict=True):
                if not _same(law, other):
                    seen = f"{numbers(law)}; with the rows of its own pair only, {numbers(other)}"
                    raise Counterexample(problem, _row_seen(int(row), pair, drafts, seen), _shown(pair_of, drafts))


def _rows(problem: Problem) -> tuple[Array, Array]:
    """Some possible drafts of every pair, one below the other: pair of each row (m,), drafts (m, k)."""
    pairs = [Problem(p, q, problem.k, problem.law) for p, q in zip(problem.p, problem.q, strict=True)]
    drafts = [a_few(possible_drafts(pair), ROWS) for pair in pairs]
    return np.repeat(np.arange(len(pairs)), [len(rows) for rows in drafts]), np.concatenate(drafts)


def _same(law: Array, other: Array) -> bool:
    near = 0 if law.dtype == object else NEAR
    return law.shape == other.shape and bool((abs(law - other) <= near).all())


def _row_seen(row: int, pair: int, drafts: Array, seen: str) -> str:
    return f"row {row} (pair {pair}, drafts {drafts[row].tolist()}) outputs {seen}"


def _shown(pair_of: Array, drafts: Array) -> str:
    return (
        f"pair = np.array({pair_of.tolist()})\ndrafts = np.array({drafts.tolist()})\n"
        "together = rule(problem.p[pair], problem.q[pair], drafts).output(drafts)\n"
        "for i in range(len(pair)):\n"
        "    alone = rule(problem.p[pair[i]], problem.q[pair[i]], drafts[i]).output(drafts[i])\n"
        '    print("in a batch:", *together[i], " alone:", *alone)'
    )


def without_ties_of(rule: SelectionRule) -> Strategy:
    """Problems in which no order of the masses of q depends on token ids."""
    return problems_without_ties(rule.law)


@rule_property(cases=without_ties_of)
def relabelling_commutes(rule: SelectionRule, problem: Problem) -> None:
    """Other names for the tokens permute the output law, and leave the acceptance as it was."""
    base = evaluate(rule, problem)
    for order in ([1, 0, *range(2, problem.n)], [*range(1, problem.n), 0]) if problem.n > 1 else ():
        case = Problem(problem.p[order], problem.q[order], problem.k, problem.law)
        result = evaluate(rule, case)
        seen = ""
        if not np.array_equal(result.output, base.output[order]):
            seen = f"output law {numbers(result.output)} instead of {numbers(base.output[order])}"
        elif not abs(result.acceptance - base.acceptance) <= ACCEPTANCE:
            seen = f"acceptance {result.acceptance} instead of {base.acceptance}"
        if seen:
            shows = (
                f"renamed = ot.Problem(problem.p[{order}], problem.q[{order}], problem.k, problem.law)\n"
                "for case in (problem, renamed):\n    result = ot.evaluate(rule, case)\n"
                "    print(*result.output, result.acceptance)"
            )
            raise Counterexample(problem, f"tokens in the order {order}: {seen}", shows)


@rule_property(cases=small_problems_of)
def absent_drafts(rule: SelectionRule, problem: Problem) -> None:
    """A row without drafts gives residual p; where the law lets absent drafts stand anywhere, a -1 changes nothing."""
    k = problem.k
    none = np.full((1, k), -1)
    selection = rule(problem.p, problem.q, none)
    kept = rule.kept_law(problem.p, problem.q, k)
    if (selection.accept != 0).any() or not (selection.residual == kept).all():
        seen = f"no draft is there: accept {numbers(selection.accept)}, residual {numbers(selection.residual)}"
        raise Counterexample(problem, seen, drafts_shown(none))
    if not problem.law.absent_anywhere:
        return
    if not np.array_equal(rule.kept_law(problem.p, problem.q, k + 1), kept):
        return  # lossy on purpose, for so many positions: another number is another law
    drafts = a_few(possible_drafts(problem), ROWS)
    fewer = rule(problem.p, problem.q, drafts).output(drafts)
    for place in range(k + 1):
        padded = np.insert(drafts, place, -1, axis=1)
        law = rule(problem.p, problem.q, padded).output(padded)
        if not np.array_equal(law, fewer):
            row = int(np.flatnonzero((law != fewer).any(-1))[0])
            seen = f"drafts {padded[row].tolist()} output {numbers(law[row])} instead of {numbers(fewer[row])}"
            raise Counterexample(problem, seen, drafts_shown(padded[row]))
