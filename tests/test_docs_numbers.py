"""Numbers of the documents are those that their commands give: one row a sentence or table, with how its numbers follow."""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from math import isinf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ot_draft as otd
from figures.selection import watermarks
from ot_draft.data import read_pairs
from ot_draft.data.estimate import expected_acceptance
from ot_draft.data.summary import clustered_error
from proofs_checks.__main__ import STATEMENTS
from proofs_checks.couplings import factorised, scheduled, three_models, two_vocabularies
from proofs_checks.formal import bridge, bridge_paths
from proofs_checks.k_seq.sharp.lemmas import share_between

ROOT = Path(__file__).parents[1]
Numbers = Iterable[float]


@dataclass(frozen=True)
class Claim:
    """Numbers of a document. sentence: a pattern whose groups are the numbers, or how a row of a table begins.

    follows: the numbers, in order; of a table row by row, from its second column on.
    """

    document: str
    sentence: str
    follows: Callable[[], Numbers]
    slow: bool = False  # over a few seconds

    def said(self) -> list[str]:
        """The numbers as the document has them."""
        text = (ROOT / self.document).read_text()
        if self.sentence.startswith("|"):
            return list(_cells(text, self.sentence))
        found = re.search(self.sentence, re.sub(r"\s+", " ", text))
        assert found, f"{self.document} does not say {self.sentence!r} any more"
        return list(found.groups())


def _cells(text: str, begun: str) -> Iterator[str]:
    tables = [table.splitlines() for table in re.findall(r"(?:^\|.*\n)+", f"{text}\n", re.MULTILINE)]
    rows = next(table for table in tables if any(line.startswith(begun) for line in table))[2:]
    for row in rows:
        for cell in row.strip("| \n").split("|")[1:]:
            yield from re.findall(r"∞|\d*\.?\d+(?:/\d+)?", cell)


def printed(text: str) -> tuple[float, float]:
    """A number, and half a unit of its last digit: "8/9" is exact, ".490" may be .0005 off."""
    if text == "∞":
        return float("inf"), 0.0
    if "/" in text:
        above, below = text.split("/")
        return int(above) / int(below), 1e-12
    text = text.replace(",", "")
    return float(text), 0.5 * 10.0 ** -len(text.partition(".")[2])


def agree(said: list[str], follow: list[float]) -> list[tuple[str, float]]:
    """The numbers that differ."""
    assert len(said) == len(follow), (said, follow)
    return [
        (text, value)
        for text, value in zip(said, follow, strict=True)
        if not (isinf(value) and text == "∞") and not abs(printed(text)[0] - value) <= printed(text)[1] * (1 + 1e-6)
    ]


# --- how they follow ---------------------------------------------------------------------------------------------------------------

RESULTS = ("Optimal", "ImportanceWeighted", "KSeq", "RecursiveRejection", "SpeculativeSampling")


@cache
def real(temperature: float) -> Any:
    return read_pairs(ROOT / "figures" / "data" / "smollm2_pairs.npz").at_temperature(temperature)


def table_of_results() -> Numbers:
    """As `ot-draft compare figures/data/smollm2_pairs.npz`: mean acceptance by the rules' own formulas."""
    pairs = real(1.0)
    for name in RESULTS:
        for k in (2, 4, 8):
            yield float(accepted(getattr(otd.rules, name)(), otd.Problem(pairs.p, pairs.q, k)).mean())


def accepted(rule: Any, problem: Any) -> Any:
    return np.asarray(expected_acceptance(rule, problem).value)


OURS, ASSISTED = "auto chosen in every step", "transformers, assisted 1 × 4, i.i.d."
LOOKUP = "transformers, prompt lookup 1 × up to 10, looked up"


def of_csv(
    name: str, method: str, temperature: str, *columns: str, kind: str = "all", batch: str = "1"
) -> Iterator[float]:
    """Columns of a row of a committed file of measurements."""
    wanted = {"method": method, "temperature": temperature, "kind": kind, "batch": batch}
    with (ROOT / "figures" / "data" / name).open(encoding="utf-8") as stream:
        (row,) = [
            row for row in csv.DictReader(stream) if all(row[column] == value for column, value in wanted.items())
        ]
    yield from (float(row[column]) for column in columns)


