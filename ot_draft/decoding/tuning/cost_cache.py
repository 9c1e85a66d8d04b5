"""What steps cost, kept in the cache folder from one process to the next: in autoregressive target calls, whatever the machine's speed is
now."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from time import time

import torch

from ..converted import cache_folder
from ..language_model import bytes_read
from ..pair import Pair
from .costs import MeasuredCosts

PACKAGES = "ot_draft", "torch"  # by whose versions costs may differ
PASSES = 3  # one more where ours cost something else than before, within a version
WEEK = 604_800.0  # seconds, after which all is measured again: drivers and systems change, too
MOST = 1000.0  # autoregressive calls that a part of a step may be believed to take


def file_of(pair: Pair, batch: int) -> Path | None:
    """The file of these models in batches of this size, on this machine with so many threads; None for models without a name, and for a
    user without a home."""
    if not pair.name:
        return None
    models = pair.name, bytes_read(pair.target), None if pair.draft is None else bytes_read(pair.draft), batch
    machine = *_processor(), os.cpu_count(), torch.get_num_threads(), PASSES, *map(_version, PACKAGES)
    name = hashlib.blake2b(repr((*models, *machine, time() // WEEK)).encode(), digest_size=12).hexdigest()
    try:
        return cache_folder() / f"costs-{name}.json"
    except OSError:
        return None


def _processor() -> tuple[str, ...]:
    """What a machine has in common with others of its kind; a container's name is another one every time."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    told = {line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "flags", "Features"))}
    return platform.machine(), platform.processor(), *sorted(told)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def read(file: Path) -> dict[str, dict[int, list[float]]] | None:
    """Measurements by part and number, as `MeasuredCosts.measured` has them; None where there are none, or none that can be believed."""
    try:
        parts = json.loads(file.read_text(encoding="utf-8"))
        found = {
            name: {int(at): list(map(float, values)) for at, values in parts[name].items()}
            for name in MeasuredCosts.PARTS
        }
    except (OSError, ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError):
        return None
    lists = [values for part in found.values() for values in part.values()]
    alone = {*found["read"], *found["change"]} <= {0}
    of_steps = alone and min((*found["verify"], *found["draft"]), default=1) >= 1
    sound = all(values and all(0 <= value <= MOST for value in values) for values in lists)
    calls = all(min(values) > 0 for values in found["verify"].values())
    return found if of_steps and sound and calls else None


def write(file: Path, costs: MeasuredCosts) -> None:
    """Keep them, and remove those of weeks that are over, which nobody asks for again.

    Nothing is kept where the folder cannot be written: the next process measures again.
    """
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        for other in file.parent.glob("costs-*.json"):
            if time() - other.stat().st_mtime > WEEK:
                other.unlink(missing_ok=True)
        number, making = tempfile.mkstemp(dir=file.parent, prefix=".making-")
        try:
            with os.fdopen(number, "w", encoding="utf-8") as opened:
                json.dump(costs.measured(), opened)
            Path(making).replace(file)
        finally:
            Path(making).unlink(missing_ok=True)
