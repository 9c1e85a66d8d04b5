"""Checks of a selection rule: exact enumeration and properties on problems that hypothesis draws and shrinks."""

from . import strategies  # noqa: F401  # says which package is missing
from .report import RuleReport, check_rule, parametrize_with_rule_checks
from .search import SearchLimits

__all__ = ["RuleReport", "SearchLimits", "check_rule", "parametrize_with_rule_checks"]