def speeds() -> Numbers:
    for temperature in ("0.6", "1.0"):
        yield from of_csv("bench_fresh_cpu.csv", OURS, temperature, "ratio", "low", "high")


def bench(name: str, rows: list[tuple[str, str]]) -> Numbers:
    """Rows (method, temperature) of a table of speeds: the mean over texts with its interval, then four kinds of texts."""
    for method, temperature in rows:
        yield from of_csv(name, method, temperature, "ratio", "low", "high")
        for kind in ("chat", "editing", "code", "documentation"):
            yield from of_csv(name, method, temperature, "ratio", kind=kind)


AUTO_ROWS = [(OURS, "1.0"), (OURS, "0.6")]
PEER_ROWS = [(method, temperature) for temperature in ("1.0", "0.6") for method in (OURS, ASSISTED, LOOKUP)]


def fresh() -> Numbers:
    """As `ot-draft decode` loads them, with graphs of their own for one and two positions, and with these by 8-bit rows."""
    for way in ("", "_own", "_8_bit"):
        yield from bench(f"bench_fresh{way}_cpu.csv", AUTO_ROWS)


def beside_transformers() -> Numbers:
    """The last row has both temperatures of transformers' own loop, a range where they print differently."""
    yield from bench("bench_peers_cpu.csv", PEER_ROWS)
    for kind, is_range in (("all", False), *((kind, True) for kind in ("chat", "editing", "code", "documentation"))):
        both = [*of_csv("bench_peers_cpu.csv", "transformers, plain", "1.0", "ratio", kind=kind)]
        both += of_csv("bench_peers_cpu.csv", "transformers, plain", "0.6", "ratio", kind=kind)
        yield from (min(both), max(both)) if is_range else (sum(both) / 2,)


STUDENTS = ("cross-entropy", "total variation", "acceptance, k = 1", "acceptance, k = 4", "acceptance, k = 8")


def beside_the_table_of_speeds() -> Numbers:
    """Eight texts at a time."""
    for temperature in ("1.0", "0.6"):
        yield from of_csv("bench_auto_cpu.csv", OURS, temperature, "ratio", "low", "high", batch="8")


def table_of_backends() -> dict[tuple[str, str], dict[str, float]]:
    """Measured columns by backend and threads."""
    with (ROOT / "figures" / "data" / "bench_backends_cpu.csv").open(encoding="utf-8") as stream:
        return {
            (row["backend"], row["threads"]): {
                name: max(float(value), 0)
                for name, value in row.items()
                if name.endswith(("_s", "_mb")) or "ms_" in name or "_ms" in name
            }
            for row in csv.DictReader(stream)
        }


def steps_at_8b() -> Numbers:
    """Steps, their parts, tokens a call and speed-ups at temperatures 1 and .6, where that shape was timed."""
    with (ROOT / "figures" / "data" / "gpu_large.csv").open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["acceptance_of"] in ("", "embedded states")]
    kept = [row for row in rows if row["draft"].startswith("2 layers") and row["target"].endswith("8B")]
    plain = next(row for row in kept if row["way"] == "autoregressive")
    yield from (float(plain[column]) for column in ("step_ms", "select_ms", "tokens_a_call", "speed_up"))
    for way, nodes in (
        *(("one path, block", n) for n in "1234"),
        ("chains, Joint", "32"),
        ("counted, traversal", "16"),
    ):
        found = {row["temperature"]: row for row in kept if (row["way"], row["nodes"]) == (way, nodes)}
        yield from (float(found["1.0"][column]) for column in ("step_ms", "draft_ms", "select_ms"))
        for column in ("tokens_a_call", "speed_up"):
            yield from (float(found[temperature][column]) for temperature in ("1.0", "0.6") if temperature in found)


def backends() -> Numbers:
    """Passes, changes of positions, a draft pass and steps by the clock; loading, memory and packages."""
    rows = table_of_backends()
    columns = [f"ms_{number}" for number in (1, 2, 3, 4, 8, 16, 32)]
    columns += ["changed_ms", "draft_ms_1", "plain_step_ms", "drafted_step_ms", "load_s", "memory_mb", "packages_mb"]
    for threads in "12":
        for name in ("torch", "openvino-float", "openvino"):
            yield from (rows[name, threads][column] for column in columns)


