"""The vLLM adapters keep the target's law on vLLM's own tensor shapes. Nothing here runs inside vLLM."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats
from slow import slow

torch = pytest.importorskip("torch")

from host_models import FALSE_ALARM, Tables, drawn, p_value  # noqa: E402
from vllm_calls import LENGTH, RULES, RUNNERS, Batch, N, SamplingMetadata, run_v1, run_v2  # noqa: E402

import ot_draft as otd  # noqa: E402
from ot_draft.errors import NotLossless  # noqa: E402
from ot_draft.integrations import vllm, vllm_runner_v2  # noqa: E402
from ot_draft.integrations.chains import CHAIN_RULES, Chains  # noqa: E402

BLOCK, ONE_BY_ONE = CHAIN_RULES["BlockVerification"], CHAIN_RULES["SpeculativeSampling"]


def law_p_value(
    run: Callable[..., Any], rule: Any, seed: int, rows: int = 20_000, chance: bool = True, **options: Any
) -> float:
    """p-value of what a runner emits, every request continued by the target."""
    generator = np.random.default_rng(seed)
    torch.manual_seed(seed)
    target, draft = (Tables.random(N, LENGTH, generator) for _ in range(2))
    padded, grammar = options.pop("padded", 0.0), options.pop("grammar", False)
    if grammar:
        target = target.forbidding(1, generator)
    batch = Batch.random(target, draft, rows, generator, chance, padded, options.pop("lost", 0.0))
    if grammar:
        batch.refused_by_grammar()
    return p_value(run(batch, rule, **options).numpy(), target, LENGTH + 1, generator)


@RULES
@RUNNERS
@pytest.mark.parametrize("chance", [True, False])
def test_drafts_that_a_grammar_refuses(run: Callable[..., Any], rule: Any, chance: bool) -> None:
    options = {"chance": chance, "given": chance, "grammar": True}
    assert min(law_p_value(run, rule, seed, **options) for seed in (1, 2)) > FALSE_ALARM


@RULES
@RUNNERS
def test_drafts_that_a_grammar_refuses_were_drawn(
    run: Callable[..., Any], rule: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token after them drawn from the target, as vLLM's V2 runner does it, is seen."""
    monkeypatch.setattr(vllm_runner_v2, "with_rejected", lambda tokens, *_: tokens)
    monkeypatch.setattr(Chains, "rejected_by_grammar", property(lambda chains: chains.drafts.beginning < 0))
    assert law_p_value(run, rule, 2, rows=80_000, grammar=True) < FALSE_ALARM


@RULES
@RUNNERS
@pytest.mark.parametrize(
    "drafts", ["drawn", "argmax", "drawn, probabilities lost", "drawn, some of no law", "padded", "padded argmax"]
)
def test_requests_of_all_lengths_follow_the_target(run: Callable[..., Any], rule: Any, drafts: str) -> None:
    options = {
        "chance": "argmax" not in drafts,
        "given": drafts in ("drawn", "padded", "drawn, some of no law"),
        "lost": 0.3 * ("some of no law" in drafts),
        "padded": 0.3 * ("padded" in drafts),
    }
    assert min(law_p_value(run, rule, seed, **options) for seed in (1, 2)) > FALSE_ALARM


@RULES
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_target_without_a_law_is_refused(rule: Any, temperature: float) -> None:
    generator = np.random.default_rng(3)
    batch = Batch.random(*(Tables.random(N, LENGTH, generator) for _ in range(2)), 4, generator)
    batch.lengths[:] = LENGTH
    batch.p[2, 1, 0] = np.nan
    with pytest.raises(NotLossless, match=f"row {2 * LENGTH + 1} of the target's logits holds NaN"):
        run_v1(batch, rule, temperature=np.full(4, temperature))


def planted(name: str) -> Callable[..., Any]:
    """Adapters with a bug from the field."""

    def run(batch: Batch, rule: Any, **options: Any) -> Any:
        if name == "argmax reported as drawn":
            batch.drafts = np.where(batch.drafts < 0, -1, batch.q.argmax(-1))
        elif name == "probabilities of another temperature":
            batch.q = batch.q**2 / (batch.q**2).sum(-1, keepdims=True)
        else:
            batch.bonus = np.where(batch.lengths > 0, batch.drafts[:, -1], batch.bonus)
        return run_v1(batch, rule, **options)

    return run


