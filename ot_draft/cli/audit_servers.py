"""`ot-draft audit servers A B`: whether two servers, or one with and without drafts, sample from the same distribution."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from pathlib import Path

import click
from rich.table import Table

from ..errors import DraftSelectionError
from ..verify.server.against import (
    LENGTHS,
    PROMPTS,
    SETTINGS,
    WITHOUT_DRAFTS,
    Agreement,
    Server,
    TwoServerTest,
    settings_of,
)
from ..verify.server.client import Client
from ..verify.server.server import RequestPlan, introduce
from ..verify.server.verdict import e_value
from .audit_options import UNDECIDED, Notes, Prompt, options_of_servers, say
from .console import one_line, progress_bar
from .options import can_write

PLAIN = "plain"  # instead of a second URL: the same server, without drafts
DRAFTS_ALL_THE_SAME = (
    "plain requires a server whose requests can disable drafts, but this one counts {drafted:,} draft tokens, as llama.cpp of 2026 does. "
    "Start a second server without drafts and pass its URL."
)
NOTHING_DRAFTED = (
    "plain requires a server that drafts, but this one counts 0 draft tokens. Use prompts for which it drafts (with prompt lookup: "
    "repetitive texts), or start a second server without drafts and pass its URL."
)


@click.command("servers")
@click.argument("first", metavar="URL")
@click.argument("second", metavar="URL2|plain")
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

    URL, URL2: OpenAI-compatible servers; plain: the first server without drafts, if requests can disable them (older llama.cpp). The
    API key is read from OT_DRAFT_AUDIT_KEY or OPENAI_API_KEY. Use --settings to compare temperatures and truncations, too.

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
        plan = RequestPlan(prompts or PROMPTS, model=model, engine=engine)
        with ExitStack() as opened:
            one = _server(opened, first, plan, timeout)
            other = (
                _server(opened, first, plan, timeout, drafts=False)
                if second == PLAIN
                else _server(opened, second, plan, timeout)
            )
            ids = one.plan.engine == other.plan.engine == "vllm" and one.gives_ids() and other.gives_ids()
            one, other = replace(one, ids=ids), replace(other, ids=ids)
            test = TwoServerTest(
                one, other, settings_of(one, other, chosen, plan.prompts), level, confidence, lengths or LENGTHS
            )
            with progress_bar(tokens, "tokens of both sides") as advance:

                def on_wave(read: int) -> None:
                    advance(to=read)
                    if second == PLAIN and other.drafted:
                        raise click.UsageError(DRAFTS_ALL_THE_SAME.format(drafted=other.drafted))

                agreement = test.run(tokens, on_wave)
        if second == PLAIN and not one.drafted and not agreement.differs and not agreement.undecided:
            agreement = replace(agreement, undecided=NOTHING_DRAFTED)
        sides = (("first", one, first), ("second", other, second))
        _write(agreement, _notes(sides, chosen, test, agreement), json_file)
    sys.exit(1 if agreement.differs else UNDECIDED if agreement.undecided else 0)


def _server(opened: ExitStack, url: str, plan: RequestPlan, timeout: float, drafts: bool = True) -> Server:
    client = opened.enter_context(closing(Client(url, timeout)))
    plan = introduce(client, plan)[0]
    if not drafts and plan.engine not in WITHOUT_DRAFTS:
        raise click.UsageError(
            f"plain must be used with {', '.join(WITHOUT_DRAFTS)}, since requests to {plan.engine} cannot disable drafts. "
            "Start a second server without drafts and pass its URL."
        )
    return Server(client, plan, fields={} if drafts else WITHOUT_DRAFTS[plan.engine])


def _notes(
    sides: tuple[tuple[str, Server, str], ...], chosen: list[str], test: TwoServerTest, agreement: Agreement
) -> Notes:
    """Notes on what was asked, and of whom."""
    notes = [(which, f"{side.plan.model} at {address} ({side.plan.engine})") for which, side, address in sides]
    notes.append(("compared", "token ids" if all(side.ids for _, side, _ in sides) else "pieces of text"))
    notes += [("drafted", f"{side.drafted:,} tokens of the {which} side by its own count")
              for which, side, _ in sides if side.drafted is not None]  # fmt: skip
    missing = [name for name in chosen if name not in {each.name for each in test.settings}]
    notes += [("not asked for", f"{name}: not a setting of both engines") for name in missing]
    notes += [("not asked for", f"{name}: {why}") for name, why in agreement.left_out]
    return notes + [("answer left out", f"{why} ({times} times)") for times, why in agreement.unreadable]


def _write(agreement: Agreement, notes: Notes, json_file: Path | None) -> None:
    title = f"{agreement.tokens:,} tokens of both sides"
    table = Table("setting", "tokens of both", "e-value", "what won most", title=title, title_justify="left")
    for name, tokens, log_e, context in agreement.settings:
        table.add_row(name, f"{tokens:,}", e_value(log_e), context)
    style = "bold red" if agreement.differs else "yellow" if agreement.undecided else "green"
    record = {"notes": notes, **asdict(agreement), "verdict": str(agreement)}
    say(record, json_file, table, notes, f"{agreement}.", style)
