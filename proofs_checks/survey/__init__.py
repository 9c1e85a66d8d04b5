"""Survey: every published verifier, evaluated exactly, with the smallest counterexample and the distance to
the optimum."""

import importlib
import pkgutil

from . import works
from .evaluation import Evaluation, evaluate_work
from .record import Work

_MODULES = [importlib.import_module(f"{works.__name__}.{file.name}") for file in pkgutil.iter_modules(works.__path__)]
REGISTER: dict[str, tuple[Work, str]] = {  # every work by its name, with what its file says
    work.name: (work, (module.__doc__ or "").strip())
    for module in _MODULES
    for work in getattr(module, "WORKS", None) or (module.WORK,)
}
__all__ = ["REGISTER", "Evaluation", "Work", "evaluate_work"]
