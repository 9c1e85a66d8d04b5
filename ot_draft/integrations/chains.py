"""What the adapters share: selection along one drafted chain a request, chains of different lengths in one batch."""

from __future__ import annotations

from dataclasses import dataclass

from ..arrays import Array, positions, where
from ..paths import BlockVerification, PathRule, TokenWise, TreeShape
from ..rules import SpeculativeSampling
from .chains_in_a_row import Accept, as_a_block, one_by_one


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
    """How many uniforms the rule takes for a chain of this length."""
    return rule.path.uniforms(TreeShape.chains(1, length))


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
    places = positions(best.shape[1], best)
    return where(places <= right.sum(-1)[:, None], best, -1)


def with_refused(tokens: Array, present: Array, p: Array) -> Array:
    """Give the drafts that a grammar refused back to the chain: int (B, L), bool (B, L), (B, L + 1, n) -> int (B, L).

    A host puts -1 in the place of a draft that was drawn, but that its grammar refuses. To the rule that is a draft of target mass
    0, after which comes what q has left of p; without any draft p itself would be due. Only the target can tell the two
    apart: where it has tokens of mass 0, as a grammar makes them, a -1 in a request's own chain becomes one of them.
    """
    least, token = p[:, :-1].min(-1)
    return where(present & (tokens < 0) & (least == 0), token, tokens)


def one_hot(tokens: Array, n: int, like: Array) -> Array:
    """Rows of zeros with a 1 at the token, no 1 where it is -1: int (...) -> (..., n), in like's type."""
    there = (tokens >= 0).to(like.dtype)[..., None]
    return like.new_zeros((*tokens.shape, n)).scatter_(-1, tokens.clamp(min=0)[..., None], there)
