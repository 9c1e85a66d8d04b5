"""Medusa's acceptance: typical (fast, its default), and nucleus.

FAST. A draft token, the most probable one of a head, is accepted where p of it is large enough. The longest path wins, of several the
most probable one, and the next token is the target's most probable. Temperature above 0. AS THE PAPER MAY BE READ, the rest is drawn from
the target: no released code does that, since with fast=False the code calls get_typical_posterior_mask with an argument too many
(TypeError). NUCLEUS. For every path the target draws tokens of its own; a path is kept as far as they agree, the longest wins, the next
token is a fresh draw. Other works use Medusa's typical or greedy test: Hydra, Speculative Streaming, PPD, BiTA, Chimera, GliDe, CTC
drafting.
"""

from fractions import Fraction
from functools import partial
from itertools import product
from math import exp, log, prod
from typing import Any

import numpy as np

from ot_draft import arrays as xp
from ot_draft import trees
from proofs_checks.lossy import engine_rules

from ..by_hand import mode, most_probable, single
from ..record import NAIVE_TREE, RUN, TARGET_SAMPLE, TOP, TREE, AlongPath, Case, Known, OneToken, Work, biased

TYPICAL = partial(engine_rules.TypicalAcceptance, 0.3, 0.09)
FIX = "draw the token from p, and take the draft if it is that token"
PAIR = trees.TreeShape.by_level((2,))
HALF, EIGHTH = Fraction(1, 2), Fraction(1, 8)


def likely(p: Any, q: Any, x: int) -> int:
    entropy = -sum(float(mass) * log(float(mass) + 1e-5) for mass in p)
    return int(float(p[x]) > min(0.3, 0.09 * exp(-entropy)))


def leaves(forest: Any) -> list[tuple[int, ...]]:
    """The paths of a tree, from its root to a leaf, in order."""
    return [(token, *rest) for token, below in forest if token >= 0 for rest in (leaves(below) or [()])]


def longest_likely(model: Any, tree: Any) -> dict[tuple[int, ...], Any]:
    """The longest path that is probable enough, of several the most probable one, then the target's most probable token."""
    rule, found = TYPICAL("greedy"), []
    for path in leaves(tree.forest):
        targets = [model.target(path[:i]) for i in range(len(path))]
        kept = 0
        while kept < len(path) and rule(targets[kept], targets[kept], np.array(path[kept : kept + 1])).accept[0]:
            kept += 1
        found.append((kept, prod(targets[i][path[i]] for i in range(kept)), path[:kept]))
    longest = max(kept for kept, _, _ in found)
    _, prefix = max(((mass, path) for kept, mass, path in found if kept == longest), key=lambda each: each[0])
    return {(*prefix, int(xp.top_tokens(model.target(prefix), 1)[0])): Fraction(1)}


def longest_by_hand(chance: Any, p: Any, q: Any, k: int) -> Any:
    best: tuple[int, Any, tuple[int, ...]] = (0, Fraction(1), ())
    for x in most_probable(q(), 2):
        for y in most_probable(q((x,)), 2):
            path = () if not likely(p(), (), x) else (x,) if not likely(p((x,)), (), y) else (x, y)
            mass = prod((p(path[:i])[token] for i, token in enumerate(path)), start=Fraction(1))
            best = max(best, (len(path), mass, path), key=lambda each: each[:2])
    return (*best[2], *most_probable(p(best[2]), 1))


def nucleus(model: Any, tree: Any) -> dict[tuple[int, ...], Any]:
    """Every path is kept as far as draws of its own agree; the first of the longest wins."""
    law: dict[tuple[int, ...], Any] = {}
    every = leaves(tree.forest)
    agree = []  # of each path: the chance to be kept for 0, 1, .. tokens
    for path in every:
        here = [model.target(path[:i])[token] for i, token in enumerate(path)]
        agree.append([prod(here[:kept]) * (1 - here[kept] if kept < len(here) else 1) for kept in range(len(path) + 1)])
    for kept in product(*(range(len(path) + 1) for path in every)):
        chance = prod(chances[number] for chances, number in zip(agree, kept, strict=True))
        best = kept.index(max(kept))
        prefix = every[best][: kept[best]]
        for token, mass in enumerate(model.target(prefix).tolist()):
            if mass and chance:
                law[*prefix, token] = law.get((*prefix, token), 0) + chance * mass
    return law


def nucleus_by_hand(depth: int) -> Any:
    def program(chance: Any, p: Any, q: Any, k: int) -> Any:
        every: list[tuple[int, ...]] = [()]
        for _ in range(depth):
            every = [(*path, x) for path in every for x in most_probable(q(path), 2)]
        winner: tuple[int, ...] = ()
        for path in every:
            kept: tuple[int, ...] = ()
            for x in path:
                if chance.draw(p(kept)) != x:
                    break
                kept = (*kept, x)
            winner = kept if len(kept) > len(winner) else winner
        return (*winner, chance.draw(p(winner)))

    return program


CODE = "FasterDecoding/Medusa medusa/model/utils.py@e2a5d20, "
WORK = Work(
    "medusa", "Medusa", "Cai et al. 2024, section 3.3.1", "code; the library's rule", "plausible text, not the target's distribution",
    "an entropy per token",
    (biased("code, fast: one candidate", OneToken(TYPICAL("greedy"), (1,), TOP), single(likely, lambda p, q, x: mode(p), mode),
            "posterior_mask = candidates_prob > threshold; the next token is the argmax", TARGET_SAMPLE, FIX,
            when="temperature above 0", code=CODE + "evaluate_posterior", seen=RUN),
     biased("code, fast: tree", AlongPath(longest_likely, (2,), 2, TREE, TOP), longest_by_hand,
            "best_candidates = where(candidates_accept_length == accept_length), of them the most probable",
            NAIVE_TREE, FIX, when="temperature above 0", code=CODE + "evaluate_posterior", seen=RUN),
     biased("as the paper may be read: residual p", OneToken(TYPICAL("sample"), (1,), TOP),
            single(likely, lambda p, q, x: p, mode),
            "a candidate is taken above the threshold, else a draw from the target", TARGET_SAMPLE, FIX,
            when="in no released code", code="none"),
     biased("code, nucleus: tree", AlongPath(nucleus, (2,), 2, TREE, TOP), nucleus_by_hand(2),
            "sampled_tokens = multinomial(..) for every path; best_candidate = argmax of the lengths",
            NAIVE_TREE, "one draw of the target per node, which all paths through it share",
            when="sampling='nucleus'; p is the distribution after its top-p", code=CODE + "get_nucleus_posterior_mask", seen=RUN,
            known=(Known(Case(((HALF, HALF),), ((HALF, HALF),), 2), EIGHTH, "a root with two children",
                         AlongPath(nucleus, (2,), 1, PAIR, TOP), nucleus_by_hand(1)),))),
    CODE + "evaluate_posterior", on_purpose=True,
)  # fmt: skip
