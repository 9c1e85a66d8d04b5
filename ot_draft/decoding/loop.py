"""Speculative decoding: the loop."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import CannotDecode
from .cache import Texts
from .drafting import Chooser, Drafting, Policy, Run
from .engine import Engine, Memory
from .language_model import language_model
from .options import DecodeOptions, check_options, check_prompts
from .pair import Pair
from .step import Details, Seconds, Step, Stopwatch, details

AUTOREGRESSIVE = Drafting()


@torch.inference_mode()
def decode_steps(
    pair: Pair, prompts: Sequence[Sequence[int]], policy: Policy, options: DecodeOptions | None = None
) -> Iterator[Step]:
    """Continue B prompts of token ids, one target call a step, until every text has ended.

    policy: one `Drafting` for all steps, or what chooses one before each, such as `Auto`.
    Every text follows the target's law under `options.sampling`, whatever the draft model, if the path rules are lossless.
    """
    options = options or DecodeOptions()
    engines = begin(pair, prompts, policy, options)
    rows = range(len(prompts)) if options.rows is None else options.rows
    watch = Stopwatch(engines.memory.texts.last.device)
    active, number = torch.ones(len(prompts), dtype=torch.bool), 0
    while bool(active.any()):
        began = time.perf_counter()
        root = engines.memory.texts.last.clone()
        with watch("draft"):
            engine = engines.next()  # of the drafting that the policy chooses
        engine.draw(options.seed, rows, number)  # fresh at every step: a number that is used twice costs losslessness
        with watch("draft"):
            engine.propose()  # a tree of tokens behind every text
        with watch("verify"):
            engine.verify()  # the target's law at all their nodes, in one pass
        with watch("select"):
            engine.select()  # a path of each tree, and the token after it: together they follow the target
        with watch("cache"):
            engine.keep()  # what was accepted, in the texts and in both caches
        step = _record(engine, options, number, root, active, Seconds(**watch.read()))
        engines.took(step, time.perf_counter() - began)
        yield step
        active, number = ~step.finished, number + 1


@dataclass(frozen=True)
class Decoded:
    """Texts and the steps that made them. tokens: of every text, without its prompt."""

    tokens: list[list[int]]
    steps: list[Step]

    @property
    def seconds(self) -> Seconds:
        """Time of all steps, prefill not counted."""
        return sum((step.seconds for step in self.steps), Seconds())

    @property
    def block_efficiency(self) -> float:
        """Tokens chosen a target call, over all calls of texts that were going on; what a stop cuts off counts as chosen."""
        calls = sum(int(step.active.sum()) for step in self.steps)
        return sum(int((step.length + 1)[step.active].sum()) for step in self.steps) / calls


def decode(
    pair: Pair, prompts: Sequence[Sequence[int]], policy: Policy = AUTOREGRESSIVE, options: DecodeOptions | None = None
) -> Decoded:
    """All steps of `decode_steps`, and the texts."""
    steps = list(decode_steps(pair, prompts, policy, options))
    return Decoded([[token for step in steps for token in step.tokens(row)] for row in range(len(prompts))], steps)


def begin(pair: Pair, prompts: Sequence[Sequence[int]], policy: Policy, options: DecodeOptions) -> Engines:
    """The engines of a run, which have read the prompts; CannotDecode where these do not fit the models."""
    n = pair.n
    target = language_model(pair.target, n)
    draft = None if pair.draft is None else language_model(pair.draft, n)
    for model in (target, draft):
        if model is not None:
            model.check_reads_trees()
    check_options(options, len(prompts))
    limits = {"target": target.limit, "draft": draft.limit if draft is not None else (None, "")}
    longest = max((len(prompt) for prompt in prompts), default=0)
    room = min((limit for limit, _ in limits.values() if limit), default=None)
    room = None if room is None else room - longest - options.max_tokens
    chooser = policy.begin(Run(len(prompts), room, options.max_tokens, pair))
    depth = max(drafting.tree.length for drafting in chooser.menu)
    asked = any(drafting.tree.passes for drafting in chooser.menu)
    if draft is None and asked:
        raise CannotDecode("there is no draft model: give one, or draft by prompt lookup")
    for name, limit in limits.items():
        check_prompts(prompts, n, limit, name, options.max_tokens, depth)
    stop = pair.stop_tokens if options.stop is None else options.stop
    texts = Texts.after(prompts, stop, options.max_tokens, depth, target.device)
    used = draft if asked else None
    if used is not None:
        target = language_model(pair.target, n, used.reads)
    memory = Memory.of((target, used), prompts, chooser.menu, options.of_both, texts)
    return Engines(memory, chooser, prompts, options.graphs)


def prepare(pair: Pair, prompts: Sequence[Sequence[int]], policy: Policy, options: DecodeOptions) -> Engine:
    """The engine of a run's first step."""
    return begin(pair, prompts, policy, options).next()


