"""Concatenated real contexts: a model with real distributions, for path rules and their bias."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft.bias import bias_of
from ot_draft.trees.evaluation.simulate import drafted_trees


@dataclass(frozen=True)
class ContextChain:
    """A model with the distributions of one of C pairs p, q (C, n) after a prefix, chosen by a hash of the last tokens."""

    p: Any
    q: Any
    order: int = 4

    def target(self, prefix: tuple[int, ...]) -> Any:
        return self.p[self.context(prefix)]

    def draft(self, prefix: tuple[int, ...]) -> Any:
        return self.q[self.context(prefix)]

    def context(self, prefix: tuple[int, ...]) -> int:
        """Return the number of the pair after a prefix."""
        last = np.asarray(prefix[-self.order :], dtype="<i8").tobytes()
        return int.from_bytes(blake2b(last, digest_size=8).digest(), "little") % len(self.p)

    def root(self, number: int) -> tuple[int, ...]:
        return (-1 - number,)

    @cached_property
    def numbers(self) -> dict[bytes, int]:
        """Return the number of each pair by the bytes of its p."""
        return {row.tobytes(): number for number, row in enumerate(self.p)}

    def contexts_of(self, p: Any) -> Any:
        """Return the numbers (...) of the pairs with these targets (..., n)."""
        flat = [self.numbers[row.tobytes()] for row in np.ascontiguousarray(p).reshape(-1, p.shape[-1])]
        return np.reshape(flat, p.shape[:-1])


@dataclass(frozen=True, eq=False)
class Remembered:
    """A target that is computed once per pair of a model. paths: k at the root, 1 below."""

    model: ContextChain
    target: Any
    paths: int

    @cached_property
    def made(self) -> dict[int, Any]:
        """Return r (C, n) for k drafts."""
        return {k: self.target(self.model.p, self.model.q, k, otd.IID()) for k in (self.paths, 1)}

    def __call__(self, p: Any, q: Any, k: int, law: Any) -> Any:
        return self.made[k][self.model.contexts_of(p)]

    @cached_property
    def spent(self) -> dict[int, Any]:
        """Return KL(r || p) of every pair, (C,), for k drafts."""
        return {k: bias_of(r, self.model.p).kl for k, r in self.made.items()}


@dataclass(frozen=True, eq=False)
class Drafted:
    """Trees of K i.i.d. paths of length L, contexts at their nodes by number (B, N + 1), and uniform random numbers for selection."""

    tree: Any
    contexts: Any
    uniforms: Any


def drafted(model: ContextChain, paths: int, length: int, iterations: int, seed: int) -> list[Drafted]:
    """Yield this many trees, in batches."""
    shape = otd.trees.TreeShape.chains(paths, length)
    batches = drafted_trees(model, otd.trees.FixedTree(shape), iterations, seed)
    most = 2 * shape.size + 2
    return [
        Drafted(tree, model.contexts_of(tree.p), np.stack([generator.random(most) for generator in generators]))
        for tree, generators in batches
    ]


def emitted(rule: Any, target: Any, model: ContextChain, trees: list[Drafted]) -> tuple[Any, Any]:
    """Return the number of emitted tokens for the target from every tree, and the KL(r || p) of their distributions: (B,) each.

    The token after the last drafted one follows p.
    """
    paths = len(trees[0].tree.shape(0).children(0))
    made = Remembered(model, target, paths)
    toward = otd.trees.TowardPath(made, rule)
    tokens, spent = [], []
    for batch in trees:
        shape = batch.tree.shape(0)
        found = toward.select(batch.tree, batch.uniforms[:, : toward.n_uniforms(shape)])
        rows, inner = np.arange(len(batch.contexts))[:, None], np.arange(1, shape.length) <= found.length[:, None]
        below = made.spent[1][batch.contexts[rows, found.nodes[:, : shape.length - 1]]]
        spent.append(made.spent[paths][batch.contexts[:, 0]] + np.where(inner, below, 0.0).sum(-1))
        tokens.append(1 + found.length)
    return np.concatenate(tokens), np.concatenate(spent)
