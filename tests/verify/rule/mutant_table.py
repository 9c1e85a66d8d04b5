"""On which corner each mistake shows most: `python tests/verify/rule/mutant_table.py`, from the root of the repository.

For every mutant mistake that changes the law of one token: the corner where the fewest calls show it, the total variation distance
there, on how many corners it is more than 0.003, and after how many calls for this problem, about, check_sampler finds it. All by
simulation, with a fixed seed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from mutants.catalogue import LAW, Mutant, of
from mutants.step import Step

import ot_draft as otd
from ot_draft.verify.corners import corner_problems

OF_LAW = [mutant for mutant in of("sampler") if mutant.found["sampler"] == LAW and type(mutant.step()) is Step]
LOG_LIMIT = np.log(5e12)  # where the log e-value decides: about 1,000 tests, 1e-9, five concentrations
FLOOR = 0.003  # distances below are noise here


def emitted(mutant: Mutant, problem: otd.Problem, rows: int, generator: np.random.Generator) -> Any:
    """Shares of the tokens that come out."""
    step, counts, batch = mutant.step(), np.zeros(problem.n), max(1, min(rows, 2_000_000 // problem.n))
    for _ in range(max(1, rows // batch)):
        p, q = (np.tile(law, (batch, 1)) for law in (problem.p, problem.q))
        token, _ = step.verify(p, q, step.draft(q, problem.k, generator), generator)
        counts += np.bincount(token, minlength=problem.n)
    return counts


def information(counts: Any, p: Any) -> tuple[float, float]:
    """Total variation distance of the emitted law from p, and nats a call, both less what right samples would show."""
    rows, share = counts.sum(), counts / counts.sum()
    if (counts[p == 0] > 0).any():
        return abs(share - p).sum() / 2, np.inf
    seen, cells = counts > 0, (p > 0).sum()
    nats = (share[seen] * np.log(share[seen] / p[seen])).sum() - (cells - 1) / 2 / rows
    noise = np.sqrt(2 / np.pi * p * (1 - p) / rows).sum() / 2
    return max(0.0, abs(share - p).sum() / 2 - noise), nats - 2 * np.sqrt(cells / 2) / rows


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=100_000)
    rows, generator = options.parse_args().rows, np.random.default_rng(0)
    corners = corner_problems(otd.IID())
    print("| mistake | corner | distance there | corners with more than 0.003 | calls |\n|---|---|---|---|---|")
    for mutant in OF_LAW:
        seen = {}
        for label, problem in corners.items():
            few = max(1000, min(rows, 10_000_000 // problem.n))
            seen[label] = information(emitted(mutant, problem, few, generator), problem.p)
        best = max(seen, key=lambda label: seen[label][1])
        distance, nats = seen[best]
        calls = "impossible token" if nats == np.inf else f"{LOG_LIMIT / nats:,.0f}" if nats > 0 else "not seen"
        wide = sum(far > FLOOR for far, _ in seen.values())
        print(f"| {mutant.name} | {best} | {distance:.3f} | {wide} of {len(seen)} | {calls} |", flush=True)


if __name__ == "__main__":
    main()
