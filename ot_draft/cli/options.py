"""Options that several commands have."""

from __future__ import annotations

from typing import Any

import click

from .refused import Refused


class Numbers(click.ParamType):
    """Different whole numbers from 1 on, like 1,2,4,8."""

    name = "numbers"

    def convert(self, value: Any, param: Any, context: Any) -> tuple[int, ...]:
        numbers = whole_numbers(value)
        if not numbers or len(set(numbers)) < len(numbers):
            option = param.opts[0] if param is not None else "numbers"
            raise Refused(f"{option} {value}: give different numbers from 1 on, like 1,2,4,8")
        return numbers


def whole_numbers(value: Any) -> tuple[int, ...]:
    """Whole numbers from 1 on between commas; () if it is anything else."""
    try:
        numbers = value if isinstance(value, tuple) else tuple(int(part) for part in value.split(","))
    except ValueError:
        return ()
    return numbers if min(numbers, default=0) >= 1 else ()


def parts(text: str) -> list[str]:
    """What stands between the commas."""
    return [part.strip() for part in text.split(",") if part.strip()]
