"""vLLM's rejection samplers: of V1, and of the second runner.

NOISE. In the second runner the Gumbel noise that drew the draft token also drew the recovered token, until pull 54282. Given the rejected
draft token x, the noise of the other tokens is not fresh: the recovered token wins a race of the same exponentials. Its distribution is
rational. This needs draft_sample_method="probabilistic": with the default, greedy, no noise draws the draft token, and V1 draws its own.
BLOCK and SYNTHETIC are the second runner's. SYNTHETIC draws from norm((p - q)+) after a rejection. BLOCK NUMBERS. Block verification reads
the uniform numbers of all positions of a cycle. Until 0.32.0 a number depends on the request's seed and the position only. After a
rejection at the first position the next cycle reads the second number again, which is then known to be above its threshold. 0.33.0 mixes
the step into the seed. The standard test stops at the first rejection, so that no number is read twice. Evaluated with two most probable
draft tokens per cycle (the default, greedy), over up to three cycles, at one distribution for all contexts. FLY, in 0.33.0, keeps a
rejected draft token where the target is uncertain and the next W draft tokens pass; here two draft tokens and W = 1.
"""

from fractions import Fraction
from functools import partial
from heapq import nlargest
from math import log
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft import trees

from ...paths.path_cases import Told
from ...races import exponential_race
from ...random_cases import Case
from ..by_hand import minus, most_probable, norm, single, usual_residual, without
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
V1 = "vllm 0.33.0 v1/sample/rejection_sampler.py"
V2 = "vllm 0.33.0 v1/worker/gpu/spec_decode/rejection_sampler_utils.py"
OLD = "vllm-project/vllm v1/worker/gpu/spec_decode/rejection_sampler_utils.py@02e318b"
THREE = 3  # tokens of the text
LAW, NONE = "draft's distribution given", "no distribution given (n-gram, greedy draft)"


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


def numbers_again(p: Any, q: Any, k: int, again: bool = True) -> Any:
    """Block verification of two most probable draft tokens per cycle: distribution of three tokens, and the accepted draft tokens of
    a cycle. again: after a rejection at the first position the next cycle reads the second uniform number of this one."""
    (x,) = most_probable(q, 1)
    first, both = p[x], p[x] ** 2
    one = first / (1 + first)  # block verification's threshold of the first position; `both` is that of the second
    others = without(p, (x,))
    law: dict[tuple[int, ...], Any] = {}

    def end(text: tuple[int, ...], last: Any, chance: Any, low: Fraction) -> None:
        for y, mass in enumerate(last):
            if chance * mass:
                cycle((*text, y), chance * mass, low)

    def cycle(text: tuple[int, ...], chance: Any, low: Fraction) -> None:
        """low: the first uniform number is known to be above it."""
        if len(text) >= THREE:
            law[text[:THREE]] = law.get(text[:THREE], 0) + chance
            return
        passes = max(one - low, Fraction(0)) / (1 - low)
        end((*text, x, x), p, chance * both, Fraction(0))
        end((*text, x), others, chance * (1 - both) * passes, Fraction(0))
        end(text, others, chance * (1 - both) * (1 - passes), both if again else Fraction(0))

    cycle((), Fraction(1), Fraction(0))
    return law, 2 * both + (1 - both) * one


def numbers_by_hand(chance: Any, p: Any, q: Any, k: int) -> Any:
    """The same as a program; `read` is the threshold above which the number of the next position was found, or None."""
    x = most_probable(q(), 1)[0]
    weight = p()[x]
    missing = weight * (1 - weight)
    h = missing / (missing + 1 - weight) if weight < 1 else Fraction(1)
    text: list[int] = []
    read = None
    while len(text) < THREE:
        if chance.flip(weight * weight):
            text += [x, x, chance.draw(p())]
            read = None
            continue
        if chance.flip(h if read is None else (max(h, read) - read) / (1 - read)):
            text.append(x)
            read = None
        else:
            read = weight * weight
        text.append(chance.draw(without(p(), (x,))))
    return tuple(text[:THREE])


def uncertain(p: Any) -> bool:
    """Whether the three largest masses have .3 nats of the entropy, the gate's threshold."""
    return -sum(float(mass) * log(mass) for mass in nlargest(3, p) if mass) >= 0.3


