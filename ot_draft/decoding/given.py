"""Checks of integers that callers pass."""

from __future__ import annotations

from operator import index
from typing import Any

from ..errors import CannotDecode


def check_whole(name: str, value: Any, least: int | None = None) -> None:
    """CannotDecode for what is not an integer, or less than `least`."""
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None:
        raise CannotDecode(f"{name} must be an integer, got {value!r}. Pass an integer.")
    if least is not None and number < least:
        raise CannotDecode(f"{name} must be at least {least}, got {value}. Pass a larger number.")


def check_paths(paths: Any, length: Any) -> None:
    """CannotDecode for what is not a number of paths and their length."""
    check_whole("paths", paths)
    check_whole("length", length)
    if paths < 1 or length < 1:
        raise CannotDecode(f"paths and length must be at least 1, got {paths} and {length}. Use positive numbers.")


def check_each_whole(name: str, given: Any) -> None:
    """CannotDecode for what is not a list of integers."""
    try:
        values = None if isinstance(given, str | bytes) else list(given)
    except TypeError:
        values = None
    if values is None:
        raise CannotDecode(f"{name} must be a list of integers, got {given!r}. Pass a list, such as [2].")
    for value in values:
        check_whole(f"each of {name}", value)
