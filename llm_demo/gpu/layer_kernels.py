"""Triton kernels of a fused decoder layer: each program handles one token, all arithmetic is in float32."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def _add_norm(
    x, residual, weight, summed, normed, width, epsilon, ADDS: tl.constexpr, NORMS: tl.constexpr, BLOCK: tl.constexpr
):
    """summed = x + residual; normed = weight * summed / rms(summed)."""
    row, place = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = place < width
    here = tl.load(x + row * width + place, mask=inside, other=0.0)
    if ADDS:
        here = (
            here.to(tl.float32) + tl.load(residual + row * width + place, mask=inside, other=0.0).to(tl.float32)
        ).to(here.dtype)
        tl.store(summed + row * width + place, here, mask=inside)
    if NORMS:
        wide = here.to(tl.float32)
        scale = 1.0 / tl.sqrt(tl.sum(wide * wide) / width + epsilon)
        scaled = (wide * scale).to(here.dtype).to(tl.float32)
        by = tl.load(weight + place, mask=inside, other=0.0).to(tl.float32)
        tl.store(normed + row * width + place, (by * scaled).to(here.dtype), mask=inside)


@triton.jit
def _silu_mul(gate_up, out, width, BLOCK: tl.constexpr):
    """out = silu(gate) * up, for rows that hold both, concatenated."""
    row, place = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < width
    gate = tl.load(gate_up + row * 2 * width + place, mask=inside, other=0.0)
    up = tl.load(gate_up + row * 2 * width + width + place, mask=inside, other=0.0)
    wide = gate.to(tl.float32)
    active = (wide / (1.0 + tl.exp(-wide))).to(gate.dtype).to(tl.float32)
    tl.store(out + row * width + place, (active * up.to(tl.float32)).to(gate.dtype), mask=inside)


@triton.jit
def _rotate_and_write(
    qkv, cos, sin, slots, queries, keys, values, count, heads, groups, turns_row, slots_row, memory_row, memory_head,
    HALF: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Rotary embedding of queries and keys; keys and values to their slots of the cache, queries packed by groups of heads."""
    row, head, place = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.arange(0, BLOCK)
    batch, token, inside = row // count, row % count, place < HALF
    here = qkv + (row * (heads + 2 * groups) + head) * 2 * HALF + place
    low, high = tl.load(here, mask=inside), tl.load(here + HALF, mask=inside)
    angle = batch * turns_row + token * 2 * HALF + place
    c, s = tl.load(cos + angle, mask=inside).to(tl.float32), tl.load(sin + angle, mask=inside).to(tl.float32)
    if head < heads + groups:
        first, second = low.to(tl.float32), high.to(tl.float32)
        low, high = (first * c - second * s).to(low.dtype), (second * c + first * s).to(low.dtype)
    slot = tl.load(slots + batch * slots_row + token)
    if head < heads:
        repeats = heads // groups
        to = (
            queries
            + ((batch * groups + head // repeats) * repeats * count + (head % repeats) * count + token) * 2 * HALF
            + place
        )
        tl.store(to, low, mask=inside)
        tl.store(to + HALF, high, mask=inside)
    elif head < heads + groups:
        to = keys + batch * memory_row + (head - heads) * memory_head + slot * 2 * HALF + place
        tl.store(to, low, mask=inside)
        tl.store(to + HALF, high, mask=inside)
    else:
        to = values + batch * memory_row + (head - heads - groups) * memory_head + slot * 2 * HALF + place
        tl.store(to, low, mask=inside)
        tl.store(to + HALF, high, mask=inside)


def add_norm(x: Any, residual: Any, weight: Any, epsilon: float) -> tuple[Any, Any]:
    """`fused_layer.add_norm`."""
    x, width = x.contiguous(), x.shape[-1]
    summed = x if residual is None else x.new_empty(x.shape)
    normed = summed if weight is None else x.new_empty(x.shape)
    _add_norm[(x.numel() // width,)](
        x, x if residual is None else residual, x if weight is None else weight, summed, normed, width, epsilon,
        ADDS=residual is not None, NORMS=weight is not None, BLOCK=triton.next_power_of_2(width), num_warps=8,
    )  # fmt: skip
    return summed, normed


def silu_mul(gate_up: Any) -> Any:
    """`fused_layer.silu_mul`."""
    width = gate_up.shape[-1] // 2
    out, block = gate_up.new_empty((*gate_up.shape[:-1], width)), min(1024, triton.next_power_of_2(width))
    _silu_mul[(out.numel() // width, triton.cdiv(width, block))](gate_up, out, width, BLOCK=block, num_warps=4)
    return out


def rotate_and_write(qkv: Any, turns: tuple[Any, Any], slots: Any, keys: Any, values: Any, heads: int) -> Any:
    """`fused_layer.rotate_and_write`."""
    (batch, count), (groups, width) = qkv.shape[:2], (keys.shape[1], keys.shape[3])
    cos, sin = turns
    queries = qkv.new_empty(batch, groups, heads // groups * count, width)
    _rotate_and_write[(batch * count, heads + 2 * groups)](
        qkv, cos, sin, slots, queries, keys, values, count, heads, groups, cos.stride(0) if len(cos) > 1 else 0,
        slots.stride(0) if len(slots) > 1 else 0, keys.stride(0), keys.stride(1), HALF=width // 2,
        BLOCK=triton.next_power_of_2(width // 2), num_warps=1,
    )  # fmt: skip
    return queries
