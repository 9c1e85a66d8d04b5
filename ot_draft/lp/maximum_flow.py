"""The program as a maximum flow problem in integers: exact in pure Python, or with OR-tools in units of 2^-60."""

from typing import Any

import numpy as np

from ..errors import SolverFailed
from ..optional import load
from .program import Program, RawSolution

__all__ = ["Network"]


class Network:
    """Network of arcs with integer capacities. Arc a ^ 1 is the reverse of arc a."""

    def __init__(self, nodes: int) -> None:
        self.head: list[int] = []
        self.capacity: list[int] = []
        self.arcs: list[list[int]] = [[] for _ in range(nodes)]

    def add(self, tail: int, head: int, capacity: int) -> None:
        """Add arc number 2 i at call i (from 0)."""
        for start, end, room in ((tail, head, capacity), (head, tail, 0)):
            self.arcs[start].append(len(self.head))
            self.head.append(end)
            self.capacity.append(room)

    def saturate(self, source: int, sink: int) -> list[int]:
        """Push a maximum flow (Dinic 1970). Return the levels, -1 on the sink side of a minimum cut."""
        while (levels := self._levels(source))[sink] >= 0:
            following = [0] * len(self.arcs)
            while self._push(levels, following, source, sink):
                pass
        return levels

    def _levels(self, source: int) -> list[int]:
        levels = [-1] * len(self.arcs)
        levels[source] = 0
        queue = [source]
        for node in queue:
            for arc in self.arcs[node]:
                if self.capacity[arc] and levels[self.head[arc]] < 0:
                    levels[self.head[arc]] = levels[node] + 1
                    queue.append(self.head[arc])
        return levels

    def _push(self, levels: list[int], following: list[int], source: int, sink: int) -> int:
        """Push along one augmenting path of the level graph. following: index of the next unused arc of each node."""
        path: list[int] = []
        node = source
        while node != sink:
            arcs = self.arcs[node]
            while following[node] < len(arcs):
                arc = arcs[following[node]]
                if self.capacity[arc] and levels[self.head[arc]] == levels[node] + 1:
                    break
                following[node] += 1
            else:
                if not path:
                    return 0
                node = self.head[path.pop() ^ 1]
                following[node] += 1
                continue
            path.append(arc)
            node = self.head[arc]
        amount = min(self.capacity[arc] for arc in path)
        for arc in path:
            self.capacity[arc] -= amount
            self.capacity[arc ^ 1] += amount
        return amount


def flow(program: Program) -> RawSolution:
    """Solve exactly, in integers over the common denominator of all masses."""
    sets, tokens = program.capacities(program.denominator)
    first_token = len(sets)
    source, sink = first_token + len(tokens), first_token + len(tokens) + 1
    network = Network(sink + 1)
    for row, token in zip(program.rows.tolist(), program.tokens.tolist(), strict=True):
        network.add(row, first_token + token, sets[row])
    for row, capacity in enumerate(sets):
        network.add(source, row, capacity)
    for token, capacity in enumerate(tokens):
        network.add(first_token + token, sink, capacity)
    levels = network.saturate(source, sink)
    pushed = network.capacity[1 : 2 * len(program.rows) : 2]  # capacities of the reverse arcs
    reachable = np.array(levels[first_token:source]) >= 0
    return _with_cut(program, pushed, reachable, program.denominator)


def ortools(program: Program) -> RawSolution:
    """Solve with OR-tools' push-relabel algorithm."""
    network: Any = load("ortools.graph.python.max_flow", "ortools").SimpleMaxFlow()
    unit = 1 << 60  # OR-tools computes in int64; all masses sum to at most 2
    sets, tokens = (np.array(masses, dtype=np.int64) for masses in program.capacities(unit))
    source = len(sets) + len(tokens)
    rows, columns = np.arange(len(sets)), len(sets) + np.arange(len(tokens))
    pairs = network.add_arcs_with_capacity(program.rows, len(sets) + program.tokens, sets[program.rows])
    network.add_arcs_with_capacity(np.full(len(sets), source), rows, sets)
    network.add_arcs_with_capacity(columns, np.full(len(tokens), source + 1), tokens)
    status = network.solve(source, source + 1)
    if status != network.OPTIMAL:
        raise SolverFailed(f'OR-tools ended "{status.name}"; the program is always solvable. Use solver="flow".')
    reachable = np.isin(columns, network.get_source_side_min_cut())
    return _with_cut(program, network.flows(pairs).tolist(), reachable, unit)


def _with_cut(program: Program, pushed: list[int], reachable: np.ndarray, unit: int) -> RawSolution:
    """Solution with the cut as dual variables: 1 for tokens in H (reachable, bool (n,)) and draft sets not inside H, else 0."""
    set_prices = np.zeros(len(program.token_sets))
    np.maximum.at(set_prices, program.rows, (~reachable[program.tokens]).astype(float))
    return RawSolution(pushed, np.concatenate((set_prices, reachable)), "optimal", unit)
