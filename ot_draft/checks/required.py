"""The package that draws and shrinks the cases; the rest of ot_draft does without it."""

from __future__ import annotations

from ..errors import MissingPackage

try:
    import hypothesis
    import hypothesis.strategies
except ImportError:
    raise MissingPackage("hypothesis", "check") from None

__all__ = ["hypothesis"]
