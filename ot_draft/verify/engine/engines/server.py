"""Adapter of a server with the tiny pair, over HTTP: completions of vLLM, or llama.cpp's own endpoint. The server names its engine."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..tiny_pair import letter

__all__ = ["LACKS", "STATE", "RequestLimits", "complete", "counters", "start"]

LACKS: dict[str, str] = {}
PRESENCE_OF_PROMPT = False  # True for llama.cpp
REQUESTS = 2000
STATE: dict[str, Any] = {}


@dataclass(frozen=True)
class RequestLimits:
    """Limits of the requests to the server."""

    concurrent: int = 48
    timeout_s: float = 600.0  # of an exchange


@dataclass(frozen=True)
class ServedEngine:
    """Settings that an engine lacks, with the reasons, and its names of the adapter's counters."""

    lacks: dict[str, str]
    counters: dict[str, str]


ENGINES = {
    "vllm": ServedEngine(
        dict.fromkeys(("min_p", "logit_bias"), "vLLM does not support it with draft tokens")
        | {"same seed": "vLLM samples draft tokens without the seed"},
        {"accepted drafts": "spec_decode_num_accepted_tokens", "cached tokens": "prefix_cache_hits"},  # of /metrics
    ),
    "llamacpp": ServedEngine(
        dict.fromkeys(("n", "min_tokens", "allowed_token_ids"), "llama.cpp does not support it")
        | {
            "stop_token_ids": "llama.cpp stops at strings",
            "ignore_eos": "llama.cpp removes the end-of-sequence token from the distribution instead",
        },
        {"accepted drafts": "draft_n_accepted", "cached tokens": "cache_n"},  # in every response
    ),
}


def start(target: str, draft: str, url: str = "", engine: str = "") -> dict[str, str]:
    """Connect to the server at `url`. engine: "vllm" or "llamacpp"; by default, as the server names it."""
    import httpx

    url = url.rstrip("/").removesuffix("/v1")
    (model, *_) = httpx.get(f"{url}/v1/models", timeout=RequestLimits.timeout_s, trust_env=False).json()["data"]
    engine = engine or str(model.get("owned_by"))
    if engine not in ENGINES:
        raise ValueError(
            f"the engine of the server must be one of {', '.join(ENGINES)}, got {engine}. Name it with --set engine="
        )
    end = json.loads(Path(target, "config.json").read_text())["vocab_size"] - 1
    STATE.update(url=url, model=model["id"], end=end, llama=engine == "llamacpp", counted=Counter())
    LACKS.update(ENGINES[engine].lacks)
    globals()["PRESENCE_OF_PROMPT"] = STATE["llama"]
    return {"server": f"{engine} at {url}"}


def _body(request: dict[str, Any]) -> dict[str, Any]:
    """Return the request in the server's format."""
    prompt, count, wanted = request["prompt"], request["max_tokens"], "logprobs" in request
    words = [f"[{''.join(map(letter, allowed))}]" for allowed in request.get("grammar", ())]
    shared = ("temperature", "top_k", "top_p", "min_p", "presence_penalty", "frequency_penalty", "seed")
    of_vllm = ("repetition_penalty", "ignore_eos", "min_tokens", "stop_token_ids", "allowed_token_ids")
    body = {name: request[name] for name in shared if name in request} | {"prompt": prompt}
    if not STATE["llama"]:
        body |= {name: request[name] for name in of_vllm if name in request}
        body |= {
            "model": STATE["model"],
            "max_tokens": count,
            "return_token_ids": True,
            "logprobs": 1 if wanted else None,
            "n": request.get("n", 1),
        }
        return body | ({"structured_outputs": {"regex": "".join(words)}} if words else {})
    order = ["penalties", "temperature", "top_k", "top_p", "min_p"]  # vLLM's
    body = {
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "samplers": order,
        "repeat_last_n": 64,
        "return_tokens": True,
    } | body
    body |= {"n_predict": count, "n_probs": int(wanted), "repeat_penalty": request.get("repetition_penalty", 1.0)}
    body |= {"logit_bias": [[token, bias] for token, bias in request.get("logit_bias", {}).items()]}
    return body | ({"grammar": f"root ::= {' '.join(words)}"} if words else {})