@RULES
@pytest.mark.parametrize(
    "name", ["argmax reported as drawn", "probabilities of another temperature", "bonus from the draft"]
)
def test_planted_bugs_are_seen(name: str, rule: Any) -> None:
    assert max(law_p_value(planted(name), rule, seed) for seed in (1, 2)) < FALSE_ALARM


@RULES
def test_one_draft_is_accepted_as_often_as_can_be(rule: Any) -> None:
    generator = np.random.default_rng(3)
    target, draft = (Tables.random(N, LENGTH, generator) for _ in range(2))
    batch = Batch.random(target, draft, 20_000, generator)
    batch.lengths[:] = 1
    batch.bonus = drawn(batch.p[:, 1], generator)
    torch.manual_seed(0)
    accepted = (run_v1(batch, rule)[:, 1] >= 0).double().mean().item()
    optimum = np.minimum(target.laws[0], draft.laws[0]).sum()
    assert abs(accepted - optimum) < 6.2 * 0.5 / 20_000**0.5


GRID_P = np.array([[2, 1, 1], [1, 2, 1], [1, 1, 2]]) / 4
GRID_Q = np.array([[1, 1, 2], [2, 1, 1], [1, 2, 1]]) / 4


@pytest.mark.parametrize("rule", [BLOCK, ONE_BY_ONE], ids=["block", "one by one"])
def test_law_by_counting_a_grid_of_uniforms_exactly(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All probabilities are quarters here: 4 uniforms a column, all drafts and bonus tokens, give the law with ==."""
    columns = 2 if rule is BLOCK else 4  # the fifth draws the bonus token, which is sure
    cases = [
        (x, bonus, u)
        for x in np.ndindex(3, 3)
        for bonus in range(3)
        for u in np.ndindex(*[4] * columns)
        for _ in range(round(64 * GRID_Q[0][x[0]] * GRID_Q[x[0]][x[1]] * GRID_P[x[1]][bonus]))
    ]
    drafts, bonus = np.array([x for x, _, _ in cases]), np.array([b for _, b, _ in cases])
    uniforms = torch.tensor([[*(np.array(u) + 0.5) / 4, *[0.5] * (rule is not BLOCK)] for _, _, u in cases])
    monkeypatch.setattr(vllm, "_uniforms", lambda *_: uniforms)
    m = len(cases)
    p, q = (
        np.stack([np.tile(grid[0], (m, 1)), grid[drafts[:, 0]], grid[drafts[:, 1]]], 1) for grid in (GRID_P, GRID_Q)
    )
    batch = Batch(np.full(m, 2), drafts, p, q[:, :2], bonus)
    monkeypatch.setattr(Batch, "there", np.full((m, 2), True))
    emitted = run_v1(batch, rule).numpy()
    law = np.zeros((3, 3, 3))
    for first, second, third in emitted:  # where a request ends early, the target goes on
        seconds = GRID_P[first] if second < 0 else np.eye(3)[second]
        law[first] += seconds[:, None] * (GRID_P if third < 0 else np.eye(3)[[third] * 3])
    assert (law / m == GRID_P[0][:, None, None] * GRID_P[:, :, None] * GRID_P[None]).all()


@RUNNERS
def test_greedy_requests_emit_the_argmax(run: Callable[..., Any]) -> None:
    generator = np.random.default_rng(4)
    target, draft = (Tables.random(N, LENGTH, generator) for _ in range(2))
    batch = Batch.random(target, draft, 400, generator, padded=0.1)
    batch.bonus = batch.p[np.arange(400), batch.lengths].argmax(-1)
    mixed = np.where(np.arange(400) % 2, 0.0, 0.7)
    for temperature in (mixed, np.zeros(400)):
        emitted = run(batch, BLOCK, temperature=temperature).numpy()
        for row in np.flatnonzero(temperature == 0):
            expected = []
            for depth in range(batch.lengths[row] + 1):
                expected.append(batch.p[row, depth].argmax())
                if depth == batch.lengths[row] or batch.drafts[row, depth] != expected[-1]:
                    break
            assert [token for token in emitted[row] if token >= 0] == expected


@RULES
def test_a_seed_gives_the_same_tokens_in_any_batch(rule: Any) -> None:
    generator = np.random.default_rng(6)
    target, draft = (Tables.random(N, LENGTH, generator) for _ in range(2))
    batch = Batch.random(target, draft, 60, generator)
    seeded = {row: torch.Generator().manual_seed(row) for row in range(0, 60, 2)}
    emitted = run_v1(batch, rule, generators=seeded)
    for row, used in seeded.items():
        one = Batch(*(x[row : row + 1] for x in (batch.lengths, batch.drafts, batch.p, batch.q, batch.bonus)))
        alone = torch.Generator().manual_seed(row)
        if one.lengths[0]:
            tokens = run_v1(one, rule, generators={0: alone})
            assert (tokens[0] == emitted[row, : tokens.shape[1]]).all()
        assert (alone.get_state() == used.get_state()).all()  # without drafts nothing was drawn
    whole = run_v2(batch, rule, seeds=np.arange(60) + 3)
    half = Batch(*(x[30:] for x in (batch.lengths, batch.drafts, batch.p, batch.q, batch.bonus)))
    assert (run_v2(half, rule, seeds=np.arange(30, 60) + 3) == whole[30:]).all()


def test_seeded_uniforms_are_uniform_over_positions_seeds_and_columns() -> None:
    count = 200_000
    far = torch.arange(count) * 12_345_678_901_234 - 2**62
    for seed, position in ((0 * far + 3, torch.arange(count)), (far, 0 * far + 9)):
        u = vllm_runner_v2.seeded_uniforms(seed, position, 3).numpy()
        assert u.min() >= 0
        assert u.max() < 1
        cells = np.zeros((8, 8, 8))
        np.add.at(cells, tuple((8 * u).astype(int).T), 1)
        assert stats.chisquare(cells.ravel()).pvalue > FALSE_ALARM
        assert abs(np.corrcoef(u[1:, 0], u[:-1, 0])[0, 1]) < 6.2 / count**0.5
    assert _split_mix(GOLDEN) == 0xE220A8397B1DCDAF  # the published first number of SplitMix64 for seed 0
    assert vllm_runner_v2.seeded_uniforms(torch.tensor([0]), torch.tensor([0]), 1).item() == pytest.approx(
        _split_mix(_split_mix(_split_mix(GOLDEN), 0), GOLDEN) / 2**64, abs=2**-52
    )


GOLDEN, LAST = 0x9E3779B97F4A7C15, 2**64 - 1


def _split_mix(state: int, more: int = 0) -> int:
    x = (state + more) & LAST
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & LAST
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & LAST
    return x ^ (x >> 31)


@pytest.mark.parametrize(
    ("run", "rule"), [(run_v1, BLOCK), (run_v2, ONE_BY_ONE), slow(run_v1, ONE_BY_ONE), slow(run_v2, BLOCK)]
)
def test_black_box(run: Callable[..., Any], rule: Any) -> None:
    def sampler(p: Any, q: Any, drafts: Any, generator: Any) -> Any:
        m, n = p.shape
        states = (
            [torch.Generator().manual_seed(int(s)) for s in generator.integers(2**63, size=m)] if run is run_v1 else []
        )
        laws = np.pad(p[:, None], ((0, 0), (0, 1), (0, 0)))
        laws[:, 1] = 1 / n
        batch = Batch(np.ones(m, int), drafts, laws, q[:, None], np.zeros(m, int))
        with pytest.MonkeyPatch.context() as patch, np.errstate(divide="ignore"):
            patch.setattr("vllm_calls.LENGTH", 1)
            if run is run_v1:
                return run(batch, rule, generators=dict(enumerate(states)))[:, 0].numpy()
            return run(batch, rule, seeds=generator.integers(2**53, size=m))[:, 0].numpy()

    report = otd.check_sampler(sampler, k=1, batched=True, samples=1_500, seconds=None)
    assert report.passed, report


@RULES
def test_nothing_is_asked_of_the_device(rule: Any) -> None:
    on = partial(torch.zeros, device="meta")
    whole = partial(on, dtype=torch.int32)
    metadata = SamplingMetadata(on(2), False, False)
    for draft_probs in (on(3, 5), None):
        emitted = vllm.rejection_sample(
            whole(3), [1, 2], 2, whole(2), draft_probs, on(3, 5), whole(2, 1), metadata, rule=rule
        )
        assert emitted.shape == (2, 3)
    for draft_logits in (on(4, 2, 5), None):
        sampled, number = vllm_runner_v2.rejection_sample(
            on(5, 5), draft_logits, whole(5), whole(3), whole(5), whole(2), whole(5), whole(5), on(4),
            whole(4), 2, rule=rule,
        )  # fmt: skip
        assert (sampled.shape, number.shape) == ((2, 3), (2,))
