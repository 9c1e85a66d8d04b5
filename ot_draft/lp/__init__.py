"""The linear program of draft selection: built once, handed to several solvers, its answer certified in rationals."""

__all__ = ["maximum_flow", "network_simplex", "program"]
