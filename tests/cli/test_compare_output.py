"""What `ot-draft compare` and `ot-draft sweep` print and draw: within 80 columns, for a paper, with remedies, and without a wait."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from joblib.externals.loky import get_reusable_executor
from slow import slow

import ot_draft as otd
from ot_draft.cli import main
from ot_draft.cli.study import BUDGET, above_optimum
from ot_draft.data import Study
from ot_draft.data.budget import Affordable, affordable
from ot_draft.data.pairs import as_pairs
from ot_draft.data.study import QUICK_RULES
from ot_draft.data.summary import Summary
from ot_draft.selection import with_arguments

ROOT = Path(__file__).parents[2]
BERNOULLI = ("--p", "1/2,1/2", "--q", "3/4,1/4")


def compare(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


def pairs_of(file: Path, n: int, rows: int, **about: Any) -> Path:
    p, q = np.random.default_rng(3).dirichlet(np.full(n, 0.5), (2, rows))
    np.savez(file, p=p, q=q, **about)
    return file


def test_without_a_file_a_part_of_the_pairs_is_taken_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = compare("--jobs", 1, "--rules", "KSeq", "--k", "2")
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("16 of 640 pairs (--limit 0: all) from ")
    assert re.search(r"temperature 1.0: 8 pairs", result.stdout)


def test_the_first_line_comes_at_once_also_into_a_pipe(tmp_path: Path) -> None:
    file = pairs_of(tmp_path / "pairs.npz", 200, 64)
    words = [sys.executable, "-m", "ot_draft", "compare", str(file), "--k", "2"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT) as work:
        assert work.stderr is not None
        assert work.stderr.readline() == f"64 pairs from {file}, n = 200, k = 2\n"
        assert work.poll() is None  # before the work, not after it
        work.kill()


@pytest.mark.parametrize("ks", ["1,2,4,8", "1,2,3,4,6,8,12,16,24,32"])
def test_a_table_fits_80_columns_and_shows_every_number(ks: str, tmp_path: Path) -> None:
    file = pairs_of(tmp_path / "pairs.npz", 6, 5)
    result = compare(file, "--k", ks, "--lp-limit", 0, "--samples", 4, "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80 and "…" not in result.stdout
    heads = re.findall(r"k = (\d+)", "".join(line for line in result.stdout.splitlines() if line.startswith(" rule")))
    assert ",".join(heads) == ks
    printed = compare(file, "--k", ks, "--lp-limit", 0, "--samples", 4, "--jobs", 1, "--json")
    for line in json.loads(printed.stdout)["summary"]:
        if line["rule"] == "RecursiveRejection":
            assert f"{line['accepted']:.4f}" in result.stdout
    assert "WithoutReplacement" in result.stdout  # whole words of a long name
    for text in (
        result.stdout,
        compare(file, "--k", ks, "--lp-limit", 0, "--samples", 4, "--jobs", 1, "--markdown").stdout,
    ):
        estimates = re.findall(r"≈\d\.\d{4}( ±)?", text)
        assert estimates and all(estimates)  # also where there is no room for the errors of exact means


def test_a_table_of_long_fractions_fits_too() -> None:
    shown = compare(
        "--p", "101/503,1/2,301/1006", "--q", "5/13,7/13,1/13", "--k", "1,2,3,4", "--jobs", 1
    ).stdout.splitlines()
    assert max(map(len, shown)) <= 80 and any("optimum (linear program)" in line for line in shown)
    assert any(re.search(r" optimum  .* \d{4,}/\d{4,}", line) for line in shown)


def test_an_estimated_share_has_its_error_and_an_exact_one_has_none(tmp_path: Path) -> None:
    """The first draft alone, once with a formula and once without one: at k = 4 both accept the same on average."""
    (tmp_path / "first_rule.py").write_text(
        "import ot_draft as otd\n\nclass First(otd.SelectionRule):\n    law = otd.IID()\n\n    def __call__(self, p, q, drafts):\n"
        "        return otd.rules.SpeculativeSampling()(p, q, drafts)\n"
    )
    file = pairs_of(tmp_path / "pairs.npz", 30, 5)
    rules = f"{tmp_path / 'first_rule.py'}:First,speculative-sampling"
    options = (file, "--k", 4, "--rules", rules, "--samples", 16, "--lp-limit", 0, "--jobs", 1)
    shown = compare(*options).stdout
    (estimated,) = re.findall(r" First +≈\d\.\d{4} ±\.\d{4} +≈(\d\.\d{4}) ±(\.\d{4})", shown)
    (exact,) = re.findall(r" SpeculativeSampling +\d\.\d{4} ±\.\d{4} +(\d\.\d{4}) *$", shown, re.MULTILINE)
    assert abs(float(estimated[0]) - float(exact)) < 5 * float(estimated[1])
    lines = {line["rule"]: line for line in json.loads(compare(*options, "--json").stdout)["summary"]}
    error = lines["First"]["sampling_error"] / lines["First"]["optimum"]
    assert f"{error:.4f}"[1:] == estimated[1] and "≈: estimated from 16 draft tuples" in " ".join(shown.split())
    assert lines["First"]["share_error"] == pytest.approx(error) and lines["SpeculativeSampling"]["share_error"] == 0
    assert re.search(r"\$\\approx \d\.\d{4} \\pm\.\d{4}\$ \\\\$", compare(*options, "--latex").stdout, re.MULTILINE)


def test_a_rule_of_the_user_may_refuse_a_number_of_drafts_or_crash(tmp_path: Path) -> None:
    (tmp_path / "odd_rule.py").write_text(
        "import ot_draft as otd\n\nclass Two(otd.rules.SpeculativeSampling):\n    def __call__(self, p, q, drafts):\n"
        "        if drafts.shape[-1] != 2:\n            raise otd.InvalidArgument('two drafts')\n"
        "        return super().__call__(p, q, drafts)\n\n"
        "class Broken(Two):\n    def __call__(self, p, q, drafts):\n        raise ValueError('no\\nrule')\n"
    )
    place = tmp_path / "odd_rule.py"
    shown = compare(*BERNOULLI, "--k", "1,2", "--rules", f"{place}:Two", "--jobs", 1, "--csv").stdout
    assert re.search(r",1,Two,.*,- two drafts,", shown) and re.search(r",2,Two,.*,enumerated,", shown)
    options = (*BERNOULLI, "--k", "1,4", "--rules", f"{place}:Two,KSeq,SpecHub", "--jobs", 1)
    for form in ((), ("--markdown",), ("--latex",)):
        shown = " ".join(compare(*options, *form).stdout.split())
        assert (
            shown.count("Two") == 1
            and "Two: two drafts" in shown
            and "SpecHub: the draft law is not defined for k = 1, 4" in shown
        )
    told = compare(*BERNOULLI, "--rules", f"{place}:Broken", "--jobs", 1)
    assert (
        told.exit_code == 2 and "Broken: the rule Broken raised ValueError: no rule. Run ot-draft check" in told.stderr
    )


WRONG = """
from fractions import Fraction
import ot_draft as otd
import ot_draft.arrays as xp


