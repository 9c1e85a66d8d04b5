"""Losses for training a draft model: -log of the optimal acceptance with k drafts, differentiable in the draft's logits. Needs `torch`.

The optimum is alpha = 1 + min over token sets H of p(H) - Q(all drafts in H). At its minimum H may be held fixed (envelope
theorem): the gradient of alpha is that of p(H) + Q(some draft outside H) for the H that attains it, a set of tokens with small p/q.
With one draft alpha = sum min(p, q) = 1 - TV, and -log alpha is one of the "LK losses" (arXiv:2602.23881, 2026).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import arrays as xp
from .errors import InvalidDistribution, InvalidDrafts
from .laws import IID, DraftLaw, outside
from .problem import check_law

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["acceptance_loss", "acceptance_loss_of_logits"]


def acceptance_loss(p: Tensor, q: Tensor, k: int = 1, law: DraftLaw | None = None) -> Tensor:
    """-log of the optimal acceptance alpha(p, q, k, law), in nats: (..., n), (..., n) -> (...), differentiable in q (and p).

    p, q: target and draft distributions, tensors of one floating type and device, which are trusted; float32 is used inside where they are
    narrower (bfloat16 masses are coarse: `acceptance_loss_of_logits` takes logits instead). law: of the drafts, i.i.d. by default; the
    number of top tokens that hybrid drafting fixes, and which, count as constants. Where alpha is 1 the gradient is 0; where it is 0
    (no token has mass under both) the loss is infinite and its gradient undefined.
    """
    law = IID() if law is None else law
    check_law(law, k)
    if k == 0:
        raise InvalidDrafts("k is 0: without a draft nothing is accepted, give k >= 1")
    if p.shape[-1] != q.shape[-1]:
        raise InvalidDistribution(f"p has {p.shape[-1]} tokens, q has {q.shape[-1]}: give both on one vocabulary")
    p, q = (x.float() if x.element_size() < 4 else x for x in (p, q))
    token_set = smallest_cut(p.detach(), q.detach(), k, law)
    reached = _reached(law, q, ~token_set, k)
    if q.requires_grad and not reached.requires_grad:
        raise InvalidDrafts(f"the gradient under {law!r} is not known: take IID() or Hybrid(top=j)")
    return -(xp.total(xp.where(token_set, p, 0))[..., 0] + reached).log()


def acceptance_loss_of_logits(target: Tensor, draft: Tensor, k: int = 1, law: DraftLaw | None = None) -> Tensor:
    """`acceptance_loss` of softmaxes: logits (..., n) of any floating type -> (...); the softmax is taken in float32 at least."""
    p, q = (x.float() if x.element_size() < 4 else x for x in (target, draft))
    return acceptance_loss(p.softmax(-1), q.softmax(-1), k, law)


def _reached(law: DraftLaw, q: Tensor, token_set: Tensor, k: int) -> Tensor:
    """P(some draft lies in the set), bool (..., n) -> (...): without cancellation where the draws are independent."""
    if not law.independent:
        return 1 - law.inside(q, ~token_set, k)
    fixed = law.top_drafts(q, k)
    free = outside(q, fixed) if law.fixes_tops else q
    drawn = xp.any_of(xp.total(xp.where(token_set, free, 0)), xp.total(xp.as_number(fixed < 0, q)))[..., 0]
    return xp.where((token_set & xp.members(fixed, q.shape[-1], q)).any(-1), 1, drawn)


def smallest_cut(p: Tensor, q: Tensor, k: int, law: DraftLaw) -> Tensor:
    """The token set H that attains min p(H) - Q(all drafts in H): bool (..., n)."""
    if k == 1 and law == IID():
        return p < q
    order = law.order(p, q, k)
    size = (xp.prefix_sums(xp.take(p, order)) - law.along(q, order, k)).argmin(-1)
    return xp.argsort(order) < size[..., None]
