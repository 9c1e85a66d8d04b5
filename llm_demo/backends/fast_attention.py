"""Attention over the slots that each token attends to, one list per token; sums are in the order of the sequence for any slots.

A token of a tree reads the same keys and values, in the same order and by the same instructions, as in autoregressive decoding, so that
attention is bitwise identical. Whether the matrix products are, with other numbers of rows, depends on their size and on the processor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ot_draft import MissingPackage
from ot_draft.fast.loops import compiled

FASTER = frozenset({"reassoc", "contract", "nsz", "arcp"})  # the order of a list's sums depends on its length alone
STEP = 4  # number of values that are added at once
FLOOR = -87.0  # smaller exponents are treated as this one
LOG2_E, LN_2_HIGH, LN_2_LOW = 1.44269504, 0.693359375, -2.12194440e-4


def lists(attention_mask, slots_per_row, found, counts):  # numba compiles this very function
    """Fill found (R, most) and counts (R,) with the slots that each of B x T tokens attends to, in order; mask: bool (B or 1, T, live)."""
    texts, length, live = attention_mask.shape
    for row in range(len(counts)):
        text, token, count = row // length, row % length, 0
        seen = attention_mask[text if texts > 1 else 0, token]
        for slot in range(live):
            if seen[slot]:
                found[row, count] = text * slots_per_row + slot
                count += 1
        counts[row] = count


def attend_with(width: int, together: int) -> Callable[..., None]:  # noqa: C901, PLR0915 one loop nest that numba compiles
    """Return the function `attend` for heads of this width, `together` of which share keys; constant numbers save a fifth of the time."""

    def attend(qkv, keys, values, slots, found, counts, cosines, sines, room, powers, out):  # noqa: C901
        """Apply RoPE to queries and keys, write keys and values of R tokens to their slots, and fill out (R, heads * width).

        qkv: (R, (heads + 2 groups) * width). keys, values: (slots, groups, width). cosines, sines: (R, width / 2). room, powers: buffers of
        shape (heads of a group, longest list); powers are integers.
        """
        rows, groups, half = len(qkv), keys.shape[1], width // 2
        heads, scale = groups * together, np.float32(1 / np.sqrt(width))
        lifted = powers.view(np.float32)
        for row in range(rows):
            slot = slots[row]
            for head in range(heads + groups):
                start = head * width
                for i in range(half):
                    cosine, sine = cosines[row, i], sines[row, i]
                    one, other = qkv[row, start + i], qkv[row, start + half + i]
                    if head < heads:
                        out[row, start + i] = (one * cosine - other * sine) * scale
                        out[row, start + half + i] = (other * cosine + one * sine) * scale
                    else:
                        keys[slot, head - heads, i] = one * cosine - other * sine
                        keys[slot, head - heads, half + i] = other * cosine + one * sine
            start = (heads + groups) * width
            for group in range(groups):
                for i in range(width):
                    values[slot, group, i] = qkv[row, start + group * width + i]
        for row in range(rows):
            count = counts[row]
            whole = count - count % STEP
            for group in range(groups):
                first = group * together * width
                for index in range(0, whole, STEP):
                    a, b, c, d = (
                        keys[found[row, index], group],
                        keys[found[row, index + 1], group],
                        keys[found[row, index + 2], group],
                        keys[found[row, index + 3], group],
                    )
                    for member in range(together):
                        query = out[row, first + member * width : first + (member + 1) * width]
                        dot_a, dot_b, dot_c, dot_d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
                        for i in range(width):
                            dot_a += query[i] * a[i]
                            dot_b += query[i] * b[i]
                            dot_c += query[i] * c[i]
                            dot_d += query[i] * d[i]
                        room[member, index], room[member, index + 1] = dot_a, dot_b
                        room[member, index + 2], room[member, index + 3] = dot_c, dot_d
                for index in range(whole, count):
                    a = keys[found[row, index], group]
                    for member in range(together):
                        query, dot_a = out[row, first + member * width : first + (member + 1) * width], np.float32(0)
                        for i in range(width):
                            dot_a += query[i] * a[i]
                        room[member, index] = dot_a
                for member in range(together):
                    own, power_of, lifted_by = room[member], powers[member], lifted[member]
                    largest = np.float32(-np.inf)
                    for index in range(count):
                        largest = max(largest, own[index])
                    for index in range(count):
                        x = max(own[index] - largest, np.float32(FLOOR))
                        power = np.floor(x * np.float32(LOG2_E) + np.float32(0.5))
                        x = x - power * np.float32(LN_2_HIGH) - power * np.float32(LN_2_LOW)
                        grown = np.float32(1.9875691500e-4) * x + np.float32(1.3981999507e-3)
                        grown = grown * x + np.float32(8.3334519073e-3)
                        grown = grown * x + np.float32(4.1665795894e-2)
                        grown = grown * x + np.float32(1.6666665459e-1)
                        grown = grown * x + np.float32(5.0000001201e-1)
                        own[index] = grown * x * x + x + np.float32(1)
                        power_of[index] = (np.int32(power) + np.int32(127)) << np.int32(23)
                    total = np.float32(0)
                    for index in range(count):
                        own[index] *= lifted_by[index]
                        total += own[index]
                    share = np.float32(1) / total
                    for index in range(count):
                        own[index] *= share
                    query = out[row, first + member * width : first + (member + 1) * width]
                    for i in range(width):
                        query[i] = np.float32(0)
                for index in range(0, whole, STEP):
                    a, b, c, d = (
                        values[found[row, index], group],
                        values[found[row, index + 1], group],
                        values[found[row, index + 2], group],
                        values[found[row, index + 3], group],
                    )
                    for member in range(together):
                        query = out[row, first + member * width : first + (member + 1) * width]
                        of_a, of_b = room[member, index], room[member, index + 1]
                        of_c, of_d = room[member, index + 2], room[member, index + 3]
                        for i in range(width):
                            query[i] += of_a * a[i] + of_b * b[i] + of_c * c[i] + of_d * d[i]
                for index in range(whole, count):
                    a = values[found[row, index], group]
                    for member in range(together):
                        query, of_a = (
                            out[row, first + member * width : first + (member + 1) * width],
                            room[member, index],
                        )
                        for i in range(width):
                            query[i] += of_a * a[i]

    return attend


@cache
def kernels(width: int, together: int) -> tuple[Any, Any]:
    """Return compiled `lists` and `attend`. Raises MissingPackage without numba: Python loops take seconds per forward pass."""
    made = compiled(lists), compiled(attend_with(width, together), FASTER)
    if None in made:
        raise MissingPackage("numba", "openvino")
    return made
