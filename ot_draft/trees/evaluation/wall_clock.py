"""The wall-clock model: what a rule, K and L gain for given costs, and which of them gain most."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite

import numpy as np

from ...errors import InvalidCosts


@dataclass(frozen=True)
class Costs:
    """Measured costs, all in one unit: a target call on one token if that is 1, or milliseconds.

    Parameters
    ----------
    verify : mapping of int to float
        Cost of one target call by its number of positions, which are the drafted nodes and the token before them. Position 1 is the
        autoregressive step, and must be there. Between measured numbers costs are interpolated linearly; nothing is extrapolated.
    draft : mapping of int to float
        Cost of one draft call by its number of rows, one for every path.
    select : mapping of str to float, optional
        Cost of one selection by the rule's name; "" stands for all rules that are not named.
    change : float, default=0.0
        Additional cost of a target call on another number of positions than the one before; only `ot_draft.decoding.Auto` uses it.

    Raises
    ------
    InvalidCosts
        If a cost is negative or not finite, or costs of one position are missing.

    Examples
    --------
    >>> import ot_draft as otd
    >>> otd.trees.Costs(verify={1: 1.0, 5: 1.2}, draft={1: 0.1}).verify[5]
    1.2
    """

    verify: Mapping[int, float]
    draft: Mapping[int, float]
    select: Mapping[str, float] = field(default_factory=dict)
    change: float = 0.0

    def __post_init__(self) -> None:
        for name, table in (("verify", self.verify), ("draft", self.draft), ("select", self.select)):
            for at, cost in table.items():
                if not (isfinite(cost) and cost >= 0):
                    raise InvalidCosts(
                        f"cost of {name} at {at or 'all rules'} must be a finite number >= 0, got {cost!r}. Measure it again."
                    )
        if not (isfinite(self.change) and self.change >= 0):
            raise InvalidCosts(f"cost of change must be a finite number >= 0, got {self.change!r}. Measure it again.")
        for name, table in (("verify", self.verify), ("draft", self.draft)):
            if not table or min(table) < 1:
                raise InvalidCosts(
                    f"costs of {name} must hold a cost at a number >= 1, got {dict(table)}. Measure one."
                )
        if not self.verify.get(1, 0) > 0:
            raise InvalidCosts("costs of verify must hold a cost > 0 at 1, the autoregressive step. Measure it.")

    def of(self, K: int, L: int, rule: str = "") -> float:
        """c_verify(K L + 1) + L c_draft(K) + c_select; the first draft call, on the last token, is counted like the others."""
        return self.of_tree(K * L, L, K, rule)

    def of_tree(self, nodes: int, levels: int, width: int, rule: str = "") -> float:
        """Return the cost of a step with a tree: a level costs a draft call, a node one position of the target call.

        Parameters
        ----------
        nodes : int
            Number of drafted nodes.
        levels : int
            Number of draft calls.
        width : int
            Rows of a draft call.
        rule : str
            Name of the path rule, for `select`.

        Returns
        -------
        cost : float
            c_verify(nodes + 1) + levels c_draft(width) + c_select.
        """
        drafting = levels * _interpolated(self.draft, width, "draft")
        return (
            drafting + _interpolated(self.verify, nodes + 1, "verify") + self.select.get(rule, self.select.get("", 0.0))
        )

    def reach(self, K: int, L: int) -> bool:
        """Return whether K paths of length L lie within what was measured."""
        return self.reach_tree(K * L, K)

    def reach_tree(self, nodes: int, width: int) -> bool:
        """Whether a tree with these numbers of nodes and rows per draft pass is within the measured range."""
        return max(self.verify) > nodes and min(self.draft) <= width <= max(self.draft)


def _interpolated(table: Mapping[int, float], at: int, name: str) -> float:
    counts = sorted(table)
    if not counts[0] <= at <= counts[-1]:
        raise InvalidCosts(
            f"costs of {name} must reach {at}, got {', '.join(map(str, counts))}. Measure there, or plan fewer or shorter paths:"
            " costs are not extrapolated."
        )
    return float(np.interp(at, counts, [table[count] for count in counts]))


@dataclass(frozen=True)
class Efficiency:
    """Measured or simulated block efficiency of a rule.

    Parameters
    ----------
    rule : str
    K, L : int
        Number of paths and their length, or the width of a tree and its number of levels.
    block_efficiency : float
        Tokens per target call.
    error : float, default=nan
        Standard error of the block efficiency.
    nodes : int, optional
        Number of drafted nodes of a tree. None for paths, which have K L.
    """

    rule: str
    K: int
    L: int
    block_efficiency: float
    error: float = float("nan")
    nodes: int | None = None

    def __post_init__(self) -> None:
        if self.K < 1 or self.L < 0 or not 1 <= self.block_efficiency <= self.L + 1:
            raise InvalidCosts(
                f"{self.rule}, K = {self.K}, L = {self.L}: block efficiency must be from 1 to L + 1, with K >= 1 and L >= 0, got"
                f" {self.block_efficiency}. Correct the measurement."
            )
        if self.error < 0 or self.error == inf:
            raise InvalidCosts(
                f"{self.rule}, K = {self.K}, L = {self.L}: standard error must be >= 0, got {self.error}. Omit it if it is unknown."
            )


@dataclass(frozen=True)
class Planned:
    """One row of a plan: an `Efficiency` with the cost of a step, in autoregressive steps, and the predicted speed-up."""

    rule: str
    K: int
    L: int
    nodes: int
    block_efficiency: float
    cost: float
    speed_up: float
    error: float


def plan(efficiencies: Iterable[Efficiency], costs: Costs) -> list[Planned]:
    """Return the predicted speed-ups, the best first.

    speed-up = block efficiency * c_target / (c_verify(nodes + 1) + L c_draft(K) + c_select), where K paths of length L have K L nodes.

    Parameters
    ----------
    efficiencies : iterable of Efficiency
        Block efficiency of every rule on paths or on a tree, with its standard error.
    costs : Costs
        Costs of calls and selections.

    Returns
    -------
    plans : list
        One row each, with the standard error of the speed-up from that of the block efficiency.

    Examples
    --------
    >>> import ot_draft as otd
    >>> otd.trees.plan([], otd.trees.Costs(verify={1: 1.0}, draft={1: 0.1}))
    []
    """
    rows = []
    for found in efficiencies:
        nodes = found.K * found.L if found.nodes is None else found.nodes
        cost = costs.of_tree(nodes, found.L, found.K, found.rule) / costs.verify[1]
        efficiency = found.block_efficiency
        rows.append(
            Planned(found.rule, found.K, found.L, nodes, efficiency, cost, efficiency / cost, found.error / cost)
        )
    return sorted(rows, key=lambda row: (-row.speed_up, row.nodes, row.rule))
