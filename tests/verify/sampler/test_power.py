"""What `otd.required_samples` asks for finds a bias of this size, much less does not; what a run says it would have seen, it sees."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats
from slow import slow

import ot_draft as otd
from ot_draft.arrays import Array
from ot_draft.verify.e_values import MISS, log_e_value, missed, smallest_distance
from ot_draft.verify.outcome import Status
from ot_draft.verify.server import Token


def off(law: Array, bias: float) -> Array:
    """The law at this total variation distance that is hardest to see: half of the mass grows in proportion, the other half shrinks."""
    return law * np.where(law.cumsum() <= 0.5 + 1e-9, 1 + 2 * bias, 1 - 2 * bias)


@pytest.mark.parametrize("samples", [200, 1000, 50_000])
@pytest.mark.parametrize("level", [1e-6, 1e-11])
def test_two_tokens_miss_the_stated_distance_with_probability_1e_6_exactly(samples: int, level: float) -> None:
    """By the binomial law. At 70 % of the distance, which half as many samples would have, it is far from sure."""
    counts = np.arange(samples + 1)
    for share in (0.5, 0.1, 0.01):
        law = np.array([share, 1 - share])
        found = log_e_value(np.stack([counts, samples - counts], -1), np.tile(law, (samples + 1, 1))) >= -np.log(level)
        distance = smallest_distance(samples, 2, level)
        for true in (share + distance, share - distance):
            if 0 < true < 1:
                assert stats.binom.pmf(counts, samples, true)[~found].sum() <= MISS
        if share == 0.5:
            assert stats.binom.pmf(counts, samples, 0.5 + 0.7 * distance)[~found].sum() > 1e4 * MISS


def test_three_tokens_miss_it_with_probability_1e_6_exactly() -> None:
    samples, level = 400, 1e-6
    law = np.array([0.5, 0.25, 0.25])
    true = off(law, smallest_distance(samples, 3, level))
    counts = np.array([(a, b, samples - a - b) for a, b in product(range(samples + 1), repeat=2) if a + b <= samples])
    found = log_e_value(counts, np.broadcast_to(law, counts.shape)) >= -np.log(level)
    assert stats.multinomial.pmf(counts[~found], samples, true).sum() <= MISS


@pytest.mark.parametrize(("n", "bias"), [(2, 0.1), (16, 0.2), slow(16, 0.05), slow(500, 0.1)])
def test_the_samples_asked_for_find_a_sampler_of_this_bias(n: int, bias: float) -> None:
    law = np.full(n, 1 / n)
    wrong, problem = off(law, bias), otd.Problem(law, law, k=1)
    samples = otd.required_samples(bias, n, 1, batched=True)

    def emitted(p: Array, q: Array, drafts: Array, generator: Any) -> Array:
        return generator.choice(n, len(p), p=wrong / wrong.sum())

    def failed(samples: int, seed: int) -> bool:
        report = otd.check_sampler(
            emitted, [problem], batched=True, samples=samples, seconds=None, false_alarm=1e-6, seed=seed
        )
        return not report.passed

    assert all(failed(samples, seed) for seed in range(5))
    assert not all(failed(samples // 5, seed) for seed in range(5))


def test_a_run_of_the_samples_asked_for_says_that_it_sees_the_bias() -> None:
    law = np.full(16, 1 / 16)

    def right(p: Array, q: Array, drafts: Array, generator: Any) -> Array:
        return generator.choice(16, len(p))

    samples = otd.required_samples(0.1, 16, 1, batched=True)
    report = otd.check_sampler(
        right, [otd.Problem(law, law, k=1)], batched=True, samples=samples, seconds=None, false_alarm=1e-6
    )
    assert report.passed
    assert 0.095 < otd.detectable_bias(report)["output_distribution"] <= 0.1


def test_a_step_takes_no_fewer_samples_than_its_drafts_do() -> None:
    """Tuples of drafts have more cells than tokens; a path of two thousand classes has still more."""
    by = {check: otd.required_samples(0.05, 8, 3, check) for check in ("check_sampler", "check_draws", "check_step")}
    assert by["check_sampler"] < by["check_draws"] <= by["check_step"]
    assert otd.required_samples(0.05, 8, 3, problems=20) > by["check_sampler"]
    assert otd.required_samples(0.05, 151_936, 2, "check_draws") < 10 * otd.required_samples(0.05, 64, 1, "check_draws")


@pytest.mark.parametrize("bias", [0.2, slow(0.05), slow(0.02)])
def test_the_tokens_asked_for_find_this_bias_in_an_audit(bias: float) -> None:
    tokens = otd.required_samples(bias, check="audit")
    law = np.array([0.5, 0.5])

    def audited(count: int, share: float, seed: int) -> Any:
        drawn = (np.random.default_rng(seed).random(count) >= share).astype(int)
        audit = otd.Audit()
        audit.add(*Token.of_arrays(drawn, np.tile(law, (count, 1)), request=np.arange(count) // 16))
        return audit.report()

    assert all(audited(tokens, 0.5 + bias, seed).status == Status.FAILED for seed in range(3))
    assert not all(audited(tokens // 4, 0.5 + bias, seed).status == Status.FAILED for seed in range(3))
    right = audited(tokens, 0.5, 0)
    assert right.status == Status.PASSED
    assert 0.95 * bias < otd.detectable_bias(right)["reported_distributions"] <= 1.03 * bias


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bias": 0.0}, "bias and level must be above 0 and below 1"),
        ({"bias": 0.1, "n": 0}, "n and problems at least 1"),
        ({"bias": 0.1, "check": "check_rule"}, "check must be one of check_sampler, .*got 'check_rule'"),
        ({"bias": 1e-7}, "no number of samples"),
        ({"bias": 1e-5, "check": "audit"}, "no number of samples"),
    ],
)
def test_what_no_samples_show_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(otd.InvalidArgument, match=said):
        otd.required_samples(**given)


def test_more_samples_miss_less() -> None:
    found = [missed(0.05, samples, 16, 1e-9) for samples in (100, 1000, 10_000, 100_000)]
    assert found == sorted(found, reverse=True) and found[0] > 0.99 and found[-1] < MISS
