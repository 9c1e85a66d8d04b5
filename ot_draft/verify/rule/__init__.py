"""Checks of a selection rule: exact enumeration and properties on problems that hypothesis draws and shrinks."""

from . import strategies  # noqa: F401  # says which package is missing
from .report import Report, check_rule, parametrize_with_rule_checks

__all__ = ["Report", "check_rule", "parametrize_with_rule_checks"]
