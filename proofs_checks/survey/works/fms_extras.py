"""fms-extras: speculative_generate decodes greedily; issue 12 weighs ways to sample.

The way that the issue starts from, and rules out, draws a target token for every candidate: candidates that begin with the same token
each have a draw of their own, and the best candidate wins. Pull 17, open, draws one token for each distinct beginning.
"""

from fractions import Fraction
from typing import Any

import ot_draft as otd

from ..by_hand import most_probable
from ..record import TARGET_SAMPLE, TOP, Coupled, Form, OneToken, Work, biased, greedy


def separate(p: Any, q: Any, k: int) -> Any:
    """k candidates begin with q's most probable token, each with a draw from p; the first candidate's draw where none agrees."""
    (x,) = most_probable(q, 1)
    missed = (1 - p[x]) ** k
    rest = [Fraction(0) if y == x or p[x] == 1 else mass * missed / (1 - p[x]) for y, mass in enumerate(p)]
    return [1 - missed if y == x else mass for y, mass in enumerate(rest)], 1 - missed


def by_hand(chance: Any, p: Any, q: Any, k: int) -> tuple[int]:
    (x,) = most_probable(q(), 1)
    samples = [chance.draw(p()) for _ in range(k)]
    return (x if x in samples else samples[0],)


WORK = Work(
    "fms-extras", "fms-extras", "", "code of speculative_generate; issue 12, pull 17", "the base model's greedy output", "none",
    (biased("issue 12: a target sample for every candidate", Coupled(separate, (2,)), by_hand,
            "sample a ground-truth output for a candidate",
            OneToken(otd.rules.NaiveTarget(law=TOP), (2,)), "one sample for each distinct beginning, as pull 17 has it",
            when="an idea that issue 12 rejects; in no released code", seen="not read: the thread describes it"),
     Form("pull 17: one sample for each beginning", TARGET_SAMPLE, "the output is the target's sample; Coq: sampling.v",
          when="open pull 17", code="foundation-model-stack/fms-extras pull 17"),
     greedy("released code")),
    "foundation-model-stack/fms-extras fms_extras/utils/generation.py@16339f7",
)  # fmt: skip
