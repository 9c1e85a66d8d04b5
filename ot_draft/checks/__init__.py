"""What users point at their own rule: properties, tried on problems that Hypothesis draws and shrinks. Needs `hypothesis`."""

from . import strategies
from .reports.answers import Answers
from .reports.report import PropertyOutcome, Report, check_property, check_rule
from .rules.claims import CLAIMS
from .rules.counterexample import Counterexample
from .rules.properties import ALL
from .rules.pytest_parametrize import parametrize_with_rule_checks
from .rules.rule_property import RuleProperty, rule_property
from .samplers.draws import check_draws
from .samplers.sampler import check_sampler
from .samplers.sampler_report import SamplerOutcome, SamplerReport
from .samplers.step import check_step

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
