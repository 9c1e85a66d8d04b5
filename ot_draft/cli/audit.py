"""`ot-draft audit`: whether a running server, or a log, emits tokens by the law that it reports."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from ..audit import Audit, Verdict
from ..audit.page import SHOWN, e_value, html_page
from ..audit.reported import MODES, Reported
from ..errors import DraftSelectionError
from .audit_against import against
from .console import one_line, print_json, progress_bar, table_console
from .options import Numbers, can_write
from .refused import Refused

if TYPE_CHECKING:
    from ..audit.answers import Answer
    from ..audit.reference import Reference

DIFFERS = "differs"  # how a comparison with a reference begins that tells two models
ENGINES = ("auto", "vllm", "sglang", "llamacpp", "llama-cpp-python", "openai")
UNDECIDED = 2  # exit status
MOST_TOGETHER = 256
LONGEST = 65_536  # tokens of an answer


@click.command()
@click.argument("subject", metavar="URL|LOG")
@click.option("--model", default="", help="Name of the model, as the server has it [default: its first].")
@click.option("--prompts", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Texts to continue, one a line; a line in JSON is a text, or token ids [default: sixteen of our own].")  # fmt: skip
@click.option("--tokens", type=click.IntRange(1), default=20_000, show_default=True, help="To read in all, at most.")
@click.option(
    "--lengths",
    "--length",
    type=Numbers(LONGEST),
    help="Tokens an answer, in turn [default: 16, and 256 in two waves of five].",
)
@click.option(
    "--concurrency",
    type=Numbers(MOST_TOGETHER),
    help="Requests at a time, in turn, up to 256 [default: a mix of 1, 4, 8 and 32].",
)
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
@click.option(
    "--tolerance", type=float, default=1e-4, show_default=True, help="Relative error of reported probabilities."
)
@click.option("--reference", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of the model that should be served: its law is computed here, by transformers.")  # fmt: skip
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the verdict as JSON; -: print."
)
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page.")
@click.option("--against", "other", metavar="URL2|plain",
              help="Another server that should have the same law (plain: the same one, without drafts): texts are compared, no "
              "log-probabilities are asked for.")  # fmt: skip
@click.option(
    "--settings", default="plain", show_default=True, help="With --against: settings to compare, by commas, or all."
)
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
        if other is not None:
            if html is not None or given["mode"] or given["reference"] is not None or not subject.startswith("http"):
                raise Refused(
                    "--against compares the texts of two servers: leave --html, --logprobs and --reference away"
                )
            sys.exit(against(subject, other, settings, _prompts(given["prompts"]), given, level, confidence, json_file))
        judge = Audit(level, confidence, tolerance)
        is_url = subject.startswith(("http://", "https://"))
        for name, file in (("--json", json_file), ("--html", html)):
            if file is not None and file != Path("-"):
                _can_write(name, file, None if is_url else Path(subject))
        notes = _ask(subject, judge, given) if is_url else _read(Path(subject), judge, given)
        verdict = judge.verdict()
        _write(verdict, subject, notes, json_file, html)
    differs = dict(notes).get("reference", "").startswith(DIFFERS)
    sys.exit(1 if differs else UNDECIDED if verdict.undecided else int(verdict.biased))


def _can_write(name: str, file: Path, log: Path | None) -> None:
    if log is not None and file.exists() and log.exists() and file.samefile(log):
        raise Refused(f"{name} {file}: is the log that is audited: name another file")
    can_write(name, file)


def _read(path: Path, judge: Audit, given: dict[str, Any]) -> list[tuple[str, str]]:
    from ..audit.log import audit_log

    if not path.is_file():
        raise Refused(f"{path}: there is no such file, and a server's address begins with http:// or https://")
    if given["reference"] is not None:
        raise Refused("--reference compares the law that a server reports: give its address, not a log")
    with progress_bar(100, f"reading {path.name}, per cent") as advance:
        audit_log(path, judge, lambda share: advance(to=round(100 * share)))
    if not judge.tokens:
        raise Refused(f"{path}: no token is in it")
    return []


def _ask(url: str, judge: Audit, given: dict[str, Any]) -> list[tuple[str, str]]:
    """Notes on what was asked and answered."""
    from ..audit.client import Client
    from ..audit.server import PROMPTS, Plan, audit_server, introduce, mixed

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
             ("laws of equal contexts", outcome.contexts)]  # fmt: skip
    notes += [("left out", f"{c} requests of {n} tokens: {reason}") for (c, n), reason in outcome.left_out.items()]
    notes += [("answer left out", f"{reason} ({times} times)") for reason, times in outcome.unreadable.most_common(5)]
    notes += [("asked again", f"{reason} ({times} times)") for reason, times in client.again.most_common(5)]
    if reference is not None and not judge.undecided:
        notes.append(("reference", str(reference.comparison())))
    return notes


def _reference(given: dict[str, Any]) -> Reference | None:
    if given["reference"] is None:
        return None
    from ..audit.reference import Reference

    if given["mode"] == "processed" and (given["top_k"] or given["top_p"] < 1):
        raise Refused(
            "--reference compares whole laws: leave --top-k and --top-p away, or let the server report raw ones"
        )
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


def _write(
    verdict: Verdict, subject: str, notes: list[tuple[str, str]], json_file: Path | None, html: Path | None
) -> None:
    record = {"subject": subject, "notes": notes, **verdict.as_dict()}
    if html is not None:
        html.write_text(html_page(verdict, subject, notes), encoding="utf-8", errors="backslashreplace")
        click.echo(f"page: {html}", err=True)
    if json_file == Path("-"):
        print_json(record)
        return
    if json_file is not None:
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    console = table_console(140)
    if not verdict.undecided:
        console.print(_table(verdict))
    for name, note in notes:
        console.print(f"{name}: {note}", style="dim", highlight=False, markup=False)
    style = "yellow" if verdict.undecided else "bold red" if verdict.biased else "green"
    console.print(f"{verdict}.", style=style, highlight=False, markup=False)
    for target, tokens in () if verdict.undecided else verdict.for_bounds.items():
        console.print(f"A bound of {target} takes about {tokens:,} tokens.", style="dim", highlight=False)


def _table(verdict: Verdict) -> Table:
    """The bets that won most."""
    made = Table(
        "what is bet on",
        "tokens",
        "came",
        "reported",
        "e-value",
        title=f"{verdict.tokens:,} tokens",
        title_justify="left",
    )
    for each in verdict.findings[:SHOWN]:
        made.add_row(
            each.event, f"{each.tokens:,}", f"{each.came:.2%}", f"{each.expected:.2%}", e_value(each.log_e_value)
        )
    return made
