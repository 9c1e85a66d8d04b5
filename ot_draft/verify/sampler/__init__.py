"""Statistical checks of samplers, of draws from a draft model, and of complete decoding steps."""

from .power import detectable_bias, required_samples
from .sampler_report import SamplerReport
from .samplers import check_draws, check_sampler, check_step

__all__ = ["SamplerReport", "check_draws", "check_sampler", "check_step", "detectable_bias", "required_samples"]
