"""The two real pairs of models whose distributions are committed: data files, and names in figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from figures import style


@dataclass(frozen=True)
class ModelPair:
    """name: in titles. models: in captions. contexts: file of pairs (p, q). compared: file of the acceptance of every rule on them."""

    name: str
    models: str
    contexts: Path
    compared: Path


SMOLLM2 = ModelPair(
    "SmolLM2-135M, 2-layer draft",
    "SmolLM2-135M-Instruct with a draft model of two layers",
    style.DATA / "smollm2_pairs.npz",
    style.DATA / "smollm2_compared.csv",
)
QWEN = ModelPair(
    "Qwen2.5-Coder, 1.5B and 0.5B",
    "Qwen2.5-Coder-Instruct of 1.5B parameters with the one of 0.5B as draft model (Q4_K_M, llama.cpp)",
    style.DATA / "qwen_pairs.npz",
    style.DATA / "qwen_compared.csv",
)
ALL = (SMOLLM2, QWEN)
