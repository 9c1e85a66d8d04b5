"""The linear program of draft selection, its solvers, and certificates in rational arithmetic."""

__all__ = ["maximum_flow", "network_simplex", "program"]
