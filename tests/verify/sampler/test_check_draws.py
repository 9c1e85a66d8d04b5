"""check_draws: the declared law is the law by which drafts are drawn, or a named check says that it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from slow import slow, slow_except

import ot_draft as otd
from ot_draft import laws
from ot_draft.laws import is_defined
from ot_draft.verify.corners import LabelledProblem, corner_problems
from ot_draft.verify.e_values import smallest_distance
from ot_draft.verify.rule import drawn
from ot_draft.verify.rule.drawn import drawn_drafts
from ot_draft.verify.rule.report import check_property
from ot_draft.verify.sampler import check_draws
from ot_draft.verify.sampler.samplers import DraftSampler

Array = Any
LAWS = [otd.IID(), otd.WithoutReplacement(), otd.Hybrid(top=-1), otd.Hybrid(top=1), otd.SpecHubLaw()]
PLANTED: list[tuple[Callable[..., Any], str, dict[str, Any]]] = []


def caught_by(name: str, **options: Any) -> Callable[[Any], Any]:
    """Decorator: a wrong draft sampler, the check that rejects it, and how it is called."""

    def plant(draft: Callable[..., Any]) -> Callable[..., Any]:
        PLANTED.append((draft, name, options))
        return draft

    return plant


def drawn_by(law: otd.DraftLaw) -> Callable[..., Any]:
    """The library's own draws, for one row or many."""

    def drafts(q: Array, k: int, generator: Any) -> Array:
        return otd.draw(law, q, k, generator)

    return drafts


def chosen(q: Array, k: int, generator: np.random.Generator) -> Array:
    """As a user would draw them."""
    return generator.choice(len(q), k, p=q)


def by_sums(q: Array, k: int, generator: np.random.Generator) -> Array:
    """The same, quicker."""
    sums = q.cumsum()
    return np.searchsorted(sums[:-1], sums[-1] * generator.random(k), side="right")


@caught_by("declared_draft_law", batched=True)
def temperature_0_9_reported_at_1(q: Array, k: int, generator: Any) -> Array:
    return otd.draw(otd.IID(), q ** (1 / 0.9) / (q ** (1 / 0.9)).sum(-1, keepdims=True), k, generator)


@caught_by("declared_draft_law")
def greedy_reported_as_sampled(q: Array, k: int, generator: Any) -> Array:
    return np.full(k, q.argmax())


@caught_by("declared_draft_law", batched=True)
def one_draft_repeated(q: Array, k: int, generator: Any) -> Array:
    """Each alone is distributed as q; together they are not."""
    return np.repeat(otd.draw(otd.IID(), q, 1, generator), k, axis=-1)


@caught_by("declared_draft_law", law=otd.WithoutReplacement(), batched=True)
def without_replacement_in_falling_order(q: Array, k: int, generator: Any) -> Array:
    """The right sets of tokens, sorted."""
    drafts = otd.draw(otd.WithoutReplacement(), q, k, generator)
    masses = np.where(drafts >= 0, np.take_along_axis(q, np.maximum(drafts, 0), -1), -1)
    return np.take_along_axis(drafts, np.argsort(-masses, axis=-1, kind="stable"), -1)


@caught_by("possible_drafts", law=otd.WithoutReplacement())
def with_replacement(q: Array, k: int, generator: Any) -> Array:
    return chosen(q, k, generator)


@caught_by("possible_drafts")
def without_replacement(q: Array, k: int, generator: Any) -> Array:
    return otd.draw(otd.WithoutReplacement(), q, k, generator)


@caught_by("possible_drafts")
def one_draft_too_few(q: Array, k: int, generator: Any) -> Array:
    return chosen(q, k, generator)[1:]


@caught_by("possible_drafts")
def token_beyond_the_vocabulary(q: Array, k: int, generator: Any) -> Array:
    return chosen(q, k, generator) + 1


@caught_by("end_uniforms", samples=250)
def sums_up_to_the_uniform(q: Array, k: int, generator: Any) -> Array:
    """cumulative >= u instead of > u: at u = 0 the first token, whatever its mass."""
    return np.searchsorted(np.cumsum(q)[:-1], generator.random(k), side="left")


