"""Parameters of the methods for one draft model and temperature, estimated on held-out prompts only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import pairwise
from math import comb, log2
from typing import Any

import numpy as np
import torch
from torch import Tensor

import ot_draft as otd
from llm_demo.bench.trees.token_classes import merged_row
from ot_draft.data.estimate import expected_acceptance
from ot_draft.decoding import CannotDecode
from ot_draft.laws.hybrid import StandIn
from ot_draft.trees.drafting.counted_acceptance import CountedAcceptance, LookedUpAcceptance

DEEPEST = 12  # max. number of levels of a tree, and of tokens of one path
WIDEST = 16  # max. number of children of a node
NUMBERS = (1, 2, 4, 8, 16)
LARGEST = 4096  # number of tokens per row whose acceptance is counted individually
WITHOUT = otd.rules.RecursiveRejectionWithoutReplacement()
CHAINS = {8: ((1, 8), (2, 4)), 16: ((2, 8), (4, 4)), 32: ((3, 10), (4, 8), (8, 4)), 64: ((5, 12), (8, 8), (16, 4))}


@dataclass(frozen=True)
class DraftPlan:
    """Estimates for one draft model at one temperature.

    overlap: mean sum min(p, q). by_child: P(child i accepted | earlier children rejected) for children without replacement, or for the
    draft's top tokens if the target is greedy. by_number: mean optimum of 1, 2, 4, 8, 16 i.i.d. drafts. repeats: probability that
    another draft equals the accepted token. adaptive, stopped, counted: fitted fields of `AdaptiveTree`, `StoppedPath` and
    `CountedTree`. looked_up: fields of `LookedUpAcceptance`, counted on more prompts.
    """

    overlap: float
    by_child: tuple[float, ...]
    by_number: tuple[float, ...]
    repeats: float
    adaptive: dict[str, Any]
    stopped: tuple[float, ...]
    counted: dict[str, Any]
    looked_up: dict[str, Any]

    @classmethod
    def measured(
        cls, target: Sequence[Tensor], draft: Sequence[Tensor], temperature: float, looked_up: dict[str, Any]
    ) -> DraftPlan:
        """Return the estimates from the logits (n,) of both models at the same positions."""
        pairs = PairsAtPlaces([laws(p, q, temperature) for p, q in zip(target, draft, strict=True)])
        p, q = (np.stack(rows) for rows in zip(*pairs.rows, strict=True))
        shared = np.minimum(p, q)
        adaptive = otd.trees.AdaptiveTree(64, DEEPEST).fitted(p, q)
        greedy = temperature == 0
        return cls(
            overlap=float(shared.sum(-1).mean()),
            by_child=by_rank(p, q) if greedy else otd.trees.acceptance_by_child(WITHOUT, pairs, WIDEST, len(p)),
            by_number=() if greedy else by_number(target, draft, temperature),
            repeats=0.0 if greedy else float(((shared * q).sum(-1) / shared.sum(-1)).mean()),
            adaptive=asdict(adaptive),
            stopped=otd.trees.StoppedPath(DEEPEST).fitted(p, q).accepted,
            counted=counted(p, q),
            looked_up=looked_up,
        )

    def adaptive_tree(self, budget: int) -> otd.trees.AdaptiveTree:
        """Return the fitted `AdaptiveTree` with this budget."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in self.adaptive.items()
        }
        fitted = otd.trees.AdaptiveTree(**fields | {"estimator": StandIn(**self.adaptive["estimator"])})
        return replace(fitted, budget=budget)

    def counted_tree(self, budget: int) -> otd.trees.CountedTree:
        """Return the fitted `CountedTree` with this budget."""
        acceptance = CountedAcceptance(**_fields(self.counted))
        return otd.trees.CountedTree(budget, DEEPEST, acceptance)

    def lookup_tree(self, budget: int) -> otd.trees.LookupTree:
        """Return the fitted `LookupTree` with this budget."""
        looked_up = LookedUpAcceptance(**_fields(self.looked_up))
        return otd.trees.LookupTree(budget, DEEPEST, self.counted_tree(budget).acceptance, looked_up)

    def chains(self, budget: int) -> otd.trees.TreeShape:
        """Return the K x L paths with `budget` nodes and the largest expected length, by the draft's acceptance."""
        if budget not in CHAINS:
            raise CannotDecode(
                f"nodes must be one of {', '.join(map(str, CHAINS))} for chains, got {budget}. Omit the chains to use other budgets."
            )
        promised = {size: expected_of_chains(*size, self.by_number, self.repeats) for size in CHAINS[budget]}
        return otd.trees.TreeShape.chains(*max(promised, key=lambda size: promised[size]))


