"""Optimal transport between finite distributions, exactly: HiGHS proposes prices, and a flow in rationals along the tight pairs confirms
them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from ot_draft.lp.maximum_flow import Network


def transport(
    sources: Mapping[Any, Fraction], sinks: Mapping[Any, Fraction], profit: Callable[[Any, Any], Fraction | int]
) -> tuple[Fraction, dict[tuple[Any, Any], Fraction]]:
    """Return the largest expected profit of a coupling of two distributions of equal mass, and a coupling that attains it.

    The value is proved: no coupling exceeds the prices' value, and the one that comes back attains it. ValueError where the prices are none
    of the least common denominator of the profits, which a vertex of the dual always is.
    """
    left, right = [a for a in sources if sources[a]], [b for b in sinks if sinks[b]]
    gain = [[Fraction(profit(a, b)) for b in right] for a in left]
    prices = _prices([sources[a] for a in left], [sinks[b] for b in right], gain)
    rents = [max(value - price for value, price in zip(row, prices, strict=True)) for row in gain]
    bound = sum((rent * sources[a] for rent, a in zip(rents, left, strict=True)), Fraction(0))
    bound += sum((price * sinks[b] for price, b in zip(prices, right, strict=True)), Fraction(0))
    tight = [(i, j) for i, row in enumerate(gain) for j, value in enumerate(row) if value == rents[i] + prices[j]]
    plan = _flow([sources[a] for a in left], [sinks[b] for b in right], tight)
    if sum(plan.values(), Fraction(0)) != sum((sources[a] for a in left), Fraction(0)):
        raise ValueError("the prices that HiGHS gave are not optimal: no coupling keeps to their tight pairs")
    return bound, {(left[i], right[j]): mass for (i, j), mass in plan.items()}


def _prices(supply: list[Fraction], demand: list[Fraction], gain: list[list[Fraction]]) -> list[Fraction]:
    """Return the prices of the sinks, multiples of the unit of all profits."""
    rows, columns = len(supply), len(demand)
    pairs = np.arange(rows * columns)
    index = np.concatenate((pairs // columns, rows + pairs % columns))
    matrix = coo_array((np.ones(2 * len(pairs)), (index, np.concatenate((pairs, pairs)))), (rows + columns, len(pairs)))
    cost = -np.array([[float(value) for value in row] for row in gain]).reshape(-1)
    masses = [float(mass) for mass in (*supply, *demand)]
    answer = linprog(cost, A_eq=matrix.tocsr(), b_eq=masses, method="highs-ds")
    if answer.x is None:  # masses whose float sums differ: the last sink takes the remainder
        answer = linprog(cost, A_eq=matrix.tocsr()[:-1], b_eq=masses[:-1], method="highs-ds")
    found = np.append(-answer.eqlin.marginals, 0)[rows : rows + columns]
    unit = lcm(*(value.denominator for row in gain for value in row))
    return [Fraction(round(float(price) * unit), unit) for price in found]


def _flow(
    supply: list[Fraction], demand: list[Fraction], pairs: list[tuple[int, int]]
) -> dict[tuple[int, int], Fraction]:
    """Return a maximum flow along these pairs."""
    unit = lcm(*(mass.denominator for mass in (*supply, *demand)))
    source, sink = len(supply) + len(demand), len(supply) + len(demand) + 1
    network = Network(sink + 1)
    for i, j in pairs:
        network.add(i, len(supply) + j, unit * 2)
    for i, mass in enumerate(supply):
        network.add(source, i, int(mass * unit))
    for j, mass in enumerate(demand):
        network.add(len(supply) + j, sink, int(mass * unit))
    network.saturate(source, sink)
    pushed = network.capacity[1 : 2 * len(pairs) : 2]
    return {pair: Fraction(amount, unit) for pair, amount in zip(pairs, pushed, strict=True) if amount}
