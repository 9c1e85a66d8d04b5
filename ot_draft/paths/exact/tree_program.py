"""How far a rule is from the best, on any drafting of any trees: the path program of the trees, and a closed form above it."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from ...arrays import is_exact
from ...errors import InvalidArgument, SolverFailed
from ...lp.program import as_fractions
from ..model import Model, Path
from ..plain import Forest
from ..rules.path_rule import Nodes, read
from .certificate import PathCertificate, feasible
from .program import GRID, MAX_VARIABLES, TOLERANCE, PathBound, PathProgram, PathResiduals, _violations
from .solvers import SOLVERS

Drafted = Iterable[tuple[Any, Any]]  # drafts, as a path rule takes them, and their probability; all ways, of sum 1


def tree_program_bound(model: Model, drafted: Drafted, solver: str = "highs") -> PathBound:
    """Largest expected accepted length of any lossless path rule on the trees drafted, by linear programming, certified.

    drafted: (drafts, probability) for every way to draft, drafts as `rule(model, drafts)` takes them: trees of fixed or changing shape,
    i.i.d., without replacement, with fixed tokens, or K paths. The program is that of `path_bound`, with the trees in the place of the
    sets of paths: its points are the lossless rules that know both models everywhere.
    Proof: proofs_checks/formal/along_paths/program_optimum.v.
    Raises SolverFailed as `path_bound` does, InvalidArgument where the program is too large or the probabilities do not sum to 1.
    """
    if solver not in SOLVERS:
        raise SolverFailed(f"there is no solver {solver!r} of the path program: take one of {', '.join(SOLVERS)}")
    nodes = Nodes.of(model)
    program = _program(nodes, _prefix_sets(nodes, drafted))
    mass, prices, status = SOLVERS[solver](program) if program.variables else (np.zeros(0), np.zeros(0), "optimal")
    if not (np.isfinite(mass).all() and np.isfinite(prices).all()):
        raise SolverFailed(f'{solver} ended "{status}" with numbers that are not finite: take solver="highs"')
    of_nodes = prices[len(program.groups[0]) :]
    rounded = {v: Fraction(max(0, round(x * GRID)), GRID) for v, x in zip(program.targets, of_nodes, strict=True)}
    lower = feasible(program.variables, program.set_mass, program.targets, [Fraction(float(x)) for x in mass])
    certificate = PathCertificate(lower, price_bound(rounded, program), rounded)
    gap = float(certificate.width)
    if gap > TOLERANCE.get(solver, 1e-5):
        raise SolverFailed(f'{solver} ended "{status}" with bounds {gap:.1e} apart: take solver="highs"')
    exact = is_exact(nodes.target(()))
    residuals = PathResiduals(*_violations(program, mass, prices), gap)
    return PathBound(certificate.lower if exact else float(certificate.lower), residuals, certificate, solver, status)


def cap_bound(model: Model, drafted: Drafted) -> Any:
    """The sum of the caps, which no lossless path rule exceeds: cap(root) = 1, cap(u c) = min(P(u c is drafted), p(c|u) cap(u)).

    drafted: as for `tree_program_bound`, which is never above it; no program is solved. Exact if the model's distributions are Fractions.
    Proof: proofs_checks/formal/along_paths/tree_bound.v.
    """
    nodes = Nodes.of(model)
    chances: dict[Path, Fraction] = {}
    for prefixes, probability in _prefix_sets(nodes, drafted).items():
        for v in prefixes:
            chances[v] = chances.get(v, Fraction(0)) + probability
    caps: dict[Path, Fraction] = {(): Fraction(1)}
    for v in sorted(chances, key=len):
        caps[v] = min(chances[v], as_fractions(nodes.target(v[:-1]))[v[-1]] * caps[v[:-1]])
    bound = sum(caps.values()) - 1
    return bound if is_exact(nodes.target(())) else float(bound)


def price_bound(prices: dict[Path, Fraction], program: PathProgram) -> Fraction:
    """An upper bound of every lossless rule's expected accepted length, for any prices mu_v >= 0 (Lagrange duality).

    sum_y p(y) mu_y + E[max over the tree's nodes v of the sum of 1 - mu_u + sum_z p(z|u) mu_{uz} along the way to v, or 0].
    """
    opened: dict[Path, Fraction] = {}
    for v, mass in program.targets.items():
        opened[v[:-1]] = opened.get(v[:-1], Fraction(0)) + mass * prices[v]
    score: dict[Path, Fraction] = {(): Fraction(0)}
    for v in sorted(program.targets, key=len):
        score[v] = score[v[:-1]] + 1 - prices[v] + opened.get(v, Fraction(0))
    best = [
        max(Fraction(0), *map(score.__getitem__, prefixes)) if prefixes else Fraction(0)
        for prefixes in program.path_sets
    ]
    gained = sum((mass * gain for mass, gain in zip(program.set_mass, best, strict=True)), Fraction(0))
    return opened.get((), Fraction(0)) + gained


def _prefix_sets(nodes: Nodes, drafted: Drafted) -> dict[tuple[Path, ...], Fraction]:
    """The prefixes that a tree holds, but the root, parents first, and the probability that it holds just these."""
    sets: dict[tuple[Path, ...], Fraction] = {}
    for drafts, probability in drafted:
        held = tuple(sorted(_prefixes(read(nodes, drafts)[1].forest, ()), key=lambda v: (len(v), v)))
        sets[held] = sets.get(held, Fraction(0)) + Fraction(probability)
    whole = sum(sets.values(), Fraction(0))
    if whole != 1 if is_exact(nodes.target(())) else abs(whole - 1) > 1e-9:
        raise InvalidArgument(
            f"the probabilities of the drafts sum to {float(whole)!r}: give all ways to draft, of sum 1"
        )
    return sets


def _prefixes(forest: Forest, prefix: Path) -> set[Path]:
    """All prefixes below a node."""
    found: set[Path] = set()
    for token, below in forest:
        if token >= 0:
            found |= {(*prefix, token)} | _prefixes(below, (*prefix, token))
    return found


def _program(nodes: Nodes, sets: dict[tuple[Path, ...], Fraction]) -> PathProgram:
    variables = tuple((row, v) for row, prefixes in enumerate(sets) for v in prefixes)
    if len(variables) > MAX_VARIABLES:
        raise InvalidArgument(
            f"the path program of {len(sets)} trees has {len(variables)} variables (limit {MAX_VARIABLES}): take a smaller vocabulary or"
            " smaller trees; `cap_bound` is a closed form"
        )
    held = sorted({v for _, v in variables}, key=lambda v: (len(v), v))
    targets = {v: as_fractions(nodes.target(v[:-1]))[v[-1]] for v in held}
    return PathProgram({}, tuple(sets), tuple(sets.values()), variables, targets)
