"""Writing a log for `ot-draft audit LOG`, from a decoding loop or from an engine."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..arrays import Array
from .rows import dense_row


class LogWriter:
    """A .jsonl log, one line a token, each law by its heaviest 64 tokens. FileExistsError where the file is there already."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("x", encoding="utf-8")
        self.tokens = 0

    def add(self, token: int, law: Array, *, draft_law: Array | None = None, **known: Any) -> None:
        """One emitted token and its whole law (n,); draft_law (n,); known: request, position, batch, place as in `Audit.add`.

        CannotAudit where the law is none.
        """
        ids, mass, rest = dense_row(law, f"token {self.tokens}").cut()
        line = {"token": int(token), "ids": ids.tolist(), "probabilities": mass.tolist(), "own": float(law[token])}
        line |= known
        if rest == 0:
            line["whole"] = True
        if draft_law is not None:
            line["draft_law"] = np.asarray(draft_law, dtype=np.float64)[ids].tolist()
        self._file.write(json.dumps(line) + "\n")
        self.tokens += 1

    def flush(self) -> None:
        """Hand what was added to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """End the file."""
        self._file.close()

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
