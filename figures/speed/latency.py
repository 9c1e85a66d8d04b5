"""Time of a target call against new positions of one sequence and against the batch size."""

from __future__ import annotations

from typing import Any

from figures import style
from figures.about import About, Number

FILES = ("latency_cpu.csv", "latency_cuda.csv")  # the second one only if it was measured on a GPU
AXES = {"positions": "new positions of one text", "rows": "texts, one new position each"}
COLOURS = ("#0072B2", "#D55E00")
ABOUT = About(
    title="Latency of the target along the time axis and the batch axis",
    claim="A target call costs little more for several new positions, or for several sequences, than for one token, as long as "
    "reading the weights takes most of the time. Speculative decoding relies on this. On a CPU it ends after a few "
    "positions.",
    source="Sun et al., SpecTr, NeurIPS 2023 (time of a target call along the time axis and the batch axis)",
    comparison="Not comparable with the published numbers, which are for PaLM-2 on TPUs.",
)
CAPTION = """Target's part of a decoding step, {context} tokens in the cache: median of interleaved measurements, with the quartiles.
{machines}. Grey: as if every position had the cost of the first. Load average during the measurement: {load}."""


def compute(full: bool = False, jobs: int = 1, **sizes: Any) -> list[dict[str, Any]]:
    """Return the committed times of one call, and their ratio to one token; `full` measures them on this CPU with the model."""
    rows: list[dict[str, Any]] = []
    for file in (style.DATA / name for name in FILES):
        rows += style.read(file) if file.is_file() else []
    if full:
        rows = [row for row in rows if "CUDA" in row["machine"]] + measured(**sizes)
    rows = [row for row in rows if row["axis"] in AXES]
    for row in rows:
        one_token = next(
            candidate
            for candidate in rows
            if same_run(row, candidate) and candidate["positions"] in (1, "1") and is_one(candidate)
        )
        row["ratio"] = float(row["ms"]) / float(one_token["ms"])
    return rows


def measured(**sizes: Any) -> list[dict[str, Any]]:
    """Return the times on this machine; requires torch, transformers and the model."""
    from llm_demo.bench.latency import latency
    from llm_demo.machine import machine
    from llm_demo.models.load import load_pair

    return [row | machine() | {"dtype": "float32"} for row in latency(load_pair(), **sizes)]


def same_run(row: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two rows have the same axis and machine."""
    return all(row[name] == other[name] for name in ("axis", "machine"))


def is_one(row: dict[str, Any]) -> bool:
    """Return whether it is the call on one token."""
    return int(row["positions"]) == int(row["rows"]) == 1


def numbers(rows: style.Rows) -> list[Number]:
    """Return the times of 8, 32 and 64 positions or sequences, relative to a forward pass over one token."""
    return [
        Number(f"{row['axis']} {size} over 1, {device(row)}", float(row["ratio"]))
        for row in rows
        if (size := int(row[row["axis"]])) in (8, 32, 64)
    ]


def device(row: dict[str, Any]) -> str:
    """Return the name of the device."""
    return "GPU" if "CUDA" in row["machine"] else "CPU"


def draw(rows: style.Rows) -> Any:
    """Draw a panel per axis: milliseconds per call."""
    machines = "; ".join(dict.fromkeys(f"{device(row)}: {row['machine']}, {row['dtype']}" for row in rows))
    load = ", ".join(dict.fromkeys(row["load"] for row in rows))
    figure, panels = style.canvas(2, CAPTION.format(context=rows[0]["context"], machines=machines, load=load))
    entries: list[list[style.Entry]] = [[], []]
    times = [float(row["ms"]) for row in rows]
    for axes, name, ends in zip(panels, AXES, entries, strict=True):
        runs = style.split([row for row in rows if row["axis"] == name], "machine")
        for colour, run in zip(COLOURS, runs, strict=False):
            x, y = [int(row[name]) for row in run], [float(row["ms"]) for row in run]
            low = [max(ms - float(row["low_ms"]), 0) for ms, row in zip(y, run, strict=True)]
            high = [max(float(row["high_ms"]) - ms, 0) for ms, row in zip(y, run, strict=True)]
            axes.plot(x, [y[0] * size / x[0] for size in x], color="#BBBBBB", ls=":", lw=1)
            axes.errorbar(x, y, (low, high), color=colour, marker="o", ms=4, elinewidth=0.8)
            ends.append((x[-1], y[-1], device(run[0]), colour))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(x, [str(size) for size in x])
        axes.set(xlabel=AXES[name], ylabel="time of a target call, ms", title=name)
        axes.set_ylim(0.7 * min(times), 1.5 * max(times))
    style.label(panels, entries)
    return figure


def table(rows: style.Rows) -> str:
    """Return a Markdown table of all times."""
    lines = [["machine", "new positions", "rows", "ms (quartiles)", "relative to one token"]]
    for row in rows:
        spread = f"{float(row['ms']):.1f} ({float(row['low_ms']):.1f} to {float(row['high_ms']):.1f})"
        lines.append([device(row), row["positions"], row["rows"], spread, f"{float(row['ratio']):.2f}"])
    return style.markdown(lines)
