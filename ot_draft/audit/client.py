"""The transport: one server, and nothing else. No redirect, no proxy, no credentials but the key from the environment.

Every answer is read piece by piece under a limit of bytes and one of seconds, whatever the server says about its length.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..errors import CannotAudit, MissingPackage
from .answers import Answer, BadAnswer, parsed, read_answer

KEYS = ("OT_DRAFT_AUDIT_KEY", "OPENAI_API_KEY")  # of the environment, the first that is set
MOST_BYTES = 8 * 2**20  # of an answer
HERE = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Dialect:
    """What one engine's server understands beside OpenAI's fields.

    fields: sent with every request, so that nothing but temperature, top-k and top-p shapes the law. all_tokens: its word for no
    top-k. tempered: whether its log-probabilities are those after the temperature.
    """

    fields: dict[str, Any]
    all_tokens: int | None = None
    processed: dict[str, Any] | None = None
    tempered: bool = False
    temperature_last: bool = False


DIALECTS = {
    "vllm": Dialect({"min_p": 0.0, "repetition_penalty": 1.0, "return_tokens_as_token_ids": True}, -1, {}),
    "sglang": Dialect({"min_p": 0.0, "repetition_penalty": 1.0}, -1, None, tempered=True),
    "llamacpp": Dialect({"min_p": 0.0, "repeat_penalty": 1.0, "typical_p": 1.0, "cache_prompt": False}, 0,
                        {"post_sampling_probs": True}, temperature_last=True),
    "llama-cpp-python": Dialect({"min_p": 0.0, "repeat_penalty": 1.0}, 0, temperature_last=True),
    "openai": Dialect({}),
}  # fmt: skip
OWNERS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llamacpp",
    "me": "llama-cpp-python",
}  # owned_by of /v1/models


def endpoint(url: str) -> str:
    """Where the server's API begins, .../v1; CannotAudit where the text is no http address."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CannotAudit(f"{url}: give an address like http://localhost:8000")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise CannotAudit(
            f"{parts.hostname}: the address holds more than host and path: a key comes from {KEYS[0]} alone"
        )
    path = parts.path.rstrip("/").removesuffix("/completions").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path if path.endswith('/v1') else path + '/v1'}"


class Client:
    """A server that is asked for completions.

    seconds: for one answer as a whole. CannotAudit if the server cannot be reached, refuses, or sends elsewhere.
    """

    def __init__(self, url: str, seconds: float = 60.0, most_bytes: int = MOST_BYTES) -> None:
        try:
            import httpx
        except ModuleNotFoundError as error:
            raise MissingPackage("httpx", "audit") from error
        self.url, self.seconds, self.most_bytes = endpoint(url), seconds, most_bytes
        self._key = next((os.environ[name] for name in KEYS if os.environ.get(name)), "")
        parts = urlsplit(self.url)
        if self._key and parts.scheme == "http" and parts.hostname not in HERE:
            raise CannotAudit(
                f"{parts.hostname}: a key would be sent there unencrypted: use https, or unset {', '.join(KEYS)}"
            )
        headers = {"accept-encoding": "identity"} | ({"authorization": f"Bearer {self._key}"} if self._key else {})
        self._errors = httpx.HTTPError
        self._http = httpx.Client(headers=headers, timeout=httpx.Timeout(seconds, connect=min(seconds, 10.0)),
                                  follow_redirects=False, trust_env=False, limits=httpx.Limits(max_connections=256))  # fmt: skip

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def models(self) -> list[tuple[str, str]]:
        """Names of the models served, and who owns them: by that word engines are told apart."""
        try:
            found = parsed(self._ask("GET", "/models", None)).get("data")
            return [(str(each["id"]), str(each.get("owned_by", ""))) for each in found or []]
        except (BadAnswer, KeyError, TypeError, AttributeError) as error:
            raise CannotAudit(f"{self.url}/models gives no list of models ({error}): name one with --model") from error

    def complete(self, fields: dict[str, Any]) -> Answer:
        """One completion; BadAnswer where the answer cannot be read."""
        body = self._ask("POST", "/completions", fields)
        return read_answer(body, int(fields["logprobs"]), int(fields["max_tokens"]))

    def _ask(self, method: str, path: str, fields: dict[str, Any] | None) -> bytes:
        deadline = time.monotonic() + self.seconds
        try:
            with self._http.stream(method, self.url + path, json=fields) as answer:
                if answer.is_redirect or 300 <= answer.status_code < 400:
                    raise CannotAudit(
                        f"{self.url}{path} sends elsewhere, which is not followed: give the address itself"
                    )
                if answer.headers.get("content-encoding", "identity") != "identity":
                    raise BadAnswer("compressed, although that was not asked for")
                body = self._read(answer, deadline)
        except self._errors as error:
            raise BadAnswer(f"{type(error).__name__}: {self._clean(str(error))}") from error
        if answer.status_code >= 500:
            raise BadAnswer(f"status {answer.status_code}")
        if answer.status_code >= 400:
            said = self._clean(body.decode("utf-8", "replace"))
            raise CannotAudit(f"{self.url}{path} refuses with status {answer.status_code}: {said}")
        return body

    def _read(self, answer: Any, deadline: float) -> bytes:
        parts, size = [], 0
        for part in answer.iter_raw():
            size += len(part)
            if size > self.most_bytes:
                raise BadAnswer(f"longer than {self.most_bytes:,} bytes")
            if time.monotonic() > deadline:
                raise BadAnswer(f"not whole after {self.seconds:g} seconds")
            parts.append(part)
        return b"".join(parts)

    def _clean(self, text: str) -> str:
        """A server's own words, short, in one line, without the key that it may echo."""
        text = text.replace(self._key, "...") if self._key else text
        return " ".join("".join(c if c.isprintable() else " " for c in text[:2000]).split())[:200]
