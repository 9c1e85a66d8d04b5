"""Common functions of kernels and launchers: launch sizes, rows, and the number of draft tokens of a row."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

EXACT = {
    "enable_fp_fusion": False
}  # fused multiply-add only where a kernel uses it explicitly, in all versions of triton
BITS = tl.constexpr(16)  # max. number of bits of the number of draft tokens


@triton.jit
def number_of_drafts(drafts, row, k, K: tl.constexpr):
    """Number of drafts of the row that are present."""
    index = tl.arange(0, K)
    return tl.sum((tl.load(drafts + row * k + index, mask=index < k, other=-1) >= 0).to(tl.int32))


def rows(x: Any, batch: tuple[int, ...]) -> Any:
    """x (..., m) as contiguous rows (R, m) of the batch, without a copy if possible."""
    return rows_of(x, batch).contiguous()


def rows_of(x: Any, batch: tuple[int, ...]) -> Any:
    """x (..., m) as rows (R, m) of the batch, each contiguous, at any `stride(0)`; fewer copies than `rows`."""
    found = x.expand(*batch, x.shape[-1]).reshape(-1, x.shape[-1])
    return found if found.stride(1) == 1 else found.contiguous()


def split(count: int, n: int, block: int, max_programs_per_row: int = 64, full_device: int = 4096) -> tuple[int, int]:
    """Number of programs per row for `count` rows of n tokens, a power of 2, and tokens per program, a multiple of `block`.

    full_device: number of programs of one warp that occupy a large device.
    """
    number = 1
    while number < max_programs_per_row and number * count < full_device and number * block < n:
        number *= 2
    return number, -(-n // (number * block)) * block
