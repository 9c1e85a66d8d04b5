"""HTTP client for one server: no redirects, no proxies, no credentials but the API key from the environment.

Each exchange has one timeout, from connecting to the last byte, and a limit of bytes, whatever the server says about its length. A
request to a busy server is repeated within the limits of `HttpSettings`.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ...errors import CannotAudit
from ...optional import load
from .answers import BadAnswer, json_object

T = TypeVar("T")
KEY_VARIABLES = ("OT_DRAFT_AUDIT_KEY", "OPENAI_API_KEY")  # of the environment; the first one that is set


@dataclass(frozen=True)
class HttpSettings:
    """Limits of the exchange with a server."""

    max_bytes: int = 8 * 2**20  # of a response
    max_connections: int = 256
    retries: int = 3  # of a request after a busy server, a server error or a broken connection
    backoff_s: float = 0.25  # before the first retry, doubled for each further one, unless the server sends Retry-After
    max_wait_s: float = 30.0  # largest Retry-After that is honoured
    max_total_wait_s: float = 120.0  # in an audit


@dataclass(frozen=True)
class Dialect:
    """Request fields of one engine's server in addition to OpenAI's.

    Attributes
    ----------
    fields : dict
        Fields of every request: nothing but temperature, top-k and top-p changes the distribution.
    all_tokens : int or None
        Value of top_k for no top-k; None if the engine has no top-k.
    processed : dict or None
        Fields that ask for log-probabilities of the distribution that is sampled from; None if the engine has none.
    tempered : bool
        Whether log-probabilities are those after the temperature.
    temperature_last : bool or None
        As in `Reported`.
    min_drafted_length : int
        Smallest max_tokens of requests for which the engine drafts.
    owner : str
        Value of `owned_by` in /v1/models, by which the engine is detected.
    """

    fields: dict[str, Any]
    all_tokens: int | None = None
    processed: dict[str, Any] | None = None
    tempered: bool = False
    temperature_last: bool | None = False
    min_drafted_length: int = 1
    owner: str = ""

    def request(self, model: str, temperature: float = 1.0, top_p: float = 1.0, top_k: int = 0) -> dict[str, Any]:
        """Return the fields of a request with these sampling settings; top_k: 0 for all tokens."""
        no_top_k = {} if self.all_tokens is None else {"top_k": self.all_tokens}
        no_penalties = {"presence_penalty": 0.0, "frequency_penalty": 0.0}  # a server may have other defaults
        sampling = {"model": model, "temperature": temperature, "top_p": top_p}
        return {**sampling, **no_penalties, **self.fields, **({"top_k": top_k} if top_k else no_top_k)}


DIALECTS = {
    "vllm": Dialect({"min_p": 0.0, "repetition_penalty": 1.0, "return_tokens_as_token_ids": True}, -1, {}, owner="vllm"),
    "sglang": Dialect({"min_p": 0.0, "repetition_penalty": 1.0}, -1, None, tempered=True, temperature_last=None, owner="sglang"),
    "llamacpp": Dialect({"min_p": 0.0, "repeat_penalty": 1.0, "typical_p": 1.0, "cache_prompt": False}, 0,
                        {"post_sampling_probs": True}, temperature_last=True, min_drafted_length=5, owner="llamacpp"),
    "llama-cpp-python": Dialect({"min_p": 0.0, "repeat_penalty": 1.0}, 0, temperature_last=True, owner="me"),
    "openai": Dialect({}, temperature_last=None),
}  # fmt: skip


def engine_of(owner: str) -> str:
    """Return the name of the engine that calls itself this in /v1/models, "openai" if unknown."""
    return next((name for name, dialect in DIALECTS.items() if owner and dialect.owner == owner), "openai")


def is_busy(status: int) -> bool:
    """Whether a request with this status may succeed later."""
    return status in (408, 425, 429) or status >= 500


def may_have_sampled(status: int) -> bool:
    """Whether the server may have sampled tokens before it answered with this status of a busy server."""
    return status not in (408, 425, 429, 503)


def endpoint(url: str) -> str:
    """Return the address of the server's API, .../v1. Raises CannotAudit if the text is not an http address."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # of the port, or of brackets
        good = False
    if not good or any(c.isspace() or not c.isprintable() for c in url):
        raise CannotAudit(f"URL must be an http address, got {url!a}. Pass one like http://localhost:8000.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise CannotAudit(
            f"URL must have a host and a path only, got more for {parts.hostname}. Set a key in {KEY_VARIABLES[0]}."
        )
    path = parts.path.rstrip("/").removesuffix("/completions").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path if path.endswith('/v1') else path + '/v1'}"


