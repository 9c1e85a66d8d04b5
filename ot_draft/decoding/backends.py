"""Which backend computes the passes of a pair: the one place that decides what `auto` stands for."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .. import defaults
from ..errors import MissingPackage
from . import llama
from .file_weights import ADAPTER, BLOCKS, WEIGHTS

AUTO = defaults.BACKEND
TORCH, ROUNDED, EXACT, LLAMA_CPP = defaults.BACKENDS
OPENVINO = "openvino", "numba"  # packages
SLOWER = "torch computes the passes, which take about 4 times as long as by OpenVINO"  # docs/benchmarks.md


def resolve(folder: Path | None) -> tuple[str, str]:
    """A backend's name, and in words how much slower it is than one that could be taken, where there is such a one.

    folder: of a model, or of what a GGUF file was converted to, whose passes a CPU is to compute; None where torch has to. OpenVINO with
    float rows has the law of float32 weights to rounding, and is taken for GGUF files. With rows of 8
    bits it is faster and another target: that has to be asked for.
    """
    if folder is None or not reads(folder):
        return TORCH, ""
    missing = [package for package in OPENVINO if find_spec(package) is None]
    if missing:
        return TORCH, f"{SLOWER}: {MissingPackage(missing[0], 'openvino')}"
    return (EXACT, "") if (folder / BLOCKS).is_file() else (TORCH, f"{SLOWER}: take --backend {EXACT}")


def reads(folder: Path) -> bool:
    """Whether OpenVINO computes the passes of a model's folder: of a Llama without biases, in one file of weights, without an adapter."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return False
    with_biases = config.get("attention_bias") or config.get("mlp_bias")
    adapted = (folder / ADAPTER).is_file()  # which transformers puts on top of the weights
    return llama.reads(config) and not with_biases and not adapted and (folder / WEIGHTS).is_file()
