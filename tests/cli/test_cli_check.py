"""`ot-draft check`: the verdict, exit status, refusals in one line, and a counterexample that shows the failure when it is run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result
from slow import slow

from ot_draft.cli import main
from ot_draft.cli.rule_target import rule_at
from ot_draft.verify.rule.properties import of_category
from ot_draft.verify.source import fraction_source, number, rule_source

HERE = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("short_searches")
RULES = '''
from dataclasses import dataclass
from numbers_of_mine import HUNDRED
import ot_draft as otd


class Forgetful(otd.SelectionRule):
    """The residual is the target itself."""

    law = otd.IID()

    def __call__(self, p, q, drafts):
        return otd.Selection(otd.rules.RecursiveRejection()(p, q, drafts).accept, p)


@dataclass(frozen=True)
class Scaled(otd.SelectionRule):
    percent: int = HUNDRED
    law: otd.DraftLaw = otd.IID()

    def __call__(self, p, q, drafts):
        selection = otd.rules.SpeculativeSampling()(p, q, drafts)
        return otd.Selection(selection.accept * self.percent / 100, selection.residual)


class Plain(Scaled):
    """No dataclass: its argument is kept under its own name."""

    def __init__(self, percent):
        object.__setattr__(self, "percent", percent)
        object.__setattr__(self, "law", otd.IID())


class Half(otd.SelectionRule):
    def other(self):
        pass


class WithoutLaw(otd.SelectionRule):
    def __call__(self, p, q, drafts):
        raise AssertionError


def made():
    return Scaled(50)


class NoRows(Scaled):
    """Right on every proper problem; raises an error on a batch of no rows."""

    def __call__(self, p, q, drafts):
        if 0 in p.shape:
            raise RuntimeError("there are no rows")
        return super().__call__(p, q, drafts)


scaled = Scaled(60)
number = 3


def function_of_arrays(p, q, drafts):
    return otd.Selection(0 * drafts, p)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder: rules, what they import, and a file that cannot be imported."""
    (tmp_path / "mine.py").write_text(RULES)
    (tmp_path / "numbers_of_mine.py").write_text("HUNDRED = 100\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "json.py").write_text("")
    (tmp_path / "two-words.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("mine", "numbers_of_mine", "broken"):
        sys.modules.pop(name, None)


def check(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


def law_of(*arguments: object) -> Result:
    return check(*arguments, "--property", "output_distribution", "--max-examples", 20)


def printed_code(text: str) -> str:
    """The counterexample, in front of the table."""
    return text[re.search(r"^(import|from) ", text, re.MULTILINE).start() :].partition("\n\n  ")[0]  # type: ignore[union-attr]


@pytest.mark.usefixtures("folder")
def test_right_rules_pass_with_status_0() -> None:
    rules = ("KSeq", "Optimal(law=Hybrid(1))", "mine.py:Scaled", "mine:Scaled(100)")
    result = check(*rules, "--property", "output_distribution", "--max-examples", 5)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("passed (") == 4 and "failed" not in result.stdout
    assert (
        "\nmine:Scaled(100)\n  lossless: not decided (not asked: probabilities," in result.stdout
    )  # told apart from its namesake


@pytest.mark.parametrize(
    "target",
    ["mine.py:Forgetful", slow("mine.py:Scaled(percent=50)"), slow("mine.py:made"), slow("mine.py:scaled"), slow("mine.py:Plain(70)"),
     slow("mine:Scaled(50, law=WithoutReplacement())"), slow("KSeq(factor=1)"), "ot_draft.rules:KSeq(law=WithoutReplacement())"],
)  # fmt: skip
def test_the_printed_counterexample_runs_and_shows_the_wrong_law(folder: Path, target: str) -> None:
    result = law_of(str(folder / target) if target.startswith("mine.py") else target)
    assert result.exit_code == 1, result.output
    code = printed_code(result.stdout)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run([sys.executable, "-c", code], cwd=elsewhere, capture_output=True, text=True, check=True)
    output, wanted, distance = done.stdout.splitlines()
    seen = re.search(r"# output distribution \((.*)\) instead of \((.*)\)", code)
    assert seen is not None and seen[1] != seen[2]
    for line, start, told in ((output, "output:", seen[1]), (wanted, "target:", seen[2])):
        assert line.split()[0] == start and ", ".join(number(Fraction(mass)) for mass in line.split()[1:]) == told
    assert 0 < Fraction(distance.rpartition(" ")[2]) <= 1


def test_a_rule_found_by_check_rule_is_made_again_from_its_file(folder: Path) -> None:
    expressions = {
        "mine.py:made": "Scaled(percent=50)",
        "mine.py:Plain(70)": "Plain(percent=70)",
        "KSeq": "otd.rules.KSeq()",
        "Optimal('auto')": "otd.rules.Optimal(law=otd.Hybrid(top='auto'))",
    }
    for target, expression in expressions.items():
        source = rule_source(rule_at(target).rule)
        assert source.expression == expression
        assert (f"sys.path.insert(0, {str(folder)!r})" in source.imports) == target.startswith("mine")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("missing.py:Rule", "file missing.py not found"),
        ("mine.py", "as in mine.py:Forgetful, got 'mine.py'. Use one of Forgetful, Scaled, Plain"),
        ("mine.py:Nothing", "mine.py must define Nothing. Use one of Forgetful"),
        ("mine.py:number", "must be a selection rule, got int"),
        ("mine.py:dataclass", "must be a selection rule"),
        ("mine.py:function_of_arrays", "got a function of p, q, drafts. Write it as __call__ of a subclass"),
        ("mine.py:Plain", "missing a required argument: 'percent'. Pass literals in parentheses, as in 'mine.py:Plain(percent=...)'"),
        ("mine.py:Scaled(share=2)", "unexpected keyword argument 'share'"),
        ("mine.py:Scaled(open('x'))", "arguments must be literals"),
        ("mine.py:Scaled(1)(2)", "arguments must be literals"),
        ("mine.py:scaled(2)", "must have no arguments"),
        ("mine.py:Half", "Implement __call__"),
        ("mine.py:WithoutLaw", "must have a draft law. Write  law = otd.IID()  in the class"),
        ("broken.py:Rule", "broken.py cannot be imported: SyntaxError"),
        ("json.py:Rule", "must have a unique module name, but json is in use. Rename the file."),
        ("two-words.py:Rule", "Rename it, for example to two_words.py"),
        ("nowhere.at_all:Rule", "module nowhere not found"),
        ("Secret", "rule must be a known name, got 'Secret'. Did you mean SpecTr"),
        ("KSeq(factor=0)", "creating KSeq(factor=0) raised Invalid"),
        ("7 rules", "RULE must be FILE.py:NAME"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("folder")
def test_wrong_targets_are_refused_in_one_line(target: str, message: str) -> None:
    refused(law_of(target), message)


ENDS = """
import os, sys
import ot_draft as otd
END = {end}
if {place!r} == "import":
    END(0)


class Rule(otd.rules.KSeq):
    def __init__(self):
        super().__init__()
        if {place!r} == "constructor":
            END(0)

    @property
    def claims(self):
        return () if {place!r} != "claims" else END(0)

    def __call__(self, p, q, drafts):
        if {place!r} == "call":
            END(0)
        return super().__call__(p, q, drafts)
"""


# One process checks all files. A file that ends the process leaves no line for itself and for those after it.
ENDED = """
import json, sys
from click.testing import CliRunner
from ot_draft.cli import main
for file in sys.argv[1:]:
    words = ["check", f"{file}.py:Rule", "--property", "output_distribution", "--max-examples", "2"]
    done = CliRunner().invoke(main, words)
    print("TOLD" + json.dumps([file, done.exit_code, done.output]))
"""


def test_a_file_that_ends_the_process_with_0_is_no_verdict(folder: Path) -> None:
    said = {
        "import": "cannot be imported",
        "constructor": "creating ",
        "claims": "attribute claims raised",
        "call": "crash: the rule",
    }
    files = {f"{place}_{end[:2]}": (place, end) for place in said for end in ("os._exit", "sys.exit")}
    for file, (place, end) in files.items():
        (folder / f"{file}.py").write_text(ENDS.format(end=end, place=place))
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    command = [sys.executable, "-P", "-c", ENDED, *files]  # -P: the folder has a json.py
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    told = [json.loads(line.removeprefix("TOLD")) for line in done.stdout.splitlines() if line.startswith("TOLD")]
    assert [file for file, _, _ in told] == [*files]
    for file, status, output in told:
        place, _ = files[file]
        assert status == (2 if place == "call" else 64), file
        assert said[place] in output, file


def test_the_command_itself_has_the_exit_status_of_the_check(folder: Path) -> None:
    (folder / "ends.py").write_text(ENDS.format(end="os._exit", place="call"))
    words = ["check", "ends.py:Rule", "--property", "output_distribution", "--max-examples", "2"]
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    command = [sys.executable, "-m", "ot_draft", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "crash: the rule" in done.stdout


@pytest.mark.usefixtures("folder")
def test_wrong_options_are_refused() -> None:
    refused(
        check("KSeq", "--property", "speed"),
        "properties must be names of properties, got speed. Use any of output_distribution",
    )
    assert check("KSeq", "--max-examples", 0).exit_code == 64
    assert check("KSeq", "--report", "pdf").exit_code == 64
    assert check().exit_code == 64


def refused(result: Result, message: str) -> None:
    assert result.exit_code == 64, result.output
    assert result.stderr.startswith("Error: ") and message in result.stderr
    assert result.stderr.count("\n") == 1 and result.stdout == ""


LOSSLESS = [word for each in of_category("lossless") for word in ("--property", each.name)]
FEW = ("--max-examples", 2, *LOSSLESS, "--property", "extreme_cases")


@pytest.mark.usefixtures("folder")
def test_what_is_wrong_on_no_proper_problem_is_a_finding_with_status_2() -> None:
    result = check("mine.py:NoRows", *FEW)
    assert result.exit_code == 2, result.output
    assert re.match(
        r"NoRows\n  lossless: yes, on all problems tried\n  robust: 1 finding \(extreme_cases\)\n  claims: none checked\n",
        result.stdout,
    )
    assert (
        "Smallest problem on which the rule crashes, extreme_cases" in result.stdout
        and "there are no rows" in result.stdout
    )
    two = ("--max-examples", 5, "--property", "output_distribution", "--property", "extreme_cases")
    assert check("mine.py:NoRows", *two, "--strict").exit_code == 1
    assert check("mine.py:NoRows", *two).exit_code == 2
    assert check("mine.py:NoRows", "mine.py:Forgetful", *two).exit_code == 1  # one that is not lossless decides
    sound = check("mine.py:Scaled", *FEW)
    assert sound.exit_code == 0 and re.search(r"  lossless: yes, on all problems tried\n  robust: yes\n", sound.stdout)


def test_json_and_report_files(folder: Path) -> None:
    result = law_of(
        "mine.py:Forgetful", "NaiveTarget", "--json", "--report", "html", "--report", "json", "--out", folder / "out"
    )
    assert result.exit_code == 1
    printed: dict[str, Any] = json.loads(result.stdout)
    forgetful, naive = (report["outcomes"][0] for report in printed["reports"])
    assert [report["answers"]["lossless"] for report in printed["reports"]] == ["no", "not decided"]
    assert not printed["passed"] and (forgetful["status"], naive["status"]) == ("failed", "passed")
    shown = forgetful["counterexample"]
    assert (shown["p"], shown["q"], shown["k"], shown["law"]) == (["1/2", "1/2"], ["1", "0"], 1, "IID()")
    assert "otd.evaluate" in shown["code"]
    assert (shown["total_variation"], shown["total_variation_exact"]) == (0.25, "1/4")
    assert printed["reports"][0]["answers"]["largest_bias"] >= 0.25
    assert "total variation distance 1/4 = 0.25" in (folder / "out" / "ot-report.html").read_text()
    assert naive["evidence"]["cases"] == sum(each["cases"] for each in naive["evidence"]["by_k"]) == 20
    assert sorted(file.name for file in (folder / "out").iterdir()) == ["ot-report.html", "ot-report.json"]
    assert json.loads((folder / "out" / "ot-report.json").read_text()) == printed


@pytest.mark.usefixtures("folder")
def test_an_impossible_place_is_refused_before_the_work(folder: Path) -> None:
    (folder / "file").write_text("")
    with patch("ot_draft.verify.rule.check_rule", side_effect=AssertionError("the work was begun")):
        refused = check("KSeq", "--report", "html", "--out", folder / "file" / "below")
        assert refused.exit_code == 64 and "file" in refused.stderr
    assert law_of("KSeq", "--report", "html", "--out", folder / "a" / "b").exit_code == 0


@pytest.mark.parametrize("where", ["sys.exit(0)", "class Mine: raise SystemExit(0)"])
def test_a_file_that_ends_the_program_is_refused(folder: Path, where: str) -> None:
    (folder / "ends.py").write_text(f"import sys\n{where}\n")
    assert check("ends.py:Mine").exit_code == 64


def test_what_a_rule_prints_is_not_in_the_json_and_refusing_everything_is_no_success(folder: Path) -> None:
    (folder / "odd.py").write_text(
        "import ot_draft as otd\n\nclass Loud(otd.rules.NaiveTarget):\n    def __call__(self, p, q, drafts):\n"
        "        print('noise')\n        return super().__call__(p, q, drafts)\n\nclass Never(otd.rules.NaiveTarget):\n"
        "    def __call__(self, p, q, drafts):\n        raise NotImplementedError('not today')\n"
    )
    words = ["check", f"{folder}/odd.py:Loud", "--json", "--property", "output_distribution", "--max-examples", "3"]
    loud = subprocess.run(
        [sys.executable, "-m", "ot_draft", *words], capture_output=True, text=True, check=True, cwd=HERE,
        env=os.environ | {"PYTHONPATH": str(HERE)},
    )  # fmt: skip
    assert json.loads(loud.stdout)["passed"] and "noise" in loud.stderr
    assert law_of("odd.py:Never").exit_code == 2


def test_seed_and_number_of_examples_are_handed_on() -> None:
    def tried(*options: object) -> Any:
        result = check("KSeq", "--property", "output_distribution", "--json", *options)
        return [
            (each["k"], each["cases"])
            for each in json.loads(result.stdout)["reports"][0]["outcomes"][0]["evidence"]["by_k"]
        ]

    assert tried("--max-examples", 7, "--seed", 3) == tried("--max-examples", 7, "--seed", 3)
    assert sum(cases for _, cases in tried("--max-examples", 7)) == 7
    assert len({str(tried("--max-examples", 20, "--seed", seed)) for seed in range(4)}) > 1


def test_the_help_says_what_a_rule_is_called_and_what_the_status_means() -> None:
    result = check("--help")
    assert result.exit_code == 0 and "FILE.py:NAME" in result.stdout and "Exit status: 0" in result.stdout


def test_fractions_of_many_digits_are_floats() -> None:
    near_half = Fraction(2**1023 - 1, 2**1024)
    assert number(near_half) == "≈0.5" and number(Fraction(2**53 - 1, 2**54)) == "0.49999999999999994"
    assert number(Fraction(123, 456)) == "41/152" and number(Fraction(5e-324)) == "5e-324"
    assert len({number(Fraction(mass, 2**1076)) for mass in (4, 5)}) == 2  # one float, two numbers


@pytest.mark.parametrize(
    ("value", "source"),
    [(Fraction(1, 3), "F(1, 3)"), (Fraction(2**53 - 1, 2**54), "F(0.49999999999999994)"), (Fraction(5e-324), "F(5e-324)"),
     (1 - Fraction(5e-324), "F(1.0) - F(5e-324)"), (Fraction(1, 3**40), "F(1, 12157665459056928801)")],
)  # fmt: skip
def test_the_code_of_a_counterexample_holds_them_exactly(value: Fraction, source: str) -> None:
    assert fraction_source(value) == source and eval(source, {"F": Fraction}) == value
