"""ReDrafter (Apple): beams that a search has found, tested with p/q as if they had been drawn.

A beam search of the drafter gives the most probable continuations; no token is drawn. Each token of each beam has a uniform number of its
own and passes with min(1, p/q). The beam of the longest beginning that passes is taken, the first of equals, and then a token from
norm((p - q)+), or from p after a whole beam. With chosen beams q has to be 1, and paths that share a node have to share its uniform
number. Its MLX version has the same test.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ot_draft import arrays as xp
from ot_draft import trees

from ..by_hand import minus, norm, ratio
from ..record import RUN, TOP, TREE, AlongPath, Case, Known, Work, biased

Path = tuple[int, ...]


def beam_search(draft: Callable[[Path], Any], width: int, length: int) -> list[Path]:
    """The beams: of all one-token continuations of the last ones, those of largest mass under the draft."""
    beams: list[tuple[Any, Path]] = [(1, ())]
    for _ in range(length):
        grown = [(mass * q, (*path, y)) for mass, path in beams for y, q in enumerate(list(draft(path)))]
        beams = sorted(grown, key=lambda beam: -beam[0])[:width]
    return [path for _, path in beams]


def longest(width: int, length: int) -> Callable[[Any, Any], dict[Path, Any]]:
    """The distribution of the output, over the passed lengths of all beams."""

    def rule(model: Any, tree: Any) -> dict[Path, Any]:
        law: dict[Path, Any] = {}
        beams = beam_search(lambda path: model.draft(path).tolist(), width, length)
        chances = []
        for beam in beams:
            passes = [
                min(1, model.target(beam[:i])[y] / model.draft(beam[:i])[y]) if model.draft(beam[:i])[y] else 0
                for i, y in enumerate(beam)
            ]
            stops = [*(1 - mass for mass in passes), 1]
            chances.append([prod(passes[:kept]) * stops[kept] for kept in range(length + 1)])
        for kept in product(range(length + 1), repeat=len(beams)):
            chance = prod(each[number] for each, number in zip(chances, kept, strict=True))
            prefix = beams[kept.index(max(kept))][: max(kept)]
            p, q = model.target(prefix), model.draft(prefix)
            whole = len(prefix) == length
            following = p if whole else xp.normalise(np.maximum(p - q, 0 * p), otherwise=p)
            for y, mass in enumerate(following.tolist()):
                if chance and mass:
                    law[*prefix, y] = law.get((*prefix, y), 0) + chance * mass
        return law

    return rule


def by_uniforms(width: int, length: int) -> Callable[..., Any]:
    """The same as a program."""

    def program(chance: Any, p: Any, q: Any, k: int) -> Path:
        found: list[tuple[Path, Any]] = [((), Fraction(1))]
        for _ in range(length):
            found = [((*path, y), mass * q(path)[y]) for path, mass in found for y in range(len(q(path)))]
            found.sort(key=lambda each: each[1], reverse=True)
            found = found[:width]
        taken: Path = ()
        for path, _ in found:
            passed = 0
            while passed < length and chance.flip(
                ratio(p(path[:passed])[path[passed]], q(path[:passed])[path[passed]])
            ):
                passed += 1
            taken = path[:passed] if passed > len(taken) else taken
        last = p(taken) if len(taken) == length else norm(minus(p(taken), q(taken)), p(taken))
        return (*taken, chance.draw(last))

    return program


HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
ONE, TWO = trees.TreeShape.chains(1, 1), trees.TreeShape.by_level((2,))
WORK = Work(
    "redrafter", "ReDrafter", "Zhang et al. 2403.09919", "code, PyTorch",
    "the same distribution, by rejection sampling", "none beyond the beams",
    (biased("code: two beams of two tokens", AlongPath(longest(2, 2), (2,), 2, TREE, TOP), by_uniforms(2, 2),
            "compare = rand < exp(log p - log q), of tokens that a beam search has chosen, with uniform numbers of each beam",
            AlongPath(trees.NaivePath(), (2,), 2, TREE, TOP),
            "q = 1, one uniform number per node: the target's sample, followed where a beam holds it",
            when="sampling (greedy decoding is right)", seen=RUN,
            known=(Known(Case(((HALF, HALF),), ((HALF, HALF),), 1), HALF, "one beam of one token",
                         AlongPath(longest(1, 1), (1,), 1, ONE, TOP), by_uniforms(1, 1)),
                   Known(Case(((HALF, HALF),), ((2 * THIRD, THIRD),), 2), HALF / 2, "two beams of one token",
                         AlongPath(longest(2, 1), (2,), 1, TWO, TOP), by_uniforms(2, 1)))),),
    "apple/ml-recurrent-drafter recurrent_drafting/recurrent_drafting.py@d4f4a72, _choose_from_candidates, _prepare_next_input",
    remarks="Logits are cut to their top 50 before, on both sides. Where nothing is left after a rejection the code fails; evaluated as p.",
)  # fmt: skip