@cache
def expected_of_chains(alive: int, levels: int, by_number: tuple[float, ...], repeats: float) -> float:
    """Return the expected number of accepted tokens of `alive` i.i.d. paths that agree with the output so far.

    Each other path continues with the accepted token with probability `repeats`.
    """
    if not levels:
        return 0.0
    others = alive - 1
    further = (
        comb(others, same)
        * repeats**same
        * (1 - repeats) ** (others - same)
        * expected_of_chains(1 + same, levels - 1, by_number, repeats)
        for same in range(others + 1)
    )
    return float(np.interp(log2(alive), np.log2(NUMBERS), by_number)) * (1 + sum(further))


@dataclass(frozen=True)
class PairsAtPlaces:
    """Distributions (n,) of both models at several positions, with the interface of a model for `acceptance_by_child`."""

    rows: Sequence[tuple[np.ndarray, np.ndarray]]

    @property
    def n(self) -> int:
        """Vocabulary size."""
        return len(self.rows[0][0])

    def root(self, number: int) -> tuple[int, ...]:
        """Return the prefix that represents a position."""
        return (number,)

    def pair(self, prefix: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return p and q (n,) at the position."""
        return self.rows[prefix[0]]


def laws(target: Tensor, draft: Tensor, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Return p and q (n,) from logits; the draft of a greedy target keeps temperature 1, by which engines rank its tokens."""
    if temperature:
        p, q = ((logits.float() / temperature).softmax(-1) for logits in (target, draft))
    else:
        p, q = torch.zeros_like(target), draft.float().softmax(-1)
        p[target.argmax()] = 1
    return p.double().cpu().numpy(), q.double().cpu().numpy()


def counted(p: np.ndarray, q: np.ndarray) -> dict[str, Any]:
    """Return the fields of `CountedAcceptance` on pairs (rows, n); all but the `LARGEST` masses of a row are merged into one token."""
    order = np.argsort(-np.maximum(p, q), axis=-1)
    first, last = order[:, :LARGEST], order[:, LARGEST:]
    p, q = (
        np.concatenate((np.take_along_axis(x, first, -1), np.take_along_axis(x, last, -1).sum(-1, keepdims=True)), -1)
        for x in (p, q)
    )
    return asdict(CountedAcceptance.counted(p, q))


def _fields(stored: dict[str, Any]) -> dict[str, Any]:
    """Return stored fields with tuples in place of JSON's lists."""
    return {name: _tuples(value) for name, value in stored.items()}


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def by_rank(p: np.ndarray, q: np.ndarray) -> tuple[float, ...]:
    """Return P(the draft's i-th token is the target's | earlier ones are not), (WIDEST,), for one-hot p (rows, n)."""
    ranks = (q > np.take_along_axis(q, p.argmax(-1)[:, None], -1)).sum(-1)
    left = [(ranks >= rank).mean() for rank in range(WIDEST + 1)]
    return tuple(float(1 - b / a) if a else 0.0 for a, b in pairwise(left))


def by_number(target: Sequence[Tensor], draft: Sequence[Tensor], temperature: float) -> tuple[float, ...]:
    """Return the mean optimum for each number of i.i.d. drafts in NUMBERS."""
    none = np.zeros(0, dtype=np.int64)
    found = []
    for p, q in zip(target, draft, strict=True):
        row = merged_row(p, q, temperature, none)
        masses = row.rest_p / row.rest_p.sum(), row.rest_q / row.rest_q.sum()
        found.append([float(expected_acceptance(otd.rules.Optimal(), otd.Problem(*masses, k)).value) for k in NUMBERS])
    return tuple(np.mean(found, 0).tolist())
