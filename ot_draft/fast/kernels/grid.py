"""What the kernels and their launchers share: sizes of launches, rows, and the number of drafts of a row."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

EXACT = {"enable_fp_fusion": False}  # products are fused with sums where a kernel says so, on every version of triton
BITS = tl.constexpr(16)  # of the number of drafts


@triton.jit
def number_of_drafts(drafts, row, k, K: tl.constexpr):
    """Number of drafts of the row that are present."""
    place = tl.arange(0, K)
    return tl.sum((tl.load(drafts + row * k + place, mask=place < k, other=-1) >= 0).to(tl.int32))


def rows(x: Any, batch: tuple[int, ...]) -> Any:
    """x (..., m) as contiguous rows (R, m) of the batch; no copy where it has that shape."""
    return apart(x, batch).contiguous()


def apart(x: Any, batch: tuple[int, ...]) -> Any:
    """x (..., m) as rows (R, m) of the batch, each contiguous, `stride(0)` numbers from one to the next; fewer copies than `rows`."""
    found = x.expand(*batch, x.shape[-1]).reshape(-1, x.shape[-1])
    return found if found.stride(1) == 1 else found.contiguous()


def split(count: int, n: int, block: int, max_programs_per_row: int = 64, full_device: int = 4096) -> tuple[int, int]:
    """Number of programs that share one of `count` rows of n tokens, a power of 2, and the tokens of each, a multiple of `block`.

    full_device: number of programs of one warp each that fill a large device.
    """
    number = 1
    while number < max_programs_per_row and number * count < full_device and number * block < n:
        number *= 2
    return number, -(-n // (number * block)) * block
