"""Packages that come with an extra: imported when they are first used, and named with their remedy where they are missing."""

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

from .errors import MissingPackage


def load(package: str, extra: str, distribution: str = "") -> Any:
    """The module, imported when first used; MissingPackage says how to install what the extra brings.

    distribution: its name on the package index, where that is another.
    """
    root = package.partition(".")[0]
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != root:
            raise
        raise MissingPackage(distribution or root, extra) from None


def require(*packages: str, extra: str) -> None:
    """MissingPackage for the first of the packages that is not installed; none of them is loaded."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingPackage(package, extra)


def entry_points_of(group: str) -> list[EntryPoint]:
    """The entry points of a group by name, without those of a package that is not there: a wheel names some of the clone's."""
    found = sorted(entry_points(group=group), key=lambda entry: entry.name)
    return [entry for entry in found if find_spec(entry.module.partition(".")[0]) is not None]
