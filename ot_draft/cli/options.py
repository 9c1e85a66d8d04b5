"""Options that several commands have."""

from __future__ import annotations

from typing import Any

import click

from .refused import Refused


class Numbers(click.ParamType):
    """Different whole numbers from 1 on, like 1,2,4,8."""

    name = "numbers"

    def convert(self, value: Any, param: Any, context: Any) -> tuple[int, ...]:
        try:
            numbers = value if isinstance(value, tuple) else tuple(int(part) for part in value.split(","))
        except ValueError:
            numbers = ()
        if not numbers or min(numbers) < 1 or len(set(numbers)) < len(numbers):
            raise Refused(f"--k {value}: give different numbers of drafts, like 1,2,4,8")
        return numbers


def parts(text: str) -> list[str]:
    """What stands between the commas."""
    return [part.strip() for part in text.split(",") if part.strip()]
