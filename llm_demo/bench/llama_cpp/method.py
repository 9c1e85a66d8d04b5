"""llama.cpp as a method among ours: one text at a time over HTTP, timed by the server itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from ot_draft.decoding import CannotDecode, DecodeOptions
from ot_draft.decoding.benchmark.peers import OneByOne
from ot_draft.decoding.methods import method_called, shape_of

LLAMA = "llama.cpp"  # how the names of its methods begin
LIMIT = 600.0  # seconds for a text
RULES = {
    "none": f"{LLAMA}, plain",
    "ngram": f"{LLAMA}, n-gram drafts",
    "greedy": f"{LLAMA}, greedy drafts",
    "drawn": f"{LLAMA}, probabilistic drafts",
}


@dataclass(frozen=True)
class Continued:
    """tokens: how many came, the first one included, which the prompt's pass brings; accepted: drafted ones among them.

    seconds: from the first token to the last.
    """

    tokens: int
    accepted: int
    seconds: float

    @property
    def calls(self) -> int:
        """Calls of the target that chose tokens, the one that read the prompt included: each brings one token that was not drafted."""
        return self.tokens - self.accepted


@dataclass(frozen=True)
class LlamaCpp(OneByOne):
    """llama.cpp's server at an address, which drafts as its settings say."""

    url: str = ""

    @classmethod
    def by(cls, drafts: str, length: int, url: str) -> LlamaCpp:
        """drafts, length: as in `server.Settings`."""
        by_model = drafts in ("greedy", "drawn")
        like = method_called("speculativesampling" if by_model else "autoregressive", None, shape_of(1, length, None))
        return cls.like(like, RULES[drafts], f"1 × {length}" if by_model else "", url=url)

    def continued(self, prompt: Sequence[int], options: DecodeOptions, seed: int) -> tuple[int, int, float]:
        """The server's clock starts with the first token, after the prompt's pass."""
        done = continued(self.url, prompt, options, seed)
        return done.tokens, done.calls, done.seconds


def continued(url: str, prompt: Sequence[int], options: DecodeOptions, seed: int) -> Continued:
    """A text by the server at an address; options: of which sampling and max_tokens are taken. CannotDecode where it fails."""
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
        "cache_prompt": False,  # every text is read anew, in the time that does not count
    }
    try:
        answer = httpx.post(f"{url}/completion", json=given, timeout=LIMIT, trust_env=False)
    except httpx.HTTPError as error:
        raise CannotDecode(f"{url} does not answer: {error or type(error).__name__}") from None
    if answer.status_code != 200:
        raise CannotDecode(f"{url} answers {answer.status_code}: {' '.join(answer.text.split())[:200]}")
    return _timed(url, answer.json())


def _timed(url: str, answer: dict[str, Any]) -> Continued:
    """The server's own count and clock."""
    timings = answer.get("timings", {})
    if not {"predicted_n", "predicted_ms"} <= set(timings):
        raise CannotDecode(f"{url} does not say how long it took (no timings): is it llama.cpp's server?")
    # Without a single draft it says nothing of drafts.
    return Continued(timings["predicted_n"], timings.get("draft_n_accepted", 0), timings["predicted_ms"] / 1000)
