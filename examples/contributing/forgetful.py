"""Forgetful sampling: after a rejection it samples from p. For proofs_checks/survey/works/forgetful.py."""

from typing import Any

import ot_draft as otd
from proofs_checks.survey.by_hand import usual_test
from proofs_checks.survey.record import SPECULATIVE, OneToken, Work, biased


class Forgetful(otd.SelectionRule):
    """Speculative sampling whose residual is p."""

    law = otd.IID()

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        return otd.Selection(otd.rules.SpeculativeSampling()(p, q, drafts).accept, p)


def by_hand(chance: Any, p: Any, q: Any, k: int) -> Any:
    """One step: `draw` takes a token from masses, `flip` comes up with a probability; p and q give the masses after some tokens."""
    target, draft = p(), q()
    x = chance.draw(draft)
    return (x if chance.flip(usual_test(target, draft, x)) else chance.draw(target),)


WORK = Work(
    "forgetful",
    "Forgetful sampling",
    "An. et al. 2026, algorithm 1",
    "algorithm 1",
    "lossless",
    "one softmax",
    (
        biased(
            "algorithm 1", OneToken(Forgetful(), (1,)), by_hand, "line 7: y ~ p", SPECULATIVE, "line 7: y ~ (p - q)+"
        ),
    ),
)
