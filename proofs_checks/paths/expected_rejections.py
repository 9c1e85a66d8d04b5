"""Decoding T tokens with one draft at a time rejects sum over t of E[TV(p_t, q_t)] drafts on average.

p_t, q_t: the two models' distributions of token t, given the t tokens before, which follow the target. At every position a draft from q_t
is accepted with probability sum min(p_t, q_t) = 1 - TV(p_t, q_t), and what is emitted has the target's distribution, whatever the block
length. So the expected number of rejections is the sum, and no lossless token-wise rule has fewer, 1 - TV being the largest acceptance.

CHECK. Decoding as it is done, by recursion over calls: up to L tokens are drafted from where the text stands, at most as many as
are missing; the path rule's exact distribution gives the emitted tokens; a step that emits fewer tokens than its drafts plus one
rejected one draft. The bonus token after L accepted drafts is not drafted: with it, the sum runs over the drafted positions only; as Yin et
al. do, the text is drafted to its end, and then left without bonus token.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import ot_draft as otd
from ot_draft import trees
from ot_draft.trees.model import Model

from ..checking import check
from ..statement import Statement
from .path_cases import PathCase, Prefix, Told, draw_one_path

__all__ = ["STATEMENTS", "check", "rejections"]

FROM_DRAFT, BLOCK, JOINT = "texts from the draft", "block verification in its place", "TV of the laws of whole texts"
SPECULATIVE = trees.TokenWise(otd.rules.SpeculativeSampling())


def rejections(model: Model, rule: trees.PathRule, prefix: Prefix, missing: int) -> Fraction:
    """Return the expected number of rejected drafts until `missing` more tokens stand."""
    if not missing:
        return Fraction(0)
    after_prefix = Told(
        lambda further: model.target((*prefix, *further)), lambda further: model.draft((*prefix, *further))
    )
    total = Fraction(0)
    for path, chance in texts(after_prefix.draft, missing):
        for emitted, mass in rule(after_prefix, [path]).items():
            if len(emitted) <= missing:  # one draft was rejected, and the last token replaces it
                further = rejections(model, rule, (*prefix, *emitted), missing - len(emitted))
                total += chance * mass * (1 + further)
    return total


def texts(law: Any, length: int) -> list[tuple[Prefix, Fraction]]:
    """Return every text of this length that may occur, and its probability."""
    possible: list[tuple[Prefix, Fraction]] = []
    for text in product(range(len(law(()))), repeat=length):
        chance = Fraction(1)
        for depth, token in enumerate(text):
            chance = chance * law(text[:depth])[token] if chance else chance
        if chance:
            possible.append((text, chance))
    return possible


def summed(case: PathCase, error: str) -> Fraction:
    """Return the sum over t of E[TV(p_t, q_t)]."""
    target, draft = case.model.target, case.model.draft
    if error == JOINT:
        under_p, under_q = dict(texts(target, case.L)), dict(texts(draft, case.L))
        gaps = (abs(under_p.get(text, Fraction(0)) - under_q.get(text, Fraction(0))) for text in under_p | under_q)
        return sum(gaps, Fraction(0)) / 2
    total = Fraction(0)
    for t in range(case.L):
        for text, chance in texts(draft if error == FROM_DRAFT else target, t):
            total += chance * sum(abs(target(text) - draft(text)), Fraction(0)) / 2
    return total


def expected(case: PathCase, error: str) -> bool:
    """Return whether decoding rejects as many drafts as the sum says."""
    rule = trees.BlockVerification() if error == BLOCK else SPECULATIVE
    return rejections(case.model, rule, (), case.L) == summed(case, error)


STATEMENTS = (
    Statement(
        "expected rejections",
        "Token-wise decoding of T tokens with single drafts rejects sum over t of E[TV(p_t, q_t)] of them on average.",
        "Yin et al. 2024",
        "Fractions, all texts and all decisions enumerated",
        expected,
        (FROM_DRAFT, BLOCK, JOINT),
        draw=draw_one_path,
        limit=100,
    ),
)
