"""The adapter of vLLM with bugs to plant: its own sampler with each of BUGS, the plugin's rules, and these with errors in them.

BUGS are real ones of the field, each planted in vLLM's first model runner, with the CPU's defects mended first. The number is that of the
issue or pull request that tells of it, in the engine's own repository.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from ot_draft.integrations import vllm, vllm_patches
from ot_draft.integrations.chains import CHAIN_RULES
from ot_draft.verify.engine.engines import vllm as adapter
from ot_draft.verify.engine.engines.vllm import LACKS, SAMPLER, complete, counters, step, stop

__all__ = ["BUGS", "LACKS", "complete", "counters", "own_tests", "plant", "start", "step", "stop"]

HERE = Path(__file__).parent
sys.path[:0] = [str(folder) for folder in (HERE, HERE.parent, HERE.parent / "integrations")]
OWN = "own"
REQUESTS = 4000
PLANTED = ExitStack()
PROPOSER = "vllm.v1.spec_decode.llm_base_proposer"


def start(target: str, draft: str, **options: str) -> dict[str, str]:
    """As the adapter of vLLM."""
    facts = adapter.start(target, draft, **options)
    plant(OWN)
    return facts


def plant(name: str) -> None:
    """From now on vLLM runs with "own", "own, BUG", a rule, "RULE, ERROR" or "own, FUNCTION not mended"."""
    PLANTED.close()
    PLANTED.enter_context(sampler(name))


@contextmanager
def sampler(name: str) -> Iterator[None]:
    """Everything that mends and bugs change is as it was afterwards."""
    host = sys.modules[SAMPLER]
    classes = [(host.RejectionSampler, ("forward", "apply_penalties", "_get_logprobs_tensors"))]
    classes += [(sys.modules["vllm.v1.sample.logits_processor.builtin"].MinTokensLogitsProcessor, ("apply",))]
    classes += [
        (sys.modules["vllm.v1.structured_output"].StructuredOutputManager, ("validate_tokens", "grammar_bitmask"))
    ]
    classes += [(sys.modules["vllm.v1.worker.gpu_model_runner"].GPUModelRunner, ("_sample", "_bookkeeping_sync"))]
    functions = (
        "rejection_sample",
        "expand_batch_to_tokens",
        "apply_sampling_constraints",
        "generate_uniform_probs",
        "sample_recovered_tokens",
    )
    places = [(host, each) for each in functions] + [(owner, each) for owner, names in classes for each in names]
    places += [(sys.modules[PROPOSER], "compute_probs_and_sample_next_token")]
    rule, _, error = name.partition(", ")
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(host, vllm_patches.PATCHED, False, create=True))
        before = {function: (owner, vars(owner)[function]) for owner, function in places}
        for owner, function in places:
            stack.enter_context(mock.patch.object(owner, function, vars(owner)[function]))
        vllm_patches.apply_patches()
        if error.endswith(" not mended"):
            owner, unmended = before[error.removesuffix(" not mended")]
            setattr(owner, error.removesuffix(" not mended"), unmended)
        if rule in CHAIN_RULES:
            stack.enter_context(
                mock.patch.object(host, "rejection_sample", partial(vllm.rejection_sample, rule=CHAIN_RULES[rule]))
            )
            if error:
                from mutants.plugin import planted

                stack.enter_context(planted(error))
        elif error in BUGS:
            BUGS[error](host)
        yield


def _noise_reused(host: Any) -> None:
    """The exponentials that drew a draft draw the token that replaces it. A draft's noise is found again by its law and token."""
    proposer, noise = sys.modules[PROPOSER], dict[Any, Any]()
    draw, recover = proposer.compute_probs_and_sample_next_token, host.sample_recovered_tokens  # type: ignore[attr-defined]

    def drafted(logits: Any, metadata: Any, use_fp64_gumbel: bool = False) -> Any:
        if metadata.all_greedy:
            return draw(logits, metadata, use_fp64_gumbel)
        heat = torch.where(metadata.temperature < 1e-5, 1.0, metadata.temperature)
        probs = (logits / heat[:, None]).softmax(-1, dtype=torch.float32)
        q = torch.empty_like(probs).exponential_()
        tokens = torch.where(metadata.temperature < 1e-5, probs.argmax(-1), (probs / q).argmax(-1))
        if len(noise) > 100_000:
            noise.clear()
        noise.update(
            {(law.numpy().tobytes(), int(token)): row for law, token, row in zip(probs, tokens, q, strict=True)}
        )
        return tokens, probs

    def recovered(
        longest: int, counts: Any, sums: Any, tokens: Any, draft_probs: Any, target_probs: Any, *rest: Any
    ) -> Any:
        if draft_probs is None or not len(tokens):
            return recover(longest, counts, sums, tokens, draft_probs, target_probs, *rest)
        fresh = torch.empty_like(target_probs).exponential_()
        for row, (law, token) in enumerate(zip(draft_probs, tokens, strict=True)):
            fresh[row] = noise.get((law.numpy().tobytes(), int(token)), fresh[row])
        return ((target_probs - draft_probs).clamp(min=0) / fresh).argmax(-1).to(tokens.dtype)

    setattr(proposer, "compute_probs_and_sample_next_token", drafted)  # noqa: B010
    host.sample_recovered_tokens = recovered


