"""Statistical checks of samplers, of draws from a draft model, and of complete decoding steps."""

from .power import bias_seen, samples_for
from .sampler_report import SamplerReport
from .samplers import check_draws, check_sampler, check_step

__all__ = ["SamplerReport", "bias_seen", "check_draws", "check_sampler", "check_step", "samples_for"]
