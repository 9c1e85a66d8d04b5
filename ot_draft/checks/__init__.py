"""What users point at their own rule: properties, tried on problems that Hypothesis draws and shrinks. Needs `hypothesis`."""

from . import strategies
from .claims import CLAIMS
from .counterexample import Counterexample
from .draws import check_draws
from .properties import ALL
from .pytest_parametrize import parametrize_with_rule_checks
from .report import Outcome, Report, check_property, check_rule
from .rule_property import RuleProperty, rule_property
from .sampler import check_sampler
from .sampler_report import SamplerOutcome, SamplerReport

__all__ = [
    "ALL",
    "CLAIMS",
    "Counterexample",
    "Outcome",
    "Report",
    "RuleProperty",
    "SamplerOutcome",
    "SamplerReport",
    "check_draws",
    "check_property",
    "check_rule",
    "check_sampler",
    "parametrize_with_rule_checks",
    "rule_property",
    "strategies",
]
