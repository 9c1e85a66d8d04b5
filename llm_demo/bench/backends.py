"""A table of backends: `python -m llm_demo.bench.backends --out figures/data/bench_backends_cpu.csv`.

Every backend of `load_pair` in a process of its own, one after the other, several times over: ms of a target pass over 1, 2, ... new
positions of one text with 128 tokens in the cache, of the draft's part of a step that drafts one token, seconds of loading, MB of the
process, and MB of the packages that the backend takes beside those of `llm`. Medians of all turns.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click

from llm_demo.rows import Row, read, write
from ot_draft.cli import progress_bar
from ot_draft.decoding.load import BACKENDS

OUT = Path("figures/data/bench_backends_cpu.csv")
POSITIONS = (1, 2, 4, 8, 16, 32)
PACKAGES = {"openvino": ("openvino", "openvino-telemetry", "numba", "llvmlite")}  # by what a backend's name begins with


def measured(backend: str, threads: int, visits: int, file: Path) -> list[Row]:
    """The rows of `llm_demo.bench.latency` by one process."""
    sizes = ",".join(map(str, POSITIONS))
    asked = ["--backend", backend, "--threads", threads, "--visits", visits, "--positions", sizes, "--rows", ""]
    command = [sys.executable, "-m", "llm_demo.bench.latency", *map(str, asked), "--out", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    return read(file)


def size_of(backend: str) -> float:
    """MB of the packages that it takes."""
    names = next((packages for name, packages in PACKAGES.items() if backend.startswith(name)), ())
    files = [file.locate() for name in names for file in metadata.files(name) or ()]
    return sum(Path(str(file)).stat().st_size for file in files if Path(str(file)).is_file()) / 1e6


def summary(turns: Sequence[Sequence[Row]]) -> Row:
    """One row of the table: medians over turns."""

    def middle(column: str, **where: str) -> str:
        rows = [row for turn in turns for row in turn if all(row[name] == value for name, value in where.items())]
        return f"{median(float(row[column]) for row in rows):.4g}"

    passes = {f"ms_{number}": middle("ms", axis="positions", positions=str(number)) for number in POSITIONS}
    draft = middle("ms", axis="draft", positions="1")
    return passes | {"draft_ms": draft, "load_s": middle("load_s"), "memory_mb": middle("memory_mb")}


@click.command()
@click.option("--out", default=OUT, show_default=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--backend", "names", multiple=True, type=click.Choice(BACKENDS), help="Some [default: all].")
@click.option("--threads", multiple=True, default=(1, 2), show_default=True, type=click.IntRange(1))
@click.option("--turns", default=3, show_default=True, type=click.IntRange(1), help="Processes of each.")
@click.option("--visits", default=3, show_default=True, type=click.IntRange(1), help="Rounds over all sizes in one.")
def main(out: Path, names: tuple[str, ...], threads: tuple[int, ...], turns: int, visits: int) -> None:
    """Measure, write OUT and print the table."""
    kinds = [(name, count) for count in threads for name in names or BACKENDS]
    found: dict[tuple[str, int], list[list[Row]]] = {kind: [] for kind in kinds}
    with TemporaryDirectory() as folder, progress_bar(turns * len(kinds), "processes") as advance:
        for _ in range(turns):
            for name, count in kinds:
                try:
                    found[name, count].append(measured(name, count, visits, Path(folder) / "one.csv"))
                except subprocess.CalledProcessError as error:
                    raise click.ClickException(f"{name}: {error.stderr.decode().strip().splitlines()[-1]}") from None
                advance()
    rows = []
    for (name, count), several in found.items():
        row = {"backend": name, "threads": count} | summary(several) | {"packages_mb": f"{size_of(name):.0f}"}
        where = several[0][0]
        rows.append(row | {column: where[column] for column in ("date", "machine", "versions")})
        click.echo(", ".join(f"{column} {value}" for column, value in row.items()))
    write(rows, out)


if __name__ == "__main__":
    main()
