"""A server that serves the tiny pair, asked over HTTP: vLLM's completions or llama.cpp's own endpoint, told apart by its own word."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from ..tiny_pair import letter

__all__ = ["AT_ONCE", "LACKS", "SECONDS", "STATE", "complete", "counters", "start"]

LACKS: dict[str, str] = {}
PRESENCE_OF_PROMPT = False  # llama.cpp's do
REQUESTS, AT_ONCE, SECONDS = 2000, 48, 600.0
SAME = ("temperature", "top_k", "top_p", "min_p", "presence_penalty", "frequency_penalty", "seed")
OF_VLLM = ("repetition_penalty", "ignore_eos", "min_tokens", "stop_token_ids", "allowed_token_ids")
REFUSED, NONE = "vLLM refuses it beside drafts", "llama.cpp has none"
OF_ENGINE = {
    "vllm": {
        "min_p": REFUSED,
        "logit_bias": REFUSED,
        "same seed": "vLLM draws drafts without the seed",
    },
    "llamacpp": {
        "n": NONE,
        "min_tokens": NONE,
        "allowed_token_ids": NONE,
        "stop_token_ids": "llama.cpp stops at strings",
    }
    | {"ignore_eos": "llama.cpp takes the end out of the law instead"},
}  # what each lacks
COUNTED_BY_LLAMA = {"accepted drafts": "draft_n_accepted", "cached tokens": "cache_n"}  # in every answer
COUNTED_BY_VLLM = {
    "accepted drafts": "spec_decode_num_accepted_tokens",
    "cached tokens": "prefix_cache_hits",
}  # at /metrics
STATE: dict[str, Any] = {}


def start(target: str, draft: str, url: str = "", engine: str = "") -> dict[str, str]:
    """url: the server's address. engine: "vllm" or "llamacpp", by the server's own word where it is not given."""
    import httpx

    url = url.rstrip("/").removesuffix("/v1")
    (model, *_) = httpx.get(f"{url}/v1/models", timeout=SECONDS, trust_env=False).json()["data"]
    engine = engine or str(model.get("owned_by"))
    if engine not in OF_ENGINE:
        raise ValueError(f"the server says that it is {engine}: name one of {', '.join(OF_ENGINE)} by --set engine=")
    end = json.loads(Path(target, "config.json").read_text())["vocab_size"] - 1
    STATE.update(url=url, model=model["id"], end=end, llama=engine == "llamacpp", counted=Counter())
    LACKS.update(OF_ENGINE[engine])
    globals()["PRESENCE_OF_PROMPT"] = STATE["llama"]
    return {"server": f"{engine} at {url}"}


def _body(request: dict[str, Any]) -> dict[str, Any]:
    """The request in the server's words."""
    prompt, count, wanted = request["prompt"], request["max_tokens"], "logprobs" in request
    words = [f"[{''.join(map(letter, allowed))}]" for allowed in request.get("grammar", ())]
    body = {name: request[name] for name in SAME if name in request} | {"prompt": prompt}
    if not STATE["llama"]:
        body |= {name: request[name] for name in OF_VLLM if name in request}
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
    """Tokens and log-probabilities of each text of an answer, or of a piece of one; llama.cpp leaves the token out that ended a text."""
    if STATE["llama"]:
        counts, tokens = answer.get("timings", {}), answer.get("tokens", [])
        for name, counted in COUNTED_BY_LLAMA.items():
            STATE["counted"][name] += counts.get(counted, 0)
        ended = [STATE["end"]] if answer.get("stop_type") == "eos" and tokens[-1:] != [STATE["end"]] else []
        logs = [entry["logprob"] for entry in answer.get("completion_probabilities", [])]
        return [{"tokens": tokens + ended, "logprobs": logs}]
    return [
        {"tokens": each["token_ids"], "logprobs": (each.get("logprobs") or {}).get("token_logprobs", [])}
        for each in answer["choices"]
    ]


def _joined(text: list[int], piece: list[int]) -> list[int]:
    """A stream of llama.cpp's shows the token that ended the text before it says that it ended."""
    return text if piece == text[-1:] == [STATE["end"]] else text + piece


def complete(requests: list[dict[str, Any]]) -> list[Any]:
    """AT_ONCE of them at a time; one to be aborted is hung up on after its first piece."""
    return asyncio.run(_together(requests))


async def _together(requests: list[dict[str, Any]]) -> list[Any]:
    import httpx

    gate, limits = asyncio.Semaphore(AT_ONCE), httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=STATE["url"], timeout=SECONDS, trust_env=False, limits=limits) as client:

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
            said = line.removeprefix("data:").strip()
            if line.startswith("data:") and said not in ("", "[DONE]"):
                tokens, pieces = _joined(tokens, _read(json.loads(said))[0]["tokens"]), pieces + 1
                if "abort" in request:
                    break
    return [{"tokens": tokens, "pieces": pieces}]


def counters() -> dict[str, Any]:
    """Accepted drafts, and tokens of prompts that came from a cache: of the answers, or by vLLM of all requests that it ever had."""
    if STATE["llama"]:
        return {name: STATE["counted"][name] for name in COUNTED_BY_LLAMA}
    import httpx

    said = httpx.get(f"{STATE['url']}/metrics", timeout=SECONDS, trust_env=False).text
    return {
        name: sum(map(float, re.findall(rf"^vllm:{counted}_total\{{.*\}} (\S+)$", said, re.MULTILINE)))
        for name, counted in COUNTED_BY_VLLM.items()
        if f"vllm:{counted}_total{{" in said
    }


def stop() -> None:
    """The server is somebody else's."""
