"""A comparison of two methods with known times."""

from __future__ import annotations

from ot_draft.decoding.benchmark import Comparison, Measured, MethodCosts
from ot_draft.decoding.benchmark.calls import Call
from ot_draft.decoding.methods import Method, method_called, shape_of
from ot_draft.decoding.step import Seconds


def measured(method: Method, chosen: list[list[float]], seconds: Seconds, wall: float) -> Measured:
    """One text a group; every call takes the same time."""
    return Measured(method, [[Call(text, each, wall, seconds) for each in calls] for text, calls in enumerate(chosen)])


def two_methods(before: float, after: float, plain_wall: float = 1.0, rest: float = 0.0) -> Comparison:
    """A plain and a drafted method; the target's call on 5 positions takes other times before and in the run, in which there is a rest."""
    plain, drafted = (method_called(name, None, shape_of(1, 4, None)) for name in ("autoregressive", "block"))
    first = measured(plain, [[1, 1], [1, 1]], Seconds(0, 1, 0, 0), plain_wall)
    second = measured(drafted, [[5, 2], [2, 1]], Seconds(0.5, after, 0.125, 0.125), after + 0.75 + rest)
    return Comparison([first, second], {plain: MethodCosts(1, 0, 0), drafted: MethodCosts(before, 0.5, 0.25)})
