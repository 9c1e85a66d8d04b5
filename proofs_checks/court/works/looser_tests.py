"""Works that loosen the test of one draft, and keep or change the residual; lossy by design.

FLY takes a draft that is not the target's likeliest token where the target's entropy is high and no further mismatch follows (here: given
that none follows). MARS takes the target's second token where its mass is near the first's. EARS adds a tolerance that grows with 1 - max
p. LENIENCE divides q by a factor; SPEC-RL does so with p as the residual. The relaxed acceptance of TENSORRT-LLM takes a draft near the
target's best; its typical acceptance samples the target without the tokens below min(threshold, alpha e^-H), and compares: lossless for
that truncated law (at temperature 1). WAGNER et al. put sigmoids in the place of both softmaxes: with normalised logits and scale 1,
p/(1 + p) and q/(1 + q). MEDUSA's typical acceptance takes a draft, the likeliest token of a head, where p finds it likely enough; its
default (fast) then ends with the target's likeliest token. MTAD takes the longest drafted beginning whose joint ratio passes a
threshold, then a token from p.
"""

from fractions import Fraction
from functools import partial
from math import exp, log
from typing import Any

import numpy as np

import ot_draft as ot
from ot_draft import arrays as xp
from ot_draft import paths

from ..by_hand import likeliest, minus, mode, norm, ratio, single, usual_residual, usual_test, without
from ..record import SPECULATIVE, TARGET_SAMPLE, TOP, AlongPath, Form, OneToken, Work, biased
from ..rules import Single, among, capped_ratio, left

GATE, MARGIN, BETA, HALF = 0.3, Fraction(9, 10), Fraction(1, 4), Fraction(1, 2)
TAU, THRESHOLD, ALPHA = HALF, 0.3, 0.9  # the last two larger than in practice, to show on three tokens


def best(p: Any) -> Any:
    return xp.as_number(among(xp.top_tokens(p, 1), p), p)


def entropy_of(masses: Any) -> Any:
    return -xp.total(masses * np.log(masses + (masses == 0)))


def open_gate(p: Any, q: Any) -> Any:
    return xp.where(entropy_of(p.astype(float)) >= GATE * log(p.shape[-1]), 1 + 0 * p, best(p))


def unmasked(p: Any, q: Any, k: Any = 1, law: Any = None) -> Any:
    """The target that TensorRT-LLM's typical acceptance samples from."""
    bar = np.minimum(THRESHOLD, ALPHA * np.exp(-entropy_of(p.astype(float))))
    return xp.normalise(xp.where(p.astype(float) >= bar, p, 0 * p), otherwise=p)


def masked_by_hand(p: Any) -> Any:
    bar = min(THRESHOLD, ALPHA * exp(sum(float(mass) * log(mass) for mass in p if mass)))
    return norm([mass if float(mass) >= bar else 0 for mass in p])


def gate(p: Any, q: Any, x: int) -> int:
    entropy = -sum(float(mass) * log(mass) for mass in p if mass)
    return int([x] == likeliest(p, 1) or entropy >= GATE * log(len(p)))


def second_counts(p: Any, q: Any) -> Any:
    two = xp.top_tokens(p, 2)
    second = among(two[..., 1:], p)
    near = xp.gather(p, two[..., 1:]) >= xp.number(MARGIN, p) * xp.gather(p, two[..., :1])
    return xp.where(second & near, 1 + 0 * p, capped_ratio(p, q))


def margin(p: Any, q: Any, x: int) -> Any:
    first, second = likeliest(p, 2)
    return 1 if x == second and ratio(p[second], p[first]) >= MARGIN else usual_test(p, q, x)


def loosened(p: Any, q: Any, beta: Any = BETA) -> Any:
    return xp.minimum(xp.divide(p, q, 0) + xp.number(beta, p) * (1 - xp.largest(p)), 1)


def sigmoid(p: Any) -> Any:
    return p / (1 + p)


def squashed(masses: Any) -> list[Fraction]:
    return [mass / (1 + mass) for mass in masses]


def likely(p: Any, q: Any, x: int) -> int:
    entropy = -sum(float(mass) * log(float(mass) + 1e-5) for mass in p)
    return int(float(p[x]) > min(0.3, 0.09 * exp(-entropy)))


