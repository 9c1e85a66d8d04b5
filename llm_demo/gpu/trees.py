"""The table of ways to spend N nodes, as a part of the run on a GPU: the models read there, trees and rules run on a core beside it."""

from __future__ import annotations

from pathlib import Path

import torch

from llm_demo.bench.trees.command import TEMPERATURES, Loading, run
from llm_demo.gpu.checks import tiny_pair
from llm_demo.prompts import Prompt
from ot_draft.decoding import Pair

TEXTS = 60


def trees(out: Path, device: torch.device, seconds: float, dry: bool) -> None:
    """Fill OUT/trees.csv, as far as the time allows; two texts of tiny models in a dry run."""
    if dry:
        run(_tiny, 2, out / "trees.csv", seconds, temperatures=(0.0, 1.0), budgets=(8,))
        return
    run(Loading(str(device)), TEXTS, out / "trees.csv", 0.9 * seconds, temperatures=TEMPERATURES)


def _tiny() -> tuple[Pair, list[Prompt], list[Prompt]]:
    prompts = [Prompt("random", [1 + i, 2, 3, 2]) for i in range(6)]
    return tiny_pair(), prompts[:2], prompts[2:]
