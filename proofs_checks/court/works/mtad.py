"""Multi-token joint decoding (MTAD): the longest drafted beginning whose joint ratio passes a threshold is taken, then
a token from p."""

from fractions import Fraction
from typing import Any

from ot_draft import paths

from ..record import AlongPath, Work, biased

TAU = Fraction(1, 2)


def rule(model: Any, drafts: Any) -> Any:
    (path,) = drafts
    kept, joint = 0, Fraction(1)
    for i, token in enumerate(path):
        joint = joint * model.target(path[:i])[token] / model.draft(path[:i])[token]
        kept = i + 1 if min(1, joint) > TAU else kept
    return {(*path[:kept], y): mass for y, mass in enumerate(model.target(path[:kept]).tolist()) if mass}


def by_hand(chance: Any, p: Any, q: Any, k: int) -> Any:
    x = chance.draw(q())
    y = chance.draw(q((x,)))
    first = p()[x] / q()[x]
    path = (x, y) if first * p((x,))[y] / q((x,))[y] > TAU else (x,) if first > TAU else ()
    return (*path, chance.draw(p(path)))


WORK = Work(
    "mtad", "Multi-token joint decoding (MTAD)", "MTAD 2024", "from its description; i.i.d. drafts in the place of beams, tau = 1/2",
    "approximates the joint law within a bound", "the joint ratio",
    (biased("threshold on the joint ratio", AlongPath(rule), by_hand,
    "accept the longest beginning with min(1, p(x_1..x_i)/q(x_1..x_i)) > tau",
            AlongPath(paths.BlockVerification()), "test block verification's weights by coins, correct from (w p - q)+"),), on_purpose=True,
)  # fmt: skip
