"""Token-wise selection along a tree: a selection rule at every node; naive target sampling is one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ...dispatch import accelerated
from ...errors import InvalidArgument, InvalidDrafts
from ...laws import DraftLaw, Fact, FixedFirst
from ...laws.fixed_tokens import law_at, n_fixed_is_constant
from ...rules import NaiveTarget
from ...selection import Selection, SelectionRule, approximate_for, select_siblings, valid_under
from ..model import Nodes, Path
from ..tree import Bounds, DraftTree, Forest, PathSelection, PlainTree
from .path_rule import Outcome, PathRule, refuse, split_tops
from .survivors import Draws, Survivors


@dataclass(frozen=True)
class TokenWise(PathRule):
    """Apply a selection rule to the children of the node that was reached; continue while a child holds its output [1]_ [2]_.

    The walk ends at the first output that no child holds; at a leaf, one more token comes from the target. Equal siblings are live
    together. The rule gets the children of all of them if these are one sample from its draft law: i.i.d. samples are (live nodes of K
    paths), and hybrid ones for `Optimal`, with top tokens counted once. Otherwise it gets the children of one live node. Live nodes are
    chosen by their tokens, hence their children follow the draft law again.

    Parameters
    ----------
    rule : SelectionRule
        A rule that is valid under the draft law of the children.

    Raises
    ------
    InvalidArgument
        If rule is not a selection rule.

    References
    ----------
    .. [1] Sun et al., "SpecTr: Fast Speculative Decoding via Optimal Transport", NeurIPS 2023, Theorem 2.
    .. [2] Yang et al., "Multi-Candidate Speculative Decoding", 2024.

    Examples
    --------
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> model = otd.trees.MarkovModel.random(np.random.default_rng(0), 2, order=0)
    >>> otd.trees.evaluate(otd.trees.TokenWise(otd.rules.KSeq()), model, (2, 1)).lossless
    True
    """

    rule: SelectionRule

    def __post_init__(self) -> None:
        if not isinstance(self.rule, SelectionRule):
            raise InvalidArgument(
                f"rule must be a selection rule, got {self.rule!r}. Use one, such as TokenWise(KSeq())."
            )

    @property
    def name(self) -> str:
        return f"{type(self).__name__}({self.rule.name})"

    @property
    def short_name(self) -> str:
        return self.rule.name

    @property
    def solves_program(self) -> bool:
        return self.rule.cost.solves_program

    @property
    def law(self) -> DraftLaw:
        return self.rule.law

    def approximate_for(self, law: DraftLaw) -> TokenWise:
        rule = approximate_for(self.rule, law)
        return self if rule is self.rule else TokenWise(rule)

    def check(self, bounds: Bounds, law: DraftLaw) -> None:
        if not all(valid_under(self.rule, law, count) for count in bounds.branching):
            raise refuse(f"TokenWise({self.rule!r})", repr(self.rule.law), law)
        separate = self.rule.siblings.separate_fixed and n_fixed_is_constant(law)
        if not (self._one_list(law) or self.rule.siblings.any_number or separate or bounds.is_even):
            raise InvalidDrafts(
                f"TokenWise({self.rule!r}): all nodes of a level must have equally many children, or none, under {law!r}. Use another tree."
            )

    def n_uniforms(self, bounds: Bounds) -> int:
        return 2 * bounds.length + 1

    def outcomes(self, nodes: Nodes, tree: PlainTree) -> list[Outcome]:
        return self._walk(nodes, tree.law, (), (tree.forest,))

    def _walk(self, nodes: Nodes, law: DraftLaw, prefix: Path, lists: tuple[Forest, ...]) -> list[Outcome]:
        """Outcomes, given that the prefix is accepted, and the children of the nodes that hold it."""
        return nodes.once(self, (law, prefix, lists), lambda: self._further(nodes, law, prefix, lists))

    def _further(self, nodes: Nodes, law: DraftLaw, prefix: Path, lists: tuple[Forest, ...]) -> list[Outcome]:
        if not any(lists):
            return [(prefix, nodes.one, nodes.target(prefix))]
        output = self._output(nodes, law, prefix, lists)
        found: list[Outcome] = []
        for token in sorted({token for children in lists for token, _ in children} - {-1}):
            chance = output[token]
            alive = tuple(below for children in lists for drafted, below in children if drafted == token)
            if chance != 0:
                below = self._walk(nodes, law, (*prefix, token), alive)
                found += [(path, chance * probability, following) for path, probability, following in below]
                output = np.where(np.arange(len(output)) == token, 0, output)
        stops = output.sum(-1, keepdims=True)[0]
        return [(prefix, stops, xp.normalise(output, output)), *found]

    def _output(self, nodes: Nodes, law: DraftLaw, prefix: Path, lists: tuple[Forest, ...]) -> Array:
        """Distribution (n,) of the rule's output at a node."""
        tokens = tuple(tuple(token for token, _ in children) for children in lists)

        def select() -> Array:
            p, q = nodes.target(prefix), nodes.draft(prefix)
            if self._apart(law):
                tops, draws = (xp.integers(x, like=p) for x in split_tops(law_at(law, prefix), q, tokens))
                drafts, selection = select_siblings(self.rule, p, q, tops, draws)
            else:
                drafts = xp.integers(sum(tokens, ()) if self._one_list(law) else max(tokens, key=len), like=p)
                selection = self.rule(p, q, drafts)
            return selection.output(drafts)

        return nodes.once(self, (law, prefix, "output", tokens), select)

    def _one_list(self, law: DraftLaw) -> bool:
        """Whether the rule gets the drafts of all nodes with the same tokens as one list."""
        return self.rule.siblings.any_lists or Fact.INDEPENDENT in law.facts

    def _apart(self, law: DraftLaw) -> bool:
        """Whether the rule gets top tokens, once, and the draws of all nodes apart."""
        return isinstance(law, FixedFirst) and self.rule.siblings.separate_fixed

    def output_distribution(self, tree: DraftTree, chosen: Array) -> Array:
        survivors = Survivors(tree).along(chosen)
        p, q = survivors.laws()
        if survivors.depth == tree.bounds.length:
            return p
        drafts, selection = self._offer(survivors, p, q)
        return selection.output(drafts)

    def _select(self, tree: DraftTree, draws: Draws) -> PathSelection:
        if not tree.bounds.size:  # autoregressive decoding
            token = xp.from_view(draws.index(tree.p[:, 0], 0), tree.p)
            return PathSelection(0 * token[:, 0], tree.tokens, token)
        return select_token_wise(self, tree, draws)

    def _offer(self, survivors: Survivors, p: Array, q: Array) -> tuple[Array, Selection]:
        """Drafts (B, k) as in `_output`, and the rule's selection."""
        law = survivors.tree.law
        if self._apart(law):
            tops, drawn = (xp.from_view(x, p) for x in survivors.tops_and_draws(q))
            return select_siblings(self.rule, p, q, tops, drawn)
        drafts = survivors.drafts() if self._one_list(law) else survivors.first_drafts()
        if survivors.tree.bounds.max_children == 1:
            # On a path whose length is data, the only draft has an index among absent ones, which a rule may use.
            drafts = xp.max(drafts, axis=-1, keepdims=True)
        drafts = xp.from_view(drafts, p)
        return drafts, self.rule(p, q, drafts)

    def _draw(self, survivors: Survivors, draws: Draws, lives: Array) -> Array:
        """The rule's output, or a token of the target after the last level: int (B, 1)."""
        (p, q), column = survivors.laws(), 2 * survivors.depth
        if survivors.depth == survivors.tree.bounds.length:
            return draws.index(p, column, lives)
        drafts, selection = self._offer(survivors, p, q)
        k = drafts.shape[-1]
        taken = draws.first(xp.host_view(selection.accept), column)
        fresh = draws.index(selection.residual, column + 1, lives & (taken == k))
        return xp.where(taken < k, xp.gather(xp.host_view(drafts), xp.minimum(taken, k - 1)), fresh)


