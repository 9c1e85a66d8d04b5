"""Recursive rejection, of i.i.d. drafts and of drafts drawn without replacement."""

from dataclasses import dataclass

from .. import arrays as xp
from ..arrays import Array
from ..dispatch import accelerated
from ..laws import IID, DraftLaw, Fact, WithoutReplacement, outside
from ..problem import Problem
from ..selection import ClosedForm, Selection, SelectionRule, Siblings, in_turn, with_closed_form


@dataclass(frozen=True)
class RecursiveRejection(SelectionRule):
    """Test every draft against what the rejected ones leave of the target.

    p_1 = p and p_{i+1} = norm((p_i - q)+). Draft i is taken with probability min(1, p_i / q), and the residual is p_{k+1} [1]_ [2]_.
    Since p_i is proportional to (p - s_i q)+ with a growing s_i, the vocabulary is read once per draft, for one sum.

    Parameters
    ----------
    law : DraftLaw, default=IID()
        Draft law under which the rule is lossless.

    References
    ----------
    .. [1] Miao et al., "SpecInfer", ASPLOS 2024.
    .. [2] Yang et al., "Multi-Candidate Speculative Decoding", 2024.

    Examples
    --------
    >>> import ot_draft as otd
    >>> otd.evaluate(otd.rules.RecursiveRejection(), otd.Problem([0.5, 0.5], [0.75, 0.25], k=2)).lossless
    True
    """

    claims = ("maximal", "cover")
    law: DraftLaw = IID()

    def _closed_form(self, problem: Problem, optimum: Array | None = None) -> ClosedForm | None:
        """1 - prod_i (1 - beta_i) with beta_i = sum min(p_i, q); a refused token has p_i < q, hence mass 0 from then on."""
        if Fact.INDEPENDENT not in problem.law.facts:
            return None
        target, q = problem.p, problem.q
        refused: Array = 1
        for _ in range(problem.k):
            refused = refused * (1 - xp.minimum(target, q).sum(-1))
            target = xp.normalise(xp.maximum(target - q, 0), target)
        return 1 - refused, 1 - refused

    @with_closed_form(_closed_form)
    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        return _selection(p, q, drafts) if drafts.shape[-1] else Selection(xp.gather(p, drafts), p)


@accelerated("recursive_rejection")
def _selection(p: Array, q: Array, drafts: Array) -> Selection:
    like, (p, q, drafts) = p, xp.host_views(p, q, drafts)
    present = xp.astype(drafts >= 0, p.dtype)
    scales, masses, last = _scales(p, q, present)
    q_x = xp.gather(q, drafts)
    over = xp.maximum(xp.gather(p, drafts) - scales * q_x, 0)
    take = xp.minimum(xp.divide(over, masses * q_x, 0), 1)
    return Selection(xp.from_view(in_turn(take), like), xp.from_view(xp.residual(p, q, last), like))


@accelerated("recursive_rejection")
def _scales(p: Array, q: Array, present: Array) -> tuple[Array, Array, Array]:
    """s_i and the mass of (p - s_i q)+ when draft i is tested, and s at the end: (..., k), (..., k), (..., 1)."""
    scale, mass, left = 0 * p[..., :1], 1 + 0 * p[..., :1], None
    scales, masses = [], []
    for i in range(present.shape[-1]):
        scales.append(scale)
        masses.append(mass)
        scale = scale + mass * present[..., i : i + 1]
        if i + 1 < present.shape[-1]:
            left = xp.excess(p, q, scale, left)
            mass = left.sum(-1, keepdims=True)
    return xp.concat(scales, axis=-1), xp.concat(masses, axis=-1), scale


@dataclass(frozen=True)
class RecursiveRejectionWithoutReplacement(SelectionRule):
    """Test every draft against what is left of the target and of the draft distribution.

    p_{i+1} = norm((p_i - q_i)+). q_{i+1} is q_i without the rejected token, normalised [1]_; if no mass is left, it is uniform on the
    tokens that are not drafted yet [2]_.

    Parameters
    ----------
    law : DraftLaw, default=WithoutReplacement()
        Draft law under which the rule is lossless.

    References
    ----------
    .. [1] Yang et al., "Multi-Candidate Speculative Decoding", 2024.
    .. [2] Chen et al., "Sequoia: Scalable, Robust, and Hardware-aware Speculative Decoding", 2024.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> rule = otd.rules.RecursiveRejectionWithoutReplacement()
    >>> problem = otd.Problem([F(1, 2), F(1, 3), F(1, 6)], [F(1, 6), F(1, 3), F(1, 2)], k=2, law=rule.law)
    >>> otd.evaluate(rule, problem).lossless
    True
    """

    claims = ("maximal", "cover")
    siblings = Siblings(any_number=True)
    law: DraftLaw = WithoutReplacement()

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        takes = []
        target = p
        for i in range(drafts.shape[-1]):
            token = drafts[..., i : i + 1]
            law = outside(q, drafts[..., :i])
            takes.append(xp.minimum(xp.divide(xp.gather(target, token), xp.gather(law, token), 0), 1))
            refused = xp.residual(target, law)
            target = xp.where(token >= 0, refused, target)
        return Selection(in_turn(xp.concat(takes, axis=-1)) if takes else xp.gather(p, drafts), target)
