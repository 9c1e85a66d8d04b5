"""The engine that an adapter sits in: is it the one that the adapter was written against, and the log that is written inside it.

`OT_DRAFT_AUDIT_LOG=FOLDER` switches the log for `ot-draft audit LOG` on wherever a plugin's rule is. The laws are read where the rule
reads them, so that the rule, its random numbers and the engine's drafts are tested; whether the engine's logits are those of the model
is for `ot-draft audit URL --reference`. Laws are copied to the host and written: the engine waits for that.
"""

import inspect
import os
from collections.abc import Callable, Mapping
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
LOGGED_TOKENS = 1_000_000  # tokens of a process; with 64 listed ones each a few gigabytes


def check_version(known: Mapping[str, tuple[str, ...]], variable: str) -> str:
    """The name of the distribution that is installed, of those known by name and versions; raises UnsupportedHost for another version.

    A build's local part (0.33.0+cu130) does not matter. variable: the environment variable that switches the adapter on.
    """
    wanted = " or ".join(f"{package} {' and '.join(versions)}" for package, versions in known.items())
    for package, versions in known.items():
        try:
            found = version(package)
        except PackageNotFoundError:
            continue
        if found.split("+")[0] in versions:
            return package
        raise UnsupportedHost(
            f"{package} {found} is installed; this adapter knows the sampler of {wanted} only: run "
            f" pip install {package}=={versions[-1]}, or unset {variable} to run {package}'s own sampler"
        )
    first = next(iter(known))
    raise MissingPackage(first, first)


def check_choice(name: str, known: tuple[str, ...], variable: str) -> str:
    """The name of a rule, as the environment variable gives it."""
    if name not in known:
        raise NotLossless(f"{variable}={name}: the lossless rules for this host are {', '.join(known)}")
    return name


def check_parameters(module: ModuleType, name: str, ours: Callable[..., Any], options: tuple[str, ...] = ()) -> None:
    """Raise UnsupportedHost unless the parameters of the module's function are the first ones of ours, by name and in order.

    options: parameters of ours that the host does not give. Our own function in its place is fine: hosts load plugins once
    in every process, some of them twice.
    """
    host = getattr(module, name, None)
    if isinstance(host, partial) and host.func is ours:
        return
    where = f"{module.__name__}.{name}"
    if host is None:
        raise UnsupportedHost(f"{where} is not there on this platform: the host has no sampling here to replace")
    theirs = list(inspect.signature(host).parameters)
    mine = [parameter for parameter in inspect.signature(ours).parameters if parameter not in options]
    if theirs != mine[: len(theirs)]:
        raise UnsupportedHost(f"{where} takes ({', '.join(theirs)}), where the adapter takes ({', '.join(mine)})")


class StepLog:
    """FOLDER/HOST-PROCESS.jsonl, made with its first token. A step of the engine is a batch, what it adds to a text is a request."""

    def __init__(self, folder: Path, host: str) -> None:
        self._folder, self._host, self._steps = folder, host, 0
        self._writer: LogWriter | None = None

    def add(self, rows: Array, places: Array, tokens: Array, p: Array, q: Array | None) -> None:
        """One step's M tokens. rows, places: the text in the batch, and how many tokens the step put into it before: int (M,).

        tokens: int (M,). p: (M, n), the target's law of each. q: (M, n), the draft model's, zeros where it has none; or None.
        """
        writer = self._writer = self._writer or self._opened()
        if writer.tokens >= LOGGED_TOKENS:
            return
        self._steps += 1
        laws = p.double().cpu().numpy()
        drafted = [None] * len(laws) if q is None else [law if law.any() else None for law in q.double().cpu().numpy()]
        given = (rows.tolist(), places.tolist(), tokens.tolist(), laws, drafted)
        for row, offset, token, of_target, of_draft in zip(*given, strict=True):
            where = {"request": f"{self._steps}.{row}", "position": offset, "step_offset": offset, "batch": self._steps}
            writer.add(token, of_target, draft_probs=of_draft, **where)
        writer.flush()

    def add_padded(self, emitted: Array, p: Array, q: Array | None) -> None:
        """The same for B texts in rows: int (B, S), -1 beyond; (B, S, n); (B, S or S - 1, n), where the last has no draft, or None."""
        rows, places = (emitted >= 0).nonzero(as_tuple=True)
        if q is not None:
            missing = emitted.shape[1] - q.shape[1]
            q = namespace(q).nn.functional.pad(q, (0, 0, 0, missing))[rows, places]
        self.add(rows, places, emitted[rows, places], p[rows, places], q)

    def close(self) -> None:
        """End the file, if there is one. An engine never does; what it added is in the file after every step."""
        if self._writer is not None:
            self._writer.close()

    def _opened(self) -> LogWriter:
        """A file that is not there yet: processes have the numbers of earlier ones again."""
        for number in count():
            path = self._folder / f"{self._host}-{os.getpid()}{f'-{number}' if number else ''}.jsonl"
            if not path.exists():
                break
        return LogWriter(path)


def step_log(host: str) -> StepLog | None:
    """The log that OT_DRAFT_AUDIT_LOG asks for, if it does; UnsupportedHost where the folder cannot be written to."""
    name = os.environ.get(LOG_VARIABLE)
    if not name:
        return None
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnsupportedHost(f"{LOG_VARIABLE}={name}: {error}: name a folder, or unset it") from error
    if not os.access(folder, os.W_OK):
        raise UnsupportedHost(f"{LOG_VARIABLE}={name} cannot be written to: name another folder, or unset it")
    return StepLog(folder, host)
