"""Which backend computes the passes of a pair: the one place that decides what `auto` stands for."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .. import defaults
from ..errors import MissingPackage
from . import llama
from .file_weights import BLOCKS

AUTO = defaults.BACKEND
TORCH, ROUNDED, EXACT = defaults.BACKENDS
OPENVINO = "openvino", "numba"  # packages


def resolve(folder: Path | None) -> tuple[str, str]:
    """A backend's name, and in words why it is none that is faster, where there is such a one.

    folder: of a converted GGUF file whose passes a CPU computes; None for any other target, which torch computes. OpenVINO with float rows
    has the law of float32 weights to rounding (`python -m llm_demo.bench.bits`). With rows of 8 bits it is faster and another target: such
    a backend has to be asked for.
    """
    if folder is None or not reads(folder):
        return TORCH, ""
    missing = [package for package in OPENVINO if find_spec(package) is None]
    if missing:
        return (
            TORCH,
            f"without {' and '.join(missing)} torch computes the passes: {MissingPackage(missing[0], 'openvino')}",
        )
    return EXACT, ""


def reads(folder: Path) -> bool:
    """Whether OpenVINO computes the passes of a converted file: of a Llama, with its blocks."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return False
    return llama.reads(config) and (folder / BLOCKS).is_file()
