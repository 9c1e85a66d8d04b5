"""One family of errors: what was given, in which row, and what to do about it."""

from __future__ import annotations


class DraftSelectionError(Exception):
    """Base of every error that ot_draft raises on purpose."""


class InvalidDistribution(DraftSelectionError, ValueError):
    """p or q is no probability vector, or the two do not belong together."""


class InvalidDrafts(DraftSelectionError, ValueError):
    """The drafts (token ids, their number, or the law that they follow) do not fit the problem."""


class SolverFailed(DraftSelectionError, RuntimeError):
    """A solver ended without a solution that its own certificate confirms."""


class CannotDecode(DraftSelectionError, ValueError):
    """Models, prompts or options of decoding that do not fit together."""


class MissingPackage(DraftSelectionError, ImportError):
    """A package of an optional extra is needed and not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: run  pip install 'ot_draft[{extra}]'")
