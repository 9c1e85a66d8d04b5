"""`ot-draft audit`: whether the tokens of a server or a log follow the distributions reported for them."""

from __future__ import annotations

import re
import sys
from contextlib import closing
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from ..errors import DraftSelectionError
from ..verify.outcome import Status
from ..verify.server import Audit, ServerReport
from ..verify.server.lookup import LookupLaws
from ..verify.server.page import HEADS, html_page, strongest
from ..verify.server.reported import MODES, Reported
from .audit_options import Prompt, options_of_servers, say
from .console import one_line, progress_bar
from .options import Numbers, Place, can_write

if TYPE_CHECKING:
    from ..verify.server.answers import Answer
    from ..verify.server.reference import DraftLaws, LocalModel, Reference


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Options of the command, by their names. None: not given."""

    model: str
    engine: str
    prompts: list[Prompt] | None
    tokens: int
    lengths: tuple[int, ...] | None
    concurrency: tuple[int, ...] | None
    ignore_eos: bool
    timeout: float
    temperature: float | None
    top_k: int
    top_p: float
    mode: str | None
    top_logprobs: int
    reference: Path | None
    draft: Path | int | None

    @property
    def heat(self) -> float:
        """Sampling temperature of a server."""
        return 1.0 if self.temperature is None else self.temperature

    @property
    def states_sampling(self) -> bool:
        """Whether a user says that the tokens of a log were sampled from the reported distributions."""
        return self.temperature is not None or self.mode == "processed"

    def conversion(self, mode: str, temperature_last: bool | None = False) -> Reported:
        """Return the conversion of reported log-probabilities of this mode to a distribution; raises CannotAudit if there is none."""
        return Reported(self.heat, self.top_k, self.top_p, mode, self.top_logprobs, temperature_last)


class Draft(click.ParamType):
    """A folder of a draft model, or ngram:N for n-grams of up to N tokens."""

    name = "folder|ngram[:N]"

    def convert(self, value: Any, param: Any, context: Any) -> Path | int:
        if (said := re.fullmatch(r"ngram(?::([1-9]\d?))?", str(value))) is not None:
            return int(said[1] or LookupLaws.longest)
        folder = click.Path(exists=True, file_okay=False)
        return Path(str(folder.convert(value, param, context)))


class AuditCommand(click.Command):
    """`audit URL|LOG`, or `audit servers` for two servers."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of `audit servers` or `audit`."""
        if args[:1] == ["servers"]:
            from .audit_servers import servers

            return servers.make_context(f"{info_name} servers", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command(cls=AuditCommand, epilog="To compare two servers: ot-draft audit servers --help.")
@click.argument("subject", metavar="URL|LOG")
@options_of_servers
@click.option("--concurrency", type=Numbers(256),
              help="Comma-separated numbers of concurrent requests, up to 256, used in rotation [default: 1, 4, 8 and 32].")  # fmt: skip
@click.option("--temperature", type=float,
              help="Sampling temperature [default: 1 for a server, none for a log]. With a log, states that all tokens were sampled "
              "independently at it. Without this statement, a log of API responses is never called biased.")  # fmt: skip
@click.option(
    "--top-k",
    type=int,
    default=0,
    show_default=True,
    help="Number of most probable tokens that the server samples from (0: all).",
)
@click.option("--top-p", type=float, default=1.0, show_default=True,
              help="Total probability of the most probable tokens that the server samples from (1: all).")  # fmt: skip
@click.option("--logprobs", "mode", type=click.Choice(MODES),
              help="Log-probabilities that the server reports: raw (of the model), tempered (after the temperature) or processed (of "
              "the distribution that is sampled from) [default: tempered for SGLang, else raw; none for a log].")  # fmt: skip
@click.option(
    "--top-logprobs",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Number of most probable tokens to request (top_logprobs).",
)
@click.option("--ignore-eos", is_flag=True, help="Ask the server to continue after the end-of-sequence token.")
@click.option("--tolerance", type=float, default=1e-4, show_default=True,
              help="Maximum relative error of the reported probabilities.")  # fmt: skip
@click.option("--reference", type=Place(exists=True, file_okay=False),
              help="Folder of the model that should be served, to compute its distribution locally with transformers.")  # fmt: skip
@click.option("--draft", type=Draft(),
              help="Folder of the server's draft model, to compute its distribution locally and detect errors sooner; or "
              "ngram[:N] for n-grams of up to N tokens, which requires prompts as token ids "
              f"[default N: {LookupLaws.longest}].")  # fmt: skip
@click.option("--html", type=Place(dir_okay=False), help="Output file: HTML page of the result.")
def audit(
    subject: str, level: float, confidence: float, tolerance: float, json_file: Path | None, html: Path | None, **asked: Any
) -> None:  # fmt: skip
    """Test whether tokens follow the distributions reported for them.

    URL: an OpenAI-compatible server that reports log-probabilities, such as http://localhost:8000. Requests are sent to this server
    only. The API key is read from OT_DRAFT_AUDIT_KEY or OPENAI_API_KEY. LOG: a .jsonl or .npz file of tokens with their distributions,
    or a .jsonl file of API responses with log-probabilities: chat completions, entries of logprobs.content, or vLLM's RequestOutput
    (docs/audit.md).

    Exit status: 0 if no bias was found, 1 if a bias was found or the reference is another model, 2 if the data do not allow a
    decision, 70 for an internal error.
    """
    options = ServerOptions(**asked)
    with one_line((DraftSelectionError, OSError, UnicodeDecodeError)):
        is_url = subject.startswith(("http://", "https://"))
        for name, file in (("--json", json_file), ("--html", html)):
            if file is not None and file != Path("-"):
                if not is_url and file.exists() and Path(subject).exists() and file.samefile(subject):
                    raise click.UsageError(
                        f"{name} must differ from the audited log, got {str(file)!r}. Use another file."
                    )
                can_write(name, file)
        judge = Audit(level, confidence, tolerance)
        report = _ask(subject, judge, options) if is_url else _read(subject, judge, options)
        _write(report, json_file, html)
    sys.exit(report.exit_status)


def _temperature_of_raw(options: ServerOptions) -> float:
    """Temperature that the distributions of a log do not include; 1.0 if they are those that are sampled from."""
    heat, mode = options.temperature, options.mode
    remedy = "Log the distribution that is sampled from (vLLM: --logprobs-mode processed_logprobs)."
    if mode != "processed" and (options.top_k, options.top_p) != (0, 1):
        raise click.UsageError(f"--top-k and --top-p of a log require --logprobs processed. {remedy}")
    if mode in ("raw", "tempered") and heat is None:
        raise click.UsageError(f"--logprobs {mode} of a log requires --temperature. State the sampling temperature.")
    if heat == 0 and mode != "processed":
        raise click.UsageError(
            "--temperature of a log must be above 0, got 0. At temperature 0 every token is the most probable one, and a log is tested for"
            " the distribution of sampled tokens. Audit the server instead (ot-draft audit URL --temperature 0), or pass --logprobs"
            " processed if the log holds the distributions after the temperature."
        )
    if heat is not None and not 0 <= heat < inf:
        raise click.UsageError(f"--temperature of a log must be above 0, got {heat:g}. {remedy}")
    if heat not in (None, 1) and mode is None:
        raise click.UsageError(
            f"--temperature {heat:g} of a log requires --logprobs: raw if the log-probabilities are those of the model (default of vLLM, "
            "llama.cpp and OpenAI), tempered or processed if they include the temperature (SGLang; vLLM with --logprobs-mode "
            "processed_logprobs). Pass one of them."
        )
    return heat if heat is not None and mode == "raw" else 1.0


def _read(log: str, judge: Audit, options: ServerOptions) -> ServerReport:
    from ..verify.server.log import read_log
    from ..verify.server.log_responses import ResponseNotes

    path = Path(log)
    if not path.is_file():
        raise click.UsageError(
            f"URL|LOG must be an existing file or start with http:// or https://, got {log!r}. Correct the path or the URL."
        )
    if options.draft is not None:
        raise click.UsageError("--draft requires a server. In a log, set draft_probs in each line.")
    context = click.get_current_context()
    of_logs = {
        "subject",
        "level",
        "confidence",
        "tolerance",
        "json_file",
        "html",
        "temperature",
        "top_k",
        "top_p",
        "mode",
    }
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is not click.core.ParameterSource.DEFAULT
        if given and parameter.name not in of_logs:
            raise click.UsageError(f"{parameter.opts[0]} requires a server. Pass its URL instead of a log.")
    judge.temperature = _temperature_of_raw(options)
    notes = ResponseNotes(judge.charge)
    with progress_bar(100, f"reading {path.name}, per cent") as advance:
        for token in read_log(path, judge.leave_out, lambda share: advance(to=round(100 * share)), notes):
            judge.add(token)
    judge.undecided, judge.remarks = notes.undecided(judge.biased, options.states_sampling), notes.remarks()
    judge.uncharged = notes.ends.uncharged
    if not judge.tokens and not judge.charged:
        raise click.UsageError(f"LOG must hold at least one token, got none in {path}. Use another log.")
    return judge.report(str(path))


def _ask(url: str, judge: Audit, options: ServerOptions) -> ServerReport:
    from ..verify.server.client import Client
    from ..verify.server.server import PROMPTS, RequestPlan, audit_server, introduce, shapes_of

    plan = RequestPlan(options.prompts or PROMPTS, options.tokens, shapes_of(options.concurrency or (), options.lengths or ()),
                ignore_eos=options.ignore_eos, model=options.model, engine=options.engine)  # fmt: skip
    options.conversion(
        options.mode or MODES[-1]
    )  # raises before a request; without a mode, by the conditions of every mode
    reference = _reference(options)
    draft = _draft(options)
    with closing(Client(url, options.timeout)) as client:
        plan, engine = introduce(client, plan)
        mode = options.mode or ("tempered" if engine.tempered else "raw")
        law = options.conversion(mode, engine.temperature_last)

        def compare(prompt: str | list[int], answer: Answer) -> None:
            if reference is not None:
                reference.add(prompt, answer, law)

        with progress_bar(plan.tokens, f"tokens of {plan.model}") as advance:
            run = audit_server(client, plan, law, judge, lambda tokens: advance(to=tokens), compare, draft)
    return run.report(url, reference)


def _draft(options: ServerOptions) -> DraftLaws | LookupLaws | None:
    from ..verify.server.reference import DraftLaws

    if options.draft is None or isinstance(options.draft, int):
        return None if options.draft is None else LookupLaws(options.draft)
    return DraftLaws(_loaded("draft model", options.draft), options.heat)


def _reference(options: ServerOptions) -> Reference | None:
    if options.reference is None:
        return None
    from ..verify.server.reference import Reference

    if options.mode == "processed" and (options.top_k or options.top_p < 1):
        remedy = "Remove --top-k and --top-p, or let the server report raw log-probabilities."
        raise click.UsageError(f"--reference requires distributions over all tokens. {remedy}")
    return Reference(_loaded("reference", options.reference))


def _loaded(what: str, folder: Path) -> LocalModel:
    from ..verify.server.reference import LocalModel

    with Console(stderr=True).status(f"loading the {what}"):
        return LocalModel(folder)


def _write(report: ServerReport, json_file: Path | None, html: Path | None) -> None:
    if html is not None:
        html.write_text(html_page(report), encoding="utf-8", errors="backslashreplace")
        click.echo(f"page: {html}", err=True)
    evidence, table = report.evidence, None
    said = f"{report}."
    if report.outcomes[0].status != Status.UNDECIDED:
        table = Table("event of the test", *HEADS[1:], title=f"{evidence.tokens:,} tokens", title_justify="left")
        for row in strongest(report):
            table.add_row(*row)
        bounds = evidence.for_bounds.items()
        said += "".join(
            f"\nA bound of {target} requires about {float(f'{tokens:.1e}'):,.0f} tokens." for target, tokens in bounds
        )
    facts = [*report.facts(), *((each.check, each.evidence.reason) for each in report.outcomes[1:])]
    say(report, json_file, table, facts, said)
