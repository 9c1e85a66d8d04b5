"""What users point at their own rule: properties, tried on problems that Hypothesis draws and shrinks. Needs `hypothesis`."""

from . import strategies
from .answers import Answers
from .parametrize import parametrize_with_rule_checks
from .properties import ALL, CLAIMS
from .report import PropertyOutcome, Report, check_property, check_rule
from .rule_property import RuleProperty, rule_property
from .sampler_report import SamplerOutcome, SamplerReport
from .samplers import check_draws, check_sampler
from .source import Counterexample
from .step import check_step

__all__ = [
    "ALL",
    "CLAIMS",
    "Answers",
    "Counterexample",
    "PropertyOutcome",
    "Report",
    "RuleProperty",
    "SamplerOutcome",
    "SamplerReport",
    "check_draws",
    "check_property",
    "check_rule",
    "check_sampler",
    "check_step",
    "parametrize_with_rule_checks",
    "rule_property",
    "strategies",
]