def _greedy(host: Any) -> None:
    """Sampled requests are verified as greedy ones."""
    sample = host.rejection_sample

    def rejection_sample(*given: Any, **options: Any) -> Any:
        metadata = copy(given[7])
        metadata.all_greedy, metadata.all_random = True, False
        return sample(*given[:7], metadata, **options)

    host.rejection_sample = rejection_sample


def _one_stream(host: Any) -> None:
    """Requests without a seed take the same numbers."""
    own = host.generate_uniform_probs

    def uniforms(total: int, counts: list[int], generators: Any, device: Any) -> Any:
        shared = torch.rand(max(counts), dtype=torch.float64)
        rows = own(total, counts, generators, device).split(counts)
        return torch.cat([row if i in generators else shared[: counts[i]] for i, row in enumerate(rows)])

    host.generate_uniform_probs = uniforms


def _no_penalties(host: Any) -> None:
    host.RejectionSampler.apply_penalties = staticmethod(lambda logits, *rest: logits)


def _logprob_zero(host: Any) -> None:
    """Accepted drafts are reported with log-probability 0."""
    own = host.RejectionSampler._get_logprobs_tensors

    def zeroed(sampler: Any, most: int, metadata: Any, logits: Any, target: Any, bonus: Any, tokens: Any) -> Any:
        found = own(sampler, most, metadata, logits, target, bonus, tokens)
        drafted = torch.arange(tokens.shape[1])[None] + 1 < (tokens >= 0).sum(-1, keepdim=True)
        return found._replace(logprobs=torch.where(drafted.flatten()[:, None], 0.0, found.logprobs))

    host.RejectionSampler._get_logprobs_tensors = zeroed


def _logprob_of_neighbour(host: Any) -> None:
    """Log-probabilities are read a row too late."""
    own = host.RejectionSampler._get_logprobs_tensors

    def shifted(sampler: Any, most: int, metadata: Any, logits: Any, target: Any, bonus: Any, tokens: Any) -> Any:
        return own(sampler, most, metadata, logits, target.roll(1, 0), bonus, tokens)

    host.RejectionSampler._get_logprobs_tensors = shifted


def _wrong_slice(host: Any) -> None:
    """The token behind the last draft is drawn from the logits before that draft."""
    own = host.RejectionSampler.forward

    def forward(sampler: Any, metadata: Any, *rest: Any, **named: Any) -> Any:
        drafted = torch.tensor(metadata.num_draft_tokens) > 0
        return own(
            sampler,
            replace(metadata, bonus_logits_indices=metadata.bonus_logits_indices - drafted.int()),
            *rest,
            **named,
        )

    host.RejectionSampler.forward = forward


def _first_for_last(host: Any) -> None:
    """With more than two requests the last one's logits at its drafts are the first one's."""
    own = host.apply_sampling_constraints

    def constrained(logits: Any, sums: Any, metadata: Any) -> Any:
        logits = own(logits, sums, metadata)
        counts = sums.diff(prepend=sums[:1] * 0).tolist()
        if len(counts) > 2 and counts[0] == counts[-1] > 0:
            logits[-counts[-1] :] = logits[: counts[0]]
        return logits

    host.apply_sampling_constraints = constrained


def _one_round_late(host: Any) -> None:
    """The refused draft is emitted, and the token that should replace it behind it."""
    sample = host.rejection_sample

    def rejection_sample(drafts: Any, counts: Any, longest: int, sums: Any, *rest: Any, **options: Any) -> Any:
        out = sample(drafts, counts, longest, sums, *rest, **options)
        for row, count in enumerate(counts):
            kept = int((out[row] >= 0).sum()) - 1
            if kept < count:
                at = int(sums[row]) - count + kept
                out[row, kept + 1], out[row, kept] = int(out[row, kept]), int(drafts[at])
        return out

    host.rejection_sample = rejection_sample


