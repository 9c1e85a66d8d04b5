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

from math import inf, log
from typing import TYPE_CHECKING, Any

from .. import arrays as xp
from ..errors import InvalidDistribution, InvalidDrafts
from ..laws import IID, DraftLaw, Fact, outside, probability_inside
from ..laws.fixed_tokens import fixed_part
from ..optimum import cuts
from ..problem import check_law, common_batch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["acceptance_loss", "accepted_length_loss"]


def acceptance_loss(p: Tensor, q: Tensor, k: int = 1, law: DraftLaw | None = None, *, logits: bool = False) -> Tensor:
    """Return -log of the optimal acceptance with k drafts, in nats, differentiable in q and p.

    Parameters
    ----------
    p, q : tensor of shape (..., n)
        Target and draft distributions over n tokens, of one floating type and device. Their values are trusted. Types narrower than
        float32 are converted to float32.
    k : int, default=1
        Number of draft tokens.
    law : DraftLaw, optional
        Draft law, i.i.d. by default. The fixed tokens of hybrid drafting and their number count as constants.
    logits : bool, default=False
        Whether p and q are logits, -inf for a token of probability 0. The loss and its gradient are then computed from
        log-probabilities, and stay finite where no token has a representable probability under both models. Prefer this form for
        training.

    Returns
    -------
    loss : tensor of shape (...)
        NaN where p or q holds NaN, or the logits of a row are all -inf, as `torch.softmax` has it. Where the acceptance is 1, the gradient
        is 0. Where the acceptance is 0, the loss is +inf and its gradient 0. With logits, this
        occurs only where masks (-inf) leave no token that both models can emit.

    Raises
    ------
    InvalidDistribution
        If p or q is not such a tensor, or their shapes do not fit.
    InvalidDrafts
        If k is 0, or q requires a gradient that is not known under this draft law.

    Examples
    --------
    The models are certain of different tokens. Float32 probabilities have no overlap:

    >>> import torch
    >>> target, draft = torch.tensor([120.0, 0.0, 0.0]), torch.tensor([0.0, 120.0, 0.0])
    >>> acceptance_loss(target, draft, logits=True)
    tensor(118.9014)
    >>> acceptance_loss(target.softmax(-1), draft.softmax(-1))
    tensor(inf)
    """
    law = IID() if law is None else law
    check_law(law, k)
    if k == 0:
        raise InvalidDrafts("k must be at least 1, got 0. Pass the number of draft tokens.")
    _check_tensors(p=p, q=q)
    if p.shape[-1] != q.shape[-1]:
        raise InvalidDistribution(
            f"q must have {p.shape[-1]} tokens, as many as p, got {q.shape[-1]}. Pass both over one vocabulary."
        )
    batch = (*common_batch(InvalidDistribution, p=p, q=q), p.shape[-1])
    p, q = p.expand(batch), q.expand(batch)
    p, q = (x.float() if x.element_size() < 4 else x for x in (p, q))
    if logits and Fact.INDEPENDENT_OUTSIDE_FIXED in law.facts:
        return -_log_acceptance(p.log_softmax(-1), q.log_softmax(-1), k, law)
    if logits:
        p, q = p.softmax(-1), q.softmax(-1)
    if k == 1 and law == IID():
        # NaN of p is in the set and NaN of q is not, so that the sum is NaN.
        token_set = (p.detach() < q.detach()) | p.detach().isnan()
    else:
        order, cut = cuts(p.detach(), q.detach(), k, law)
        token_set = xp.argsort(order) < cut.argmin(-1)[..., None]
    reached = _reached(law, q, ~token_set, k)
    if q.requires_grad and not reached.requires_grad:
        raise InvalidDrafts(f"law must be IID() or Hybrid(top=j) for a gradient in q, got {law!r}. Use one of them.")
    alpha = xp.where(token_set, p, 0).sum(-1) + reached
    return -xp.where(alpha == 0, 1, alpha).log().masked_fill(alpha == 0, -inf)


