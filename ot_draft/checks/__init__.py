"""What users point at their own rule or sampler: `check_rule` needs `hypothesis`, which draws and shrinks the problems."""

from . import strategies  # noqa: F401  # says which package is missing
from .power import bias_seen, samples_for
from .report import Report, check_rule, parametrize_with_rule_checks
from .sampler_report import SamplerReport
from .samplers import check_draws, check_sampler, check_step

__all__ = ["Report", "SamplerReport", "bias_seen", "check_draws", "check_rule", "check_sampler", "check_step",
           "parametrize_with_rule_checks", "samples_for"]  # fmt: skip
