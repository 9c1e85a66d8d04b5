"""The path program: the largest expected accepted length of any lossless path rule, by linear programming, certified."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from ...arrays import is_exact
from ...errors import InvalidArgument, SolverFailed
from ...lp.program import as_fractions, drafted_sets
from ...optional import load
from ...problem import Problem
from ..drafting.fixed import check_sizes
from ..model import Model, Path
from ..rules.path_rule import Nodes
from .certificate import PathCertificate, feasible, price_bound
from .solvers import SOLVERS

MAX_VARIABLES = 300_000  # HiGHS takes minutes for more
TOLERANCE = {"highs": 1e-7}  # largest gap between the certified bounds that is let through; 1e-5 for the others
GRID = 1 << 48  # prices are rounded to multiples of 1 / GRID: any prices >= 0 give a bound, short ones a quick sum


@dataclass(frozen=True, eq=False)
class PathProgram:
    """x_v(T) = P(T) a_v(T): the mass with which the set T is drafted and the accepted prefix extends to v, a node of T.

    paths: the probability of every path that can be drafted. path_sets: (sets,) the drafted paths of each T; set_mass:
    (sets,) P(T). variables: (variables,) pairs (T, v), parents before children. targets: p(v | parent of v) for every v
    that can be drafted. All numbers are Fractions.
    Maximise the sum of x subject to (1) the children of u take no more than x_u(T), for every T and u in T, and
    (2) the sum over T of x_{uy}(T) is at most p(y|u) times that of x_u(T), for every u and y; x_root(T) = P(T).
    """

    paths: dict[Path, Fraction]
    path_sets: tuple[tuple[Path, ...], ...]
    set_mass: tuple[Fraction, ...]
    variables: tuple[tuple[int, Path], ...]
    targets: dict[Path, Fraction]

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
        first = [float(self.set_mass[row]) if u == () else 0.0 for row, u in by_parent]
        return np.array(first + [float(self.targets[v]) if len(v) == 1 else 0.0 for v in by_node])


@dataclass(frozen=True, eq=False)
class PathBound:
    """The optimum of the path program, and what confirms it.

    value: expected accepted length of the lossless rule read off the solver's answer, once that was made feasible; no
    rule exceeds it by more than residuals.gap. Fractions where the model is exact. certificate: both bounds, proved in
    rationals.
    """

    value: Any
    residuals: PathResiduals
    certificate: PathCertificate
    solver: str
    status: str


@dataclass(frozen=True)
class PathResiduals:
    """How far the solver's own answer is from optimal: largest violation of a constraint, in probability, and of a
    constraint of the dual; and certified upper minus lower bound, in tokens."""

    primal: float
    dual: float
    gap: float


def path_bound(model: Model, K: int, L: int, solver: str = "highs") -> PathBound:
    """Largest expected accepted length of any lossless path rule on K i.i.d. paths of length L, by linear programming.

    solver: "highs" (scipy), "cvxpy" (Clarabel) or "pulp" (CBC). a_v(T) is the probability, given the set T of drafted
    paths, that the accepted prefix extends to v: its children take no more than a_u(T), and E[a_{uy}] <= p(y|u) E[a_u].
    Every lossless rule meets that, and every solution is a lossless rule, which draws what follows u from what is left
    of p(.|u). Such a rule knows the model everywhere, also where nothing was drafted. K = 1: block verification's
    length. Raises SolverFailed where the bounds differ by more than 1e-7 (highs) or 1e-5, InvalidDrafts where the
    program is too large.
    """
    if solver not in SOLVERS:
        raise SolverFailed(f"there is no solver {solver!r} of the path program: take one of {', '.join(SOLVERS)}")
    program = build(model, K, L)
    mass, prices, status = SOLVERS[solver](program) if program.variables else (np.zeros(0), np.zeros(0), "optimal")
    if not (np.isfinite(mass).all() and np.isfinite(prices).all()):
        raise SolverFailed(f'{solver} ended "{status}" with numbers that are not finite: take solver="highs"')
    certificate = _certify(program, mass, prices, K)
    gap = float(certificate.width)
    if gap > TOLERANCE.get(solver, 1e-5):
        raise SolverFailed(
            f'{solver} ended "{status}" with bounds {float(certificate.lower):.12g} and {float(certificate.upper):.12g},'
            f' {gap:.1e} apart: take solver="highs"'
        )
    exact = is_exact(Nodes.of(model).target(()))
    residuals = PathResiduals(*_violations(program, mass, prices), gap)
    return PathBound(certificate.lower if exact else float(certificate.lower), residuals, certificate, solver, status)


def _certify(program: PathProgram, mass: np.ndarray, prices: np.ndarray, K: int) -> PathCertificate:
    """Nothing of the solver is trusted: its masses are made feasible, its prices are taken as they are, where >= 0."""
    of_nodes = prices[len(program.groups[0]) :]
    rounded = {v: Fraction(max(0, round(x * GRID)), GRID) for v, x in zip(program.targets, of_nodes, strict=True)}
    upper = price_bound(rounded, program.targets, program.paths, K)
    masses = [Fraction(float(x)) for x in mass]
    return PathCertificate(feasible(program.variables, program.set_mass, program.targets, masses), upper, rounded)


def _violations(program: PathProgram, mass: np.ndarray, prices: np.ndarray) -> tuple[float, float]:
    """Largest violation of the program's constraints by the masses, and of the dual's by the prices."""
    if not program.variables:
        return 0.0, 0.0
    primal = max((program.matrix @ mass - program.bounds).max(), -mass.min(), 0.0)
    return float(primal), float(max((1 - program.matrix.T @ prices).max(), -prices.min(), 0.0))


def build(model: Model, K: int, L: int) -> PathProgram:
    """The path program of a model, in Fractions."""
    check_sizes(K, L)
    nodes = Nodes.of(model)
    n = nodes.n
    if n ** (L + 1) > MAX_VARIABLES:
        raise InvalidArgument(
            f"{n}^{L + 1} prefixes (limit {MAX_VARIABLES}): take a smaller vocabulary or shorter paths"
        )
    drafted: dict[Path, Fraction] = {(): Fraction(1)}
    targets: dict[Path, Fraction] = {}
    for _ in range(L):
        level: dict[Path, Fraction] = {}
        for u, probability in drafted.items():
            p, q = as_fractions(nodes.target(u)), as_fractions(nodes.draft(u))
            level |= {(*u, y): probability * q[y] for y in range(n) if q[y] > 0}
            targets |= {(*u, y): p[y] for y in range(n) if q[y] > 0}
        drafted = level
    paths = list(drafted)
    mass = np.array(list(drafted.values()), dtype=object)
    sets = drafted_sets(Problem(mass, mass, K))
    if sum(len(tokens) for tokens in sets) * L > MAX_VARIABLES:
        raise InvalidArgument(
            f"the path program of {len(sets)} sets of drafted paths has over {MAX_VARIABLES} variables: take a smaller"
            " vocabulary, or fewer or shorter paths"
        )
    path_sets = tuple(tuple(paths[i] for i in chosen) for chosen in sets)
    variables = tuple((row, v) for row, chosen in enumerate(path_sets) for v in _prefixes(chosen))
    return PathProgram(drafted, path_sets, tuple(sets.values()), variables, targets)


def _prefixes(paths: tuple[Path, ...]) -> list[Path]:
    """Nodes of a set of paths, all but the root, by depth."""
    return list(dict.fromkeys(path[:depth] for depth, path in product(range(1, len(paths[0]) + 1), paths)))
