"""Old names that still work for one version: whoever uses one gets what it is called now, and a DeprecationWarning."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def renamed(module: str, names: Mapping[str, str], lazily: Callable[[str], Any] | None = None) -> Callable[[str], Any]:
    """The `__getattr__` of a module some of whose public names are called otherwise now.

    names: the old name, and the new one where it stands now: {"Outcome": "ot_draft.checks.PropertyOutcome"}. lazily: a
    `__getattr__` of the module's own, asked for every other name. The old names stay out of the module's `__all__`.

        __getattr__ = renamed(__name__, {"Outcome": "ot_draft.checks.PropertyOutcome"})
    """

    def __getattr__(name: str) -> Any:
        if name in names:
            owner, _, attribute = names[name].rpartition(".")
            _warn(f"{module}.{name}", names[name])
            return getattr(importlib.import_module(owner), attribute)
        if lazily is not None:
            return lazily(name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__


class RenamedAttribute:
    """An attribute or a method under its old name, in the body of the class: `law = RenamedAttribute("output")`."""

    def __init__(self, new: str) -> None:
        self.new = new

    def __set_name__(self, owner: type, name: str) -> None:
        self.old = name

    def __get__(self, instance: Any, owner: type) -> Any:
        _warn(f"{owner.__name__}.{self.old}", f"{owner.__name__}.{self.new}")
        return getattr(owner if instance is None else instance, self.new)


def _warn(old: str, new: str) -> None:
    """Said to the line that uses the old name."""
    warnings.warn(
        f"{old} is called {new} now; the old name goes with the next version", DeprecationWarning, stacklevel=3
    )
