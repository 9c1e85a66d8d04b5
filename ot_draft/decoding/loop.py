"""Speculative decoding with several drafts: the loop, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from warnings import warn

import torch
from torch import Tensor

from ..errors import CannotDecode
from .draft_plan import Drafting
from .engine import Engine
from .graphs import capture
from .language_model import LanguageModel, vocabulary_size
from .node_laws import NodeLaws
from .pair import Pair
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
    pair: Pair, prompts: Sequence[Sequence[int]], drafting: Drafting, options: Options | None = None
) -> Iterator[Step]:
    """Continue B prompts of token ids, one target call a step, until every text has ended.

    Every text follows the target's law under `options.sampling`, whatever the draft model, if the path rule is lossless.
    """
    options = options or Options()
    engine = prepare(pair, prompts, drafting, options)
    rows = range(len(prompts)) if options.rows is None else options.rows
    watch = Stopwatch(engine.texts.last.device)
    graphs = options.graphs and engine.recordable
    parts = recorded(engine) if graphs else (engine.propose, engine.verify, engine.select, engine.keep)
    active, number = torch.ones(len(prompts), dtype=torch.bool), 0
    while bool(active.any()):
        root = engine.texts.last.clone()
        engine.draw(options.seed, rows, number)  # fresh at every step: a number that is used twice costs losslessness
        for name, part in zip(("draft", "verify", "select", "cache"), parts, strict=True):
            with watch(name):
                part()
        step = _record(engine, options, number, root, active, Seconds(**watch.read()))
        yield step
        active, number = ~step.finished, number + 1


def prepare(pair: Pair, prompts: Sequence[Sequence[int]], drafting: Drafting, options: Options) -> Engine:
    """An engine that has read the prompts; CannotDecode where these do not fit the models."""
    n = vocabulary_size(pair.target)
    target, draft = LanguageModel(pair.target, n), LanguageModel(pair.draft, n)
    target.check_reads_trees()
    draft.check_reads_trees()
    if options.max_tokens < 1:
        raise CannotDecode(f"max-tokens is {options.max_tokens}: give at least 1")
    if options.rows is not None and len(options.rows) != len(prompts):
        raise CannotDecode(f"{len(options.rows)} row numbers for {len(prompts)} prompts: give one for each")
    if options.processed is not None and len(options.processed) != len(prompts):
        raise CannotDecode(
            f"processors of {len(options.processed)} texts for {len(prompts)} prompts: give one for each"
        )
    for model, name in ((target, "target"), (draft, "draft")):
        _check_prompts(prompts, n, model.context, name, options.max_tokens, drafting.shape.length)
    stop = pair.stop_tokens if options.stop is None else options.stop
    texts = Texts.after(prompts, stop, options.max_tokens, drafting.shape.length, target.device)
    return Engine(target, draft, prompts, drafting, options.of_both, texts)


def recorded(engine: Engine) -> tuple[Callable[[], None], ...]:
    """Propose, verify, select and keep; as CUDA graphs on CUDA."""
    device = engine.texts.last.device
    propose, verify = capture(engine.propose, device), capture(engine.verify, device)
    # With nothing accepted and no text going on, keeping changes nothing: it may be repeated. Hence before select.
    engine.texts.active.fill_(False)
    keep = capture(engine.keep, device)
    engine.texts.active.fill_(True)
    try:
        select = capture(engine.select, device)
    except CannotDecode as error:  # somebody's rule that looks at values
        warn(f"the path rule is not recorded, its kernels are launched one by one: {error}", stacklevel=2)
        select = engine.select
    return propose, verify, select, keep


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
    pair: Pair, prompts: Sequence[Sequence[int]], drafting: Drafting = AUTOREGRESSIVE, options: Options | None = None
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
        masses_and_ranks = details(engine.drafting, engine.tokens, engine.p, engine.q, engine.nodes, ending)
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
        q=host(engine.q) if options.laws else None,
    )


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
