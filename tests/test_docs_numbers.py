"""Tables and numbers of the pages come from data files: the directive that puts them there, and data that commands compute again."""

from __future__ import annotations

import contextlib
import csv
import importlib
import importlib.util
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from math import isinf
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ot_draft as otd
from figures.selection import watermarks
from ot_draft.data import read_pairs
from ot_draft.data.estimate import expected_acceptance
from proofs_checks.couplings import factorised, scheduled, three_models, two_vocabularies
from proofs_checks.k_seq.sharp.lemmas import share_between

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
Numbers = Iterable[float]


def directive() -> ModuleType:
    pytest.importorskip("sphinx")
    spec = importlib.util.spec_from_file_location("results", ROOT / "docs" / "results.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- the directive -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "data").mkdir(parents=True)
    (tmp_path / "a.csv").write_text("rule,T,speed\nKSeq,1.0,1.041\nKSeq,0.6,\n")
    (tmp_path / "docs" / "data" / "provenance.csv").write_text(
        "file,commit,date,cpu,threads,versions,command\na.csv,abc1234,2026-11-28,a CPU,2,torch 2,make bench\n"
    )
    return tmp_path


def test_a_table_has_the_numbers_of_its_file(folder: Path) -> None:
    results = directive()
    columns = ["T | temperature", "speed | speed-up | .2f"]
    lines = results.table("a.csv", columns, "rule=KSeq", folder)
    assert lines == ["| temperature | speed-up |", "| --- | --- |", "| 1.0 | 1.04 |", "| 0.6 |  |"]
    (folder / "a.csv").write_text("rule,T,speed\nKSeq,1.0,9.99\n")
    assert results.table("a.csv", columns, "", folder)[2] == "| 1.0 | 9.99 |"
    assert results.table("a.csv", [], "", folder)[0] == "| rule | T | speed |"


def test_a_caption_says_where_the_numbers_come_from(folder: Path) -> None:
    said = directive().caption("a.csv", folder)
    assert said == "*Data: `a.csv`; a CPU; 2 threads; torch 2; 2026-11-28; commit abc1234.* Command: `make bench`."


@pytest.mark.parametrize(
    ("file", "columns", "where", "error"),
    [
        ("b.csv", [], "", OSError),
        ("a.csv", ["speeds"], "", KeyError),
        ("a.csv", [], "rule=SpecHub", ValueError),
        ("a.csv", ["rule | | .2f"], "", ValueError),
    ],
)
def test_what_is_not_in_the_data_is_an_error(
    folder: Path, file: str, columns: list[str], where: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        directive().table(file, columns, where, folder)


def test_a_file_without_provenance_is_an_error(folder: Path) -> None:
    (folder / "b.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match=r"must have a row where file=b\.csv"):
        directive().caption("b.csv", folder)


USES = [
    (page.name, body)
    for page in PAGES
    for body in re.findall(r"^```\{results\} (.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
]
VALUES = [(page.name, text) for page in PAGES for text in re.findall(r"\{value\}`([^`]*)`", page.read_text())]


def test_every_table_and_number_of_the_pages_is_in_its_file() -> None:
    results = directive()
    for page, body in USES:
        file, *rest = body.rstrip("\n").split("\n")
        where = next((line.removeprefix(":where:") for line in rest if line.startswith(":where:")), "")
        assert results.table(file, [line for line in rest if line and line[0] != ":"], where), page
        assert results.caption(file), page
    for page, text in VALUES:
        file, column, *conditions, form = (part.strip() for part in " ".join(text.split()).split(";"))
        (row,) = results.read(file, ";".join(conditions))
        assert results.shown(row, column, form), page


def test_every_data_file_of_the_documentation_has_provenance_and_a_page() -> None:
    known = {row["file"] for row in rows("docs/data/provenance.csv")}
    files = {f"docs/data/{file.name}" for file in (ROOT / "docs" / "data").glob("*.csv")} - {"docs/data/provenance.csv"}
    assert files - known == set()
    assert {file for file in known if not (ROOT / file).exists()} == set()
    shown = {body.split("\n")[0] for _, body in USES} | {text.split(";")[0].strip() for _, text in VALUES}
    assert sorted(files - shown - {"docs/data/acceptance.csv"}) == []


@pytest.mark.parametrize("file", ["docs/data/provenance.csv", "docs/data/measurements.csv"])
def test_commands_of_data_files_exist(file: str) -> None:
    commands = "\n".join(row["command"] for row in rows(file))
    modules = {name.replace(".", "/") for name in re.findall(r"python -m ([\w.]+)", commands)} - {"pytest"}
    scripts = set(re.findall(r"python ([\w/]+\.py)", commands))
    assert modules
    assert [script for script in scripts if not (ROOT / script).exists()] == []
    places = (ROOT, ROOT / "tests")
    assert [
        name for name in modules if not any((at / name).is_dir() or (at / f"{name}.py").exists() for at in places)
    ] == []


SPEED = ["temperature", "ratio | speed-up | .2f", "low | 95 % CI from | .2f", "high | to | .2f"]


@pytest.mark.parametrize(
    ("file", "columns", "where"),
    [
        ("docs/data/acceptance.csv", [], ""),
        ("figures/data/bench_fresh_cpu.csv", SPEED, "kind=all; method=auto chosen in every step"),
    ],
)
def test_the_readme_has_the_same_tables(file: str, columns: list[str], where: str) -> None:
    """A forge knows no directive: the tables of the README are written out."""
    readme = (ROOT / "README.md").read_text().replace("**", "")
    head, line, *rest = directive().table(file, columns, where)
    assert "\n".join([head, line.replace(" ", ""), *rest]) in readme


# --- data that a command computes again ----------------------------------------------------------------------------------------------


def rows(file: str) -> list[dict[str, str]]:
    with (ROOT / file).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@dataclass(frozen=True)
class Computed:
    """A data file whose numbers code gives.

    columns: those with the numbers, all but the first if none is named. follows: the numbers, row by row.
    """

    file: str
    follows: Callable[[], Numbers]
    columns: tuple[str, ...] = ()
    slow: bool = False  # over a few seconds

    def said(self) -> list[str]:
        found = rows(f"docs/data/{self.file}")
        columns = self.columns or tuple(found[0])[1:]
        cells = [row[column] for row in found for column in columns]
        return [number for cell in cells for number in re.findall(r"∞|\d*\.?\d+(?:/\d+)?", cell)]


def printed(text: str) -> tuple[float, float]:
    """A number, and half a unit of its last digit: "8/9" is exact, "0.490" may be 0.0005 off."""
    if text == "∞":
        return float("inf"), 0.0
    if "/" in text:
        above, below = text.split("/")
        return int(above) / int(below), 1e-12
    text = text.replace(",", "")
    return float(text), 0.5 * 10.0 ** -len(text.partition(".")[2])


def differing(said: list[str], follow: list[float]) -> list[tuple[str, float]]:
    """The numbers that differ."""
    assert len(said) == len(follow), (said, follow)
    return [
        (text, value)
        for text, value in zip(said, follow, strict=True)
        if not (isinf(value) and text == "∞") and not abs(printed(text)[0] - value) <= printed(text)[1] * (1 + 1e-6)
    ]


RESULTS = ("Optimal", "ImportanceWeighted", "KSeq", "RecursiveRejection", "SpeculativeSampling")


@cache
def real(temperature: float) -> Any:
    return read_pairs(ROOT / "figures" / "data" / "smollm2_pairs.npz").at_temperature(temperature)


def acceptance() -> Numbers:
    """As `ot-draft compare figures/data/smollm2_pairs.npz`: mean acceptance by the rules' own formulas."""
    pairs = real(1.0)
    for name in RESULTS:
        for k in (2, 4, 8):
            rule = getattr(otd.rules, name)()
            yield float(np.asarray(expected_acceptance(rule, otd.Problem(pairs.p, pairs.q, k)).value).mean())


def independent() -> Numbers:
    """Optimal acceptance of four i.i.d. drafts, the first row of the file."""
    for temperature in (1.0, 0.6):
        pairs = real(temperature)
        yield float(otd.optimal_acceptance(pairs.p, pairs.q, 4).mean())


def trained() -> Numbers:
    """Optimal acceptance with k = 1, 4, 8 drafts of the students, at temperatures 1 and 0.6."""
    found = {(row["loss"], row["temperature"], row["k"]): row for row in rows("figures/data/trained_for_k.csv")}
    for loss in ("cross-entropy", "total variation", "acceptance, k = 1", "acceptance, k = 4", "acceptance, k = 8"):
        yield from (float(found[loss, t, k]["acceptance"]) for t in ("1.0", "0.6") for k in ("1", "4", "8"))


def shares() -> Numbers:
    ks = (2, 3, 4, 5, 6, 8, 16, 32)
    yield from (8 / 9, *(down(float(share_between(k)[0])) for k in ks[1:]), 0.8263)
    yield from (down(bound) for bound in (*(1 - (1 - 1 / k) ** k for k in ks), 1 - np.exp(-1)))


def down(bound: float) -> float:
    """Rounded down to four digits."""
    return float(np.floor(bound * 1e4) / 1e4)


def yardstick() -> Numbers:
    """As `python -m proofs_checks.paths.yardstick` prints them."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        importlib.import_module("proofs_checks.paths.yardstick").main()
    for line in said.getvalue().splitlines()[1:]:
        yield from map(float, line.split()[-3:])


def drafted_blindly() -> Numbers:
    """As `python -m proofs_checks.couplings.factorised`, row by row."""
    two, four = (factorised.means(budget=budget).values() for budget in (2, 4))
    return (x for row in zip(two, four, strict=True) for x in row)


def best_cuts() -> Numbers:
    """As `python -m proofs_checks.couplings.scheduled` says of two positions per request: per cent over equal lengths."""
    (request, position), *_ = (gains for each, *gains in scheduled.means() if each == 2)
    return [100 * (request - 1), 100 * (position - 1)]


def between_ends() -> Numbers:
    """How far the frontiers of `ot-draft figures watermarks` lie above the straight lines between their ends, at most."""
    points = watermarks.compute(contexts=1)
    gaps = []
    for k in (1, 2, 4, 8):
        of_k = [(row["strength"], row["accepted"]) for row in points if row["k"] == k and row["kind"] == "frontier"]
        (low, first), (high, last) = of_k[0], of_k[-1]
        gaps += [y - first - (last - first) * (x - low) / (high - low) for x, y in of_k]
    return [max(gaps)]


@cache
def lossy() -> dict[str, dict[str, float]]:
    """The rows of `ot-draft figures lossy --full` that need no frontier of KL."""
    figure = importlib.import_module("figures.acceptance.lossy")
    p, q = real(1.0).p, real(1.0).q
    found = {name: figure._measured(rule, otd.Problem(p, q, 1)) for name, rule in figure.lossy_rules().items()}
    hybrid = otd.Problem(p, q, figure.TOP, otd.Hybrid(top=figure.TOP))
    return found | {name: figure._measured_on_tops(rule, hybrid) for name, rule in figure.TREES.items()}


def lossy_rules() -> Numbers:
    for row in rows("docs/data/lossy_rules.csv"):
        yield from (lossy()[row["rule"]][column] for column in ("acceptance", "bias", "needed", "best", "kl"))


def optimum() -> Numbers:
    return [float(otd.optimal_acceptance(real(1.0).p, real(1.0).q, 1).mean())]


def lossy_sequences() -> Numbers:
    """The rows of `ot-draft figures lossy_paths --full` that are exact: a row has several rules, lengths after KLs."""
    figure = importlib.import_module("figures.trees.lossy_paths")
    chain = importlib.import_module("figures.trees.context_chain").ContextChain(real(1.0).p, real(1.0).q)
    found = {row["name"]: row for row in figure._engines(chain)}
    for kind, values in (("KL", (0.0, 0.01, 0.03, 0.1, 0.3)), ("Ratio", (0.15, 0.4, 1.0))):
        found |= {f"{kind} {each:g}": figure._token_wise(chain, "", getattr(otd.lossy, kind)(each)) for each in values}
    for names in (
        ["KL 0"],
        [f"KL {budget}" for budget in (0.01, 0.03, 0.1, 0.3)],
        [f"Ratio {budget}" for budget in (0.15, 0.4, 1)],
        [f"lenience {lenience}" for lenience in (0.9, 0.7, 0.5)],
        [f"lenience {lenience}, from p" for lenience in (0.7, 0.5)],
        ["typical (vLLM)", "relaxed (TensorRT-LLM)"],
        ["cascade opt 0.1", "cascade token-v3 0.2"],
    ):
        yield from (found[name]["kl"] for name in names)
        yield from (found[name]["block_efficiency"] for name in names)


def caps_of_trees() -> Numbers:
    """What every way accepts on its trees, their caps and their depth; ways with the same trees stand in one row."""
    pytest.importorskip("torch")
    bounds = importlib.import_module("llm_demo.bench.trees.bounds")
    found = bounds.compared(bounds.read(bounds.TABLE), bounds.read(bounds.OUT))
    plan = bounds.Calibration.read(bounds.files_beside(bounds.TABLE)[0]).at(bounds.TEMPERATURE)[bounds.EMBEDDED]
    of_trees: dict[str, list[str]] = {}
    for way in found:
        of_trees.setdefault(bounds.SAME_TREES.get(way, way), []).append(way)
    for ways in of_trees.values():
        yield from (found[way][0] for way in ways)
        yield found[ways[0]][1]
        yield bounds.WAYS[ways[0]].drafts(plan, bounds.NODES, False).bounds.length


def heads() -> Numbers:
    """Tokens per target call of trees of 16 nodes that two heads draft, at temperatures 1 and 0.6."""
    pytest.importorskip("torch")
    table = importlib.import_module("figures.heads.table")
    found = table.cells(table.read(table.OUT))
    for way in ("counted", "drawn by place, tree", "likeliest products", "argmax path"):
        yield from (1 + found[table.NAME, temperature, 16].mean(way) for temperature in table.TEMPERATURES)


COMPUTED = (
    Computed("acceptance.csv", acceptance, slow=True),
    Computed("k_seq_share.csv", shares),
    Computed("path_program.csv", yardstick, ("accepted tokens", "program", "caps"), slow=True),
    Computed("watermark_frontier.csv", between_ends, slow=True),
    Computed("two_vocabularies.csv", lambda: two_vocabularies.means().values(), slow=True),
    Computed("three_models.csv", lambda: three_models.means().values(), slow=True),
    Computed("factorised.csv", drafted_blindly, slow=True),
    Computed("factorised_8_tokens.csv", lambda: factorised.means(40, 8).values()),
    Computed("draft_heads.csv", heads),
    Computed("scheduled_cuts.csv", best_cuts, ("gain over equal lengths, %",)),
    Computed("lossy_rules.csv", lossy_rules, slow=True),
    Computed("lossy_sequences.csv", lossy_sequences, slow=True),
    Computed("lossy_optimum.csv", optimum, ("optimal acceptance",)),
    Computed("trained.csv", trained),
    Computed("tree_caps.csv", caps_of_trees, slow=True),
)


def test_a_wrong_number_is_seen() -> None:
    assert differing(["8/9", "0.490", "1,200", "∞"], [8 / 9, 0.4904, 1200.4, float("inf")]) == []
    assert differing(["0.490"], [0.4906]) == [("0.490", 0.4906)]
    assert differing(["122"], [123]) == [("122", 123)]


@pytest.mark.parametrize(
    "data",
    [pytest.param(data, marks=[pytest.mark.slow] if data.slow else [], id=data.file) for data in COMPUTED],
)
def test_data_are_what_code_computes(data: Computed) -> None:
    assert differing(data.said(), [float(value) for value in data.follows()]) == []


def test_the_first_row_of_draft_laws_is_the_optimum_of_independent_drafts() -> None:
    row = rows("docs/data/draft_laws.csv")[0]
    assert differing([row["T = 1.0"], row["T = 0.6"]], list(independent())) == []
