"""What makes passes of few tokens cheap on a CPU: other layouts and fewer bits of weights, products made together, no copies."""

from .attention import GROUPED, group_heads
from .joined import Part, join
from .lean import make_lean
from .packed import (
    Float16Linear,
    Int8Linear,
    PackedLinear,
    bytes_read,
    has_short_products,
    pack,
    pack_draft,
    pack_float16,
)

__all__ = [
    "GROUPED",
    "Float16Linear",
    "Int8Linear",
    "PackedLinear",
    "Part",
    "bytes_read",
    "group_heads",
    "has_short_products",
    "join",
    "make_lean",
    "pack",
    "pack_draft",
    "pack_float16",
]
