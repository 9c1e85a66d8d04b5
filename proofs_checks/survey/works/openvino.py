"""OpenVINO GenAI: one sampler verifies draft models, EAGLE-3 trees and prompt lookup.

MULTINOMIAL. The code draws a token s of the target at every position. In the first round it keeps the draft x where s = x. In later rounds
it keeps x where r <= q(x) / p(s), with r uniform on 0, 0.01, .., 1: the draft's mass over the target's mass of another token. After a
rejection it draws the replacement from the row of the next position, whose context holds the rejected token; there is no residual.
EAGLE-3. Its trees are compared with the target's most probable tokens; do_sample is an error there, so no sampled request is verified so.
PROMPT LOOKUP compares with the target's sample (since pull 2331).
"""

from fractions import Fraction
from math import floor
from typing import Any

import ot_draft as otd

from ..record import (
    CHAIN,
    NGRAM,
    PATH,
    TOP,
    AlongPath,
    Case,
    Form,
    Known,
    OneToken,
    Work,
    biased,
    greedy,
)  # fmt: skip

GRID = 101  # values of r


def on_grid(ratio: Fraction) -> Fraction:
    """P(r <= ratio)."""
    return min(Fraction(1), Fraction(floor((GRID - 1) * ratio) + 1, GRID))


def kept(p: Any, q: Any, x: int, first: bool) -> Fraction:
    """Mass that keeps x, over the target's token s."""
    if first:
        return Fraction(p[x])
    return sum((s * on_grid(q[x] / s) for s in p if s), Fraction(0))


def rounds(first: bool) -> Any:
    """Distribution of what a round emits, given its path."""

    def rule(model: Any, drafts: Any) -> dict[tuple[int, ...], Any]:
        (path,) = drafts
        law: dict[tuple[int, ...], Any] = {}

        def end(text: tuple[int, ...], following: Any, chance: Any) -> None:
            for y, mass in enumerate(following):
                if mass * chance:
                    law[*text, y] = law.get((*text, y), 0) + mass * chance

        chance = Fraction(1)
        for i, x in enumerate(path):
            keeps = kept(model.target(path[:i]), model.draft(path[:i]), x, first)
            end(path[:i], model.target(path[: i + 1]), chance * (1 - keeps))
            chance *= keeps
        end(path, model.target(path), chance)
        return law

    return rule


def by_hand(first: bool) -> Any:
    def program(chance: Any, p: Any, q: Any, k: int) -> tuple[int, ...]:
        drafted: tuple[int, ...] = (chance.draw(q()),)
        drafted += (chance.draw(q(drafted)),)
        for i, x in enumerate(drafted):
            s = chance.draw(p(drafted[:i]))
            test = s == x if first else on_grid(q(drafted[:i])[x] / p(drafted[:i])[s])
            if not chance.flip(int(test) if first else test):
                return (*drafted[:i], chance.draw(p(drafted[: i + 1])))
        return (*drafted, chance.draw(p(drafted)))

    return program


def one_draft(first: bool) -> Any:
    def program(chance: Any, p: Any, q: Any, k: int) -> tuple[int, ...]:
        x = chance.draw(q())
        s = chance.draw(p())
        keeps = chance.flip(int(s == x) if first else on_grid(q()[x] / p()[s]))
        return (x, chance.draw(p((x,)))) if keeps else (chance.draw(p((x,))),)

    return program


HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
PLAIN = Case(((HALF, HALF),), ((THIRD, 2 * THIRD),), 1)
SEEN = "run: validate_candidate, get_p_prime and the token loop, compiled with stand-ins for the rest: within .001 in 10^6 rounds"
FILE = "openvinotoolkit/openvino.genai src/cpp/src/sampling/sampler.cpp@da1db86"
WORK = Work(
    "openvino", "OpenVINO GenAI", "", "code of the sampler and of the pipeline that calls it; pull 2331",
    "after Leviathan et al. (pull 2331)",
    "none beyond the target's sample",
    (biased("draft model, multinomial: rounds after the first", AlongPath(rounds(False), measured=False), by_hand(False),
            "probability_ratio = p_i / q_i, the draft's mass of x over the target's mass of its own sample; r_i = dist(0, 100) / 100",
            PATH, "r uniform on [0, 1), p(x) / q(x), and (p - q)+ for the replacement at the rejected position", mode=CHAIN,
            when="do_sample; current code", seen=SEEN,
            known=(Known(PLAIN, Fraction(45, 202), "one draft", AlongPath(rounds(False), length=1), one_draft(False)),)),
     biased("draft model, multinomial: first round", AlongPath(rounds(True), measured=False), by_hand(True),
            "if (do_sample && has_real_probabilities) return false, before the rejected token is removed", PATH,
            "emit the target's sample of the rejected position", mode=CHAIN, when="do_sample; current code", seen=SEEN,
            known=(Known(PLAIN, Fraction(1, 12), "one draft", AlongPath(rounds(True), length=1), one_draft(True)),)),
     Form("prompt lookup", OneToken(otd.rules.NaiveTarget(law=TOP), (1,)),
          "comparison with the target's sample; Coq: sampling.v", mode=NGRAM,
          when="since pull 2331 (June 2025)"),
     greedy("draft model, prompt lookup without do_sample"),
     greedy("EAGLE-3 tree", when="do_sample is an error (generation_config.cpp@da1db86)")),
    FILE, engine="OpenVINO GenAI",
)  # fmt: skip