def accepted_length_loss(p: Tensor, q: Tensor, text: Tensor, *, logits: bool = False) -> Tensor:
    """Return minus the accepted length of one path of L draft tokens under block verification, in tokens.

    The mean over sequences is exactly minus the expected accepted length, the largest that any lossless rule for one path reaches. The
    same holds for the gradient, except where ratios tie. Every position is summed over all tokens: L = 1 gives -sum min(p, q), and the
    last token of `text` is only checked.

    Parameters
    ----------
    p, q : tensor of shape (..., L, n)
        Target and draft distributions at each position, given the tokens before it. Types as in `acceptance_loss`.
    text : integer tensor of shape (..., L)
        Tokens drawn from the target. The draft may have probability 0 for them.
    logits : bool, default=False
        Whether p and q are logits. The ratios of probabilities are then computed from log-probabilities.

    Returns
    -------
    loss : tensor of shape (...)

    Raises
    ------
    InvalidDistribution
        If the shapes differ, or the target has probability 0 for a token of `text`.
    InvalidDrafts
        If `text` does not hold token ids.

    Examples
    --------
    Two positions with the same distributions. p has drawn each of the two first tokens once, so that the mean is the expected length.

    >>> import torch
    >>> p, q = torch.tensor([[0.5, 0.5]] * 2), torch.tensor([[0.75, 0.25]] * 2)
    >>> loss = accepted_length_loss(p.expand(2, 2, 2), q.expand(2, 2, 2), torch.tensor([[0, 0], [1, 0]]))
    >>> loss, loss.mean()
    (tensor([-1.6250, -1.1250]), tensor(-1.3750))
    """
    _check_tensors(p=p, q=q)
    if not xp.is_torch(text) or not str(text.dtype).startswith(("torch.int", "torch.uint")):
        raise InvalidDrafts(f"text must be a torch tensor of integer token ids, got {_kind(text)}. Convert text.")
    if p.shape != q.shape or text.shape != p.shape[:-1] or 0 in text.shape[-1:] or not text.ndim:
        given = ", ".join(f"{name} {tuple(x.shape)}" for name, x in (("p", p), ("q", q), ("text", text)))
        raise InvalidDistribution(
            f"p and q must have shape (..., L, n), and text (..., L) with L >= 1, got {given}. Pass one token per distribution."
        )
    p, q = (x.float() if x.element_size() < 4 else x for x in (p, q))
    text, n = text.long(), p.shape[-1]
    if bool(((text < 0) | (text >= n)).any()):
        index = ((text < 0) | (text >= n)).nonzero()[0].tolist()
        raise InvalidDrafts(
            f"text{index} must be a token id in 0 .. {n - 1}, got {int(text[tuple(index)])}. Correct the text."
        )
    scores = (p.log_softmax(-1), q.log_softmax(-1)) if logits else (p, q)
    own_p, own_q = (x.gather(-1, text[..., None])[..., 0].double() for x in scores)
    lost = own_p <= (-inf if logits else 0)
    if bool(lost.any()):
        index = lost.nonzero()[0].tolist()
        raise InvalidDistribution(
            f"text{index} must have positive probability in p, got 0. Pass a text that was sampled from p."
        )
    log_largest_ratio = log(1e30)  # log of a ratio above all minima, without overflow in float32
    # Products of Q/P are sums of logarithms, because the product may overflow in between. Factors q = 0 are multiplied separately, which
    # keeps their gradient.
    if logits:
        p, q = (x.exp() for x in scores)
        before = (own_q - own_p).cumsum(-1).clamp(max=log_largest_ratio).exp().roll(1, -1)
    else:
        ratio = (xp.where(own_q > 0, own_q, 1).log() - own_p.log()).cumsum(-1).clamp(max=log_largest_ratio).exp()
        before = (ratio * xp.where(own_q > 0, 1, own_q).cumprod(-1)).roll(1, -1)
    before[..., 0] = 1
    weight = before.cummin(-1).values.to(p)
    accepted = xp.minimum(weight[..., None] * p, before.to(q)[..., None] * q)
    return -accepted.sum((-2, -1))


def _check_tensors(**tensors: Any) -> None:
    """Raise InvalidDistribution unless all are floating-point tensors (..., n) with n >= 1."""
    for name, x in tensors.items():
        if not xp.is_torch(x) or not x.is_floating_point() or not x.ndim or not x.shape[-1]:
            raise InvalidDistribution(
                f"{name} must be a torch tensor of floats (..., n) with n >= 1, got {_kind(x)}. Convert {name}."
            )


