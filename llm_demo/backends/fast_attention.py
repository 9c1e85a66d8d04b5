"""Attention over the slots that each token sees, one list a token: its sums are added in the order of the text wherever its slots lie.

A token of a tree reads the same keys and values in the same order as the same token of autoregressive decoding, by the same instructions,
so that
attention gives the same bits. Whether the products around it do, in passes of other widths, depends on their size and on the processor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ot_draft import MissingPackage
from ot_draft.fast.loops import compiled

FASTER = frozenset({"reassoc", "contract", "nsz", "arcp"})  # the order of a list's sums depends on its length alone
STEP = 4  # values that are added at a time
FLOOR = -87.0  # e to its power is the least that is told from 0
LOG2_E, LN_2_HIGH, LN_2_LOW = 1.44269504, 0.693359375, -2.12194440e-4


def lists(attention_mask, slots_per_row, found, counts):  # numba compiles this very function
    """Fill found (R, most) and counts (R,) with the slots that each of B x T tokens sees, bool (B or 1, T, live), in order."""
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
    """The function `attend` for heads of this width, so many of which read the same keys: with their numbers known it is a fifth faster."""

    def attend(qkv, keys, values, slots, found, counts, cosines, sines, room, powers, out):  # noqa: C901
        """Turn queries and keys, write keys and values of R tokens to their slots, and fill out (R, heads * width).

        qkv: (R, (heads + 2 groups) * width). keys, values: (slots, groups, width). cosines, sines: (R, width / 2). room, powers: memory of
        heads of a group x the longest list; powers as whole numbers.
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
                for place in range(0, whole, STEP):
                    a, b, c, d = (
                        keys[found[row, place], group],
                        keys[found[row, place + 1], group],
                        keys[found[row, place + 2], group],
                        keys[found[row, place + 3], group],
                    )
                    for member in range(together):
                        query = out[row, first + member * width : first + (member + 1) * width]
                        dot_a, dot_b, dot_c, dot_d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
                        for i in range(width):
                            dot_a += query[i] * a[i]
                            dot_b += query[i] * b[i]
                            dot_c += query[i] * c[i]
                            dot_d += query[i] * d[i]
                        room[member, place], room[member, place + 1] = dot_a, dot_b
                        room[member, place + 2], room[member, place + 3] = dot_c, dot_d
                for place in range(whole, count):
                    a = keys[found[row, place], group]
                    for member in range(together):
                        query, dot_a = out[row, first + member * width : first + (member + 1) * width], np.float32(0)
                        for i in range(width):
                            dot_a += query[i] * a[i]
                        room[member, place] = dot_a
                for member in range(together):
                    own, power_of, lifted_by = room[member], powers[member], lifted[member]
                    largest = np.float32(-np.inf)
                    for place in range(count):
                        largest = max(largest, own[place])
                    for place in range(count):
                        x = max(own[place] - largest, np.float32(FLOOR))
                        power = np.floor(x * np.float32(LOG2_E) + np.float32(0.5))
                        x = x - power * np.float32(LN_2_HIGH) - power * np.float32(LN_2_LOW)
                        grown = np.float32(1.9875691500e-4) * x + np.float32(1.3981999507e-3)
                        grown = grown * x + np.float32(8.3334519073e-3)
                        grown = grown * x + np.float32(4.1665795894e-2)
                        grown = grown * x + np.float32(1.6666665459e-1)
                        grown = grown * x + np.float32(5.0000001201e-1)
                        own[place] = grown * x * x + x + np.float32(1)
                        power_of[place] = (np.int32(power) + np.int32(127)) << np.int32(23)
                    total = np.float32(0)
                    for place in range(count):
                        own[place] *= lifted_by[place]
                        total += own[place]
                    share = np.float32(1) / total
                    for place in range(count):
                        own[place] *= share
                    query = out[row, first + member * width : first + (member + 1) * width]
                    for i in range(width):
                        query[i] = np.float32(0)
                for place in range(0, whole, STEP):
                    a, b, c, d = (
                        values[found[row, place], group],
                        values[found[row, place + 1], group],
                        values[found[row, place + 2], group],
                        values[found[row, place + 3], group],
                    )
                    for member in range(together):
                        query = out[row, first + member * width : first + (member + 1) * width]
                        of_a, of_b = room[member, place], room[member, place + 1]
                        of_c, of_d = room[member, place + 2], room[member, place + 3]
                        for i in range(width):
                            query[i] += of_a * a[i] + of_b * b[i] + of_c * c[i] + of_d * d[i]
                for place in range(whole, count):
                    a = values[found[row, place], group]
                    for member in range(together):
                        query, of_a = (
                            out[row, first + member * width : first + (member + 1) * width],
                            room[member, place],
                        )
                        for i in range(width):
                            query[i] += of_a * a[i]

    return attend


@cache
def kernels(width: int, together: int) -> tuple[Any, Any]:
    """`lists` and `attend_with`, compiled. MissingPackage without numba: as loops of Python they would take seconds a pass."""
    made = compiled(lists), compiled(attend_with(width, together), FASTER)
    if None in made:
        raise MissingPackage("numba", "openvino")
    return made
