"""Path rules: all lossless; which accepts more is proved for one path, and open or false for several.

LOSSLESS. The first L + 1 tokens, those emitted and then the target's own, have exactly the target's distribution.

ONE PATH. w_0 = 1, w_i = min(1, w_{i-1} p(x_i)/q(x_i)); block verification accepts sum of E[w_i] tokens, token-wise speculative
sampling sum of E[prod over j <= i of min(1, p(x_j)/q(x_j))]. min(1, w r) >= w min(1, r) for w <= 1 makes the first at least the
second on every path, hence BlockVerification >= TokenWise(SpeculativeSampling) for all models, vocabularies and lengths.
Joint and Traversal are BlockVerification there. Q(x_1..x_i) w_i = P(x_1..x_i) min over j <= i of Q(x_1..x_j)/P(x_1..x_j), j = 0 included,
by induction: so the sum of E[w_i] is a mean over texts of the target, which `otd.losses.accepted_length_loss` samples.

SEVERAL PATHS. Which draft is selected at a node also decides where the survivors are, and no rule here looks ahead: so Joint can
accept less than Traversal, and than TokenWise(KSeq), whose selection is worse for the next token. Joint >= TokenWise(Optimal)
has no known counterexample and no proof.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate, product
from operator import mul
from typing import Any

import z3

import ot_draft as otd
from ot_draft import trees

from ..by_z3 import decide, least
from ..checking import check
from ..statement import Proof, Statement
from .expected_rejections import texts
from .path_cases import PathCase, Told, draw_one_path, draw_paths, markov

__all__ = ["STATEMENTS", "check"]

OPTIMAL, K_SEQ, SPECULATIVE = (
    trees.TokenWise(rule) for rule in (otd.rules.Optimal(), otd.rules.KSeq(), otd.rules.SpeculativeSampling())
)
RULES = (OPTIMAL, K_SEQ, trees.TokenWise(otd.rules.RecursiveRejection()), trees.Traversal(), trees.Joint())
BONUS, OTHER_DRAFT, TOO_MANY = "bonus token from the draft", "drafts reported as uniform", "K-SEQ with factor 1"
MORE, TOKEN_WEIGHT = "TokenWise >= BlockVerification", "w_i = product of min(1, p/q)"
EQUAL, LESS = "Joint and TokenWise(Optimal) accept the same", "TokenWise(Optimal) >= Joint"
ONE_PATH, WITH_OPTIMAL = "on one path", "Joint >= TokenWise(Optimal)"
LAST_RATIO = "min(1, Q/P) of the whole beginning"
UNCAPPED, PRODUCT = "w not capped at 1", "min(1, w r) >= min(1, r)"
BELOW_TRAVERSAL = PathCase(markov(["1/6 5/6", "11/12 1/12", "1/7 6/7"], ["1/4 3/4", "1/2 1/2", "1 0"]), 2, 2)
BELOW_K_SEQ = PathCase(
    markov(
        ["0 2/5 3/5", "0 0 1", "7/10 0 3/10", "1/4 0 3/4"],
        ["3/10 3/10 2/5", "0 1/2 1/2", "5/12 1/4 1/3", "1/10 3/5 3/10"],
    ),
    2,
    2,
)
EXACT = "Fractions, all drafts and selections enumerated"


def lossless(case: PathCase, error: str) -> bool:
    """Return whether every path rule keeps the distribution of the first L + 1 tokens."""
    rules = (trees.TokenWise(otd.rules.KSeq(factor=1)),) if error == TOO_MANY else RULES
    if not error and case.K == 1:
        rules = (*rules, trees.BlockVerification(), SPECULATIVE)
    return all(case.evaluate(told(rule, case, error)).lossless for rule in rules)


def told(rule: trees.PathRule, case: PathCase, error: str) -> Callable[[Any, Any], Any]:
    """Return the rule with a model that has the injected error."""

    def on_wrong_model(model: Any, drafts: Any) -> Any:
        def target(prefix: tuple[int, ...]) -> Any:
            return model.draft(prefix) if error == BONUS and len(prefix) == case.L else model.target(prefix)

        def draft(prefix: tuple[int, ...]) -> Any:
            q = model.draft(prefix)
            return 0 * q + Fraction(1, len(q)) if error == OTHER_DRAFT else q

        return rule(Told(target, draft), drafts)

    return on_wrong_model if error in (BONUS, OTHER_DRAFT) else rule


def one_path(case: PathCase, error: str) -> bool:
    """Return whether block verification accepts sum of E[w_i], no less than token-wise; Joint and Traversal do the same."""
    block, token_wise = case.evaluate(trees.BlockVerification()), case.evaluate(SPECULATIVE)
    if error == MORE:
        return token_wise.expected_length >= block.expected_length
    same = block == case.evaluate(trees.Joint()) == case.evaluate(trees.Traversal())
    weights = expected_weights(case, capped=error != TOKEN_WEIGHT)
    singly = token_wise.expected_length == expected_weights(case, capped=False)
    along = over_texts(case, earlier=error != LAST_RATIO)
    return same and singly and block.expected_length == weights == along >= token_wise.expected_length


def over_texts(case: PathCase, earlier: bool) -> Fraction:
    """Return the sum over texts of P times the minimum of Q/P over their prefixes, or over the root and the whole text only."""
    total, target, draft = Fraction(0), case.model.target, case.model.draft
    for length in range(1, case.L + 1):
        for text, chance in texts(target, length):
            steps = [draft(text[:i])[token] / target(text[:i])[token] for i, token in enumerate(text)]
            ratios = list(accumulate(steps, mul))
            total += chance * min(Fraction(1), *(ratios if earlier else ratios[-1:]))
    return total


def expected_weights(case: PathCase, capped: bool) -> Fraction:
    """Return the sum of E[w_i], with w_i = min(1, w_{i-1} p/q), or w_{i-1} min(1, p/q)."""
    total = Fraction(0)
    for length in range(1, case.L + 1):
        for path in product(range(len(case.model.target(()))), repeat=length):
            chance, w = Fraction(1), Fraction(1)
            for depth, token in enumerate(path):
                p, q = (law(path[:depth])[token] for law in (case.model.target, case.model.draft))
                if not q:
                    chance = Fraction(0)
                    break
                chance *= q
                w = min(Fraction(1), w * p / q) if capped else w * min(Fraction(1), p / q)
            total += chance * w
    return total


def every_path(error: str) -> Proof:
    """Decide one step of the induction: w >= v >= 0 implies min(1, w r) >= v min(1, r)."""
    w, v, r = z3.Reals("w v r")
    premises = [v >= 0, w >= v, r >= 0] + ([] if error == UNCAPPED else [w <= 1])
    smaller = least(1, r) if error == PRODUCT else v * least(1, r)
    return decide("proved for all models, vocabularies and lengths", [("step", premises, least(1, w * r) >= smaller)])


def not_less(other: trees.PathRule) -> Callable[[PathCase, str], bool]:
    """Return the statement that Joint accepts no less than the other rule; its repairs."""

    def holds(case: PathCase, error: str) -> bool:
        K = 1 if error == ONE_PATH else case.K
        joint = case.evaluate(trees.Joint(), K)
        rival = case.evaluate(OPTIMAL if error == WITH_OPTIMAL else other, K)
        if not (joint.lossless and rival.lossless):
            raise AssertionError(f"a path rule is not lossless: {case}")
        if error == LESS:
            return rival.expected_length >= joint.expected_length
        return (
            joint.expected_length == rival.expected_length
            if error == EQUAL
            else joint.expected_length >= rival.expected_length
        )

    return holds


def _refuted(name: str, other: trees.PathRule, counterexample: PathCase) -> Statement:
    return Statement(
        f"Joint >= {name}",
        f"On K i.i.d. paths Joint accepts no less than {name}.",
        "this project",
        EXACT,
        not_less(other),
        (ONE_PATH, WITH_OPTIMAL),
        expected="refuted",
        first=(counterexample,),
        draw=draw_paths,
        limit=150,
    )


STATEMENTS = (
    Statement(
        "path rules are lossless",
        "Token-wise (Optimal, K-SEQ, recursive rejection), Traversal, Joint, block verification: L + 1 tokens with "
        "the target distribution.",
        "SpecTr, Theorem 2; Sun et al. 2024; Weng et al. 2025; this project (Joint)",
        EXACT,
        lossless,
        (BONUS, OTHER_DRAFT, TOO_MANY),
        draw=draw_paths,
        limit=150,
    ),
    Statement(
        "block verification, one path",
        "Accepts sum of E[w_i] tokens, a mean over the target's sequences, at least as many as token-wise "
        "sampling; so do Joint and Traversal.",
        "Sun et al. 2024 (block verification); this project (the mean)",
        EXACT,
        one_path,
        (MORE, TOKEN_WEIGHT, LAST_RATIO),
        draw=draw_one_path,
        limit=200,
    ),
    Statement(
        "block verification >= token-wise, every path",
        "w >= v and w <= 1 imply min(1, w r) >= v min(1, r): the weights are at least those of token-wise sampling.",
        "Sun et al. 2024 (block verification)",
        "z3, polynomials; induction by hand",
        planted=(UNCAPPED, PRODUCT),
        prove=every_path,
    ),
    _refuted("Traversal", trees.Traversal(), BELOW_TRAVERSAL),
    _refuted("TokenWise(KSeq)", K_SEQ, BELOW_K_SEQ),
    Statement(
        "Joint >= TokenWise(Optimal)",
        "On K i.i.d. paths; open: no proof, no counterexample.",
        "this project",
        EXACT,
        not_less(OPTIMAL),
        (EQUAL, LESS),
        draw=draw_paths,
        limit=300,
    ),
)
