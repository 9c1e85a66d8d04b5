"""`ot-draft audit servers A B`: whether two servers sample from the same distribution."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from ..errors import DraftSelectionError
from ..verify.e_values import e_value_text
from ..verify.outcome import Status
from ..verify.server.against import ServerSide, TwoServerPlan, TwoServerTest, settings_of
from ..verify.server.client import Client
from ..verify.server.report import ServerReport
from ..verify.server.server import RequestPlan, introduce
from ..verify.server.settings import SETTINGS, prompts_for_two
from .audit_options import Prompt, options_of_servers, say
from .console import one_line, progress_bar
from .options import can_write


@click.command("servers")
@click.argument("first", metavar="URL")
@click.argument("second", metavar="URL2")
@options_of_servers
@click.option(
    "--settings",
    default="plain",
    show_default=True,
    help=f"Comma-separated sampling settings to compare, or all: {', '.join(SETTINGS)}.",
)
def servers(
    first: str, second: str, model: str, engine: str, prompts: list[Prompt] | None, tokens: int, lengths: tuple[int, ...] | None,
    timeout: float, level: float, confidence: float, json_file: Path | None, settings: str,
) -> None:  # fmt: skip
    """Test whether two servers sample from the same distribution, by their responses to the same requests, without log-probabilities.

    URL, URL2: OpenAI-compatible servers. The API key is read from OT_DRAFT_AUDIT_KEY or OPENAI_API_KEY. Use --settings to compare
    temperatures and truncations, too.

    Exit status: 0 if no difference was found, 1 if a difference was found, 2 if undecided, 70 for an internal error.
    """
    with one_line((DraftSelectionError, OSError)):
        if json_file is not None and json_file != Path("-"):
            can_write("--json", json_file)
        chosen = list(SETTINGS) if settings == "all" else [name.strip() for name in settings.split(",")]
        if unknown := [name for name in chosen if name not in SETTINGS]:
            raise click.UsageError(
                f"--settings must be all, or some of {', '.join(SETTINGS)}, got {unknown[0]!r}. Correct it."
            )
        plan = RequestPlan(prompts or prompts_for_two(), model=model, engine=engine)
        with ExitStack() as opened:
            one = _server(opened, first, plan, timeout)
            other = _server(opened, second, plan, timeout)
            ids = one.plan.engine == other.plan.engine == "vllm" and all(
                side.reports_ids(plan.prompts[0]) for side in (one, other)
            )
            one, other = replace(one, ids=ids), replace(other, ids=ids)
            sizes = TwoServerPlan(lengths=lengths) if lengths else TwoServerPlan()
            compared = settings_of(one, other, chosen, plan.prompts, sizes)
            test = TwoServerTest(one, other, compared, level, confidence, sizes)
            with progress_bar(tokens, "tokens of both sides") as advance:
                found = test.run(tokens, lambda read: advance(to=read))
        sides = (("first", one, first), ("second", other, second))
        report = replace(found, subject=f"{first} and {second}", tried=_tried(sides, chosen, test))
        _write(report, json_file)
    sys.exit(report.exit_status)


def _server(opened: ExitStack, url: str, plan: RequestPlan, timeout: float) -> ServerSide:
    client = opened.enter_context(closing(Client(url, timeout)))
    return ServerSide(client, introduce(client, plan)[0])


def _tried(sides: tuple[tuple[str, ServerSide, str], ...], chosen: list[str], test: TwoServerTest) -> dict[str, Any]:
    """Facts about the servers and the settings."""
    tried: dict[str, Any] = {
        which: f"{side.plan.model} at {address} ({side.plan.engine})" for which, side, address in sides
    }
    tried["compared"] = "token ids" if all(side.ids for _, side, _ in sides) else "pieces of text"
    for which, side, _ in sides:
        if side.drafted is not None:
            tried[f"draft tokens of the {which} server by its own count"] = side.drafted
    if missing := [name for name in chosen if name not in {each.name for each in test.settings}]:
        tried["settings that an engine lacks"] = missing
    return tried


def _write(report: ServerReport, json_file: Path | None) -> None:
    title = f"{report.evidence.tokens:,} tokens of both servers"
    table = Table("setting", "tokens of both", "e-value", "strongest evidence", title=title, title_justify="left")
    settings, facts = report.outcomes[1:], [*report.facts()]
    for each in settings:
        found = each.evidence
        if each.status != Status.SKIPPED:
            table.add_row(each.check, f"{found.tokens:,}", e_value_text(found.log_e_value), found.reason)
    facts += [(f"{each.check} left out", each.evidence.reason) for each in settings if each.status == Status.SKIPPED]
    say(report, json_file, table, facts, f"{report}.")
