"""vLLM: speculative sampling or block verification in the place of its rejection sampler.

Written against the released wheel of vLLM 0.33.0; its source was read, nothing here has run inside vLLM.
`OT_DRAFT_VLLM=BlockVerification` (or SpeculativeSampling) switches it on in every process of vLLM, through the entry point
`vllm.general_plugins`; without the variable the plugin does nothing. Which function is replaced, by model runner:

* V2, the default: `rejection_sample` in vllm/v1/worker/gpu/spec_decode/rejection_sampler.py; see `vllm_runner_v2`.
* V1 (`VLLM_USE_V2_MODEL_RUNNER=0`): `rejection_sample` in vllm/v1/sample/rejection_sampler.py; below.

What the host does before, it goes on doing: penalties, bad words, temperature, top-k and top-p of the target
(`apply_sampling_constraints`, before the call), the bonus token (sampled before the call, and given), log-probabilities
(after it). draft_probs is None where drafts are chosen without chance, by n-gram lookup or by argmax
(`draft_sample_method="greedy"`, the default): then q is 1 at the draft.

What was found in the source of the host's own kernels; tests/test_integrations_findings.py has the exact laws:

* V1 accepts at u <= p/q, so that u = 0, once in 2^53, accepts a draft of target mass 0. Here, as in V2, the test is strict.
* A draft that a grammar refuses (structured output) arrives as -1. It was drawn, hence norm((p - q)+) is due after it; after a
  -1 that stands for no draft at all p is due. Given draft probabilities, V1 always takes the first and V2 always the second:
  with structured output and drawn drafts V2 does not follow the target. Here see `chains.with_refused`.
* 0.32.0 is refused: its V2 runner takes the uniform of a test, and the noise of a draft, from seed and position alone. Block
  verification looks at positions beyond the accepted ones, and the next iteration finds the same numbers there: the
  output does not follow the target. 0.33.0 mixes the step into the seed.
* The modes "synthetic" and "fly" accept what the target would refuse, on purpose. Here they are refused.
"""

from __future__ import annotations

import os
from functools import partial
from importlib import import_module
from typing import Any

from ..arrays import Array, namespace, positions, where
from ..paths import PathRule
from .chains import CHAIN_RULES, along_chains, along_greedy_chains, number_of_uniforms, one_hot, with_refused
from .host import NotLossless, check_choice, check_parameters, check_version
from .vllm_runner_v2 import rejection_sample as rejection_sample_v2

__all__ = ["KNOWN_VERSIONS", "VARIABLE", "install", "plugin", "rejection_sample"]

KNOWN_VERSIONS = ("0.33.0",)
VARIABLE = "OT_DRAFT_VLLM"


def plugin() -> None:
    """Entry point of `vllm.general_plugins`: install the rule that the variable OT_DRAFT_VLLM names, if any."""
    if name := os.environ.get(VARIABLE):
        install(name)


def install(rule: str) -> None:
    """Replace the rejection samplers of both model runners in this process by "SpeculativeSampling" or "BlockVerification".

    Raises UnsupportedHost for a vLLM of another version or with another interface.
    """
    chosen = CHAIN_RULES[check_choice(rule, tuple(CHAIN_RULES), VARIABLE)]
    check_version("vllm", KNOWN_VERSIONS, VARIABLE)
    v1 = import_module("vllm.v1.sample.rejection_sampler")
    v2 = import_module("vllm.v1.worker.gpu.spec_decode.rejection_sampler")
    pairs = (v1, rejection_sample), (v2, rejection_sample_v2)
    for module, ours in pairs:  # all are looked at before one is replaced
        check_parameters(module, "rejection_sample", ours, ("rule",))
    for module, ours in pairs:
        setattr(module, "rejection_sample", partial(ours, rule=chosen))  # noqa: B010  no attribute that mypy knows


