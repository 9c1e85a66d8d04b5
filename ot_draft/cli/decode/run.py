"""`ot-draft decode` after the validation of its options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import click
from rich.console import Console

from ... import defaults
from ...decoding import Auto, CannotDecode, DecodeOptions, Pair, PromptLookup, SamplingParams, Step, decode_steps
from ...decoding import methods as making
from ...decoding.methods import Method, method_called, shape_of
from ...decoding.watermark import detect, power, scores
from ...verify.server import Audit, LogWriter, ServerReport, emitted_with_laws, read_log
from ..console import peak_memory
from ..embedded import load_models
from ..plan import read_costs
from .live import LiveView, coloured, legend, picture, stream
from .options import DraftOptions
from .page import PageText, page
from .settings import DecodeSettings
from .trace import Trace


@dataclass(frozen=True)
class Job:
    """Models, texts and options."""

    pair: Pair
    prompts: list[str]
    tokens: list[list[int]]
    options: DecodeOptions
    settings: DecodeSettings


def prepare(settings: DecodeSettings, progress: Callable[[str], object]) -> tuple[Job, list[Method]]:
    """Models, texts and methods; ValueError with one line where the settings do not fit them. progress: callback(stage name)."""
    methods = chosen_methods(settings)
    asked, models, output = settings.sampling, settings.models, settings.output
    sampling = SamplingParams(asked.temperature, asked.top_k, asked.top_p, asked.min_p)
    options = DecodeOptions(sampling, max_tokens=asked.max_tokens, seed=asked.seed, laws=output.laws_wanted)
    prompts = read_prompts(settings.prompts.prompts, settings.prompts.prompt_file)
    # The embedded draft that is accepted more often; the other one is for transformers' own generation.
    draft = "states" if models.target is None and models.draft is None else models.draft
    others: dict[str, Any] = {} if output.compare else {"assistant": None}
    others["backend"], others["tokens"] = models.backend, None if output.compare else len(prompts) * asked.max_tokens
    where = models.dtype, *models.placement
    pair = load_models(models.target, draft, *where, cache=models.cache, progress=progress, **others)
    tokens, _ = encode_prompts(pair, prompts, settings.prompts.chat)
    return Job(pair, prompts, tokens, options, settings), methods


def chosen_methods(settings: DecodeSettings) -> list[Method]:
    """The methods that were named, the autoregressive one first where they are compared; without names `auto`, or more than a
    dozen."""
    drafts, compare, looks_up = settings.drafts, settings.output.compare, settings.models.looks_up
    by_costs = None if drafts.costs is None else read_costs(drafts.costs)
    lookup = lookup_of(drafts, PromptLookup(*defaults.AUTO_LOOKUP))
    auto = making.auto_method(Auto(model=not looks_up, lookup=lookup, costs=by_costs))
    if looks_up:
        looked_up = making.lookup_method(lookup_of(drafts, PromptLookup()))
        return [_autoregressive(), looked_up, auto] if compare else [auto if settings.auto else looked_up]
    if settings.models.chained:
        default_length = 8  # tokens of the draft path
        chain = making.chain_method(drafts.given_size[1] or default_length)
        return [_autoregressive(), chain] if compare else [chain]
    if settings.auto and not compare:
        return [auto]
    paths, length = drafts.size
    rules = {rule.lower().replace("_", "") for rule in drafts.rules}
    if drafts.shape is None and rules and rules <= {"block", "blockverification"}:  # which take one path
        paths = 1
    if drafts.watermark is not None:
        return [making.watermark_method(drafts.watermark, paths, length, *drafts.rules)]
    if compare and not drafts.named:
        grown = [] if drafts.adaptive is None else making.dynamic_methods(drafts.adaptive.bounds.size)
        known = making.methods_to_compare(paths, length, drafts.children)
        return [*known, *grown, making.lookup_method(lookup_of(drafts, PromptLookup())), auto]
    named = _named(drafts, paths, length)
    if not compare:
        return named
    more = [auto] if settings.auto else []
    return [_autoregressive(), *(method for method in named if method != _autoregressive()), *more]


def _named(drafts: DraftOptions, paths: int, length: int) -> list[Method]:
    """A method for every rule that was given, or for the usual one."""
    rules = dict.fromkeys(drafts.rules)
    if drafts.adaptive is not None:
        grower = drafts.adaptive
        lookup = (
            lookup_of(drafts, PromptLookup(grower.counts.n_lookup_tokens).for_tree)
            if grower.counts.n_lookup_tokens
            else None
        )
        return [
            _autoregressive() if rule == making.AUTOREGRESSIVE else making.dynamic_method(grower, rule, lookup)
            for rule in rules or (None,)
        ]
    shape = shape_of(paths, length, drafts.children)
    return [method_called(rule, drafts.draft_law, shape) for rule in rules or (drafts.default_rule,)]


def _autoregressive() -> Method:
    return method_called(making.AUTOREGRESSIVE, None, shape_of(1, 1, None))


def lookup_of(drafts: DraftOptions, otherwise: PromptLookup) -> PromptLookup:
    """Prompt lookup as the options say, and as given where they say nothing."""
    tokens, ngram = (*(drafts.lookup or ()), *(otherwise.num_tokens, otherwise.max_ngram)[len(drafts.lookup or ()) :])
    return PromptLookup(tokens, ngram, min(otherwise.min_ngram, ngram))


def show(job: Job, method: Method) -> None:
    """One rule: the texts one after the other, each with its own row of random numbers."""
    console, output, key = Console(), job.settings.output, job.settings.drafts.watermark
    trace = open_trace(output.trace, method, job.options)
    audited = None if output.audit is None else Audited(output.audit)
    if console.is_terminal:
        with coloured(console):
            console.print(legend())
    baseline = Baseline(job, method)
    pages = [] if output.html is None else [PageText(prompt, job.pair, method) for prompt in job.prompts]
    views = [LiveView(job.pair, prompt) for prompt in job.prompts]
    for number in range(len(job.prompts)):
        steps = decode_steps(job.pair, [job.tokens[number]], method.policy, replace(job.options, rows=[number]))
        steps = _recorded(steps, trace, number, len(job.tokens[number]))
        steps = audited(steps, number) if audited is not None else steps
        steps = stream(console, views[number], steps)
        text: list[int] = []
        for step in steps:
            text += step.tokens(0)
            baseline.add(step)
            if pages:
                pages[number].add(step)
        if key is not None:
            click.echo(_key_found(text, key, number, method.K, job.pair.n), err=True)
    for line in (baseline.line(), baseline.advice()):
        if line:
            click.echo(line, err=True)
    click.echo(f"target: {job.pair.law}, backend {job.pair.backend}", err=True)
    click.echo(peak_memory(), err=True)
    if job.pair.no_faster:
        click.echo(job.pair.no_faster, err=True)
    if trace is not None:
        close_traces([trace])
    if audited is not None:
        click.echo(f"audit: {audited.close()}", err=True)
    if output.svg is not None:
        output.svg.write_text(picture(views, f"ot-draft decode: {method.label}"), encoding="utf-8")
        click.echo(f"image: {output.svg}", err=True)
    if output.html is not None:
        output.html.write_text(
            page(
                pages, [*job.settings.summary_rows(), ("target weights", f"{job.pair.law}, backend {job.pair.backend}")]
            ),
            encoding="utf-8",
        )
        click.echo(f"page: {output.html}", err=True)


def _key_found(text: Sequence[int], key: str, number: int, paths: int, n: int) -> str:
    """One line: the text's evidence for its key, and the share of its kind that would be found."""
    found, said = scores(text, key, number, paths, n), f"watermark: {detect(text, key, number, paths, n)}"
    if len(found) < 2:
        return said
    rate = 0.01
    powers = ", ".join(f"{power(found, tokens, rate):.0%} for {tokens} tokens" for tokens in (50, 200))
    return f"{said}; estimated detection power at a false positive rate of {rate:.0%}: {powers}"


