"""Selection along one drafted chain a request, and chains of different lengths in one batch: what the adapters share.

`along_chains` is the slow obvious way: it pads all chains to one length, and reads p and q at every node several times.
`Chains` lays them end to end, as engines hold them: the target is read once a row, the drafts' law only where it is needed, and what is
left of the target is worked out at one node a request. The columns of the uniforms mean the same in both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from .. import arrays as xp
from ..arrays import Array
from ..rules import SpeculativeSampling
from ..trees import BlockVerification, PathRule, TokenWise, TreeShape

LEAST = 1e-30  # weights below it count as it: 1 / weight has to be finite in float32
ROWS = 4  # laws of 50,000 tokens that fit a core's second cache together with what is left of them


@dataclass(frozen=True)
class Drafts:
    """B chains of T drafts in all, the longest of L. tokens: int64 (T,), -1 for one that has to be refused; start, lengths: int64 (B,)."""

    tokens: Array
    start: Array
    lengths: Array
    longest: int

    @cached_property
    def rows(self) -> Array:
        """The row of every draft, of some other one where there is none: int (B, L)."""
        rows = self.start[:, None] + xp.arange(self.longest, like=self.tokens)
        return rows.clamp(max=len(self.tokens) - 1)

    @cached_property
    def present(self) -> Array:
        """Whether there is a draft: bool (B, L)."""
        return xp.arange(self.longest, like=self.tokens) < self.lengths[:, None]

    @cached_property
    def beginning(self) -> Array:
        """Number of drafts of a chain before its end, or before the first that has to be refused: int (B, 1)."""
        return (self.present & (self.tokens[self.rows] >= 0)).cumprod(-1).sum(-1, keepdim=True)

    def padded(self, values: Array, last: Array) -> Array:
        """A value a draft, in a row a chain, `last` from its end on: (T,), (B, 1) -> (B, L + 1)."""
        torch = xp.namespace(values)
        return torch.cat((torch.where(self.present, values[self.rows], last), last), -1)

    def of(self, requests: Array) -> Drafts:
        """Some of the chains, on the same rows: int (m,)."""
        return replace(self, start=self.start[requests], lengths=self.lengths[requests])


@dataclass(frozen=True)
class Chains:
    """Drafts with the laws at them. p: (T, n). q: (T, n), by which they were drawn, or None where they were chosen without chance."""

    drafts: Drafts
    p: Array
    q: Array | None

    def node(self, accepted: Array) -> Array:
        """The row of the draft behind so many accepted ones: int (B, 1) -> (B,)."""
        return xp.gather(self.drafts.rows, accepted.clamp(max=self.drafts.longest - 1))[:, 0]

    @cached_property
    def refused(self) -> Array:
        """Whether the first draft that has to be refused was drawn: bool (B, 1); see `with_refused`."""
        beginning = self.drafts.beginning
        cut = beginning < self.drafts.lengths[:, None]
        if self.q is None or xp.holds_without_sync(~cut):
            return beginning < 0
        return cut & (self.p[self.node(beginning)].amin(-1, keepdim=True) == 0)

    @cached_property
    def ratios(self) -> Array:
        """p / q at the drafts, float64, 0 where both are, and from the beginning's end on: (B, L)."""
        drafts = self.drafts
        places = drafts.tokens.clamp(min=0)[:, None]
        ratio = self.p.gather(-1, places)[:, 0].double()
        if self.q is not None:
            ratio = xp.divide(ratio, self.q.gather(-1, places)[:, 0].double(), 0 * ratio)
        return xp.where(xp.arange(drafts.longest, like=places) < drafts.beginning, ratio[drafts.rows], 0.0)

    def rest(self, weight: Array) -> Array:
        """Mass of (w p - q)+ at every draft, given w: (B, L) -> (B, L)."""
        if self.q is None:  # q is 1 at the draft, where w p is at most 1
            return weight * (1 - self.ratios)
        p, q, drafts = self.p, self.q, self.drafts
        row = xp.arange(len(p), like=drafts.start)
        request = xp.namespace(row).searchsorted(drafts.start + drafts.lengths, row, right=True)
        w = weight[request, row - drafts.start[request]].clamp(min=LEAST)[:, None]
        inverse, step = (1 / w).to(p.dtype), ROWS if xp.on_host(p) else len(p)
        memory = xp.empty((min(step, len(p)), p.shape[-1]), like=p)
        parts = [slice(i, min(i + step, len(p))) for i in range(0, len(p), step)]
        left = [xp.excess(p[i], q[i], inverse[i], memory[: i.stop - i.start]).sum(-1, keepdims=True) for i in parts]
        return (w * xp.namespace(w).cat(left))[:, 0][drafts.rows]

    def after(self, accepted: Array, weight: Array, uniform: Array) -> Array:
        """A token by what is left of the target at a node, (w p - q)+, or p where nothing was drawn: (B, 1) each -> int (B, 1)."""
        row = self.node(accepted)
        p, token = self.p[row], self.drafts.tokens[row][:, None]
        if self.q is None:
            places = token.clamp(min=0)
            left = p.scatter(-1, places, xp.where(token < 0, p.gather(-1, places), 0.0))
        else:
            drawn = (accepted < self.drafts.beginning) | self.refused
            left = xp.excess(p, self.q[row], xp.where(drawn, 1 / weight.clamp(min=LEAST), 0.0).to(p.dtype))
        some = left.sum(-1, keepdims=True) > 0
        return xp.inverse_cdf(left if xp.holds_without_sync(some) else xp.where(some, left, p), uniform)

    def of(self, requests: Array) -> Chains:
        """Some of the chains, on the same rows: int (m,)."""
        return replace(self, drafts=self.drafts.of(requests))


