"""`ot-draft decode --audit FILE`: the emitted tokens are tested while they come, and logged with their laws."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...audit import Audit, LogWriter, Verdict, emitted_with_laws
from ...decoding import Step


class Audited:
    """Passes steps on, and takes their tokens down."""

    def __init__(self, path: Path) -> None:
        self._audit, self._log = Audit(), LogWriter(path)

    def __call__(self, steps: Iterator[Step], prompt: int) -> Iterator[Step]:
        for step in steps:
            for token, law, draft_law in emitted_with_laws(step, 0):
                self._audit.add(token, law, request=prompt, draft_law=draft_law)
                self._log.add(token, law, request=prompt, draft_law=draft_law)
            yield step

    def close(self) -> Verdict:
        """End the log; what can be said."""
        self._log.close()
        return self._audit.verdict()
