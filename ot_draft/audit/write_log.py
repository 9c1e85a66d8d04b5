"""Writing a log for `ot-draft audit LOG`, from a decoding loop or from an engine; the tokens of a decoding step with their laws."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..arrays import Array
from ..errors import CannotAudit
from .rows import dense_row, whole_number


class LogWriter:
    """A .jsonl log, one line a token, each law by its heaviest 64 tokens. FileExistsError where the file is there already."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("x", encoding="utf-8")
        self.tokens = 0

    def add(self, token: int, law: Array, *, draft_law: Array | None = None, **known: Any) -> None:
        """One emitted token and its whole law (n,); draft_law (n,); known: request, position, batch, place as in `Audit.add`.

        CannotAudit where the law is none.
        """
        where = f"token {self.tokens}"
        ids, mass, rest = dense_row(law, where).cut()
        if whole_number(token, "token", where) >= len(law):
            raise CannotAudit(f"{where}: {token} is not one of the {len(law)} tokens of its law")
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


def emitted_with_laws(step: Any, row: int) -> Iterator[tuple[int, Array, Array | None]]:
    """Token, target's law (n,) and draft model's law (n,) for every token that a step added to one text.

    The law of a token is that at the node it follows: the root, or the accepted draft before it. The draft model's law is None
    behind the last drafted token. No place in the step is given: with a rule that decides on whole paths, a token that is known to
    be the third of its step does not follow the target's law, though the text does. CannotAudit for a step without laws.
    """
    if step.p is None or step.q is None:
        raise CannotAudit(f"step {step.number} has no laws: decode with DecodeOptions(laws=True)")
    p, q = step.p[row].double().cpu().numpy(), step.q[row].double().cpu().numpy()
    nodes = [0, *step.nodes[row].tolist()]
    for token, node in zip(step.tokens(row), nodes, strict=False):
        drafted = q[node] if node < len(q) and abs(q[node].sum() - 1) < 1e-3 else None
        yield token, p[node], drafted
