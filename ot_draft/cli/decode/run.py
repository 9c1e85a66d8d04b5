"""What `ot-draft decode` does, once its options are known to be consistent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, sqrt
from pathlib import Path
from statistics import median
from typing import Any

import click
from rich.console import Console

from ... import decoding
from ...audit import Audit, LogWriter, Token, Verdict, emitted_with_laws
from ...decoding import CannotDecode, DecodeOptions, Pair, PromptLookup, SamplingParams, Step, decode_steps
from ...decoding import methods as making
from ...decoding.methods import Method, method_called, shape_of
from ...decoding.watermark import FALSE_ALARM, detect, power, scores
from ..embedded import load_models
from ..plan import read_costs
from .live import View, coloured, legend, picture, stream
from .page import PageText, page
from .settings import DecodeSettings
from .trace import KEPT, ROWS, Trace

PLAIN = "autoregressive"
PLAIN_STEPS = 12  # that a speed is compared with, at least
DEVIATIONS = 1.96  # of a normal law, on either side, for an interval of 95 %


@dataclass(frozen=True)
class Job:
    """Models, texts and options."""

    pair: Pair
    prompts: list[str]
    tokens: list[list[int]]
    options: DecodeOptions
    settings: DecodeSettings


def prepare(settings: DecodeSettings, stages: Callable[[str], object]) -> tuple[Job, list[Method]]:
    """Models, texts and methods; ValueError with one line where the settings do not fit them. stages: is told what is loaded."""
    methods = chosen_methods(settings)
    sampling = SamplingParams(settings.temperature, settings.top_k, settings.top_p, settings.min_p)
    options = DecodeOptions(sampling, max_tokens=settings.max_tokens, seed=settings.seed, laws=settings.laws_wanted)
    prompts = read_prompts(settings.prompts, settings.prompt_file)
    # Of the two embedded drafts the one that brings more; the other one is for transformers' own generation.
    draft = "states" if settings.target is None and settings.draft is None else settings.draft
    others: dict[str, Any] = {} if settings.compare else {"assistant": None}
    where = settings.dtype, settings.device, settings.device_map
    pair = load_models(settings.target, draft, *where, cache=settings.cache, progress=stages, **others)
    tokens, _ = encode_prompts(pair, prompts, settings.chat)
    return Job(pair, prompts, tokens, options, settings), methods


def chosen_methods(settings: DecodeSettings) -> list[Method]:
    """The methods that were named, the plain one first where they are compared; without names the shape that chooses itself,
    or more than a dozen."""
    costs, lookup = settings.costs, lookup_of(settings, decoding.Auto().lookup or PromptLookup())
    by_costs = None if costs is None else read_costs(costs)
    auto = making.auto_method(decoding.Auto(model=not settings.looks_up, lookup=lookup, costs=by_costs))
    if settings.looks_up:
        looked_up = making.lookup_method(lookup_of(settings, PromptLookup()))
        return [_plain(), looked_up, auto] if settings.compare else [auto if settings.auto else looked_up]
    if settings.chained:
        chain = making.chain_method(8 if settings.length is None else settings.length)
        return [_plain(), chain] if settings.compare else [chain]
    if settings.auto and not settings.compare:
        return [auto]
    paths, length = (4 if number is None else number for number in settings.size)
    rules = {rule.lower().replace("_", "") for rule in settings.rules}
    if settings.size[0] is None and rules and rules <= {"block", "blockverification"}:  # which take one path
        paths = 1
    if settings.watermark is not None:
        return [making.watermark_method(settings.watermark, paths, length, *settings.rules)]
    if settings.compare and not settings.named:
        grown = [] if settings.grower is None else making.dynamic_methods(settings.grower.budget)
        known = making.methods_to_compare(paths, length, settings.children)
        return [*known, *grown, making.lookup_method(lookup_of(settings, PromptLookup())), auto]
    named = _named(settings, paths, length)
    if not settings.compare:
        return named
    more = [auto] if settings.auto else []
    return [_plain(), *(method for method in named if method != _plain()), *more]


def _named(settings: DecodeSettings, paths: int, length: int) -> list[Method]:
    """A method for every rule that was given, or for the usual one."""
    rules = dict.fromkeys(settings.rules)
    if settings.grower is not None:
        grower = settings.grower
        lookup = lookup_of(settings, PromptLookup(grower.takes).for_tree) if grower.takes else None
        return [_plain() if rule == PLAIN else making.dynamic_method(grower, rule, lookup) for rule in rules or (None,)]
    shape = shape_of(paths, length, settings.children)
    return [method_called(rule, settings.draft_law, shape) for rule in rules or ("joint",)]


def _plain() -> Method:
    return method_called(PLAIN, None, shape_of(1, 1, None))


def lookup_of(settings: DecodeSettings, otherwise: PromptLookup) -> PromptLookup:
    """Prompt lookup as the options say, and as given where they say nothing."""
    tokens, ngram = settings.lookup_tokens, settings.lookup_ngram
    tokens = otherwise.num_tokens if tokens is None else tokens
    ngram = otherwise.max_ngram if ngram is None else ngram
    return PromptLookup(tokens, ngram, min(otherwise.min_ngram, ngram))


def show(job: Job, method: Method) -> None:
    """One rule: the texts one after the other, each with its own row of random numbers."""
    console, settings = Console(), job.settings
    trace = open_trace(settings, settings.trace, method, job.options)
    audited = None if settings.audit is None else Audited(settings.audit)
    if console.is_terminal and settings.live:
        with coloured(console):
            console.print(legend())
    beside = BesidePlain(job, method)
    pages = [] if settings.html is None else [PageText(prompt, job.pair, method) for prompt in job.prompts]
    views = [View(job.pair, prompt) for prompt in job.prompts]
    for number in range(len(job.prompts)):
        steps = decode_steps(job.pair, [job.tokens[number]], method.policy, replace(job.options, rows=[number]))
        steps = _recorded(steps, trace, number, len(job.tokens[number]))
        steps = audited(steps, number) if audited is not None else steps
        if settings.live:
            steps = stream(console, views[number], steps)
        text: list[int] = []
        for step in steps:
            text += step.tokens(0)
            beside.add(step)
            if pages:
                pages[number].add(step)
            if settings.svg is not None and not settings.live:
                views[number].add(step)
        if not settings.live:
            click.echo(job.pair.text(text))
        if settings.watermark is not None:
            click.echo(_key_found(text, settings.watermark, number, method.K, job.pair.n), err=True)
    click.echo(beside.line, err=True, nl=bool(beside.line))
    if trace is not None:
        close_traces([trace])
    if audited is not None:
        click.echo(f"audit: {audited.close()}", err=True)
    if settings.svg is not None:
        settings.svg.write_text(picture(views, f"ot-draft decode: {method.label}"), encoding="utf-8")
        click.echo(f"picture: {settings.svg}", err=True)
    if settings.html is not None:
        settings.html.write_text(page(pages, settings.told()), encoding="utf-8")
        click.echo(f"page: {settings.html}", err=True)


def _key_found(text: Sequence[int], key: str, number: int, paths: int, n: int) -> str:
    """What the text says about its key, and how many of this kind would be found."""
    found, said = scores(text, key, number, paths, n), f"watermark: {detect(text, key, number, paths, n)}"
    if len(found) < 2:
        return said
    powers = ", ".join(f"{power(found, tokens):.0%} of {tokens} tokens" for tokens in (50, 200))
    return f"{said}; at a false alarm of {FALSE_ALARM:.0%}, by the mean and spread of its scores, found in {powers}"


class BesidePlain:
    """The speed of a run against plain decoding: against the plain steps in it, and as many after it as are missing to a dozen."""

    def __init__(self, job: Job, method: Method) -> None:
        self._job, self._method = job, method
        self._plain, self._tokens, self._seconds = list[float](), list[int](), list[float]()

    def add(self, step: Step) -> None:
        """One more step of a batch of one."""
        self._tokens.append(len(step.tokens(0)))
        self._seconds.append(step.seconds.total)
        if step.number and not step.drafting.tree.budget:
            self._plain.append(step.seconds.total)

    @property
    def line(self) -> str:
        """The ratio, its interval of 95 % and what it rests on; empty for plain decoding itself, and where nothing can be said."""
        if self._method == _plain() or not self._seconds:
            return ""
        job, plain = self._job, list(self._plain)
        if (missing := PLAIN_STEPS - len(plain)) > 0:
            few = replace(job.options, max_tokens=missing + 1, stop=(), laws=False, rows=[0])
            try:
                plain += [step.seconds.total for step in decode_steps(job.pair, [job.tokens[0]], _plain().policy, few)][
                    1:
                ]
            except CannotDecode:  # the model's context has no room for them
                return ""
        ratio, low, high = speed_up(self._tokens, self._seconds, plain)
        unsure = "" if low > 1 or high < 1 else ": too few steps to tell from it"
        return (
            f"{ratio:.2f} [{low:.2f}, {high:.2f}] times as fast as plain decoding{unsure}, {1000 * median(plain):.1f} ms a token here"
            f" ({len(plain)} plain steps)"
        )


def speed_up(tokens: Sequence[int], seconds: Sequence[float], plain: Sequence[float]) -> tuple[float, float, float]:
    """Tokens a second of some steps by those of plain steps, and an interval of 95 % around it.

    Steps count as independent: the logarithm's variance is that of the tokens' mean given the seconds, and of the plain steps' mean.
    """
    rate = sum(tokens) / sum(seconds)
    ratio = rate * median(plain)
    left = [count - rate * time for count, time in zip(tokens, seconds, strict=True)]
    spread = len(left) / max(len(left) - 1, 1) * sum(each**2 for each in left) / sum(tokens) ** 2
    middle = sum(plain) / len(plain)
    spread += sum((time / middle - 1) ** 2 for time in plain) / max(len(plain) - 1, 1) / len(plain)
    width = exp(DEVIATIONS * sqrt(spread))
    return ratio, ratio / width, ratio * width


def _recorded(steps: Iterator[Step], trace: Trace | None, prompt: int, position: int) -> Iterator[Step]:
    for step in steps:
        if trace is not None:
            trace.add(prompt, position, step)
        position += int(step.length[0]) + 1
        yield step


def open_trace(settings: DecodeSettings, folder: Path | None, method: Method, options: DecodeOptions) -> Trace | None:
    if folder is None:
        return None
    kept = KEPT if settings.trace_keep is None else settings.trace_keep
    return Trace(folder, method, options, kept, ROWS if settings.trace_rows is None else settings.trace_rows)


def close_traces(traces: Sequence[Trace]) -> None:
    for trace in traces:
        trace.close()
        limit = "; the limit of laws was reached, the last steps have none (--trace-rows)" if trace.full else ""
        click.echo(f"trace: {trace.folder}, {trace.steps} steps{limit}", err=True)


# Written for this project: a story, an explanation, code. Three: the default comparison is to end within minutes on two cores.
DEFAULT_PROMPTS = (
    "Write a short story about a fox who finds a clock in the forest.",
    "Explain in a few sentences how bread rises when it is baked.",
    "Write a Python function that counts the words in a text file.",
)


def read_prompts(texts: Sequence[str], file: Path | None) -> list[str]:
    """Prompts as text: those texts and those of the file, one a line; else DEFAULT_PROMPTS."""
    if file is None:
        return list(texts) or list(DEFAULT_PROMPTS)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CannotDecode(f"prompt file {str(file)!r} cannot be read: {getattr(error, 'strerror', error)}") from None
    prompts = [*texts, *(line for line in lines if line.strip())]
    if not prompts:
        raise CannotDecode(f"prompt file {str(file)!r} holds no prompt: write one a line")
    return prompts


def encode_prompts(pair: Pair, prompts: Sequence[str], chat: bool | None) -> tuple[list[list[int]], bool]:
    """Token ids of every prompt, and whether they were put as a user's turn: where there is a chat template, unless told."""
    has_template = bool(getattr(pair.tokenizer, "chat_template", None))
    if chat and not has_template:
        raise CannotDecode("the target's tokenizer has no chat template: leave --chat away")
    as_turn = has_template if chat is None else chat
    return [pair.encode(prompt, as_turn) for prompt in prompts], as_turn


class Audited:
    """Passes steps on, and takes their tokens down."""

    def __init__(self, path: Path) -> None:
        self._audit, self._log = Audit(), LogWriter(path)

    def __call__(self, steps: Iterator[Step], prompt: int) -> Iterator[Step]:
        for step in steps:
            for token, law, draft_law in emitted_with_laws(step, 0):
                self._audit.add(Token.of_law(token, law, request=prompt, draft_law=draft_law))
                self._log.add(token, law, request=prompt, draft_law=draft_law)
            yield step

    def close(self) -> Verdict:
        """End the log; what can be said."""
        self._log.close()
        return self._audit.verdict()