class Right(otd.rules.RecursiveRejection):
    def __call__(self, p, q, drafts):
        return super().__call__(p, q, drafts)


class Wrong(Right):
    share = 1

    def __call__(self, p, q, drafts):
        selection = super().__call__(p, q, drafts)
        residual = (1 - self.share) * selection.residual + self.share * p
        return otd.Selection(selection.accept, residual)


class WrongByLittle(Wrong):
    share = Fraction(1, 10**20)

    def __call__(self, p, q, drafts):
        return super().__call__(p, q, drafts) if p.dtype == object else Right.__call__(self, p, q, drafts)


class Rounds(Right):
    def __call__(self, p, q, drafts):
        selection = super().__call__(p, q, drafts)
        return otd.Selection(1.0 * selection.accept, 1.0 * selection.residual)


class WrongForTwo(Wrong):
    def __call__(self, p, q, drafts):
        return super().__call__(p, q, drafts) if drafts.shape[-1] == 2 else Right.__call__(self, p, q, drafts)


class WrongAtTies(Right):  # lossless where p and q are equal for all tokens or for none
    def __call__(self, p, q, drafts):
        selection = super().__call__(p, q, drafts)
        tied = xp.gather(p, drafts) == xp.gather(q, drafts)
        return otd.Selection(xp.where(tied, 0, selection.accept), selection.residual)
"""


def test_a_rule_of_the_user_that_is_not_lossless_is_marked(tmp_path: Path) -> None:
    place = tmp_path / "wrong_rules.py"
    place.write_text(WRONG)
    every = ("Right", "Rounds", "Wrong", "WrongByLittle", "WrongForTwo", "WrongAtTies")
    names = [f"{place}:{name}" for name in every]
    file = pairs_of(tmp_path / "pairs.npz", 5, 2)
    options = (file, "--k", "1,2", "--jobs", 1, "--rules", ",".join([*names, "KSeq"]))
    result = compare(*options)
    assert result.exit_code == 0, result.output
    for name, text in zip(every, names, strict=True):
        wrong = name.startswith("Wrong")
        assert (f" {name} (NOT LOSSLESS)" in " ".join(result.stdout.split())) == wrong
        assert (f"{name} is not lossless: total variation distance " in result.stderr) == wrong
        assert (f"ot-draft check '{text}'" in result.stderr) == wrong
    refuted = {line["rule"] for line in json.loads(compare(*options, "--json").stdout)["summary"] if line["refuted"]}
    assert refuted == {"Wrong", "WrongByLittle", "WrongForTwo", "WrongAtTies"}
    assert (
        "NOT LOSSLESS" not in compare(file, "--k", 1, "--jobs", 1, "--rules", names[4]).stdout
    )  # for this k it is right


def test_a_rule_that_accepts_more_than_the_optimum_on_large_pairs_is_marked(tmp_path: Path) -> None:
    place, file = tmp_path / "wrong_for_large_n.py", pairs_of(tmp_path / "pairs.npz", 600, 40)
    place.write_text(
        WRONG
        + """

