"""Verification of one draft chain per request, of different lengths in one batch: shared by the adapters of engines.

`along_chains` is the simple form: it pads all chains to one length, and reads p and q at every node several times. `Chains` has them
concatenated, as engines do: the target is read once per row, the draft distribution only where it is needed, and the residual is computed
at one node per request. The columns of the uniform numbers have the same meaning in both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from .. import arrays as xp
from ..arrays import Array
from ..rules import SpeculativeSampling
from ..trees import BlockVerification, PathRule, TokenWise, TreeShape


@dataclass(frozen=True)
class Drafts:
    """B chains of T draft tokens in total, at most L each.

    tokens: int64 (T,), -1 for one that must be rejected; start, lengths: int64 (B,); longest: L.
    """

    tokens: Array
    start: Array
    lengths: Array
    longest: int

    @cached_property
    def rows(self) -> Array:
        """Row of every draft token, of another one after the end of a chain: int (B, L)."""
        rows = self.start[:, None] + xp.arange(self.longest, like=self.tokens)
        return rows.clamp(max=len(self.tokens) - 1)

    @cached_property
    def present(self) -> Array:
        """Whether there is a draft token: bool (B, L)."""
        return xp.arange(self.longest, like=self.tokens) < self.lengths[:, None]

    @cached_property
    def beginning(self) -> Array:
        """Number of draft tokens of a chain before its end, or before the first that must be rejected: int (B, 1)."""
        return (self.present & (self.tokens[self.rows] >= 0)).cumprod(-1).sum(-1, keepdim=True)

    def padded(self, values: Array, last: Array) -> Array:
        """Return values of draft tokens in one row per chain, `last` from its end on: (T,), (B, 1) -> (B, L + 1)."""
        torch = xp.namespace(values)
        return torch.cat((torch.where(self.present, values[self.rows], last), last), -1)

    def of(self, requests: Array) -> Drafts:
        """Return some of the chains, with the same rows: int (m,)."""
        return replace(self, start=self.start[requests], lengths=self.lengths[requests])


@dataclass(frozen=True)
class Chains:
    """Draft tokens with their distributions. p: target (T, n). q: draft (T, n), or None if draft tokens were not sampled."""

    drafts: Drafts
    p: Array
    q: Array | None

    def node(self, accepted: Array) -> Array:
        """Return the row of the draft token after this number of accepted ones: int (B, 1) -> (B,)."""
        return xp.gather(self.drafts.rows, accepted.clamp(max=self.drafts.longest - 1))[:, 0]

    @cached_property
    def rejected_by_grammar(self) -> Array:
        """Whether the first draft token that must be rejected was sampled: bool (B, 1); see `with_rejected`."""
        beginning = self.drafts.beginning
        cut = beginning < self.drafts.lengths[:, None]
        if self.q is None or xp.holds_without_sync(~cut):
            return beginning < 0
        return cut & (self.p[self.node(beginning)].amin(-1, keepdim=True) == 0)

    @cached_property
    def ratios(self) -> Array:
        """p / q at the draft tokens, float64, 0 for 0 / 0, and after `beginning`: (B, L)."""
        drafts = self.drafts
        tokens = drafts.tokens.clamp(min=0)[:, None]
        ratio = self.p.gather(-1, tokens)[:, 0].double()
        if self.q is not None:
            ratio = xp.divide(ratio, self.q.gather(-1, tokens)[:, 0].double(), 0 * ratio)
        return xp.where(xp.arange(drafts.longest, like=tokens) < drafts.beginning, ratio[drafts.rows], 0.0)

    def residual_mass(self, weight: Array, rows_in_cache: int = 4) -> Array:
        """Return the sum of (w p - q)+ at every draft token, given w: (B, L) -> (B, L).

        rows_in_cache: distributions of 50,000 tokens that fit in a core's L2 cache together with the residual.
        """
        if self.q is None:  # q is 1 at the draft token, where w p is at most 1
            return weight * (1 - self.ratios)
        p, q, drafts = self.p, self.q, self.drafts
        row = xp.arange(len(p), like=drafts.start)
        request = xp.namespace(row).searchsorted(drafts.start + drafts.lengths, row, right=True)
        w = weight[request, row - drafts.start[request]][:, None]
        inverse, step = _inverse(w, p), rows_in_cache if xp.on_host(p) else len(p)
        memory = xp.empty((min(step, len(p)), p.shape[-1]), like=p)
        parts = [slice(i, min(i + step, len(p))) for i in range(0, len(p), step)]
        left = [xp.excess(p[i], q[i], inverse[i], memory[: i.stop - i.start]).sum(-1, keepdims=True) for i in parts]
        return (w * xp.namespace(w).cat(left))[:, 0][drafts.rows]

    def after(self, accepted: Array, weight: Array, uniform: Array) -> Array:
        """Return a token from the residual (w p - q)+ at a node, or from p if nothing was sampled: (B, 1) each -> int (B, 1)."""
        row = self.node(accepted)
        p, token = self.p[row], self.drafts.tokens[row][:, None]
        if self.q is None:
            index = token.clamp(min=0)
            left = p.scatter(-1, index, xp.where(token < 0, p.gather(-1, index), 0.0))
        else:
            sampled = (accepted < self.drafts.beginning) | self.rejected_by_grammar
            left = xp.excess(p, self.q[row], xp.where(sampled, _inverse(weight, p), 0.0))
        some = left.sum(-1, keepdims=True) > 0
        return xp.inverse_cdf(left if xp.holds_without_sync(some) else xp.where(some, left, p), uniform)

    def of(self, requests: Array) -> Chains:
        """Return some of the chains, with the same rows: int (m,)."""
        return replace(self, drafts=self.drafts.of(requests))


def _inverse(weight: Array, p: Array, smallest: float = 1e-30) -> Array:
    """1 / weight in p's type; smaller weights count as `smallest`, so that it is finite in float32."""
    return (1 / weight.clamp(min=smallest)).to(p.dtype)


