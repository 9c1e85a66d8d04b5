"""simulate(path_rule, model, shape): block efficiency of a path rule by drafting and selecting many times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import InvalidDrafts
from ...laws import IID, DraftLaw
from ..drafting.trees import draft_trees, first_chains
from ..exact.evaluate import check_sizes
from ..model import Model
from ..rules.path_rule import PathRule
from ..rules.token_wise import TokenWise
from ..tree import TreeShape


@dataclass(frozen=True, eq=False)
class Simulation:
    """Accepted lengths of independent iterations.

    lengths: int (iterations,) accepted drafted tokens; shape: of the drafted trees. Two simulations of the same model, shape
    and seed have the same drafts: differences of their lengths are paired.
    """

    lengths: np.ndarray
    shape: TreeShape

    @property
    def expected_length(self) -> float:
        """Mean number of accepted drafted tokens."""
        return float(self.lengths.mean())

    @property
    def block_efficiency(self) -> float:
        """Mean number of tokens emitted by one call of the target."""
        return 1 + self.expected_length

    @property
    def error(self) -> float:
        """Standard error of both means."""
        return float(self.lengths.std(ddof=1) / np.sqrt(len(self.lengths)))

    @property
    def acceptance_by_position(self) -> np.ndarray:
        """(L,) share of the iterations that accept a token at depth i + 1 among those that accept one at depth i; NaN where none."""
        reached = np.array([(self.lengths >= depth).sum() for depth in range(self.shape.length + 1)], dtype=float)
        return np.divide(reached[1:], reached[:-1], out=np.full(self.shape.length, np.nan), where=reached[:-1] > 0)


def simulate(
    path_rule: PathRule,
    model: Model,
    shape: TreeShape | tuple[int, int],
    iterations: int = 1000,
    seed: int = 0,
    law: DraftLaw | None = None,
) -> Simulation:
    """Accepted lengths of so many independent iterations: draft a tree, select, count.

    shape: a tree, or (K, L) for K i.i.d. paths of length L; law: of the children of every node, i.i.d. if none is given.
    model: of floats; every iteration begins at `model.root(number)` where there is one (SimulatedModel), else at the
    empty prefix. The numbers depend on the seed alone: iteration i uses the generator default_rng([seed, i]).
    """
    return simulate_all([path_rule], model, shape, iterations, seed, law)[0]


def simulate_all(
    path_rules: Sequence[PathRule],
    model: Model,
    shape: TreeShape | tuple[int, int],
    iterations: int = 1000,
    seed: int = 0,
    law: DraftLaw | None = None,
) -> list[Simulation]:
    """`simulate` for several rules on the same drafts, which are made once."""
    tree_shape = _as_shape(shape)
    lengths: list[list[np.ndarray]] = [[] for _ in path_rules]
    for tree, generators in draft_trees(model, tree_shape, iterations, seed, law):
        uniforms = _uniforms(generators, max(rule.uniforms(tree_shape) for rule in path_rules))
        for found, rule in zip(lengths, path_rules, strict=True):
            found.append(rule.select(tree, uniforms[:, : rule.uniforms(tree_shape)]).length)
    return [Simulation(np.concatenate(found), tree_shape) for found in lengths]


def simulate_chains(
    path_rules: Sequence[PathRule],
    model: Model,
    sizes: Sequence[tuple[int, int]],
    iterations: int = 1000,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[tuple[PathRule, int, int], Simulation]:
    """`simulate` for every rule and every (K, L) on the same drafts: K paths are the first of the largest K, cut after L tokens.

    Rules that do not take K paths (block verification takes one) are left out there. progress: called after each batch with
    its number of iterations.
    """
    for K, L in sizes:
        check_sizes(K, L)
    largest = TreeShape.chains(max(K for K, _ in sizes), max(L for _, L in sizes))
    wanted = [(rule, K, L) for K, L in sizes for rule in path_rules if fits(rule, TreeShape.chains(K, L), IID())]
    if not wanted:
        names = ", ".join(rule.name for rule in path_rules) or "none"
        raise InvalidDrafts(f"no rule takes any of the sizes (K, L) {list(sizes)}: the rules are {names}; give others")
    deepest = {K: max(L for other, L in sizes if other == K) for K, _ in sizes}
    # A walk from the root does not look ahead: cut paths are accepted as far as whole ones.
    cut = {
        (rule, K, L): (rule, K, deepest[K]) for rule, K, L in wanted if isinstance(rule, TokenWise) and deepest[K] > L
    }
    most = max(rule.uniforms(TreeShape.chains(K, L)) for rule, K, L in wanted)
    lengths: dict[tuple[PathRule, int, int], list[np.ndarray]] = {key: [] for key in wanted}
    for tree, generators in draft_trees(model, largest, iterations, seed):
        uniforms = _uniforms(generators, most)
        trees = {size: first_chains(tree, *size) for size in set(sizes)}
        for (rule, K, L), found in lengths.items():
            if (rule, K, L) in cut:
                continue
            small = trees[K, L]
            found.append(rule.select(small, uniforms[:, : rule.uniforms(small.shape)]).length)
        progress(len(uniforms))
    for key, longer in cut.items():
        lengths[key] = [np.minimum(found, key[2]) for found in lengths[longer]]
    return {key: Simulation(np.concatenate(found), TreeShape.chains(*key[1:])) for key, found in lengths.items()}


def fits(rule: PathRule, shape: TreeShape, law: DraftLaw) -> bool:
    """Whether a rule is valid on trees of this shape whose children follow the law."""
    try:
        rule.check(shape, law)
    except InvalidDrafts:
        return False
    return True


def _as_shape(shape: TreeShape | tuple[int, int]) -> TreeShape:
    if isinstance(shape, TreeShape):
        return shape
    check_sizes(*shape)
    return TreeShape.chains(*shape)


def _uniforms(generators: Sequence[np.random.Generator], count: int) -> np.ndarray:
    return np.stack([generator.random(count) for generator in generators])
