"""What users point at their own rule: properties, tried on problems that Hypothesis draws and shrinks. Needs `hypothesis`."""

from .counterexample import Counterexample
from .properties import ALL
from .pytest_parametrize import parametrize_with_rule_checks
from .report import Outcome, Report, check_property, check_rule
from .rule_property import RuleProperty, rule_property

__all__ = [
    "ALL",
    "Counterexample",
    "Outcome",
    "Report",
    "RuleProperty",
    "check_property",
    "check_rule",
    "parametrize_with_rule_checks",
    "rule_property",
]