def products() -> Numbers:
    """Passes by library: numbers of rows, what another number takes, bits, distance, making, packages."""
    columns = [
        *(f"ms_{rows}" for rows in (1, 2, 4, 8, 16, 32)),
        "changed_ms",
        "equal_from",
        "off",
        "made_s",
        "packages_mb",
    ]
    with (ROOT / "figures" / "data" / "bench_products_cpu.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            yield from (max(float(row[column]), 0) for column in columns)


def hindsight() -> Numbers:
    """The mean and the text that gained least, at both temperatures, by method."""
    with (ROOT / "figures" / "data" / "bench_hindsight.csv").open(encoding="utf-8") as stream:
        rows = {(row["method"], row["temperature"]): row for row in csv.DictReader(stream) if row["kind"] == "all"}
    for method in dict.fromkeys(method for method, _ in rows):
        for temperature in ("1.0", "0.6"):
            yield from (float(rows[method, temperature][column]) for column in ("ratio", "least"))


def of_students(file: str) -> list[dict[str, str]]:
    with (ROOT / "figures" / "data" / file).open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def students(column: str) -> dict[tuple[str, str, str], float]:
    """A column of the students of different losses, by loss, temperature and k."""
    rows = of_students("trained_for_k.csv")
    return {(row["loss"], row["temperature"], row["k"]): float(row[column]) for row in rows}


def accepted_lengths() -> Numbers:
    """Steps, and what the students of the accepted length and of total variation accept of a path of four."""
    rows = {row["loss"]: row for row in of_students("trained_for_length.csv") if row["L"] == "4"}
    yield float(rows["before"]["steps"])
    yield from (float(rows[loss]["acceptance"]) for loss in ("accepted length, L = 4", "total variation"))


def trained() -> Numbers:
    """Optimal acceptance with k = 1, 4, 8 drafts of the students, at temperatures 1 and 0.6."""
    found = students("acceptance")
    for loss in STUDENTS:
        yield from (found[loss, temperature, k] for temperature in ("1.0", "0.6") for k in ("1", "4", "8"))


def trained_for_more() -> Numbers:
    """What the students of k = 4 and 8 have over that of k = 1: with eight drafts more, with one less."""
    more = students("more")
    eight, one = ([more[loss, t, k] for loss in STUDENTS[3:] for t in ("1.0", "0.6")] for k in ("8", "1"))
    yield from (min(eight), max(eight), -max(one), -min(one))


def independent() -> Numbers:
    for pairs in (real(1.0), real(0.6)):
        yield float(otd.optimal_acceptance(pairs.p, pairs.q, 4).mean())


def statements() -> Numbers:
    modules = [importlib.import_module(f"proofs_checks.{name}") for name in STATEMENTS]
    yield sum(len(module.STATEMENTS) for module in modules)


def drafted_blindly() -> Numbers:
    """As `python -m proofs_checks.couplings.factorised`, row by row."""
    two, four = (factorised.means(budget=budget).values() for budget in (2, 4))
    return (x for row in zip(two, four, strict=True) for x in row)


def best_cuts() -> Numbers:
    """As `python -m proofs_checks.couplings.scheduled` says of two places a text: per cent over equal lengths."""
    (text, place), *_ = (gains for each, *gains in scheduled.means() if each == 2)
    return [2, 100 * (text - 1), 100 * (place - 1)]


def coin_between_ends() -> Numbers:
    """How far the frontiers of `ot-draft figures watermarks` lie above the straight lines between their ends, at most."""
    rows = watermarks.compute(contexts=1)
    gaps = []
    for k in (1, 2, 4, 8):
        points = [(row["strength"], row["accepted"]) for row in rows if row["k"] == k and row["kind"] == "frontier"]
        (low, first), (high, last) = points[0], points[-1]
        gaps += [y - first - (last - first) * (x - low) / (high - low) for x, y in points]
    yield max(gaps)


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


@cache
def lossy() -> dict[str, dict[str, float]]:
    """The rows of `ot-draft figures lossy --full` that need no frontier of KL."""
    figure = importlib.import_module("figures.acceptance.lossy")
    p, q = real(1.0).p, real(1.0).q
    rows = {name: figure._measured(rule, otd.Problem(p, q, 1)) for name, rule in figure.lossy_rules().items()}
    hybrid = otd.Problem(p, q, figure.TOP, otd.Hybrid(top=figure.TOP))
    return rows | {name: figure._measured_on_tops(rule, hybrid) for name, rule in figure.TREES.items()}


def table_of_lossy_rules() -> Numbers:
    text = (ROOT / "docs" / "lossy.md").read_text()
    names = re.findall(
        r"^\| ([^|]+?) \|", text.partition("| rule | acceptance |")[2].partition("\n\n")[0], re.MULTILINE
    )
    for name in names:
        row = lossy()[name]
        yield from (row[column] for column in ("acceptance", "bias", "needed", "best", "kl"))


def optimum() -> Numbers:
    yield float(otd.optimal_acceptance(real(1.0).p, real(1.0).q, 1).mean())


def table_along_texts() -> Numbers:
    """The rows of `ot-draft figures lossy_paths --full` that are exact: a row of the table has several rules, lengths after KLs."""
    figure = importlib.import_module("figures.paths.lossy_paths")
    chain = importlib.import_module("figures.paths.context_chain").ContextChain(real(1.0).p, real(1.0).q)
    rows = {row["name"]: row for row in figure._engines(chain)}
    for kind, values in (("KL", (0.0, 0.01, 0.03, 0.1, 0.3)), ("Ratio", (0.15, 0.4, 1.0))):
        rows |= {f"{kind} {each:g}": figure._token_wise(chain, "", getattr(otd.lossy, kind)(each)) for each in values}
    for names in (
        ["KL 0"],
        [f"KL {budget}" for budget in (0.01, 0.03, 0.1, 0.3)],
        [f"Ratio {budget}" for budget in (0.15, 0.4, 1)],
        [f"lenience {lenience}" for lenience in (0.9, 0.7, 0.5)],
        [f"lenience {lenience}, from p" for lenience in (0.7, 0.5)],
        ["typical (vLLM)", "relaxed (TensorRT-LLM)"],
        ["cascade opt 0.1", "cascade token-v3 0.2"],
    ):
        yield from (rows[name]["kl"] for name in names)
        yield from (rows[name]["block_efficiency"] for name in names)


def errors_of_results() -> Numbers:
    """The least and the largest standard error of that table, whole texts being the independent draws."""
    found = [
        clustered_error(accepted(getattr(otd.rules, name)(), otd.Problem(pairs.p, pairs.q, k)), pairs.text)
        for name in RESULTS
        for pairs in (real(1.0),)
        for k in (2, 4, 8)
    ]
    yield from (min(found), max(found))


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


def of_self_drafts() -> Numbers:
    with (ROOT / "figures" / "data" / "self_drafts_cpu.csv").open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["kind"] == "all"]
    (path,) = (row for row in rows if row["method"].startswith("block") and row["method"].endswith("skip:17"))
    yield from (float(path["tokens_a_call"]), float(path["ratio"]))


