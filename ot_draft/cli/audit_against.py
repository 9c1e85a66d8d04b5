"""`ot-draft audit URL --against URL2`: whether two servers have the same law, from their texts alone."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from .console import print_json, progress_bar, table_console
from .refused import Refused

if TYPE_CHECKING:
    from ..audit.against import Agreement
    from ..audit.server import Plan, Prompt

PLAIN = "plain"  # in the place of an address: the same server, without drafts


def against(
    url: str, other: str, names: str, prompts: list[Prompt], given: dict[str, Any], level: float, confidence: float,
    json_file: Path | None,
) -> int:  # fmt: skip
    """Ask both and print the verdict; the exit status."""
    from ..audit.against import LENGTHS, SETTINGS, Match, settings_of
    from ..audit.server import PROMPTS, Plan

    chosen = list(SETTINGS) if names == "all" else [name.strip() for name in names.split(",")]
    if unknown := [name for name in chosen if name not in SETTINGS]:
        raise Refused(f"--settings {unknown[0]}: give all, or some of {', '.join(SETTINGS)}")
    plan = Plan(prompts or PROMPTS, model=given["model"], engine=given["engine"])
    with ExitStack() as opened:
        first, second = (
            _server(opened, address, plan, given["timeout"]) for address in (url, url if other == PLAIN else other)
        )
        if other == PLAIN:
            second = _without_drafts(second)
        ids = first.plan.engine == second.plan.engine == "vllm" and first.gives_ids() and second.gives_ids()
        first, second = replace(first, ids=ids), replace(second, ids=ids)
        settings = settings_of(first, second, chosen, plan.prompts)
        match = Match(first, second, settings, level, confidence, given["lengths"] or LENGTHS)
        with progress_bar(given["tokens"], "tokens of both sides") as advance:
            agreement = match.until(given["tokens"], lambda tokens: advance(to=tokens))
    missing = [name for name in chosen if name not in {each.name for each in settings}]
    notes = [("first", f"{first.plan.model} at {url} ({first.plan.engine})"),
             ("second", f"{second.plan.model} at {other} ({second.plan.engine})"),
             ("compared", "token ids" if ids else "pieces of text")]  # fmt: skip
    notes += [("not asked for", f"{name}: not a setting of both engines") for name in missing]
    notes += [("not asked for", f"{name}: {why}") for name, why in agreement.left_out]
    notes += [("answers left out", f"{why} ({times} times)") for why, times in agreement.unreadable]
    _write(agreement, notes, json_file)
    return 1 if agreement.differs else 2 if agreement.undecided else 0


def _server(opened: ExitStack, url: str, plan: Plan, timeout: float) -> Any:
    from ..audit.against import Server
    from ..audit.client import Client
    from ..audit.server import introduce

    client = opened.enter_context(closing(Client(url, timeout)))
    return Server(client, introduce(client, plan)[0])


def _without_drafts(server: Any) -> Any:
    from ..audit.against import PLAIN as FIELDS

    engine = server.plan.engine
    if engine not in FIELDS:
        raise Refused(
            f"--against plain: a request to {engine} cannot switch drafts off ({', '.join(FIELDS)} has such a field): "
            "start a second server without them and give its address"
        )
    return replace(server, fields=FIELDS[engine])


def _write(agreement: Agreement, notes: list[tuple[str, str]], json_file: Path | None) -> None:
    record = {"notes": notes, **asdict(agreement), "verdict": str(agreement)}
    if json_file == Path("-"):
        print_json(record)
        return
    if json_file is not None:
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    console = table_console(120)
    table = Table("setting", "tokens of both", "e-value", "what won most", title=f"{agreement.tokens:,} tokens of both sides",
                  title_justify="left")  # fmt: skip
    for name, tokens, log_e, context in agreement.settings:
        table.add_row(name, f"{tokens:,}", f"10^{log_e / 2.302585:.1f}", context)
    console.print(table)
    for name, note in notes:
        console.print(f"{name}: {note}", style="dim", highlight=False, markup=False)
    style = "bold red" if agreement.differs else "yellow" if agreement.undecided else "green"
    console.print(f"{agreement}.", style=style, highlight=False, markup=False)