Accept = Callable[[Chains, Array], tuple[Array, Array, Array]]


def speculative_sampling(chains: Chains, uniforms: Array) -> tuple[Array, Array, Array]:
    """Return the number of accepted draft tokens, int (B, 1), the weight 1 there, and the unused uniform number.

    Source: Leviathan et al. 2023, Theorem 1.
    """
    passed = uniforms[:, : 2 * chains.drafts.longest : 2] < chains.ratios
    accepted = passed.cumprod(-1).sum(-1, keepdim=True)
    return accepted, 0.0 * uniforms[:, :1] + 1, xp.gather(uniforms, 2 * accepted + (accepted < chains.drafts.longest))


def block_verification(chains: Chains, uniforms: Array) -> tuple[Array, Array, Array]:
    """Return the number of accepted draft tokens, int (B, 1), the weight there, and the unused uniform number.

    Source: Sun et al., 2024; weights and tests are those of `trees.BlockVerification`.
    """
    torch, ratios, drafts = xp.namespace(uniforms), chains.ratios, chains.drafts
    weights = [0 * uniforms[:, 0] + 1]
    for depth in range(drafts.longest):
        weights.append((weights[-1] * ratios[:, depth]).clamp(max=1))
    weight = torch.stack(weights, -1)
    rest = chains.residual_mass(weight[:, :-1])
    passes = torch.cat((xp.divide(rest, rest + 1 - weight[:, :-1], 0 * rest + 1), weight[:, -1:]), -1)
    nodes = xp.arange(drafts.longest + 1, like=rest)
    passes = xp.where(nodes <= drafts.beginning, passes, 0.0)
    passes = xp.where((nodes == drafts.beginning) & ~chains.rejected_by_grammar, weight, passes)  # nothing was sampled
    rejected, lengths = 0 * weights[0] + 1, []
    for depth in range(drafts.longest, -1, -1):
        lengths.append(rejected * passes[:, depth])
        rejected = rejected * (1 - passes[:, depth])
    accepted = xp.inverse_cdf(torch.stack(lengths[::-1], -1), uniforms[:, :1])
    return accepted, xp.gather(weight, accepted), uniforms[:, 1:]


