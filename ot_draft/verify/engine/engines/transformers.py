"""Adapter of transformers: assisted generation, one request per call, or `multi_draft`, requests of equal settings in batches."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

LACKS = dict.fromkeys(("presence_penalty", "frequency_penalty"), "transformers does not support it") | {
    "mixed batches": "a call of generate has one set of settings: batches have requests of equal settings",
    "abort": "a call of generate cannot be aborted from outside",
}
REQUESTS = 1500
STATE: dict[str, Any] = {"accepted": 0, "batch": 1}


def start(target: str, draft: str, loop: str = "assisted", tokens: str = "2", paths: str = "2") -> dict[str, str]:
    """Load the pair. loop: "assisted" or "multi-draft"; tokens: draft tokens per step; paths: of multi-draft."""
    import transformers

    transformers.logging.set_verbosity_error()
    load = transformers.AutoModelForCausalLM.from_pretrained
    STATE["target"], small = (load(folder, dtype="float32").eval() for folder in (target, draft))
    if loop == "assisted":
        counts = {"num_assistant_tokens": int(tokens), "num_assistant_tokens_schedule": "constant"}
        small.generation_config.update(assistant_confidence_threshold=0.0, **counts)
        STATE["given"], LACKS["n"] = {"assistant_model": small}, "assisted generation supports one sequence per call"
    else:
        from ....integrations.transformers import multi_draft

        globals().update(REQUESTS=4000)
        STATE["batch"] = 400
        drafted = multi_draft(small, paths=int(paths), length=int(tokens), on_step=_counted)
        STATE["given"], LACKS["logprobs"] = {"custom_generate": drafted}, "multi_draft returns token ids only"
    return {"transformers": transformers.__version__, "loop": loop, "drafts": f"{tokens} per step"}


def _counted(step: Any) -> None:
    STATE["accepted"] += sum(max(len(step.tokens(row)) - 1, 0) for row in range(len(step.emitted)))


def complete(requests: list[dict[str, Any]]) -> list[Any]:
    """Answer requests in calls of equal settings; a request with a seed or a stream has its own call."""
    groups, answers = defaultdict(list), [None] * len(requests)
    for i, request in enumerate(requests):
        groups[repr([item for item in request.items() if item[0] != "prompt"])].append(i)
    for indices in groups.values():
        size = 1 if {"stream", "seed"} & requests[indices[0]].keys() else STATE["batch"]
        for some in (indices[begin : begin + size] for begin in range(0, len(indices), size)):
            for i, answer in zip(some, _call([requests[each] for each in some]), strict=True):
                answers[i] = answer
    return answers


def _call(requests: list[dict[str, Any]]) -> list[Any]:
    import torch

    (request, *_), n = requests, STATE["target"].config.vocab_size
    longest, pieces, more = max(len(each["prompt"]) for each in requests), list[Any](), dict[str, Any]()
    rows = torch.tensor([[-1] * (longest - len(each["prompt"])) + each["prompt"] for each in requests])
    if "seed" in request:
        torch.manual_seed(request["seed"])
    if "stream" in request:
        more["streamer"] = type(
            "Streamer", (), {"put": lambda self, value: pieces.append(value), "end": lambda self: None}
        )()
    if "logprobs" in request:
        more |= {"return_dict_in_generate": True, "output_logits": True}
    given = settings(request, n, longest) | STATE["given"] | more
    out = STATE["target"].generate(rows.clamp(min=0), attention_mask=(rows >= 0).long(), **given)
    texts = (out.sequences if "logprobs" in request else out)[:, longest:].tolist()
    answers: list[dict[str, Any]] = [
        {"tokens": _to_end(text, ends_of(request, n)), "pieces": len(pieces) - 1} for text in texts
    ]
    if "logprobs" in request:
        logs = torch.stack(out.logits, 1).log_softmax(-1)
        for row, answer in enumerate(answers):
            answer["logprobs"] = [float(logs[row, position, token]) for position, token in enumerate(answer["tokens"])]
    copies = request.get("n", 1)
    return [answers[begin : begin + copies] for begin in range(0, len(answers), copies)]


def ends_of(request: dict[str, Any], n: int) -> list[int]:
    """Return the tokens that end a completion."""
    return [*request.get("stop_token_ids", ()), *(() if request["ignore_eos"] else (n - 1,))]


def _to_end(text: list[int], ends: list[int]) -> list[int]:
    """Remove the padding after the token that ends a completion."""
    return text[: next((position + 1 for position, token in enumerate(text) if token in ends), len(text))]


def settings(request: dict[str, Any], n: int, length: int) -> dict[str, Any]:
    """Return the arguments of `generate` for a request, with prompts padded to this length."""
    given = {
        "max_new_tokens": request["max_tokens"],
        "do_sample": request["temperature"] > 0,
        "top_k": 0,
        "pad_token_id": n - 1,
    }
    given |= {"eos_token_id": ends_of(request, n) or None}
    names = {name: name for name in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")}
    names |= {"min_tokens": "min_new_tokens", "n": "num_return_sequences"}
    given |= {names[name]: request[name] for name in names if name in request}
    if not given["do_sample"]:
        del given["temperature"]
    if "logit_bias" in request:
        given["sequence_bias"] = [[[int(token)], float(bias)] for token, bias in request["logit_bias"].items()]
    if "allowed_token_ids" in request:
        given["suppress_tokens"] = sorted({*range(n)} - {*request["allowed_token_ids"]})
    if allowed := request.get("grammar"):
        given["prefix_allowed_tokens_fn"] = lambda row, ids: allowed[min(len(ids) - length, len(allowed) - 1)]
    return given


def counters() -> dict[str, Any]:
    """Return the accepted draft tokens of multi_draft; transformers does not count."""
    return {"accepted drafts": STATE["accepted"]} if STATE["batch"] > 1 else {}


def step(p: Any, q: Any, k: int, generator: Any) -> Any:
    """Sample a draft token by torch.multinomial and verify it by transformers' `_speculative_sampling`, row by row."""
    import numpy as np
    import torch
    from transformers.generation.utils import _speculative_sampling

    torch.manual_seed(int(generator.integers(2**63)))
    p, q = torch.tensor(p), torch.tensor(q)
    drafts, found = q.multinomial(1), []
    for draft, target, law in zip(drafts, p, q, strict=True):
        tokens, _ = _speculative_sampling(
            draft[None], law.log()[None, None], 1, torch.stack((target, target)).log()[None]
        )
        found.append((int(draft), bool(tokens.shape[-1] == 2), int(tokens[0, 0])))
    drafted, accepted, token = map(np.array, zip(*found, strict=True))
    return drafted[:, None], accepted[:, None], token


def stop() -> None:
    """Do nothing: no process runs."""
