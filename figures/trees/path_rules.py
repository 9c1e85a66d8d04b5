"""The path rules of the figures on simulated models: list, style, and evaluation on the same draft paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import ot_draft as otd
from figures import style
from ot_draft.trees.evaluation.simulate import simulate_chains

CHUNKS = 4  # number of seeds among which the iterations are divided, for any number of processes
KSEQ, JOINT = "TokenWise(KSeq)", "Joint"
TOKEN_WISE = (otd.rules.RecursiveRejection(), otd.rules.KSeq(), otd.rules.Optimal(classes=256))
CHAIN_RULES = (*map(otd.trees.TokenWise, TOKEN_WISE), otd.trees.Traversal(), otd.trees.Joint())
LOOKS = {
    JOINT: style.Look("#44AA99", "*", "-", "joint"),
    "Traversal": style.Look("#AA4499", "D", "-", "traversal"),
    "k-ary": style.Look("#CC79A7", "^", "--", "k-ary tree, without repl."),
    "Sequoia": style.Look("#CC79A7", "s", "-", "Sequoia's tree, without repl."),
    "Sequoia, traversal": style.Look("#AA4499", "s", "--", "Sequoia's tree, traversal"),
    "hybrid, joint": style.Look("#44AA99", "P", "--", "k-ary hybrid tree, joint"),
    "DySpec": style.Look("#999933", "v", ":", "DySpec, without repl."),
    "EAGLE-2": style.Look("#A0A0A0", "+", "-", "EAGLE-2, naive target"),
    "adaptive, joint": style.Look("#332288", "o", "-", "tree that follows the draft, joint"),
    "counted, traversal": style.Look("#882255", "o", "-", "tree that follows the draft, traversal"),
    "SpecDec++": style.Look("#5F5F5F", "x", ":", "SpecDec++, one path"),
}


def look(rule: str) -> style.Look:
    """Return the style of a path rule; token-wise selection has that of its selection rule."""
    return LOOKS.get(rule) or style.look(rule.removeprefix("TokenWise(").removesuffix(")"))


def accepted_lengths(
    model: Any, sizes: Sequence[tuple[int, int]], iterations: int, jobs: int
) -> dict[tuple[str, int, int], np.ndarray]:
    """Return accepted lengths (iterations,) of every rule at every (K, L), all on the same drafts."""
    simulate = delayed(simulate_chains)
    parts = Parallel(jobs)(simulate(CHAIN_RULES, model, sizes, iterations // CHUNKS, part) for part in range(CHUNKS))
    joined = {key: np.concatenate([part[key].lengths for part in parts]) for key in parts[0]}
    return {(rule.name, K, L): lengths for (rule, K, L), lengths in joined.items()}


def mean_and_error(lengths: np.ndarray) -> dict[str, float]:
    """Return the block efficiency and its standard error."""
    return {"block_efficiency": 1 + lengths.mean(), "error": lengths.std(ddof=1) / np.sqrt(len(lengths))}