@caught_by("independent_steps", batched=True)
def rows_share_their_seed(q: Array, k: int, generator: Any) -> Array:
    return otd.IID().draw(q, np.tile(generator.random(k), (len(q), 1)))


@caught_by("inputs_unchanged", samples=250)
def scratch_memory(q: Array, k: int, generator: Any) -> Array:
    drafts = chosen(q, k, generator)
    q[drafts] = 0
    return drafts


@pytest.mark.parametrize(("draft", "name", "options"), PLANTED, ids=[f"{d.__name__}-{name}" for d, name, _ in PLANTED])
def test_a_planted_draft_sampler_is_rejected_by_its_check(draft: Any, name: str, options: dict[str, Any]) -> None:
    report = check_draws(draft, seconds=None, **options)
    assert report[name].status == "failed", report
    assert report[name].evidence.label in str(report) and "check_draws" in report.tried["code"]


@pytest.mark.parametrize("law", slow_except(LAWS, "IID()", "WithoutReplacement()", name=repr))
@pytest.mark.parametrize("seed", [0, *map(slow, range(1, 4))])
def test_the_librarys_draws_follow_every_law(law: otd.DraftLaw, seed: int) -> None:
    report = check_draws(drawn_by(law), law, batched=True, samples=2_500, seconds=None, seed=seed)
    report.raise_if_failed()
    assert {outcome.status for outcome in report.outcomes} == {"passed"}
    one_by_one = check_draws(drawn_by(law), law, samples=100, seconds=None, seed=seed)
    assert one_by_one.status == "not decided" and not one_by_one.failures  # so few samples detect no bias


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_law_of_the_tuples_is_the_laws_own(law: otd.DraftLaw) -> None:
    """Its masses are those of `probability`, absent drafts included, and sum to 1."""
    for problem in [*corner_problems(law, largest_k=2).values(), otd.Problem([1.0], [1.0], 2, law)]:
        tuples = np.array(list(np.ndindex(*[problem.n + 1] * problem.k))) - 1
        view = DraftSampler(drawn_by(law), batched=True).views([LabelledProblem("", problem)])[0]
        if view.laws.shape[1] > 1:  # too many to be counted all together
            continue
        _, cells = view.read(np.zeros(len(tuples), dtype=int), tuples, np.random.default_rng(0))
        assert cells[:, 0].tolist() == list(range((problem.n + 1) ** problem.k))
        wanted = np.array([law.probability(problem.q, each) for each in tuples])
        assert wanted.sum() == pytest.approx(1) and view.laws[0, 0] == pytest.approx(wanted)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_drafts_that_are_too_many_to_count_are_looked_at_one_after_the_other(law: otd.DraftLaw) -> None:
    """A sixteenth of right drafts in every part, another share of tempered ones; drafts that cannot be are impossible."""
    k = 2 if not is_defined(law, 3) else 3
    q = np.random.default_rng(0).dirichlet(np.ones(80))
    case = LabelledProblem("", otd.Problem(q, q, k, law))
    view, _ = DraftSampler(drawn_by(law), batched=True).views([case])
    generator, which = np.random.default_rng(1), np.zeros(20_000, dtype=int)
    drafts = drawn_by(law)(np.broadcast_to(q, (20_000, 80)), k, generator)
    seen = view.read(which, drafts, generator)
    view.add(which, seen)
    assert not view.impossible(which, seen).size and view.evidence()[0] < np.log(1e6)
    cooler = drawn_by(law)(np.broadcast_to(q**1.5 / (q**1.5).sum(), (20_000, 80)), k, generator)
    view.add(which, view.read(which, cooler, generator))
    assert view.evidence()[0] > np.log(1e12)
    absent = np.where(np.arange(k) == k - 1, -1, drafts)
    assert view.impossible(which, view.read(which, absent, generator)).size == 20_000


def test_user_problems_and_many_tuples() -> None:
    law = otd.WithoutReplacement()
    q = np.array([0.5, 0.3, 0.2])
    report = check_draws(drawn_by(law), law, [otd.Problem(q, q, k, law) for k in (2, 4)], samples=250)
    assert report.passed and report["declared_draft_law"].evidence.samples == 250  # with k = 4, one draft is absent
    wide = np.full(100, 0.01)
    assert check_draws(chosen, problems=[otd.Problem(wide, wide, k=2)], samples=250).passed