class AcceptsSmallQ(Right):
    def __call__(self, p, q, drafts):
        selection = super().__call__(p, q, drafts)
        small = (xp.gather(q, drafts) < 1e-3) & (p.shape[-1] > 100)
        return otd.Selection(xp.where(small, 1, selection.accept), selection.residual)
"""
    )
    result = compare(file, "--k", 1, "--jobs", 1, "--rules", f"{place}:Right,{place}:AcceptsSmallQ,KSeq", "--json")
    assert result.exit_code == 0, result.output
    refuted = [line["rule"] for line in json.loads(result.stdout)["summary"] if line["refuted"]]
    assert refuted == ["AcceptsSmallQ"] and "AcceptsSmallQ is not lossless: acceptance 0." in result.stderr
    assert "Right is tested on small problems only, since n = 600 is large." in result.stderr


@pytest.mark.parametrize("low", [0, -1], ids=["acceptance", "minus a control variate"])
@pytest.mark.parametrize("high", [0.0, 1e-4, 0.5, 0.97, 0.9999, 1.0])
def test_estimates_of_lossless_rules_are_hardly_ever_above_the_optimum(high: float, low: int) -> None:
    """Acceptance that attains the optimum, of 1 with probability `high`, else low: 20,000 estimates of 4 pairs with 64 tuples each."""
    chance = np.random.default_rng(0).binomial(256, high, 20_000) / 256
    optimum, drawn, spread = (
        low + (1 - low) * high,
        low + (1 - low) * chance,
        (1 - low) * np.sqrt(chance * (1 - chance)),
    )
    about = {"taken": 0.0, "share": 1.0, "least_share": 1.0, "method": "estimated", "error": 0.1, "optimum": optimum}
    lines = [
        Summary("", 1, f"rule {i}", "iid", 4, x, sampling_error=each / 16, **about)
        for i, (x, each) in enumerate(zip(drawn.tolist(), spread.tolist(), strict=True))
    ]
    assert above_optimum(lines, 64) == {}
    assert above_optimum([replace(lines[0], accepted=optimum + 0.8)], 64)


@pytest.mark.parametrize(("method", "found"), [("enumerated", True), ("formula", False), ("estimated", False)])
def test_only_enumerated_values_are_above_the_optimum_by_little(method: str, found: bool) -> None:
    """Sampled acceptances of a pair may all be equal, with standard error 0."""
    line = Summary("", 1, "rule", "iid", 4, 0.999, 0.1, 0.0, 0.999, 0.99, 1.0, 1.0, method)
    assert bool(above_optimum([line], 64)) == found


@pytest.mark.parametrize(
    ("n", "pairs", "left_out"),
    [
        (511, 320, set()),
        (511, 640, {"HeadAndTail"}),
        (511, 2_000, {"RecursiveRejectionWithoutReplacement", "HeadAndTail"}),
        (32_000, 1, set()),
        (32_000, 50, {"RecursiveRejectionWithoutReplacement", "HeadAndTail"}),
        (32_000, 200, {"RecursiveRejectionWithoutReplacement", "HeadAndTail", "ImportanceWeighted"}),
    ],
)
def test_rules_beyond_the_time_budget_are_left_out(n: int, pairs: int, left_out: set[str]) -> None:
    """Estimated from the sizes; SpeculativeSampling and other quick rules are never left out."""
    one = np.full((1, n), 1 / n)
    many = as_pairs({"p": np.broadcast_to(one, (pairs, n)), "q": np.broadcast_to(one, (pairs, n))}, "simulated", True)
    found = affordable(many, Study(), BUDGET)
    assert {rule.name for rule in found.left_out} == left_out
    assert set(QUICK_RULES) <= set(found.rules) and all(seconds > 4 for seconds in found.left_out.values())


def test_the_optimum_and_the_linear_programs_count() -> None:
    """For many pairs of two tokens every value is quick, and the sum over the pairs is not."""
    two = np.full((10_000, 2), 0.5)
    pairs = as_pairs({"p": two, "q": two}, "simulated", True)
    found = affordable(pairs, Study(), BUDGET)
    assert {rule.name for rule in found.left_out} == {"RecursiveRejectionWithoutReplacement", "HeadAndTail"}
    assert found.lp_limit == Study.lp_limit  # a single program takes more than its share of it
    assert affordable(pairs.first(3_000), Study(), BUDGET).lp_limit < 2
    assert affordable(pairs.first(100), Study(), BUDGET) == Affordable(Study.rules, {}, Study.lp_limit)


def test_rules_that_are_quick_on_floats_only_are_left_out_for_many_pairs_of_fractions() -> None:
    """All draft tuples of 13 pairs are enumerated with k = 8, which takes 13 s or more per rule."""
    p, q = (np.array([[Fraction(w, sum(weights)) for w in weights]] * 13) for weights in ((1, 2, 4), (3, 1, 1)))
    found = affordable(as_pairs({"p": p, "q": q}, "simulated", False), Study(), BUDGET)
    assert sum(rule.law == otd.IID() for rule in found.rules) == 2 and set(found.left_out) & set(QUICK_RULES)


def test_the_load_of_the_machine_does_not_choose_the_rules() -> None:
    """A rule that takes far longer than its estimate, as on a busy machine, is kept."""

    class Slow(otd.rules.KSeq):
        def closed_form(self, problem: Any, optimum: Any = None) -> Any:
            sleep(0.05)
            return super().closed_form(problem, optimum)

    p, q = np.random.default_rng(3).dirichlet(np.full(4, 0.5), (2, 10))
    pairs = as_pairs({"p": p, "q": q}, "simulated", False)
    study = Study((1,), (Slow(), otd.rules.ImportanceWeighted()))
    assert affordable(pairs, study, 0.05).rules == study.rules


def test_left_out_rules_are_named_with_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ot_draft.cli.compare.BUDGET", 0.0)
    monkeypatch.setattr(
        "ot_draft.cli.compare.affordable",
        lambda pairs, study, *more: Affordable(study.rules[:1], {study.rules[1]: 99.0}, study.lp_limit),
    )
    told = compare(*BERNOULLI, "--k", 1, "--jobs", 1, "--csv")
    assert "KSeq (about 99 s)" in told.stderr and "--rules KSeq" in told.stderr and "KSeq" not in told.stdout
    table = " ".join(compare(*BERNOULLI, "--k", 1, "--jobs", 1).stdout.split())  # as in a file
    assert "KSeq (about 99 s)" in table and "--rules KSeq" in table and "guarantee," not in table


def test_rules_with_other_arguments_have_names_of_their_own(tmp_path: Path) -> None:
    own = tmp_path / "rules_with_arguments.py"
    own.write_text(WITH_ARGUMENTS)
    names = f"optimal,Optimal(classes=256),KSeq(factor=2),{own}:Scaled,{own}:Scaled('double')"
    found = compare(*BERNOULLI, "--k", "2", "--jobs", 1, "--lp-limit", 0, "--rules", names, "--json")
    shown = [row["rule"] for row in json.loads(found.stdout)["summary"]]
    paper = compare(
        *BERNOULLI, "--k", "2", "--jobs", 1, "--lp-limit", 0, "--rules", "KSeq,HeadAndTail(head=2,classes=4)", "--latex"
    )
    assert "HeadAndTail(head=2, classes=4) &" in paper.stdout and "guarantee, $1 - (1 - 1/k)^k$ &" in paper.stdout
    assert shown == [
        "optimum",
        "optimum by LP",
        "Optimal",
        "Optimal(classes=256)",
        "KSeq(factor=2)",
        "Scaled",
        "Scaled(weights='double')",
    ]


WITH_ARGUMENTS = """
import ot_draft as otd


