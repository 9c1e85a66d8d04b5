"""Table of drafting methods as a part of the run on a GPU: the models run on the GPU, trees and rules on the CPU."""

from __future__ import annotations

from pathlib import Path

import torch

from llm_demo.bench.trees.command import TEMPERATURES, Loading, run
from llm_demo.gpu.checks import tiny_pair
from llm_demo.prompts import Prompt
from ot_draft.decoding import Pair

TEXTS = 60


def trees(out: Path, device: torch.device, seconds: float, dry: bool) -> None:
    """Append rows to OUT/trees.csv until the time limit; in a dry run those of two prompts with tiny models."""
    if dry:
        run(_tiny, 2, out / "trees.csv", seconds, temperatures=(0.0, 1.0), budgets=(8,))
        return
    run(Loading(str(device)), TEXTS, out / "trees.csv", 0.9 * seconds, temperatures=TEMPERATURES)


def _tiny() -> tuple[Pair, list[Prompt], list[Prompt]]:
    prompts = [Prompt("random", [1 + i, 2, 3, 2]) for i in range(6)]
    return tiny_pair(), prompts[:2], prompts[2:]
