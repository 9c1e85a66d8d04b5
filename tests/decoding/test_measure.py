"""One speed-up, one prediction and one reason: the arithmetic of `ot_draft.decoding.benchmark`, and runs that it is true of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tiny_models import tiny_pair

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from measured import measured, two_methods  # noqa: E402

from ot_draft.decoding import DecodeOptions, Pair, SamplingParams, Step, decode  # noqa: E402
from ot_draft.decoding.benchmark import Comparison, MethodCosts, compare_methods, measure_costs  # noqa: E402
from ot_draft.decoding.benchmark.calls import Call, calls  # noqa: E402
from ot_draft.decoding.methods import Method, method_called, shape_of  # noqa: E402
from ot_draft.decoding.step import Seconds  # noqa: E402

PROMPTS = [[1, 2, 3], [4, 5], [6, 1, 1], [7]]


def methods(*names: str) -> list[Method]:
    return [method_called(name, None, shape_of(3, 2, None)) for name in ("autoregressive", *names)]


def test_numbers_of_a_method() -> None:
    comparison = two_methods(1.25, 1.25)
    row = comparison.rows[1]
    assert row.block_efficiency == 2.5
    assert row.by_position == [0.75, 1 / 3, 1, 1]
    # Texts choose 7 and 3 tokens, that is 2 off a mean of 5: sqrt(2 * (2^2 + 2^2)) / 4.
    assert row.error == 1.0
    assert row.tokens_a_second == 10 / 8
    # Without one text 3 / 4, without the other 7 / 4: sqrt((2 - 1) * mean of squares of 1 / 2).
    assert comparison.speed_up(row) == (1.25, 0.5)
    assert comparison.speed_up(comparison.rows[0]) == (1, 0)


def test_the_prediction_counts_keeping_as_part_of_selection() -> None:
    comparison = two_methods(1.25, 1.25)
    assert comparison.rows[1].cost("select") == 0.25 == 2 * comparison.rows[1].part("select")
    assert comparison.predicted(comparison.rows[1]) == 2.5 / 2
    dearer = Comparison(comparison.rows, comparison.costs | {comparison.rows[0].method: MethodCosts(1, 0, 0.25)})
    assert dearer.predicted(dearer.rows[1]) == 2.5 * 1.25 / 2  # the plain step, too, with all that it does
    assert dearer.plan_costs()["verify"] == {1: 1250, 5: 1250}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"after": 1.3}, ""),
        ({"after": 2.0}, "verify 1250.0 → 2000.0 ms"),
        ({"after": 0.5}, "verify 1250.0 → 500.0 ms"),
        ({"rest": 1.0}, "loop 0.0 → 1000.0 ms"),
        ({"plain_wall": 1.5}, "autoregressive step 1000.0 → 1500.0 ms"),
        ({"plain_wall": 0.7}, "autoregressive step 1000.0 → 700.0 ms"),
    ],
)
def test_the_cost_that_changed_is_named(changes: dict[str, float], said: str) -> None:
    comparison = two_methods(**({"before": 1.25, "after": 1.25} | changes))
    assert comparison.reason(comparison.rows[1]) == said


def test_noise_is_called_noise() -> None:
    """Every cost grew by 4.5 % of a step: together they are much, none of them is the reason."""
    plain, drafted = methods("joint")
    row = measured(drafted, [[2], [2]], Seconds(0.59, 1.34, 0.34, 0), 2.36)
    rows = [measured(plain, [[1], [1]], Seconds(0, 1, 0, 0), 1.0), row]
    comparison = Comparison(rows, {plain: MethodCosts(1, 0, 0), drafted: MethodCosts(1.25, 0.5, 0.25)})
    assert comparison.reason(row) == "no cost by so much: noise of the runs"


@pytest.mark.parametrize("batch", [1, 2])
def test_calls_are_those_of_texts_that_go_on(batch: int) -> None:
    pair, options = tiny_pair(), DecodeOptions(SamplingParams(0.6), max_tokens=5, stop=())
    groups = [PROMPTS[start : start + batch] for start in range(0, len(PROMPTS), batch)]
    comparison = compare_methods(pair, groups, methods("joint", "kseq"), options)
    plain = comparison.rows[0]
    assert [call.text for call in plain.calls].count(3) == 5 and {call.chosen for call in plain.calls} == {1}
    whole = decode(pair, PROMPTS, comparison.rows[1].method.drafting, options)
    assert comparison.rows[1].block_efficiency == pytest.approx(whole.block_efficiency, rel=1e-12)
    for row in comparison.rows:
        for text in range(4):  # the last call of a text is the one that brings it to five tokens
            chosen = [call.chosen for call in row.calls if call.text == text]
            assert sum(chosen) >= 5 > sum(chosen[:-1])
        assert len(row.groups) == len(groups) and 0 < row.step < 5
        assert sum(row.cost(name) for name in ("verify", "draft", "select")) <= row.step


def test_costs_that_methods_share_are_pooled() -> None:
    chosen = methods("joint", "kseq")
    costs = measure_costs(tiny_pair(), PROMPTS[:1], chosen, DecodeOptions(max_tokens=40))
    plain, joint, kseq = (costs[method] for method in chosen)
    assert (joint.verify, joint.draft) == (kseq.verify, kseq.draft) and joint.select != kseq.select
    assert plain.verify < plain.step and plain.verify != joint.verify


@dataclass(frozen=True)
class Other(Method):
    """Another program, of which only whole calls are known."""


@calls.register
def calls_of_other(
    method: Other, pair: Pair, prompts: Any, options: DecodeOptions, watch: Any = None
) -> Iterator[Call]:
    for text in options.rows or ():
        yield Call(text, 2.0, 0.5)


def test_another_program_has_a_speed_up_and_no_prediction() -> None:
    plain = methods()[0]
    other = Other("other", "", "other", "", plain.drafting, plain.policy, fixed_shape=False)
    comparison = compare_methods(
        tiny_pair(), [PROMPTS[:1], PROMPTS[1:2]], [plain], DecodeOptions(max_tokens=3), peers=[other]
    )
    row = comparison.rows[1]
    assert row.rate() == 4 and comparison.speed_up(row)[0] > 0
    assert comparison.predicted(row) is None and comparison.reason(row) == ""


def test_steps_are_watched_with_their_text() -> None:
    seen: list[tuple[str, int, int]] = []

    def watch(method: Method, text: int, step: Step) -> None:
        seen.append((method.rule, text, step.number))

    compare_methods(tiny_pair(), [PROMPTS[:1], PROMPTS[1:2]], methods(), DecodeOptions(max_tokens=2, stop=()), watch)
    assert seen == [("autoregressive", text, number) for text in range(2) for number in range(2)]