def test_check_rule_takes_the_draft_sampler_too() -> None:
    rule = otd.rules.SpeculativeSampling()
    seen: list[str] = []
    right = otd.check_rule(
        rule, 5, ["output_distribution"], draft_sampler=by_sums, on_outcome=lambda outcome: seen.append(outcome.check)
    )
    assert right.passed and seen == ["output_distribution", "declared_draft_law"]
    assert (
        right["declared_draft_law"].evidence.cases == len(corner_problems(rule.law))
        and repr(rule.law) in right["declared_draft_law"].claim
    )
    wrong = otd.check_rule(rule, 5, ["output_distribution"], draft_sampler=greedy_reported_as_sampled)
    assert [outcome.check for outcome in wrong.failures] == ["declared_draft_law"]
    assert "drafts [1] in 100.00% of the calls instead of" in wrong["declared_draft_law"].evidence.reason
    assert "check_draws(greedy_reported_as_sampled, law=otd.IID()" in wrong["declared_draft_law"].code


def until_used_up(q: np.ndarray, k: int, generator: np.random.Generator) -> list[int]:
    """Draws without replacement while there is mass."""
    drawn: list[int] = []
    while len(drawn) < min(k, int((q > 0).sum())):
        left = np.where(np.isin(np.arange(len(q)), drawn), 0, q)
        drawn.append(int(generator.choice(len(q), p=left / left.sum())))
    return drawn


FILLED = {  # with what a drafter goes on when q is used up, and whether it is the law's way
    "stops": (lambda free, generator: -1, False),
    "the lowest id": (lambda free, generator: free[0], False),
    "equal chances": (lambda free, generator: int(generator.choice(free)), True),
}


@pytest.mark.parametrize("name", FILLED)
def test_what_is_drafted_when_q_is_used_up_is_said_and_among_the_corners(name: str) -> None:
    fill, right = FILLED[name]

    def draft(q: np.ndarray, k: int, generator: np.random.Generator) -> np.ndarray:
        drawn = until_used_up(q, k, generator)
        while len(drawn) < k:
            free = [x for x in range(len(q)) if x not in drawn]
            drawn.append(fill(free, generator) if free else -1)
        return np.array(drawn)

    corners = corner_problems(otd.WithoutReplacement(), used_up=True)
    used = [problem for label, problem in corners.items() if label.startswith("q is used up")]
    assert len(used) == 1 and not any(
        label.startswith("q is used up") for label in corner_problems(otd.WithoutReplacement())
    )
    for problems in (used, None) if not right else (used,):  # by default, too
        report = otd.check_draws(draft, otd.WithoutReplacement(), problems, samples=500, seconds=None)
        assert report.passed == right
        assert ("no probability is left in q: the draft law then samples uniformly" in str(report)) == (not right), str(
            report
        )


def test_arguments_that_contradict_the_problems_are_errors() -> None:
    flat = np.full(3, 1 / 3)
    problems = [otd.Problem(flat, flat, 2)]
    for wrong, said in (
        ({"k": 3}, "k must be 2 as in problems, got 3"),
        ({"law": otd.WithoutReplacement()}, "law must be IID"),
    ):
        for check, function in (
            (otd.check_draws, drawn_by(otd.IID())),
            (otd.check_sampler, lambda p, q, drafts, generator: 0),
        ):
            with pytest.raises(otd.InvalidArgument, match=said):
                check(function, problems=problems, **wrong)  # type: ignore[operator]
    assert not otd.check_draws(drawn_by(otd.IID()), otd.IID(), problems, k=2, samples=10).failures


@pytest.mark.parametrize("samples", [1, 10])
def test_samples_that_detect_no_bias_decide_nothing(samples: int) -> None:
    """A sampler of another law is not found after so few draws, and a right one has not passed; with one token there is nothing to find."""
    problem = otd.Problem([0.5, 0.5], [0.9, 0.1], 1)
    for draft in (drawn_by(otd.IID()), lambda q, k, generator: generator.integers(0, 2, k)):
        report = check_draws(draft, problems=[problem], samples=samples)
        outcome = report["declared_draft_law"]
        assert report.status == outcome.status == "not decided" and outcome.evidence.distance == 1
        assert "Pass more samples" in str(report)
    certain = check_draws(drawn_by(otd.IID()), problems=[otd.Problem([1.0], [1.0], 1)], samples=samples)
    assert certain["declared_draft_law"].status == "passed"


