"""K-SEQ: k tests in a row against a scaled-down target."""

from dataclasses import dataclass
from fractions import Fraction

from ... import arrays as xp
from ...arrays import Array
from ...dispatch import accelerated
from ...errors import InvalidArgument
from ...laws import IID, DraftLaw, Fact
from ...problem import Problem
from ...selection import ClosedForm, Selection, SelectionRule, in_turn, with_closed_form
from .division_factor import factor_and_mass, mass_at


@dataclass(frozen=True)
class KSeq(SelectionRule):
    """Take the drafts in order with probability min(1, p(x) / (factor q(x))), else draw from the residual [1]_.

    With beta = sum min(q, p/factor), the rule takes a draft with probability 1 - (1 - beta)^k. The residual is proportional to
    p - min(q, p/factor) (1 - (1 - beta)^k) / beta. The acceptance is at least 1 - (1 - 1/k)^k of the optimum (`kseq_bound`).

    Parameters
    ----------
    factor : float or Fraction, optional
        Division factor gamma >= 1. It is lossless from gamma* on, which lies in [1, k] and depends on p, q and k. By default
        gamma* is computed and rounded up: rounding costs less than 1e-12 of the acceptance in float64, 2e-4 in float32.
        A fixed factor below gamma* may make a rule that is not lossless, as `evaluate` shows.
    law : DraftLaw, default=IID()
        Draft law.

    Raises
    ------
    InvalidArgument
        If factor is below 1.

    References
    ----------
    .. [1] Sun et al., "SpecTr: Fast Speculative Decoding via Optimal Transport", NeurIPS 2023, Algorithm 2 and Theorem 1.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> problem = otd.Problem([F(1, 2), F(1, 3), F(1, 6)], [F(1, 6), F(1, 3), F(1, 2)], k=2)
    >>> otd.evaluate(otd.rules.KSeq(), problem).lossless
    True
    """

    factor: float | Fraction | None = None
    law: DraftLaw = IID()

    def __post_init__(self) -> None:
        if self.factor is not None and not self.factor >= 1:
            raise InvalidArgument(
                f"factor of KSeq must be from 1 to k, got {self.factor!r}. Pass None for the best factor."
            )

    @property
    def claims(self) -> tuple[str, ...]:  # type: ignore[override]  # fixed by the fields
        return ("maximal", "kseq_bound") if self.factor is None else ()

    def _closed_form(self, problem: Problem, optimum: Array | None = None) -> ClosedForm | None:
        """Taken: 1 - (1 - beta)^k. With the smallest valid factor the residual lies where no draft is refused, so that is all.

        With any other factor, P(all refused, y among them) = (1 - beta)^k - (1 - beta - P(the draft is y and refused))^k.
        """
        if Fact.INDEPENDENT not in problem.law.facts:
            return None
        p, q, k = problem.p, problem.q, problem.k
        factor, mass = self._factor_and_mass(p, q, xp.full((*problem.batch, 1), k, like=p))
        take = xp.overlap(p, q, factor) / factor  # min(q, p / factor)
        refused = xp.maximum(1 - mass / factor, 0)
        taken = xp.at_least_one(mass / factor, k)
        share = xp.minimum(xp.divide(taken, mass, 0), 1)
        residual = xp.residual(p, q, factor * share, 1 - share)
        missed = refused**k - xp.maximum(refused - q + take, 0) ** k
        return taken[..., 0] + (residual * missed).sum(-1), taken[..., 0]

    @with_closed_form(_closed_form)
    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        return self._selection(p, q, drafts)

    @accelerated("k_seq")
    def _selection(self, p: Array, q: Array, drafts: Array) -> Selection:
        like, (p, q, drafts) = p, xp.host_views(p, q, drafts)
        count = xp.astype(drafts >= 0, p.dtype).sum(-1, keepdims=True)
        factor, mass = self._factor_and_mass(p, q, count)
        take = xp.minimum(xp.divide(xp.gather(p, drafts), factor * xp.gather(q, drafts), 0), 1)
        share = xp.minimum(xp.divide(xp.at_least_one(mass / factor, count), mass, 0), 1)
        # p - share min(p, factor q), where it is positive whatever p and q are.
        residual = xp.residual(p, q, factor * share, 1 - share)
        return Selection(xp.from_view(in_turn(take), like), xp.from_view(residual, like))

    def _factor_and_mass(self, p: Array, q: Array, count: Array) -> tuple[Array, Array]:
        """The division factor g for this number of drafts, and sum min(g q, p): (..., 1) each."""
        if self.factor is None:
            return factor_and_mass(p, q, count)
        factor = xp.full((*xp.batch_shape(p, q, count), 1), xp.number(self.factor, p), like=p)
        return factor, mass_at(p, q, factor)
