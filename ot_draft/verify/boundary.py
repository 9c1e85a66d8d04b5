"""Checks of arguments that the public functions of the verifiers share."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InvalidArgument


def check_number(name: str, value: Any, least: int) -> None:
    """Raise InvalidArgument unless value is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidArgument(f"{name} must be an integer of at least {least}, got {value!r}")
