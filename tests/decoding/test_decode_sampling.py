"""Laws from logits are those of transformers' `generate`; uniforms belong to a seed, a row and a step."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.decoding.sampling import SamplingParams, uniforms  # noqa: E402


@pytest.mark.parametrize("n", [50, 5000])  # more than are ranked first, and fewer
@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParams(),
        SamplingParams(0.7),
        SamplingParams(top_k=7),
        SamplingParams(1.2, top_p=0.9),
        SamplingParams(top_p=0.3),
        SamplingParams(min_p=0.1),
        SamplingParams(0.8, 30, 0.95, 0.02),
        SamplingParams(top_k=4000, top_p=0.999),
    ],
    ids=str,
)
def test_laws_are_those_of_generate(sampling: SamplingParams, n: int) -> None:
    from transformers.generation import logits_process as process

    logits = 3 * torch.randn(4, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    scores = process.TemperatureLogitsWarper(float(sampling.temperature))(None, logits)
    if sampling.top_k:
        scores = process.TopKLogitsWarper(sampling.top_k)(None, scores)
    if sampling.top_p < 1:
        scores = process.TopPLogitsWarper(sampling.top_p)(None, scores)
    if sampling.min_p:
        scores = process.MinPLogitsWarper(sampling.min_p)(None, scores)
    made = sampling.masses(logits)
    assert torch.equal(made > 0, scores > -torch.inf)
    assert torch.allclose(made, scores.softmax(-1), rtol=1e-12, atol=0)


@pytest.mark.parametrize("n", [4, 30, 4096])
@pytest.mark.parametrize("grain", ["bfloat16", "halves", "flat"])
@pytest.mark.parametrize("top_p", [0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("top_k", [0, 20])
def test_ties_are_those_of_generate(n: int, grain: str, top_p: float, top_k: int) -> None:
    """Which of many equal logits top-p keeps depends on an unstable sort."""
    from transformers.generation import logits_process as process

    drawn = 2 * torch.randn(40, n, generator=torch.Generator().manual_seed(n))
    grains = {"bfloat16": drawn.bfloat16().float(), "halves": (2 * drawn).round() / 2, "flat": 0 * drawn}
    logits = torch.cat((grains[grain], drawn[:5], torch.tensor([1.0, *[0.0] * (n - 1)])[None]))
    scores = process.TopKLogitsWarper(top_k)(None, logits) if top_k else logits
    wanted = process.TopPLogitsWarper(top_p)(None, scores).softmax(-1)
    made = SamplingParams(top_p=top_p, top_k=top_k).masses(logits)
    assert torch.equal(made > 0, wanted > 0)
    assert torch.allclose(made, wanted, rtol=1e-5, atol=0)


def test_temperature_zero_is_the_largest_logit() -> None:
    logits = torch.tensor([[0.5, 2.0, -1.0]], dtype=torch.bfloat16)
    assert SamplingParams(0, top_p=0.5).masses(logits).tolist() == [[0, 1, 0]]
    assert SamplingParams().masses(logits).dtype == torch.float32


def test_uniforms_depend_on_seed_row_and_step_only() -> None:
    first = uniforms(1, [4, 9], 3, 5, torch.float64)
    assert torch.equal(first[1:], uniforms(1, [9], 3, 5, torch.float64))
    assert torch.equal(first, uniforms(1, [4, 9], 3, 6, torch.float64)[:, :5])
    others = [uniforms(*key, 5, torch.float64) for key in ((2, [4, 9], 3), (1, [4, 9], 4), (1, [5, 8], 3))]
    numbers = torch.cat([first, *others]).flatten().tolist()
    assert len(set(numbers)) == len(numbers)
    assert min(numbers) >= 0 and max(numbers) < 1


@pytest.mark.parametrize("number", [torch.float64, torch.float32])
@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_uniforms_are_those_of_a_stream_of_their_own(number: torch.dtype, count: int) -> None:
    """Whatever was drawn for the rows before: numbers that a stream holds back do not reach the next row."""
    kind = np.float64 if number == torch.float64 else np.float32
    rows = [3, 0, 2**63 + 1, 3]
    for row, found in zip(rows, uniforms(2**64 - 5, rows, 7, count, number), strict=True):
        key = np.array([2**64 - 5, row], np.uint64)
        stream = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, 7]))
        assert found.tolist() == stream.random(count, dtype=kind).tolist()


@pytest.mark.parametrize(("one", "other"), [(-1, 0), (-1, -2), (2**63, 2**63 + 1), (2**64 - 2, 2**64 - 1)])
def test_seeds_that_no_signed_integer_or_float_holds_are_told_apart(one: int, other: int) -> None:
    made = [uniforms(seed, [0, 3], 0, 4, torch.float64) for seed in (one, other)]
    assert not (made[0] == made[1]).any()


def test_a_seed_may_be_a_number_of_numpy() -> None:
    assert torch.equal(uniforms(np.int64(7), [0], 0, 4, torch.float64), uniforms(7, [0], 0, 4, torch.float64))
