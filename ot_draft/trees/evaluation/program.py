"""The path program: the largest expected accepted length of any lossless path rule, certified, and an upper bound in closed form.

Proof that it is the optimum: proofs_checks/formal/along_paths/program_optimum.v.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ...boundary import int_from
from ...errors import InvalidArgument, InvalidDrafts, SolverFailed
from ...laws import sets
from ...lp.float_solvers import SOLVERS
from ...lp.program import as_fractions
from ...optional import load
from ..drafting.drafter import TreeDrafter
from ..drafting.forced import Laws
from ..model import Model, Nodes, Path
from ..rules.path_rule import read
from ..tree import Forest
from .certificate import PathCertificate, Sets, feasible, price_bound

__all__ = ["sampled_cap_bound"]

MAX_VARIABLES = 300_000  # HiGHS takes minutes for more

Drafted = Iterable[tuple[Any, Any]]  # drafts, as a path rule takes them, and their probability; all ways, of sum 1


@dataclass(frozen=True, eq=False)
class PathProgram:
    """x_v(T) = P(T) a_v(T): the mass with which the tree T is drafted and the accepted prefix extends to v, a node of T.

    sets: the prefixes that a drafted tree T holds, but the root, parents first, and P(T). variables: (variables,) pairs (T, v), parents
    before children. targets: p(v | parent of v) for every v that can be drafted. All numbers are Fractions.
    Maximise the sum of x subject to (1) the children of u take no more than x_u(T), for every T and u in T, and
    (2) the sum over T of x_{uy}(T) is at most p(y|u) times that of x_u(T), for every u and y; x_root(T) = P(T).
    """

    sets: Sets
    targets: dict[Path, Fraction]

    @cached_property
    def variables(self) -> tuple[tuple[int, Path], ...]:
        return tuple((row, v) for row, prefixes in enumerate(self.sets) for v in prefixes)

    @cached_property
    def groups(self) -> tuple[dict[tuple[int, Path], int], dict[Path, int]]:
        """Rows of the constraints (1), by (T, u), and (2), by v."""
        by_parent = dict.fromkeys((row, v[:-1]) for row, v in self.variables)
        first = {key: i for i, key in enumerate(by_parent)}
        return first, {v: len(first) + i for i, v in enumerate(self.targets)}

    @cached_property
    def matrix(self) -> Any:
        """(constraints, variables), sparse float64."""
        sparse = load("scipy.sparse", "lp")
        by_parent, by_node = self.groups
        entries: list[tuple[int, int, float]] = []
        children: dict[Path, list[Path]] = {}
        for v in self.targets:
            children.setdefault(v[:-1], []).append(v)
        for column, (row, v) in enumerate(self.variables):
            entries += [(by_parent[row, v[:-1]], column, 1.0), (by_node[v], column, 1.0)]
            if (row, v) in by_parent:
                entries.append((by_parent[row, v], column, -1.0))
            entries += [(by_node[child], column, -float(self.targets[child])) for child in children.get(v, ())]
        rows, columns, values = zip(*entries, strict=True)
        return sparse.csc_matrix((values, (rows, columns)), shape=(len(self.bounds), len(self.variables)))

    @cached_property
    def bounds(self) -> np.ndarray:
        """(constraints,) right-hand sides: P(T) at the root of T, p(y) for the first token y, 0 further down."""
        by_parent, by_node = self.groups
        set_mass = tuple(self.sets.values())
        first = [float(set_mass[row]) if u == () else 0.0 for row, u in by_parent]
        return np.array(first + [float(self.targets[v]) if len(v) == 1 else 0.0 for v in by_node])


@dataclass(frozen=True, eq=False)
class PathBound:
    """The optimum of the path program, and what confirms it.

    value: expected accepted length of the lossless rule read off the solver's answer, once that was made feasible; no
    rule exceeds it by more than certificate.width. Fractions where the model is exact. certificate: both bounds, proved in
    rationals.
    """

    value: Any
    certificate: PathCertificate
    solver: str
    status: str


def path_bound(model: Model, K: int, L: int, solver: str = "highs") -> PathBound:
    """Return the largest expected accepted length of any lossless path rule on K i.i.d. paths, by linear programming.

    Parameters
    ----------
    model : Model
        Target and draft distributions after every prefix.
    K, L : int
        Number and length of the paths.
    solver : {"highs", "cvxpy", "cvxpy-highs", "pulp"}, default="highs"
        SciPy's HiGHS, Clarabel or HiGHS by cvxpy, or CBC by PuLP.

    Returns
    -------
    bound : PathBound
        The length, and the certificate that proves it.

    Raises
    ------
    SolverFailed
        If the bounds differ by more than 1e-7 (highs) or 1e-5.
    InvalidDrafts
        If the program is too large.

    Notes
    -----
    a_v(T) is the probability, given the set T of drafted paths, that the accepted prefix extends to v. Its children take no more than
    a_u(T), and E[a_{uy}] <= p(y|u) E[a_u]. Every lossless rule meets that, and every solution is a lossless rule, which draws what follows
    u from what is left of p(.|u). Such a rule knows the model everywhere, also where nothing was drafted. For K = 1 it is block
    verification's length.

    Examples
    --------
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> model = otd.trees.MarkovModel.random(np.random.default_rng(0), 2, order=0)
    >>> bound = otd.trees.path_bound(model, 1, 2)
    >>> exact = otd.trees.evaluate(otd.trees.BlockVerification(), model, (1, 2)).expected_length
    >>> abs(float(bound.certificate.lower) - float(exact)) < 1e-6
    True
    """
    int_from("K", K, 1, error=InvalidDrafts)
    int_from("L", L, 0, error=InvalidDrafts)
    return _bound(Nodes.of(model), lambda nodes: _sets_of_paths(nodes, K, L), solver)


def tree_program_bound(model: Model, drafted: Drafted, solver: str = "highs") -> PathBound:
    """Return `path_bound` for any way to draft: trees of fixed or changing shape, without replacement, with fixed tokens, or K paths.

    Parameters
    ----------
    model : Model
        Target and draft distributions after every prefix.
    drafted : iterable of (drafts, probability)
        Every way to draft, drafts as `rule(model, drafts)` takes them.
    solver : {"highs", "cvxpy", "cvxpy-highs", "pulp"}, default="highs"
        As for `path_bound`.

    Returns
    -------
    bound : PathBound
        The length, and the certificate that proves it.

    Raises
    ------
    SolverFailed
        As by `path_bound`.
    InvalidArgument
        If the program is too large, or the probabilities do not sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> model = otd.trees.MarkovModel.random(np.random.default_rng(0), 2, order=0)
    >>> drafted = [(((0,),), model.draft(())[0]), (((1,),), model.draft(())[1])]
    >>> bound = otd.trees.tree_program_bound(model, drafted)
    >>> abs(float(bound.value) - float(otd.trees.cap_bound(model, drafted))) < 1e-6
    True
    """
    return _bound(Nodes.of(model), lambda nodes: _sets_of_trees(nodes, drafted), solver)


def cap_bound(model: Model, drafted: Drafted) -> Any:
    """Return the sum of the caps, which no lossless path rule exceeds in expected accepted length.

    cap(root) = 1 and cap(u c) = min(P(u c is drafted), p(c|u) cap(u)). Proof: proofs_checks/formal/along_paths/tree_bound.v.

    Parameters
    ----------
    model : Model
        Target and draft distributions after every prefix.
    drafted : iterable of (drafts, probability)
        As for `tree_program_bound`, whose value is never above this one; no program is solved.

    Returns
    -------
    bound : float or Fraction
        Exact if the model's distributions are Fractions.

    Examples
    --------
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> model = otd.trees.MarkovModel.random(np.random.default_rng(0), 2, order=0)
    >>> drafted = [(((0,),), model.draft(())[0]), (((1,),), model.draft(())[1])]
    >>> bool(abs(otd.trees.cap_bound(model, drafted) - np.minimum(model.target(()), model.draft(())).sum()) < 1e-12)
    True
    """
    nodes = Nodes.of(model)
    chances: dict[Path, Fraction] = {}
    for prefixes, probability in _sets_of_trees(nodes, drafted).items():
        for v in prefixes:
            chances[v] = chances.get(v, Fraction(0)) + probability
    caps: dict[Path, Fraction] = {(): Fraction(1)}
    for v in sorted(chances, key=len):
        caps[v] = min(chances[v], as_fractions(nodes.target(v[:-1]))[v[-1]] * caps[v[:-1]])
    bound = sum(caps.values()) - 1
    return bound if xp.is_exact(nodes.target(())) else float(bound)


def sampled_cap_bound(
    drafting: TreeDrafter,
    draft: Laws,
    text: Path,
    masses: Array,
    generator: np.random.Generator | None = None,
    runs: int = 16,
    given: Sequence[int] = (),
) -> Any:
    """`cap_bound` on average over texts that the target writes: what large models need, where trees cannot be enumerated.

    text: the next L tokens, drawn from the target; masses: (L,) the target's of each of them. The others: see `TreeDrafter.held`.
    Written out, cap(v) is p(v) times the least P(u is drafted) / p(u) among the beginnings u of v, at most 1; so the sum of the caps is the
    target's mean, over texts, of the sum of these ratios along a text, each in 0 .. 1. Where the chances are estimated, every run gives
    the ratio at the beginning that is least by the other runs, and one run more: the mean can only be above the caps.
    """
    weights, holds = drafting.held(draft, text, generator, runs, given)
    ratios = weights / masses.cumprod(-1)
    if len(ratios) == 1:
        return xp.prefix_minimum(xp.minimum(ratios, 1)).sum()
    laws = draft([text[:depth] for depth in range(len(text))])
    # A looked-up token needs no draw, and its siblings are drawn outside it, however little is left there.
    likely = [text[:depth] == (*given[:depth],) for depth in range(len(given))] + [False] * len(text)
    drawn = [1.0 if likely[depth] else law[text[depth]] for depth, law in enumerate(laws)]
    return _by_the_others(ratios * holds, drawn / masses)


def _by_the_others(ratios: np.ndarray, steps: np.ndarray) -> float:
    """Sum over the beginnings of a text of the least ratio up to them, 1 at the empty one: mean over runs (R, L), R >= 2.

    Which is least is what the other runs say: a run that judged by itself would find too small a ratio. To them comes a guess, since a
    ratio may be large where none of a few runs holds the text: the ratio before times steps (L,), q / p of the token, as if one were drawn.
    """
    value = estimate = least = np.ones(len(ratios))
    found = np.zeros(len(ratios))
    for held, step, alone in zip(ratios.T, steps, steps.cumprod(), strict=True):
        estimate = (held.sum() - held + np.maximum(estimate * step, alone)) / len(ratios)
        value = np.where(estimate < least, held, value)
        least = np.minimum(estimate, least)
        found += value
    return float(found.mean())


def _bound(nodes: Nodes, drafted: Callable[[Nodes], Sets], solver: str, denominator: int = 1 << 48) -> PathBound:
    """Certify a solver's answer: its masses are made feasible, and any prices >= 0 give a bound.

    denominator: prices are rounded to multiples of 1 / denominator, for a quick sum.
    """
    if solver not in SOLVERS:
        raise SolverFailed(f"solver must be one of {', '.join(SOLVERS)}, got {solver!r}. Use one of them.")
    program = program_of(nodes, drafted(nodes))
    mass, prices, status = (
        SOLVERS[solver](program, "highs") if program.variables else (np.zeros(0), np.zeros(0), "optimal")
    )
    if not (np.isfinite(mass).all() and np.isfinite(prices).all()):
        raise SolverFailed(f'{solver} ended "{status}" with numbers that are not finite. Use solver="highs".')
    of_nodes = prices[len(program.groups[0]) :]
    rounded = {
        v: Fraction(max(0, round(x * denominator)), denominator) for v, x in zip(program.targets, of_nodes, strict=True)
    }
    masses = [Fraction(float(x)) for x in mass]
    lower = feasible(program.variables, tuple(program.sets.values()), program.targets, masses)
    certificate = PathCertificate(lower, price_bound(rounded, program.targets, program.sets), rounded)
    gap = float(certificate.width)
    if gap > (1e-7 if solver == "highs" else 1e-5):
        raise SolverFailed(
            f'{solver} ended "{status}" with bounds {float(certificate.lower):.12g} and {float(certificate.upper):.12g},'
            f' {gap:.1e} apart. Use solver="highs".'
        )
    value = certificate.lower if xp.is_exact(nodes.target(())) else float(certificate.lower)
    return PathBound(value, certificate, solver, status)


def program_of(nodes: Nodes, drafted: Sets) -> PathProgram:
    """The program of these trees, in Fractions."""
    held = sorted({v for prefixes in drafted for v in prefixes}, key=lambda v: (len(v), v))
    program = PathProgram(drafted, {v: as_fractions(nodes.target(v[:-1]))[v[-1]] for v in held})
    if len(program.variables) > MAX_VARIABLES:
        raise InvalidArgument(
            f"the path program must have at most {MAX_VARIABLES} variables, got {len(program.variables)} for {len(drafted)} trees. Use a"
            " smaller vocabulary, smaller trees, or fewer or shorter paths; `cap_bound` is a closed form."
        )
    return program


def _sets_of_paths(nodes: Nodes, K: int, L: int) -> Sets:
    """Sets of paths that K i.i.d. paths of length L hold, and their probabilities."""
    if nodes.n ** (L + 1) > MAX_VARIABLES:
        raise InvalidArgument(
            f"the paths must have at most {MAX_VARIABLES} prefixes, got {nodes.n}^{L + 1}. Use a smaller vocabulary or shorter paths."
        )
    drafted: dict[Path, Fraction] = {(): Fraction(1)}
    for _ in range(L):
        laws = {u: as_fractions(nodes.draft(u)) for u in drafted}
        drafted = {(*u, y): drafted[u] * mass for u, law in laws.items() for y, mass in enumerate(law) if mass > 0}
    paths = list(drafted)
    found: dict[tuple[Path, ...], Fraction] = {}
    for bits, probability in sets.independent(0, np.array(list(drafted.values()), dtype=object), K).items():
        prefixes = {paths[number][:depth] for number in sets.tokens_of(bits) for depth in range(1, L + 1)}
        found[tuple(sorted(prefixes, key=lambda v: (len(v), v)))] = probability
    return found


def _sets_of_trees(nodes: Nodes, drafted: Drafted) -> Sets:
    found: dict[tuple[Path, ...], Fraction] = {}
    for drafts, probability in drafted:
        held = tuple(sorted(_prefixes(read(nodes, drafts)[1].forest, ()), key=lambda v: (len(v), v)))
        found[held] = found.get(held, Fraction(0)) + Fraction(probability)
    whole = sum(found.values(), Fraction(0))
    if whole != 1 if xp.is_exact(nodes.target(())) else abs(whole - 1) > 1e-9:
        raise InvalidArgument(
            f"the probabilities of the drafts must sum to 1, got {float(whole)!r}. Pass all possible drafts."
        )
    return found


def _prefixes(forest: Forest, prefix: Path) -> set[Path]:
    """Yield all prefixes below a node."""
    found: set[Path] = set()
    for token, below in forest:
        if token >= 0:
            found |= {(*prefix, token)} | _prefixes(below, (*prefix, token))
    return found
