"""Block efficiency of path rules by simulation."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InvalidArgument
from ...laws import IID, DraftLaw
from ..drafting.drafter import TreeDrafter, draft_trees
from ..drafting.fixed import FixedTree, as_drafter, first_chains
from ..model import Model, Rows
from ..rules.path_rule import PathRule, fits, looks_ahead
from ..tree import DraftTree, TreeShape

__all__ = ["drafted_trees", "simulate", "simulate_all", "simulate_chains"]


@dataclass(frozen=True, eq=False)
class Simulation:
    """Accepted lengths of independent iterations.

    lengths: int (iterations,) accepted drafted tokens. Two simulations of the same model, drafting and seed have the same drafts:
    differences of their lengths are paired.
    """

    lengths: np.ndarray

    @property
    def expected_length(self) -> float:
        """Mean number of accepted drafted tokens."""
        return float(self.lengths.mean())

    @property
    def block_efficiency(self) -> float:
        """Mean number of tokens per target call."""
        return 1 + self.expected_length

    @property
    def error(self) -> float:
        """Standard error of both means."""
        return float(self.lengths.std(ddof=1) / np.sqrt(len(self.lengths)))


def simulate(
    path_rule: PathRule,
    model: Model,
    drafting: TreeDrafter | TreeShape | tuple[int, int],
    iterations: int = 1000,
    seed: int = 0,
    law: DraftLaw | None = None,
) -> Simulation:
    """Return accepted lengths of independent iterations: draft a tree, select, count.

    drafting: a tree drafter, a shape, or (K, L) for K paths of length L. law: draft law of the children of every node of a shape, by
    default IID(). model: in floats; every iteration begins at `model.root(number)` of a SimulatedModel, else at the empty prefix.
    Random numbers depend on the seed alone: iteration i uses default_rng([seed, i]).
    """
    return simulate_all([path_rule], model, drafting, iterations, seed, law)[0]


def simulate_all(
    path_rules: Sequence[PathRule],
    model: Model,
    drafting: TreeDrafter | TreeShape | tuple[int, int],
    iterations: int = 1000,
    seed: int = 0,
    law: DraftLaw | None = None,
    max_bytes: int = 1 << 27,
) -> list[Simulation]:
    """`simulate` for several rules on the same drafts, which are made once."""
    ways = as_drafter(drafting, law)
    wanted = [(rule, 0) for rule in path_rules]
    lengths = _lengths(wanted, drafted_trees(model, ways, iterations, seed, max_bytes), lambda tree: [tree])
    return [Simulation(found) for found in lengths]


def drafted_trees(
    model: Any, drafting: TreeDrafter, iterations: int, seed: int, max_bytes: int = 1 << 27
) -> Iterator[tuple[DraftTree, list[np.random.Generator]]]:
    """Yield drafted trees in batches, with the generator of every iteration after its drafts.

    max_bytes: of p and q in one batch.
    """
    if iterations < 2:
        raise InvalidArgument(f"iterations must be at least 2 for a standard error, got {iterations}. Use more.")
    rows = Rows.of(model)
    size = max(1, max_bytes // (16 * (drafting.bounds.size + 1) * rows.n))
    for start in range(0, iterations, size):
        numbers = range(start, min(start + size, iterations))
        generators = [np.random.default_rng([seed, number]) for number in numbers]
        uniforms = _uniforms(generators, drafting.counts.n_uniforms)
        yield draft_trees(drafting, rows, [rows.root(number) for number in numbers], uniforms), generators


def simulate_chains(
    path_rules: Sequence[PathRule],
    model: Model,
    sizes: Sequence[tuple[int, int]],
    iterations: int = 1000,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[tuple[PathRule, int, int], Simulation]:
    """`simulate` for every rule and every (K, L) on the same drafts: K paths are the first of the largest K, cut after L tokens.

    Rules that are not valid on K paths are skipped there, such as block verification for K > 1. progress: called after each batch with its
    number of iterations.
    """
    shapes = {(K, L): TreeShape.chains(K, L) for K, L in sizes}
    largest = TreeShape.chains(max(K for K, _ in shapes), max(L for _, L in shapes))
    wanted = [(rule, K, L) for K, L in sizes for rule in path_rules if fits(rule, shapes[K, L], IID())]
    if not wanted:
        names = ", ".join(rule.name for rule in path_rules) or "none"
        raise InvalidArgument(
            f"path_rules must include a rule for sizes (K, L) {list(sizes)}, got {names}. Use other rules or sizes."
        )
    deepest = {K: max(L for other, L in sizes if other == K) for K, _ in sizes}
    # Rules that do not look ahead accept cut paths as far as whole ones.
    cut = {(rule, K, L): (rule, K, deepest[K]) for rule, K, L in wanted if not looks_ahead(rule) and deepest[K] > L}
    whole = [key for key in dict.fromkeys(wanted) if key not in cut]
    drafted = drafted_trees(model, FixedTree(largest), iterations, seed)

    def parts(tree: DraftTree) -> dict[tuple[int, int], DraftTree]:
        return {size: first_chains(tree, *size) for size in shapes}

    found = _lengths([(rule, (K, L)) for rule, K, L in whole], drafted, parts, progress)
    lengths = dict(zip(whole, found, strict=True))
    lengths |= {key: np.minimum(lengths[longer], key[2]) for key, longer in cut.items()}
    return {key: Simulation(lengths[key]) for key in wanted}


def _lengths(
    wanted: Sequence[tuple[PathRule, Any]],
    drafted: Iterable[tuple[DraftTree, list[np.random.Generator]]],
    parts: Callable[[DraftTree], Any],
    progress: Callable[[int], None] = lambda done: None,
) -> list[np.ndarray]:
    """Accepted lengths of every rule on its drafted trees."""
    lengths: list[list[np.ndarray]] = [[] for _ in wanted]
    for tree, generators in drafted:
        trees = parts(tree)
        counts = [rule.n_uniforms(trees[part].bounds) for rule, part in wanted]
        uniforms = _uniforms(generators, max(counts))
        for of_rule, (rule, part), count in zip(lengths, wanted, counts, strict=True):
            of_rule.append(rule.select(trees[part], uniforms[:, :count]).length)
        progress(len(generators))
    return [np.concatenate(found) for found in lengths]


def _uniforms(generators: Sequence[np.random.Generator], count: int) -> np.ndarray:
    return np.stack([generator.random(count) for generator in generators])
