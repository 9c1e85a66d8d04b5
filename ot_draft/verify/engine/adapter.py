"""Adapters of engines, one module each, in their own process: if an engine ends or hangs, its rows have the status CRASHED.

An adapter has

* `start(target, draft, **options)`: start the engine with the folders of the tiny pair (of `save_pretrained`); options are strings, from
  `--set name=value`. Return a dict of facts to print, such as versions and the sampler in use.
* `complete(requests)`: send all requests concurrently. Return a list of n completions for each: `{"tokens": [...]}` up to the token that
  ended it, with `"logprobs": [...]` if the request has "logprobs", and `"pieces"`, the number of pieces, if it has "stream". Return any
  list for an aborted request ("abort").
* `stop()`.

It may have

* `LACKS`: settings that the engine lacks, with the reason; requests with them are not sent.
* `REPORTS`: "raw" or "processed", the log-probabilities that it reports; without it, either is accepted.
* `REQUESTS`: number of requests of the first kind; those of others are proportional.
* `PRESENCE_OF_PROMPT`: as in `Kind.masses`.
* `counters()`: a dict to print; "accepted drafts" and "cached tokens" (of prompts) are compared with 0.
* `step(p, q, k, generator)`: draft tokens, accepted ones and the token, by the engine's own sampling and verification, for
  `otd.check_step(..., batched=True)`.
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

REQUIRED = ("start", "complete", "stop")


class Crashed(DraftSelectionError):
    """The engine raised an error, ended or did not answer."""


def adapter(name: str) -> ModuleType:
    """Return the adapter of a known engine, of a dotted module name or of a file."""
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
    """Return adapters and options of their `start` by engine: the built-in ones, and those of installed packages."""
    transformers = "ot_draft.verify.engine.engines.transformers"
    ours: dict[str, tuple[str, dict[str, str]]] = {
        "vllm": ("ot_draft.verify.engine.engines.vllm", {}),
        "transformers": (transformers, {"loop": "assisted"}),
        "multi-draft": (transformers, {"loop": "multi-draft"}),
    }
    return ours | {entry.name: (entry.value, {}) for entry in entry_points_of("ot_draft.engines")}


class EngineProcess:
    """The functions of an adapter, called in its process. timeout_s: of one call; log: file for the output of the engine."""

    def __init__(self, name: str, log: Path, timeout_s: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._log, self._timeout_s, self._busy = log, timeout_s, False
        self._process = context.Process(target=_serve, args=(theirs, name, str(log)))
        self._process.start()
        theirs.close()

    def call(self, function: str, *given: Any, **options: Any) -> Any:
        """Return the function's result. Raises Crashed, with the engine's last output, without one."""
        until = time.monotonic() + self._timeout_s
        self._busy = True
        try:
            self._pipe.send((function, given, options))
            while not self._pipe.poll(1.0):
                if time.monotonic() > until:
                    raise Crashed(f"{function} did not return within {self._timeout_s:g} seconds{self._last_output()}")
                if not self._process.is_alive() and not self._pipe.poll():
                    raise EOFError
            good, answer = self._pipe.recv()
            self._busy = False
        except (EOFError, OSError) as error:
            self._process.join(10)
            raise Crashed(
                f"the engine's process ended with exit status {self._process.exitcode} in {function}{self._last_output()}"
            ) from error
        if not good:
            raise Crashed(f"{function}: {answer}")
        return answer

    def close(self) -> None:
        """Stop the engine unless a call is running, and end all its processes."""
        if self._process.is_alive() and not self._busy:
            with suppress(Crashed):
                self._timeout_s = min(self._timeout_s, 60.0)
                self.call("stop")
            self._pipe.close()
            self._process.join(20)
        assert self._process.pid is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()  # the group does not exist before the process has begun
        self._process.join()

    def _last_output(self, count: int = 15) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-count:] if self._log.exists() else []
        return ":\n" + "\n".join(lines) if lines else ""


def _serve(pipe: Any, name: str, log: str) -> None:
    """Run in the engine's process, which has its own group: answer calls until the pipe is closed."""
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
        except Exception as error:  # any error of an engine is reported
            traceback.print_exc()
            answer = (False, f"{type(error).__name__}: {error}")
        pipe.send(answer)


def _end_with_parent() -> None:
    """End the group when the parent process ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.killpg(0, signal.SIGKILL)


def _call(module: ModuleType, function: str, given: Any, options: Any) -> Any:
    if function == "load":
        return [each for each in REQUIRED if not hasattr(module, each)]
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