def fly(model: Any, drafts: Any) -> Any:
    """A rejected draft is kept where the target is uncertain and the next one passes."""
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


NEW = "0.33.0: the seed depends on the step too (spec_step_seed)"
WORK = Work(
    "vllm", "vLLM", "", "code of V1 and of the second runner (V2), wheels of 0.24.0, 0.25.0, 0.28.0 to 0.33.0; pulls 46781, 47386, 54282",
    "strictly follows Leviathan et al.; block verification",
    "one pass per token",
    (Form("standard, " + LAW, SPECULATIVE, STANDARD, mode=CHAIN, code=f"{V1}; {V2}",
          when='V1; V2: draft_sample_method="probabilistic", since 0.29.0'),
     Form("standard, " + NONE, OneToken(CHOSEN, (1,)), "q set to 1 for a token that is not drawn; Coq: sampling.v", mode=NGRAM,
          code=f"{V1}; {V2}"),
     Form("V2 block, " + LAW, AlongPath(trees.BlockVerification()), "block verification; Coq: block.v", mode=BLOCK, code=V2,
          when='rejection_sample_method="block", since 0.33.0'),
     Form("V2 block, no distribution: chosen path", AlongPath(block_of_one_hot, shape=trees.TreeShape.chains(1, 2), law=TOP),
          "block verification with q = 1 on the path; exact checks", mode=BLOCK, code=V2,
          when='rejection_sample_method="block", since 0.33.0'),
     biased("V2 block: a uniform number read in two cycles", Coupled(numbers_again, text=THREE, baseline=""), numbers_by_hand,
            "u = tl_rand32(seed, pos), read at every position of the block; the next cycle reads those after the rejection again",
            Coupled(partial(numbers_again, again=False), text=THREE, baseline=""), "mix the step into the seed, as 0.33.0 does",
            mode=BLOCK, when='rejection_sample_method="block", 0.25.0 to 0.32.0, temperature above 0', cycles=3,
            code=f"{OLD}; vllm 0.25.0 to 0.32.0, the same", fixed=NEW,
            seen="run: 0.29.0's kernels, in an interpreter, two cycles of 4,000 requests at p = (1/2, 1/2): (1, 0) came in .159 of them; "
                 "1/6 predicted, 1/4 due"),
     biased("V2 synthetic at rate 3/5, for benchmarks", OneToken(Single(lambda p, q: 0 * p + RATE), (1,)),
            single(lambda p, q, x: RATE, usual_residual), "accepted &= u < rate, whatever p says", SPECULATIVE,
            "standard acceptance: the rate is what min(p, q) gives", on_purpose=True, mode=TYPICAL, when="synthetic acceptance enabled",
            code=V2, seen=READ),
     biased("V2 fly, window 1", AlongPath(fly), fly_by_hand, "pending_rejection = i, where the entropy is at least fly_entropy_threshold",
            AlongPath(trees.TokenWise(otd.rules.SpeculativeSampling())), 'rejection_sample_method="standard"', on_purpose=True,
            mode=TYPICAL, when="fly enabled, since 0.33.0; it warns that it is lossy", seen=READ, code=f"{V2}, _rejection_kernel"),
     biased("V2: the draft's noise again", Coupled(used_again, in_floats=lambda p, q: np.minimum(p, q).sum()), race_by_hand,
            "the recovered token takes the Gumbel noise that drew the draft", SPECULATIVE, "fresh noise, as pull 54282 has it",
            rests_on="exact integration of the race", mode=CHAIN, when='before pull 54282, only with draft_sample_method="probabilistic"',
            code=f"{OLD}; vllm 0.28.0, the same", fixed="pull 54282, in 0.29.0: a separate salt (_DRAFT_NOISE_SALT)",
            seen=f"{READ}; others counted 131,072 draws on a GPU: (.1, .6, .3) came as (.102, .630, .268)"),
     greedy("temperature 0", code=f"{V1}; {V2}")),
    f"{V1}; {V2}", engine="vLLM",
    remarks="The uniform number of the test and the seed of the noise are one Philox word until 0.32.0; noise under different seeds is "
            "taken as independent. Synthetic with (p - q)+ empty, an argmax of -inf, is evaluated as p.",
)  # fmt: skip
