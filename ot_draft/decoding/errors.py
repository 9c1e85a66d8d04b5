"""What decoding refuses: what was asked for cannot be done, in one line that names the remedy."""

from __future__ import annotations

from ..errors import DraftSelectionError


class CannotDecode(DraftSelectionError, ValueError):
    """Models, prompts or options that do not fit: one line, with what was given and what to give instead."""
