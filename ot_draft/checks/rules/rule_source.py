"""Values as Python source: what makes a rule, a law or a distribution again when it is pasted into a file and run."""

from __future__ import annotations

import inspect
import sys
import sysconfig
from dataclasses import MISSING, dataclass, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import Array


@dataclass(frozen=True)
class RuleSource:
    """Python that makes a rule. imports: lines to execute first, in this order. expression: makes the rule after them."""

    imports: tuple[str, ...]
    expression: str


def rule_source(rule: Any) -> RuleSource:
    """How a rule is made again: by its dataclass fields, or by attributes that bear the names of its arguments."""
    imports: list[str] = []
    expression = value_source(rule, imports)
    return RuleSource(tuple(dict.fromkeys(imports)), expression)


def value_source(value: Any, imports: list[str]) -> str:
    """A value as an expression; the lines that it needs are added to imports."""
    if isinstance(value, Fraction):
        return f"F({value.numerator}, {value.denominator})" if value.denominator > 1 else f"F({value})"
    if isinstance(value, str | int | float | bool | None):
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"np.array({_nested(value.tolist(), imports)})"
    if isinstance(value, tuple | list | dict):
        return _nested(value, imports)
    if callable(value) and hasattr(value, "__qualname__"):
        return _named(value, imports)
    given = [f"{name}={value_source(each, imports)}" for name, each in _arguments(value).items()]
    return f"{_named(type(value), imports)}({', '.join(given)})"


def masses_source(masses: Array) -> str:
    """Masses as nested lists."""
    if masses.size == 0:
        return f"np.zeros({masses.shape})"
    return _nested(masses.tolist(), [])


def _nested(values: Any, imports: list[str]) -> str:
    if isinstance(values, dict):
        return "{" + ", ".join(f"{key!r}: {value_source(each, imports)}" for key, each in values.items()) + "}"
    if isinstance(values, tuple | list):
        inside = ", ".join(_nested(value, imports) for value in values)
        if isinstance(values, tuple):
            return f"({inside},)" if len(values) == 1 else f"({inside})"
        return f"[{inside}]"
    return value_source(values, imports)


def _arguments(value: Any) -> dict[str, Any]:
    """What the value was made with: the arguments whose value is kept under their own name, and is no default."""
    if is_dataclass(value):
        known = {f.name: f.default for f in fields(value) if f.init}
    else:
        signature = inspect.signature(type(value))
        known = {name: each.default for name, each in signature.parameters.items() if name in vars(value)}
    given = {name: getattr(value, name) for name in known}
    return {name: each for name, each in given.items() if not _is_default(each, known[name])}


def _is_default(value: Any, default: Any) -> bool:
    if default is MISSING or default is inspect.Parameter.empty or type(value) is not type(default):
        return False
    return value is default or (not isinstance(value, np.ndarray) and bool(value == default))


def _named(value: Any, imports: list[str]) -> str:
    module, name = value.__module__, value.__qualname__
    if module.startswith("ot_draft.laws"):
        return f"ot.{name}"
    if module.startswith("ot_draft.rules") and isinstance(value, type):
        return f"ot.rules.{name}"
    if "<locals>" in name:
        short = str(name.rpartition(".")[2])
        imports.append(f"# {short} is defined inside a function of {module}: paste it here")
        return short
    imports.extend(import_lines(module, name.split(".")[0]))
    return str(name)


def import_lines(module: str, name: str) -> list[str]:
    """Lines that import a name from a module that is loaded here, from its own file where it is not installed."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" and file:
        module = Path(file).stem
    if file is None or module.split(".")[0] in sys.stdlib_module_names | {"ot_draft"} or _is_installed(Path(file)):
        return [f"from {module} import {name}"]
    path = Path(file).resolve()
    path = path.parent if path.stem == "__init__" else path
    folder = path.parents[module.count(".")]
    return ["import sys", f"sys.path.insert(0, {str(folder)!r})", f"from {module} import {name}"]


def _is_installed(file: Path) -> bool:
    return any(file.is_relative_to(sysconfig.get_path(name)) for name in ("purelib", "platlib"))