class Busy(BadAnswer):
    """The server may answer later, after `seconds` if it said when. sampled: it may have sampled tokens that are lost."""

    def __init__(self, message: str, seconds: float | None = None, sampled: bool = True) -> None:
        super().__init__(message)
        self.seconds, self.sampled = seconds, sampled


class RefusedRequest(BadAnswer):
    """A request that the server does not answer, however often it is sent."""


class Client:
    """A server that is asked for completions, several at a time.

    timeout_s: for one whole exchange. Raises CannotAudit if the address is invalid, or a key would be sent unencrypted.
    """

    def __init__(self, url: str, timeout_s: float = 60.0, settings: HttpSettings | None = None) -> None:
        httpx = load("httpx", "audit")
        self.url, self._timeout_s, self._settings = endpoint(url), timeout_s, settings or HttpSettings()
        self._key = next((os.environ[name] for name in KEY_VARIABLES if os.environ.get(name)), "")
        parts = urlsplit(self.url)
        if self._key and parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            remedy = f"Use https, or unset {', '.join(KEY_VARIABLES)}."
            raise CannotAudit(
                f"URL must be an https address when a key is set: it would be sent unencrypted to {parts.hostname}. {remedy}"
            )
        if not (self._key.isascii() and self._key.isprintable()):
            raise CannotAudit(f"{' or '.join(KEY_VARIABLES)} must be printable ASCII. Set the key again.")
        headers = {"accept-encoding": "identity"} | ({"authorization": f"Bearer {self._key}"} if self._key else {})
        try:
            httpx.URL(self.url)
        except httpx.InvalidURL as error:
            raise CannotAudit(
                f"URL must be an http address, got {url!a} ({error}). Pass one like http://localhost:8000."
            ) from error
        self._errors = (httpx.HTTPError, httpx.StreamError)
        self._broken = (httpx.NetworkError, httpx.RemoteProtocolError)
        self._unreachable = httpx.ConnectError
        self._http = httpx.AsyncClient(headers=headers, timeout=None, follow_redirects=False, trust_env=False,
                                       limits=httpx.Limits(max_connections=self._settings.max_connections))  # fmt: skip
        self._loop, self._waited_s, self._waiting_until = asyncio.Runner(), 0.0, 0.0
        self.again: Counter[str] = Counter()  # repeated requests, by reason
        self._lost = 0

    def close(self) -> None:
        """Close all connections."""
        self._loop.run(self._http.aclose())
        self._loop.close()

    def models(self) -> list[tuple[str, str]]:
        """Return the names of the served models and their owners, which name the engine."""
        try:
            found = json_object(self._loop.run(self._ask("GET", "/models", None))).get("data")
            named = [(str(each["id"]), str(each.get("owned_by", ""))) for each in found or []]
        except (BadAnswer, KeyError, TypeError, AttributeError) as error:
            shown = self._clean(str(error))
            if isinstance(error.__cause__, self._unreachable):
                raise CannotAudit(
                    f"{self.url} cannot be reached: {shown}. Start the server, or correct the URL."
                ) from error
            raise CannotAudit(f"{self.url}/models must list models, got {shown}. Name a model with --model.") from error
        if not all(name.isprintable() for name, _ in named):
            raise CannotAudit(f"{self.url}/models must list printable names. Name a model with --model.")
        return named

    def complete(
        self, requests: Sequence[dict[str, Any]], read: Callable[[bytes, dict[str, Any]], T]
    ) -> list[T | BadAnswer]:  # fmt: skip
        """Return the results of `read` on the responses to concurrent requests; BadAnswer if there is none, or `read` raised it."""

        async def kept(fields: dict[str, Any]) -> T | BadAnswer:
            try:
                return read(await self._ask("POST", "/completions", fields), fields)
            except BadAnswer as error:
                return error

        answers: list[T | BadAnswer] = []

        async def all_requests() -> None:
            # Not returned: asyncio.Runner formats the result of its task twice when it restores the signal handlers.
            answers.extend(await asyncio.gather(*map(kept, requests)))

        self._loop.run(all_requests())
        return answers

    def lost(self) -> int:
        """Return the largest number of tokens since the last call that the server may have sampled and not sent."""
        lost, self._lost = self._lost, 0
        return lost

    async def _ask(self, method: str, path: str, fields: dict[str, Any] | None) -> bytes:
        limits = self._settings
        for attempt in range(limits.retries):
            try:
                return await self._exchange(method, path, fields)
            except Busy as error:
                asked = limits.backoff_s * 2**attempt if error.seconds is None else error.seconds
                if not self._may_wait(wait := min(asked, limits.max_wait_s)):
                    raise
                self.again[str(error)] += 1
                self._lost += int(fields["max_tokens"]) if fields and error.sampled else 0
                await asyncio.sleep(wait)
        return await self._exchange(method, path, fields)

    def _may_wait(self, wait_s: float) -> bool:
        """Whether the total allows this wait, which is then counted; requests that wait at the same time count once."""
        now = time.monotonic()
        more = max(0.0, now + wait_s - max(self._waiting_until, now))
        if self._waited_s + more > self._settings.max_total_wait_s:
            return False
        self._waited_s, self._waiting_until = self._waited_s + more, max(self._waiting_until, now + wait_s)
        return True

    async def _exchange(self, method: str, path: str, fields: dict[str, Any] | None) -> bytes:
        most = self._settings.max_bytes
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._http.stream(method, self.url + path, json=fields) as answer,
            ):
                if answer.headers.get("content-encoding", "identity") != "identity":
                    raise BadAnswer("the response is compressed, although the request asks for identity")
                body = bytearray()
                async for part in answer.aiter_raw():
                    body += part
                    if len(body) > most:
                        raise BadAnswer(f"the response is longer than {most:,} bytes")
        except TimeoutError as error:
            raise BadAnswer(f"the response is not complete after {self._timeout_s:g} seconds") from error
        except self._unreachable as error:
            raise BadAnswer(self._shown(error)) from error
        except self._broken as error:
            raise Busy(self._shown(error)) from error
        except self._errors as error:
            raise BadAnswer(self._shown(error)) from error
        self._check_status(answer, path, body)
        return bytes(body)

    def _check_status(self, answer: Any, path: str, body: bytearray) -> None:
        status, address = answer.status_code, f"{self.url}{path}"
        if is_busy(status):
            raise Busy(f"status {status}", _retry_after(answer.headers), may_have_sampled(status))
        if status >= 400:
            shown = self._clean(body.decode("utf-8", "replace"))
            if status == 404 and path == "/completions":
                shown += (
                    ". If the server has the chat endpoint only, write its responses with logprobs and top_logprobs to a file, one "
                    "JSON object per line, and run ot-draft audit FILE"
                )
            raise RefusedRequest(f"{address} refuses with status {status}: {shown}")
        if not 200 <= status < 300:
            raise RefusedRequest(
                f"{address} redirects (status {status}), which is not followed. Pass the final address."
            )

    def _shown(self, error: Exception) -> str:
        """Return the type and the words of an error."""
        return f"{type(error).__name__}: {self._clean(str(error))}"

    def _clean(self, text: str) -> str:
        """Return words of the server, short, on one line, without the key that it may echo."""
        text = text.replace(self._key, "...") if self._key else text
        return " ".join("".join(c if c.isprintable() else " " for c in text[:2000]).split())[:200]


def _retry_after(headers: Any) -> float | None:
    """The seconds in Retry-After, None without a number."""
    text = headers.get("retry-after", "")
    return float(text) if re.fullmatch(r"\s*\d{1,9}\s*", text) else None