@dataclass(frozen=True)
class NaivePath(TokenWise):
    """Sample a token from p at each node, and continue while a child has that token: `TokenWise(NaiveTarget())` on every tree.

    Valid under every draft law, and the only rule for children that are not sampled, such as top-k tokens. Every emitted token has the
    target distribution given those before it, whatever the drafts are.
    Source: the baseline of Miao et al., SpecInfer, 2024, section 4.3; the trees of EAGLE-2 under greedy drafting.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> model = otd.trees.MarkovModel({(): np.array([F(1, 2), F(1, 2)])}, {(): np.array([F(3, 4), F(1, 4)])}, 0)
    >>> otd.trees.evaluate(otd.trees.NaivePath(), model, (1, 2)).expected_length
    Fraction(3, 4)
    """

    rule: SelectionRule = field(default=NaiveTarget(), init=False, repr=False)

    @property
    def name(self) -> str:
        return type(self).__name__

    def check(self, bounds: Bounds, law: DraftLaw) -> None:
        """Every shape and every draft law is valid."""

    def n_uniforms(self, bounds: Bounds) -> int:
        return bounds.length + 1

    def output_distribution(self, tree: DraftTree, chosen: Array) -> Array:
        return Survivors(tree).along(chosen).target()

    def _draw(self, survivors: Survivors, draws: Draws, lives: Array) -> Array:
        return draws.index(survivors.target(), survivors.depth, lives)


@accelerated("trees")
def select_token_wise(rule: TokenWise, tree: DraftTree, draws: Draws) -> PathSelection:
    """Return `TokenWise.select` on trees with nodes, level by level in all trees."""
    survivors = Survivors(tree)
    lives = survivors.lives()
    following = 0 * survivors.here
    for depth in range(tree.bounds.length + 1):
        token = rule._draw(survivors, draws, lives)
        following = xp.where(lives, token, following)
        if depth == tree.bounds.length or xp.holds_without_sync(~(lives := survivors.go_on(token))):
            break
    return survivors.selection(survivors.here, following)
