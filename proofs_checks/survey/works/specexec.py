"""SpecExec: a tree of the draft's most probable paths, and one draw of the target at every node; the drawn path is followed.

Its sampler sorts falling and removes tokens whose sum is at most 1 - top_p: the most probable ones, where the least probable are meant.
At top-p .9 that bites where no token has more than .1.
"""

from fractions import Fraction
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft import trees

from ..by_hand import mode, most_probable, norm, single, without
from ..record import TOP, TREE, AlongPath, Form, OneToken, Work, biased

PART = Fraction(1, 2)


def nucleus(masses: Any) -> tuple[Fraction, ...]:
    """The fewest most probable tokens that have the part, normalised."""
    order = most_probable(masses, len(masses))
    kept = [y for i, y in enumerate(order) if sum(masses[z] for z in order[:i]) < PART]
    return norm([mass if y in kept else 0 for y, mass in enumerate(masses)])


def without_the_best(masses: Any) -> tuple[Fraction, ...]:
    """The distribution of the sampler: without tokens whose falling sum is at most 1 - top_p."""
    order, reached, left = most_probable(masses, len(masses)), Fraction(0), list(masses)
    for y in order[:-1]:
        reached += masses[y]
        left[y] = 0 if reached <= 1 - PART else masses[y]
    return norm(left)


def by_rows(change: Any, p: Any) -> Any:
    rows = [change(row) for row in np.asarray(p).reshape(-1, p.shape[-1]).tolist()]
    return np.array(rows, dtype=p.dtype).reshape(p.shape)


def cut(p: Any, q: Any, k: Any = 1, law: Any = None) -> Any:
    """The same with sums over sorted rows (..., n)."""
    order = np.argsort(-p, axis=-1, kind="stable")
    falling = np.take_along_axis(p, order, -1)
    gone = np.cumsum(falling, -1) <= 1 - PART
    gone[..., -1] = False
    kept = np.where(np.take_along_axis(gone, np.argsort(order, axis=-1, kind="stable"), -1), 0 * p, p)
    return kept / kept.sum(-1, keepdims=True)


NAIVE = otd.rules.NaiveTarget(law=TOP)
WORK = Work(
    "specexec", "SpecExec", "Svirschevski et al. 2406.02532", "code", "the same distribution as sequential sampling",
    "none beyond the target's sample",
    (Form("tree", AlongPath(trees.NaivePath(), (2,), 2, TREE, TOP), "one draw per node, compared with its children; exact checks"),
     biased("code, top-p 1/2", OneToken(otd.lossy.Toward(cut, NAIVE), (1,), expected=nucleus),
            single(lambda p, q, x: without_the_best(p)[x], lambda p, q, x: without(without_the_best(p), [x]),
                   mode),
            "sorted_indices_to_remove = cumulative_probs <= (1 - top_p), of probabilities in falling order",
            OneToken(otd.lossy.Toward(lambda p, q, k=1, law=None: by_rows(nucleus, p), NAIVE), (1,), expected=nucleus),
            "remove where the sum before the token is at least top_p", when="top-p below 1 (compared with the distribution after top-p)",
            sampling="top-p 1/2",
            seen="run: its own sampler; of (1/2, 1/4, 1/4) token 0 never came in 4,000 draws")),
    "yandex-research/specexec specdec/specexec.py@c7f24b3, SpecExecBase.validate_tree, sampler_from_logits",
)  # fmt: skip
