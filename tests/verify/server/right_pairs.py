"""Pairs of right sides side by side, many times: how often a difference is seen where there is none.

PYTHONPATH=tests python -m audit.right_pairs --runs 1000 --tokens 3000
"""

from __future__ import annotations

import click
import numpy as np

from ot_draft.verify.server.against import Setting, TwoServerTest

from .chains import PROMPTS, Chain, random_pair


@click.command()
@click.option("--runs", default=1000, show_default=True)
@click.option("--tokens", default=3000, show_default=True, help="Of both sides.")
def main(runs: int, tokens: int) -> None:
    """Every third run's rows share their random numbers in eights; every second run has two settings."""
    largest = []
    for seed in range(runs):
        pair = random_pair(seed, n=int(np.random.default_rng(seed).choice([3, 6, 24, 100, 1000])))
        prompts = PROMPTS if len(pair.p) > len(PROMPTS) else [[i] for i in range(len(pair.p))]
        settings = [Setting(name, prompts, 1.0) for name in ("plain", "other")[: 1 + seed % 2]]
        sides = (Chain(pair.p, 2 * seed + side, shared=8 if seed % 3 == 0 else 1) for side in (0, 1))
        largest.append(TwoServerTest(*sides, settings, level=1e-300, seed=seed).run(tokens).evidence.log_largest)
    over = [int((np.array(largest) >= np.log(e)).sum()) for e in (10, 20, 100, 1e6)]
    click.echo(f"{runs} pairs of right sides, {tokens} tokens each: largest e-value {np.exp(max(largest)):.3g}; "
               f"at least 10, 20, 100, 1e6: {over}")  # fmt: skip


if __name__ == "__main__":
    main()