def test_a_selection_rule_is_not_a_sampler() -> None:
    for check in (otd.check_sampler, otd.check_draws, otd.check_step):
        for rule in (otd.rules.KSeq(), otd.rules.KSeq):
            with pytest.raises(otd.InvalidArgument, match=r"the selection rule .* Use otd\.check_rule"):
                check(rule)  # type: ignore[operator]


def test_no_drafts_are_an_error_and_too_few_tokens_have_a_remedy() -> None:
    with pytest.raises(otd.InvalidArgument, match="k must be at least 1 for check_draws, got 0"):
        otd.check_draws(drawn_by(otd.IID()), k=0)

    def draft(q: np.ndarray, k: int, generator: np.random.Generator) -> np.ndarray:
        return generator.choice(len(q), k, replace=False, p=q)

    report = otd.check_draws(draft, otd.WithoutReplacement(), k=5, samples=10)
    assert not report.passed and "draw the others uniformly from the remaining tokens" in str(report)


class OneUniform(otd.IID):
    """States i.i.d. drafts, and draws all of them with one number."""

    def draw(self, q: Array, uniforms: Array) -> Array:
        return super().draw(q, 0 * uniforms + uniforms[..., :1])


class FirstToken(otd.IID):
    """States draws from q, and drafts token 0, which may have no mass."""

    def draw(self, q: Array, uniforms: Array) -> Array:
        return 0 * super().draw(q, uniforms)


class Halved(otd.IID):
    """Its probabilities do not sum to 1."""

    def probability(self, q: Array, drafts: Array) -> Array:
        return super().probability(q, drafts) / 2


class Under(otd.SelectionRule):
    """A rule, said to be for drafts of another law."""

    def __init__(self, rule: otd.SelectionRule, law: otd.DraftLaw) -> None:
        self.rule, self.law = rule, law

    def __call__(self, p: Array, q: Array, drafts: Array) -> otd.Selection:
        return self.rule(p, q, drafts)


@pytest.mark.parametrize("law", laws.ALL, ids=lambda law: law.name)
def test_every_law_draws_what_it_states(law: otd.DraftLaw) -> None:
    outcome = check_property(drawn_drafts, otd.rules.NaiveTarget(law))
    assert outcome.status == "passed" and outcome.evidence.cases == len(drawn.SAMPLING.corners)


@pytest.mark.parametrize(
    ("rule", "law", "verdict", "seen"),
    [
        (otd.rules.KSeq(), OneUniform(), "no", "in 2,036 of 10,000 calls, and states probability 0.04"),
        (otd.rules.KSeq(), FirstToken(), "no", "in 10,000 of 10,000 calls"),
        (otd.rules.NaiveTarget(), OneUniform(), "not decided", "in 2,036 of 10,000 calls"),
        (otd.rules.NaiveTarget(), Halved(), "not decided", "sum to 1/2"),
    ],
)
def test_a_law_that_draws_otherwise_than_it_states_is_not_lossless(
    rule: otd.SelectionRule, law: otd.DraftLaw, verdict: str, seen: str
) -> None:
    """A rule that is right under every law is not refuted by it, but the verdict is no yes."""
    report = otd.check_rule(Under(rule, law), 3, ["drawn_drafts"])
    assert report.lossless == verdict
    assert seen in report["drawn_drafts"].evidence.reason


def test_the_power_that_drawn_drafts_states() -> None:
    assert 0.063 < smallest_distance(drawn.SAMPLING.draws, 6, 1 / drawn.SAMPLING.limit) < 0.064
    assert 0.095 < smallest_distance(drawn.SAMPLING.draws, 216, 1 / drawn.SAMPLING.limit) < 0.096
    assert 0.128 < smallest_distance(drawn.SAMPLING.wide_draws, 64, 1 / drawn.SAMPLING.wide_limit) < 0.129
