"""`ot-draft audit`: whether a running server, or a log, emits tokens by the law that it reports; whether two servers have one law."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from ..audit import Audit, Verdict
from ..audit.page import HEADS, html_page, strongest
from ..audit.reported import MODES, Reported
from ..audit.verdict import e_value
from ..errors import DraftSelectionError
from .console import one_line, print_json, progress_bar, table_console
from .options import Numbers, can_write
from .refused import Refused

if TYPE_CHECKING:
    from ..audit.against import Agreement, Server
    from ..audit.answers import Answer
    from ..audit.reference import Reference
    from ..audit.server import Plan

    Notes = list[tuple[str, str]]

DIFFERS = "differs"  # how a comparison with a reference begins that tells two models
ENGINES = ("auto", "vllm", "sglang", "llamacpp", "llama-cpp-python", "openai")
PLAIN = "plain"  # in the place of a second address: the same server, without drafts
UNDECIDED = 2  # exit status
MOST_TOGETHER = 256
LONGEST = 65_536  # tokens of an answer


@click.command()
@click.argument("subject", metavar="URL|LOG")
@click.option("--model", default="", help="Name of the model, as the server has it [default: its first].")
@click.option("--prompts", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Texts to continue, one a line; a line in JSON is a text, or token ids [default: sixteen of our own].")  # fmt: skip
@click.option("--tokens", type=click.IntRange(1), default=20_000, show_default=True, help="To read in all, at most.")
@click.option("--lengths", "--length", type=Numbers(LONGEST),
              help="Tokens an answer, in turn [default: 16, and 256 in two waves of five].")  # fmt: skip
@click.option("--concurrency", type=Numbers(MOST_TOGETHER),
              help="Requests at a time, in turn, up to 256 [default: a mix of 1, 4, 8 and 32].")  # fmt: skip
@click.option("--temperature", type=float, default=1.0, show_default=True)
@click.option("--top-k", type=int, default=0, show_default=True, help="0: all tokens.")
@click.option("--top-p", type=float, default=1.0, show_default=True)
@click.option("--logprobs", "mode", type=click.Choice(MODES),
              help="What the server reports: raw (of the model), tempered (after the temperature), processed (of the law that is "
              "drawn from) [default: tempered for SGLang, else raw].")  # fmt: skip
@click.option("--listed", type=click.IntRange(1), default=20, show_default=True, help="Likeliest tokens to ask for.")
@click.option("--engine", type=click.Choice(ENGINES), default="auto", show_default=True,
              help="Whose fields to send; openai: only the standard's.")  # fmt: skip
@click.option("--ignore-eos", is_flag=True, help="Ask the server to go on after the end of text.")
@click.option("--timeout", type=click.FloatRange(0.1), default=60.0, show_default=True,
              help="Seconds an answer, from connecting to its last byte.")  # fmt: skip
@click.option("--level", type=float, default=1e-6, show_default=True, help="Probability of a false alarm, ever.")
@click.option("--confidence", type=float, default=0.999, show_default=True, help="Of the bound.")
@click.option("--tolerance", type=float, default=1e-4, show_default=True,
              help="Relative error of reported probabilities.")  # fmt: skip
@click.option("--reference", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of the model that should be served: its law is computed here, by transformers.")  # fmt: skip
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path),
              help="Write the verdict as JSON; -: print.")  # fmt: skip
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page.")
@click.option("--against", "other", metavar="URL2|plain",
              help="Another server that should have the same law (plain: the same one, without drafts): texts are compared, no "
              "log-probabilities are asked for.")  # fmt: skip
@click.option("--settings", default="plain", show_default=True,
              help="With --against: settings to compare, by commas, or all.")  # fmt: skip
def audit(
    subject: str, other: str | None, settings: str, level: float, confidence: float, tolerance: float, json_file: Path | None,
    html: Path | None, **given: Any,
) -> None:  # fmt: skip
    """Whether tokens follow the law that is reported for them, from a running server or from a log.

    URL: an OpenAI-compatible server that reports log-probabilities (http://localhost:8000). It alone is talked to; a key is read from
    OT_DRAFT_AUDIT_KEY or OPENAI_API_KEY. LOG: a .jsonl or .npz file of tokens with their laws (docs/audit.md).

    Exit status: 0 if no bias was found, 1 if there is one (or the reference is another model), 2 if it cannot be decided from what
    was given, 70 for an error of ours.
    """
    with one_line((DraftSelectionError, OSError, UnicodeDecodeError)):
        is_url = subject.startswith(("http://", "https://"))
        for name, file in (("--json", json_file), ("--html", html)):
            if file is not None and file != Path("-"):
                if not is_url and file.exists() and Path(subject).exists() and file.samefile(subject):
                    raise Refused(f"{name} {file}: is the log that is audited: name another file")
                can_write(name, file)
        if other is not None:
            sampled = given["temperature"] != 1 or given["top_k"] or given["top_p"] != 1
            if html is not None or given["mode"] or given["reference"] is not None or not is_url or sampled:
                raise Refused(
                    "--against compares the texts of two servers: leave --html, --logprobs and --reference away, and name "
                    "temperatures and truncations by --settings"
                )
            agreement, notes = _against(subject, other, settings, given, level, confidence)
            _write_agreement(agreement, notes, json_file)
            sys.exit(1 if agreement.differs else UNDECIDED if agreement.undecided else 0)
        judge = Audit(level, confidence, tolerance)
        notes = _ask(subject, judge, given) if is_url else _read(Path(subject), judge, given)
        verdict = judge.verdict()
        _write(verdict, subject, notes, json_file, html)
    differs = dict(notes).get("reference", "").startswith(DIFFERS)
    sys.exit(1 if differs else UNDECIDED if verdict.undecided else int(verdict.biased))


def _read(path: Path, judge: Audit, given: dict[str, Any]) -> Notes:
    from ..audit.log import read_log

    if not path.is_file():
        raise Refused(f"{path}: there is no such file, and a server's address begins with http:// or https://")
    if given["reference"] is not None:
        raise Refused("--reference compares the law that a server reports: give its address, not a log")
    with progress_bar(100, f"reading {path.name}, per cent") as advance:
        for token in read_log(path, judge.leave_out, lambda share: advance(to=round(100 * share))):
            judge.add(token)
    if not judge.tokens:
        raise Refused(f"{path}: no token is in it")
    return []


def _ask(url: str, judge: Audit, given: dict[str, Any]) -> Notes:
    """Notes on what was asked and answered."""
    from ..audit.client import Client
    from ..audit.server import BY_IDS, PROMPTS, Plan, audit_server, introduce, mixed

    plan = Plan(_prompts(given["prompts"]) or PROMPTS, given["tokens"], mixed(given["concurrency"] or (), given["lengths"] or ()),
                ignore_eos=given["ignore_eos"], model=given["model"], engine=given["engine"])  # fmt: skip
    if given["mode"]:
        _law(given, given["mode"])  # refused before anybody is asked
    reference = _reference(given)
    with closing(Client(url, given["timeout"])) as client:
        plan, engine = introduce(client, plan)
        mode = given["mode"] or ("tempered" if engine.tempered else "raw")
        law = _law(given, mode, engine.temperature_last)

        def compare(prompt: str | list[int], answer: Answer) -> None:
            if reference is not None:
                reference.add(prompt, answer, law)

        with progress_bar(plan.tokens, f"tokens of {plan.model}") as advance:
            outcome = audit_server(client, plan, law, judge, lambda tokens: advance(to=tokens), compare)
    asked = [shape for shape in dict.fromkeys(plan.shapes) if shape not in outcome.left_out]
    notes = [("model", plan.model), ("engine", plan.engine), ("log-probabilities", mode), ("answers", f"{outcome.answers:,}"),
             ("requests at a time x tokens an answer", ", ".join(f"{c} x {n}" for c, n in asked)),
             ("laws of equal contexts", str(outcome.contexts))]  # fmt: skip
    notes += [("left out", f"{c} requests of {n} tokens: {reason}") for (c, n), reason in outcome.left_out.items()]
    notes += [("answer left out", f"{reason} ({times} times)") for times, reason in judge.left_out.reasons[:5]]
    if outcome.doubtful:
        said = (
            "tokens that were the last of a list keyed by texts, and may have taken the place of others of their texts"
        )
        notes.append(("paid for", f"{outcome.doubtful:,} {said}: {BY_IDS}"))
    if judge.biased:
        notes.append(
            ("or", "the server has defaults of its own (a penalty, a top-k), which shape the law after what it reports")
        )
    if judge.biased and outcome.by_text:
        notes.append(("or", f"its lists are filled up to so many texts, where several tokens have one: {BY_IDS}"))
    notes += [("asked again", f"{reason} ({times} times)") for reason, times in client.again.most_common(5)]
    if reference is not None and not judge.undecided:
        notes.append(("reference", reference.verdict()))
    return notes


def _against(
    subject: str, other: str, names: str, given: dict[str, Any], level: float, confidence: float
) -> tuple[Agreement, Notes]:
    """The verdict on two servers, and notes on what was asked."""
    from ..audit.against import LENGTHS, PROMPTS, SETTINGS, Match, settings_of
    from ..audit.server import Plan

    chosen = list(SETTINGS) if names == "all" else [name.strip() for name in names.split(",")]
    if unknown := [name for name in chosen if name not in SETTINGS]:
        raise Refused(f"--settings {unknown[0]}: give all, or some of {', '.join(SETTINGS)}")
    plan = Plan(_prompts(given["prompts"]) or PROMPTS, model=given["model"], engine=given["engine"])
    with ExitStack() as opened:
        first = _server(opened, subject, plan, given["timeout"], True)
        second = _server(opened, subject if other == PLAIN else other, plan, given["timeout"], other != PLAIN)
        ids = first.plan.engine == second.plan.engine == "vllm" and first.gives_ids() and second.gives_ids()
        first, second = replace(first, ids=ids), replace(second, ids=ids)
        settings = settings_of(first, second, chosen, plan.prompts)
        match = Match(first, second, settings, level, confidence, given["lengths"] or LENGTHS)
        with progress_bar(given["tokens"], "tokens of both sides") as advance:
            agreement = match.until(given["tokens"], lambda tokens: advance(to=tokens))
    sides = (("first", first, subject), ("second", second, other))
    notes = [(which, f"{side.plan.model} at {address} ({side.plan.engine})") for which, side, address in sides]
    notes.append(("compared", "token ids" if ids else "pieces of text"))
    notes += [("drafted", f"{side.drafted:,} tokens of the {which} side by its own count")
              for which, side, _ in sides if side.drafted is not None]  # fmt: skip
    missing = [name for name in chosen if name not in {each.name for each in settings}]
    notes += [("not asked for", f"{name}: not a setting of both engines") for name in missing]
    notes += [("not asked for", f"{name}: {why}") for name, why in agreement.left_out]
    return agreement, notes + [("answer left out", f"{why} ({times} times)") for times, why in agreement.unreadable]


def _server(opened: ExitStack, url: str, plan: Plan, timeout: float, drafts: bool) -> Server:
    from ..audit.against import WITHOUT_DRAFTS, Server
    from ..audit.client import Client
    from ..audit.server import introduce

    client = opened.enter_context(closing(Client(url, timeout)))
    plan = introduce(client, plan)[0]
    if not drafts and plan.engine not in WITHOUT_DRAFTS:
        raise Refused(
            f"--against plain: a request to {plan.engine} cannot switch drafts off ({', '.join(WITHOUT_DRAFTS)} has such a field): "
            "start a second server without them and give its address"
        )
    return Server(client, plan, fields={} if drafts else WITHOUT_DRAFTS[plan.engine])


def _reference(given: dict[str, Any]) -> Reference | None:
    if given["reference"] is None:
        return None
    from ..audit.reference import Reference

    if given["mode"] == "processed" and (given["top_k"] or given["top_p"] < 1):
        remedy = "leave --top-k and --top-p away, or let the server report raw ones"
        raise Refused(f"--reference compares whole laws: {remedy}")
    with Console(stderr=True).status("loading the reference"):
        return Reference(given["reference"])


def _law(given: dict[str, Any], mode: str, temperature_last: bool = False) -> Reported:
    return Reported(given["temperature"], given["top_k"], given["top_p"], mode, given["listed"], temperature_last)


def _prompts(path: Path | None) -> list[str | list[int]]:
    """One a line, empty lines apart; what begins as a JSON text or list is one."""
    if path is None:
        return []
    found: list[str | list[int]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        prompt: Any = line
        if line.lstrip()[0] in '["':
            try:
                prompt = json.loads(line)
            except ValueError as error:
                raise Refused(f"{path}, line {number}: begins like JSON and is none: {error}") from error
        if not prompt or (type(prompt) is list and not all(type(token) is int for token in prompt)):
            raise Refused(f"{path}, line {number}: give a text, or a list of token ids")
        found.append(prompt)
    if not found:
        raise Refused(f"{path}: no prompt is in it")
    return found


def _write(verdict: Verdict, subject: str, notes: Notes, json_file: Path | None, html: Path | None) -> None:
    if html is not None:
        html.write_text(html_page(verdict, subject, notes), encoding="utf-8", errors="backslashreplace")
        click.echo(f"page: {html}", err=True)
    table = Table("what is bet on", *HEADS[1:], title=f"{verdict.tokens:,} tokens", title_justify="left")
    for row in strongest(verdict):
        table.add_row(*row)
    style = "yellow" if verdict.undecided else "bold red" if verdict.biased else "green"
    record = {"subject": subject, "notes": notes, **verdict.as_dict()}
    if not _say(record, json_file, None if verdict.undecided else table, notes, f"{verdict}.", style):
        return
    for target, tokens in () if verdict.undecided else verdict.for_bounds.items():
        click.secho(f"A bound of {target} takes about {tokens:,} tokens.", dim=True)


def _write_agreement(agreement: Agreement, notes: Notes, json_file: Path | None) -> None:
    title = f"{agreement.tokens:,} tokens of both sides"
    table = Table("setting", "tokens of both", "e-value", "what won most", title=title, title_justify="left")
    for name, tokens, log_e, context in agreement.settings:
        table.add_row(name, f"{tokens:,}", e_value(log_e), context)
    style = "bold red" if agreement.differs else "yellow" if agreement.undecided else "green"
    record = {"notes": notes, **asdict(agreement), "verdict": str(agreement)}
    _say(record, json_file, table, notes, f"{agreement}.", style)


def _say(
    record: dict[str, Any], json_file: Path | None, table: Table | None, notes: Notes, said: str, style: str
) -> bool:
    """Print a verdict, or its record as JSON in its place; whether it was the former."""
    if json_file == Path("-"):
        print_json(record)
        return False
    if json_file is not None:
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    console = table_console(140)
    if table is not None:
        console.print(table)
    for name, note in notes:
        console.print(f"{name}: {note}", style="dim", highlight=False, markup=False)
    console.print(said, style=style, highlight=False, markup=False)
    return True
