"""Backends that compute the forward passes of a pair: torch, and those that installed packages register."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from .. import defaults
from ..errors import CannotDecode
from ..optional import entry_points_of
from .pair import Pair

__all__ = ["LoadRequest"]

TORCH = "torch"
Progress = Callable[[str], object]


@dataclass(frozen=True)
class LoadRequest:
    """Arguments of `load_pair` that a backend loads two models by.

    draft: a model or a file of layers; None if no draft model is loaded with the target. device: as the user names it. torch_device:
    where torch puts the models that it loads; the CPU if a registered backend loads the pair.
    """

    target: str
    draft: str | None
    assistant: str | None
    dtype: str
    device: str
    torch_device: torch.device
    device_map: str | None
    cache: bool
    progress: Progress
    tokens: int | None

    @property
    def on_cpu(self) -> bool:
        """Whether the device is a CPU."""
        return self.device.partition(":")[0] == "cpu"

    @property
    def float32_on_cpu(self) -> bool:
        """Whether a CPU reads the weights in float32, from a folder or from what a GGUF file was converted to."""
        in_memory = not self.cache and not Path(self.target).is_dir()
        return self.on_cpu and self.device_map is None and self.dtype == defaults.DTYPE and not in_memory


class Backend(Protocol):
    """Loader of pairs whose forward passes another engine than torch computes."""

    def check(self, request: LoadRequest) -> None:
        """Raise CannotDecode or MissingPackage if the request excludes this backend. Called before any file is read."""

    def offer(self, folder: Path | None) -> tuple[bool, str]:
        """Return whether `auto` takes this backend, and if not, how the user gets a faster one ("" for no remedy).

        folder: of the target, or what its GGUF file was converted to; None if only torch loads the pair.
        """

    def load(self, request: LoadRequest) -> Pair:
        """Return both models. `Pair.name` says what changes the costs of passes besides the request."""


def registered() -> dict[str, Any]:
    """Return the entry points of the registered backends by name, in alphabetical order."""
    return {entry.name: entry for entry in entry_points_of("ot_draft.backends")}


def backend_called(name: str) -> Backend:
    """Return the registered backend of this name. CannotDecode if there is none."""
    known = registered()
    if name not in known:
        raise CannotDecode(
            f"backend must be one of {', '.join(('auto', TORCH, *known))}, got {name!r}. The backends of OpenVINO and llama.cpp come with a"
            " clone of the repository. Run  make .venv  in it."
        )
    backend: Backend = known[name].load()
    return backend


def resolve(folder: Path | None) -> tuple[str, str]:
    """Return the backend that `auto` stands for, and how the user gets a faster one ("" if there is none)."""
    remedies = []
    for name in registered():
        taken, remedy = backend_called(name).offer(folder)
        if taken:
            return name, ""
        remedies.append(remedy)
    return TORCH, next(filter(None, remedies), "")