MEDUSA = partial(ot.rules.lossy.TypicalAcceptance, 0.3, 0.09)
FIX = "draw the token from p, and take the draft if it is that token"


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
chosen = partial(OneToken, ks=(1,), law=TOP)  # the draft is the draft model's likeliest token
LENIENT = single(lambda p, q, x: ratio(p[x], HALF * q[x]), usual_residual)
FROM_TARGET = single(lambda p, q, x: ratio(p[x], HALF * q[x]), lambda p, q, x: p)
SIGMOID = one(Single(lambda p, q: capped_ratio(sigmoid(p), sigmoid(q)), lambda p, q: left(sigmoid(p), sigmoid(q))))
SQUASHED = single(
    lambda p, q, x: ratio(squashed(p)[x], squashed(q)[x]),
    lambda p, q, x: norm(minus(squashed(p), squashed(q)), norm(squashed(p))),
)
GATED = single(gate, lambda p, q, x: mode(p), mode)
TOLERANT = single(lambda p, q, x: ratio(p[x], q[x]) + BETA * (1 - max(p)), usual_residual)
RELAXED = single(
    lambda p, q, x: int(x in likeliest(p, 10) and p[x] > max(p) - Fraction(3, 5)), lambda p, q, x: mode(p), mode
)
MASKED = single(lambda p, q, x: masked_by_hand(p)[x], lambda p, q, x: without(masked_by_hand(p), [x]), mode)
WORKS = (
    Work("lenience", "Lenience; SPEC-RL", "Leviathan et al. 2211.17192, A.5; SPEC-RL 2025", "the library's rules",
         "no token gets more than p/l (holds); rollouts near the policy", "as speculative sampling",
         (biased("lenience 1/2", one(ot.rules.lossy.LenientSampling(HALF)), LENIENT, "accept with min(1, p / (l q))", SPECULATIVE, "l = 1",
                 rests_on="exact enumeration; its bound: `prove lossy_claims`"),
          biased("lenience 1/2, the rest from p", one(ot.rules.lossy.LenientSampling(HALF, "target")), FROM_TARGET,
                 "after a refusal a fresh draw from p", SPECULATIVE, "l = 1 and the residual norm((p - q)+)")), on_purpose=True),
    Work("fly", "FLy", "Li et al. 2511.22972", "from its description; gate .3 of log n", "accuracy kept to 99 %; none about the law",
         "an entropy a token",
         (biased("one position, window without mismatch", chosen(Single(open_gate, lambda p, q: best(p))), GATED,
                 "accept a mismatch where the normalised entropy is at least theta", TARGET_SAMPLE,
                 "compare with the target's sample, without a gate"),), on_purpose=True),
    Work("mars", "MARS", "Song et al. 2601.15498v1", "from the abstract only; margin .9 as a ratio of masses",
         "quality kept; none about the law", "the two likeliest tokens",
         (biased("margin on the second token", one(Single(second_counts)), single(margin, usual_residual),
                 "relax rejection where the two likeliest tokens are near each other", SPECULATIVE, "no margin"),), on_purpose=True),
    Work("ears", "EARS", "2512.13194", "from its description; tolerance (1 - max p)/4", "throughput for a small loss of accuracy",
         "as speculative sampling",
         (biased("tolerance (1 - max p)/4", one(Single(loosened)), TOLERANT,
                 "accept if u <= p/q + beta (1 - max p)", SPECULATIVE, "beta = 0"),), on_purpose=True),
    Work("wagner", "Optimized speculative sampling, sigmoid form", "Wagner et al. 2024",
         "from its description; scale 1, normalised logits", "exact: identical; sigmoid: a small loss of accuracy",
         "no softmax over the vocabulary",
         (Form("exact", SPECULATIVE, "the same rule in another order; Coq: sampling.v"),
          biased("sigmoid", SIGMOID, SQUASHED, "sigmoid for softmax in test and residual", SPECULATIVE, "softmax")), on_purpose=True),
    Work("tensorrt", "TensorRT-LLM's two tests", "", "relaxed: from its description; typical: code",
         "for thinking phases; plausible text; none about the law", "the ten likeliest tokens; an entropy",
         (biased("top 10, delta .6", chosen(ot.rules.lossy.RelaxedAcceptance()), RELAXED,
                 "accept a draft among the top tokens with p > max p - delta", TARGET_SAMPLE,
                 "compare with the target's sample"),
          biased("typical, threshold .3, alpha .9", OneToken(ot.rules.Toward(unmasked, ot.rules.NaiveTarget(law=TOP)), (1,)), MASKED,
                 "if (prob < threshold) logit = -FLT_MAX, before the target's sample is drawn", TARGET_SAMPLE, "no mask")),
         "NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels/speculativeDecoding/common.cu@2a9abd9, maskLogitsBasedOnEntropy", on_purpose=True),
    Work("asd", "ASD", "2608.03447", "its number only; neither abstract nor code could be had", "not read", "not read", (),
         not_judged="nothing that was found says what its rule is"),
    Work(
        "medusa", "Medusa's typical acceptance", "Cai et al. 2024, section 3.3.1", "code; the library's rule",
        "plausible text, not the target's law", "an entropy a token",
        (biased("code, fast", chosen(MEDUSA("greedy")), single(likely, lambda p, q, x: mode(p), mode),
                "posterior_mask = candidates_prob > threshold; the next token is the argmax", TARGET_SAMPLE, FIX),
         biased("rest drawn from the target", chosen(MEDUSA("sample")), single(likely, lambda p, q, x: p, mode),
                "posterior_mask = candidates_prob > threshold", TARGET_SAMPLE, FIX)),
        "FasterDecoding/Medusa medusa/model/utils.py@e2a5d20, evaluate_posterior", on_purpose=True,
    ),
    Work(
        "mtad", "Multi-token joint decoding (MTAD)", "MTAD 2024", "from its description; i.i.d. drafts in the place of beams, tau = 1/2",
        "approximates the joint law within a bound", "the joint ratio",
        (biased("threshold on the joint ratio", AlongPath(joint_threshold), joint_by_hand,
                "accept the longest beginning with min(1, p(x_1..x_i)/q(x_1..x_i)) > tau", AlongPath(paths.BlockVerification()),
                "test block verification's weights by coins, correct from (w p - q)+"),), on_purpose=True,
    ),
)  # fmt: skip