def _read(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return tokens and log-probabilities of each completion of a response, or of a piece of one; llama.cpp omits the last token."""
    if STATE["llama"]:
        counts, tokens = answer.get("timings", {}), answer.get("tokens", [])
        for name, counted in ENGINES["llamacpp"].counters.items():
            STATE["counted"][name] += counts.get(counted, 0)
        ended = [STATE["end"]] if answer.get("stop_type") == "eos" and tokens[-1:] != [STATE["end"]] else []
        logs = [entry["logprob"] for entry in answer.get("completion_probabilities", [])]
        return [{"tokens": tokens + ended, "logprobs": logs}]
    return [
        {"tokens": each["token_ids"], "logprobs": (each.get("logprobs") or {}).get("token_logprobs", [])}
        for each in answer["choices"]
    ]


def _joined(text: list[int], piece: list[int]) -> list[int]:
    """Append a piece of a stream; llama.cpp sends the last token again in the piece that ends it."""
    return text if piece == text[-1:] == [STATE["end"]] else text + piece


def complete(requests: list[dict[str, Any]]) -> list[Any]:
    """Send the requests, at most `RequestLimits.concurrent` at a time. An aborted one is disconnected after its first piece."""
    return asyncio.run(_all(requests))


async def _all(requests: list[dict[str, Any]]) -> list[Any]:
    import httpx

    gate = asyncio.Semaphore(RequestLimits.concurrent)
    limits = httpx.Limits(max_connections=RequestLimits.concurrent, max_keepalive_connections=0)
    url, timeout = STATE["url"], RequestLimits.timeout_s
    async with httpx.AsyncClient(base_url=url, timeout=timeout, trust_env=False, limits=limits) as client:

        async def one(request: dict[str, Any]) -> Any:
            async with gate:
                return await _ask(client, request)

        return list(await asyncio.gather(*map(one, requests)))


async def _ask(client: Any, request: dict[str, Any]) -> Any:
    body, path = _body(request), "/completion" if STATE["llama"] else "/v1/completions"
    if not {"stream", "abort"} & request.keys():
        answer = await client.post(path, json=body)
        if answer.status_code != 200:
            raise ValueError(f"status {answer.status_code}: {answer.text[:300]} for {json.dumps(body)[:300]}")
        return _read(answer.json())
    tokens, pieces = list[int](), 0
    async with client.stream("POST", path, json=body | {"stream": True}) as answer:
        async for line in answer.aiter_lines():
            data = line.removeprefix("data:").strip()
            if line.startswith("data:") and data not in ("", "[DONE]"):
                tokens, pieces = _joined(tokens, _read(json.loads(data))[0]["tokens"]), pieces + 1
                if "abort" in request:
                    break
    return [{"tokens": tokens, "pieces": pieces}]


def counters() -> dict[str, Any]:
    """Return accepted draft tokens and cached tokens of prompts; of vLLM, those of all requests since its start."""
    if STATE["llama"]:
        return {name: STATE["counted"][name] for name in ENGINES["llamacpp"].counters}
    import httpx

    metrics = httpx.get(f"{STATE['url']}/metrics", timeout=RequestLimits.timeout_s, trust_env=False).text
    return {
        name: sum(map(float, re.findall(rf"^vllm:{counted}_total\{{.*\}} (\S+)$", metrics, re.MULTILINE)))
        for name, counted in ENGINES["vllm"].counters.items()
        if f"vllm:{counted}_total{{" in metrics
    }


def stop() -> None:
    """Leave the server running, which the adapter did not start."""
