"""The transport: one server, and nothing else. No redirect, no proxy, no credentials but the key from the environment.

Every exchange, from connecting to the last trailer, has one deadline and a limit of bytes, whatever the server says about its length.
A server that is busy is asked again, as often and as late as RETRIES and the limits below it say.
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
from .answers import BadAnswer, parsed

T = TypeVar("T")
KEYS = ("OT_DRAFT_AUDIT_KEY", "OPENAI_API_KEY")  # of the environment, the first that is set
MOST_BYTES = 8 * 2**20  # of an answer
RETRIES = 3  # of a request that met a busy server, an error of the server's, or a connection that broke off
BUSY = (408, 425, 429)  # beside all from 500 on
REFUSED_AT_ONCE = (*BUSY, 503)  # before any token is drawn
# seconds before the first of them, doubled for each further one, where the server names no time (Retry-After)
BACKOFF = 0.25
LONGEST_WAIT = 30.0  # seconds: the most that Retry-After is honoured for, at a time
PATIENCE = 120.0  # seconds of waiting in an audit, all of it together
NO_COMPLETIONS = (
    ". Where a server has the chat endpoint alone, write its responses with logprobs and top_logprobs to a file, one JSON object per line, "
    "and run ot-draft audit FILE"
)
HERE = ("localhost", "127.0.0.1", "::1")


NO_PENALTIES = {
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}  # OpenAI's own fields: a server may have other defaults


@dataclass(frozen=True)
class Dialect:
    """Fields that one engine's server understands beside OpenAI's.

    fields: sent with every request, so that nothing but temperature, top-k and top-p shapes the law. all_tokens: its word for no
    top-k. tempered: whether its log-probabilities are those after the temperature. temperature_last: as in `Reported`.
    """

    fields: dict[str, Any]
    all_tokens: int | None = None
    processed: dict[str, Any] | None = None
    tempered: bool = False
    temperature_last: bool | None = False

    def asked(self, model: str, temperature: float = 1.0, top_p: float = 1.0, top_k: int = 0) -> dict[str, Any]:
        """Fields of a request that is drawn in this way; top_k: 0 for all tokens."""
        every = {} if self.all_tokens is None else {"top_k": self.all_tokens}
        cut = {"top_k": top_k} if top_k else every
        return {"model": model, "temperature": temperature, "top_p": top_p, **NO_PENALTIES, **self.fields, **cut}


DIALECTS = {
    "vllm": Dialect({"min_p": 0.0, "repetition_penalty": 1.0, "return_tokens_as_token_ids": True}, -1, {}),
    "sglang": Dialect({"min_p": 0.0, "repetition_penalty": 1.0}, -1, None, tempered=True, temperature_last=None),
    "llamacpp": Dialect({"min_p": 0.0, "repeat_penalty": 1.0, "typical_p": 1.0, "cache_prompt": False}, 0,
                        {"post_sampling_probs": True}, temperature_last=True),
    "llama-cpp-python": Dialect({"min_p": 0.0, "repeat_penalty": 1.0}, 0, temperature_last=True),
    "openai": Dialect({}, temperature_last=None),
}  # fmt: skip
# owned_by of /v1/models
OWNERS = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "me": "llama-cpp-python"}


def endpoint(url: str) -> str:
    """Address where the server's API begins, .../v1; CannotAudit where the text is no http address."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # of the port, or of brackets
        good = False
    if not good or any(c.isspace() or not c.isprintable() for c in url):
        raise CannotAudit(f"{url!a}: give an address like http://localhost:8000")
    if parts.username or parts.password or parts.query or parts.fragment:
        seen = "the address holds more than host and path"
        raise CannotAudit(f"{parts.hostname}: {seen}: a key comes from {KEYS[0]} alone")
    path = parts.path.rstrip("/").removesuffix("/completions").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path if path.endswith('/v1') else path + '/v1'}"


class Busy(BadAnswer):
    """The server may answer later: after so many seconds, if it said when. drawn: it may have drawn tokens, and failed by them."""

    def __init__(self, said: str, seconds: float | None = None, drawn: bool = True) -> None:
        super().__init__(said)
        self.seconds, self.drawn = seconds, drawn


class RefusedRequest(BadAnswer):
    """A request that the server will not answer, however often it is asked."""


