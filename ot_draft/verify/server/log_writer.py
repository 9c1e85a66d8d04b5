"""Writers of audit logs: `LogWriter`, and the tokens of a decoding step with their distributions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import Array
from ...errors import CannotAudit
from .records import TOP, Token


class LogWriter(AbstractContextManager["LogWriter"]):
    """Writer of a `.jsonl` log, one line per token, with the 64 most probable tokens of each distribution.

    Parameters
    ----------
    path : Path
        File to create.

    Raises
    ------
    FileExistsError
        If the file exists.

    See Also
    --------
    read_log : Reads the log.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from ot_draft.verify.server import LogWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with LogWriter(Path(folder, "log.jsonl")) as log:
    ...         log.add(1, np.array([0.5, 0.25, 0.25]), request="first", position=0)
    ...     print(Path(folder, "log.jsonl").read_text().strip())
    {"token": 1, "ids": [0, 1, 2], "probabilities": [0.5, 0.25, 0.25], "own": 0.25, "request": "first", "position": 0, "whole": true}
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("x", encoding="utf-8")
        self.tokens = 0

    def add(self, token: int, target_probs: Array, *, draft_probs: Array | None = None, **known: Any) -> None:
        """Write one emitted token with its distribution.

        Parameters
        ----------
        token : int
            Id of the emitted token.
        target_probs : array of shape (n,)
            Target distribution.
        draft_probs : array of shape (n,), optional
            Distribution of the draft model.
        **known : object
            `request`, `position`, `batch` and `step_offset` as in `Token.of_law`. They are written as given, as JSON.

        Raises
        ------
        CannotAudit
            If a distribution is not a probability vector, or `token` is not an id below n.
        """
        checked = Token.of_law(token, target_probs, draft_probs=draft_probs)
        p = np.asarray(target_probs, dtype=np.float64)
        possible = np.flatnonzero(p)
        if len(possible) > TOP:  # also improbable ones: a list that is shorter than others is not tested
            possible = np.sort(np.argpartition(-p, TOP - 1)[:TOP])
        ids = possible[np.argsort(-p[possible], kind="stable")]
        mass = p[ids] / p.sum()
        line = {"token": checked.token, "ids": ids.tolist(), "probabilities": mass.tolist(), "own": checked.own}
        line |= known
        if len(ids) == np.count_nonzero(p):
            line["whole"] = True
        if draft_probs is not None:
            line["draft_probs"] = np.asarray(draft_probs, dtype=np.float64)[ids].tolist()
        self._file.write(json.dumps(line) + "\n")
        self.tokens += 1

    def flush(self) -> None:
        """Flush the file."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __exit__(self, *raised: object) -> None:
        self.close()


def emitted_with_laws(step: Any, row: int) -> Iterator[tuple[int, Array, Array | None]]:
    """Yield every token that a step added to one sequence, with its target and draft distributions.

    Parameters
    ----------
    step : Step
        Step of `ot_draft.decoding`, decoded with `DecodeOptions(laws=True)`.
    row : int
        Index of the sequence in the batch.

    Yields
    ------
    token : int
        Id of the emitted token.
    target_probs : float64 array of shape (n,)
        Target distribution at the node that the token follows: the root, or the accepted draft token before it.
    draft_probs : float64 array of shape (n,) or None
        Distribution of the draft model at this node. None if the step has none there, for example after the last draft token.

    Raises
    ------
    CannotAudit
        If the step has no distributions. Raised during the iteration.

    See Also
    --------
    LogWriter : Writes the tokens to a log.
    Token.of_law : Token of an `Audit`.

    Notes
    -----
    The index of the token in its step is not given. Do not pass it to an audit as `step_offset` if the rule decides on whole
    paths: given its index, a token then does not follow the target distribution, although the sequence does.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import torch
    >>> from ot_draft.verify.server import emitted_with_laws
    >>> step = SimpleNamespace(  # the attributes of a Step that are read; its one draft token is accepted
    ...     p=torch.tensor([[[0.5, 0.5], [0.25, 0.75]]]), q=torch.tensor([[[0.75, 0.25]]]),
    ...     nodes=torch.tensor([[1]]), tokens=lambda row: [0, 1],
    ... )
    >>> for token, target_probs, draft_probs in emitted_with_laws(step, 0):
    ...     print(token, target_probs, draft_probs)
    0 [0.5 0.5] [0.75 0.25]
    1 [0.25 0.75] None
    """
    if step.p is None or step.q is None:
        raise CannotAudit(f"step {step.number} has no distributions. Decode with DecodeOptions(laws=True).")
    p, q = step.p[row].double().cpu().numpy(), step.q[row].double().cpu().numpy()
    nodes = [0, *step.nodes[row].tolist()]
    for token, node in zip(step.tokens(row), nodes, strict=False):
        drafted = q[node] if node < len(q) and abs(q[node].sum() - 1) < 1e-3 else None
        yield token, p[node], drafted
