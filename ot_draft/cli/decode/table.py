"""The comparison as a table with footnotes, as records, as rows of a CSV."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from ...decoding.benchmark import COSTS, OFF, Comparison, Measured, MethodCosts

PARTS = ("draft", "verify", "select", "cache")


def table(comparison: Comparison, title: str) -> Table:
    """One row a method; the fastest in bold."""
    columns = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    columns.add_column("method")
    columns.add_column("drafts", style="dim")
    for name in ("tokens per target call", "acceptance by position"):
        columns.add_column(name, justify="right")
    for name in ("tokens/s", "draft", "verify", "select", "cache", "step"):
        columns.add_column(name, justify="right", no_wrap=True)
    for name in ("speed-up", "predicted"):
        columns.add_column(name, justify="right", no_wrap=True)
    columns.add_column("which cost changed")
    best = max(comparison.rows, key=lambda row: row.tokens_a_second)
    for row in comparison.rows:
        speed_up, error = comparison.speed_up(row)
        baseline, predicted = row is comparison.rows[0], comparison.predicted(row)
        columns.add_row(
            row.method.label,
            row.method.drafts,
            f"{row.block_efficiency:.2f}" + ("" if baseline else _spread(row.error)),
            " ".join("–" if share != share else f"{share:.2f}" for share in row.by_position),
            f"{row.tokens_a_second:.1f}",
            *("" if row.part(name) != row.part(name) else f"{1000 * row.part(name):.1f}" for name in PARTS),
            f"{1000 * row.step:.1f}",
            "1" if baseline else f"{speed_up:.2f}{_spread(error)}",
            "" if baseline or predicted is None else f"{predicted:.2f}",
            comparison.reason(row),
            style="bold" if row is best else "",
        )
    return columns


def interim(row: Measured, prompts: int) -> str:
    """One line about a method after some of the prompts."""
    return (
        f"{row.method.label} ({row.method.drafts or 'no draft'}), {len(row.groups)} of {prompts} prompts:"
        f" {row.block_efficiency:.2f} tokens per target call, {row.tokens_a_second:.1f} tokens/s"
    )


def _spread(error: float) -> str:
    return "" if error != error else f" ± {error:.2f}"


def footnotes(comparison: Comparison) -> str:
    """Text below the table: meaning of the columns, and why speculation gains or loses here, with the measured costs."""
    texts = "prompts" if len({call.text for call in comparison.rows[0].calls}) > 1 else "steps"
    notes = f"""tokens per target call: block efficiency ± standard error over {texts}.
acceptance by position: share accepted at depth 1, 2, ... of the steps that accepted all earlier positions.
draft, verify, select, cache: parts of a step, in ms; step: their total. tokens/s and speed-up exclude the prefill.
predicted: wall-clock model, tokens per target call x autoregressive step / (draft + verify + select), with costs from short runs before;
select includes cache. If it is off by more than {OFF:.0%}, the last column names the cost that changed most."""
    return f"{notes}\n{why(comparison)}"


def why(comparison: Comparison) -> str:
    """Return the costs of the fastest speculative method, in one or two sentences."""
    baseline, costed = comparison.rows[0], [row for row in comparison.rows if row.method in comparison.costs]
    drafted = [row for row in costed if row.method.drafting.tree.bounds.size]
    if not drafted:
        return ""
    best = max(drafted, key=lambda row: row.tokens_a_second)
    costs, one = comparison.costs[best.method], comparison.costs[baseline.method].verify
    positions, drafting = best.method.drafting.tree.bounds.size + 1, best.method.drafting
    times = comparison.cost(best)
    said = (
        f"Fastest speculative method: {best.method.label} ({best.method.drafts}). A target call takes {1000 * one:.0f} ms on 1"
        f" position and {1000 * costs.verify:.0f} ms on {positions}; {drafting.tree.bounds.length} draft model calls take"
        f" {1000 * costs.draft:.0f} ms, the selection {1000 * costs.select:.1f} ms. A step costs as much as {times:.2f} autoregressive"
        f" steps and emits {best.block_efficiency:.2f} tokens."
    )
    if best.tokens_a_second > baseline.tokens_a_second:
        return said + f" Speculation saves time above {times:.2f} tokens per target call."
    reasons = []
    if costs.verify > 1.3 * one:
        reasons.append("the target's time grows with the number of positions, as is usual on few CPU cores")
    if costs.draft > 0.3 * one:
        reasons.append("the draft model calls take long compared with a target call")
    said += f" It loses time, because it needs more than {times:.2f} tokens per target call"
    return said + (f": {', and '.join(reasons)}." if reasons else ".")


def records(comparison: Comparison) -> list[dict[str, Any]]:
    """One dictionary a method; seconds, and NaN where a number is not known."""
    found, unknown = [], MethodCosts(*[float("nan")] * 3)
    for row in comparison.rows:
        (speed_up, error), predicted = comparison.speed_up(row), comparison.predicted(row)
        tree, costs = row.method.drafting.tree, comparison.costs.get(row.method, unknown)
        record: dict[str, Any] = {
            "rule": row.method.rule, "law": row.method.law, "drafts": row.method.drafts, "nodes": tree.bounds.size,
            "length": tree.bounds.length, "steps": len(row.calls), "prompts": len(row.groups),
            "block_efficiency": row.block_efficiency, "error": row.error, "acceptance_by_position": row.by_position,
            "tokens_a_second": row.tokens_a_second, **{name: row.part(name) for name in PARTS}, "step": row.step,
            "speed_up": speed_up, "speed_up_error": error, "predicted": float("nan") if predicted is None else predicted,
            **{f"{name}_before": getattr(costs, name) for name in COSTS}, "changed": comparison.reason(row),
        }  # fmt: skip
        found.append(record)
    return found


def csv_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """The records with what is not known left empty, and the acceptances by position between spaces."""
    rows = []
    for record in records(comparison):
        shares = " ".join("" if share != share else f"{share:.4f}" for share in record["acceptance_by_position"])
        rows.append({name: "" if value != value else value for name, value in record.items()})
        rows[-1]["acceptance_by_position"] = shares
    return rows