class Scaled(otd.SelectionRule):
    law = otd.IID()

    def __init__(self, weights="single", unused=3, name="scaled"):
        self.weights = weights

    def __call__(self, p, q, drafts):
        return otd.rules.KSeq()(p, q, drafts)
"""


def test_default_rules_are_named_by_their_classes() -> None:
    rules = [
        *otd.rules.ALL,
        otd.rules.Optimal(otd.Hybrid("auto")),
        otd.lossy.Toward(otd.lossy.KL(0.02), otd.rules.KSeq()),
    ]
    assert [with_arguments(rule) for rule in rules[:-1]] == [type(rule).__name__ for rule in rules[:-1]]
    assert with_arguments(rules[-1]) == "Toward(KL(0.02), KSeq)"
    weighted = otd.rules.ImportanceWeighted(weights=np.maximum)
    assert with_arguments(weighted) == "ImportanceWeighted(weights=maximum)"


def test_an_own_rule_is_in_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    options = ("--k", "1,2", "--jobs", 1, "--plot", "--out", tmp_path, "--format", "svg", "--lp-limit", 0)
    assert compare(*BERNOULLI, *options, "--rules", "KSeq,KSeq(factor=2)").exit_code == 0
    assert "KSeq(factor=2)</text>" in (tmp_path / "acceptance.svg").read_text()


def test_a_rule_without_any_value_is_named_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "raising_rule.py").write_text(
        "import ot_draft as otd\n\n\nclass Raises(otd.SelectionRule):\n    law = otd.IID()\n\n"
        "    def __call__(self, p, q, drafts):\n        raise otd.InvalidArgument('wrong axis')\n"
    )
    rules = f"KSeq,{tmp_path / 'raising_rule.py'}:Raises"
    told = compare(*BERNOULLI, "--k", 2, "--jobs", 1, "--rules", rules, "--csv")
    assert "Raises has no acceptance for any k: wrong axis" in told.stderr and "KSeq has" not in told.stderr


def test_brackets_in_a_path_are_no_markup(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    file, out = pairs_of(tmp_path / "pairs.npz", 3, 2), tmp_path / "[bold]"
    words = ["sweep", str(file), "--out", str(out), "--k", "2", "--rules", "KSeq", "--engine", "sequential"]
    assert "[bold]" in CliRunner().invoke(main, words).stdout


def test_small_linear_programs_are_solved_and_the_option_is_named(tmp_path: Path) -> None:
    file = pairs_of(tmp_path / "pairs.npz", 50, 2)
    options = (file, "--k", 2, "--rules", "Optimal", "--jobs", 1)
    (line,) = [line for line in compare(*options).stdout.splitlines() if "linear program)" in line]
    assert re.search(r"0\.\d{4}", line)  # 1,275 draft sets
    without = compare(*options, "--lp-limit", 0).stdout
    assert "Not shown: optimum (linear program): linear programs over the time limit of 0 s (--lp-limit)" in " ".join(
        without.split()
    )
    whole = compare("--p", "1/2,1/2", "--q", "3/4,1/4", "--k", 2, "--rules", "Optimal", "--draft-law", "iid").stdout
    assert not any(sign in whole for sign in ("--lp-limit", "--samples", "±", "K-SEQ"))  # what the table does not show


def test_programs_beyond_every_solver_are_left_out_whatever_the_limit(tmp_path: Path) -> None:
    file = pairs_of(tmp_path / "pairs.npz", 5_001, 1)
    for options in (("--k", 1), ("--k", 3, "--lp-limit", 100_000)):
        result = compare(file, "--rules", "Optimal,FromCoupling", *options, "--jobs", 1, "--csv")
        assert result.exit_code == 0, result.output
        assert result.stdout.count("- too many draft sets") == 2 and ",dual," in result.stdout


def test_a_picture_without_matplotlib_fails_before_the_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("ot_draft.cli.compare.compare_parts", None)  # the work: it would be an error of ours
    result = compare(*BERNOULLI, "--out", tmp_path / "out", "--plot")
    assert result.exit_code == 2 and "matplotlib is not installed. Run  pip install" in result.output
    assert not (tmp_path / "out").exists()
    other = compare(*BERNOULLI, "--out", tmp_path / "out", "--plot", "--format", "pdf,gif")
    assert other.exit_code == 2 and "--format must be some of pdf,svg,png, got 'pdf,gif'" in other.output


def test_masses_that_were_rounded_are_explained_and_normalised(tmp_path: Path) -> None:
    told = compare("--p", "0.3333,0.3333,0.3333", "--q", "1/2,1/4,1/4")
    assert told.exit_code == 2 and "For rounded probabilities, use --normalise" in told.stderr
    options = ("--q", "1/2,1/4,1/4", "--k", 2, "--rules", "Optimal,KSeq", "--jobs", 1, "--csv")
    wanted = compare("--p", "1/3,1/3,1/3", *options).stdout
    assert compare("--p", "0.3333,0.3333,0.3333", *options, "--normalise").stdout == wanted
    (tmp_path / "pair.csv").write_text("p,q\n0.3333,0.5\n0.3333,0.25\n0.3333,0.25\n")
    told = compare(tmp_path / "pair.csv")
    assert told.exit_code == 2 and "--normalise" in told.stderr
    np.savez(tmp_path / "pairs.npz", p=np.float32([[0.3333] * 3]), q=np.float32([[0.5, 0.25, 0.25]]))
    for file in ("pair.csv", "pairs.npz"):
        assert compare(tmp_path / file, "--normalise", "--k", 2, "--rules", "Optimal", "--jobs", 1).exit_code == 0
    far = compare("--p", "1/2,1/3", "--q", "1/2,1/2", "--normalise")
    assert far.exit_code == 2 and "got 5/6" in far.stderr and "--normalise" not in far.stderr  # nothing is repaired


def test_tables_for_a_paper_hold_the_same_numbers(tmp_path: Path) -> None:
    file = pairs_of(tmp_path / "pairs.npz", 5, 6)
    options = (file, "--k", "1,3", "--jobs", 1, "--rules", "KSeq,RecursiveRejectionWithoutReplacement")
    records = json.loads(compare(*options, "--json").stdout)["summary"]
    latex, markdown = (compare(*options, f"--{form}").stdout for form in ("latex", "markdown"))
    assert latex.count("\\begin{tabular}{lrrr}") == latex.count("\\toprule") == latex.count("\\bottomrule") == 1
    rows = [line for line in latex.splitlines() if line.endswith("\\\\") and "multicolumn" not in line]
    assert {line.count("&") for line in rows} == {3}
    assert {line.count("|") for line in markdown.splitlines() if line.startswith("|")} == {5}
    for name in ("KSeq", "RecursiveRejectionWithoutReplacement"):
        one, three = (record for record in records if record["rule"] == name)
        (row,) = [line for line in rows if line.startswith(f"{name} ")]
        for record in (one, three):
            assert f"{record['accepted']:.4f} \\pm {record['error']:.4f}$" in row
            assert f"{record['accepted']:.4f} ± {record['error']:.4f}" in markdown


def test_sweep_prints_the_same_forms(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    file = pairs_of(tmp_path / "pairs.npz", 5, 6)

    def sweep(*options: str) -> str:
        words = [
            "sweep",
            str(file),
            "--out",
            str(tmp_path / "out"),
            "--k",
            "2",
            "--rules",
            "KSeq",
            "--engine",
            "sequential",
        ]
        result = CliRunner().invoke(main, [*words, *options])
        assert result.exit_code == 0, result.output
        return result.stdout

    (mean,) = json.loads(sweep("--json"))
    for form in ("--csv", "--latex", "--markdown", ""):
        assert f"{mean['accepted']:.4f}"[:5] in sweep(*filter(None, [form])), form
    assert max(map(len, sweep().splitlines())) <= 80


@pytest.mark.parametrize(("width", "inches"), [("column", 3.3), slow("page", 6.9)])
def test_pictures_are_as_wide_as_asked_with_text_of_8_and_9_points(width: str, inches: float, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = pairs_of(tmp_path / "pairs.npz", 5, 6)
    options = (
        file,
        "--k",
        "1,2",
        "--jobs",
        1,
        "--plot",
        "--out",
        tmp_path,
        "--format",
        "pdf,svg,png",
        "--width",
        width,
    )
    assert compare(*options).exit_code == 0
    svg = (tmp_path / "acceptance.svg").read_text()
    assert f'width="{inches * 72:g}pt"' in svg
    assert {float(size) for size in re.findall(r"font-size: ([\d.]+)px", svg)} == {8, 9}
    assert "K-SEQ</text>" in svg and "bars are standard errors" in svg  # text as text
    box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+)", (tmp_path / "acceptance.pdf").read_bytes())
    assert box is not None and float(box[1]) == pytest.approx(inches * 72)
    assert (tmp_path / "acceptance.png").read_bytes()[1:4] == b"PNG"
    assert compare(*options, "--no-caption", "--format", "svg").exit_code == 0
    assert "bars are standard errors" not in (tmp_path / "acceptance.svg").read_text()


OWN_ERRORS = """
import ot_draft as otd
from ot_draft import arrays as xp

