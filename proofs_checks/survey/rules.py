"""Selection rules and draft distributions that several works share and the library does not have, in its own form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft import arrays as xp

TOP = otd.Hybrid(top=2**20)  # the draft model's most probable tokens; nothing is drawn
Function = Callable[[Any, Any], Any]


def among(tokens: Any, p: Any) -> Any:
    """Which tokens are there: int (..., k), (..., n) -> bool (..., n)."""
    return (tokens[..., :, None] == np.arange(p.shape[-1])).any(-2)


def capped_ratio(p: Any, q: Any) -> Any:
    """min(1, p/q), 0 where q is 0."""
    return xp.minimum(xp.divide(p, q, 0), 1)


def best(p: Any) -> Any:
    """1 on the most probable token."""
    return xp.astype(among(xp.top_tokens(p, 1), p), p.dtype)


def left(p: Any, q: Any) -> Any:
    """norm((p - q)+), p where that is empty."""
    return xp.residual(p, q)


@dataclass(frozen=True)
class Single(otd.SelectionRule):
    """Test the first draft x with probability accept(p, q)(x), else draw from residual(p, q); both (..., n), (..., n) -> (..., n)."""

    accept: Function = capped_ratio
    residual: Function = left
    law: otd.DraftLaw = otd.IID()

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        first = xp.first_present(drafts)
        taken = xp.gather(self.accept(p, q) + 0 * p, drafts)
        return otd.Selection(xp.where(first, taken, 0), self.residual(p, q))


@dataclass(frozen=True)
class DrawnFrom(otd.DraftLaw):
    """i.i.d. draws from changed(q), while the rule is told q."""

    changed: Callable[[Any], Any] = lambda q: q

    def draw(self, q: Any, uniforms: Any) -> Any:
        return otd.IID().draw(self.changed(q), uniforms)

    def conditional(self, q: Any, siblings: Any, index: Any) -> Any:
        return self.changed(q)

    def cut_order(self, p: Any, q: Any, k: int) -> Any:
        return otd.IID().cut_order(p, self.changed(q), k)

    def prefix_probabilities(self, q: Any, order: Any, k: int) -> Any:
        return otd.IID().prefix_probabilities(self.changed(q), order, k)


def top(count: int) -> Callable[[Any], Any]:
    """q on its `count` most probable tokens, normalised."""

    def truncated(q: Any) -> Any:
        kept = among(xp.top_tokens(q, min(count, q.shape[-1])), q)
        return xp.normalise(xp.where(kept, q, 0 * q), otherwise=q)

    return truncated


def sharp(q: Any) -> Any:
    """q at half its temperature: its square, normalised."""
    return xp.normalise(q * q, otherwise=q)


def chain(last: Callable[[Any, Any], Any]) -> Callable[[Any, Any], dict[tuple[int, ...], Any]]:
    """Block verification of one path with another test of the whole path: last(joint ratio, weight) is the chance that it passes."""

    def rule(model: Any, drafts: Any) -> dict[tuple[int, ...], Any]:
        (path,) = drafts
        joint, weights = 1, [1]
        for i, token in enumerate(path):
            p, q = (side(path[:i])[token] for side in (model.target, model.draft))
            joint, weights = joint * p / q, [*weights, min(1, weights[-1] * p / q)]
        law: dict[tuple[int, ...], Any] = {}
        refused: Any = 1
        for i in range(len(path), -1, -1):
            p, q = model.target(path[:i]), model.draft(path[:i])
            missing = np.maximum(weights[i] * p - q, 0 * p)
            rest, following = missing.sum(), p
            if i == len(path):
                passes = last(joint, weights[i])
            else:
                passes = rest / (rest + 1 - weights[i]) if rest + 1 - weights[i] else 1
                following = xp.normalise(missing, otherwise=p)
            for token, mass in enumerate(following.tolist()):
                if mass and refused * passes:
                    law[*path[:i], token] = law.get((*path[:i], token), 0) + refused * passes * mass
            refused = refused * (1 - passes)
        return law

    return rule
