"""Shrink a pair (p, q) on a whole vocabulary to its top tokens and a few tail classes, and say what that changes.

Merging is a map f of outcomes: the tokens that are kept stay themselves, every other becomes its tail class. Drafts
drawn i.i.d. from q become drafts drawn i.i.d. from the merged q. Every transport plan is carried along by f, and Y in
{X_1..X_k} implies f(Y) in {f(X_1)..f(X_k)}: so the merged optimum is never below the full one. The same from the
formula alpha* = 1 + min over H of [p(H) - q(H)^k]: the sets of classes are those token sets that hold all of a class
or none of it, and a minimum over fewer sets is not smaller. Only i.i.d. drafts are carried along like this (drafts
without replacement may hold two tokens of a class); under other laws a merged pair is a problem of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["TAIL", "TAIL_CLASSES", "Masses", "Tokens", "merge", "on_top_tokens", "optimum", "top_tokens"]

Masses = NDArray[np.float64]
Tokens = NDArray[np.int32]
TAIL = -1
TAIL_CLASSES = 32


def top_tokens(p: Masses, q: Masses, count: int) -> Tokens:
    """The `count` tokens with the largest max(p, q), by p decreasing: (count,) for p, q (n,).

    This is the union of the top tokens of p and of q down to one common mass.
    """
    largest = np.argsort(-np.maximum(p, q), kind="stable")[:count]
    return largest[np.argsort(-p[largest], kind="stable")].astype(np.int32)


def merge(p: Masses, q: Masses, tokens: Tokens, classes: int) -> tuple[Masses, Masses]:
    """p and q, (n,) each, on `tokens` and then on the classes of all the others: (tokens + classes,) each.

    The others are cut by p/q increasing into classes of about equal mass: merging tokens of one ratio p/q changes no
    optimum, so a few such classes stand for the tail, where a single one would not.
    """
    rest = np.setdiff1d(np.arange(p.size), tokens)
    rest = rest[np.argsort(_ratio(p[rest], q[rest]), kind="stable")]
    mass = p[rest] + q[rest]
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    number = np.minimum((middle * classes).astype(int), classes - 1)
    tails = (np.bincount(number, law[rest], classes) for law in (p, q))
    on_p, on_q = (_on_grid(np.append(law[tokens], tail)) for law, tail in zip((p, q), tails, strict=True))
    return on_p, on_q


def on_top_tokens(p: Masses, q: Masses, count: int) -> tuple[Masses, Masses, Tokens]:
    """p and q, (n,) each, on their top tokens and TAIL_CLASSES of the others, and the token of each of these slots, TAIL for a class.

    The classes of truncated distributions may be empty.
    """
    tokens = top_tokens(p, q, count)
    slots = np.append(tokens, np.full(TAIL_CLASSES, TAIL, dtype=np.int32))
    if np.delete(p, tokens).any() or np.delete(q, tokens).any():
        return (*merge(p, q, tokens, TAIL_CLASSES), slots)
    nothing = np.zeros(TAIL_CLASSES)
    return np.append(p[tokens], nothing), np.append(q[tokens], nothing), slots


def optimum(p: Masses, q: Masses, k: int) -> Masses:
    """Optimal acceptance of k i.i.d. drafts, (...,) for p, q (..., n): scan of the prefixes of p/q increasing.

    Deliberately not `ot_draft.optimal_acceptance`, against which the stored numbers can then be held.
    """
    order = np.argsort(_ratio(p, q), axis=-1, kind="stable")
    target_mass = np.cumsum(np.take_along_axis(p, order, -1), axis=-1)
    draft_mass = np.cumsum(np.take_along_axis(q, order, -1), axis=-1)
    return 1.0 + np.minimum(0.0, (target_mass - draft_mass**k).min(axis=-1))


def _ratio(p: Masses, q: Masses) -> Masses:
    """p / (p + q), which orders tokens as p / q does and is finite; 1 for tokens without any mass, of no effect."""
    total = p + q
    return np.divide(p, total, out=np.ones_like(p), where=total > 0)


def _on_grid(masses: Masses, grid: float = 2.0**-50) -> Masses:
    """Masses (m,) rounded down to multiples of 2^-50, but for the last, which is what is missing to 1.

    All partial sums are then exact, so that a row sums to 1 in whatever order, and turned into Fractions it
    is a law to the last digit. The last mass gains at most m * 2^-50, less than 5e-13 for 512 slots.
    """
    rounded = np.floor(masses / grid) * grid
    rounded[-1] = 1.0 - rounded[:-1].sum()
    if rounded.min() < 0:
        raise ValueError(f"masses must sum to at most 1, got a last mass of {rounded.min()}. Normalise them.")
    return rounded