RIGHT = otd.rules.RecursiveRejection()


class Own(otd.SelectionRule):
    law = otd.IID()


class OnlyTwo(Own):
    def __call__(self, p, q, drafts):
        if drafts.shape[-1] != 2:
            raise otd.InvalidArgument("two drafts only")
        return RIGHT(p, q, drafts)


class EqualOnly(Own):
    def __call__(self, p, q, drafts):
        if drafts.shape[-1] == 2 and (p != q).any():
            raise otd.InvalidArgument("p must equal q")
        return RIGHT(p, q, drafts)


class Overwrites(Own):
    def __call__(self, p, q, drafts):
        selection = RIGHT(p.copy(), q, drafts)
        p[...] = p[..., ::-1].copy()
        return selection


class OverwritesFloats(Own):
    def __call__(self, p, q, drafts):
        selection = RIGHT(p, q.copy(), drafts)
        if not xp.is_exact(q):
            q[...] = 0
        return selection


class ReadsFile(Own):
    def __call__(self, p, q, drafts):
        return open("no-such-table.txt")


class LikeAFile(Own):
    def __call__(self, p, q, drafts):
        raise otd.InvalidDistribution("no such distribution")


class Ends(Own):
    def __call__(self, p, q, drafts):
        raise SystemExit(0)


