"""Where formulas meet their fast forms: the package `ot_draft.fast` is asked first, and the formula does not know how it is made fast."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar, cast

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_uses_fast_forms = ContextVar("_uses_fast_forms", default=True)


def accelerated(module: str) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Decorate a formula: the function of its name in `ot_draft.fast.{module}` is called first.

    The fast form has the formula's parameters and result. It returns NotImplemented for arguments that it does not take.
    A leading underscore of the formula's name is dropped. The module is imported at the first call.
    """

    def decorate(formula: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @cache
        def fast_form() -> Callable[Parameters, Any]:
            found = getattr(import_module(f"ot_draft.fast.{module}"), formula.__name__.lstrip("_"))
            return cast(Callable[Parameters, Any], found)

        @wraps(formula)
        def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            if _uses_fast_forms.get() and (result := fast_form()(*args, **kwargs)) is not NotImplemented:
                return cast(Result, result)
            return formula(*args, **kwargs)

        return call

    return decorate


def for_floats(loop: Callable[..., Any], masses: Any) -> Callable[..., Any]:
    """Return the loop compiled where the masses are floats; the loop itself for Fractions, or where no compiler is installed.

    For loops that are the formula: they run on Fractions as they stand, without calls of numpy and without float literals.
    """
    if masses.dtype.hasobject or not _uses_fast_forms.get():
        return loop
    return import_module("ot_draft.fast.loops").compiled(loop) or loop


@contextmanager
def formulas_only() -> Iterator[None]:
    """Leave the fast forms out within the block: every formula runs as it is written."""
    token = _uses_fast_forms.set(False)
    try:
        yield
    finally:
        _uses_fast_forms.reset(token)
