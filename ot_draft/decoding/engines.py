"""The engines of one run, one a drafting, on the same texts and caches: the chooser says before every step which of them works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any
from warnings import warn

from ..errors import CannotDecode
from .draft_plan import Drafting, Dynamic
from .dynamic.engine import DynamicEngine
from .engine import Engine, Memory
from .graphs import capture
from .plans.chooser import Chooser
from .step import Step

Part = Callable[[], Any]


class Engines:
    """Keeps the texts as lists of token ids, too, and what of them the draft model has read: nobody waits for the device twice."""

    def __init__(self, memory: Memory, chooser: Chooser, prompts: Sequence[Sequence[int]], graphs: bool) -> None:
        self.memory, self._chooser, self._graphs = memory, chooser, graphs
        self._texts = [list(prompt) for prompt in prompts]
        # Graphs hold passes of one width. Elsewhere a pass over the slots that are in use is cheaper.
        self._narrows = memory.texts.tokens.device.type == "cpu"
        self._read = [len(prompt) - 1 for prompt in prompts]
        self._known: dict[Drafting, tuple[Engine, tuple[Part, ...]]] = {}

    def next(self) -> tuple[Engine, tuple[Part, ...]]:
        """The engine of the coming step, and its parts: propose, verify, select and keep."""
        drafting = self._chooser.choose(self._texts)
        if self._narrows:
            self.memory.narrow(max(map(len, self._texts)) + drafting.room)
        if drafting not in self._known:
            engine = engine_of(drafting, self.memory)
            whole = engine.propose, engine.verify, engine.select, engine.keep
            self._known[drafting] = engine, recorded(engine) if self._graphs and engine.recordable else whole
        engine, parts = self._known[drafting]
        # The last few tokens are read in every step; those before them may have come while the draft model was not asked.
        missing = (len(text) - 2 - read for text, read in zip(self._texts, self._read, strict=True))
        engine.behind = max(0, max(missing) - engine.always)
        if drafting.lookup is not None:
            engine.look_up(self._chooser.found(drafting.lookup, self._texts))
        return engine, parts

    def took(self, step: Step, seconds: float) -> None:
        """Note what a step did."""
        lengths, chosen, active = step.length.tolist(), step.chosen.tolist(), step.active.tolist()
        for row, text in enumerate(self._texts):
            root = len(text) - 1
            if active[row]:
                text.extend(chosen[row][: lengths[row] + 1])
            if step.drafting.asks_draft_model and self.memory.draft is not None:
                self._read[row] = self.memory.draft.read_by(root, len(text))
        self._chooser.learn(step, seconds)


@singledispatch
def engine_of(drafting: Drafting, memory: Memory) -> Engine:
    """The engine of a drafting."""
    return Engine(memory, drafting)


@engine_of.register
def _(drafting: Dynamic, memory: Memory) -> Engine:
    return DynamicEngine(memory, drafting)


def recorded(engine: Engine) -> tuple[Part, ...]:
    """Propose, verify, select and keep; as CUDA graphs on CUDA."""
    device = engine.texts.last.device
    propose, verify = capture(engine.propose, device), capture(engine.verify, device)
    # With nothing accepted and no text going on, keeping changes nothing: it may be repeated. Hence before select.
    active = engine.texts.active.clone()
    engine.texts.active.fill_(False)
    keep = capture(engine.keep, device)
    engine.texts.active.copy_(active)
    try:
        select = capture(engine.select, device)
    except CannotDecode as error:  # somebody's rule that looks at values
        warn(f"the path rule is not recorded, its kernels are launched one by one: {error}", stacklevel=2)
        select = engine.select
    if device.type != "cuda":
        return propose, verify, select, keep

    def propose_after_reading() -> None:
        engine.catch_up()  # a graph reads so many tokens, never more
        propose()

    return propose_after_reading, verify, select, keep
