"""Sampling by inverse CDF: one pass over the vocabulary for block sums, and a second one over a single block."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from .grid import EXACT, rows

BLOCK = 1024  # tokens


@triton.jit
def _block_sums(mass, sums, n, BLOCK: tl.constexpr):
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    token = block * BLOCK + tl.arange(0, BLOCK)
    here = tl.load(mass + row * n + token, mask=token < n, other=0.0)
    tl.store(sums + row * tl.num_programs(1) + block, tl.sum(here))


@triton.jit
def _stretch(cumulative, target):
    """Number of entries <= target, at most the index of the first entry equal to the total."""
    passed = tl.sum((cumulative <= target).to(tl.int32))
    return tl.minimum(passed, tl.sum((cumulative < tl.max(cumulative)).to(tl.int32)))


@triton.jit
def _draw(mass, sums, uniform, token, n, blocks, draws, BLOCK: tl.constexpr, BLOCKS: tl.constexpr):
    """The token at which the cumulative mass exceeds uniform * total; its mass is positive, because comparisons are strict."""
    row, draw = tl.program_id(0).to(tl.int64), tl.program_id(1)
    number, place = tl.arange(0, BLOCKS), tl.arange(0, BLOCK)
    sum_of = tl.load(sums + row * blocks + number, mask=number < blocks, other=0.0).to(tl.float64)
    outer = tl.cumsum(sum_of, 0)
    target = tl.load(uniform + row * draws + draw).to(tl.float64) * tl.max(outer)
    block = _stretch(outer, target)
    before = tl.sum(tl.where(number < block, sum_of, 0.0))
    inside = block * BLOCK + place
    here = tl.load(mass + row * n + inside, mask=inside < n, other=0.0).to(tl.float64)
    tl.store(token + row * draws + draw, block * BLOCK + _stretch(tl.cumsum(here, 0), target - before))


def inverse_cdf(mass: Any, uniform: Any) -> Any:
    """`arrays.inverse_cdf`: unnormalised masses (..., n), uniforms (..., m) in [0, 1) -> int64 (..., m)."""
    batch, n, draws = tuple(uniform.shape[:-1]), mass.shape[-1], uniform.shape[-1]
    mass, numbers = rows(mass, batch), rows(uniform, batch)
    blocks = -(-n // BLOCK)
    sums = mass.new_empty(len(mass), blocks)
    token = numbers.new_empty(numbers.shape).long()
    _block_sums[len(mass), blocks](mass, sums, n, BLOCK=BLOCK, num_warps=4, **EXACT)
    sizes = {"BLOCK": BLOCK, "BLOCKS": triton.next_power_of_2(blocks)}
    _draw[len(mass), draws](mass, sums, numbers, token, n, blocks, draws, num_warps=4, **sizes, **EXACT)
    return token.reshape(uniform.shape)
