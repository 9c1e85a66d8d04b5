"""The comparison as a table with footnotes, as records, as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from statistics import median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from ot_draft.cli.decode.measure import OFF, PARTS, Comparison, Measured

NOTES = """tokens a call: block efficiency, with its standard error over {texts}.
by position: share accepted at depth 1, 2, ... among the steps that got there.
draft, verify, select, cache: milliseconds of a step; step: all of it. Tokens a second and speed-up are without the prefill.
predicted: the wall-clock model, tokens a call x plain step / (draft + verify + select), with the costs of short runs before;
where it is off by over {off:.0%}, the cost that changed most since is named."""


def table(comparison: Comparison, title: str) -> Table:
    """One row a method; the fastest in bold."""
    made = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    made.add_column("method")
    made.add_column("drafts", style="dim")
    for name in ("tokens a call", "by position", "tokens/s", "draft", "verify", "select", "cache", "step"):
        made.add_column(name, justify="right", no_wrap=name != "by position")
    for name in ("speed-up", "predicted"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("which cost changed")
    best = max(comparison.rows, key=lambda row: row.tokens_a_second)
    for row in comparison.rows:
        made.add_row(*_cells(comparison, row), style="bold" if row is best else "")
    return made


def _cells(comparison: Comparison, row: Measured) -> list[str]:
    speed_up, error = comparison.speed_up(row)
    plain = row is comparison.rows[0]
    return [
        row.method.label,
        row.method.drafts,
        f"{row.block_efficiency:.2f}" + ("" if plain else _spread(row.error)),
        " ".join("–" if share != share else f"{share:.2f}".lstrip("0") for share in row.by_position),
        f"{row.tokens_a_second:.1f}",
        *(f"{1000 * row.part(name):.1f}" for name in PARTS),
        f"{1000 * row.step:.1f}",
        "1" if plain else f"{speed_up:.2f}{_spread(error)}",
        "" if plain else f"{comparison.predicted(row):.2f}",
        comparison.reason(row),
    ]


def _spread(error: float) -> str:
    return "" if error != error else f" ± {error:.2f}"


def footnotes(comparison: Comparison) -> str:
    """What the columns mean, and why speculation gains or loses here, with the costs that were measured."""
    texts = "prompts" if len(set(comparison.rows[0].prompt)) > 1 else "steps"
    return NOTES.format(texts=texts, off=OFF) + "\n" + why(comparison)


def why(comparison: Comparison) -> str:
    """The costs behind the fastest speculative method, in one sentence or two."""
    plain, drafted = comparison.rows[0], [row for row in comparison.rows if row.method.drafting.shape.size]
    if not drafted:
        return ""
    best = max(drafted, key=lambda row: row.tokens_a_second)
    costs, one = comparison.costs[best.method], comparison.costs[plain.method].verify
    positions, drafting = best.method.drafting.shape.size + 1, best.method.drafting
    times = costs.step / one
    said = (
        f"The fastest of the speculative methods, {best.method.label} ({best.method.drafts}): a target call takes"
        f" {1000 * one:.0f} ms on 1 position and {1000 * costs.verify:.0f} ms on {positions}, its {drafting.shape.length} draft"
        f" calls {1000 * costs.draft:.0f} ms, the selection {1000 * costs.select:.1f} ms: a step costs {times:.2f} plain ones, and"
        f" brings {best.block_efficiency:.2f} tokens."
    )
    if best.tokens_a_second > plain.tokens_a_second:
        return said + f" Speculation gains where a call brings more than {times:.2f} tokens."
    reasons = []
    if costs.verify > 1.3 * one:
        reasons.append(
            "the target's time grows with the number of positions here, as that of few cores does and a GPU's does not"
        )
    if costs.draft > 0.3 * one:
        reasons.append("the draft is not small beside the target")
    said += f" It loses time because it would need more than {times:.2f} tokens a call"
    return said + (f": {', and '.join(reasons)}." if reasons else ".")


def records(comparison: Comparison) -> list[dict[str, Any]]:
    """One dictionary a method; seconds, and None where a number is not known."""
    found = []
    for row in comparison.rows:
        speed_up, error = comparison.speed_up(row)
        shape = row.method.drafting.shape
        record: dict[str, Any] = {
            "rule": row.method.rule, "law": row.method.law, "drafts": row.method.drafts, "nodes": shape.size,
            "length": shape.length, "steps": len(row.accepted), "prompts": len(set(row.prompt)),
            "block_efficiency": row.block_efficiency, "error": row.error, "acceptance_by_position": row.by_position,
            "tokens_a_second": row.tokens_a_second,
        }  # fmt: skip
        record |= {name: row.part(name) for name in PARTS} | {"step": row.step}
        record |= {"speed_up": speed_up, "speed_up_error": error, "predicted": comparison.predicted(row)}
        record |= {
            f"{name}_before": getattr(comparison.costs[row.method], name) for name in ("verify", "draft", "select")
        }
        record["changed"] = comparison.reason(row)
        found.append({name: _known(value) for name, value in record.items()})
    return found


def plan_costs(comparison: Comparison) -> dict[str, dict[str, float]]:
    """The costs as `ot-draft plan --costs` reads them, in milliseconds; of draft calls, those of i.i.d. paths."""
    verify: dict[int, float] = {}
    draft: dict[int, list[float]] = {}
    select: dict[str, float] = {}
    for method, costs in comparison.costs.items():
        shape, rule = method.drafting.shape, method.drafting.rule
        verify[shape.size + 1] = costs.verify
        if rule is not None and method.law == "iid" and "×" in method.drafts:
            draft.setdefault(len(shape.children(0)), []).append(costs.draft / shape.length)
            select[getattr(rule, "rule", rule).name] = costs.select
    drafting = {rows: median(found) for rows, found in draft.items()}
    tables: dict[str, dict[Any, float]] = {"verify": verify, "draft": drafting, "select": select}
    return {name: {str(at): 1000 * cost for at, cost in sorted(found.items())} for name, found in tables.items()}


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """Records as CSV; the acceptances by position between spaces."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        shares = " ".join("" if share is None else f"{share:.4f}" for share in row["acceptance_by_position"])
        writer.writerow(row | {"acceptance_by_position": shares})
    return out.getvalue()


def _known(value: Any) -> Any:
    if isinstance(value, list):
        return [_known(each) for each in value]
    return None if isinstance(value, float) and value != value else value
