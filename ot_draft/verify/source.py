"""Numbers, values and problems as text and as Python, and the counterexample that is shown with them."""

from __future__ import annotations

import inspect
import sys
import sysconfig
from dataclasses import MISSING, dataclass, fields, is_dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Array
from ..problem import Problem


def is_long(value: Any, max_digits: int = 20) -> bool:
    """Whether a number is a fraction that nobody can read.

    max_digits: in all. A fraction next to a float's last place has 33, one with a subnormal mass hundreds.
    """
    return isinstance(value, Fraction) and len(f"{value.numerator}{value.denominator}") > max_digits


def number(value: Any) -> str:
    """1/3; of a fraction of over 20 digits the float, 0.49999999999999994, with ≈ before it where it is next to one only."""
    if not is_long(value):
        return str(value)
    near = float(value)
    if Fraction(near) == value:
        return repr(near)
    decimals = Context(prec=17)  # of a float64; unlike a float itself they tell subnormal numbers apart
    return f"≈{decimals.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize()}"


def numbers(values: Array) -> str:
    """Masses in a text: (1/2, 1/3)."""
    return "(" + ", ".join(map(number, np.asarray(values).ravel().tolist())) + ")"


def magnitude(value: Fraction | float) -> str:
    """A distance for readers: 1/96 ≈ 0.0104; without the fraction if that is long."""
    short = f"{float(value):.3g}"
    if not isinstance(value, Fraction):
        return short
    if is_long(value):
        return number(value) if float(value) == 0 else f"≈ {short}"
    return f"{value} {'=' if Fraction(short) == value else '≈'} {short}"


def fraction_source(value: Fraction) -> str:
    """Python that makes exactly this Fraction, with `F` for the class: of floats where it has over 20 digits and they can."""
    if is_long(value):
        near = float(value)
        rest = value - Fraction(near)
        if rest == 0:
            return f"F({near!r})"
        if Fraction(float(rest)) == rest:
            return f"F({near!r}) {'-' if rest < 0 else '+'} F({float(abs(rest))!r})"
    return f"F({value.numerator}, {value.denominator})" if value.denominator > 1 else f"F({value})"


@dataclass(frozen=True)
class RuleSource:
    """Python that makes a rule. imports: lines to execute first, in this order. expression: makes the rule after them."""

    imports: tuple[str, ...]
    expression: str


def rule_source(rule: Any) -> RuleSource:
    """Python that makes a rule again: by its dataclass fields, or by attributes that bear the names of its arguments."""
    imports: list[str] = []
    expression = value_source(rule, imports)
    return RuleSource(tuple(dict.fromkeys(imports)), expression)


@singledispatch
def value_source(value: Any, imports: list[str], name: str = "") -> str:
    """A value as an expression; the lines that it needs are added to imports. name: for a function that has none."""
    if inspect.ismethod(value):
        return f"{value_source(value.__self__, imports)}.{value.__name__}"
    if callable(value) and hasattr(value, "__qualname__"):
        return _named(value, imports, name)
    arguments = [f"{name}={value_source(each, imports)}" for name, each in _arguments(value).items()]
    return f"{_named(type(value), imports)}({', '.join(arguments)})"


@value_source.register(Fraction)
def _fraction(value: Fraction, imports: list[str], name: str = "") -> str:
    return fraction_source(value)


@value_source.register(str)
@value_source.register(int)
@value_source.register(float)
@value_source.register(type(None))
def _literal(value: object, imports: list[str], name: str = "") -> str:
    return repr(value)


@value_source.register(np.ndarray)
def _array(value: Array, imports: list[str], name: str = "") -> str:
    return f"np.array({value_source(value.tolist(), imports)})"


@value_source.register(dict)
def _dictionary(value: dict[Any, Any], imports: list[str], name: str = "") -> str:
    return "{" + ", ".join(f"{key!r}: {value_source(each, imports)}" for key, each in value.items()) + "}"


@value_source.register(list)
def _list(value: list[Any], imports: list[str], name: str = "") -> str:
    return f"[{', '.join(value_source(each, imports) for each in value)}]"


@value_source.register(tuple)
def _tuple(value: tuple[Any, ...], imports: list[str], name: str = "") -> str:
    return f"({', '.join(value_source(each, imports) for each in value)}{',' * (len(value) == 1)})"


@value_source.register(Problem)
def _problem(value: Problem, imports: list[str], name: str = "") -> str:
    return problem_source(value, imports)