def of_heads() -> Numbers:
    """Tokens a call of trees of 16 nodes that two heads draft, at temperatures 1 and .6."""
    pytest.importorskip("torch")
    heads = importlib.import_module("figures.heads.table")
    found = heads.cells(heads.read(heads.OUT))
    for way in ("counted", "drawn by place, tree", "likeliest products", "argmax path"):
        yield from (1 + found[heads.NAME, temperature, 16].mean(way) for temperature in heads.TEMPERATURES)


def bridged_models() -> Numbers:
    yield from (bridge_paths.CASES, len(bridge_paths.ROW_SIZES) + 1)  # and the one where scaling the target matters


CLAIMS = (
    Claim("docs/benchmarks.md", "| 1, `torch` |", backends),
    Claim("docs/benchmarks.md", "| 1, torch, float32 weights |", products),
    Claim("docs/benchmarks.md", "| `auto` is told the costs |", hindsight),
    Claim("docs/benchmarks.md", "| fresh, temperature 1 |", fresh),
    Claim("docs/gpu.md", "| plain | 9.2 |", steps_at_8b),
    Claim(
        "docs/benchmarks.md",
        "| `auto`, temperature 1 | **1.17**",
        lambda: bench("bench_auto_cpu.csv", AUTO_ROWS),
    ),
    Claim("docs/benchmarks.md", "| `auto`, temperature 1 | **1.21**", beside_transformers),
    Claim(
        "docs/benchmarks.md",
        r"Eight texts at a time, `auto` runs at (\.\d+) \[(\.\d+), (1\.\d+)\] at temperature 1"
        r" and (\.\d+) \[(\.\d+), (1\.\d+)\]",
        beside_the_table_of_speeds,
    ),
    Claim("docs/which_rule.md", "| trained by | T 1.0, k = 1 |", trained),
    Claim(
        "docs/which_rule.md",
        r"After (\d+) steps a student of the accepted length accepts (\.\d+) tokens of a path of four, one of total"
        r" variation (\.\d+)",
        accepted_lengths,
    ),
    Claim(
        "docs/which_rule.md",
        r"k = 1 by (\.\d+) to (\.\d+)\. One draft alone then accepts (\.\d+) to (\.\d+) less",
        trained_for_more,
    ),
    Claim("docs/which_rule.md", "| trees: rules |", caps_of_trees, slow=True),
    Claim("docs/which_rule.md", r"Independent drafts reach (\.\d+) and (\.\d+)\.", independent),
    Claim("README.md", "| rule (`otd.rules`) | k = 2 |", table_of_results, slow=True),
    Claim("README.md", r"errors are (0\.\d+) to (0\.\d+);", errors_of_results, slow=True),
    Claim(
        "README.md",
        r"is (1\.\d+) at temperature 0\.6 \(95 % CI (1\.\d+) to (1\.\d+)\) and not measurable at temperature 1: (1\.\d+) \((0\.\d+)"
        r" to (1\.\d+)\)",
        speeds,
    ),
    Claim("CHANGELOG.md", r"`ot-draft prove`: (\d+) statements", statements),
    Claim("docs/theory.md", "| $k$ | 2 | 3 |", shares),
    Claim("docs/theory.md", "| trees | best rule |", yardstick, slow=True),
    Claim("docs/couplings.md", r"A coin between its ends loses (\.\d+) at most there", coin_between_ends, slow=True),
    Claim("docs/couplings.md", "| way | accepts |", lambda: two_vocabularies.means().values(), slow=True),
    Claim("docs/couplings.md", "| proposal | 2 nodes |", drafted_blindly, slow=True),
    Claim(
        "docs/couplings.md",
        r"With 8 tokens and 2 nodes: (\d\.\d+), (\d\.\d+), (\.\d+)",
        lambda: factorised.means(40, 8).values(),
    ),
    Claim("docs/couplings.md", r"`skip:17`: (\d\.\d+) tokens a call, (\.\d+) of plain", of_self_drafts),
    Claim(
        "docs/couplings.md",
        r"`CountedTree` (\d\.\d+), (\d\.\d+); drawn tree (\d\.\d+), (\d\.\d+);\slikeliest products (\d\.\d+),"
        r" (\d\.\d+); argmax path (\d\.\d+), (\d\.\d+)",
        of_heads,
    ),
    Claim("docs/couplings.md", r"with (\d) places each, they gain (\d+\.\d) % .*? known, (\d+\.\d) %", best_cuts),
    Claim("docs/couplings.md", "| who is kept | accepts |", lambda: three_models.means().values(), slow=True),
    Claim("docs/lossy.md", "| rule | acceptance | TV spent |", table_of_lossy_rules, slow=True),
    Claim("docs/lossy.md", "| rule | KL of a text |", table_along_texts, slow=True),
    Claim("docs/lossy.md", r"optimum without bias is (\.\d+)", optimum),
    Claim("docs/formal.md", r"on (\d+) small problems six rules", lambda: [bridge.CASES]),
    Claim("docs/formal.md", r"hybrid drafts on (\d+) small problems", lambda: [sum(1 for _ in bridge.hybrid_cases())]),
    Claim("docs/formal.md", r"on (\d+) small Markov models, laws and lengths; on (\d+) models", bridged_models),
)


def test_a_wrong_number_is_seen() -> None:
    assert agree(["8/9", ".490", "1,200", "∞"], [8 / 9, 0.4904, 1200.4, float("inf")]) == []
    assert agree([".490"], [0.4906]) == [(".490", 0.4906)]
    assert agree(["122"], [123]) == [("122", 123)]


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(claim, marks=[pytest.mark.slow] if claim.slow else [], id=f"{claim.document}: {claim.sentence}")
        for claim in CLAIMS
    ],
)
def test_a_document_says_what_its_command_gives(claim: Claim) -> None:
    assert agree(claim.said(), [float(value) for value in claim.follows()]) == []
