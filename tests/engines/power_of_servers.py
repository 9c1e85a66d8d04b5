"""Errors planted in a real vLLM server: tokens until the audits see them, over HTTP, as a table.

    PYTHONPATH=. .venv-engines/bin/python tests/engines/power_of_servers.py FILE.json --tokens 50000
    PYTHONPATH=. .venv-engines/bin/python tests/engines/power_of_servers.py FILE.json --tokens 1000 --right 50
    PYTHONPATH=. .venv-engines/bin/python tests/engines/power_of_servers.py FILE.json --drafts ngram

Two servers stay up, on the CPU: one drafts and has an error after the other in its sampler (`entry_for_tests.Switch`), the other one is
plain. Columns: `ot-draft audit servers`, `ot-draft audit URL` and the latter with --draft, as a person runs them, in processes of their
own. FILE.json keeps what was found and is gone on with. An audit that ends with another status than 0 or 1 has no verdict: what it said
is kept in its place. With --drafts ngram prompts repeat themselves. How many tokens the engine itself says it drafted and accepted is kept,
too. Not part of the tests: an hour or two.
What came out stands in docs/upstream/README.md.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Lock
from typing import Any

import httpx
from engine_cases import speculative
from errors_in_vllm import CUT, ERRORS, NONE_BY_NGRAMS
from power_in_vllm import Model
from servers import audited, vllm_server
from test_vllm_server import plugin_for_tests

from ot_draft.verify.engine.tiny_pair import write

RIGHT = "own"  # vLLM's own sampler, the CPU's defects mended
UNMENDED = "own, expand_batch_to_tokens not mended"
DRAFTS = {"probabilistic": {"num_speculative_tokens": 3}, "ngram": {}}
BY_TEXTS = {False: ("--settings", "plain"), True: ("--settings", "temperature 0.6,top-k 5")}
BY_LAWS = {False: (), True: ("--temperature", "0.6", "--top-k", "5")}
COUNTED = re.compile(r"^vllm:spec_decode_num_(draft|accepted)_tokens_total\S* (\S+)$", re.MULTILINE)
ASKED = ("--top-logprobs", "8", "--ignore-eos")


class Pair:
    """A drafting server whose errors can be exchanged, and a plain one. draft: for --draft. waves: options of `audit URL`."""

    def __init__(self, drafting: str, plain: str, folder: Path, planted: Path, draft: str) -> None:
        self.drafting, self.plain, self.folder, self.planted, self.draft = drafting, plain, folder, planted, draft
        self.waves: tuple[str, ...] = ()

    def by_texts(self, tokens: int, *options: str) -> Any:
        """What `audit servers` finds: see `_found`."""
        return self._found("servers", self.drafting, self.plain, "--tokens", str(tokens), *options)

    def by_laws(self, tokens: int, *options: str) -> Any:
        """What `audit URL` finds."""
        return self._found(self.drafting, "--tokens", str(tokens), *ASKED, *self.waves, *options)

    def with_draft(self, tokens: int, *options: str) -> Any:
        """What `audit URL --draft` finds."""
        return self.by_laws(tokens, "--draft", self.draft, *options)

    def _found(self, *words: str) -> dict[str, Any]:
        """Tokens that were read, after how many a bias was seen (None: none was), e-values; or "no verdict", and why."""
        begun, before = time.monotonic(), self._counts()
        more = ("--model", "tiny", "--prompts", str(self.folder / "prompts.txt"), "--timeout", "300")
        with tempfile.TemporaryDirectory() as own:
            status, found, said = audited(words[0], Path(own), *words[1:], *more)
        about = {"seconds": round(time.monotonic() - begun)}
        about |= {f"{what} tokens": count - before.get(what, 0) for what, count in self._counts().items()}
        if status not in (0, 1) or not found:
            why = found.get("reason") or said.strip()[-600:]
            return {"no verdict": f"exit {status}: {why}"} | about
        if (found["status"] == "failed") != (status == 1):
            return {"no verdict": f"exit {status}, but the JSON says otherwise: {said.strip()[-600:]}"} | about
        names = ("tokens", "decided_at", "log_largest", "log_e_value", "bound", "unreadable")
        return {name: found[name] for name in names if name in found} | about

    def _counts(self) -> dict[str, int]:
        """Tokens drafted and accepted so far, by the drafting server's own count."""
        said = httpx.get(f"{self.drafting}/metrics", timeout=60, trust_env=False).text
        return {what: round(float(count)) for what, count in COUNTED.findall(said)}


