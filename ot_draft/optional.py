"""Packages of the extras: imported where they are first used; where one is missing, the error names the extra that brings it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .errors import MissingPackage


def load(package: str, extra: str) -> Any:
    """The module, imported when first used; MissingPackage names the extra to install."""
    root = package.partition(".")[0]
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != root:
            raise
        raise MissingPackage(root, extra) from None
