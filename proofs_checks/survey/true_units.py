"""Lossy rules in true units: what each accepts, how far what it emits is from the target, and the most that is accepted
at that distance.

One draft, the real pairs at temperature 1, exact output distributions. Distances are means over the contexts: a token's KL (nats) and total
variation. A text of 100 tokens in contexts like these has 100 times the KL (chain rule); its total variation is estimated from texts of
the rule. Recalibrated: the knob at which the emitted KL is what was asked, within 1 %; where the KL is infinite, the total variation in
its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft import lossy
from ot_draft.bias import bias_of
from proofs_checks.lossy import engine_rules, published_targets

from .evaluation import real_pairs
from .rules import Single
from .works.cactus import Cactus, promised
from .works.looser_tests import SIGMOID, loosened

toward = partial(otd.lossy.Toward, rule=otd.rules.SpeculativeSampling())
CONTEXTS, TOKENS, TEXTS = 16, 100, 400
ASKED = {"KL": 0.02, "TV": 0.05}
# The most is that of the rule's own draft distribution: SGLang's draft token is the most probable one, the others' is drawn.
HEADS = ("rule", "knob", "accepts", "token KL", "token TV", "text KL", "text TV", "most at that KL",
         "most at that TV")  # fmt: skip
AGAIN = ("rule", "asked", "knob for it", "emitted", "accepts", "most at what is emitted")


@dataclass(frozen=True)
class Knob:
    """A lossy rule by its knob: usual settings, and the range in which it moves from lossless (first) to loose (second)."""

    name: str
    rule: Callable[[float], Any]
    usual: tuple[float, ...]
    between: tuple[float, float] | None = None


KNOBS = (
    Knob("Cactus, delta", Cactus, (0.02, 0.1, 1.0), (0.0, 1.0)),
    Knob("lenience, 1 - l", lambda x: engine_rules.LenientSampling(1 - x), (0.1, 0.5), (0.0, 0.99)),
    Knob("lenience with p for the rest, 1 - l", lambda x: engine_rules.LenientSampling(1 - x, "target"), (0.5,)),
    Knob("EARS, beta", lambda beta: Single(lambda p, q: loosened(p, q, beta)), (0.25,), (0.0, 1.0)),
    Knob("SGLang, 1 - threshold_acc", lambda x: engine_rules.TwoThresholds(1, 1 - x), (0.5,), (0.0, 0.99)),
    Knob("ensemble (DIVERSED), 1 - w", lambda x: toward(published_targets.Ensemble(1 - x)), (0.1, 0.5), (0.0, 1.0)),
    Knob("cascade opt, alpha", lambda x: toward(published_targets.Cascade("opt", x)), (0.1,)),
    Knob("typical (Medusa), alpha", lambda x: engine_rules.TypicalAcceptance(0.3, x), (0.09,)),
    Knob("typical (vLLM until 0.8), alpha", lambda x: engine_rules.TypicalAcceptance(0.09, x), (0.3,)),
    Knob("relaxed (TensorRT-LLM), delta", lambda x: engine_rules.RelaxedAcceptance(10, x), (0.6,)),
    Knob("sigmoid (Wagner)", lambda x: SIGMOID.rule, (1.0,)),
    Knob("the best, KL budget", lambda x: toward(lossy.KL(x)), (0.02,), (0.0, 1.0)),
)


@dataclass(frozen=True)
class OnContexts:
    """On the contexts: acceptance (B,), emitted distributions (B, n), KL and total variation of a token (B,)."""

    accepts: Any
    law: Any
    kl: Any
    tv: Any


def measure(rule: Any, p: Any, q: Any) -> OnContexts:
    """Exact, over the one draft."""
    n, law = p.shape[-1], []
    drafts, accepts = np.arange(n)[:, None], []
    for row in range(len(p)):
        chance = rule.law.probability(q[row], drafts)
        here = drafts[chance > 0]
        output = rule(p[row, None], q[row, None], here).output(here)
        law.append((chance[chance > 0, None] * output).sum(0))
        accepts.append((chance[chance > 0] * np.take_along_axis(output, here, 1)[:, 0]).sum())
    r = np.array(law)
    bias = bias_of(r, p)
    return OnContexts(np.array(accepts), r, bias.kl, bias.total_variation)


def text_distance(found: OnContexts, p: Any) -> float:
    """Total variation of a text of TOKENS tokens in random contexts: E over texts of the rule of (1 - p/r)+."""
    generator = np.random.default_rng(0)
    logs = np.zeros(TEXTS)
    places = generator.integers(len(p), size=(TEXTS, TOKENS))
    for row in range(len(p)):
        count = (places == row).sum(1)
        tokens = generator.choice(p.shape[-1], size=int(count.sum()), p=found.law[row] / found.law[row].sum())
        with np.errstate(divide="ignore"):
            steps = np.log(p[row, tokens]) - np.log(found.law[row, tokens])
        np.add.at(logs, np.repeat(np.arange(TEXTS), count), steps)
    return float(np.maximum(1 - np.exp(logs), 0).mean())


def most(rule: Any, found: OnContexts, p: Any, q: Any) -> tuple[float, float]:
    """Mean of the most that any rule accepts of the same draft within the same KL, and the same total variation, in every context."""
    budgets = np.clip(found.kl, 0, 20)
    by_kl = [
        otd.frontier(a, b, 1, rule.law, budgets=[budget]).acceptance[0]
        for a, b, budget in zip(p, q, budgets, strict=True)
    ]
    lossless = otd.optimal_acceptance(p, q, 1, rule.law)
    return float(np.mean(by_kl)), float(np.minimum(lossless + found.tv, 1).mean())


def recalibrated(knob: Knob, p: Any, q: Any) -> tuple[str, ...] | None:
    """The knob that emits the mean KL asked for; total variation, where that KL is infinite; None without a continuous knob."""
    if knob.between is None:
        return None
    unit = "KL" if np.isfinite(measure(knob.rule(knob.usual[-1]), p, q).kl).all() else "TV"
    asked, (low, high) = ASKED[unit], knob.between
    for _ in range(24):
        middle = (low + high) / 2
        rule = knob.rule(middle)
        found = measure(rule, p, q)
        emitted = float((found.kl if unit == "KL" else found.tv).mean())
        if abs(emitted - asked) <= 0.01 * asked:
            best = most(rule, found, p, q)[unit == "TV"]
            numbers = (f"{middle:.4g}", f"{emitted:.4f}", f"{found.accepts.mean():.3f}", f"{best:.3f}")
            return knob.name, f"{unit} {asked}", *numbers
        low, high = (middle, high) if emitted < asked else (low, middle)
    return knob.name, f"{unit} {asked}", "none: it jumps", "", "", ""


def rows() -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The plane, and the recalibrated knobs."""
    p, q = (side[:: len(side) // CONTEXTS] for side in real_pairs())
    plane = []
    for knob in KNOBS:
        for value in knob.usual:
            rule = knob.rule(value)
            found = measure(rule, p, q)
            by_kl, by_tv = most(rule, found, p, q)
            kl = float(found.kl.mean())
            knob_text = f"{value:g}"
            if knob.name.startswith("Cactus"):
                knob_text += f" (each h(n): at most {max(promised(row, value) for row in p):.3f})"
            numbers = (found.accepts.mean(), kl, found.tv.mean(), TOKENS * kl, text_distance(found, p), by_kl, by_tv)
            plane.append((knob.name, knob_text, *(f"{number:.3f}" for number in numbers)))
    again = [row for knob in KNOBS if (row := recalibrated(knob, p, q)) is not None]
    return plane, again
