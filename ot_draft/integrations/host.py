"""Checks of the engine that an adapter runs in, and the log that the adapter writes.

`OT_DRAFT_AUDIT_LOG=FOLDER` activates a log for `ot-draft audit LOG` in every plugin. The distributions are those that the rule reads, so
that the rule, its random numbers and the engine's draft tokens are tested; `ot-draft audit URL --reference` tests whether the engine's
logits are those of the model. The engine waits until the distributions are copied to the host and written.
"""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from ..arrays import Array, namespace
from ..errors import MissingPackage, NotLossless, UnsupportedHost
from ..verify.server import LogWriter

LOG_VARIABLE = "OT_DRAFT_AUDIT_LOG"


def installed(packages: Iterable[str]) -> tuple[str, str] | None:
    """Return name and version of the first installed package, None without one."""
    for package in packages:
        try:
            return package, version(package)
        except PackageNotFoundError:
            continue
    return None


def check_version(known: Mapping[str, tuple[str, ...]], variable: str) -> str:
    """Return the name of the installed package among those known by name and versions. Raises UnsupportedHost for another version.

    The local part of a version (0.33.0+cu130) is ignored. variable: the environment variable that activates the adapter.
    """
    wanted = " or ".join(f"{package} {' and '.join(versions)}" for package, versions in known.items())
    found = installed(known)
    if found is None:
        first = next(iter(known))
        raise MissingPackage(first, first)
    package, release = found
    if release.split("+")[0] not in known[package]:
        raise UnsupportedHost(
            f"{package} must be {wanted}, got {release}. Run  pip install {package}=={known[package][-1]}  or unset {variable} to use "
            f"{package}'s own sampler."
        )
    return package


def check_choice(name: str, known: tuple[str, ...], variable: str) -> str:
    """Return the name of a rule, as the environment variable has it. Raises NotLossless for another one."""
    if name not in known:
        raise NotLossless(
            f"{variable} must be a lossless rule for this engine, one of {', '.join(known)}, got {name}. Correct it."
        )
    return name


def check_parameters(module: ModuleType, name: str, ours: Callable[..., Any], options: tuple[str, ...] = ()) -> None:
    """Raise UnsupportedHost unless the parameters of the module's function are the first ones of `ours`, by name and in order.

    options: parameters of `ours` that the engine does not pass. `ours` itself is accepted: some engines load plugins twice.
    """
    host = getattr(module, name, None)
    if isinstance(host, partial) and host.func is ours:
        return
    where = f"{module.__name__}.{name}"
    if host is None:
        raise UnsupportedHost(f"{where} must exist, but the engine has no such function on this platform.")
    theirs = list(inspect.signature(host).parameters)
    mine = [parameter for parameter in inspect.signature(ours).parameters if parameter not in options]
    if theirs != mine[: len(theirs)]:
        raise UnsupportedHost(f"{where} takes ({', '.join(theirs)}), but the adapter takes ({', '.join(mine)})")


class StepLog:
    """Log FOLDER/ENGINE-PROCESS.jsonl, created with its first token.

    A step of the engine is a batch; its tokens for one sequence are a request. max_tokens: of a process; with 64 listed tokens each, a
    million are a few gigabytes.
    """

    def __init__(self, folder: Path, host: str, max_tokens: int = 1_000_000) -> None:
        self._folder, self._host, self._steps, self._max_tokens = folder, host, 0, max_tokens
        self._writer: LogWriter | None = None

    def add(self, rows: Array, offsets: Array, tokens: Array, p: Array, q: Array | None) -> None:
        """Write the M tokens of a step.

        Parameters
        ----------
        rows, offsets : int arrays of shape (M,)
            Row of each token in the batch, and its number of tokens before in this step.
        tokens : int array of shape (M,)
            The tokens.
        p : array of shape (M, n)
            Target distributions.
        q : array of shape (M, n), optional
            Draft distributions, zeros without a draft token.
        """
        writer = self._writer = self._writer or self._opened()
        if writer.tokens >= self._max_tokens:
            return
        self._steps += 1
        laws = p.double().cpu().numpy()
        drafted = [None] * len(laws) if q is None else [law if law.any() else None for law in q.double().cpu().numpy()]
        given = (rows.tolist(), offsets.tolist(), tokens.tolist(), laws, drafted)
        for row, offset, token, of_target, of_draft in zip(*given, strict=True):
            where = {"request": f"{self._steps}.{row}", "position": offset, "step_offset": offset, "batch": self._steps}
            writer.add(token, of_target, draft_probs=of_draft, **where)
        writer.flush()

    def add_padded(self, emitted: Array, p: Array, q: Array | None) -> None:
        """Write the tokens of B sequences, int (B, S), -1 beyond. p: (B, S, n); q: (B, S or S - 1, n) or None."""
        rows, offsets = (emitted >= 0).nonzero(as_tuple=True)
        if q is not None:
            missing = emitted.shape[1] - q.shape[1]
            q = namespace(q).nn.functional.pad(q, (0, 0, 0, missing))[rows, offsets]
        self.add(rows, offsets, emitted[rows, offsets], p[rows, offsets], q)

    def close(self) -> None:
        """Close the file, if there is one. Engines need not: every step is flushed."""
        if self._writer is not None:
            self._writer.close()

    def _opened(self) -> LogWriter:
        """Open a file that does not exist: process numbers are used again."""
        for number in count():
            path = self._folder / f"{self._host}-{os.getpid()}{f'-{number}' if number else ''}.jsonl"
            if not path.exists():
                break
        return LogWriter(path)


def step_log(host: str) -> StepLog | None:
    """Return the log that OT_DRAFT_AUDIT_LOG activates, if any. Raises UnsupportedHost if the folder is not writable."""
    name = os.environ.get(LOG_VARIABLE)
    if not name:
        return None
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnsupportedHost(
            f"{LOG_VARIABLE} must be a folder, got {name} ({error}). Set another one, or unset it."
        ) from error
    if not os.access(folder, os.W_OK):
        raise UnsupportedHost(f"{LOG_VARIABLE} must be a writable folder, got {name}. Set another one, or unset it.")
    return StepLog(folder, host)