class Baseline:
    """Speed of a run relative to autoregressive decoding, by autoregressive steps in the run and interleaved ones.

    Interleaved steps are taken between the run's own, because the speed of a machine drifts. min_steps: autoregressive steps that a
    speed is compared with. max_interleaved: steps that are interleaved while the tokens are generated; in longer texts one comes every
    several steps.
    """

    def __init__(self, job: Job, method: Method, min_steps: int = 12, max_interleaved: int = 20) -> None:
        self._job, self._method, self._min_steps = job, method, min_steps
        self._baseline, self._tokens, self._seconds = list[float](), list[int](), list[float]()
        self._often = min(max(job.options.max_tokens * len(job.tokens) // max_interleaved, 1), max_interleaved)
        self._drafted = 0  # steps with draft tokens
        self._since = 0  # the last autoregressive step
        self._beside: Iterator[Step] | None = None

    def add(self, step: Step) -> None:
        """One more step of a batch of one."""
        self._tokens.append(len(step.tokens(0)))
        self._seconds.append(step.seconds.total)
        self._since += 1
        self._drafted += step.drafting.tree.bounds.size > 0
        if step.number and not step.drafting.tree.bounds.size:
            self._took(step)
        elif self._since >= self._often:
            self._one_beside()

    def _took(self, step: Step) -> None:
        self._baseline.append(step.seconds.total)
        self._since = 0

    def _one_beside(self) -> bool:
        """Take an autoregressive step of the first prompt; False where there is none."""
        if self._method == _autoregressive():
            return False
        try:
            if self._beside is None:
                most = max(self._job.options.max_tokens, self._min_steps + 1)
                options = replace(self._job.options, max_tokens=most, stop=(), laws=False, rows=[0])
                self._beside = decode_steps(self._job.pair, [self._job.tokens[0]], _autoregressive().policy, options)
                next(self._beside, None)  # takes memory
            step = next(self._beside, None)
        except CannotDecode:  # the model's context has no room for it
            self._beside, step = iter(()), None
        if step is not None:
            self._took(step)
        return step is not None

    def advice(self, max_drafted_share: float = 0.2) -> str:
        """Return the advice for a run in which `auto` drafted in at most this share of the steps; empty otherwise."""
        if self._method.rule != making.AUTO or self._drafted > max_drafted_share * len(self._seconds):
            return ""
        return (
            f"auto drafted in {self._drafted} of {len(self._seconds)} steps: drafting does not pay for these models on this machine. Use"
            " --shape 4x4 to see accepted and rejected draft tokens."
        )

    def line(self) -> str:
        """The ratio, its interval of 95 % and what it rests on; empty for autoregressive decoding itself, and where nothing can be said."""
        if self._method == _autoregressive():
            return ""
        while len(self._baseline) < self._min_steps and self._one_beside():
            pass
        if min(len(self._seconds), len(self._baseline)) < 2:
            return ""
        ratio, low, high = speed_up(self._tokens, self._seconds, self._baseline)
        unsure = "" if low > 1 or high < 1 else " (95 % CI contains 1)"
        return (
            f"{ratio:.2f} [{low:.2f}, {high:.2f}] times as fast as autoregressive decoding{unsure},"
            f" {1000 * fmean(self._baseline):.1f} ms per autoregressive token ({len(self._baseline)} steps)"
        )


def speed_up(tokens: Sequence[int], seconds: Sequence[float], baseline: Sequence[float]) -> tuple[float, float, float]:
    """Tokens a second of some steps by those of autoregressive steps, and an interval of 95 % around it; two of each at least.

    Steps count as independent: the logarithm's variance is that of the tokens' mean given the seconds, and of the autoregressive steps'
    mean.
    """
    from scipy.special import stdtrit

    rate, middle = sum(tokens) / sum(seconds), fmean(baseline)
    left = [count - rate * time for count, time in zip(tokens, seconds, strict=True)]
    spread = len(left) / (len(left) - 1) * sum(each**2 for each in left) / sum(tokens) ** 2
    spread += sum((time / middle - 1) ** 2 for time in baseline) / (len(baseline) - 1) / len(baseline)
    width = exp(float(stdtrit(min(len(left), len(baseline)) - 1, 0.975)) * sqrt(spread))
    return rate * middle, rate * middle / width, rate * middle * width


def _recorded(steps: Iterator[Step], trace: Trace | None, prompt: int, position: int) -> Iterator[Step]:
    for step in steps:
        if trace is not None:
            trace.add(prompt, position, step)
        position += int(step.length[0]) + 1
        yield step


def open_trace(folder: Path | None, method: Method, options: DecodeOptions) -> Trace | None:
    """A trace of the method in this folder, if there is one."""
    if folder is None:
        return None
    return Trace(folder, method, options)


def close_traces(traces: Sequence[Trace]) -> None:
    for trace in traces:
        trace.close()
        limit = f", the last ones without distributions (limit of {defaults.TRACE_ROWS:,} pairs)" if trace.full else ""
        click.echo(f"trace: {trace.folder}, {trace.steps} steps{limit}", err=True)


def read_prompts(texts: Sequence[str], file: Path | None) -> list[str]:
    """Prompts as text: those texts and those of the file, one a line; else a story, an explanation and code."""
    if file is None:
        # Three: the default comparison is to end within minutes on two cores.
        return list(texts) or [
            "Write a short story about a fox who finds a clock in the forest.",
            "Explain in a few sentences how bread rises when it is baked.",
            "Write a Python function that counts the words in a text file.",
        ]
    try:
        # Some editors write a byte order mark.
        lines = file.read_bytes().decode("utf-8-sig").splitlines()
    except OSError as error:
        raise CannotDecode(
            f"--prompt-file must be a readable file, got {str(file)!r} ({error.strerror}). Use another file."
        ) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise CannotDecode(
            f"--prompt-file must be UTF-8, got byte {error.object[error.start]:#04x} in {str(file)!r}, line {line}. Save it as UTF-8."
        ) from None
    prompts = [*texts, *(line for line in lines if line.strip())]
    if not prompts:
        raise CannotDecode(
            f"--prompt-file must hold at least one prompt, got {str(file)!r}. Write one prompt per line."
        )
    return prompts


def encode_prompts(pair: Pair, prompts: Sequence[str], chat: bool | None) -> tuple[list[list[int]], bool]:
    """Token ids of every prompt, and whether they were put as a user's turn: where there is a chat template, unless told."""
    has_template = bool(getattr(pair.tokenizer, "chat_template", None))
    if chat and not has_template:
        raise CannotDecode("--chat requires a target with a chat template. Remove --chat.")
    as_turn = has_template if chat is None else chat
    return [pair.encode(prompt, as_turn) for prompt in prompts], as_turn


class Audited:
    """Passes steps on, and writes their tokens to a log."""

    def __init__(self, path: Path) -> None:
        self._path, self._log = path, LogWriter(path)

    def __call__(self, steps: Iterator[Step], prompt: int) -> Iterator[Step]:
        for step in steps:
            for token, p, q in emitted_with_laws(step, 0):
                self._log.add(token, p, request=prompt, draft_probs=q)
            yield step

    def close(self) -> ServerReport:
        """Close the log, and return the report of `ot-draft audit` on it."""
        self._log.close()
        audit = Audit()
        for token in read_log(self._path, audit.leave_out):
            audit.add(token)
        return audit.report("decoded tokens")
