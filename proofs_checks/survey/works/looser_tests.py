"""Works that loosen the test of one draft, and keep or change the residual; lossy by design.

FLY keeps a draft token that is not the target's most probable where the target's entropy is high and no further mismatch follows (here:
given that none follows). MARS takes the target's second token where its mass is near the first's. EARS adds a tolerance that grows with 1
- max p. LENIENCE divides q by a factor; SPEC-RL does so with p as the residual. WAGNER et al. use sigmoids instead of both softmaxes:
with normalised logits and scale 1, p/(1 + p) and q/(1 + q). MTAD takes the longest drafted beginning whose joint ratio passes a
threshold, then a token from p. ASD relaxes greedy decoding: a draft is kept while its regret, max z - z_x, stays within budgets.
"""

from fractions import Fraction
from functools import partial
from math import log
from typing import Any

import numpy as np

from ot_draft import arrays as xp
from ot_draft import trees
from proofs_checks.lossy import engine_rules

from ..by_hand import minus, mode, most_probable, norm, ratio, single, usual_residual, usual_test
from ..record import SPECULATIVE, TOP, AlongPath, Form, OneToken, Work, biased
from ..rules import Single, among, best, capped_ratio, left

GATE, MARGIN, BETA, HALF = 0.3, Fraction(9, 10), Fraction(1, 4), Fraction(1, 2)
TAU, REGRET = HALF, Fraction(4, 5)


def entropy_of(masses: Any) -> Any:
    return -(masses * np.log(masses + (masses == 0))).sum(-1, keepdims=True)


def open_gate(p: Any, q: Any) -> Any:
    return xp.where(entropy_of(p.astype(float)) >= GATE * log(p.shape[-1]), 1 + 0 * p, best(p))


def gate(p: Any, q: Any, x: int) -> int:
    entropy = -sum(float(mass) * log(mass) for mass in p if mass)
    return int([x] == most_probable(p, 1) or entropy >= GATE * log(len(p)))


def second_counts(p: Any, q: Any) -> Any:
    two = xp.top_tokens(p, 2)
    second = among(two[..., 1:], p)
    near = xp.gather(p, two[..., 1:]) >= xp.number(MARGIN, p) * xp.gather(p, two[..., :1])
    return xp.where(second & near, 1 + 0 * p, capped_ratio(p, q))


def margin(p: Any, q: Any, x: int) -> Any:
    first, second = most_probable(p, 2)
    return 1 if x == second and ratio(p[second], p[first]) >= MARGIN else usual_test(p, q, x)


def loosened(p: Any, q: Any, beta: Any = BETA) -> Any:
    return xp.minimum(xp.divide(p, q, 0) + xp.number(beta, p) * (1 - xp.max(p, axis=-1, keepdims=True)), 1)


def little_regret(p: Any, q: Any) -> Any:
    return xp.astype(p >= xp.number(REGRET, p) * xp.max(p, axis=-1, keepdims=True), p.dtype)


def sigmoid(p: Any) -> Any:
    return p / (1 + p)


def squashed(masses: Any) -> list[Fraction]:
    return [mass / (1 + mass) for mass in masses]


def joint_threshold(model: Any, drafts: Any) -> Any:
    (path,) = drafts
    kept, joint = 0, Fraction(1)
    for i, token in enumerate(path):
        joint = joint * model.target(path[:i])[token] / model.draft(path[:i])[token]
        kept = i + 1 if min(1, joint) > TAU else kept
    return {(*path[:kept], y): mass for y, mass in enumerate(model.target(path[:kept]).tolist()) if mass}


def joint_by_hand(chance: Any, p: Any, q: Any, k: int) -> Any:
    x = chance.draw(q())
    y = chance.draw(q((x,)))
    first = p()[x] / q()[x]
    path = (x, y) if first * p((x,))[y] / q((x,))[y] > TAU else (x,) if first > TAU else ()
    return (*path, chance.draw(p(path)))


