"""The rules of the library pass every property; the report, its front end for pytest, and the strategies do what they say."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction as F
from typing import Any

import hypothesis
import numpy as np
import pytest
from slow import slow

import ot_draft as otd
from ot_draft.verify.rule import check_rule, parametrize_with_rule_checks
from ot_draft.verify.rule.properties import ALL, CLAIMS, choose, properties_of
from ot_draft.verify.rule.rule_property import rule_property
from ot_draft.verify.rule.strategies import (
    batches,
    boundary_list,
    distributions,
    extreme_list,
    problems,
    problems_without_ties,
    sizes,
)

pytestmark = pytest.mark.usefixtures("short_searches")
LAWS = [otd.IID(), otd.WithoutReplacement(), otd.Hybrid(top=-1), otd.SpecHubLaw()]
USER_TEST = """
import ot_draft as otd
from ot_draft.verify.rule import parametrize_with_rule_checks

class Forgetful(otd.SelectionRule):
    law = otd.IID()

    def __call__(self, p, q, drafts):
        return otd.Selection(otd.rules.RecursiveRejection()(p, q, drafts).accept, p)

@parametrize_with_rule_checks(
    [otd.rules.NaiveTarget(), Forgetful()],
    expected_failures={"Forgetful-at_most_the_optimum": "takes what it may not"},
    properties=["output_distribution", "at_most_the_optimum"],
    max_examples=20,
)
def test_rule(rule, check):
    check(rule)