class Client:
    """A server that is asked for completions, several at a time.

    seconds: for one exchange as a whole. CannotAudit if the address is none, or a key would be sent in the clear.
    """

    def __init__(self, url: str, seconds: float = 60.0, most_bytes: int = MOST_BYTES) -> None:
        httpx = load("httpx", "audit")
        self.url, self.seconds, self.most_bytes = endpoint(url), seconds, most_bytes
        self._key = next((os.environ[name] for name in KEYS if os.environ.get(name)), "")
        parts = urlsplit(self.url)
        if self._key and parts.scheme == "http" and parts.hostname not in HERE:
            remedy = f"use https, or unset {', '.join(KEYS)}"
            raise CannotAudit(f"{parts.hostname}: a key would be sent there unencrypted: {remedy}")
        if not (self._key.isascii() and self._key.isprintable()):
            raise CannotAudit("the key in the environment holds characters that no header can: set it again")
        headers = {"accept-encoding": "identity"} | ({"authorization": f"Bearer {self._key}"} if self._key else {})
        try:
            httpx.URL(self.url)
        except httpx.InvalidURL as error:
            raise CannotAudit(f"{url!a}: {error}: give an address like http://localhost:8000") from error
        self._errors = (httpx.HTTPError, httpx.StreamError)
        self._broken = (httpx.NetworkError, httpx.RemoteProtocolError)
        self._unreachable = httpx.ConnectError
        self._http = httpx.AsyncClient(headers=headers, timeout=None, follow_redirects=False, trust_env=False,
                                       limits=httpx.Limits(max_connections=256))  # fmt: skip
        self._loop, self._waited, self._until = asyncio.Runner(), 0.0, 0.0
        self.again: Counter[str] = Counter()  # requests that were sent again, by reason
        self._lost = 0

    def close(self) -> None:
        """Close all connections."""
        self._loop.run(self._http.aclose())
        self._loop.close()

    def models(self) -> list[tuple[str, str]]:
        """Names of the models served, and who owns them: by that word engines are told apart."""
        try:
            found = parsed(self._loop.run(self._ask("GET", "/models", None))).get("data")
            named = [(str(each["id"]), str(each.get("owned_by", ""))) for each in found or []]
        except (BadAnswer, KeyError, TypeError, AttributeError) as error:
            said = self._clean(str(error))
            raise CannotAudit(f"{self.url}/models gives no list of models ({said}): name one with --model") from error
        if not all(name.isprintable() for name, _ in named):
            raise CannotAudit(f"{self.url}/models names a model that cannot be printed: name one with --model")
        return named

    def complete(
        self, requests: Sequence[dict[str, Any]], read: Callable[[bytes, dict[str, Any]], T]
    ) -> list[T | BadAnswer]:  # fmt: skip
        """Results of `read` on the answers to requests that are sent together; BadAnswer where nothing came, or it raised one."""

        async def kept(fields: dict[str, Any]) -> T | BadAnswer:
            try:
                return read(await self._ask("POST", "/completions", fields), fields)
            except BadAnswer as error:
                return error

        answers: list[T | BadAnswer] = []

        async def together() -> None:
            # Not returned: asyncio.Runner formats the result of its task twice when it restores the signal handlers.
            answers.extend(await asyncio.gather(*map(kept, requests)))

        self._loop.run(together())
        return answers

    def lost(self) -> int:
        """Tokens, at most, of answers since the last call that the server may have drawn, and not sent: others came in their place."""
        lost, self._lost = self._lost, 0
        return lost

    async def _ask(self, method: str, path: str, fields: dict[str, Any] | None) -> bytes:
        for attempt in range(RETRIES):
            try:
                return await self._exchange(method, path, fields)
            except Busy as error:
                asked = BACKOFF * 2**attempt if error.seconds is None else error.seconds
                if not self._patient(wait := min(asked, LONGEST_WAIT)):
                    raise
                self.again[str(error)] += 1
                self._lost += int(fields["max_tokens"]) if fields and error.drawn else 0
                await asyncio.sleep(wait)
        return await self._exchange(method, path, fields)

    def _patient(self, wait: float) -> bool:
        """Whether PATIENCE lasts for waiting so long from now on; requests that wait at the same time wait once."""
        now = time.monotonic()
        more = max(0.0, now + wait - max(self._until, now))
        if self._waited + more > PATIENCE:
            return False
        self._waited, self._until = self._waited + more, max(self._until, now + wait)
        return True

    async def _exchange(self, method: str, path: str, fields: dict[str, Any] | None) -> bytes:
        try:
            async with asyncio.timeout(self.seconds), self._http.stream(method, self.url + path, json=fields) as answer:
                if answer.headers.get("content-encoding", "identity") != "identity":
                    raise BadAnswer("compressed, although that was not asked for")
                body = bytearray()
                async for part in answer.aiter_raw():
                    body += part
                    if len(body) > self.most_bytes:
                        raise BadAnswer(f"longer than {self.most_bytes:,} bytes")
        except TimeoutError as error:
            raise BadAnswer(f"not whole after {self.seconds:g} seconds") from error
        except self._errors as error:
            said = f"{type(error).__name__}: {self._clean(str(error))}"
            broken = isinstance(error, self._broken) and not isinstance(error, self._unreachable)
            raise (Busy if broken else BadAnswer)(said) from error
        status = answer.status_code
        if status >= 500 or status in BUSY:
            seconds = _seconds(answer.headers.get("retry-after", ""))
            raise Busy(f"status {status}", seconds, status not in REFUSED_AT_ONCE)
        if status >= 400:
            said = self._clean(body.decode("utf-8", "replace"))
            said += NO_COMPLETIONS if status == 404 and path == "/completions" else ""
            raise RefusedRequest(f"{self.url}{path} refuses with status {status}: {said}")
        if not 200 <= status < 300:
            said = f"sends elsewhere (status {status}), which is not followed"
            raise RefusedRequest(f"{self.url}{path} {said}: give the address itself")
        return bytes(body)

    def _clean(self, text: str) -> str:
        """A server's own words, short, in one line, without the key that it may echo."""
        text = text.replace(self._key, "...") if self._key else text
        return " ".join("".join(c if c.isprintable() else " " for c in text[:2000]).split())[:200]


def _seconds(text: str) -> float | None:
    """Return the seconds that Retry-After asks for; None for anything but their number."""
    return float(text) if re.fullmatch(r"\s*\d{1,9}\s*", text) else None
