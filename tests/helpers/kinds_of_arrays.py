"""Kinds of arrays that tests run on: how to make each from Fractions, and how far its results may be from the exact ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Kind:
    """One kind of array: how to make it from Fractions, and how far its results may be from the exact ones."""

    name: str
    make: Callable[[Any], Any]
    tolerance: float

    @property
    def is_torch(self) -> bool:
        return self.name.startswith("torch")

    @property
    def exact(self) -> bool:
        return self.tolerance == 0

    @property
    def meta(self) -> bool:
        """Shapes without values: whatever asks for a value raises."""
        return self.name == "torch meta"

    def tokens(self, values: Any) -> Any:
        """Token ids."""
        ids = np.asarray(values, dtype=np.int64)
        if not self.is_torch:
            if self.name == "read-only numpy":
                ids = ids.copy()
                ids.setflags(write=False)
            return ids
        import torch

        return torch.tensor(ids, device="meta" if self.meta else "cpu")

    def back(self, x: Any) -> np.ndarray:
        """Values as numpy: Fractions, or float64."""
        x = x.numpy() if self.is_torch else np.asarray(x)
        return x if self.exact else x.astype(np.float64)

    def agrees(self, x: Any, exact: Any, factor: float = 1) -> bool:
        """Whether x has the exact values, within the kind's tolerance; on the meta device, the right shape."""
        if self.meta:
            return tuple(x.shape) == np.shape(exact)
        if self.exact:
            return bool(np.all(self.back(x) == exact))
        return bool(np.all(np.abs(self.back(x) - np.asarray(exact, dtype=np.float64)) <= factor * self.tolerance))


def _read_only(values: Any) -> np.ndarray:
    x = np.array(values, dtype=np.float64)
    x.setflags(write=False)
    return x


def _torch(dtype: str, device: str = "cpu") -> Callable[[Any], Any]:
    def make(values: Any) -> Any:
        import torch

        return torch.tensor(np.asarray(values, dtype=np.float64), dtype=getattr(torch, dtype), device=device)

    return make


KINDS = [
    Kind("Fractions", lambda values: np.array(values, dtype=object), 0),
    Kind("float64", lambda values: np.array(values, dtype=np.float64), 1e-11),
    Kind("read-only numpy", _read_only, 1e-11),
    Kind("torch float32", _torch("float32"), 1e-5),
    Kind("torch float64", _torch("float64"), 1e-11),
    Kind("torch meta", _torch("float32", "meta"), 1e-5),
]
