"""Speculative decoding with several drafts: the loop, and what it returns."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..errors import CannotDecode
from .draft_plan import Drafting
from .engine import Engine, Memory
from .engines import Engines
from .language_model import LanguageModel
from .node_laws import NodeLaws
from .pair import Pair
from .plans.chooser import Plan, Run
from .processed import Processed, ProcessedTexts
from .sampling_settings import Sampling
from .step import Details, Seconds, Step, Stopwatch, details
from .texts import Texts

AUTOREGRESSIVE = Drafting()


@dataclass(frozen=True)
class Options:
    """What decoding needs besides models, prompts and drafting.

    sampling: for both models alike; draft_sampling: for the draft alone, if it is to differ (every rule stays lossless:
    drafts follow the q that the rule sees). processed: for each text the logits processors of both models, in
    the place of both samplings.
    max_tokens: a text. stop: tokens that end a text, None for the target's own.
    seed, rows: the random numbers of a text depend on the seed and on its row number only, which is its place in the batch
    unless `rows` says otherwise. details, laws: record masses and ranks of drafted tokens, or whole p and q, in every step.
    graphs: CUDA graphs, where there is CUDA and each model is whole on one device.
    """

    sampling: Sampling = field(default_factory=Sampling)
    draft_sampling: Sampling | None = None
    processed: Sequence[Processed] | None = None
    max_tokens: int = 64
    stop: Sequence[int] | None = None
    seed: int = 0
    rows: Sequence[int] | None = None
    details: bool = False
    laws: bool = False
    graphs: bool = True

    @property
    def of_both(self) -> tuple[NodeLaws, NodeLaws]:
        """How the target's and the draft's logits become laws."""
        if self.processed is not None:
            return ProcessedTexts(self.processed, of_draft=False), ProcessedTexts(self.processed, of_draft=True)
        return self.sampling, self.draft_sampling or self.sampling


@torch.inference_mode()
def decode_steps(
    pair: Pair, prompts: Sequence[Sequence[int]], drafting: Plan, options: Options | None = None
) -> Iterator[Step]:
    """Continue B prompts of token ids, one target call a step, until every text has ended.

    drafting: one `Drafting` for all steps, or a plan that chooses one before each, such as `Auto`.
    Every text follows the target's law under `options.sampling`, whatever the draft model, if the path rules are lossless.
    """
    options = options or Options()
    engines = begin(pair, prompts, drafting, options)
    rows = range(len(prompts)) if options.rows is None else options.rows
    watch = Stopwatch(engines.memory.texts.last.device)
    active, number = torch.ones(len(prompts), dtype=torch.bool), 0
    while bool(active.any()):
        began = time.perf_counter()
        root = engines.memory.texts.last.clone()
        with watch("draft"):
            engine, parts = engines.next()
        engine.draw(options.seed, rows, number)  # fresh at every step: a number that is used twice costs losslessness
        for name, part in zip(("draft", "verify", "select", "cache"), parts, strict=True):
            with watch(name):
                part()
        step = _record(engine, options, number, root, active, Seconds(**watch.read()))
        engines.took(step, time.perf_counter() - began)
        yield step
        active, number = ~step.finished, number + 1


def begin(pair: Pair, prompts: Sequence[Sequence[int]], plan: Plan, options: Options) -> Engines:
    """The engines of a run, which have read the prompts; CannotDecode where these do not fit the models."""
    n = pair.n
    target = LanguageModel(pair.target, n)
    draft = None if pair.draft is None else LanguageModel(pair.draft, n)
    for model in (target, draft):
        if model is not None:
            model.check_reads_trees()
    _check_options(options, len(prompts))
    contexts = {"target": target.context, "draft": draft.context if draft is not None else None}
    longest = max((len(prompt) for prompt in prompts), default=0)
    room = min((context for context in contexts.values() if context), default=None)
    room = None if room is None else room - longest - options.max_tokens
    chooser = plan.begin(Run(len(prompts), room, options.max_tokens, pair))
    depth = max(drafting.shape.length for drafting in chooser.menu)
    if draft is None and any(drafting.asks_draft_model for drafting in chooser.menu):
        raise CannotDecode("there is no draft model: give one, or draft by prompt lookup")
    for name, context in contexts.items():
        _check_prompts(prompts, n, context, name, options.max_tokens, depth)
    stop = pair.stop_tokens if options.stop is None else options.stop
    texts = Texts.after(prompts, stop, options.max_tokens, depth, target.device)
    used = draft if any(drafting.asks_draft_model for drafting in chooser.menu) else None
    if used is not None and used.reads:
        target = LanguageModel(pair.target, n, used.reads)
    memory = Memory.of((target, used), prompts, chooser.menu, options.of_both, texts)
    return Engines(memory, chooser, prompts, options.graphs)


def prepare(pair: Pair, prompts: Sequence[Sequence[int]], drafting: Plan, options: Options) -> Engine:
    """The engine of a run's first step."""
    return begin(pair, prompts, drafting, options).next()[0]


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
    pair: Pair, prompts: Sequence[Sequence[int]], drafting: Plan = AUTOREGRESSIVE, options: Options | None = None
) -> Decoded:
    """All steps of `decode_steps`, and the texts."""
    steps = list(decode_steps(pair, prompts, drafting, options))
    return Decoded([[token for step in steps for token in step.tokens(row)] for row in range(len(prompts))], steps)


