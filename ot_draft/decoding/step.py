"""Results and times of one decoding step, on the CPU, for views, traces and tables."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from ..trees import DraftTree, TreeShape
from .drafting import Drafting


@dataclass(frozen=True)
class Seconds:
    """Wall-clock time of the parts of one step, for the whole batch.

    draft: the draft model, its probabilities and draws. verify: the target and its probabilities. select: the path rule.
    cache: moving accepted rows of both caches, and appending to the texts.
    """

    draft: float = 0.0
    verify: float = 0.0
    select: float = 0.0
    cache: float = 0.0

    @property
    def total(self) -> float:
        """Time of the whole step."""
        return self.draft + self.verify + self.select + self.cache

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class Stopwatch:
    """Times of the parts of a step; on CUDA by events, without a device sync."""

    def __init__(self, device: torch.device) -> None:
        self.on_cuda = device.type == "cuda"
        self._parts: list[tuple[str, Any, Any]] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        begin = self._now()
        yield
        self._parts.append((name, begin, self._now()))

    def read(self) -> dict[str, float]:
        """Seconds by name since the last reading; on CUDA this waits for the device."""
        seconds: dict[str, float] = {}
        for name, begin, end in self._parts:
            if self.on_cuda:
                end.synchronize()
            lasted = begin.elapsed_time(end) / 1000 if self.on_cuda else end - begin
            seconds[name] = seconds.get(name, 0.0) + lasted
        self._parts.clear()
        return seconds

    def _now(self) -> Any:
        if not self.on_cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event


class DecodeSummary:
    """Totals of steps, over the sequences that were still active.

    Attributes
    ----------
    target_calls : int
        Forward passes of the target, one per step and active sequence; the prefill is not counted.
    tokens : int
        Tokens chosen; those after a stop token count.
    tried, accepted : list of int
        Numbers of steps by depth: those that drafted a token there and accepted all earlier ones, and those that accepted it, too.
    seconds : Seconds
        Time by part of a step.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all steps."""
        self.target_calls = self.tokens = 0
        self.tried, self.accepted = list[int](), list[int]()
        self.seconds = Seconds()

    def add(self, step: Step) -> None:
        """Add one step."""
        self.seconds += step.seconds
        for row, length in enumerate(step.length.tolist()):
            if not step.active[row]:
                continue
            self.target_calls += 1
            self.tokens += length + 1
            depth = max(step.shape(row).depths)
            while len(self.tried) < depth:
                self.tried.append(0)
                self.accepted.append(0)
            for level in range(min(length + 1, depth)):
                self.tried[level] += 1
                self.accepted[level] += level < length

    @property
    def acceptance_by_depth(self) -> list[float]:
        """Share of the drafts at each depth that were accepted, given that all earlier ones were; NaN where none were tried."""
        pairs = zip(self.accepted, self.tried, strict=True)
        return [accepted / tried if tried else float("nan") for accepted, tried in pairs]

    @property
    def tokens_per_target_call(self) -> float:
        """Block efficiency; NaN without steps."""
        return self.tokens / self.target_calls if self.target_calls else float("nan")

    def __str__(self) -> str:
        shares = " ".join(f"{share:.2f}" for share in self.acceptance_by_depth) or "nothing was drafted"
        parts = ", ".join(f"{each.name} {getattr(self.seconds, each.name):.2f}" for each in fields(self.seconds))
        return (
            f"{self.target_calls} target calls, {self.tokens} tokens: {self.tokens_per_target_call:.2f} tokens per target call\n"
            f"accepted by depth: {shares}\nseconds: {parts}"
        )


@dataclass(frozen=True)
class Step:
    """Drafts and result of one step, for a batch of B sequences, on the CPU.

    p and q may end after the last node of the largest tree.

    Attributes
    ----------
    number : int
        Number of the step, from 0 on.
    root : int64 tensor of shape (B,)
        Last token before the step.
    drafted, parents : int64 tensors of shape (B, N)
        Tokens of the tree, -1 if absent, and their parents.
    length : int64 tensor of shape (B,)
        Number of accepted draft tokens.
    nodes : int64 tensor of shape (B, L)
        Accepted nodes, -1 beyond.
    chosen : int64 tensor of shape (B, L + 1)
        Accepted tokens and the one after them, -1 beyond.
    emitted : int64 tensor of shape (B, L + 1)
        The same, cut at a stop token and at the maximum number of tokens, and empty for a sequence that had ended.
    active, finished : bool tensors of shape (B,)
        Sequences that had not ended when the step began, and those that have ended now.
    seconds : Seconds
        Time by part.
    p, q : float tensors of shape (B, N + 1, n) and (B, M, n), or None
        Distributions of the target at all nodes, and of the draft model at nodes 0 to M - 1, the last one with children, if recorded.
    drafting : Drafting
        How the trees were drafted and selected from.
    fixed_count : int64 tensor of shape (B, N + 1), or None
        Number of fixed tokens of each node, if the draft law does not determine it.
    without_law : int64 tensor of shape (B,)
        Number of nodes at which the draft model's logits give no distribution (NaN or inf); their children are uniform samples.
    """

    number: int
    root: Tensor
    drafted: Tensor
    length: Tensor
    nodes: Tensor
    chosen: Tensor
    emitted: Tensor
    active: Tensor
    finished: Tensor
    parents: Tensor
    seconds: Seconds
    p: Tensor | None = None
    q: Tensor | None = None
    drafting: Drafting = field(default_factory=Drafting.autoregressive)
    fixed_count: Tensor | None = None
    without_law: Tensor | None = None

    def shape(self, row: int) -> TreeShape:
        """Return the shape of one sequence's tree."""
        parents = self.parents[row].tolist()
        return TreeShape(tuple(parent for node, parent in enumerate(parents, 1) if parent < node))

    def tree(self, row: int) -> DraftTree:
        """Return one sequence's tree with distributions, of a step that recorded p and q."""
        assert self.p is not None and self.q is not None
        one, size = slice(row, row + 1), self.p.shape[1] - 1
        q, fixed = self.q[one, : size + 1], self.fixed_count
        return DraftTree(
            self.parents[one, :size].clamp(max=size),
            self.drafted[one, :size],
            self.p[one],
            q,
            self.drafting.tree.bounds.cut(size),
            self.drafting.tree.law,
            None if fixed is None else fixed[one, : q.shape[1]],
        )

    def tokens(self, row: int) -> list[int]:
        """Return the tokens that this step adds to one sequence."""
        return [token for token in self.emitted[row].tolist() if token >= 0]
