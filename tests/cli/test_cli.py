"""`ot-draft compare`: exact numbers, files in and out, clear refusals, the same result for any number of processes."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

import ot_draft as otd
from figures.about import as_summaries
from ot_draft import cli
from ot_draft.cli import CLONE, main
from ot_draft.data.study import OptimumRow
from ot_draft.data.summary import clustered_error

BERNOULLI = ("--p", "1/2,1/2", "--q", "3/4,1/4")
REAL = str(Path(__file__).parents[2] / "figures" / "data" / "smollm2_pairs.npz")


def compare(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


def summary(*arguments: object) -> dict[tuple[str, int], Any]:
    """(rule, k) -> line of the summary; of a rule under several laws the first."""
    result = compare(*arguments, "--csv")
    assert result.exit_code == 0, result.output
    lines = as_summaries(csv.DictReader(result.stdout.splitlines()))
    return {(line.rule, line.k): line for line in reversed(lines)}


def records(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_bernoulli_pair_is_exact() -> None:
    lines = summary(*BERNOULLI, "--k", "2,8")
    iid = {name: line for name, line in lines.items() if line.law == "iid"}
    assert iid["Optimal", 2].accepted == iid["Optimal", 2].optimum == Fraction(15, 16)
    assert iid["RecursiveRejection", 2].accepted == Fraction(13, 16)
    assert float(iid["KSeq", 2].accepted) == pytest.approx(0.8476, abs=1e-4)
    assert {line.method for line in lines.values()} == {"dual", "lp", "enumerated", "- no such k under this law"}
    for (rule, k), line in lines.items():
        if rule in (OptimumRow.LINEAR_PROGRAM, "FromCoupling", "Greedy", "SpecHub") and line.accepted is not None:
            assert line.accepted == line.optimum, (rule, k)


def test_the_table_shows_fractions_bounds_and_what_signs_mean() -> None:
    output = " ".join(compare(*BERNOULLI, "--k", "1,2").output.split())
    for text in (
        "15/16",
        "0.8476",
        "guarantee, 1 - (1 - 1/k)^k",
        "0.7500",
        "TV 0.2500",
        "probability that the output token is one of the draft tokens",
    ):
        assert text in output
    assert "±" not in output


def test_every_rule_once_and_the_optimum_of_every_law() -> None:
    lines = summary(*BERNOULLI, "--k", 2)
    known = {rule.name for rule in otd.rules.ALL if not rule.cost.slow}
    assert {name for name, _ in lines} == {*OptimumRow, *known}  # slow ones: when asked for only
    result = compare(*BERNOULLI, "--k", 2, "--csv").stdout
    for law in ("iid", "without-replacement", "greedy", "hub", "hybrid:auto"):
        assert f"{OptimumRow.DUAL},{law}," in result


def test_rules_and_laws_are_chosen() -> None:
    lines = summary(*BERNOULLI, "--k", 2, "--rules", "optimal,naive-target", "--draft-law", "hybrid:1")
    assert {name for name, _ in lines} == {*OptimumRow, "Optimal", "NaiveTarget"}
    assert {line.law for line in lines.values()} == {"hybrid:1"}
    assert all(line.accepted == 1 for line in lines.values())  # both tokens are drafted


@pytest.fixture
def float_pairs() -> Any:
    return np.random.default_rng(5).dirichlet(np.ones(4), (2, 3))


def test_all_file_kinds_give_the_same_numbers(tmp_path: Path, float_pairs: Any) -> None:
    p, q = float_pairs
    np.savez(tmp_path / "pairs.npz", p=p, q=q)
    np.save(tmp_path / "pairs.npy", float_pairs)
    (tmp_path / "pairs.json").write_text(json.dumps({"p": p.tolist(), "q": q.tolist()}))
    lines = [
        f"{pair},{a!r},{b!r}" for pair in range(3) for a, b in zip(p[pair].tolist(), q[pair].tolist(), strict=True)
    ]
    (tmp_path / "pairs.csv").write_text("\n".join(["pair,p,q", *lines]))
    found = []
    for file in sorted(tmp_path.iterdir()):
        result = compare(file, "--k", "1,3", "--jobs", 1, "--rules", "KSeq,Optimal", "--out", tmp_path / "out")
        assert result.exit_code == 0, result.output
        found.append((tmp_path / "out" / "pairs.csv").read_text())
    assert len(found) == 4 and len(set(found)) == 1


def test_csv_and_json_say_the_same(tmp_path: Path, float_pairs: Any) -> None:
    np.save(tmp_path / "pairs.npy", float_pairs)
    printed = compare(tmp_path / "pairs.npy", "--k", "2", "--jobs", 1, "--json", "--out", tmp_path)
    written = json.loads((tmp_path / "compare.json").read_text())
    assert json.loads(printed.stdout) == written
    assert written["n"] == 4 and written["settings"]["ks"] == [2]
    rows = records(tmp_path / "pairs.csv")
    assert len(rows) == len(written["pairs"]) == 3 * 22
    for row, entry in zip(rows, written["pairs"], strict=True):
        assert (int(row["pair"]), row["rule"], row["method"]) == (entry["pair"], entry["rule"], entry["method"])
        assert (float(row["accepted"]) if row["accepted"] else None) == entry["accepted"]
    for row, line in zip(records(tmp_path / "summary.csv"), written["summary"], strict=True):
        values = [
            entry["accepted"]
            for entry in written["pairs"]
            if (entry["rule"], entry["law"]) == (row["rule"], row["law"])
        ]
        assert float(row["accepted"]) == line["accepted"] == pytest.approx(np.mean(values), abs=1e-15)


def test_exact_files_stay_exact(tmp_path: Path) -> None:
    (tmp_path / "pair.json").write_text('{"p": ["1/3", "1/3", "1/3"], "q": ["1/2", "1/2", 0]}')
    (tmp_path / "pair.csv").write_text("p,q\n1/3,1/2\n1/3,1/2\n1/3,0\n")
    for file in ("pair.json", "pair.csv"):
        lines = summary(tmp_path / file, "--k", 2, "--rules", "Optimal,SpeculativeSampling")
        assert lines["Optimal", 2].accepted == Fraction(2, 3)
        assert isinstance(lines["SpeculativeSampling", 2].taken, Fraction)


def test_real_pairs_do_not_depend_on_the_number_of_processes_or_on_the_selection(tmp_path: Path) -> None:
    settings = (
        "--k",
        "1,4",
        "--samples",
        16,
        "--lp-limit",
        0,
        "--rules",
        "KSeq,RecursiveRejectionWithoutReplacement,Optimal",
    )
    for name, options in {"one": ("--limit", 10), "two": ("--limit", 10, "--jobs", 2), "few": ("--limit", 5)}.items():
        result = compare(REAL, *settings, "--jobs", 1, *options, "--out", tmp_path / name)
        assert result.exit_code == 0, result.output
    one, two, few = (records(tmp_path / name / "pairs.csv") for name in ("one", "two", "few"))
    assert one == two
    assert len(one) == 2 * len(few) == 10 * 2 * 2 * 7
    assert all(row in one for row in few)
    assert records(tmp_path / "one" / "summary.csv") == records(tmp_path / "two" / "summary.csv")
    assert {row["temperature"] for row in one} == {"1.0", "0.6"} and len({row["kind"] for row in one}) == 4


def test_a_temperature_and_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = compare(
        REAL,
        "--stored-temperature",
        0.6,
        "--limit",
        2,
        "--k",
        "1,2",
        "--jobs",
        1,
        "--rules",
        "KSeq",
        "--out",
        tmp_path,
        "--plot",
    )
    assert result.exit_code == 0, result.output
    assert {row["group"] for row in records(tmp_path / "summary.csv")} == {"0.6"}
    assert (tmp_path / "acceptance.svg").read_text().startswith("<?xml")
    assert (tmp_path / "acceptance.png").read_bytes()[1:4] == b"PNG"


def test_errors_count_texts_not_contexts() -> None:
    values = np.array([0.1, 0.1, 0.5, 0.5, 0.6, 0.6])
    once = clustered_error(values[::2], [0, 1, 2])
    assert clustered_error(values, [0, 0, 1, 1, 2, 2]) == pytest.approx(once)
    assert once == pytest.approx(np.std(values[::2], ddof=1) / np.sqrt(3))
    assert np.isnan(clustered_error(values, [0] * 6))


BAD_FILES = {
    "broken.json": ('{"p": [1', "cannot be read"),
    "list.json": ("[1, 2]", "must hold one object"),
    "no_q.json": ('{"p": [1.0]}', "got p. Rename or add arrays"),
    "mixed.json": ('{"p": ["1/2", 0.5], "q": ["1/2", "1/2"]}', "must be a string, as another mass is"),
    "text.json": ('{"p": ["half", "1/2"], "q": ["1/2", "1/2"]}', "got 'half'. Write it as 1/3"),
    "sum.json": ('{"p": [[0.5, 0.5], [0.5, 0.4]], "q": [[0.5, 0.5], [0.5, 0.5]]}', "row 1: p must sum to 1"),
    "negative.json": ('{"p": [1.5, -0.5], "q": [0.5, 0.5]}', "token 1 must be >= 0, got -0.5"),
    "ragged.csv": ("pair,p,q\n1,1,1\n2,1/2,1/2\n2,1/2,1/2\n", "must hold pairs of one number of tokens, got [1, 2]"),
    "header.csv": ("a,b\n1,1\n", "columns p and q"),
    "pairs.txt": ("", "end in .npz, .npy, .safetensors"),
    "broken.npz": ("PK\x03\x04 no archive", "cannot be read"),
    "broken.npy": ("nothing", "cannot be read"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_refused_in_one_line(tmp_path: Path, name: str) -> None:
    content, message = BAD_FILES[name]
    (tmp_path / name).write_text(content)
    refuse(message, tmp_path / name)


def test_bad_arguments_are_refused_in_one_line(tmp_path: Path) -> None:
    refuse("No such file", tmp_path / "missing.npz")
    refuse("rule must be a known name, got 'Foo'. Use one of SpeculativeSampling,", *BERNOULLI, "--rules", "Foo")
    refuse("draft law must be one of iid", *BERNOULLI, "--draft-law", "foo")
    refuse("must include a rule for hub, got KSeq", *BERNOULLI, "--rules", "KSeq", "--draft-law", "hub")
    refuse("p must sum to 1 (tolerance 0), got 5/6", "--p", "1/2,1/3", "--q", "1/2,1/2")
    refuse("--p must be a fraction or a decimal of at most 1000 digits, got '1/0'", "--p", "1/0,1", "--q", "1/2,1/2")
    refuse("must be given together", "--p", "1")
    refuse("exclude each other", REAL, *BERNOULLI)
    refuse("as in 1,2,4,8", *BERNOULLI, "--k", "1,1")
    refuse("Add --out", *BERNOULLI, "--plot")
    refuse("Use one of them", *BERNOULLI, "--csv", "--json")
    refuse("(0.6, 1.0), got 0.3. Use --temperature", REAL, "--stored-temperature", 0.3)


def test_version_and_module() -> None:
    assert otd.__version__ in CliRunner().invoke(main, ["--version"]).output
    shown = subprocess.run(
        [sys.executable, "-m", "ot_draft", "compare", "--help"], capture_output=True, text=True, check=True
    )
    assert "--lp-limit" in shown.stdout and "Usage: ot-draft compare" in shown.stdout


def refuse(message: str, *arguments: object) -> None:
    result = compare(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("Error: ") and message in result.stderr
    assert result.stderr.count("\n") == 1 and result.stdout == ""


def test_a_mean_over_some_of_the_pairs_is_not_shown() -> None:
    """Under hybrid:auto the program is small for the pairs where nearly all drafts are fixed: the row says '-', not their mean."""
    lines = summary(REAL, "--k", 2, "--limit", 8, "--draft-law", "hybrid:auto", "--rules", "Optimal")
    programs = compare(REAL, "--k", 2, "--limit", 8, "--draft-law", "hybrid:auto", "--rules", "Optimal", "--csv").stdout
    assert lines[OptimumRow.LINEAR_PROGRAM, 2].accepted is None and "- too many draft sets" in programs
    assert lines["Optimal", 2].accepted is not None


def test_a_command_of_the_clone_is_refused_outside_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CLONE, "prove", "folder_that_is_not_there.main:main")
    result = CliRunner().invoke(main, ["prove", "--cases", "7"])
    assert result.exit_code == 2 and "must be run in the folder of a clone, got" in result.output
    told = CliRunner().invoke(main, ["prove", "--help"]).output
    assert "Check the statements" in told and "in the folder of a clone" in " ".join(told.split())


def test_the_clone_in_the_current_folder_is_found_by_the_installed_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CLONE, "prove", "part_of_a_clone.command:main")
    monkeypatch.setattr(sys, "path", [*sys.path])
    for folder in ("ot_draft", "part_of_a_clone"):
        (tmp_path / folder).mkdir()
    (tmp_path / "part_of_a_clone" / "command.py").write_text(
        "import click\n\n\n@click.command()\ndef main():\n    click.echo('proved')\n"
    )
    monkeypatch.chdir(tmp_path / "ot_draft")
    assert CliRunner().invoke(main, ["prove"]).exit_code == 2
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["prove"]).output == "proved\n"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["chekc"], "Did you mean check?"),
        (["figure"], "Did you mean figures?"),
        (["figures", "table1"], "Did you mean spectr_table_1?"),
        (["figures", "transport plan"], "Did you mean transport_plans?"),
        (["compare", *BERNOULLI, "--rules", "Sequioa"], "Did you mean Sequoia?"),
        (["check", "kseg"], "Did you mean KSeq?"),
        (["check", "SpecInfr(2)"], "Did you mean SpecInfer"),
    ],
)
def test_a_misspelt_name_gets_the_closest_ones(words: list[str], meant: str) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code in (2, 64) and meant in result.output


def test_rules_go_by_the_names_of_their_papers_in_every_command() -> None:
    from ot_draft import trees
    from ot_draft.cli.rule_target import rule_at
    from ot_draft.data.study import choose_rules

    names = {name: name for name in (rule.name for rule in otd.rules.ALL)} | dict(otd.rules.PAPERS)
    names |= {"K-SEQ": "KSeq", "k_seq": "KSeq", "spec-hub": "SpecHub", "recursive rejection": "RecursiveRejection"}
    for name, rule in names.items():
        assert choose_rules([name])[0].name == rule
        assert trees.rules.short_name(trees.rules.called(name)) == rule
        assert rule_at(name).rule.name == rule


def test_commands_are_listed_by_use() -> None:
    assert main.list_commands(click.Context(main))[:3] == ["compare", "check", "decode"]
    output = CliRunner().invoke(main).output
    places = [output.index(f"\n  {name} ") for name in main.list_commands(click.Context(main))]
    assert places == sorted(places) and output.index("Start here:") < places[0]


@pytest.mark.parametrize("clone", [True, False])
@pytest.mark.parametrize("group", [(), ("vectors",)])
def test_no_summary_of_a_command_is_truncated(
    group: tuple[str, ...], clone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not clone:
        monkeypatch.setattr(cli, "_is_here", lambda name: name not in CLONE)
    output = CliRunner().invoke(main, [*group, "--help"], terminal_width=80).output
    assert "Usage:" in output and "..." not in output.partition("\n\n")[2]


def test_where_something_is_missing_the_help_says_what_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "Available commands" not in CliRunner().invoke(main, ["--help"]).output
    there = cli.find_spec
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name in ("figures", "hypothesis") else there(name))
    output = CliRunner().invoke(main, ["--help"], terminal_width=200).output
    assert (
        "Available commands: compare, decode, plan, sweep, capture, replay, skip, audit, conform, vectors, prove, survey."
        " To enable the others:" in output
    )
    assert re.search(r"\n  check +pip install '\S*\[check\]'", output)
    assert re.search(r"\n  figures +run in the folder of a clone", output)


@pytest.mark.parametrize(
    ("error", "package"),
    [(otd.MissingPackage("matplotlib", "figures"), "matplotlib"), (ModuleNotFoundError("no", name="z3"), "z3")],
)
def test_a_package_that_a_command_misses_is_one_line(
    error: Exception, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise error

    monkeypatch.setattr("ot_draft.cli.compare.compare", click.Command("compare", callback=missing))
    result = compare()
    assert result.exit_code == 2 and f"Error: {package} is not installed. Run  pip install " in result.output
    assert result.output.count("\n") == 1


def test_a_module_of_no_extra_is_no_wrong_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ModuleNotFoundError("no", name="somebodys_module")

    monkeypatch.setattr("ot_draft.cli.compare.compare", click.Command("compare", callback=broken))
    result = compare()
    assert result.exit_code == 70 and "ModuleNotFoundError" in result.output and "internal error" in result.output


@pytest.mark.parametrize("name", ["compare", *CLONE])
def test_every_command_has_a_help(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0 and "Usage:" in result.output
