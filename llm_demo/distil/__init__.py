"""Distillation of a draft model from a target: completions by the target, and training on them."""
