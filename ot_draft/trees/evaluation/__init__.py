"""Evaluation of path rules: exact, upper bounds, simulation, and wall-clock time."""

__all__ = ["evaluate", "program", "simulate"]
