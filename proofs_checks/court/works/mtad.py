"""Multi-token joint decoding (MTAD): the longest drafted beginning whose joint ratio passes a threshold is taken, then a token from p."""

from fractions import Fraction

from ot_draft import paths

from ..defendants import AlongPath
from ..record import NOT_LOSSLESS, Form, Work

TAU = Fraction(1, 2)


def rule(model, drafts):  # type: ignore[no-untyped-def]
    (path,) = drafts
    kept, joint = 0, Fraction(1)
    for i, token in enumerate(path):
        joint = joint * model.target(path[:i])[token] / model.draft(path[:i])[token]
        kept = i + 1 if min(1, joint) > TAU else kept
    return {(*path[:kept], y): mass for y, mass in enumerate(model.target(path[:kept]).tolist()) if mass}


def by_hand(chance, p, q, k):  # type: ignore[no-untyped-def]
    x = chance.draw(q())
    y = chance.draw(q((x,)))
    first = p()[x] / q()[x]
    both = first * p((x,))[y] / q((x,))[y]
    path = (x, y) if both > TAU else (x,) if first > TAU else ()
    return (*path, chance.draw(p(path)))


WORK = Work(
    name="mtad", title="Multi-token joint decoding (MTAD)", paper="Qin et al. 2407.09722", on_purpose=True,
    read="from its description; i.i.d. drafts in the place of beams, tau = 1/2", claim="approximates the joint law within a bound",
    cost="none beyond the joint ratio",
    forms=(
        Form("threshold on the joint ratio", AlongPath(rule), "exact enumeration", NOT_LOSSLESS, by_hand,
             "accept the longest beginning with min(1, p(x_1..x_i)/q(x_1..x_i)) > tau", AlongPath(paths.BlockVerification()),
             "test the weights of block verification by coins, and correct from (w p - q)+"),
    ),
)  # fmt: skip
