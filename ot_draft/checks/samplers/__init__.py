"""Tests of code that only samples: an engine's rejection sampler, or a sampler of drafts."""