@contextmanager
def pair_of_servers(drafts: str, both: bool = True) -> Iterator[Pair]:
    """both: the plain one, too; else its address is empty."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target, draft = write(folder / "models")
        for each in ("drafting", "plain"):
            (folder / each).mkdir()
        prompts = [prompt * (3 if drafts == "ngram" else 1) for prompt in Model(target).prompts]
        (folder / "prompts.txt").write_text("".join(f"{json.dumps(prompt)}\n" for prompt in prompts))
        (planted := folder / "planted.txt").write_text(RIGHT)
        config = speculative(drafts, draft) | DRAFTS[drafts]
        variables = {"PLUGIN_FOR_TESTS": plugin_for_tests(folder), "PLANTED_FOR_TESTS": str(planted)}
        with (
            vllm_server(target, None, folder / "plain") if both else nullcontext("") as plain,
            vllm_server(target, config, folder / "drafting", **variables) as drafting,
        ):
            named = f"ngram:{config['prompt_lookup_max']}" if drafts == "ngram" else str(draft)
            yield Pair(drafting, plain, folder, planted, named)
            said = (folder / "drafting" / "server.txt").read_text(errors="replace")
            print(*(line for line in said.splitlines() if "planted: " in line or "Traceback" in line), sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--tokens", type=int, default=50_000)
    parser.add_argument("--drafts", choices=list(DRAFTS), default="probabilistic")
    parser.add_argument(
        "--right", type=int, default=0, help="audits of the right servers, of each kind, in the place of errors"
    )
    parser.add_argument("--concurrency", default="8,32,4", help="Of audit URL, as --lengths.")
    parser.add_argument("--lengths", default="16,32")
    parser.add_argument("--at-once", type=int, default=10, help="Audits of right servers that are run together.")
    parser.add_argument("--columns", default="servers,URL,draft", help="Some of these.")
    parser.add_argument("--minutes", type=float, default=1e9, help="after which no audit is begun")
    parser.add_argument("errors", nargs="*")
    given = parser.parse_intermixed_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and end the servers, whose processes are not ours
    end = time.monotonic() + 60 * given.minutes
    columns = given.columns.split(",")
    errors = [error for error in (*ERRORS, UNMENDED) if given.drafts != "ngram" or error not in NONE_BY_NGRAMS]
    table = json.loads(given.file.read_text()) if given.file.exists() else {}
    wanted = [f"{RIGHT}, {given.drafts}, {i + 1}" for i in range(given.right)] or given.errors or errors
    wanted = [(row, column) for row in wanted for column in columns if column not in table.get(row, {})]
    if not wanted:
        return
    one_at_a_time = Lock()
    at_once = given.at_once if given.right else 1
    with pair_of_servers(given.drafts, "servers" in columns) as pair, ThreadPoolExecutor(at_once) as pool:
        pair.waves = ("--concurrency", given.concurrency, "--lengths", given.lengths)

        def audit(row: str, column: str) -> None:
            if time.monotonic() > end:
                return
            if not given.right:
                pair.planted.write_text(row)
            options, ask = {
                "servers": (BY_TEXTS, pair.by_texts),
                "URL": (BY_LAWS, pair.by_laws),
                "draft": (BY_LAWS, pair.with_draft),
            }[column]
            found = ask(given.tokens, *options[row in CUT])
            with one_at_a_time:
                table.setdefault(row, {})[column] = found
                given.file.write_text(json.dumps(table, indent=1))
            print(row, column, json.dumps(found), flush=True)

        for done in [pool.submit(audit, *each) for each in wanted]:
            done.result()


if __name__ == "__main__":
    main()