def rejection_sample(
    draft_token_ids: Array,
    num_draft_tokens: list[int],
    max_spec_len: int,
    cu_num_draft_tokens: Array,
    draft_probs: Array | None,
    target_logits: Array,
    bonus_token_ids: Array,
    sampling_metadata: Any,
    synthetic_mode: bool = False,
    synthetic_conditional_rates: Array | None = None,
    use_fp64_gumbel: bool = False,
    fly_window_size: int | None = None,
    fly_entropy_threshold: float | None = None,
    fly_entropy_top_k: int = 3,
    *,
    rule: PathRule,
) -> Array:
    """Emitted tokens of B requests with T drafts in all, L = max_spec_len the longest: int32 (B, L + 1), -1 beyond.

    draft_token_ids: (T,), -1 for a draft that must be refused. cu_num_draft_tokens: (B,), inclusive sums. draft_probs: (T, n) or None.
    target_logits: (T, n), temperature, top-k and top-p applied. bonus_token_ids: (B, 1).
    Law: a request's tokens, followed by draws from the target, are distributed as draws from the target. Requests of
    temperature 0 emit the argmax, and drafts as far as they are that. A request with a generator takes as many
    numbers from it as its own drafts need, whatever else is in the batch. Nothing is asked of the device.
    """
    if synthetic_mode or synthetic_conditional_rates is not None or fly_window_size is not None:
        raise NotLossless(f"rejection_sample_method 'synthetic' or 'fly' is set: take 'standard', or unset {VARIABLE}")
    tokens, index = _layout(draft_token_ids, cu_num_draft_tokens, max_spec_len, target_logits)
    bonus = bonus_token_ids.long()
    best = namespace(bonus).cat((target_logits.argmax(-1), bonus[:, 0]))[index]
    greedy = along_greedy_chains(best, tokens)
    if sampling_metadata.all_greedy:
        return greedy.int()
    p, q = _laws(target_logits, draft_probs, index, tokens, bonus)
    if draft_probs is not None:
        tokens = with_refused(tokens, index[:, :-1] < len(draft_token_ids), p)
    uniforms = _uniforms(rule, num_draft_tokens, max_spec_len, sampling_metadata.generators, target_logits)
    emitted = along_chains(rule, p, q, tokens, uniforms)
    return where((sampling_metadata.temperature == 0)[:, None], greedy, emitted).int()


def _layout(drafts: Array, sums: Array, length: int, like: Array) -> tuple[Array, Array]:
    """A row a request: tokens int64 (B, L), -1 where absent; index int64 (B, L + 1) of the rows of the flat arrays.

    From a request's last draft on the index is T + its number: what belongs there comes from its bonus token.
    """
    stop = sums.long()[:, None]
    start = namespace(like).nn.functional.pad(stop[:-1], (0, 0, 1, 0))
    index = start + positions(length + 1, like)
    present = index < stop
    tokens = where(present, drafts.long()[index.clamp(max=len(drafts) - 1)], -1)[:, :-1]
    return tokens, where(present, index, len(drafts) + positions(len(stop), like)[:, None])


def _laws(logits: Array, draft_probs: Array | None, index: Array, tokens: Array, bonus: Array) -> tuple[Array, Array]:
    """Target (B, L + 1, n) and draft (B, L, n). After its last draft a request's target is sure of the bonus token."""
    torch, n = namespace(logits), logits.shape[-1]
    p = logits.softmax(-1, dtype=torch.float32)
    p = torch.cat((p, one_hot(bonus[:, 0], n, p)))[index]
    if draft_probs is None:
        return p, one_hot(tokens, n, p)
    return p, draft_probs.to(p.dtype)[index[:, :-1].clamp(max=len(draft_probs) - 1)]


def _uniforms(rule: PathRule, lengths: list[int], longest: int, generators: dict[int, Any], like: Array) -> Array:
    """Uniforms float64 (B, U), because in float32 one in 2^24 is 0. A seeded request has its own in the first columns."""
    torch = namespace(like)
    shape = (len(lengths), number_of_uniforms(rule, longest))
    uniforms = torch.rand(shape, dtype=torch.float64, device=like.device)
    for row, generator in generators.items():
        if lengths[row]:  # without drafts nothing is drawn, as in the host
            uniforms[row, : number_of_uniforms(rule, lengths[row])].uniform_(generator=generator)
    return uniforms