@dataclass(frozen=True)
class ChainRule:
    """A rule for one draft chain per request: as a path rule, on padded chains, and on concatenated chains."""

    path: PathRule
    accept: Accept


CHAIN_RULES = {
    "SpeculativeSampling": ChainRule(TokenWise(SpeculativeSampling()), speculative_sampling),
    "BlockVerification": ChainRule(BlockVerification(), block_verification),
}


def number_of_uniforms(rule: ChainRule, length: int) -> int:
    """Return the number of uniform numbers that the rule uses for a chain of this length."""
    return rule.path.n_uniforms(TreeShape.chains(1, length))


def along_chains(rule: ChainRule, p: Array, q: Array, tokens: Array, uniforms: Array) -> Array:
    """Return the emitted tokens of a batch of chains, -1 beyond: int (B, L + 1).

    Parameters
    ----------
    rule : ChainRule
        The rule.
    p : array of shape (B, L + 1, n)
        Target distributions; at the end of a chain, that of the token after its last draft token.
    q : array of shape (B, L, n)
        Draft distributions; one-hot for draft tokens that were not sampled.
    tokens : int array of shape (B, L)
        Draft tokens, -1 from the end of a chain.
    uniforms : array of shape (B, U)
        Uniform numbers, see `number_of_uniforms`.

    Returns
    -------
    emitted : int array of shape (B, L + 1)
        Emitted tokens, -1 beyond.
    """
    shape = TreeShape.chains(1, tokens.shape[1])
    return rule.path.select(shape.tree(tokens, p, q), uniforms).tokens


def along_greedy_chains(best: Array, tokens: Array) -> Array:
    """Return the emitted tokens at temperature 0: best int (B, L + 1), the most probable token at every node; tokens int (B, L)."""
    right = (tokens == best[:, :-1]).cumprod(-1)
    positions = xp.arange(best.shape[1], like=best)
    return xp.where(positions <= right.sum(-1)[:, None], best, -1)


def with_rejected(tokens: Array, present: Array, p: Array) -> Array:
    """Replace -1 for a draft token that a grammar rejects by a token of target probability 0.

    An engine replaces a draft token that was sampled, but that its grammar rejects, by -1. For the rule it is a draft token of target
    probability 0, after which the residual of p and q follows; without a draft token, p would follow. Only the target distinguishes the
    two cases: if it has tokens of probability 0, as a grammar makes them, a -1 in a request's own chain becomes one of them.
    int (B, L), bool (B, L), (B, L + 1, n) -> int (B, L).
    """
    least, token = p[:, :-1].min(-1)
    return xp.where(present & (tokens < 0) & (least == 0), token, tokens)


def with_laws(q: Array, tokens: Array) -> Array:
    """Return q (..., n) with one-hot rows at the draft tokens int (...) where q is NaN, as draft models may return it.

    Such a draft token does not depend on the numbers that verify it, like one that was not sampled.
    """
    unknown = q[..., :1].isnan()
    if xp.on_host(unknown) and not bool(unknown.any()):
        return q
    return xp.where(unknown, one_hot(tokens, q.shape[-1], q), q)


def one_hot(tokens: Array, n: int, like: Array) -> Array:
    """Return one-hot rows in like's type, zeros for token -1: int (...) -> (..., n)."""
    there = (tokens >= 0).to(like.dtype)[..., None]
    return like.new_zeros((*tokens.shape, n)).scatter_(-1, tokens.clamp(min=0)[..., None], there)