def _other_q(host: Any) -> None:
    """Drafts are drawn from a sharper law than the one that is handed on."""
    proposer = sys.modules[PROPOSER]
    own = proposer.compute_probs_and_sample_next_token  # type: ignore[attr-defined]

    def drafted(logits: Any, metadata: Any, use_fp64_gumbel: bool = False) -> Any:
        tokens, probs = own(logits, metadata, use_fp64_gumbel)
        sharper = (probs**1.5).multinomial(1)[:, 0] if not metadata.all_greedy else tokens
        return torch.where(probs.amax(-1) < 1, sharper, tokens), probs

    setattr(proposer, "compute_probs_and_sample_next_token", drafted)  # noqa: B010


def _lenient(host: Any) -> None:
    """Drafts are accepted at 1.15 p/q."""
    own = host.generate_uniform_probs
    host.generate_uniform_probs = lambda *given: own(*given) / 1.15


def _residual_is_p(host: Any) -> None:
    """The token that replaces a refused draft is drawn from p."""

    def recovered(longest: int, counts: Any, sums: Any, tokens: Any, q: Any, p: Any, *rest: Any) -> Any:
        return p.multinomial(1)[:, 0].to(tokens.dtype) if len(p) else tokens

    host.sample_recovered_tokens = recovered


BUGS: dict[str, Callable[[Any], None]] = {
    "vLLM 54282: draft noise used again": _noise_reused,
    "SGLang 37134: verified as greedy": _greedy,
    "TensorRT-LLM 19487: one stream for all": _one_stream,
    "SGLang 10617: penalties ignored": _no_penalties,
    "llama.cpp 27972: log-probability 0": _logprob_zero,
    "vLLM 34497: log-probabilities of another row": _logprob_of_neighbour,
    "TensorRT-LLM 15098: wrong slice of logits": _wrong_slice,
    "1Cat-vLLM 656: more than two requests": _first_for_last,
    "openvino.genai 4190: one round late": _one_round_late,
    "transformers 47932: drafts not from the reported q": _other_q,
    "accepted at 1.15 p/q": _lenient,
    "replaced from p": _residual_is_p,
}
DEFECTS = {  # of this vLLM; the last one may end the engine
    "vLLM: min_tokens hides the end too long": "apply not mended",
    "vLLM 46118: refused draft dropped": "validate_tokens not mended",
    "vLLM 55005: expand_batch_to_tokens": "expand_batch_to_tokens not mended",
}
ROWS = {  # of which one at least is wrong; all others: the first kind
    "TensorRT-LLM 19487: one stream for all": {"requests are independent"},
    "SGLang 10617: penalties ignored": {"repetition penalty", "presence, frequency"},
    "1Cat-vLLM 656: more than two requests": {"one to five at a time", "plain", "temperature", "repeating prompt"},
    "llama.cpp 27972: log-probability 0": {"log-probabilities"},
    "vLLM 34497: log-probabilities of another row": {"log-probabilities"},
    "vLLM: min_tokens hides the end too long": {"min tokens"},
    "vLLM 46118: refused draft dropped": {"grammar"},
    "vLLM 55005: expand_batch_to_tokens": {"temperature", "plain", "all kinds in mixed batches"},
}
MANY = {  # requests that it takes
    "vLLM 54282: draft noise used again": 4000,
    "TensorRT-LLM 19487: one stream for all": 4000,
    "1Cat-vLLM 656: more than two requests": 8000,
    "accepted at 1.15 p/q": 8000,
}


def own_tests() -> dict[str, bool]:
    """Whether engines' own published tests pass on the sampler as it is now: see `published_tests`."""
    import published_tests

    return published_tests.of_a_sampler(_verify)


def _verify(p: Any, q: Any, drafts: Any) -> Any:
    """vLLM's rejection sampler on rows with one draft each: laws (m, n) twice, int (m,) -> emitted first tokens (m,)."""
    from types import SimpleNamespace

    m = len(p)
    metadata = SimpleNamespace(
        all_greedy=False, all_random=True, temperature=torch.ones(m), generators={}, top_k=None, top_p=None
    )
    sums = torch.arange(1, m + 1, dtype=torch.int32)
    out = sys.modules[SAMPLER].rejection_sample(  # type: ignore[attr-defined]
        drafts.int(), [1] * m, 1, sums, q.float().contiguous(), p.log().float(), p.multinomial(1).int(), metadata
    )
    return out[:, 0].long()
