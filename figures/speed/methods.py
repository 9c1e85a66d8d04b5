"""Functions timed for the figure of run times: optimum, construction, solvers of the program, rules; and memory per call.

python -m figures.speed.methods NAME N K    prints the megabytes of one call, in a separate process
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import ot_draft as otd
from figures import style
from ot_draft.laws import is_defined
from ot_draft.lp import network_simplex
from ot_draft.lp.program import Program, build

RULES = {
    **{rule.name: rule for rule in otd.rules.ALL if not rule.cost.solves_program and is_defined(rule.law, 8)},
    "Optimal, 1024 classes": otd.rules.Optimal(classes=1024),
}
FIRST = (20, 2)  # (n, k) of the call that imports and compiles: numba takes no fewer than 17 tokens
FIRST_LONG = (4096, 2)  # the same for long rows, without a table of all draft sets
# POT's network simplex starts from its cost matrix, everything else from p and q.
NETWORK_SIMPLEX: dict[str, Callable[[Program], object]] = {
    "pot": network_simplex.sparse,
    "pot-dense": network_simplex.dense,
    "pot-warm": partial(network_simplex.dense, warm=True),
}
PEERS = {
    **style.SOLVERS,
    "ortools": style.Look("#5AAE61", "P", "-", "LP: max flow (OR-tools)"),
    "pot": style.Look("#1B7837", "v", "-", "network simplex (POT), sparse"),
    "pot-dense": style.Look("#1B7837", "v", "--", "network simplex (POT), dense"),
    "pot-warm": style.Look("#1B7837", "v", ":", "network simplex (POT), from the dual"),
}
PACKAGES = {"cvxpy": "cvxpy", "pulp": "pulp", "ortools": "ortools"} | dict.fromkeys(NETWORK_SIMPLEX, "ot")
OURS = {
    "optimum": style.Look("#000000", "", "-", "optimum"),
    "construction": style.Look("#D55E00", "o", "-", "construction"),
    "certified": style.Look("#D55E00", "^", ":", "construction, certified"),
    "table": style.Look("#D55E00", "s", "--", "construction, table of all sets"),
}


def call(name: str, n: int, k: int) -> Callable[[], object]:
    """Return one call of a method with prepared arguments. Raises InvalidArgument if the program is too large."""
    p, q = masses(n)
    if name in NETWORK_SIMPLEX:
        return partial(NETWORK_SIMPLEX[name], program_of(n, k))
    if name in PEERS:
        return partial(otd.solve, otd.Problem(p, q, k), name)
    if name == "optimum":
        return partial(otd.optimal_acceptance, p, q, k)
    if name in OURS:
        return partial(construction, p, q, k, name)
    return partial(RULES[name], p, q, otd.draw(RULES[name].law, q, k, np.random.default_rng(n)))


def construction(p: Any, q: Any, k: int, name: str) -> object:
    """Return the constructed plan, the plan with its certificate, or a table over all draft sets."""
    found = otd.solve(otd.Problem(p, q, k), "construction")
    return {"construction": lambda: found, "certified": found.certificate, "table": found.plan.table}[name]()


@lru_cache(maxsize=1)
def masses(n: int) -> np.ndarray:
    """Return p and q, (2, n)."""
    return np.random.default_rng(n).dirichlet(np.ones(n), 2)


@lru_cache(maxsize=1)
def program_of(n: int, k: int) -> Program:
    """Return the program of one problem, with its right-hand sides as floats."""
    p, q = masses(n)
    program = build(otd.Problem(p, q, k))
    _ = program.bounds  # computes the floats once
    return program


def label_of(name: str) -> str:
    """Return the name of a method in the figure."""
    known = OURS | PEERS
    return known[name].label if name in known else style.look(name).label


def megabytes(name: str, n: int, k: int) -> float:
    """Return the increase of peak memory per call, in a process that has run a small problem before."""
    command = [sys.executable, "-m", "figures.speed.methods", name, str(n), str(k)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main(name: str, n: str, k: str) -> None:
    """Print the megabytes of one call."""
    call(name, *FIRST)()  # imports and compiles
    if name in OURS and name != "table":
        call(name, *FIRST_LONG)()
    before = largest_memory()
    call(name, int(n), int(k))()
    print((largest_memory() - before) / 1024)


def largest_memory() -> int:
    """Return the peak memory of this process in kilobytes (Linux; `ru_maxrss` would include that of its parent)."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) if found else 0


if __name__ == "__main__":
    main(*sys.argv[1:])
