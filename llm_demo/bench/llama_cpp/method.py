"""llama.cpp's server as a method of the benchmark: one prompt at a time over HTTP, with the server's own timings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from ot_draft.decoding import CannotDecode, DecodeOptions
from ot_draft.decoding.benchmark.peers import OneByOne
from ot_draft.decoding.methods import method_called, shape_of

LLAMA = "llama.cpp"  # prefix of the names of its methods
LIMIT = 600.0  # timeout per prompt in seconds
RULES = {
    "none": f"{LLAMA}, plain",
    "ngram": f"{LLAMA}, n-gram drafts",
    "greedy": f"{LLAMA}, greedy drafts",
    "drawn": f"{LLAMA}, probabilistic drafts",
}


@dataclass(frozen=True)
class Continued:
    """A completion. tokens: number of new tokens, including the first one, from prefill. accepted: number of accepted draft tokens.

    seconds: from the first token to the last.
    """

    tokens: int
    accepted: int
    seconds: float

    @property
    def calls(self) -> int:
        """Number of target calls, including prefill: each emits one token that was not drafted."""
        return self.tokens - self.accepted


@dataclass(frozen=True)
class LlamaCpp(OneByOne):
    """llama.cpp's server at an address; its settings determine how it drafts."""

    url: str = ""

    @classmethod
    def by(cls, drafts: str, length: int, url: str) -> LlamaCpp:
        """Return the method for these `drafts` and this `length`, as in `server.Settings`."""
        by_model = drafts in ("greedy", "drawn")
        like = method_called("speculativesampling" if by_model else "autoregressive", None, shape_of(1, length, None))
        return cls.like(like, RULES[drafts], f"1 × {length}" if by_model else "", url=url)

    def continued(self, prompt: Sequence[int], options: DecodeOptions, seed: int) -> tuple[int, int, float]:
        """Generate a completion; the server's timing starts with the first token, after prefill."""
        done = continued(self.url, prompt, options, seed)
        return done.tokens, done.calls, done.seconds


def continued(url: str, prompt: Sequence[int], options: DecodeOptions, seed: int) -> Continued:
    """Return a completion by the server at an address; of `options`, sampling and max_tokens are used.

    Raises CannotDecode if the request fails.
    """
    sampling = options.sampling
    given = {
        "prompt": list(prompt),
        "n_predict": options.max_tokens,
        "seed": seed,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "samplers": ["temperature", "top_k", "top_p", "min_p"],  # in transformers' order; no others, no penalties
        "cache_prompt": False,  # prefill reads the whole prompt; its time is excluded
    }
    try:
        answer = httpx.post(f"{url}/completion", json=given, timeout=LIMIT, trust_env=False)
    except httpx.HTTPError as error:
        raise CannotDecode(f"{url} does not answer: {error or type(error).__name__}") from None
    if answer.status_code != 200:
        raise CannotDecode(f"{url} answers {answer.status_code}: {' '.join(answer.text.split())[:200]}")
    return _timed(url, answer.json())


def _timed(url: str, answer: dict[str, Any]) -> Continued:
    """Return the server's token counts and timings."""
    timings = answer.get("timings", {})
    if not {"predicted_n", "predicted_ms"} <= set(timings):
        raise CannotDecode(f"{url} does not return timings. Use llama.cpp's server.")
    # draft_n_accepted is missing if nothing was drafted.
    return Continued(timings["predicted_n"], timings.get("draft_n_accepted", 0), timings["predicted_ms"] / 1000)