class NeedsTwo(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class RaisesUnpicklable(Own):
    def __call__(self, p, q, drafts):
        raise NeedsTwo(1, 2)


class WrongInFloat32(Own):
    def __call__(self, p, q, drafts):
        return (no_residual if p.dtype == "float32" else RIGHT)(p, q, drafts)


class NoNumber(Own):
    # Its residual is not a number where p is q, as 0/0 in floats.

    def __call__(self, p, q, drafts):
        selection = RIGHT(p, q, drafts)
        wrong = not xp.is_exact(p) and (p == q).all()
        return otd.Selection(selection.accept, selection.residual * float("nan") if wrong else selection.residual)


class KeepsResidual(Own):
    # It keeps the residual distribution of its first call.
    residual = None

    def __call__(self, p, q, drafts):
        selection = RIGHT(p, q, drafts)
        self.residual = selection.residual if self.residual is None else self.residual
        return otd.Selection(selection.accept, self.residual)


class Prints(Own):
    def __call__(self, p, q, drafts):
        print("no JSON")
        return RIGHT(p, q, drafts)


class TwoOrMore(Own):
    def __call__(self, p, q, drafts):
        if drafts.shape[-1] < 2:
            raise otd.InvalidDrafts("two drafts or more")
        return RIGHT(p, q, drafts)


class UnequalOnly(Own):
    # It takes no p that is q, for any k; for two drafts it has an error.

    def __call__(self, p, q, drafts):
        if (p == q).all():
            raise otd.InvalidArgument("p must differ from q")
        if drafts.shape[-1] == 2 and (p[..., 0] > q[..., 0]).any():
            raise otd.InvalidArgument("no such row")
        return RIGHT(p, q, drafts)


class OneColumn(Own):
    def __call__(self, p, q, drafts):
        selection = RIGHT(p, q, drafts)
        return otd.Selection(selection.accept[..., :1], selection.residual)


class AnyLaw(Own):
    def __init__(self, law=otd.IID()):
        self.law = law

    def under(self, law):
        return AnyLaw(law)

    def __call__(self, p, q, drafts):
        return RIGHT(p, q, drafts)


def no_residual(p, q, drafts):
    return otd.Selection(RIGHT(p, q, drafts).accept, p)


class WrongInFloats(Own):
    def __call__(self, p, q, drafts):
        return (RIGHT if xp.is_exact(p) else no_residual)(p, q, drafts)


class WrongWithoutFractions(Own):
    def __call__(self, p, q, drafts):
        if xp.is_exact(p):
            raise TypeError("no Fractions")
        return no_residual(p, q, drafts)


class WrongForMany(Own):
    def __call__(self, p, q, drafts):
        return (no_residual if p.shape[-1] > 6 else RIGHT)(p, q, drafts)


class Negative(Own):
    # Its output distribution is p, by a residual with negative entries.

    def __call__(self, p, q, drafts):
        accept = 0 * RIGHT(p, q, drafts).accept
        accept[..., 0] += p.sum(-1) / 2
        return otd.Selection(accept, 2 * p - q)


class Single(Own):
    def __call__(self, p, q, drafts):
        if xp.is_exact(p):
            return RIGHT(p, q, drafts)
        return RIGHT(p.astype("float32"), q.astype("float32"), drafts)
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("own") / "rules_with_errors.py"
    file.write_text(OWN_ERRORS)
    return file


def test_an_error_of_a_rule_is_not_an_unsupported_k(own: Path) -> None:
    options = (*BERNOULLI, "--k", "1,2", "--jobs", 1, "--rules", f"{own}:OnlyTwo,{own}:EqualOnly")
    found = {
        (row["rule"], row["k"]): row["method"] for row in json.loads(compare(*options, "--json").stdout)["summary"]
    }
    assert found["OnlyTwo", 1] == "- two drafts only" and found["OnlyTwo", 2] == "enumerated"
    assert found["EqualOnly", 2] == "- raised InvalidArgument: p must equal q"
    table = compare(*options)
    words = " ".join(table.stdout.split())
    assert "OnlyTwo - 13/16" in words and "EqualOnly 3/4 error" in words
    assert "error: EqualOnly raised InvalidArgument: p must equal q (k = 2)." in words
    assert (
        "EqualOnly with k = 2 raised InvalidArgument: p must equal q" in table.stderr and "OnlyTwo" not in table.stderr
    )


def method(own: Path, name: str, *options: object) -> str:
    """The method of the only row of a rule."""
    found = json.loads(compare(*options, "--jobs", 1, "--rules", f"{own}:{name}", "--json").stdout)["summary"]
    (row,) = [row for row in found if row["rule"] == name]
    return str(row["method"])


def test_an_error_of_a_rule_that_takes_no_equal_p_and_q_is_not_an_unsupported_k(own: Path) -> None:
    pair = ("--p", "3/4,1/4", "--q", "1/2,1/2")
    assert method(own, "UnequalOnly", *pair, "--k", 2) == "- raised InvalidArgument: no such row"


def test_a_rule_may_refuse_a_number_of_drafts_by_invalid_drafts(own: Path) -> None:
    assert method(own, "TwoOrMore", *BERNOULLI, "--k", 1) == "- two drafts or more"
    assert method(own, "TwoOrMore", *BERNOULLI, "--k", 2) == "enumerated"


def test_a_selection_of_another_shape_is_an_error_where_drafts_are_sampled(own: Path, tmp_path: Path) -> None:
    found = method(own, "OneColumn", pairs_of(tmp_path / "pairs.npz", 400, 1), "--k", 2, "--lp-limit", 0)
    assert found.startswith("- raised InvalidArgument: the rule must return otd.Selection")


def test_prints_of_a_rule_are_not_in_the_output(own: Path) -> None:
    found = compare(*BERNOULLI, "--k", 1, "--jobs", 1, "--rules", f"{own}:Prints", "--json")
    assert "no JSON" in found.stderr and json.loads(found.stdout)["summary"]


@pytest.mark.parametrize(
    ("name", "n", "told"),
    [
        ("WrongInFloats", 5, "is not lossless in float64: total variation distance 0.24 from the target at p = (1/5, "),
        ("WrongWithoutFractions", 5, "is not lossless in float64: total variation distance 0.24 "),
        (
            "WrongInFloat32",
            5,
            "is not lossless in float32: total variation distance 0.24 from the target at p = (1/5, ",
        ),
        ("NoNumber", 5, "is not lossless in float64: accept or residual are not probabilities at p = (1/"),
        (
            "KeepsResidual",
            5,
            "is not lossless after a call with other p and q, so that it must keep no state between calls: ",
        ),
        ("WrongForMany", 9, "is not lossless in float64: total variation distance "),
        ("WrongForMany", 5, ""),  # right for these pairs
        ("Negative", 5, "is not lossless: accept or residual are not probabilities at p = ("),
        ("Single", 5, ""),  # computes in float32
        ("TwoOrMore", 5, ""),
    ],
)
def test_rules_that_are_wrong_in_floats_or_for_the_pairs_are_marked(
    name: str, n: int, told: str, own: Path, tmp_path: Path
) -> None:
    options = ("--k", 2, "--jobs", 1, "--lp-limit", 0, "--rules", f"{own}:{name}")
    found = compare(pairs_of(tmp_path / "pairs.npz", n, 2), *options)
    assert found.exit_code == 0 and ("LOSSLESS" in found.stdout) == bool(told)
    assert told in found.stderr and ("not lossless" in found.stderr) == bool(told)
    assert ("one of the given pairs, n = 9, k = 2" in found.stderr) == (n == 9)


def test_a_rule_is_marked_under_the_draft_law_for_which_it_is_wrong(own: Path, tmp_path: Path) -> None:
    file, options = pairs_of(tmp_path / "pairs.npz", 5, 2), ("--k", 2, "--jobs", 1, "--lp-limit", 0)
    found = compare(file, *options, "--draft-law", "iid,without-replacement", "--rules", f"{own}:AnyLaw", "--json")
    refuted = {row["law"]: row["refuted"] for row in json.loads(found.stdout)["summary"] if row["rule"] == "AnyLaw"}
    assert refuted == {"iid": False, "without-replacement": True}
    assert "AnyLaw under without-replacement is not lossless: total variation distance " in found.stderr


@pytest.mark.parametrize("name", ["Overwrites", slow("OverwritesFloats")])
def test_a_rule_that_overwrites_its_arguments_is_marked(name: str, own: Path, tmp_path: Path) -> None:
    found = compare(*BERNOULLI, "--k", 1, "--jobs", 1, "--rules", f"{own}:{name}")
    changed = {"Overwrites": "p", "OverwritesFloats": "q"}[name]
    assert f"{name} overwrites its argument {changed} at p = " in found.stderr and "LOSSLESS" in found.stdout
    options = ("--k", 2, "--jobs", 1, "--lp-limit", 0, "--rules", f"{own}:{name}")
    estimated = compare(pairs_of(tmp_path / "pairs.npz", 400, 1), *options)
    assert f"{name} must not write into its arguments" in estimated.stderr


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("ReadsFile", "FileNotFoundError: "),
        ("LikeAFile", "InvalidDistribution: no such distribution"),
        ("Ends", "SystemExit: 0"),
        ("RaisesUnpicklable", "NeedsTwo: 1 and 2"),
    ],
)
def test_an_error_that_is_no_refusal_is_an_error_of_the_rule(name: str, error: str, own: Path) -> None:
    found = compare(*BERNOULLI, "--k", 1, "--jobs", 1, "--rules", f"{own}:{name}")
    assert found.exit_code == 2 and f"{name}: the rule {name} raised {error}" in found.stderr


