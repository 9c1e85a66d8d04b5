"""Properties of a rule as a function: rows are independent, names of tokens do not matter, absent drafts are not there."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ..arrays import Array
from ..exact import evaluate
from ..problem import Problem
from ..sampling import draw, sample
from ..selection import SelectionRule
from .corners import CORNERS
from .rule_property import a_few, as_floats, possible_drafts, rule_property, small_problems_of
from .source import Counterexample, drafts_shown, numbers
from .statistics import log_e_value
from .strategies import Strategy, batches, problems_without_ties

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
    if k > 1 and problem.law.is_defined(k - 1):  # every second row has a draft less than the others
        ragged = np.concatenate((drafts, drafts))
        ragged[::2, -1] = -1
        alone = np.concatenate(
            [rule(problem.p, problem.q, row[None][:, row >= 0]).output(row[None][:, row >= 0]) for row in ragged]
        )
        together = rule(problem.p[None], problem.q[None], ragged).output(ragged)
        if not np.array_equal(together, alone) and np.array_equal(kept, rule.kept_law(problem.p, problem.q, k - 1)):
            row = int(np.flatnonzero((together != alone).any(-1))[0])
            seen = f"drafts {ragged[row].tolist()} in a batch output {numbers(together[row])} instead of {numbers(alone[row])}"
            raise Counterexample(problem, seen, drafts_shown(ragged))
    for place in range(k + 1):
        padded = np.insert(drafts, place, -1, axis=1)
        law = rule(problem.p, problem.q, padded).output(padded)
        if not np.array_equal(law, fewer):
            row = int(np.flatnonzero((law != fewer).any(-1))[0])
            seen = f"drafts {padded[row].tolist()} output {numbers(law[row])} instead of {numbers(fewer[row])}"
            raise Counterexample(problem, seen, drafts_shown(padded[row]))


DRAWS = 10_000  # K-SEQ takes 13 microseconds a draw
TRIED = ("plain", "zeros in p", "repeated drafts")
LIMIT = 2 * len(TRIED) / 1e-9  # two tests a problem
SHOW = (
    "p, q, k, law = problem.p.astype(np.float64), problem.q.astype(np.float64), problem.k, problem.law\n"
    "generator = np.random.default_rng(0)\n"
    f"drafts = ot.draw(law, np.tile(q, ({DRAWS}, 1)), k, generator)\n"
    "token, position = ot.sample(rule, p, q, drafts, generator)\n"
    "result = ot.evaluate(rule, ot.Problem(p, q, k, law))\n"
    'print("token:", np.bincount(token, minlength=len(p)) / len(token), "instead of", result.output)\n'
    'print("position:", np.bincount(position + 1, minlength=k + 1)[1:] / len(token), "instead of", result.accept)'
)


def sampled_problems(rule: SelectionRule) -> list[Problem]:
    """Three corners in Fractions, with 1, 2 and 3 drafts where the rule's law allows them."""
    allowed = [k for k in (1, 2, 3) if rule.law.is_defined(k)]
    tried = []
    for turn, name in enumerate(TRIED):
        p, q = ([Fraction(weight) / Fraction(sum(weights)) for weight in weights] for weights in CORNERS[name])
        tried.append(Problem(p, q, allowed[turn % len(allowed)], rule.law))
    return tried


@rule_property(cases=sampled_problems, shows=SHOW)
def sampled_frequencies(rule: SelectionRule, problem: Problem) -> None:
    """Tokens and positions drawn by ot.sample, 10,000 a problem, have the law that ot.evaluate computes.

    Over the seed of the generator, which is fixed, a right rule fails with probability 1e-9 at most: an e-value at 6e9 for
    each of six tests. A token law at total variation distance 0.036 from the computed one, and a position law (four
    outcomes at most) at 0.035, fail with probability 0.99: `statistics.smallest_distance(10_000, 6, 1 / LIMIT)`.
    """
    case = as_floats(problem)
    generator = np.random.default_rng(0)
    drafts = draw(case.law, np.tile(case.q, (DRAWS, 1)), case.k, generator)
    token, position = sample(rule, case.p, case.q, drafts, generator)
    result = evaluate(rule, case)
    accept = np.maximum(result.accept, 0)
    _compare(problem, "tokens", token, result.output)
    _compare(problem, "positions, -1 first,", position + 1, np.append(max(0.0, 1 - accept.sum()), accept))


def _compare(problem: Problem, name: str, outcomes: Array, law: Array) -> None:
    law = np.maximum(law, 0) / np.maximum(law, 0).sum()
    counts = np.bincount(outcomes, minlength=len(law))
    if len(counts) > len(law) or not log_e_value(counts, law) < np.log(LIMIT):
        seen = (
            f"{name} {(counts / len(outcomes)).round(4).tolist()} of {DRAWS} draws instead of {law.round(4).tolist()}"
        )
        raise Counterexample(problem, seen)
