"""Statements about rules that are lossy on purpose: the frontier between acceptance and bias, and what papers claim of it."""
