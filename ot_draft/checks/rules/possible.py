"""What can be drafted where the vocabulary is large: the draft tuples of positive probability, all of them, or nothing."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np

from ...arrays import Array
from ...laws import DraftLaw, sets

MOST = 4096  # tuples that are looked at for one pair, and draws of such tuples
NEAR = 1e-9


def possible_tuples(law: DraftLaw, q: Array, k: int) -> tuple[Array, Array] | None:
    """Every draft tuple that the law can draw from Fractions q (n,), and its probability: int (m, k), Fractions (m,).

    Few, however large the vocabulary, where the mass of q lies on few tokens: the tokens of mass 0 are left out first, and
    put back in floats, since a law may draw them. None where there are too many tuples, or where those that were found do
    not have all the probability, which is asked with ==.
    """
    return _possible(law, tuple(q.tolist()), k)


@lru_cache(maxsize=4096)  # the same problems are tried in Fractions, in floats and on torch
def _possible(law: DraftLaw, masses: tuple[Fraction, ...], k: int) -> tuple[Array, Array] | None:
    q = np.array(masses, dtype=object)
    held = np.flatnonzero(q > 0)
    if len(held) < k and law.runs_out:
        held = np.arange(len(q))
    among = q[held]
    for found in (_products(among, k), _all(law, len(held), k), _drawn(law, among, k)):
        if found is None:
            continue
        near = law.probability(among.astype(np.float64), found)  # cheap, before Fractions
        tuples = found[near > 0]
        if abs(near.sum() - 1) > NEAR:
            continue
        weight = law.probability(among[None, :], tuples)
        if weight.sum() == 1:
            drafts = np.where(tuples < 0, -1, held[tuples])
            whole = law.probability(q.astype(np.float64), drafts)
            return (drafts, weight) if np.allclose(whole, weight.astype(np.float64), NEAR, NEAR) else None
    return None


def _products(q: Array, k: int) -> Array | None:
    tokens = np.flatnonzero(q > 0).tolist()
    return np.array(list(product(tokens, repeat=k))) if len(tokens) ** k <= MOST else None


def _all(law: DraftLaw, n: int, k: int) -> Array | None:
    return np.concatenate(list(sets.tuples(n, law.count(n, k), k, MOST))) if n ** law.count(n, k) <= MOST else None


def _drawn(law: DraftLaw, q: Array, k: int) -> Array | None:
    """What comes up in draws from nearly equal masses, in the order of q's: a law may fix the top tokens."""
    if len(q) > 4 * k or not law.runs_out:
        return None  # too many tuples by far
    masses, rank = np.unique(q, return_inverse=True)
    flat = np.where(q > 0, 1 + rank / (10 * len(masses)), 0.0)
    flat = np.broadcast_to(flat / flat.sum(), (MOST, len(q)))
    drawn = law.draw(flat, np.random.default_rng(0).random((MOST, k)))
    return np.array(sorted(set(map(tuple, drawn.tolist()))))
