"""Count what a call starts on a device: array operations, and launches of kernels that are not run."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Counted(TorchDispatchMode):
    """Operations that start something on a device, by name: all but views and memory."""

    FREE = (
        "view", "_unsafe_view", "expand", "slice", "select", "alias", "detach", "transpose", "permute", "t", "split",
        "unsqueeze", "squeeze", "empty", "new_empty", "as_strided",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    @property
    def count(self) -> int:
        """Number of operations."""
        return len(self.names)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        self.names += [name] * (name not in self.FREE)
        return func(*args, **(kwargs or {}))


class Launched:
    """Stands for a kernel, which it counts and does not run."""

    def __init__(self) -> None:
        self.count = 0

    def __getitem__(self, grid: Any) -> Any:
        return self

    def __call__(self, *args: Any, **sizes: Any) -> None:
        self.count += 1
