"""Losses for training a draft model, differentiable in its logits: -log of the optimal acceptance with k drafts, and the expected
accepted length of a path. Needs `torch`.

The optimum is alpha = 1 + min over token sets H of p(H) - Q(all drafts in H). At its minimum H may be held fixed (envelope
theorem): the gradient of alpha is that of p(H) + Q(some draft outside H) for the H that attains it, a set of tokens with small p/q.
With one draft alpha = sum min(p, q) = 1 - TV, and -log alpha is one of the "LK losses" (arXiv:2602.23881, 2026).

Block verification accepts x_1..x_i of a drafted path with probability w_i = min(1, w_{i-1} p(x_i)/q(x_i)). By induction Q(x_1..x_i) w_i
= P(x_1..x_i) min over j <= i of Q(x_1..x_j) / P(x_1..x_j), j = 0 included. So the expected accepted length is a mean over texts of the
*target*, of weights that are at most 1: nothing is drafted in training, and the gradient is that of a function of q smooth in pieces.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Any

from .. import arrays as xp
from ..errors import InvalidDistribution, InvalidDrafts
from ..laws import IID, DraftLaw, FixedFirst, outside, probability_inside
from ..optimum import cuts
from ..problem import check_law, common_batch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["acceptance_loss", "accepted_length_loss"]

HUGE = 1e30  # a ratio of masses that decides no minimum; without overflow in float32


def acceptance_loss(p: Tensor, q: Tensor, k: int = 1, law: DraftLaw | None = None) -> Tensor:
    """-log of the optimal acceptance alpha(p, q, k, law), in nats: (..., n), (..., n) -> (...), differentiable in q (and p).

    p, q: target and draft distributions, tensors of one floating type and device, which are trusted; float32 is used inside where they are
    narrower (bfloat16 masses are coarse: take the softmax of logits in float32). law: of the drafts, i.i.d. by default; the
    number of top tokens that hybrid drafting fixes, and which, count as constants. Where alpha is 1 the gradient is 0; where it is 0
    (no token has mass under both) the loss is infinite and its gradient undefined. Raises
    InvalidDistribution for what are no such tensors, and for shapes that do not fit.
    """
    law = IID() if law is None else law
    check_law(law, k)
    if k == 0:
        raise InvalidDrafts("k is 0: without a draft nothing is accepted, give k >= 1")
    _check_tensors(p=p, q=q)
    if p.shape[-1] != q.shape[-1]:
        raise InvalidDistribution(f"p has {p.shape[-1]} tokens, q has {q.shape[-1]}: give both on one vocabulary")
    batch = (*common_batch(InvalidDistribution, p=p, q=q), p.shape[-1])
    p, q = p.expand(batch), q.expand(batch)
    p, q = (x.float() if x.element_size() < 4 else x for x in (p, q))
    if k == 1 and law == IID():
        # So that NaN is summed, and seen: with a NaN of p, without one of q.
        token_set = (p.detach() < q.detach()) | p.detach().isnan()
    else:
        order, cut = cuts(p.detach(), q.detach(), k, law)
        token_set = xp.argsort(order) < cut.argmin(-1)[..., None]
    reached = _reached(law, q, ~token_set, k)
    if q.requires_grad and not reached.requires_grad:
        raise InvalidDrafts(f"the gradient under {law!r} is not known: take IID() or Hybrid(top=j)")
    return -(xp.where(token_set, p, 0).sum(-1, keepdims=True)[..., 0] + reached).log()


def accepted_length_loss(p: Tensor, q: Tensor, text: Tensor) -> Tensor:
    """Minus the accepted length of one path of L drafts under block verification, in tokens: (..., L, n) twice, int (..., L) -> (...).

    text: tokens drawn from the target. p, q: laws of the token at each place, given the text before it. The mean over texts is exactly
    minus the expected accepted length, the most that any lossless rule for one path reaches, and so is the gradient, but where ratios
    tie. Every place is summed over all its tokens: L = 1 gives -sum min(p, q), and of the text the last token is only checked. A draft
    that has no mass for a token of the text: q = 0 there.
    Raises InvalidDistribution for other shapes, which would be broadcast in silence, and where the target has no mass for a token of
    the text, InvalidDrafts for a text that is none. Types as in `acceptance_loss`.
    """
    _check_tensors(p=p, q=q)
    if not xp.is_torch(text) or not str(text.dtype).startswith(("torch.int", "torch.uint")):
        raise InvalidDrafts(f"text is {_kind(text)}: give a torch tensor of token ids, integers")
    if p.shape != q.shape or text.shape != p.shape[:-1] or 0 in text.shape[-1:] or not text.ndim:
        given = ", ".join(f"{name} {tuple(x.shape)}" for name, x in (("p", p), ("q", q), ("text", text)))
        raise InvalidDistribution(f"{given}: give p and q (..., L, n) and a text (..., L) for each, L >= 1")
    p, q = (x.float() if x.element_size() < 4 else x for x in (p, q))
    text, n = text.long(), p.shape[-1]
    if bool(((text < 0) | (text >= n)).any()):
        place = ((text < 0) | (text >= n)).nonzero()[0].tolist()
        raise InvalidDrafts(
            f"place {place}: token {int(text[tuple(place)])} is outside the vocabulary 0 .. {n - 1}: give ids of its tokens"
        )
    own_p, own_q = (x.gather(-1, text[..., None])[..., 0].double() for x in (p, q))
    if bool((own_p <= 0).any()):
        place = (own_p <= 0).nonzero()[0].tolist()
        raise InvalidDistribution(f"place {place}: p is 0 for the text's token: give a text that was drawn from p")
    # Of Q/P by logarithms, because the product may pass what floats hold and come back, or meet q = 0; zeros are multiplied apart, which
    # leaves them their gradient.
    ratio = (xp.where(own_q > 0, own_q, 1).log() - own_p.log()).cumsum(-1).clamp(max=log(HUGE)).exp()
    before = (ratio * xp.where(own_q > 0, 1, own_q).cumprod(-1)).roll(1, -1)
    before[..., 0] = 1
    weight = before.cummin(-1).values.to(p)
    accepted = xp.minimum(weight[..., None] * p, before.to(q)[..., None] * q)
    return -accepted.sum((-2, -1))


def _check_tensors(**tensors: Any) -> None:
    """Refuse what is no floating tensor (..., n): InvalidDistribution."""
    for name, x in tensors.items():
        if not xp.is_torch(x) or not x.is_floating_point() or not x.ndim or not x.shape[-1]:
            raise InvalidDistribution(f"{name} is {_kind(x)}: give a torch tensor of floats, (..., n) with n >= 1")


def _kind(x: Any) -> str:
    return f"a tensor {tuple(x.shape)} of {x.dtype}" if xp.is_torch(x) else f"a {type(x).__name__}"


def _reached(law: DraftLaw, q: Tensor, token_set: Tensor, k: int) -> Tensor:
    """P(some draft lies in the set), bool (..., n) -> (...): without cancellation where the draws are independent."""
    if not isinstance(law, FixedFirst):
        return 1 - probability_inside(law, q, ~token_set, k)
    fixed = law.fixed_drafts(q, k)
    free = q if isinstance(law, IID) else outside(q, fixed)
    drawn = xp.at_least_one(
        xp.where(token_set, free, 0).sum(-1, keepdims=True), xp.astype(fixed < 0, q.dtype).sum(-1, keepdims=True)
    )[..., 0]
    return xp.where((token_set & xp.members(fixed, q.shape[-1])).any(-1), 1, drawn)
