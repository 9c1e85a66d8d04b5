"""Checks and benchmarks on a GPU: `python -m llm_demo.gpu --out DIRECTORY`.

Each part runs in a separate process with a share of the time, so that a failure does not affect other parts:

    check      rules, path rules and engine compared with the CPU
    kernels    kernels for drafting a level and for selection on trees, compared with array operations; time of a selection
    roofline   time of the rules compared with softmax and the memory bandwidth
    bench      decoding with all rules, the embedded pair, batch 1 and 8, temperatures 0.6 and 1.0
    large      costs at the shapes of targets of 8B and 70B, and the speed-ups that they imply at the embedded pair's acceptance
    distil     training of a draft; run this part alone for at least ten minutes
    trees      tokens per target call of all drafting methods over drafts of known quality; run it alone for at least ten minutes
    model      join the target's file from its parts
    train      training of the hidden-state draft by `llm_demo.gpu.training`

--run 1 runs check, kernels and large in 170 seconds; --run 2 runs model, train and bench in 560 seconds (`llm_demo.gpu.runs`).

Every part appends rows to DIRECTORY/PART.csv as they are measured, with date, device, driver and versions. --dry-run runs all parts on the
CPU at small sizes within seconds, to find errors without a GPU.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch

from llm_demo.gpu.checks import draft_checks, engine_checks, kernel_checks, path_checks, rule_checks, wait_checks
from llm_demo.gpu.decode import bench_rows, distil, join_model, train_rows
from llm_demo.gpu.large import large_rows
from llm_demo.gpu.roofline import roofline, with_ratios
from llm_demo.gpu.runs import ABORTED, DONE, OUT_OF_TIME, RUNS, TOTAL, Abort, in_turn
from llm_demo.gpu.trees import trees
from llm_demo.machine import machine
from llm_demo.rows import Row, append, read

SHARES = {"check": 0.2, "roofline": 0.17, "bench": 0.3, "large": 0.18, "distil": 0.15, "trees": 0.25}
GRACE = 15  # seconds after the time limit at which a part is terminated


MOST_WRONG = 8  # failed comparisons after which a part is aborted
Rows = Callable[[torch.device, float, bool], Iterable[Row]]  # device, seconds, whether it is a dry run


def check(device: torch.device, seconds: float, dry: bool) -> Iterator[Row]:
    small: dict[str, Any] = {"sizes": (5, 40), "rows": 2} if dry else {}
    yield from _until_wrong(rule_checks(device, **small))
    yield from _until_wrong(path_checks(device, trees=8 if dry else 64))
    yield from _until_wrong(engine_checks(device, tokens=4 if dry else 24))
    if device.type == "cuda":
        yield from wait_checks(device)


def kernels(device: torch.device, seconds: float, dry: bool) -> Iterator[Row]:
    small: dict[str, Any] = {"n": 40, "trees": 2, "timed": 100} if dry else {}
    yield from _until_wrong(draft_checks(device, 40 if dry else 5000), 1)
    yield from _until_wrong(kernel_checks(device, **small), 1)


def _until_wrong(rows: Iterable[Row], most: int = MOST_WRONG) -> Iterator[Row]:
    """Yield the rows; raise `Abort` after N that did not pass."""
    wrong = 0
    for row in rows:
        yield row
        wrong += not row["passed"]
        if wrong >= most:
            raise Abort(f"{wrong} comparisons failed, the last: {row['check']}, {row['of']}, {row['way']}")


def time_rules(device: torch.device, seconds: float, dry: bool) -> Iterator[Row]:
    return map(with_ratios, roofline(device, seconds, [(2, 500)], 2) if dry else roofline(device, seconds))


PARTS: dict[str, Rows] = {
    "check": check, "kernels": kernels, "roofline": time_rules, "bench": bench_rows, "large": large_rows,
}  # fmt: skip
OTHERS = {"distil": distil, "trees": trees}  # parts that write their files themselves


def run(name: str, out: Path, device: torch.device, seconds: float, dry: bool, model: Path | None = None) -> None:
    """Run one part in this process. model: file of the target, or the manifest of its parts; None for the embedded one."""
    if name == "model":
        join_model(model, out, dry)
    elif name == "train":
        _write(out / "train.csv", train_rows(out, device, seconds, dry, model), device)
    elif name == "bench":
        _write(out / "bench.csv", bench_rows(device, seconds, dry, model, out), device)
    elif name in OTHERS:
        OTHERS[name](out, device, seconds, dry)
    else:
        _write(out / f"{name}.csv", PARTS[name](device, seconds, dry), device)


@click.command()
@click.option(
    "--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Directory of the CSV files."
)
@click.option("--parts", default=",".join(SHARES), show_default=True, help="Parts, separated by commas.")
@click.option(
    "--run", "number", type=click.Choice(["1", "2"]), help="Phases of one of the two runs, instead of --parts."
)
@click.option(
    "--budget",
    default=540.0,
    show_default=True,
    type=click.FloatRange(min=1),
    help="Time limit for all parts in seconds.",
)
@click.option(
    "--model",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of the target, or NAME.parts.json of its parts [default: the embedded model].",
)
@click.option("--dry-run", is_flag=True, help="Run on the CPU at small sizes.")
@click.option("--inside", hidden=True, is_flag=True, help="Run a single part in this process.")
def main(
    out: Path, parts: str, number: str | None, budget: float, model: Path | None, dry_run: bool, inside: bool
) -> None:
    """Run checks and benchmarks on a GPU."""
    names = parts.split(",")
    if unknown := [name for name in names if name not in (*SHARES, *(PHASES if inside else ()))]:
        raise click.UsageError(f"--parts must be some of {', '.join(SHARES)}, got {unknown[0]!r}.")
    if not (dry_run or torch.cuda.is_available()):
        raise click.UsageError("torch finds no CUDA device. Use --dry-run to run on the CPU at small sizes.")
    out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cpu" if dry_run else "cuda")
    if number is not None:
        launch = partial(_in_this_process if dry_run else _in_a_process, out, model)
        failed = in_turn(RUNS[int(number)], TOTAL[int(number)], out, launch)
    elif inside:
        try:
            run(names[0], out, device, budget, dry_run, model)
        except Abort as reason:
            _reason_file(out, names[0]).write_text(str(reason), encoding="utf-8")
            sys.exit(ABORT_STATUS)
        return
    elif dry_run:
        for name in names:
            run(name, out, device, budget, dry_run)
        failed = []
    else:
        failed = _in_turn(out, names, budget)
    click.echo(summary(out))
    if failed:
        raise click.ClickException(f"not finished: {', '.join(failed)}")


PHASES = {phase.part for phases in RUNS.values() for phase in phases}
ABORT_STATUS = 3


def _reason_file(out: Path, name: str) -> Path:
    return out / f"{name}.aborted.txt"


def _in_this_process(out: Path, model: Path | None, name: str, seconds: float) -> tuple[str, str]:
    """Run a phase of a dry run; return how it ended, and why."""
    try:
        run(name, out, torch.device("cpu"), seconds, True, model)
    except Abort as reason:
        return ABORTED, str(reason)
    return DONE, ""


def _in_a_process(out: Path, model: Path | None, name: str, seconds: float) -> tuple[str, str]:
    """Run a phase in a separate process; return how it ended, and why."""
    click.echo(f"{name}: {seconds:.0f} s")
    command = [
        sys.executable,
        "-m",
        "llm_demo.gpu",
        "--inside",
        "--parts",
        name,
        "--out",
        str(out),
        "--budget",
        str(max(seconds, 1)),
    ]
    command += [] if model is None else ["--model", str(model)]
    try:
        code = subprocess.run(command, timeout=seconds, check=False).returncode
    except subprocess.TimeoutExpired:
        return OUT_OF_TIME, ""
    if code == ABORT_STATUS:
        return ABORTED, _reason_file(out, name).read_text(encoding="utf-8")
    return (DONE, "") if code == 0 else (ABORTED, f"exit status {code}")


def _in_turn(out: Path, names: list[str], budget: float) -> list[str]:
    """Run the parts one after another, and return the names of those that failed. Unused time is available to later parts."""
    end, failed = time.monotonic() + budget, []
    for number, name in enumerate(names):
        share = SHARES[name] / sum(SHARES[other] for other in names[number:])
        seconds = share * max(end - time.monotonic(), 1.0)
        click.echo(f"{name}: {seconds:.0f} s")
        command = [sys.executable, "-m", "llm_demo.gpu", "--inside", "--parts", name, "--out", str(out)]
        try:
            code = subprocess.run([*command, "--budget", str(seconds)], timeout=seconds + GRACE, check=False).returncode
        except subprocess.TimeoutExpired:
            code = -1
        if code:
            failed.append(name)
    return failed


def _write(file: Path, rows: Iterable[Row], device: torch.device) -> None:
    """Append rows to a CSV file, each as soon as it is measured; rows of earlier runs are kept."""
    where = machine(str(device)) | {"driver": _driver(device), "triton": _version("triton")}
    for row in rows:
        append(row | where, file)


def _driver(device: torch.device) -> str:
    if device.type != "cuda":
        return ""
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def summary(out: Path) -> str:
    """Return a summary: failed checks, and times in units of softmax."""
    checks, times = (read(file) if file.exists() else [] for file in (out / "check.csv", out / "roofline.csv"))
    wrong = [row for row in checks if row["passed"] != "True"]
    lines = [f"checks: {len(checks) - len(wrong)} of {len(checks)} passed"] if checks else []
    template = "  {check}, {of}, {way}: {error} over {limit} {case}"
    lines += [template.format(**row) for row in wrong]
    if times:
        lines.append(f"copy: {times[-1]['copy_gb_s']} GB/s. Softmaxes of the same tensor, share of the copy bandwidth:")
    for row in times:
        result = row["error"] or f"{row['softmaxes']:>7} {row['copy_share']:>7} {row['target'] and 'at most ' + row['target']}"  # fmt: skip
        lines.append(f"  {row['rule']:18} {row['way']:7} {row['rows']:>4} x {row['tokens']:>7}  {result}")
    return "\n".join(lines)
