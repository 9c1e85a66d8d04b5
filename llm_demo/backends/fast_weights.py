"""Weights in groups with a common scale: those of a GGUF file, or rounded to 8 bits; other weights in float32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ot_draft.decoding import CannotDecode
from ot_draft.decoding.gguf_files import BLOCKS, BYTES

WEIGHTS = "model.safetensors"  # weights in a model's folder
ADAPTER = "adapter_config.json"  # configuration of an adapter in this folder
GROUP = 32  # number of weights per block
MIDDLE = 8  # zero point of the codes 0 .. 15


@dataclass(frozen=True)
class Weights:
    """Weights of a linear layer, (out, in). codes: int (out, groups, in / groups). scales: float16 (out, groups).

    A weight is scale * code for signed codes (8 bits), and scale * (code - MIDDLE) otherwise (4 bits), plus the offset `least` of its
    group, (out, groups), None for 0.
    """

    codes: Any
    scales: Any
    least: Any = None

    @property
    def kind(self) -> tuple[Any, ...]:
        """Key of the layers that can be one: those where it is equal."""
        return type(self), self.codes.dtype, self.codes.shape[1:], self.least is None

    @property
    def bytes_read(self) -> int:
        """Bytes that a pass reads."""
        bits = 8 if self.codes.dtype == np.int8 else 4
        return self.codes.size * bits // 8 + 2 * self.scales.size + (0 if self.least is None else 4 * self.least.size)

    def beside(self, other: Weights) -> Weights:
        """Return these weights with the outputs of another layer appended."""
        least = None if self.least is None else np.concatenate((self.least, other.least))
        return Weights(np.concatenate((self.codes, other.codes)), np.concatenate((self.scales, other.scales)), least)


@dataclass(frozen=True)
class FloatWeights:
    """Weights of a linear layer, float32 (out, in)."""

    values: Any

    @property
    def kind(self) -> tuple[Any, ...]:
        """Key of the layers that can be one: those where it is equal."""
        return type(self), self.values.shape[1]

    @property
    def bytes_read(self) -> int:
        """Bytes that a pass reads."""
        return int(self.values.nbytes)

    def beside(self, other: FloatWeights) -> FloatWeights:
        """Return these weights with the outputs of another layer appended."""
        return FloatWeights(np.concatenate((self.values, other.values)))


def in_8_bits(values: Any) -> Weights:
    """Return float weights (out, in) rounded to integer multiples of one scale per output."""
    rows = values[:, None]
    scales = (np.abs(rows).max(-1) / 127).astype(np.float16)
    codes = rows / np.maximum(scales, np.float16(6e-8)).astype(np.float32)[..., None]
    return Weights(np.clip(np.rint(codes), -127, 127).astype(np.int8), scales)


def unpacked(blocks: Tensor, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return codes 0 .. 15 (out, in), scales and zeros (out, in / 32): a weight is scale * (code - 8) + zero."""
    blocks = blocks.view(len(blocks), -1, BYTES[kind])
    head = blocks[..., : BYTES[kind] - 16].contiguous().view(torch.float16).float()
    nibbles = blocks[..., -16:]
    codes = torch.cat((nibbles & 15, nibbles >> 4), -1).flatten(1)
    scales = head[..., 0]
    return codes, scales, head[..., 1] + 8 * scales if kind == "Q4_1" else torch.zeros_like(scales)


class FolderWeights:
    """Weights of a model's folder: layers in the blocks of the GGUF file from which it was converted, and single tensors in float32.

    Blocks are mapped again for each layer, so that the pages read do not stay in memory in addition to the converted weights.
    """

    def __init__(self, folder: Path) -> None:
        from safetensors import safe_open

        if not (folder / WEIGHTS).is_file():
            raise CannotDecode(
                f"backend openvino requires all weights in one {WEIGHTS}, which {folder.name} lacks. Use --backend torch."
            )
        self._folder, self._file, self.of_file = folder, folder / BLOCKS, (folder / BLOCKS).is_file()
        self._floats: Any = safe_open(folder / WEIGHTS, "pt")
        self._names, self._stored = set(self._floats.keys()), set[str]()
        self._kinds: Mapping[str, str] = {}
        if self.of_file:
            with safe_open(self._file, "pt") as blocks:
                self._kinds, self._stored = blocks.metadata() or {}, set(blocks.keys())

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def tensor(self, name: str) -> Any:
        """Return one tensor in float32. Raises CannotDecode if it is missing."""
        if name not in self:
            raise CannotDecode(f"{self._folder.name} is incomplete: {name} is missing. Download it again.")
        return self._floats.get_tensor(name).float().numpy()

    def layer(self, name: str) -> Any:
        """Return a linear layer, in float32 if its type is not in BYTES. Raises CannotDecode for a layer with biases."""
        if f"{name}.bias" in self:
            raise CannotDecode(f"backend openvino does not support biases, which {name} has. Use --backend torch.")
        name = f"{name}.weight"
        if name not in self._stored:
            return FloatWeights(self.tensor(name))
        from safetensors import safe_open

        kind = self._kinds[name]
        with safe_open(self._file, "pt") as opened:
            blocks = opened.get_tensor(name)
        if kind == "Q8_0":
            blocks = blocks.view(len(blocks), -1, BYTES[kind])
            scales = blocks[..., :2].contiguous().view(torch.float16)[..., 0]
            return Weights(blocks[..., 2:].contiguous().view(torch.int8).numpy(), scales.numpy())
        codes, scales, zeros = unpacked(blocks, kind)
        grouped = codes.unflatten(1, (-1, GROUP)).numpy()
        return Weights(grouped, scales.half().numpy(), zeros.numpy() if kind == "Q4_1" else None)


class DraftWeights:
    """Weights of a draft's file of layers, in 8 bits. Rounding may lower acceptance; q is the distribution that is computed."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        self._tensors = tensors

    def tensor(self, name: str) -> Any:
        """Return one tensor in float32."""
        return self._tensors[name].float().numpy()

    def layer(self, name: str) -> Any:
        """Return a linear layer."""
        return in_8_bits(self.tensor(f"{name}.weight"))