"""


# Properties that take seconds a rule: `make test` tries them on two rules of different laws.
DEAR = (
    "output_distribution_in_batches",
    "repeated_calls",
    "drawn_tokens",
    "engine_sizes",
    "float_distribution",
    "distribution_in_torch",
    "inputs_unchanged",
)
OFTEN = ("KSeq", "RecursiveRejectionWithoutReplacement")


def cases() -> Iterator[Any]:
    """A rule and names of properties of it: those that `make test` tries, and the others, marked slow."""
    laws = set()
    for rule in otd.rules.ALL:
        names = [each.name for each in properties_of(rule, None)]
        dear = [name for name in names if name in DEAR and rule.name not in OFTEN]
        dear += ["drawn_drafts"] * (rule.law in laws)  # which calls the draft law alone
        laws.add(rule.law)
        yield pytest.param(rule, [name for name in names if name not in dear], id=rule.name)
        if dear:
            yield slow(rule, dear, id=f"{rule.name}-dear")


@pytest.mark.parametrize(("rule", "names"), [*cases()])
def test_every_rule_passes(rule: otd.SelectionRule, names: list[str]) -> None:
    """The one place where every rule meets every kind of pair, of array and of batch."""
    check_rule(rule, max_examples=4, properties=names).raise_if_failed()


VARIANTS = (
    *(otd.rules.Optimal(otd.Hybrid(top)) for top in ("auto", 1, 2, -1)),
    *(otd.rules.Optimal(classes=classes) for classes in (1, 4, 16)),
)


@pytest.mark.parametrize(
    "chosen", [["output_distribution", "boundary_cases", "at_most_the_optimum", "optimal"], slow(None)]
)
@pytest.mark.parametrize("rule", VARIANTS, ids=repr)
def test_so_does_optimal_selection_in_its_variants(rule: otd.SelectionRule, chosen: list[str] | None) -> None:
    names = chosen and [name for name in chosen if name in rule.claims or name not in {each.name for each in CLAIMS}]
    check_rule(rule, max_examples=12 if chosen else 25, properties=names).raise_if_failed()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 7))
def test_no_false_alarm_with_another_seed(seed: int) -> None:
    same = {
        "no_host_sync",
        "boundary_cases",
        "boundary_cases_in_floats",
        "extreme_cases",
        "sampled_frequencies",
    }  # whatever the seed
    for rule in otd.rules.ALL:
        chosen = [each for each in ALL if each.name not in same and (each not in CLAIMS or each.name in rule.claims)]
        check_rule(rule, max_examples=4, properties=chosen, seed=seed).raise_if_failed()


def test_a_report_tells_what_was_done() -> None:
    report = check_rule(otd.rules.NaiveTarget(), max_examples=5)
    assert report.passed and report.failures == ()
    names = [each.name for each in ALL if each not in CLAIMS or each.name == "cover"]
    assert [outcome.check for outcome in report.outcomes] == names
    assert all(outcome.status in {"passed", "skipped"} and outcome.seconds >= 0 for outcome in report.outcomes)
    assert report["output_distribution"].evidence.cases == 5
    report.raise_if_failed()
    lines = str(report).splitlines()
    assert lines[0] == "NaiveTarget" and lines[1] == "  lossless: yes, on all problems tried"
    assert lines[2].startswith("  in floats: yes, on all problems tried") and lines[4] == "  claims: cover holds"
    assert max(map(len, lines[:7])) < 120
    tried = lines.index("  tried for lossless:")
    assert "Fractions: n <= " in lines[tried + 1] and "  tried for in floats:" in lines[tried:]
    lines = lines[: tried - 1]
    passed = [outcome for outcome in report.outcomes if outcome.status == "passed"]
    others = [outcome.check for outcome in report.outcomes if outcome.status != "passed"]
    assert lines[5] == f"  {report.answers.sentence}" and [line.split()[0] for line in lines[7:-1]] == others
    assert lines[-1].startswith(f"  passed ({sum(each.evidence.cases for each in passed):,} cases, ")
    assert lines[-1].endswith(": " + ", ".join(each.check for each in passed))


class Conditional(otd.SelectionRule):
    """Two tests, one after the other, whose probabilities are returned as they are."""

    law = otd.IID()

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        selection = otd.rules.RecursiveRejection()(p, q, drafts)
        return otd.Selection(1 + 0 * selection.accept, selection.residual)


def test_accept_that_sums_to_more_than_one_is_explained() -> None:
    (outcome,) = check_rule(Conditional(), 20, ["probabilities"]).outcomes
    assert outcome.status == "failed" and "each test times the product of (1 - the tests before it)" in str(outcome)


def test_a_skipped_property_has_a_reason() -> None:
    (outcome,) = check_rule(otd.rules.FromCoupling(), properties=["no_host_sync"]).outcomes
    assert outcome.status == "skipped" and outcome.evidence.reason and outcome.evidence.cases == 0


def test_a_failed_report_raises_only_when_asked_and_is_the_same_every_time() -> None:
    wrong = otd.rules.KSeq(factor=1)
    first, second = (check_rule(wrong, 40, ["output_distribution"]) for _ in range(2))
    assert not first.passed and first["output_distribution"].code
    assert first["output_distribution"].code == second["output_distribution"].code
    assert first["output_distribution"].evidence.cases == second["output_distribution"].evidence.cases
    with pytest.raises(AssertionError, match="Smallest counterexample to output_distribution"):
        first.raise_if_failed()


def test_what_is_no_rule_and_what_is_no_property_is_said() -> None:
    with pytest.raises(otd.InvalidArgument, match=r"rule must be an instance of a subclass of otd\.SelectionRule"):
        check_rule(otd.rules.KSeq)  # type: ignore[arg-type]
    with pytest.raises(
        otd.InvalidArgument, match=r"properties must be names of properties, got speed. Use any of output_distribution"
    ):
        check_rule(otd.rules.KSeq(), properties=["speed"])
    with pytest.raises(ValueError, match="expected_failures must name properties or test ids, got KSeq-speed"):
        parametrize_with_rule_checks([otd.rules.KSeq()], {"KSeq-speed": "slow"})


def test_a_property_of_the_users_own() -> None:
    @rule_property(most=10)
    def accepts_something(rule: otd.SelectionRule, problem: otd.Problem) -> None:
        """The acceptance is positive where p and q overlap."""
        assert otd.evaluate(rule, problem).acceptance > 0 or (problem.p * problem.q == 0).all(), "accepts nothing"

    report = check_rule(otd.rules.NaiveTarget(), properties=[accepts_something])
    assert report.passed and report["accepts_something"].evidence.cases == 10


class Restless(otd.SelectionRule):
    """No function: every other call is wrong."""

    law = otd.IID()
    calls = 0

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        self.calls += 1
        selection = otd.rules.SpeculativeSampling()(p, q, drafts)
        return selection if self.calls % 2 else otd.Selection(selection.accept, p)


def test_a_rule_that_is_no_function_is_rejected() -> None:
    assert not check_rule(Restless(), properties=["output_distribution"]).passed


def test_the_decorator_names_selects_and_expects(pytester: pytest.Pytester) -> None:
    (pytester.path / "test_user.py").write_text(USER_TEST)

    def run(*options: str) -> str:
        return str(pytester.runpytest_inprocess("-p", "no:cacheprovider", "-rA", "-q", *options).stdout)

    everything = run()
    assert "2 passed" in everything and "1 failed" in everything and "1 xfailed" in everything
    assert "FAILED test_user.py::test_rule[Forgetful-output_distribution]" in everything
    assert "takes what it may not" in everything and "from test_user import Forgetful" in everything
    assert "1 passed, 3 deselected" in run("-k", "NaiveTarget and optimum")


def drawn(strategy: Any, number: int = 200, seed: int = 0) -> list[Any]:
    found: list[Any] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(max_examples=number, database=None, suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


def corners(problem: otd.Problem) -> dict[str, bool]:
    """Which corners a problem lies in."""
    p, q = problem.p, problem.q
    ratios = [x / y for x, y in zip(p.tolist(), q.tolist(), strict=True) if y]
    tails = [mass[mass > 0] for mass in (p, q)]
    return {
        "zeros in p alone": bool(((p == 0) & (q > 0)).any()),
        "zeros in q alone": bool(((q == 0) & (p > 0)).any()),
        "no zeros": bool((p * q > 0).all()),
        "one-hot p": bool((p == 1).any()) and problem.n > 1,
        "one-hot q": bool((q == 1).any()) and problem.n > 1,
        "ties in p": len(set(p.tolist())) < problem.n,
        "ties in q": len(set(q.tolist())) < problem.n,
        "ties in p/q": len(set(ratios)) < len(ratios),
        "p == q": bool((p == q).all()) and problem.n > 1,
        "nearly equal": bool(0 < abs(p - q).sum() < F(1, 1000)),
        "within an ulp": bool(0 < abs(p - q).sum() <= F(1, 2**52)),
        "disjoint": not (p * q).any(),
        "heavy tail": any(mass.max() >= 50 * mass.min() for mass in tails),
        "repeated drafts": problem.k > 1 and isinstance(problem.law, otd.IID) and problem.n > 1,
        "more drafts than tokens": problem.k > problem.n,
        "one token": problem.n == 1,
    }


@pytest.mark.parametrize("law", [otd.IID(), otd.WithoutReplacement()], ids=repr)
def test_problems_reach_every_corner_within_the_default_number_of_examples(law: otd.DraftLaw) -> None:
    found = [corners(problem) for seed in range(3) for problem in drawn(problems(law), 100, seed)]
    often = {name: sum(each[name] for each in found) for name in found[0]}
    rare = {name: times for name, times in often.items() if times < 3}  # once in a hundred
    assert set(rare) == ({"repeated drafts"} if law == otd.WithoutReplacement() else set()), often


# Two rare corners take 1 s each.
@pytest.mark.parametrize(
    "corner",
    [slow(x) if x in ("within an ulp", "disjoint") else x for x in corners(otd.Problem([F(1)], [F(1)], 1))],
)
def test_every_corner_shrinks_to_small_fractions(corner: str) -> None:
    quiet = hypothesis.settings(
        database=None, max_examples=2000, suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
    )  # fmt: skip
    smallest = hypothesis.find(
        problems(otd.IID()), lambda problem: corners(problem)[corner], settings=quiet, random=random.Random(0)
    )
    assert smallest.n <= 3 and smallest.k <= 2
    if corner not in {"nearly equal", "within an ulp", "heavy tail"}:  # these need large numbers
        assert max(mass.denominator for mass in [*smallest.p, *smallest.q]) <= 3


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_problems_are_valid_exact_and_bounded(law: otd.DraftLaw) -> None:
    for problem in drawn(problems(law), 50):
        assert problem.n**problem.k <= 81 and problem.law == law
        assert problem.p.sum() == problem.q.sum() == 1 and type(problem.p[0]) is F
    for batch in drawn(batches(law), 20):
        assert batch.p.shape == batch.q.shape == (len(batch.p), batch.n) and len(batch.p) >= 2
    assert all(n**k <= 27 for n, k in sizes(law, 4, 3, 27))
    hub = law == otd.SpecHubLaw()
    assert {problem.k for problem in boundary_list(law)} == ({2} if hub else {1, 2, 3, 4})
    assert min(problem.k for problem in extreme_list(law)) == (2 if hub else 0)
    assert [problem.p.shape for problem in extreme_list(law) if 0 in problem.p.shape] == [(0, 3)]


def test_distributions_shrink_to_small_fractions() -> None:
    smallest = hypothesis.find(distributions(3), lambda p: bool((p > 0).all()))
    assert smallest.tolist() == [F(1, 3)] * 3
    without_ties = drawn(problems_without_ties(otd.IID()), 50)
    assert all(len(set(each.q.tolist())) == each.n for each in without_ties)
    assert max(each.n for each in without_ties) == 4
    assert all(np.isfinite(p.astype(float)).all() for p in drawn(distributions(2), 20))


def test_masses_that_are_tied_after_rounding_are_no_false_alarm() -> None:
    """In Fractions token 1 is the hub; as floats tokens 0 and 1 weigh the same, and token 0 is."""
    third, little = F(1, 3), F(1, 3 * 2**53)
    problem = otd.Problem([third, third, F(0), third], [third - little, third, little, third], 2, otd.SpecHubLaw())
    for claim in choose(["probabilities", "floats_agree", "torch_agrees"]):
        if not claim.skipped(otd.rules.SpecHub()):
            claim(otd.rules.SpecHub(), problem)


class Lawless(otd.SelectionRule):
    """It declares no draft law."""

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        return otd.rules.KSeq()(p, q, drafts)


def test_nothing_is_checked_in_silence() -> None:
    with pytest.raises(otd.InvalidArgument, match="properties must hold at least one name"):
        otd.check_rule(otd.rules.KSeq(), properties=[])
    with pytest.raises(
        otd.InvalidArgument, match=r"Lawless.law must be a draft law. Write  law = otd.IID\(\)  in the class"
    ):
        otd.check_rule(Lawless())


@pytest.mark.parametrize(
    ("rules", "more", "said"),
    [
        ([], {}, "rules must hold at least one rule"),
        (otd.rules.KSeq(), {}, r"rules must be a list of selection rules, got KSeq\("),
        ("KSeq", {}, "rules must be a list of selection rules, got 'KSeq'"),
        ([Lawless()], {}, "Lawless.law must be a draft law"),
        ([otd.rules.KSeq()], {"max_examples": 0}, "max_examples must be an integer of at least 1, got 0"),
        ([otd.rules.KSeq()], {"properties": []}, "properties must hold at least one name"),
        (
            [otd.rules.KSeq()],
            {"properties": "output_distribution"},
            r"properties must be a list of names, .*\['output_distribution'\]",
        ),
        (
            [otd.rules.KSeq()],
            {"expected_failures": ["output_distribution"]},
            "expected_failures must map properties or test ids to reasons",
        ),
    ],
)
def test_what_makes_no_tests_is_told(rules: Any, more: Any, said: str) -> None:
    with pytest.raises(otd.InvalidArgument, match=said):
        otd.parametrize_with_rule_checks(rules, **more)
