"""Cuts by a scheduler: at most the prefix that a confidence head or a load scheduler allows is verified, or kept.

CUT BEFORE VERIFICATION. Lossless if no decision about position i reads the token drafted at i, later tokens, or the numbers that verify
them (`prove scheduled`). DSpark's confidence c_i reads a hidden state and the token before i, and its budget takes the largest products
c_1 .. c_i of all sequences, so that each decision reads tokens before i and other sequences only. A confidence that is the draft's own
q(x_i) reads the token that it cuts: unlikely tokens are then left to the target. CUT AFTER VERIFICATION. SGLang keeps the first kept + 1
tokens of what the verification emitted; the last of them is a token that passed, or the correction, so that a prefix of a lossless text
is kept. A fresh token of p in its place would be lossy: where the draft token after the cut passes it is replaced, where it fails its
correction stays. Here another sequence leaves room for one draft or two, with equal probabilities, and a second draft is let in after q's
most probable token.
"""

from fractions import Fraction
from typing import Any

import ot_draft as otd
from ot_draft import trees

from ..by_hand import most_probable, ratio, usual_residual
from ..record import AlongPath, Form, Work, biased

TEST = trees.TokenWise(otd.rules.SpeculativeSampling())
HALF = Fraction(1, 2)
BEFORE, KEPT, FRESH = (
    "drafts are cut before verification",
    "what was verified is kept",
    "a fresh token of p replaces it",
)


def allowed(first: int, best: int, room: int, own: bool) -> int:
    """Drafts that are let in, by the first of them; own: its own probability decides about it."""
    if own:
        return room if first == best else 0
    return room if first == best else 1


def cut(how: str, own: bool = False) -> Any:
    """Distribution of what a round emits, of two drafts."""

    def rule(model: Any, drafts: Any) -> dict[tuple[int, ...], Any]:
        (path,) = drafts
        law: dict[tuple[int, ...], Any] = {}
        (best,) = most_probable(tuple(model.draft(())), 1)

        def end(text: tuple[int, ...], chance: Any) -> None:
            law[text] = law.get(text, 0) + chance

        def draw(text: tuple[int, ...], chance: Any) -> None:
            for token, mass in enumerate(model.target(text)):
                if mass:
                    end((*text, token), chance * mass)

        for room in (1, 2):
            kept = allowed(path[0], best, room, own)
            if how == BEFORE and not kept:
                draw((), HALF)
                continue
            for text, mass in TEST(model, (path[:kept] if how == BEFORE else path,)).items():
                if how == FRESH and len(text) > kept + 1:
                    draw(text[:kept], HALF * mass)
                else:
                    end(text[: kept + 1], HALF * mass)
        return law

    return rule


def by_hand(how: str, own: bool) -> Any:
    def program(chance: Any, p: Any, q: Any, k: int) -> tuple[int, ...]:
        path: tuple[int, ...] = (chance.draw(q()),)
        path += (chance.draw(q(path)),)
        kept = allowed(path[0], most_probable(q(), 1)[0], 1 + chance.flip(HALF), own)
        for i, x in enumerate(path[:kept] if how == BEFORE else path):
            before = path[:i]
            if not chance.flip(ratio(p(before)[x], q(before)[x])):
                return (*before, chance.draw(usual_residual(p(before), q(before), x)))[: kept + 1]
        return (*path[:kept], chance.draw(p(path[:kept])))

    return program


READS_BEFORE = (
    "no decision about a position reads the token drafted there, later tokens, or the numbers that verify them"
)
READS_KEPT = "no decision that admits a token reads it or a later one, or the random numbers that verify them"
PROVED = "theorem `what a scheduler's cut may depend on` (prove scheduled)"
RIGHT = AlongPath(cut(BEFORE), measured=False)
WORK = Work(
    "scheduler-cuts", "Scheduler cuts (DSpark)", "2607.05147",
    "code of the schedule and of the acceptance; pull 30204; vLLM 47808, llama.cpp 25173 by their threads", "lossless", "none",
    (Form("cut before verification", RIGHT, PROVED, condition=READS_BEFORE, when="DSpark's verify lengths"),
     Form("accepted prefix shortened: a verified token follows", AlongPath(cut(KEPT), measured=False),
          "a prefix of a lossless text; exact checks",
          condition=READS_KEPT, when="SGLang's cutoff_verify_lens",
          code="sgl-project/sglang python/sglang/kernels/ops/speculative/dspark/dspark_accept.py@118baaf, accept_sampling"),
     biased("cut by the draft's own probability", AlongPath(cut(BEFORE, own=True), measured=False),
            by_hand(BEFORE, True),
            "position i is let in where q(x_i) is largest", RIGHT, "read the tokens before i",
            when="the condition violated; in no engine that was read"),
     biased("accepted prefix shortened: a fresh token of p follows", AlongPath(cut(FRESH), measured=False),
            by_hand(FRESH, False),
            "min(accepted, allowed), then a sample of p at the cut", AlongPath(cut(KEPT), measured=False),
            "keep the token that was verified there",
            when="the condition violated; in no engine that was read")),
    "sgl-project/sglang python/sglang/kernels/ops/speculative/dspark/dspark_schedule.py@9898421",
    undecided=(("llama.cpp pull 27694, p/q for draft models and MTP", "open; to be evaluated when it is merged"),),
)  # fmt: skip
