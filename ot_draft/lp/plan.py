"""Transport plans from draft sets to outputs, by row or as a table, and certificates of optimality."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from .. import arrays as xp
from ..errors import InvalidArgument
from ..exact import all_drafts
from ..problem import Problem, token_ids
from ..selection import Selection


@dataclass(frozen=True, eq=False)
class Table:
    """All rows of a plan.

    drafts: int (sets, k) the draft sets S of positive probability, in rising order, -1 beyond the last token. mass: (sets,) Q(S).
    accept: (sets, k) probability, given S, that the output is the token in this column. residual: (n,) output distribution after
    rejection of all.
    """

    drafts: np.ndarray
    mass: np.ndarray
    accept: np.ndarray
    residual: np.ndarray

    @property
    def flow(self) -> np.ndarray:
        """(sets, k) mass from S to the token in this column."""
        return self.mass[:, None] * self.accept

    @property
    def dense(self) -> np.ndarray:
        """(sets, n) the plan pi(S, y): row sums Q(S), column sums p."""
        return self.mass[:, None] * Selection(self.accept, self.residual).output(self.drafts)


@dataclass(frozen=True, eq=False)
class Certificate:
    """lower <= alpha* <= upper, both proved in rationals.

    lower: value of a plan that meets every constraint, so that some valid rule attains it. upper: 1 + p(H) - Q(all
    drafts in H) of the token set H, bool (n,), which no valid rule exceeds (weak duality). read_from: how the
    problem was converted to rational numbers.
    """

    lower: Fraction
    upper: Fraction
    token_set: np.ndarray
    read_from: str

    @property
    def exact(self) -> bool:
        """Whether the bounds are equal, so that they are the optimum."""
        return self.lower == self.upper

    @property
    def width(self) -> Fraction:
        """upper - lower, in probability."""
        return self.upper - self.lower

    def __str__(self) -> str:
        if self.exact:
            found = f"is exactly {self.lower}"
            found = found if len(found) < 60 else f"is exactly a rational number near {float(self.lower):.15g}"
        else:
            lower, upper, width = float(self.lower), float(self.upper), float(self.width)
            found = f"lies between {lower:.15g} and {upper:.15g}, an interval of width {width:.1e}"
        return (
            f"The largest acceptance of any rule that keeps the target's law {found}, for the problem {self.read_from}."
        )


def read_from(problem: Problem) -> str:
    """Description of how the problem was converted to rational numbers."""
    if xp.is_exact(problem.p):
        return "as given"
    return "with floats read as binary rational numbers and divided by their exact sum"


class Plan(ABC):
    """Base class of transport plans: mass from each draft set to each output; row sums are Q(S), column sums p.

    Given S, the output is y in S with probability accept(S, y), else a sample from the residual. Masses are Fractions if the problem
    has Fractions, else float64.
    """

    @property
    @abstractmethod
    def inner(self) -> Problem:
        """The problem in the number type of the plan."""

    @property
    @abstractmethod
    def left(self) -> np.ndarray:
        """(n,) `residual` in the number type of `inner`."""

    @abstractmethod
    def rows(self, drafts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Q(S) (m,), and accept (m, k) at the first position of each token, 0 at repeats and absent drafts: int (m, k).

        S is the set of the tokens of a row. accept is 0 if Q(S) is 0.
        """

    @abstractmethod
    def sets(self) -> np.ndarray:
        """The draft sets of positive probability, int (sets, k), -1 beyond the last token."""

    @property
    @abstractmethod
    def value(self) -> Fraction:
        """The acceptance that the plan attains, exactly."""

    @abstractmethod
    def certificate(self, token_set: np.ndarray) -> Certificate:
        """Return the certificate of the plan and a token set, bool (n,), verified in rational arithmetic."""

    def __getitem__(self, drafts: Any) -> np.ndarray:
        """pi(S, .) for the set S of the drafts: int (..., k) -> (..., n). The row sums to Q(S)."""
        given = token_ids(np.asarray(drafts), self.inner.p)
        k = self.inner.k
        if given.shape[-1] != k:
            raise InvalidArgument(
                f"drafts must have shape (..., {k}), got {given.shape}. Pass {k} token ids per row, -1 for an absent one."
            )
        batch = given.shape[:-1]
        flat = given.reshape(int(np.prod(batch)), k)
        mass, accept = self.rows(flat)
        dense = mass[:, None] * Selection(accept, self.left).output(flat)
        return self.numbers(dense.reshape(*batch, self.inner.n))

    def table(self) -> Table:
        """The plan over all draft sets. Raises InvalidArgument for too many."""
        drafts = self.sets()
        mass, accept = self.rows(drafts)
        return Table(drafts, self.numbers(mass), self.numbers(accept), self.residual)

    def full(self) -> tuple[np.ndarray, np.ndarray]:
        """The plan pi(x, y) over all draft tuples x: drafts int (n^k, k), mass (n^k, n). Row sums are the draft law.

        Tuples with the same token set share the set's row in proportion to their probability. Raises InvalidArgument for too
        many tuples.
        """
        inner = self.inner
        n, drawn = inner.n, inner.law.count(inner.n, inner.k)
        max_entries = 200_000
        if n ** (drawn + 1) > max_entries:
            raise InvalidArgument(
                f"the plan over all draft tuples must have at most {max_entries} entries, got {n}^{drawn + 1}. Use `table`, over"
                " draft sets, or plan[drafts] for one row."
            )
        drafts = np.concatenate(list(all_drafts(inner)))
        chance = inner.law.probability(inner.q[None, :], drafts)
        _, accept = self.rows(drafts)
        return drafts, self.numbers(chance[:, None] * Selection(accept, self.left).output(drafts))

    @property
    def residual(self) -> np.ndarray:
        """(n,) output distribution if no draft token is accepted: p minus the flow, normalised; p if that is 0."""
        return self.numbers(self.left)

    def numbers(self, values: Any) -> np.ndarray:
        """Values of the plan in the number type of the given problem."""
        return np.asarray(values)