def _arguments(value: Any) -> dict[str, Any]:
    """The arguments that the value was made with: those whose value is kept under their own name, and is no default."""
    if is_dataclass(value):
        known = {f.name: f.default for f in fields(value) if f.init}
    else:
        signature = inspect.signature(type(value))
        known = {name: each.default for name, each in signature.parameters.items() if name in vars(value)}
    arguments = {name: getattr(value, name) for name in known}
    return {name: each for name, each in arguments.items() if not _is_default(each, known[name])}


def _is_default(value: Any, default: Any) -> bool:
    if default is MISSING or default is inspect.Parameter.empty or type(value) is not type(default):
        return False
    return value is default or (not isinstance(value, np.ndarray) and bool(value == default))


def _named(value: Any, imports: list[str], instead: str = "") -> str:
    module, name = value.__module__, value.__qualname__
    if instead and (module is None or "<lambda>" in name):
        imports.append(f"{instead} = ...  # {name} of {module}: paste it here")
        return instead
    if module.startswith("ot_draft.laws"):
        return f"otd.{name}"
    if module.startswith("ot_draft.rules") and isinstance(value, type):
        return f"otd.rules.{name}"
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
    installed = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    own = file is not None and not any(map(Path(file).is_relative_to, installed))
    if file is None or not own or module.split(".")[0] in sys.stdlib_module_names | {"ot_draft"}:
        return [f"from {module} import {name}"]
    path = Path(file).resolve()
    path = path.parent if path.stem == "__init__" else path
    folder = path.parents[module.count(".")]
    return ["import sys", f"sys.path.insert(0, {str(folder)!r})", f"from {module} import {name}"]


EVALUATE = """result = otd.evaluate(rule, problem)
print("output:", *result.output)
print("target:", *problem.p)
print("total variation distance:", result.error)"""


class Counterexample(AssertionError):
    """A problem on which a rule breaks a property.

    problem: the problem, in Fractions. seen: what came out. decides: whether it refutes the property; False where the rule
    raised an error, or gave floats that are right up to rounding, so that the property could not be looked at. crash: whether
    it shows an error that the rule raised. distance: total variation distance between the output distribution and the target, the
    largest of a batch; None if the property does not compare them. overwrites: whether it is there only because the rule writes
    into its arguments. shows: Python lines that show it, given `rule` and `problem`.
    """

    shows = EVALUATE

    overwrites = False

    def __init__(
        self, problem: Problem, seen: str, decides: bool = True, crash: bool = False, distance: Fraction | float | None = None
    ) -> None:  # fmt: skip
        seen = seen if distance is None else f"{seen}; total variation distance {magnitude(distance)}"
        super().__init__(seen)
        self.problem, self.seen, self.decides, self.crash, self.distance = problem, seen, decides, crash, distance

    @property
    def record(self) -> dict[str, Any]:
        """The problem and the total variation distance as plain data; the exact distance is a string, None for a float."""
        exact = str(self.distance) if isinstance(self.distance, Fraction) else None
        distance = None if self.distance is None else float(self.distance)
        distances = {"total_variation": distance, "total_variation_exact": exact}
        return problem_record(self.problem) | distances | {"overwrites": self.overwrites}

    def code(self, rule: Any, source: RuleSource | None = None) -> str:
        """Python that can be pasted and run: makes the rule and the problem, and shows what is wrong.

        source: what makes the rule; without it, it is read off the rule.
        """
        source = source or rule_source(rule)
        imports: list[str] = []
        problem = problem_source(self.problem, imports)
        body = f"rule = {source.expression}\nproblem = {problem}\n{self.shows}\n"
        seen = "".join(f"# {line}\n" for line in self.seen.splitlines())
        before = [*source.imports, *imports]
        plain = {line for line in before if line.startswith("import ")} | {"from fractions import Fraction as F"}
        others = {f"import {name}" for name in ("torch",) if f"{name}." in body} | {"import ot_draft as otd"}
        others |= {"import numpy as np"} if "np." in body else set()
        own = [line for line in dict.fromkeys(before) if line not in plain]
        blocks = (sorted(plain, key=lambda line: line.startswith("from")), sorted(others), own, [body + seen])
        return "\n\n".join("\n".join(block) for block in blocks if block)


def problem_record(problem: Problem) -> dict[str, Any]:
    """The problem as plain data: masses as strings, exact."""
    p, q = (np.vectorize(str, otypes=[object])(x).tolist() for x in (problem.p, problem.q))
    return {"p": p, "q": q, "k": problem.k, "law": repr(problem.law)}


def problem_source(problem: Problem, imports: list[str]) -> str:
    """The problem as an expression; the lines that its law needs are added to imports."""
    p, q = (value_source(x.tolist(), []) if x.size else f"np.zeros({x.shape})" for x in (problem.p, problem.q))
    return f"otd.Problem({p}, {q}, k={problem.k}, law={value_source(problem.law, imports)})"
