"""Reference verifiers for Fractions and floats: which random number is used where, and what is compared with what.

Each part that an implementation can get wrong is a field; an injected fault replaces one field. The rules were written from the
papers and from the engines' code at the commits that CONVENTIONS names; no code is copied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ot_draft import InvalidDistribution

from .chance import Chance, Row

Outcome = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """p: target distributions at the root and after each draft token. q: distribution of a node's children, by node.

    q is None for deterministic draft tokens. drafts: token ids. parents: index of each token's parent, -1 for the root.
    """

    p: tuple[Row, ...]
    q: tuple[Row, ...] | None
    drafts: Outcome
    parents: Outcome

    @property
    def n(self) -> int:
        return len(self.p[0])

    def children(self, node: int) -> list[int]:
        """Indices of the draft tokens after a node: node 0 is the root, node i + 1 draft token i."""
        return [index for index, parent in enumerate(self.parents) if parent == node - 1]

    def draft_row(self, node: int) -> Row:
        """The distribution of the draft token after a node of a chain: one-hot if deterministic."""
        if self.q is not None:
            return self.q[node]
        return [int(token == self.drafts[node]) for token in range(self.n)]


def chain(*drafts: int) -> Outcome:
    """Parents of a chain."""
    return tuple(range(-1, len(drafts) - 1))


def at(row: Row, token: int) -> Any:
    """The probability of a token: 0 for an id outside the vocabulary."""
    return row[token] if 0 <= token < len(row) else 0


def excess(a: Row, b: Row) -> list[Any]:
    """(a - b)+."""
    return [0 if x <= y else x - y for x, y in zip(a, b, strict=True)]


def or_else(weights: Row, other: Row) -> Row:
    """The weights, or the other ones if the weights are 0."""
    return weights if sum(weights) > 0 else other


def checked(case: Case) -> Case:
    """The case. Raises InvalidDistribution for a row that is not a distribution."""
    for name, rows in (("p", case.p), ("q", case.q or ())):
        for node, row in enumerate(rows):
            total = sum(row)  # NaN if any weight is
            if not (min(row) >= 0 and total >= 0) or (name == "p" and total == 0):
                raise InvalidDistribution(
                    f"{name}[{node}] must have weights >= 0 without NaN, got {row!r}. Correct the row."
                )
    return case


def standard_test(case: Case, node: int) -> tuple[Any, Any]:
    """p and q of the draft token after the node, whose ratio is the acceptance probability."""
    token = case.drafts[node]
    return at(case.p[node], token), at(case.draft_row(node), token) if case.q is not None else 1


def standard_rest(case: Case, node: int) -> Row:
    """(p - q)+ at the node, p if that is 0."""
    return or_else(excess(case.p[node], case.draft_row(node)), case.p[node])


def at_the_end(case: Case) -> Row:
    """p after the last draft token."""
    return case.p[len(case.drafts)]


@dataclass(frozen=True)
class Chain:
    """Speculative sampling along one chain (Leviathan et al. 2023, Theorem 1).

    closed: the test is u q <= p instead of u q < p. needs_q: a draft token with q = 0 is rejected. by: `race` or `cumulative`. uniform:
    index of the uniform number of a test, by node. last: index of the uniform number or noise row of the last token, by the numbers of
    accepted draft tokens and of draft tokens.
    """

    closed: bool
    by: str
    last: Callable[[int, int], int]
    needs_q: bool = False
    uniform: Callable[[int], int] = lambda node: node
    test: Callable[[Case, int], tuple[Any, Any]] = standard_test
    rest: Callable[[Case, int], Row] = standard_rest
    bonus: Callable[[Case], Row] = at_the_end

    def __call__(self, case: Case, chance: Chance) -> Outcome:
        length = len(case.drafts)
        kept = next((node for node in range(length) if not self.passes(case, chance, node)), length)
        weights = self.rest(case, kept) if kept < length else self.bonus(case)
        return (*case.drafts[:kept], getattr(chance, self.by)(self.last(kept, length), weights))

    def passes(self, case: Case, chance: Chance, node: int) -> bool:
        """Whether the draft token after the node is accepted."""
        part, whole = self.test(case, node)
        return chance.below(self.uniform(node), part, whole, self.closed) and not (self.needs_q and whole == 0)


def block_weights(case: Case) -> list[Any]:
    """w_0 = 1, w_(i + 1) = min(1, w_i p/q) at draft token i."""
    weights = [1]
    for node in range(len(case.drafts)):
        part, whole = standard_test(case, node)
        weights.append(min(1, weights[-1] * part / whole) if whole else int(part > 0))
    return weights


def block_pass(case: Case, weights: Row, node: int) -> Any:
    """Acceptance probability of a chain up to the draft token after the node: Sun et al. 2024, equation 5."""
    w = weights[node + 1]
    if node == len(case.drafts) - 1:
        return w
    rest = sum(excess([w * mass for mass in case.p[node + 1]], case.draft_row(node + 1)))
    return rest / (rest + 1 - w) if rest + 1 - w else 1


def block_rest(case: Case, weights: Row, node: int) -> Row:
    """(w p - q)+ at the node, p if that is 0."""
    w = weights[node]
    return or_else(excess([w * mass for mass in case.p[node]], case.draft_row(node)), case.p[node])


@dataclass(frozen=True)
class Block:
    """Block verification (Sun et al. 2024): the longest chain that passes is accepted."""

    weights: Callable[[Case], list[Any]] = block_weights
    test: Callable[[Case, Row, int], Any] = block_pass
    rest: Callable[[Case, Row, int], Row] = block_rest
    uniform: Callable[[int], int] = lambda node: node
    bonus: Callable[[Case], Row] = at_the_end

    def __call__(self, case: Case, chance: Chance) -> Outcome:
        weights, length = self.weights(case), len(case.drafts)
        passed = [chance.below(self.uniform(node), self.test(case, weights, node), 1, True) for node in range(length)]
        kept = max((node + 1 for node in range(length) if passed[node]), default=0)
        row = self.rest(case, weights, kept) if kept < length else self.bonus(case)
        return (*case.drafts[:kept], chance.race(kept, row))


def fresh_children(case: Case, node: int) -> list[int]:
    """Children of a node, each token once."""
    seen: dict[int, int] = {}
    for index in case.children(node):
        seen.setdefault(case.drafts[index], index)
    return list(seen.values())


@dataclass(frozen=True)
class TargetTree:
    """One sample from p per node, compared child by child; q is not read (SGLang's target-only kernel at thresholds 1).

    Uniform number i tests the children of node i; the one after the last node samples the final token.
    """

    closed: bool = True
    grow: Any = 1  # factor of the threshold
    uniform: Callable[[int], int] = lambda node: node
    final: Callable[[Case, int], int] = lambda case, node: len(case.drafts) + 1
    row: Callable[[Case, int], Row] = lambda case, node: case.p[node]
    without: bool = True  # whether the final token excludes the rejected ones
    children: Callable[[Case, int], list[int]] = fresh_children

    def __call__(self, case: Case, chance: Chance) -> Outcome:
        node, kept = 0, []
        while True:
            reached, rejected, row = 0, [], self.row(case, node)
            for index in self.children(case, node):
                token = case.drafts[index]
                reached = reached + at(row, token)
                if chance.below(self.uniform(node), self.grow * reached, 1, self.closed):
                    break
                rejected.append(token)
            else:
                break
            node = index + 1
            kept.append(token)
        out = rejected if self.without else []
        left = [0 if token in out else mass for token, mass in enumerate(row)]
        return (*kept, chance.cumulative(self.final(case, node), or_else(left, row)))


@dataclass(frozen=True)
class TargetSample:
    """A sample from p at every position; draft tokens are accepted while they equal it (llama.cpp's server)."""

    uniform: Callable[[int], int] = lambda node: node
    row: Callable[[Case, int], Row] = lambda case, node: case.p[node]

    def __call__(self, case: Case, chance: Chance) -> Outcome:
        emitted: list[int] = []
        for node in range(len(case.drafts) + 1):
            emitted.append(chance.cumulative(self.uniform(node), self.row(case, node)))
            if node == len(case.drafts) or emitted[-1] != case.drafts[node]:
                break
        return tuple(emitted)


def first_best(row: Row) -> int:
    """The most probable token; of equal ones the first."""
    return max(range(len(row)), key=lambda token: (row[token], -token))


@dataclass(frozen=True)
class TargetArgmax:
    """Temperature 0: the most probable token at every position, along the draft tokens that equal it."""

    row: Callable[[Case, int], Row] = lambda case, node: case.p[node]
    best: Callable[[Row], int] = first_best

    def __call__(self, case: Case, chance: Chance) -> Outcome:
        emitted: list[int] = []
        for node in range(len(case.drafts) + 1):
            emitted.append(self.best(self.row(case, node)))
            if node == len(case.drafts) or emitted[-1] != case.drafts[node]:
                break
        return tuple(emitted)


def without_token(q: Row, token: int) -> Row:
    """q without a token, normalised; 0 if nothing is left."""
    rest = [0 if y == token else mass for y, mass in enumerate(q)]
    whole = sum(rest)
    return [mass / whole for mass in rest] if whole > 0 else rest


@dataclass(frozen=True)
class Recursive:
    """Recursive rejection (SpecInfer): child by child, p is replaced by norm((p - q)+) after a rejection.

    distinct: children are sampled without replacement, and q loses the rejected token (EAGLE-1, Sequoia). Uniform number i tests draft
    token i; the one after the last draft token samples the final token.
    """

    distinct: bool = False
    scale: Any = 1  # factor of the acceptance probability
    update: Callable[[Row, Row], Row] = excess
    drop: Callable[[Row, int], Row] = without_token
    uniform: Callable[[int], int] = lambda index: index

    def __call__(self, case: Case, chance: Chance) -> Outcome:
        assert case.q is not None
        node, kept = 0, []
        while True:
            p, q = case.p[node], case.q[node]
            for index in case.children(node):
                token = case.drafts[index]
                if chance.below(self.uniform(index), self.scale * at(p, token), at(q, token), False):
                    break
                left = or_else(self.update(p, q), p)
                whole = sum(left)
                p, q = [mass / whole for mass in left], self.drop(q, token) if self.distinct else q
            else:
                break
            node = index + 1
            kept.append(token)
        return (*kept, chance.cumulative(len(case.drafts), p))


@dataclass(frozen=True)
class InTurn:
    """K-SEQ (SpecTr) at factor k: each of k i.i.d. children is accepted with probability min(1, p / (k q))."""

    factor: Callable[[int], Any] = lambda k: k
    repeat: Callable[[int], int] = lambda k: k  # number of draft tokens that the residual assumes
    uniform: Callable[[int], int] = lambda index: index

    def __call__(self, case: Case, chance: Chance) -> Outcome:
        assert case.q is not None
        p, q, k = case.p[0], case.q[0], len(case.drafts)
        for index, token in enumerate(case.drafts):
            if chance.below(self.uniform(index), at(p, token), self.factor(k) * at(q, token), False):
                return (token, chance.cumulative(k + 1, case.p[index + 1]))
        kept = [min(b, a / self.factor(k)) for a, b in zip(p, q, strict=True)]
        beta = sum(kept)
        times = (1 - (1 - beta) ** self.repeat(k)) / beta if beta else 0
        return (chance.cumulative(k, or_else(excess(p, [times * mass for mass in kept]), p)),)


def _row_of_node(kept: int, length: int) -> int:
    return kept


def _first_or_second(kept: int, length: int) -> int:
    return int(kept == length)


def _after_the_tests(kept: int, length: int) -> int:
    return length


FLASHINFER = Chain(False, "cumulative", lambda kept, length: min(kept + 1, length))
V1, V2 = Chain(True, "race", _first_or_second, needs_q=True), Chain(False, "race", _row_of_node)
MULTINOMIAL = Chain(True, "race", lambda kept, length: 0)
RULES: dict[str, Callable[[Case, Any], Outcome]] = {
    "vllm-v1": V1,
    "vllm-v1-chosen": V1,
    "vllm-v2": V2,
    "vllm-v2-chosen": V2,
    "vllm-v2-block": Block(),
    "vllm-v2-block-chosen": Block(),
    "sglang-chain": replace(FLASHINFER, last=_after_the_tests),
    "sglang-tree": TargetTree(),
    "flashinfer-chain": FLASHINFER,
    "tensorrt-llm": MULTINOMIAL,
    "transformers": MULTINOMIAL,
    "llama.cpp-server": TargetSample(),
    "greedy": TargetArgmax(),
    "recursive-rejection": Recursive(),
    "recursive-rejection-distinct": Recursive(distinct=True),
    "k-seq": InTurn(),
}
CHOSEN = ("vllm-v1-chosen", "vllm-v2-chosen", "vllm-v2-block-chosen", "sglang-tree", "llama.cpp-server", "greedy")
GUMBEL = ("vllm-v2", "vllm-v2-chosen", "vllm-v2-block", "vllm-v2-block-chosen")
