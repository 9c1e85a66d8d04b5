"""`ot_draft.arrays` as `xp`: whole numbers beside arrays of every kind, and no float among Fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

import ot_draft as otd
from ot_draft import arrays as xp

X = [F(1, 4), F(0), F(3, 4)]
HALVES = [F(1, 2), F(1, 2), F(0)]
BESIDE_A_NUMBER: dict[str, tuple[Callable[[Any, Any], Any], list[F]]] = {
    "minimum": (lambda x, y: xp.minimum(x, 0), [F(0), F(0), F(0)]),
    "minimum, the number first": (lambda x, y: xp.minimum(0, x), [F(0), F(0), F(0)]),
    "maximum": (lambda x, y: xp.maximum(x, 1), [F(1), F(1), F(1)]),
    "maximum, the number first": (lambda x, y: xp.maximum(1, x), [F(1), F(1), F(1)]),
    "where": (lambda x, y: xp.where(x > 0, x, 1), [F(1, 4), F(1), F(3, 4)]),
    "where, the number first": (lambda x, y: xp.where(x > 0, 0, x), [F(0), F(0), F(0)]),
    "divide": (lambda x, y: xp.divide(x, y, 1), [F(1, 2), F(0), F(1)]),
    "divide a number": (lambda x, y: xp.divide(1, x, 0), [F(4), F(0), F(4, 3)]),
    "excess": (xp.excess, [F(0), F(0), F(3, 4)]),
    "excess over a multiple": (lambda x, y: xp.excess(x, y, 0), X),
    "overlap": (lambda x, y: xp.overlap(x, y, 1), [F(1, 4), F(0), F(0)]),
    "normalise": (lambda x, y: xp.normalise(2 * x, otherwise=y), X),
    "residual": (xp.residual, [F(0), F(0), F(1)]),
    "residual of a multiple": (lambda x, y: xp.residual(x, y, 0), X),
    "residual, all of p at least": (lambda x, y: xp.residual(x, y, 2, 1), X),
    "residual where nothing is left": (lambda x, y: xp.residual(x, x), X),
    "normalise nothing": (lambda x, y: xp.normalise(0 * x, otherwise=1), [F(1), F(1), F(1)]),
    "full": (lambda x, y: xp.full((3,), 1, like=x), [F(1), F(1), F(1)]),
    "astype of a condition": (lambda x, y: xp.astype(x > 0, x.dtype), [F(1), F(0), F(1)]),
    "concat": (lambda x, y: xp.concat((x, y[:1]), axis=-1), [*X, F(1, 2)]),
}


@pytest.mark.parametrize("name", BESIDE_A_NUMBER)
def test_a_whole_number_takes_the_kind_of_the_array(name: str, kind: Any) -> None:
    call, exact = BESIDE_A_NUMBER[name]
    x = kind.make(X)
    result = call(x, kind.make(HALVES))
    assert type(result) is type(x) and result.dtype == x.dtype and kind.agrees(result, exact)
    if kind.exact:  # a Python int in an object array would divide to a float, or round
        assert all(type(value) is F for value in result)
        assert type((result / 3)[0]) is F


def test_a_negative_zero_is_a_zero(kind: Any) -> None:
    """Divided by, it would lead to where the smallest ratios stand."""
    q = -kind.make([F(-1, 2), F(0), F(0)])
    first = xp.argsort(xp.ratio(kind.make([F(1, 4), F(3, 4), F(0)]), q))[..., 0]
    assert kind.meta or int(first) == 0


def test_parts_are_broadcast_before_they_stand_side_by_side(kind: Any) -> None:
    beside = xp.concat((kind.make(X), kind.make([[F(1)], [F(1)]])), axis=-1)
    assert kind.agrees(beside, np.array([[*X, F(1)], [*X, F(1)]], dtype=object))


def test_another_axis_is_refused_rather_than_taken_for_the_last(kind: Any) -> None:
    with pytest.raises(otd.InvalidArgument, match=r"axis must be -1, got 0\. .*pass axis=-1"):
        xp.concat((kind.make(X), kind.make(X)))


def test_an_unknown_function_is_an_error_with_the_closest_names() -> None:
    with pytest.raises(AttributeError, match=r"got 'minimun'\. Did you mean minimum"):
        _ = getattr(xp, "minimun")  # noqa: B009  # type checkers know that it is missing
    with pytest.raises(AttributeError, match=r"got 'cumsum'\. Use arithmetic operators.*concat"):
        _ = getattr(xp, "cumsum")  # noqa: B009


def test_the_axis_of_a_single_row_stays(kind: Any) -> None:
    x = kind.make(X)
    assert kind.agrees(xp.max(x, axis=-1, keepdims=True), np.array([F(3, 4)]))
    assert kind.agrees(xp.min(x, axis=-1, keepdims=True), np.array([F(0)]))
    assert kind.agrees(xp.max(kind.make([X, X]), axis=0), np.array(X))


def test_the_first_present_draft(kind: Any) -> None:
    drafts = kind.tokens([[2, 0, 0], [-1, 1, -1], [-1, -1, -1]])
    first = xp.first_present(drafts)
    some = first.any(-1, keepdims=True)
    assert tuple(some.shape) == (3, 1)
    if not kind.meta:
        assert first.tolist() == [[True, False, False], [False, True, False], [False, False, False]]
        assert some.tolist() == [[True], [True], [False]]
    assert tuple(xp.first_present(drafts[:, :0]).shape) == (3, 0)


FLOATS: dict[str, Callable[[Any], Any]] = {
    "minimum": lambda x: xp.minimum(x, 0.5),
    "maximum": lambda x: xp.maximum(0.5, x),
    "where": lambda x: xp.where(x > 0, x, 0.5),
    "where, a number of numpy's": lambda x: xp.where(x > 0, np.float64(0.5), x),
    "divide": lambda x: xp.divide(x, x, 0.5),
    "divide a float": lambda x: xp.divide(0.5, x, 0),
    "excess": lambda x: xp.excess(x, x, 0.5),
    "overlap": lambda x: xp.overlap(x, x, 0.5),
    "residual": lambda x: xp.residual(x, x, 0.5),
    "normalise": lambda x: xp.normalise(0 * x, otherwise=0.5),
    "full": lambda x: xp.full((3,), 0.5, like=x),
}


@pytest.mark.parametrize("name", FLOATS)
def test_a_float_among_fractions_is_refused(name: str) -> None:
    with pytest.raises(otd.InvalidArgument, match=r'got the float 0\.5\. Give fractions\.Fraction\("0\.5"\)'):
        FLOATS[name](np.array(X, dtype=object))
    FLOATS[name](np.array(X, dtype=np.float64))  # among floats it is one


def test_floats_among_fractions_are_refused_as_an_array_too() -> None:
    with pytest.raises(otd.InvalidArgument, match="must be Fractions or integers, got floats"):
        xp.where(np.array([True, False]), np.array(X[:2], dtype=object), np.ones(2))


def test_a_float_that_is_a_whole_number_is_that_number() -> None:
    kept = xp.where(np.array([True, False, True]), np.array(X, dtype=object), 1.0)
    assert kept.tolist() == [F(1, 4), F(1), F(3, 4)] and all(type(value) is F for value in kept)


def test_infinity_is_no_fraction_and_may_stand_beside_them() -> None:
    assert xp.minimum(np.array(X, dtype=object), float("inf")).tolist() == X


def test_whole_numbers_of_an_array_become_fractions() -> None:
    counts = np.array([2, 0, 3])
    divided = xp.divide(np.array(X, dtype=object), counts, 0)
    assert divided.tolist() == [F(1, 8), F(0), F(1, 4)] and all(type(value) is F for value in divided)
    kept = xp.where(counts > 2, np.array(X, dtype=object), counts)
    assert all(type(value) is F for value in kept)


def test_a_parameter_may_be_a_float_where_that_is_said() -> None:
    assert xp.number(0.5, np.array(X, dtype=object)) == F(1, 2) and xp.number(F(1, 2), np.ones(1)) == 0.5
    problem = otd.Problem([F(1, 2), F(1, 2)], [F(1, 4), F(3, 4)], 2)
    accepted, taken = otd.rules.KSeq(1.5).closed_form(problem)  # type: ignore[misc]
    assert type(accepted) is F and type(taken[()]) is F


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_largest_of_many_are_those_of_a_stable_sort(dtype: str) -> None:
    generator = np.random.default_rng(11)
    for n, values in ((4096, 10**6), (5000, 30), (4097, 1)):  # without ties, with many, all equal
        mass = (generator.integers(0, values, (2, n)) / 7).astype(dtype)
        for count in (1, 8, 17):
            wanted = np.argsort(-mass, axis=-1, kind="stable")[:, :count]
            assert (xp.top_tokens(mass, count) == wanted).all()
