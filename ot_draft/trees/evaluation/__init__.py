"""What path rules do: exactly, at best, by simulation, and on the clock."""

__all__ = ["evaluate", "program", "simulate"]
