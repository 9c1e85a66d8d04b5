"""An engine's adapter, a module of one file, in a process of its own: what ends it or hangs in it is a crash there, and no verdict here.

An adapter has
    start(target, draft, **options) -> dict of facts: the folders of the tiny pair (save_pretrained's), None for no drafts; options by name,
        texts, as `--set name=value` gives them. The facts are printed: versions, and which sampler runs.
    complete(requests) -> one list of answers a request, n of them: requests that are all sent together, answers
        {"tokens": [...], to the one that ended the text, "logprobs": [...] where the request has "logprobs", "pieces": number of pieces
        that it came in where it has "stream"}. Any list for an aborted request ("abort").
    stop() -> None.
It may have
    LACKS: settings that the engine has not, with the reason; requests with them are never sent.
    REPORTS: "raw" or "processed", where it declares which log-probabilities it reports; else either will do.
    REQUESTS: of the first kind; the others are in proportion.  PRESENCE_OF_PROMPT: see `Kind.masses`.
    counters() -> dict: printed; "accepted drafts" and "cached tokens" (of prompts) are compared with 0.
    step(p, q, k, generator) -> drafts, accepted, token: the engine's own drawing and verifying, for `otd.check_step(..., batched=True)`.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from ...errors import DraftSelectionError, MissingPackage
from ...optional import entry_points_of
from ..outcome import Status

HERE = "ot_draft.verify.engine.engines"
ENGINES: dict[str, tuple[str, dict[str, str]]] = {
    "vllm": (f"{HERE}.vllm", {}),
    "transformers": (f"{HERE}.transformers", {"loop": "assisted"}),
    "multi-draft": (f"{HERE}.transformers", {"loop": "multi-draft"}),
}  # by name: the adapter, and options of its `start`
SHOWN = 15  # last lines of what an engine said that a crash shows


class Crashed(DraftSelectionError):
    """The engine raised, ended or did not answer."""


def adapter(name: str) -> ModuleType:
    """The module of an engine that is known by name, of a dotted name or of a file."""
    if name.endswith(".py"):
        spec = importlib.util.spec_from_file_location(Path(name).stem, name)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(spec.name, module)
        spec.loader.exec_module(module)
        return module
    known = engines()
    return importlib.import_module(known[name][0] if name in known else name)


def engines() -> dict[str, tuple[str, dict[str, str]]]:
    """Adapters and options of their `start` by engine: ours, and those that installed packages register."""
    return ENGINES | {entry.name: (entry.value, {}) for entry in entry_points_of("ot_draft.engines")}


class EngineProcess:
    """The adapter's functions, called in its process. seconds: the longest that one may take. log: the file for what it prints."""

    def __init__(self, name: str, log: Path, seconds: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._log, self._seconds, self._busy = log, seconds, False
        self._process = context.Process(target=_serve, args=(theirs, name, str(log)))
        self._process.start()
        theirs.close()

    def call(self, function: str, *given: Any, **options: Any) -> Any:
        """The function's result. Crashed, with the engine's last words, if nothing comes."""
        until = time.monotonic() + self._seconds
        self._busy = True
        try:
            self._pipe.send((function, given, options))
            while not self._pipe.poll(1.0):
                if time.monotonic() > until:
                    raise Crashed(f"{function} has not answered after {self._seconds:g} seconds{self._last_words()}")
                if not self._process.is_alive() and not self._pipe.poll():
                    raise EOFError
            good, answer = self._pipe.recv()
            self._busy = False
        except (EOFError, OSError) as error:
            self._process.join(10)
            raise Crashed(
                f"the engine's process ended with {self._process.exitcode} in {function}{self._last_words()}"
            ) from error
        if not good:
            raise Crashed(f"{function}: {answer}")
        return answer

    def close(self) -> None:
        """Stop the engine if it is not in the middle of a call, and end all its processes whatever it says."""
        if self._process.is_alive() and not self._busy:
            with suppress(Crashed):
                self._seconds = min(self._seconds, 60.0)
                self.call("stop")
            self._pipe.close()
            self._process.join(20)
        assert self._process.pid is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()  # the group is not there before the process has begun
        self._process.join()

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-SHOWN:] if self._log.exists() else []
        return ":\n" + "\n".join(lines) if lines else ""


def _serve(pipe: Any, name: str, log: str) -> None:
    """In the engine's process, which has a group of its own: call by call, until the pipe is closed."""
    os.setpgid(0, 0)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with Path(log).open("ab", buffering=0) as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    module: ModuleType | None = None
    while True:
        try:
            function, given, options = pipe.recv()
        except EOFError:
            return
        try:
            module = module or adapter(name)
            answer = (True, _call(module, function, given, options))
        except Exception as error:  # whatever an engine raises is what is told of it
            traceback.print_exc()
            answer = (False, f"{type(error).__name__}: {error}")
        pipe.send(answer)


def _end_with_parent() -> None:
    """When whoever asked is gone, end the group, whatever the engine is doing: nobody reads its answer any more."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.killpg(0, signal.SIGKILL)


def _call(module: ModuleType, function: str, given: Any, options: Any) -> Any:
    if function == "describe":
        return {
            "lacks": getattr(module, "LACKS", {}),
            "requests": getattr(module, "REQUESTS", 0),
            "reports": getattr(module, "REPORTS", ""),
            "presence of prompt": getattr(module, "PRESENCE_OF_PROMPT", False),
            "functions": [each for each in ("counters", "step") if hasattr(module, each)],
        }
    if function == "check_step":
        from ..sampler import check_step
        from ..sampler.sampler_report import line

        try:
            report = check_step(module.step, k=1, batched=True, **options)
        except MissingPackage as error:
            return None, 0, str(error), None
        return (
            None if report.status == Status.UNDECIDED else report.passed,
            report.tried["rows"],
            "; ".join(map(line, report.failures))
            or report["output_distribution"].evidence.reason * (not report.passed),
            max(report.detectable_bias.values(), default=None),
        )
    return getattr(module, function)(*given, **options)
