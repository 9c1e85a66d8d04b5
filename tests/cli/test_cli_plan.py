"""`ot-draft plan`: from costs and traces or simulation to a table, CSV and JSON; wrong input in one line, exit status 2."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ot_draft.cli import main
from ot_draft.cli.plan import EXAMPLES, findings, is_slower
from ot_draft.trees.evaluation.wall_clock import Planned

COSTS = {"verify": {"1": 1, "17": 1.1, "65": 1.4}, "draft": {"1": 0.06, "8": 0.08}, "select": {"": 0.01, "Joint": 0.03}}
TRACES = "rule,K,L,block_efficiency,error\nJoint,8,8,4.0,0.05\nJoint,1,4,2.4,\nKSeq,8,4,3.1,0.04\n"
QUICK = ("--iterations", 6, "--vocabulary", 60, "--paths", "1,2", "--length", "1,3")


@pytest.fixture
def costs(tmp_path: Path) -> Path:
    file = tmp_path / "costs.json"
    file.write_text(json.dumps(COSTS))
    return file


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    file = tmp_path / "traces.csv"
    file.write_text(TRACES)
    return file


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["plan", *map(str, arguments)])


def test_traces_give_the_speed_up_by_hand(costs: Path, traces: Path) -> None:
    result = run("--costs", costs, "--traces", traces, "--csv")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(result.stdout.splitlines()))
    found = {(row["rule"], row["K"], row["L"]): float(row["speed_up"]) for row in rows}
    assert found["Joint", "8", "8"] == pytest.approx(4 / (1.4 + 8 * 0.08 + 0.03))
    assert found["KSeq", "8", "4"] == pytest.approx(3.1 / (1.1 + 0.3 * 16 / 48 + 4 * 0.08 + 0.01))
    assert list(found.values()) == sorted(found.values(), reverse=True) and len(found) == 3


def test_the_table_marks_the_best_and_json_says_the_same(costs: Path, traces: Path) -> None:
    shown = run("--costs", costs, "--traces", traces)
    assert shown.exit_code == 0, shown.output
    (line,) = [line for line in shown.stdout.splitlines() if "best" in line and "KSeq" in line]
    assert "3.100" in line and "±" in line
    printed = json.loads(run("--costs", costs, "--traces", traces, "--json").stdout)
    assert printed["best"] == printed["rows"][0] and printed["best"]["rule"] == "KSeq"
    assert [row["error"] is None for row in printed["rows"]] == [
        row["L"] == 4 and row["rule"] == "Joint" for row in printed["rows"]
    ]
    few = json.loads(run("--costs", costs, "--traces", traces, "--json", "--paths", "8", "--length", "8").stdout)
    assert [(row["K"], row["L"]) for row in few["rows"]] == [(8, 8)]
    one = json.loads(run("--costs", costs, "--traces", traces, "--json", "--paths", "1").stdout)
    assert [(row["K"], row["L"]) for row in one["rows"]] == [(1, 4)]


def test_differences_larger_than_their_errors_are_named() -> None:
    """The errors of both rows count: 0.2 is more than two standard errors of 0.05, 0.1 is not, though one of them is small."""
    best, near, far, other = (
        Planned(rule, 4, size, 4 * size, 2.0, 1.0, speed_up, error)
        for rule, size, speed_up, error in (("Joint", 2, 2.0, 0.05), ("KSeq", 2, 1.9, 0.01), ("KSeq", 3, 1.8, 0.05), ("Old", 2, 1.5, 0.1))
    )  # fmt: skip
    assert [is_slower(row, best) for row in (near, far, other)] == [False, True, True]
    slower, alike, following = findings([best, near, far, other], 200)
    assert "Old" in slower and "KSeq" not in slower
    assert "KSeq 4 x 2" in alike and "KSeq 4 x 3" not in alike and "--iterations 800" in alike
    assert "ot-draft decode" in following and "ot-draft compare" in following
    assert len(findings([best, other], None)) == 2 and "none" in findings([best], None)[0]


def test_simulation_finds_all_sizes_and_is_reproducible(costs: Path) -> None:
    arguments = ("--costs", costs, *QUICK, "--rules", "Joint,KSeq,BlockVerification", "--json")
    first, again = (run(*arguments) for _ in range(2))
    assert first.exit_code == 0, first.output
    assert first.stdout == again.stdout
    rows = json.loads(first.stdout)["rows"]
    assert {(row["rule"], row["K"], row["L"]) for row in rows} == {
        (rule, K, L) for rule in ("Joint", "KSeq", "BlockVerification") for K in (1, 2) for L in (1, 3)
    } - {("BlockVerification", 2, 1), ("BlockVerification", 2, 3)}
    assert "mean sum min(p, q) = 0.8" in run(*arguments, "--acceptance", 0.8).stdout
    said = "omitted, because the rule does not support as many paths: BlockVerification with K = 2"
    assert json.loads(first.stdout)["source"].endswith(said)
    assert said in " ".join(run(*arguments[:-1]).stdout.split())
    assert "left out" not in run("--costs", costs, *QUICK, "--rules", "Joint,KSeq").stdout


def test_a_tree_is_planned_beside_the_paths(costs: Path) -> None:
    """It costs what its nodes and levels cost, and its shape is in the source; --nodes 0 plans paths only."""
    arguments = ("--costs", costs, *QUICK, "--rules", "Joint,Traversal", "--json")
    planned = json.loads(run(*arguments, "--nodes", 5).stdout)
    (tree,) = [row for row in planned["rows"] if row["nodes"] != row["K"] * row["L"]]
    assert tree["rule"] == "Traversal" and tree["K"] <= tree["nodes"] <= 5 and tree["L"] <= 3
    cost = 1 + 0.1 * tree["nodes"] / 16 + tree["L"] * (0.06 + 0.02 * (tree["K"] - 1) / 7) + 0.01
    assert tree["cost"] == pytest.approx(cost)
    assert tree["speed_up"] == pytest.approx(tree["block_efficiency"] / cost)
    assert f"row with {tree['nodes']} nodes: FixedTree(TreeShape((0," in planned["source"]
    without = json.loads(run(*arguments, "--nodes", 0).stdout)
    assert without["rows"] == [row for row in planned["rows"] if row != tree] and "FixedTree" not in without["source"]


def test_the_whole_output_of_a_comparison_is_read(tmp_path: Path, costs: Path, traces: Path) -> None:
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps({"settings": {}, "methods": [], "costs": json.loads(costs.read_text())}))
    assert (
        run("--costs", whole, "--traces", traces, "--csv").stdout
        == run("--costs", costs, "--traces", traces, "--csv").stdout
    )


def test_sizes_not_asked_for_stay_within_the_costs(tmp_path: Path) -> None:
    small: dict[str, Any] = {"verify": {"1": 1, "5": 1}, "draft": {"1": 0.1, "2": 0.1}}
    (tmp_path / "small.json").write_text(json.dumps(small))
    result = run("--costs", tmp_path / "small.json", "--iterations", 4, "--vocabulary", 40, "--rules", "KSeq", "--json")
    sizes = {(row["K"], row["L"]) for row in json.loads(result.stdout)["rows"]}
    assert sizes == {(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2)}


def test_the_example_of_the_help_works(tmp_path: Path, traces: Path) -> None:
    shown = run("--help").output
    for name, text in ((f"costs.{kind}", text) for kind, text in EXAMPLES.items()):
        (tmp_path / name).write_text(text)
        assert run("--costs", tmp_path / name, "--traces", traces).exit_code == 0
        assert all(line.strip() in shown for line in text.splitlines())


def test_no_speed_up_is_said(tmp_path: Path, traces: Path) -> None:
    dear = COSTS | {"draft": {"1": 3, "8": 3}}
    (tmp_path / "dear.json").write_text(json.dumps(dear))
    assert "autoregressive decoding is fastest" in run("--costs", tmp_path / "dear.json", "--traces", traces).stdout


def test_wrong_input_is_refused_in_one_line(tmp_path: Path, costs: Path, traces: Path) -> None:
    def written(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    refuse("No such file", "--costs", tmp_path / "missing.json")
    refuse("--costs must be a .json or .csv file", "--costs", written("costs.txt", ""))
    refuse("must be valid JSON", "--costs", written("broken.json", "{"))
    refuse("one JSON object", "--costs", written("list.json", "[1]"))
    refuse("cost must be verify, draft or select, got 'verif'", "--costs", written("verif.json", '{"verif": {"1": 1}}'))
    refuse("to numbers, got", "--costs", written("text.json", '{"verify": {"1": "one"}}'))
    refuse("to numbers, got", "--costs", written("true.json", '{"verify": {"1": true}}'))
    refuse("to numbers, got", "--costs", written("large.json", '{"verify": {"1": 1%s}}' % ("0" * 400)))
    refuse("must be valid JSON", "--costs", written("nested.json", "[" * 100_000))
    refuse("to numbers, got", "--costs", written("where.json", '{"verify": {"one": 1}}'))
    refuse("costs of draft", "--costs", written("few.json", '{"verify": {"1": 1}}'))
    refuse("columns what,at,cost", "--costs", written("head.csv", "a,b\n1,2\n"))
    refuse(
        "must reach 65",
        "--costs",
        written("short.json", json.dumps(COSTS | {"verify": {"1": 1, "9": 1}})),
        "--traces",
        traces,
    )
    refuse(
        "in the range of --costs (verify up to 1, draft up to 1)",
        "--costs",
        written("none.json", '{"verify": {"1": 1}, "draft": {"1": 1}}'),
    )
    refuse("columns rule,K,L", "--costs", costs, "--traces", written("t.csv", "rule,K\nJoint,1\n"))
    refuse("line 2", "--costs", costs, "--traces", written("u.csv", "rule,K,L,block_efficiency\nJoint,one,4,2\n"))
    refuse(
        "must be from 1 to L + 1",
        "--costs",
        costs,
        "--traces",
        written("v.csv", "rule,K,L,block_efficiency\nJoint,1,4,6\n"),
    )
    twice = written("w.csv", "rule,K,L,block_efficiency\nJoint,1,4,2\nKSeq,1,4,2\nJoint,1,04,3\n")
    refuse(
        "line 4: Joint with K = 1 and L = 4 must be unique, got it in line 2, too", "--costs", costs, "--traces", twice
    )
    refuse("must hold a row", "--costs", costs, "--traces", traces, "--paths", 3)
    refuse("rule must be a known name, got 'Foo'. Use one of Joint,", "--costs", costs, *QUICK, "--rules", "Foo")
    refuse("mean acceptance must be from", "--costs", costs, *QUICK, "--acceptance", 1.5)
    refuse("temperature above 0", "--costs", costs, *QUICK, "--temperature", 0)
    refuse("Use one of them", "--costs", costs, "--traces", traces, "--acceptance", 0.5)
    refuse("Use one of them", "--costs", costs, "--csv", "--json")
    refuse("--paths must be distinct positive integers", "--costs", costs, "--paths", "0")


def refuse(message: str, *arguments: object) -> None:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("Error: ") and message in result.stderr
    assert result.stderr.count("\n") == 1 and result.stdout == ""


def test_the_table_fits_80_columns_with_whole_names(costs: Path, tmp_path: Path) -> None:
    traces = tmp_path / "[x].csv"
    traces.write_text("rule,K,L,block_efficiency,error\nRecursiveRejection,8,8,8.4,0.05\nJoint,4,4,2.4,1.5\n")
    shown = run("--costs", costs, "--traces", traces).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "RecursiveRejection" in shown and "block efficiency of [x].csv" in shown and "… " not in shown


@pytest.mark.parametrize("again", ["verify,1,2", "verify,01,2", "select,,0.5"])
def test_a_cost_that_stands_there_twice_is_refused(again: str, tmp_path: Path, traces: Path) -> None:
    (tmp_path / "costs.csv").write_text(
        f"what,at,cost\nverify,1,1\nverify,65,1.4\ndraft,1,0.06\ndraft,8,0.08\nselect,,0.01\n{again}\n"
    )
    result = run("--costs", tmp_path / "costs.csv", "--traces", traces)
    assert result.exit_code == 2 and "must be unique" in result.output


@pytest.mark.parametrize(
    "costs",
    [
        '{"verify": {"1": 1, "9": 2, "9": 3}, "draft": {"1": 1}}',
        '{"verify": {"1": 1}, "draft": {"1": 1}, "draft": {"1": 2}}',
    ],
)
def test_a_name_that_stands_twice_in_json_is_refused(costs: str, tmp_path: Path, traces: Path) -> None:
    (tmp_path / "costs.json").write_text(costs)
    result = CliRunner().invoke(main, ["plan", "--costs", str(tmp_path / "costs.json"), "--traces", str(traces)])
    assert result.exit_code == 2 and "duplicate key" in " ".join(result.output.split())


def test_missing_costs_say_how_to_measure_or_write_them() -> None:
    result = CliRunner().invoke(main, ["plan"])
    assert result.exit_code == 2 and "Missing option '--costs'" in result.output
    assert "decode --compare json > costs.json" in result.output and "plan --help" in result.output
