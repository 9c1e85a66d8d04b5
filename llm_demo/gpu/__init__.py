"""Checks and benchmarks on a GPU."""