def test_an_error_of_a_rule_in_another_process_is_the_same(own: Path, tmp_path: Path) -> None:
    options = (pairs_of(tmp_path / "pairs.npz", 3, 20), "--k", 1, "--lp-limit", 0)
    get_reusable_executor().shutdown()  # worker processes of earlier tests cannot import these rules
    for name in ("RaisesUnpicklable", "Ends"):
        one, two = (compare(*options, "--jobs", jobs, "--rules", f"{own}:{name}") for jobs in (1, 2))
        assert one.exit_code == two.exit_code == 2
        assert one.stderr.splitlines()[-1] == two.stderr.splitlines()[-1]


def test_four_numbers_of_drafts_keep_their_standard_errors(tmp_path: Path) -> None:
    shown = compare(pairs_of(tmp_path / "pairs.npz", 5, 6), "--k", "1,2,4,8", "--jobs", 1, "--rules", "KSeq").stdout
    rows = [line for line in shown.splitlines() if line.startswith("   KSeq ")]
    assert len(rows) == 2 and "".join(rows).count("±") == 4 and max(map(len, shown.splitlines())) <= 80
    assert "Optimum: the largest acceptance" in shown and " dual" not in shown


def test_more_top_tokens_than_draft_tokens_are_an_error() -> None:
    told = compare(*BERNOULLI, "--k", "1,2", "--draft-law", "hybrid:99", "--jobs", 1)
    assert told.exit_code == 2 and "at most k top tokens, hybrid:2, got 'hybrid:99'" in told.stderr
    assert (
        compare(*BERNOULLI, "--k", "1,2", "--draft-law", "hybrid:2", "--rules", "Optimal", "--jobs", 1).exit_code == 0
    )