one = partial(OneToken, ks=(1,))
LENIENT = single(lambda p, q, x: ratio(p[x], HALF * q[x]), usual_residual)
FROM_TARGET = single(lambda p, q, x: ratio(p[x], HALF * q[x]), lambda p, q, x: p)
SIGMOID = one(Single(lambda p, q: capped_ratio(sigmoid(p), sigmoid(q)), lambda p, q: left(sigmoid(p), sigmoid(q))))
SQUASHED = single(
    lambda p, q, x: ratio(squashed(p)[x], squashed(q)[x]),
    lambda p, q, x: norm(minus(squashed(p), squashed(q)), norm(squashed(p))),
)
MOST_PROBABLE = OneToken(Single(lambda p, q: best(p), lambda p, q: best(p), TOP), (1,), expected=mode)
GATED = single(gate, lambda p, q, x: mode(p), mode)
TOLERANT = single(lambda p, q, x: ratio(p[x], q[x]) + BETA * (1 - max(p)), usual_residual)
WORKS = (
    Work("lenience", "Lenience; SPEC-RL", "Leviathan et al. 2211.17192, A.5; SPEC-RL 2025", "the library's rules",
         "no token gets more than p/l (holds); rollouts near the policy", "as speculative sampling",
         (biased("lenience 1/2", one(engine_rules.LenientSampling(HALF)), LENIENT, "accept with min(1, p / (l q))", SPECULATIVE, "l = 1",
                 rests_on="exact enumeration; its bound: `prove lossy_claims`"),
          biased("lenience 1/2, residual p", one(engine_rules.LenientSampling(HALF, "target")), FROM_TARGET,
                 "after a rejection a fresh draw from p", SPECULATIVE, "l = 1 and the residual norm((p - q)+)")), on_purpose=True),
    Work("fly", "FLy", "Li et al. 2511.22972", "from its description; gate .3 of log n",
         "accuracy kept to 99 %; none about the distribution", "an entropy per token",
         (biased("one position, window without mismatch", OneToken(Single(open_gate, lambda p, q: best(p), TOP), (1,), expected=mode),
                 GATED,
                 "accept a mismatch where the normalised entropy is at least theta", MOST_PROBABLE, "no gate",
                 when="greedy decoding: compared with the target's most probable token",
                 sampling="temperature 0"),), on_purpose=True),
    Work("mars", "MARS", "Song et al. 2601.15498v1", "from the abstract only; margin .9 as a ratio of masses",
         "quality kept; none about the distribution", "the two most probable tokens",
         (biased("margin on the second token", one(Single(second_counts)), single(margin, usual_residual),
                 "relax rejection where the two most probable tokens are near each other", SPECULATIVE, "no margin"),), on_purpose=True),
    Work("ears", "EARS", "2512.13194", "from its description; tolerance (1 - max p)/4", "throughput for a small loss of accuracy",
         "as speculative sampling",
         (biased("tolerance (1 - max p)/4", one(Single(loosened)), TOLERANT,
                 "accept if u <= p/q + beta (1 - max p)", SPECULATIVE, "beta = 0"),), on_purpose=True),
    Work("wagner", "Optimized speculative sampling, sigmoid form", "Wagner et al. 2024",
         "from its description; scale 1, normalised logits", "exact: identical; sigmoid: a small loss of accuracy",
         "no softmax over the vocabulary",
         (Form("exact", SPECULATIVE, "the same rule in another order; Coq: sampling.v"),
          biased("sigmoid", SIGMOID, SQUASHED, "sigmoid for softmax in test and residual", SPECULATIVE, "softmax")), on_purpose=True),
    Work("asd", "ASD", "2608.03447", "the rule, as its author gives it in two issues",
         "a bounded deviation from greedy decoding", "a maximum per token",
         (biased("one position, regret up to log(5/4)", OneToken(Single(little_regret, lambda p, q: best(p), TOP), (1,), expected=mode),
                 single(lambda p, q, x: int(p[x] >= REGRET * max(p)), lambda p, q, x: mode(p), mode),
                 "accept while the regrets sum to at most B, r/(K - i) <= g, and at most m draft tokens are not the argmax",
                 MOST_PROBABLE, "B = 0",
                 when="greedy decoding: compared with the target's most probable token",
                 sampling="temperature 0",
                 code="huggingface/transformers issue 48636; ModelTC/LightLLM issue 1552"),), on_purpose=True),
    Work(
        "mtad", "Multi-token joint decoding (MTAD)", "MTAD 2024", "from its description; i.i.d. drafts instead of beams, tau = 1/2",
        "approximates the joint distribution within a bound", "the joint ratio",
        (biased("threshold on the joint ratio", AlongPath(joint_threshold), joint_by_hand,
                "accept the longest beginning with min(1, p(x_1..x_i)/q(x_1..x_i)) > tau", AlongPath(trees.BlockVerification()),
                "test block verification's weights by uniform numbers, correct from (w p - q)+"),), on_purpose=True,
    ),
)  # fmt: skip
