"""Lossy rules in common units: acceptance, distance of the output distribution from p, and largest acceptance at that distance.

One draft token, the real pairs at temperature 1, exact output distributions. Distances are means over the contexts: KL (nats) and total
variation per token. A sequence of 100 tokens in such contexts has 100 times the KL (chain rule); its total variation is estimated from
simulated sequences. Recalibrated: the parameter value at which the KL is the given one within 1 %; the total variation if KL is infinite.
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
# "most" assumes the draft law of the rule: SGLang's draft token is the most probable one, those of the others are sampled.
HEADS = ("rule", "parameter", "accepts", "token KL", "token TV", "sequence KL", "sequence TV", "most at that KL",
         "most at that TV")  # fmt: skip
AGAIN = ("rule", "given", "parameter", "measured", "accepts", "most at that distance")


@dataclass(frozen=True)
class Parameter:
    """A lossy rule by its parameter: usual values, and the range from lossless (first) to loose (second)."""

    name: str
    rule: Callable[[float], Any]
    usual: tuple[float, ...]
    between: tuple[float, float] | None = None


PARAMETERS = (
    Parameter("Cactus, delta", Cactus, (0.02, 0.1, 1.0), (0.0, 1.0)),
    Parameter("lenience, 1 - l", lambda x: engine_rules.LenientSampling(1 - x), (0.1, 0.5), (0.0, 0.99)),
    Parameter("lenience with p for the rest, 1 - l", lambda x: engine_rules.LenientSampling(1 - x, "target"), (0.5,)),
    Parameter("EARS, beta", lambda beta: Single(lambda p, q: loosened(p, q, beta)), (0.25,), (0.0, 1.0)),
    Parameter("SGLang, 1 - threshold_acc", lambda x: engine_rules.TwoThresholds(1, 1 - x), (0.5,), (0.0, 0.99)),
    Parameter(
        "ensemble (DIVERSED), 1 - w", lambda x: toward(published_targets.Ensemble(1 - x)), (0.1, 0.5), (0.0, 1.0)
    ),
    Parameter("cascade opt, alpha", lambda x: toward(published_targets.Cascade("opt", x)), (0.1,)),
    Parameter("typical (Medusa), alpha", lambda x: engine_rules.TypicalAcceptance(0.3, x), (0.09,)),
    Parameter("typical (vLLM until 0.8), alpha", lambda x: engine_rules.TypicalAcceptance(0.09, x), (0.3,)),
    Parameter("relaxed (TensorRT-LLM), delta", lambda x: engine_rules.RelaxedAcceptance(10, x), (0.6,)),
    Parameter("sigmoid (Wagner)", lambda x: SIGMOID.rule, (1.0,)),
    Parameter("the best, KL budget", lambda x: toward(lossy.KL(x)), (0.02,), (0.0, 1.0)),
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


def recalibrated(parameter: Parameter, p: Any, q: Any) -> tuple[str, ...] | None:
    """The parameter value with the given mean KL, or total variation if KL is infinite; None without a continuous parameter."""
    if parameter.between is None:
        return None
    unit = "KL" if np.isfinite(measure(parameter.rule(parameter.usual[-1]), p, q).kl).all() else "TV"
    asked, (low, high) = ASKED[unit], parameter.between
    for _ in range(24):
        middle = (low + high) / 2
        rule = parameter.rule(middle)
        found = measure(rule, p, q)
        emitted = float((found.kl if unit == "KL" else found.tv).mean())
        if abs(emitted - asked) <= 0.01 * asked:
            best = most(rule, found, p, q)[unit == "TV"]
            numbers = (f"{middle:.4g}", f"{emitted:.4f}", f"{found.accepts.mean():.3f}", f"{best:.3f}")
            return parameter.name, f"{unit} {asked}", *numbers
        low, high = (middle, high) if emitted < asked else (low, middle)
    return parameter.name, f"{unit} {asked}", "none: discontinuous", "", "", ""


def rows() -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The table of usual parameter values, and that of recalibrated ones."""
    p, q = (side[:: len(side) // CONTEXTS] for side in real_pairs())
    plane = []
    for parameter in PARAMETERS:
        for value in parameter.usual:
            rule = parameter.rule(value)
            found = measure(rule, p, q)
            by_kl, by_tv = most(rule, found, p, q)
            kl = float(found.kl.mean())
            shown = f"{value:g}"
            if parameter.name.startswith("Cactus"):
                shown += f" (each h(n): at most {max(promised(row, value) for row in p):.3f})"
            numbers = (found.accepts.mean(), kl, found.tv.mean(), TOKENS * kl, text_distance(found, p), by_kl, by_tv)
            plane.append((parameter.name, shown, *(f"{number:.3f}" for number in numbers)))
    again = [row for parameter in PARAMETERS if (row := recalibrated(parameter, p, q)) is not None]
    return plane, again