def _record(engine: Engine, options: Options, number: int, root: Tensor, active: Tensor, seconds: Seconds) -> Step:
    def host(x: Tensor) -> Tensor:
        return x.cpu() if x.device.type != "cpu" else x.clone()  # a copy: the next step writes into x

    looked_up = None
    if options.details:
        ending = engine.chosen.gather(1, engine.length[:, None])[:, 0]
        masses_and_ranks = details(engine.parents, engine.tokens, engine.p, engine.q, engine.nodes, ending)
        looked_up = Details(**{name: host(value) for name, value in vars(masses_and_ranks).items()})
    return Step(
        number=number,
        root=host(root),
        drafted=host(engine.tokens),
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
        **{name: host(value) for name, value in engine.shapes.items()},
    )


def _check_options(options: Options, texts: int) -> None:
    if options.max_tokens < 1:
        raise CannotDecode(f"max-tokens is {options.max_tokens}: give at least 1")
    if options.rows is not None and len(options.rows) != texts:
        raise CannotDecode(f"{len(options.rows)} row numbers for {texts} prompts: give one for each")
    if options.processed is not None and len(options.processed) != texts:
        raise CannotDecode(f"processors of {len(options.processed)} texts for {texts} prompts: give one for each")


def _check_prompts(
    prompts: Sequence[Sequence[int]], n: int, context: int | None, name: str, max_tokens: int, depth: int
) -> None:
    if not prompts:
        raise CannotDecode("no prompt was given: give at least one")
    for row, prompt in enumerate(prompts):
        if len(prompt) == 0:
            raise CannotDecode(
                f"prompt {row} has no token: give at least one, for example the token that begins a text"
            )
        outside = [token for token in prompt if not 0 <= token < n]
        if outside:
            raise CannotDecode(f"prompt {row} holds token {outside[0]}: the vocabulary is 0 .. {n - 1}")
        if context is not None and len(prompt) >= context:
            raise CannotDecode(
                f"prompt {row} has {len(prompt)} tokens, the {name}'s context {context}: shorten the prompt"
            )
        if context is not None and len(prompt) + max_tokens + depth > context:
            raise CannotDecode(
                f"prompt {row} of {len(prompt)} tokens, {max_tokens} new ones and drafts of length {depth} pass the {name}'s"
                f" context of {context}: give max-tokens of at most {max(context - len(prompt) - depth, 0)}"
            )
