"""The linear program of draft selection: built once, handed to several solvers, its answer certified in rationals."""

from .certificate import Certificate
from .coupling import Coupling
from .program import Program
from .solution import Residuals, Solution, solve

__all__ = ["Certificate", "Coupling", "Program", "Residuals", "Solution", "solve"]
