"""What a caller gives is a number of the kind that is wanted, or the error says what it is and what to give."""

from __future__ import annotations

from operator import index
from typing import Any

from ..errors import CannotDecode


def check_whole(name: str, value: Any, least: int | None = None) -> None:
    """CannotDecode for what is no whole number, or one below the least."""
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None:
        raise CannotDecode(f"{name} is {value!r}: give a whole number")
    if least is not None and number < least:
        raise CannotDecode(f"{name} is {value}: give at least {least}")


def check_each_whole(name: str, one: str, values: Any) -> None:
    """CannotDecode for what is no list of whole numbers; one: what each of them is called."""
    try:
        values = None if isinstance(values, str | bytes) else list(values)
    except TypeError:
        values = None
    if values is None:
        raise CannotDecode(f"{name} is not a list: give a list of whole numbers, [2]")
    for value in values:
        check_whole(one, value)
