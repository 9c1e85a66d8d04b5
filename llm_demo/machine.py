"""Provenance of measurements: date, machine, versions and load."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import ot_draft as otd


def machine(device: str = "cpu") -> dict[str, str]:
    """Return columns for the rows of a CSV file: date, machine, load average of the last minute, versions."""
    import torch

    versions = {"ot_draft": otd.__version__, "Python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in ("torch", "transformers")}
    if torch.device(device).type == "cuda":
        used = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
    else:
        used = f"{processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads used"
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": used,
        "load": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }


def processor() -> str:
    """Return the name of the processor."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