def _kind(x: Any) -> str:
    return f"a tensor {tuple(x.shape)} of {x.dtype}" if xp.is_torch(x) else f"a {type(x).__name__}"


def _log_acceptance(log_p: Tensor, log_q: Tensor, k: int, law: DraftLaw) -> Tensor:
    """log alpha (...) of log-probabilities (..., n): log of p(H) + P(some draft outside H) for the minimising set H."""
    fixed = fixed_part(law, log_q.detach().exp(), k)
    top, draws = xp.members(fixed, log_q.shape[-1]), (fixed < 0).sum(-1, keepdim=True)
    if Fact.INDEPENDENT not in law.facts:
        log_q = log_q.masked_fill(top, -inf)
        empty = log_q.isneginf().all(-1, keepdim=True)  # the draft law then samples uniformly outside the fixed tokens
        log_q = xp.where(empty, xp.where(top & ~top.all(-1, keepdim=True), -inf, 0), log_q)
        log_q = log_q.log_softmax(-1).masked_fill(top, -inf)
    least = log_p < log_q if k == 1 and law == IID() else _least_set(log_p.detach(), log_q.detach(), top, draws)
    inside = least | log_p.isnan()  # so that the sum is NaN
    drawn = xp.where(inside, 0, log_q.exp()).sum(-1, keepdim=True).clamp(max=1)
    # P(some of m draws outside H) = s (1 + (1 - s) + .. + (1 - s)^(m - 1)), s = q(outside H), without cancellation for small s.
    factor = sum(xp.where(draws > i, (1 - drawn) ** i, 0) for i in range(k))
    certain = (top & ~inside).any(-1)  # a fixed token is outside H
    terms = xp.where(inside, log_p, log_q + factor.log()).masked_fill(certain[..., None], 0)
    never = terms.isneginf().all(-1)
    return terms.masked_fill(never[..., None], 0).logsumexp(-1).masked_fill(certain, 0).masked_fill(never, -inf)


def _least_set(log_p: Tensor, log_q: Tensor, top: Tensor, draws: Tensor) -> Tensor:
    """The set H of `_log_acceptance`, bool (..., n): a prefix of the tokens by p/q, fixed ones first."""
    ratio = xp.where(log_q.isneginf(), inf, log_p - log_q).masked_fill(top, -inf)
    order = xp.argsort(ratio)
    p, q, fixed = (x.gather(-1, order) for x in (log_p, log_q, top.to(log_p)))
    edge = xp.full((*p.shape[:-1], 1), -inf, like=p)
    p = xp.concat((edge, p.logcumsumexp(-1)), axis=-1)
    q = xp.concat((q.flip(-1).logcumsumexp(-1).flip(-1), edge), axis=-1)
    many = (-(draws * (-q.exp().clamp(max=1)).log1p()).expm1()).log()
    reached = xp.where(q < log(xp.epsilon(q)), q + draws.to(q).log(), many)
    reached = reached.masked_fill(xp.prefix_sums(fixed) < fixed.sum(-1, keepdim=True), 0)
    return xp.argsort(order) < p.logaddexp(reached).argmin(-1)[..., None]


def _reached(law: DraftLaw, q: Tensor, token_set: Tensor, k: int) -> Tensor:
    """P(some draft is in the set), bool (..., n) -> (...); without cancellation for independent draft tokens."""
    if Fact.INDEPENDENT_OUTSIDE_FIXED not in law.facts:
        return 1 - probability_inside(law, q, ~token_set, k)
    fixed = fixed_part(law, q, k)
    free = q if Fact.INDEPENDENT in law.facts else outside(q, fixed)
    drawn = xp.at_least_one(
        xp.where(token_set, free, 0).sum(-1, keepdims=True), xp.astype(fixed < 0, q.dtype).sum(-1, keepdims=True)
    )[..., 0]
    return xp.where((token_set & xp.members(fixed, q.shape[-1])).any(-1), 1, drawn)
