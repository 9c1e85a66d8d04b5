"""evaluate(rule, problem): the output law and the acceptance of a rule, by enumerating all draft tuples.

Enumeration is batching: the rule gets all tuples as one more batch axis. On Fractions the answer is a proof.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import arrays as xp
from .arrays import Array
from .bias import Bias, bias_of
from .laws import sets
from .problem import TOLERANCE, Problem, check_problem
from .selection import check_callable, checked


@dataclass(frozen=True)
class Evaluation:
    """Output distribution and acceptance of a rule on a problem, averaged over the drafts.

    Parameters
    ----------
    output : array of shape (..., n)
        Distribution of the output token.
    acceptance : array of shape (...)
        Probability that the output is a draft token, whether a draft was taken or the residual gave it.
    accept : array of shape (..., k)
        Probability that each draft position is taken.
    problem : Problem
        The problem that was evaluated.

    See Also
    --------
    evaluate : Evaluates a rule.

    Examples
    --------
    >>> import ot_draft as otd
    >>> otd.evaluate(otd.rules.NaiveTarget(), otd.Problem([0.5, 0.5], [0.75, 0.25], k=1)).output.tolist()
    [0.5, 0.5]
    """

    output: Array
    acceptance: Any
    accept: Array
    problem: Problem

    @property
    def error(self) -> Any:
        """(...) total variation distance between the output distribution and the target distribution."""
        return (abs(self.output - self.problem.p)).sum(-1) / 2

    @property
    def bias(self) -> Bias:
        """Distances of the output distribution from the target distribution: total variation, KL both ways, the largest ratio."""
        return bias_of(self.output, self.problem.p)

    @property
    def lossless(self) -> bool:
        """Whether the output distribution is the target distribution: by == for Fractions, within the tolerance of the type for floats."""
        if xp.is_exact(self.output):
            return bool((self.output == self.problem.p).all())
        return bool((self.error <= TOLERANCE[str(self.problem.p.dtype).removeprefix("torch.")]).all())


def evaluate(rule: Any, problem: Problem) -> Evaluation:
    """Return the output distribution and the acceptance of a rule, by enumeration of all draft tuples.

    Parameters
    ----------
    rule : SelectionRule or callable
        ``rule(p, q, drafts) -> Selection``.
    problem : Problem
        Target, draft distribution, number of drafts and draft law. The problem's law is used, whatever law the rule
        declares, so that a rule under a wrong law shows an output that is not p.

    Returns
    -------
    evaluation : Evaluation
        Exact if the problem holds Fractions: then ``evaluation.lossless`` is a proof for this problem.

    Raises
    ------
    InvalidArgument
        If rule is not callable, does not return a `Selection` of the right shapes, or n^k is over four million.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> found = otd.evaluate(otd.rules.KSeq(), otd.Problem([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], k=2))
    >>> found.lossless, found.output.tolist()
    (True, [Fraction(1, 2), Fraction(1, 2)])
    """
    check_callable(rule)
    check_problem(problem)
    p, q, law, n, k = problem.p, problem.q, problem.law, problem.n, problem.k
    # Floats may sum to nearly 1; drafts are drawn by shares, and k of them would lack k times as much.
    drawn = q if xp.is_exact(q) else q / q.sum(-1, keepdims=True)
    output, acceptance, accept = 0 * p, 0 * p[..., 0], 0 * p[..., :1] + xp.full((k,), 0, like=p)
    for tuples in all_drafts(problem):
        drafts = xp.integers(tuples, like=p)
        weight = law.probability(drawn[..., None, :], drafts)
        if xp.is_exact(p):  # rows in Fractions are dear: leave out what is never drafted
            possible = (weight != 0).reshape(-1, len(tuples)).any(0)
            drafts, weight = drafts[possible], weight[..., possible]
        # Copies: a rule that writes into its arguments changes neither the caller's arrays nor its own judgement.
        given = rule(xp.copy(p)[..., None, :], xp.copy(q)[..., None, :], xp.copy(drafts))
        selection = checked(given, p, drafts)
        row = selection.output(drafts)
        output = output + (weight[..., None] * row).sum(-2)
        acceptance = acceptance + (weight * xp.where(xp.members(drafts, n), row, 0).sum(-1, keepdims=True)[..., 0]).sum(
            -1
        )
        accept = accept + (weight[..., None] * selection.accept).sum(-2)
    return Evaluation(output, acceptance, accept, problem)


def all_drafts(problem: Problem) -> Iterator[np.ndarray]:
    """Return all draft tuples, absent drafts as -1, in chunks of int (rows, k)."""
    max_cells = 1 << 22  # draft tuples times tokens in memory
    rows = max(1, max_cells // (problem.n * max(1, int(np.prod(problem.batch)))))
    return sets.tuples(problem.n, problem.law.count(problem.n, problem.k), problem.k, rows)
