"""Rules for drafts that are fixed tokens and one draw outside them: greedy drafting, and SpecHub."""

from abc import abstractmethod
from dataclasses import dataclass

from .. import arrays as xp
from ..arrays import Array
from ..laws import DraftLaw, Hybrid, SpecHubLaw, outside
from ..problem import Problem
from ..selection import ClosedForm, Selection, SelectionRule, with_closed_form
from .coupling import attained_optimum, couple


class OneDraw(SelectionRule):
    """Selection among fixed tokens T and one draw from q' = q outside T, normalised; a subclass defines T by `fixed`.

    Take the draw with probability min(1, p/q'), else draw from the rest of p, which is p itself on T and (p - q')+ elsewhere. All tokens
    of T are drafted, too. Acceptance p(T) + sum outside T of min(p, q'), the optimum. Without a draw the output is from p.
    """

    claims = ("optimal",)

    @abstractmethod
    def fixed(self, q: Array, drafts: Array) -> Array:
        """Return the drafts (..., k), -1 for the draw."""

    def _closed_form(self, problem: Problem, optimum: Array | None = None) -> ClosedForm | None:
        """The optimum under the draft law, and no residual on drafted tokens."""
        return attained_optimum(problem, optimum) if problem.law == self.law else None

    @with_closed_form(_closed_form)
    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        fixed = self.fixed(q, drafts)
        drawn = xp.astype((drafts >= 0) & (fixed < 0), p.dtype)
        law = xp.where(drawn.sum(-1, keepdims=True) > 0, outside(q, fixed), 0)
        return couple(p, law, drawn, drafts, fixed)


@dataclass(frozen=True)
class Greedy(OneDraw):
    """Select optimally under greedy drafting: the top k - 1 tokens and one draw outside them [1]_.

    Parameters
    ----------
    law : DraftLaw, default=Hybrid(top=-1)
        Draft law.

    References
    ----------
    .. [1] Hu et al., "Towards Optimal Multi-draft Speculative Decoding", 2025.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> problem = otd.Problem([F(1, 2), F(1, 3), F(1, 6)], [F(1, 6), F(1, 3), F(1, 2)], k=2, law=otd.Hybrid(-1))
    >>> otd.evaluate(otd.rules.Greedy(), problem).lossless
    True
    """

    law: DraftLaw = Hybrid(top=-1)

    def fixed(self, q: Array, drafts: Array) -> Array:
        k = drafts.shape[-1]
        return xp.where(xp.arange(k, like=drafts) == k - 1, -1, drafts)


@dataclass(frozen=True)
class SpecHub(OneDraw):
    """Select optimally under SpecHub's law (k = 2): pairs of the top token a and one other token i [1]_.

    The pair {a, i}, in either order, has probability q(i) / (1 - q(a)), as if i were drawn from q outside a. So the rule and its
    acceptance are those of greedy drafting with k = 2.

    Parameters
    ----------
    law : DraftLaw, default=SpecHubLaw()
        Draft law.

    References
    ----------
    .. [1] Sun et al., "SpecHub: Provable Acceleration to Multi-Draft Speculative Decoding", EMNLP 2024.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> problem = otd.Problem([F(1, 2), F(1, 3), F(1, 6)], [F(1, 6), F(1, 3), F(1, 2)], k=2, law=otd.SpecHubLaw())
    >>> otd.evaluate(otd.rules.SpecHub(), problem).lossless
    True
    """

    law: DraftLaw = SpecHubLaw()

    def fixed(self, q: Array, drafts: Array) -> Array:
        return xp.where(drafts == xp.top_tokens(q, 1), drafts, -1)
