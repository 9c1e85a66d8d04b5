"""Draft selection in speculative decoding: the optimum, its certificate, every lossless rule, and the exact check of each."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

# Public names by the module that defines them. The module is loaded when the name is asked for. "": public packages.
_PUBLIC = {
    "": ("arrays", "laws", "lossy", "rules", "trees"),
    "errors": (
        "DraftSelectionError",
        "InvalidArgument",
        "InvalidDistribution",
        "InvalidDrafts",
        "MissingPackage",
        "SolverFailed",
    ),
    "problem": ("Problem",),
    "selection": ("Selection", "SelectionRule"),
    "exact": ("Evaluation", "evaluate"),
    "optimum": ("cut_value", "kseq_bound", "optimal_acceptance", "optimal_cut"),
    "sampling": ("draw", "sample"),
    "laws": ("IID", "DraftLaw", "Fixed", "SpecHubLaw", "Hybrid", "Several", "WithoutReplacement"),
    "lp.solution": ("Solution",),
    "transport.solve": ("solve",),
    "lossy": ("losses",),
    "lossy.frontier": ("Frontier", "frontier"),
    "rules.from_function": ("rule_from_function",),
    "verify": ("Report",),
    "verify.rule": ("check_rule", "parametrize_with_rule_checks"),
    "verify.sampler": ("detectable_bias", "check_draws", "check_sampler", "check_step", "required_samples"),
    "verify.server": ("Audit",),
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605

if TYPE_CHECKING:  # the same for type checkers and editors, which do not run `__getattr__`
    from . import arrays as arrays
    from . import laws as laws
    from . import lossy as lossy
    from . import rules as rules
    from . import trees as trees
    from .errors import DraftSelectionError as DraftSelectionError
    from .errors import InvalidArgument as InvalidArgument
    from .errors import InvalidDistribution as InvalidDistribution
    from .errors import InvalidDrafts as InvalidDrafts
    from .errors import MissingPackage as MissingPackage
    from .errors import SolverFailed as SolverFailed
    from .exact import Evaluation as Evaluation
    from .exact import evaluate as evaluate
    from .laws import IID as IID
    from .laws import DraftLaw as DraftLaw
    from .laws import Fixed as Fixed
    from .laws import Hybrid as Hybrid
    from .laws import Several as Several
    from .laws import SpecHubLaw as SpecHubLaw
    from .laws import WithoutReplacement as WithoutReplacement
    from .lossy import losses as losses
    from .lossy.frontier import Frontier as Frontier
    from .lossy.frontier import frontier as frontier
    from .lp.solution import Solution as Solution
    from .optimum import cut_value as cut_value
    from .optimum import kseq_bound as kseq_bound
    from .optimum import optimal_acceptance as optimal_acceptance
    from .optimum import optimal_cut as optimal_cut
    from .problem import Problem as Problem
    from .rules.from_function import rule_from_function as rule_from_function
    from .sampling import draw as draw
    from .sampling import sample as sample
    from .selection import Selection as Selection
    from .selection import SelectionRule as SelectionRule
    from .transport.solve import solve as solve
    from .verify import Report as Report
    from .verify.rule import check_rule as check_rule
    from .verify.rule import parametrize_with_rule_checks as parametrize_with_rule_checks
    from .verify.sampler import check_draws as check_draws
    from .verify.sampler import check_sampler as check_sampler
    from .verify.sampler import check_step as check_step
    from .verify.sampler import detectable_bias as detectable_bias
    from .verify.sampler import required_samples as required_samples
    from .verify.server import Audit as Audit
else:

    def __getattr__(name: str) -> Any:
        module = _MODULE_OF.get(name)
        if module == "":
            return import_module(f".{name}", __name__)
        if module is None:
            of_laws = {type(law).__name__: type(law) for law in import_module(".laws", __name__).ALL}
            if name not in of_laws:
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
            found = of_laws[name]
        else:
            found = getattr(import_module(f".{module}", __name__), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
