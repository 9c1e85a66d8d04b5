"""How often right samplers, steps and drafts fail: `python tests/verify/sampler/false_alarms.py --runs 1000`, from the repository root.

Every run takes the next of 31 right functions, a seed of its own and three corners by lot (all of them with --corners 0); a run
fails at 1e-9. Beside it stands in how many runs the e-values at the end would have failed at 0.05: at most one in twenty.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from mutants.step import Step, chosen, plain_residual

import ot_draft as otd
from ot_draft.verify.corners import corner_problems

Array = Any
RULES = otd.rules
RIGHT_RULES = [RULES.SpeculativeSampling(), RULES.KSeq(), RULES.RecursiveRejection(), RULES.Optimal()]
OTHER_LAWS = [
    RULES.RecursiveRejectionWithoutReplacement(),
    RULES.Greedy(),
    RULES.SpecHub(),
]


def sampler_of(rule: Any) -> Callable[..., Any]:
    return lambda p, q, drafts, generator: otd.sample(rule, p, q, drafts, generator)[0]


def step_of(rule: Any) -> Callable[..., Any]:
    def step(p: Array, q: Array, k: int, generator: Any) -> Any:
        drafts = otd.draw(rule.law, q, k, generator)
        token, place = otd.sample(rule, p, q, drafts, generator)
        return drafts, np.arange(k) == np.asarray(place)[..., None], token

    return step


def block_path(p: Any, q: Any, k: int, generator: Any) -> Any:
    """Block verification (Sun et al. 2024): a path rule that is not one place after the other."""
    drafts, m = np.zeros((len(q()), 0), dtype=int), len(q())
    weight, length, laws = np.ones(m), np.zeros(m, dtype=int), []
    for t in range(k):
        laws.append((p(drafts), q(drafts), weight))
        x = otd.draw(otd.IID(), laws[-1][1], 1, generator)
        ratio = np.take_along_axis(laws[-1][0] / np.maximum(laws[-1][1], 1e-300), x, -1)[:, 0]
        weight, drafts = np.minimum(1, weight * ratio), np.concatenate((drafts, x), -1)
        if t + 1 < k:
            left = np.maximum(weight[:, None] * p(drafts) - q(drafts), 0).sum(-1)
            odds = np.where(left + 1 - weight > 0, left / np.maximum(left + 1 - weight, 1e-300), 1)
        length = np.where(generator.random(m) < (odds if t + 1 < k else weight), t + 1, length)
    token = chosen(p(drafts), generator.random(m))
    for t, (of_p, of_q, before) in enumerate(laws):
        left = np.maximum(before[:, None] * of_p - of_q, 0)
        left = np.where(left.sum(-1, keepdims=True) > 0, left, of_p)
        token = np.where(length == t, chosen(left, generator.random(m)), token)
    return drafts, np.arange(k) < length[:, None], token


def in_float32(p: Array, q: Array, k: int, generator: Any) -> Any:
    """As engines do it: laws of 32 bits, exponential arrivals."""
    p, q = p.astype(np.float32), q.astype(np.float32)
    drafts = (q[:, None] / generator.exponential(size=(len(q), k, q.shape[-1])).astype(np.float32)).argmax(-1)
    token, taken = Step(race=True).verify(p, q, drafts, generator)
    return drafts, np.arange(k) == taken[:, None], token


def one_row(p: Array, q: Array, drafts: Array, generator: Any) -> int:
    for x in drafts:
        if generator.random() < p[x] / q[x]:
            return int(x)
        p = plain_residual(p[None], q[None])[0]
    return int(chosen(p[None], generator.random(1))[0])


def kinds() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Names, and functions of the options seed and samples."""

    def of(check: Any, function: Any, law: Any = None, **more: Any) -> Callable[..., Any]:
        law = law or otd.IID()

        def run(seed: int, samples: int, corners: int = 0) -> Any:
            problems = list(corner_problems(law).values())
            which = np.random.default_rng(seed).permutation(len(problems))[: corners or len(problems)]
            options = {"batched": True, "seconds": None, "seed": seed, "samples": samples} | more
            return check(function, problems=[problems[i] for i in which], **options)

        return run

    yield "sampler, one row", of(otd.check_sampler, one_row, batched=False)
    yield "sampler, recursive rejection", of(otd.check_sampler, Step().sampler)
    yield "step, recursive rejection", of(otd.check_step, Step(), rule=RULES.RecursiveRejection())
    yield "step, race, float32", of(otd.check_step, in_float32, rule=RULES.RecursiveRejection())
    yield "path", of(otd.check_step, Step().path, path=True, rule=RULES.SpeculativeSampling())
    yield "path, race", of(otd.check_step, Step(race=True).path, path=True)
    yield "path, block verification", of(otd.check_step, block_path, path=True)
    for rule in [*RIGHT_RULES, *OTHER_LAWS]:
        yield f"sampler, {rule}", of(otd.check_sampler, sampler_of(rule), rule.law)
        yield f"step, {rule}", of(otd.check_step, step_of(rule), rule.law, rule=rule)
    for law in (otd.IID(), otd.WithoutReplacement(), otd.Hybrid(top=-1), otd.Hybrid(top=1), otd.SpecHubLaw()):
        draw = lambda q, k, generator, law=law: otd.draw(law, q, k, generator)  # noqa: E731
        yield f"drafts, {law}", of(otd.check_draws, draw, law)
        yield f"drafts one by one, {law}", of(otd.check_draws, draw, law, batched=False)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--first", type=int, default=0, help="number of the first run, and its seed")
    options.add_argument("--corners", type=int, default=3)
    options.add_argument("--samples", type=int, default=512)
    asked = options.parse_args()
    alarms, at_5_percent, calls = [], 0, 0
    for run, (name, check) in zip(range(asked.first, asked.first + asked.runs), itertools.cycle(kinds()), strict=False):
        report = check(run, asked.samples, asked.corners)
        calls += report.tried["rows"]
        if not report.passed:
            alarms.append(f"{name}, seed {run}:\n{report}")
        at_5_percent += any(
            each.e_value >= (each.limit or np.inf) * report.false_alarm / 0.05
            for each in (outcome.evidence for outcome in report.outcomes)
        )
        if run % 50 == 49 or run + 1 == asked.first + asked.runs:
            done = run + 1 - asked.first
            print(
                f"{done} runs, {calls:,} rows: {len(alarms)} false alarms at 1e-09, {at_5_percent} at 0.05", flush=True
            )
    print(*alarms, sep="\n")


if __name__ == "__main__":
    main()
