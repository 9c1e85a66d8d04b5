"""vLLM's rejection samplers: of V1, and of the second runner.

NOISE. In the second runner the Gumbel noise that drew the draft was used again for the recovered token, until pull 54282. Given the refused
draft x, the noise of the others is no longer fresh: what is recovered is the winner of a race of the same exponentials. Its law is
rational. Only with draft_sample_method="probabilistic": with the default, greedy, no noise drew the draft, and V1 draws its own. BLOCK and
SYNTHETIC are the second runner's; at 02e318b synthetic draws the rest from norm((p - q)+). FLY, in 0.33.0, keeps a refused draft where the
target is uncertain and the next W drafts pass; here two drafts and W = 1.
"""

from fractions import Fraction
from heapq import nlargest
from math import log
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft import trees

from ...paths.path_cases import Told
from ...races import exponential_race
from ...random_cases import Case
from ..by_hand import minus, norm, single, usual_residual
from ..record import (
    BLOCK,
    CHAIN,
    NGRAM,
    READ,
    SPECULATIVE,
    TOP,
    TYPICAL,
    AlongPath,
    Coupled,
    Form,
    OneToken,
    Work,
    biased,
    greedy,
)  # fmt: skip
from ..rules import Single, left

RATE = Fraction(3, 5)
CHOSEN = otd.rules.NaiveTarget(law=TOP)
STANDARD = "speculative sampling; Coq: sampling.v"
V1 = "vllm-project/vllm v1/sample/rejection_sampler.py@0097a7b"
V2 = "vllm-project/vllm v1/worker/gpu/spec_decode/rejection_sampler_utils.py@02e318b"
LAW, NONE = "draft's law given", "no law given (n-gram, greedy draft)"


def used_again(p: Any, q: Any, k: int) -> Any:
    """Draft x with q; kept with min(1, p/q); else argmin E/(p - q)+ of the exponentials whose argmin E/q was x."""
    race = exponential_race.joint(Case(tuple(norm(minus(p, q), p)), q, 1, 0))
    kept = [min(a, b) for a, b in zip(p, q, strict=True)]
    refused = [1 - min(Fraction(1), a / b) if b else Fraction(0) for a, b in zip(p, q, strict=True)]
    return [kept[y] + sum(r * race[x][y] for x, r in enumerate(refused)) for y in range(len(p))], sum(kept)


def race_by_hand(chance: Any, p: Any, q: Any, k: int) -> Any:
    """Three tokens at most: the draft x won with E_x = t q_x, t exponential; each other exponential is t q_y and a fresh one more."""
    target, draft = p(), q()
    x = chance.draw(draft)
    if chance.flip(target[x] / draft[x]):
        return (x,)
    rest = norm(minus(target, draft))
    a, *others = [y for y, mass in enumerate(rest) if mass]
    if not others:
        return (a,)
    (b,) = others
    ahead = draft[b] / rest[b] - draft[a] / rest[a]  # how far a is ahead at the start, in units of t
    both = rest[a] + rest[b]
    wins = 1 - rest[b] / both / (1 + rest[a] * ahead) if ahead >= 0 else rest[a] / both / (1 - rest[b] * ahead)
    return (a,) if chance.flip(wins) else (b,)


def block_of_one_hot(model: Any, drafts: Any) -> Any:
    """Block verification of a chosen path: q is 1 on its tokens."""
    path = drafts.tokens

    def draft(prefix: tuple[int, ...]) -> Any:
        return np.array([Fraction(int(y == path[len(prefix)])) for y in range(len(model.target(prefix)))], dtype=object)

    return trees.BlockVerification()(Told(model.target, draft), (path,))


def uncertain(p: Any) -> bool:
    """Whether the three largest masses have .3 nats of the entropy, the gate's threshold."""
    return -sum(float(mass) * log(mass) for mass in nlargest(3, p) if mass) >= 0.3


