"""Make a draft for a target: text that the target writes, and training on it."""
