"""A rule under watch: what it was called with, and whether what it raised is a refusal in words or a crash."""

from __future__ import annotations

import dis
import sys
from dataclasses import dataclass, field
from math import ceil, log10, prod
from types import TracebackType
from typing import Any

from ...arrays import Array, is_exact, is_torch, to_host
from ...errors import DraftSelectionError, InvalidArgument
from ...selection import Selection, checked

SHAPES = (
    "p and q are (..., n), drafts (..., k), with any axes before the last, or none: go over the positions,"
    " drafts[..., i : i + 1], and end with  return ot.Selection(accept, residual)"
)
REMEDIES = {"ZeroDivisionError": "a mass is 0: divide and normalise of ot_draft.arrays say what 0/0 is"}
OTHERS = {"numpy", "torch", "scipy"}


class Refusal(Exception):
    """The rule said in words, by an error of its own, that it does not take such a problem."""


class Crash(Exception):
    """The rule raised an error that is none of its own words, or gave what is no selection."""


@dataclass
class Range:
    """With what arrays of one kind a rule was called: largest n for every k, requests and axes of a batch, least mass, calls."""

    n_by_k: dict[int, int] = field(default_factory=dict)
    rows: int = 1
    axes: int = 0
    least: float = 1.0
    calls: int = 0

    def add(self, other: Range) -> None:
        """Widen it by another one."""
        for k, n in other.n_by_k.items():
            self.n_by_k[k] = max(n, self.n_by_k.get(k, 0))
        self.rows, self.axes = max(self.rows, other.rows), max(self.axes, other.axes)
        self.least, self.calls = min(self.least, other.least), self.calls + other.calls

    def __str__(self) -> str:
        n, k = max(self.n_by_k.values()), max(self.n_by_k)
        wide, long = max(k for k in self.n_by_k if self.n_by_k[k] == n), self.n_by_k[k]
        sizes = f"n <= {n}, k <= {k}" if wide == k else f"n <= {n} (k <= {wide}), k <= {k} (n <= {long})"
        batches = f"batches up to {self.rows} in {self.axes} ax{'i' if self.axes == 1 else 'e'}s"
        return f"{sizes}, masses down to 1e{ceil(log10(self.least))}, {batches}, {self.calls:,} calls"


class Watched:
    """The rule itself, in every other respect."""

    def __init__(self, rule: Any, ranges: dict[str, Range]) -> None:
        self.rule, self.ranges = rule, ranges

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rule, name)

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        """What the rule decides. Raises Refusal or Crash for what it raises."""
        before = self._range(p, q, drafts)  # before the call: the rule may write into its arguments
        try:
            given = self.rule(p, q, drafts)
        except Exception as error:
            if _is_refusal(error):
                raise Refusal(" ".join(str(error).split())) from error
            raise _crash(error) from error
        try:
            selection = checked(given, p, drafts)
        except InvalidArgument as error:
            raise _crash(error) from error
        kind = "Fractions" if is_exact(p) else f"torch {p.dtype}".replace("torch.", "") if is_torch(p) else str(p.dtype)
        self.ranges.setdefault(kind, Range()).add(before)
        return selection

    def _range(self, p: Array, q: Array, drafts: Array) -> Range:
        axes = tuple(p.shape[:-1])
        least = 1.0
        if not (is_torch(p) and p.device.type == "meta"):
            least = min([float(x[x > 0].min()) for x in map(to_host, (p, q)) if (x > 0).any()], default=1.0)
        size = {int(drafts.shape[-1]): int(p.shape[-1])}
        return Range(size, prod(axes), sum(axis > 1 for axis in axes), max(least, 5e-324), 1)


def _crash(error: Exception) -> Crash:
    text, name = " ".join(str(error).split()), type(error).__name__
    return Crash(f"raised {name}: {text}. Remedy: {REMEDIES.get(name, SHAPES)}")


def _is_refusal(error: Exception) -> bool:
    """Whether an error is raised on purpose: one of ot_draft's, or a ValueError, with words, of a `raise` of the user's."""
    if isinstance(error, DraftSelectionError):  # what a rule raises is anybody's
        return True
    if not isinstance(error, ValueError | NotImplementedError) or not str(error):  # as above
        return False
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    module = str(last.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
    raised = last.tb_frame.f_code.co_code[last.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return raised and module not in OTHERS | set(sys.stdlib_module_names) - {"__main__"}