Accept = Callable[[Chains, Array], tuple[Array, Array, Array]]


def one_by_one(chains: Chains, uniforms: Array) -> tuple[Array, Array, Array]:
    """Speculative sampling: number of accepted drafts, int (B, 1), the weight 1 there, and the uniform that is left.

    Source: Leviathan et al. 2023, Theorem 1.
    """
    passed = uniforms[:, : 2 * chains.drafts.longest : 2] < chains.ratios
    accepted = passed.cumprod(-1).sum(-1, keepdim=True)
    return accepted, 0.0 * uniforms[:, :1] + 1, xp.gather(uniforms, 2 * accepted + (accepted < chains.drafts.longest))


def as_a_block(chains: Chains, uniforms: Array) -> tuple[Array, Array, Array]:
    """Block verification: number of accepted drafts, int (B, 1), the weight there, and the uniform that is left.

    Source: Sun et al., 2024; the weights w and the tests are those of `trees.BlockVerification`.
    """
    torch, ratios, drafts = xp.namespace(uniforms), chains.ratios, chains.drafts
    weights = [0 * uniforms[:, 0] + 1]
    for depth in range(drafts.longest):
        weights.append((weights[-1] * ratios[:, depth]).clamp(max=1))
    weight = torch.stack(weights, -1)
    rest = chains.rest(weight[:, :-1])
    passes = torch.cat((xp.divide(rest, rest + 1 - weight[:, :-1], 0 * rest + 1), weight[:, -1:]), -1)
    nodes = xp.arange(drafts.longest + 1, like=rest)
    passes = xp.where(nodes <= drafts.beginning, passes, 0.0)
    passes = xp.where((nodes == drafts.beginning) & ~chains.refused, weight, passes)  # nothing was drawn there
    refused, lengths = 0 * weights[0] + 1, []
    for depth in range(drafts.longest, -1, -1):
        lengths.append(refused * passes[:, depth])
        refused = refused * (1 - passes[:, depth])
    accepted = xp.inverse_cdf(torch.stack(lengths[::-1], -1), uniforms[:, :1])
    return accepted, xp.gather(weight, accepted), uniforms[:, 1:]


@dataclass(frozen=True)
class ChainRule:
    """A rule for one drafted chain a request: as a path rule, on padded chains, and on chains laid end to end."""

    path: PathRule
    accept: Accept


CHAIN_RULES = {
    "SpeculativeSampling": ChainRule(TokenWise(SpeculativeSampling()), one_by_one),
    "BlockVerification": ChainRule(BlockVerification(), as_a_block),
}


def number_of_uniforms(rule: ChainRule, length: int) -> int:
    """Number of uniforms that the rule takes for a chain of this length."""
    return rule.path.n_uniforms(TreeShape.chains(1, length))


def along_chains(rule: ChainRule, p: Array, q: Array, tokens: Array, uniforms: Array) -> Array:
    """Emitted tokens of a batch of chains: (B, L + 1, n), (B, L, n), int (B, L), (B, U) -> int (B, L + 1), -1 beyond.

    tokens: -1 from where a request has no draft any more; there p is the law of the token that comes after its last draft. q is
    the law that each draft was drawn by; a draft chosen without chance has a row of zeros with a 1 at the draft.
    """
    shape = TreeShape.chains(1, tokens.shape[1])
    return rule.path.select(shape.tree(tokens, p, q), uniforms).tokens


def along_greedy_chains(best: Array, tokens: Array) -> Array:
    """The same at temperature 0: best int (B, L + 1), the most probable token at every node; tokens int (B, L)."""
    right = (tokens == best[:, :-1]).cumprod(-1)
    places = xp.arange(best.shape[1], like=best)
    return xp.where(places <= right.sum(-1)[:, None], best, -1)


def with_refused(tokens: Array, present: Array, p: Array) -> Array:
    """Give the drafts that a grammar refused back to the chain: int (B, L), bool (B, L), (B, L + 1, n) -> int (B, L).

    A host puts -1 in the place of a draft that was drawn, but that its grammar refuses. To the rule that is a draft of target mass
    0, after which comes what q has left of p; without any draft p itself would be due. Only the target can tell the two
    apart: where it has tokens of mass 0, as a grammar makes them, a -1 in a request's own chain becomes one of them.
    """
    least, token = p[:, :-1].min(-1)
    return xp.where(present & (tokens < 0) & (least == 0), token, tokens)


def with_laws(q: Array, tokens: Array) -> Array:
    """q (..., n) by which tokens int (...) were drafted, and all mass on the draft where q is NaN, as a draft model may give it.

    What was drafted there did not depend on the numbers that verify it: it is as if it had been chosen without chance.
    """
    lost = q[..., :1].isnan()
    if xp.on_host(lost) and not bool(lost.any()):
        return q
    return xp.where(lost, one_hot(tokens, q.shape[-1], q), q)


def one_hot(tokens: Array, n: int, like: Array) -> Array:
    """Rows of zeros with a 1 at the token, no 1 where it is -1: int (...) -> (..., n), in like's type."""
    there = (tokens >= 0).to(like.dtype)[..., None]
    return like.new_zeros((*tokens.shape, n)).scatter_(-1, tokens.clamp(min=0)[..., None], there)