def fly(model: Any, drafts: Any) -> Any:
    """A refused draft is kept where the target is uncertain and the next one passes."""
    (path,) = drafts
    law: dict[tuple[int, ...], Any] = {}

    def end(place: int, chance: Any, following: Any) -> None:
        for token, mass in enumerate(following.tolist()):
            if chance * mass:
                law[*path[:place], token] = law.get((*path[:place], token), 0) + chance * mass

    def passes(place: int) -> Any:
        p, q = model.target(path[:place]), model.draft(path[:place])
        return min(1, p[path[place]] / q[path[place]])

    def walk(place: int, chance: Any) -> None:
        p = model.target(path[:place])
        if place == len(path):
            end(place, chance, p)
            return
        accept = passes(place)
        walk(place + 1, chance * accept)
        waits = place + 1 < len(path) and p[path[place]] and accept < 1 and uncertain(p.tolist())
        later = chance * (1 - accept) * passes(place + 1) if waits else 0
        if later:
            walk(place + 2, later)
        end(place, chance * (1 - accept) - later, left(p, model.draft(path[:place])))

    walk(0, 1)
    return law


def fly_by_hand(chance: Any, p: Any, q: Any, k: int) -> Any:
    x = chance.draw(q())
    y = chance.draw(q((x,)))
    refused = not chance.flip(p()[x] / q()[x])
    if refused and not (p()[x] and uncertain(p())):
        return (chance.draw(usual_residual(p(), q(), x)),)
    if chance.flip(p((x,))[y] / q((x,))[y]):
        return (x, y, chance.draw(p((x, y))))
    if refused:
        return (chance.draw(usual_residual(p(), q(), x)),)
    return (x, chance.draw(usual_residual(p((x,)), q((x,)), y)))


WORK = Work(
    "vllm", "vLLM", "", "code of V1 and of the second runner (V2), wheels of 0.28.0 and 0.33.0; pulls 47386, 54282",
    "strictly follows Leviathan et al.; block verification",
    "one pass a token",
    (Form("standard, " + LAW, SPECULATIVE, STANDARD, mode=CHAIN, code=f"{V1}; {V2}"),
     Form("standard, " + NONE, OneToken(CHOSEN, (1,)), "q set to 1 for a token that is no draw; Coq: sampling.v", mode=NGRAM,
          code=f"{V1}; {V2}"),
     Form("V2 block, " + LAW, AlongPath(trees.BlockVerification()), "block verification; Coq: block.v", mode=BLOCK, code=V2),
     Form("V2 block, no law: chosen path", AlongPath(block_of_one_hot, shape=trees.TreeShape.chains(1, 2), law=TOP),
          "block verification with q = 1 on the path; exact checks", mode=BLOCK, code=V2),
     biased("V2 synthetic at rate 3/5, for benchmarks", OneToken(Single(lambda p, q: 0 * p + RATE), (1,)),
            single(lambda p, q, x: RATE, usual_residual), "accepted &= u < rate, whatever p says", SPECULATIVE,
            "standard acceptance: the rate is what min(p, q) gives", on_purpose=True, mode=TYPICAL, when="synthetic acceptance asked for",
            code=V2, seen=READ),
     biased("V2 fly, window 1", AlongPath(fly), fly_by_hand, "pending_rejection = i, where the entropy is at least fly_entropy_threshold",
            AlongPath(trees.TokenWise(otd.rules.SpeculativeSampling())), 'rejection_sample_method="standard"', on_purpose=True,
            mode=TYPICAL, when="fly asked for; it warns that it is lossy", seen=READ,
            code="vllm 0.33.0 v1/worker/gpu/spec_decode/rejection_sampler_utils.py, _rejection_kernel"),
     biased("V2: the draft's noise again", Coupled(used_again, in_floats=lambda p, q: np.minimum(p, q).sum()), race_by_hand,
            "the recovered token takes the Gumbel noise that drew the draft", SPECULATIVE, "fresh noise, as pull 54282 has it",
            rests_on="exact integration of the race", mode=CHAIN, when='before pull 54282, only with draft_sample_method="probabilistic"',
            code=f"{V2}; vllm 0.28.0, the same", fixed="pull 54282, which 0.33.0 has: a salt of its own (sample/gumbel.py@03f97cc)",
            seen=f"{READ}; others counted 131,072 draws on a GPU: (.1, .6, .3) came as (.102, .630, .268)"),
     greedy("temperature 0", code=f"{V1}; {V2}")),
    f"{V1}; {V2}", engine="vLLM",
    remarks="Uniform numbers are taken as independent of noise. Synthetic with (p - q)+ empty, an argmax of -inf, is evaluated as p.",
)  # fmt: skip