class Engines:
    """The engines of one run, one a drafting, on the same texts and caches: the chooser says before every step which of them works.

    Keeps the texts as lists of token ids, too, and what of them the draft model has read: nobody waits for the device twice.
    """

    def __init__(self, memory: Memory, chooser: Chooser, prompts: Sequence[Sequence[int]], graphs: bool) -> None:
        self.memory, self._chooser, self._graphs = memory, chooser, graphs
        self._texts = [list(prompt) for prompt in prompts]
        # Graphs hold passes of one width. Elsewhere a pass over the slots that are in use is cheaper.
        self._narrows = memory.texts.tokens.device.type == "cpu"
        self._read = [len(prompt) - 1 for prompt in prompts]
        self._known: dict[Drafting, Engine] = {}

    def next(self) -> Engine:
        """The engine of the coming step."""
        drafting = self._chooser.choose(self._texts)
        if self._narrows:
            self.memory.narrow(max(map(len, self._texts)) + drafting.room)
        if drafting not in self._known:
            self._known[drafting] = engine = Engine(self.memory, drafting)
            if self._graphs and engine.recordable:
                engine.record()
        engine = self._known[drafting]
        # The last few tokens are read in every step; those before them may have come while the draft model was not asked.
        missing = (len(text) - 2 - read for text, read in zip(self._texts, self._read, strict=True))
        engine.drafter.behind = max(0, max(missing) - engine.drafter.always)
        engine.drafter.look_up(self._chooser.found(drafting, self._texts))
        self._engine = engine
        return engine

    def took(self, step: Step, seconds: float) -> None:
        """Note what a step did."""
        lengths, chosen, active = step.length.tolist(), step.chosen.tolist(), step.active.tolist()
        for row, text in enumerate(self._texts):
            root = len(text) - 1
            if active[row]:
                text.extend(chosen[row][: lengths[row] + 1])
            self._read[row] = self._engine.drafter.read_for_good(self._read[row], root, len(text))
        self._chooser.learn(step, seconds)


def _record(
    engine: Engine, options: DecodeOptions, number: int, root: Tensor, active: Tensor, seconds: Seconds
) -> Step:
    def host(x: Tensor) -> Tensor:
        return x.cpu() if x.device.type != "cpu" else x.clone()  # a copy: the next step writes into x

    looked_up = None
    if options.details:
        ending = engine.chosen.gather(1, engine.length[:, None])[:, 0]
        drafter = engine.drafter
        masses_and_ranks = details(drafter.parents, drafter.tokens, engine.p, drafter.q, engine.nodes, ending)
        looked_up = Details(**{name: host(value) for name, value in vars(masses_and_ranks).items()})
    return Step(
        number=number,
        root=host(root),
        drafted=host(engine.drafter.tokens),
        parents=host(engine.drafter.parents),
        length=host(engine.length),
        nodes=host(engine.nodes),
        chosen=host(engine.chosen),
        emitted=host(engine.emitted),
        active=active,
        finished=host(~engine.texts.active),
        seconds=seconds,
        details=looked_up,
        p=host(engine.p) if options.laws else None,
        q=host(engine.drafted_by()) if options.laws else None,
        drafting=engine.drafting,
        fixed_count=host(engine.drafter.fixed_count) if engine.drafting.tree.law.number_by_q else None,
    )
