"""check_step, and what it shares with check_sampler: wrong samplers and steps of many kinds are found, right ones pass."""

from __future__ import annotations

import json
from itertools import pairwise, product
from operator import itemgetter
from typing import Any

import numpy as np
import pytest
from false_alarms import kinds
from mutants.catalogue import CHECKED, Mutant, of
from mutants.step import Step, chosen, plain_residual, ratio
from slow import slow, slow_except

import ot_draft as otd
from ot_draft.verify.sampler.samplers import numbered_back, renumbered
from ot_draft.verify.sampler.views import PARTS, Dependence, View, part, pooled

Array = Any
TWO = [otd.Problem([0.7, 0.3], [0.4, 0.6], k=1), otd.Problem([0.2, 0.8], [0.4, 0.6], k=1)]


QUICK = {
    "sampler": ("uniforms of 4 bits", "residual is p", "rows 64 apart share", "five rows: residual is p",
                "n > 64: the 64 likeliest only"),
    "step": ("sorted drafts", "drafts of the last row are those of the first"),
    "path": ("residual of the first place", "residual is p"),
}  # fmt: skip
MISTAKES = [(form, mutant) for form in CHECKED for mutant in of(form)]


@pytest.mark.parametrize(
    ("form", "mutant", "options"),
    [
        *(slow(form, mutant, {}, id=f"{form}-{mutant.name}") for form, mutant in MISTAKES),
        *(pytest.param(form, mutant, {"k": 2}, id=f"{form}-{mutant.name}, k = 2")
          for form, mutant in MISTAKES if mutant.name in QUICK[form]),
    ],
)  # fmt: skip
def test_a_planted_mistake_is_found(form: str, mutant: Mutant, options: dict[str, int]) -> None:
    """By the checks as they are called by default, and, quicker, on the problems of two drafts."""
    report = mutant.report(form, **options)
    assert not report.passed and {each.check for each in report.failures} & set(mutant.found[form]), report
    assert all(each.evidence.reason for each in report.failures)


@pytest.mark.parametrize(
    ("name", "check"),
    slow_except(
        kinds(),
        "sampler, SpeculativeSampling(law=IID())",
        "sampler, RecursiveRejectionWithoutReplacement(law=WithoutReplacement())",
        "step, SpecHub(law=SpecHubLaw())",
        "drafts one by one, SpecHubLaw()",
        name=itemgetter(0),
    ),
)
def test_right_ones_pass(name: str, check: Any) -> None:
    report = check(3, 256)
    assert not report.failures, report  # of 2,500 draft tuples so few samples decide nothing


@pytest.mark.parametrize("path", [False, True])
def test_noise_of_the_draft_used_again_is_found(path: bool) -> None:
    """As in vLLM once: what chose the draft chooses the recovered token."""
    step = Step(race=True, shared=True)
    report = otd.check_step(step.path if path else step, k=1, path=path, batched=True, seconds=None)
    assert report["output_distribution"].status == "failed"


def test_the_bias_of_noise_used_again() -> None:
    """10, 60, 30 % come out as 10.0, 62.6, 27.4."""
    step = Step(race=True, shared=True)
    emitted = step(
        np.tile([0.1, 0.6, 0.3], (200_000, 1)), np.tile([0.8, 0.1, 0.1], (200_000, 1)), 1, np.random.default_rng(0)
    )[2]
    assert 0.02 < abs(np.bincount(emitted, minlength=3) / 200_000 - [0.1, 0.6, 0.3]).sum() / 2 < 0.03
    assert otd.check_sampler(
        step.sampler, k=1, batched=True, samples=2000, seconds=None
    ).passed  # it draws the drafts itself


def one_row(p: Array, q: Array, k: int, generator: Any) -> Any:
    """As a user writes it, for one row."""
    drafts = generator.choice(len(q), k, p=q)
    for place, x in enumerate(drafts):
        if generator.random() < p[x] / q[x]:
            return drafts, np.arange(k) == place, x
        p = plain_residual(p[None], q[None])[0]
    return drafts, np.zeros(k, dtype=bool), chosen(p[None], generator.random(1))[0]


def path_of_one_row(p: Any, q: Any, k: int, generator: Any) -> Any:
    drafts: list[int] = []
    for _ in range(k):
        drafts.append(int(generator.choice(len(q()), p=q(np.array(drafts, dtype=int)))))
    for t, x in enumerate(drafts):
        of_p, of_q = (law(np.array(drafts[:t], dtype=int)) for law in (p, q))
        if generator.random() >= of_p[x] / of_q[x]:
            return drafts, np.arange(k) < t, chosen(plain_residual(of_p[None], of_q[None]), generator.random(1))[0]
    return drafts, np.ones(k, dtype=bool), int(generator.choice(len(q()), p=p(np.array(drafts))))


@pytest.mark.parametrize(("step", "path"), [(one_row, False), (path_of_one_row, True)])
def test_one_row_at_a_time(step: Any, path: bool) -> None:
    report = otd.check_step(step, k=2, path=path, samples=60, seconds=None, rule=otd.rules.RecursiveRejection())
    assert not report.failures
    assert report.tried["batches"] == [] and "one row at a time" in str(report)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (lambda x, flags, t: x, "not drafts, accepted, token"),
        (lambda x, flags, t: (x, flags), "not drafts, accepted, token"),
        (lambda x, flags, t: (x[:, :1], flags, t), "not 2 drafts a row"),
        (lambda x, flags, t: (x, flags.astype(float), t), "accepted of float64"),
        (lambda x, flags, t: (x, flags | True, t), "flags that disagree"),
        (lambda x, flags, t: (x, flags, t + 9), "outside the vocabulary"),
        (lambda x, flags, t: (x, flags, t[:, None]), "not one token a row"),
        (lambda x, flags, t: (x[1:], flags[1:], t), "rows of drafts and"),
        (lambda x, flags, t: (x[1:], flags[1:], t[1:]), "rows for"),
    ],
)
def test_what_is_no_outcome_is_named(returned: Any, said: str) -> None:
    def step(p: Array, q: Array, k: int, generator: Any) -> Any:
        return returned(*Step()(p, q, k, generator))

    report = otd.check_step(step, k=2, batched=True, samples=128)
    assert said in report["possible_step"].evidence.reason and report["output_distribution"].status == "skipped"


def test_a_path_has_one_draft_a_place() -> None:
    with pytest.raises(otd.InvalidArgument, match=r"law must be otd.IID\(\) if path=True"):
        otd.check_step(Step().path, law=otd.WithoutReplacement(), path=True)
    report = otd.check_step(lambda p, q, k, generator: p([[0.5]] * len(p())), path=True, batched=True, samples=128)
    assert "tokens must be integers of shape" in report["possible_step"].evidence.reason


def test_the_report_says_what_was_tried_and_what_would_have_been_found() -> None:
    report = otd.check_step(Step(), TWO, batched=True, samples=4000, seconds=None)
    far = report.detectable_bias["output_distribution"]
    assert 0 < far < 0.2 and set(report.detectable_bias) == {"output_distribution", "declared_draft_law"}
    tried = "k = 1 with n = 2; in batches of 1, 2, 5, 33, 256"
    read = json.loads(report.json())
    assert (
        read["detectable_bias"]["output_distribution"] == far
        and read["tried"]["batches"] == [1, 2, 5, 33, 256]
        and read["status"] == "passed"
    )
    for text in (str(report), report.html()):
        assert tried in text and f"a bias of {far:.3f} is missed with probability 1e-6" in text
    wrong = otd.check_step(Step(residual=lambda p, q: p), TWO, batched=True, seconds=None)
    assert (
        wrong.detectable_bias == {}
        and "The same calls again" in wrong.html()
        and json.loads(wrong.json())["status"] == "failed"
    )


def test_a_law_as_far_off_as_stated_is_found_in_the_drafts_too() -> None:
    far = otd.check_step(Step(), TWO, batched=True, samples=4000, seconds=None).detectable_bias["declared_draft_law"]
    off = np.array([0.4 + far, 0.6 - far])

    class Off(Step):
        def draft(self, q: Array, k: int, generator: Any) -> Array:
            return (generator.random((len(q), k)) > off[0]).astype(int)

    found = [otd.check_step(Off(), TWO, batched=True, samples=4000, seconds=None, seed=seed) for seed in range(10)]
    assert all(report["declared_draft_law"].status == "failed" for report in found)


def test_a_method_is_called_again_by_the_code() -> None:
    code = otd.check_step(
        Step(odds=lambda *masses: np.sqrt(ratio(*masses))).path, TWO, path=True, batched=True, seconds=None
    ).tried["code"]
    assert ".path, problems=" in code and "from mutants.step import Step" in code


def test_the_model_of_a_path_renumbers_tokens_and_no_more() -> None:
    """The probability of every text under the model is that of its old numbers under independent draws."""
    law = np.array([0.5, 0.3, 0.2])
    model = renumbered(law, batched=False)
    texts = np.array(list(product(range(3), repeat=3)))
    by_model = [np.prod([model(text[:t])[text[t]] for t in range(3)]) for text in texts]
    assert by_model == pytest.approx(law[numbered_back(texts, 3)].prod(-1))
    assert len(np.unique(numbered_back(texts, 3), axis=0)) == 27 and (model() == law).all()
    rows = renumbered(np.stack([law, law[::-1]]), batched=True)
    assert (rows(np.array([[1], [2]])) == [model(np.array([1])), renumbered(law[::-1], False)(np.array([2]))]).all()


def test_parts_have_a_sixteenth_each_under_any_law() -> None:
    generator = np.random.default_rng(0)
    law = generator.dirichlet(np.full(7, 0.3), 100_000)
    outcome = chosen(law, generator.random(100_000))
    counts = np.bincount(part(law, outcome, generator), minlength=PARTS)
    assert abs(counts / 100_000 - 1 / PARTS).max() < 6 * np.sqrt(1 / PARTS / 100_000)
    never = np.array([[0.5, 0.5, 0.0]])
    assert part(never, np.array([2]), generator).tolist() == [PARTS - 1]


def test_many_tokens_are_pooled_by_their_odds() -> None:
    generator = np.random.default_rng(0)
    p, q = generator.dirichlet(np.ones(500), 3), generator.dirichlet(np.ones(500), 3)
    p[:, 7] = 0
    pool, laws = pooled(p, q, 8)
    for row in range(3):
        assert laws[row] == pytest.approx([p[row][pool[row] == c].sum() for c in range(9)]) and pool[row, 7] == 8
        ratio = [(p / q)[row][pool[row] == c] for c in range(8)]
        assert all(low.max() <= high.min() for low, high in pairwise(ratio))


@pytest.mark.parametrize(
    "partner",
    [lambda j: j - 3, lambda j: 19 - j, lambda j: np.where(j == 11, 4, j)],
    ids=["distance", "sum", "one pair"],
)
def test_rows_that_are_alike_are_chosen_and_then_counted(partner: Any) -> None:
    """All pairs of 20 rows are compared; unrelated rows give no evidence."""
    law = np.full((1, 4), 0.25)
    view = View("law", law[:, None], lambda *_: (0, 0), str, main=True)  # type: ignore[arg-type,return-value]
    generator, rows = np.random.default_rng(1), np.arange(20)
    for tied in (True, False):
        counted = Dependence([view], 20, batched=True)
        for batch in range(300):
            tokens = generator.integers(0, 4, 20)
            if tied:
                mine = partner(rows)
                tokens = np.where((mine >= 0) & (mine < rows), tokens[mine], tokens)
            counted.add(np.zeros(20, dtype=int), [tokens])
            if batch in {20, 60}:
                counted.choose_pairs()
        evidence = counted.evidence(np.zeros(1))[0]
        assert evidence > np.log(1e12) if tied else evidence < np.log(1e6)


def test_a_wrong_token_behind_eight_kept_drafts_is_found() -> None:
    """All eight are kept seldom, but where p = q."""

    def path(p: Any, q: Any, k: int, generator: Any) -> Any:
        def squared(*text: Any) -> Any:
            law = p(*text)
            return law**2 / (law**2).sum(-1, keepdims=True) if text and text[0].shape[-1] == 8 else law

        return Step().path(squared, q, k, generator)

    report = otd.check_step(path, path=True, batched=True, samples=3000, seconds=None)
    assert {outcome.evidence.label for outcome in report.failures} == {"p == q, k = 8"}


def test_a_step_that_ends_the_program_fails() -> None:
    def ends(p: Any, q: Any, k: int, generator: Any) -> Any:
        raise SystemExit(0)

    report = otd.check_step(ends, TWO, batched=True, samples=50)
    assert "raised SystemExit" in report["possible_step"].evidence.reason and not report.passed


def scheduled(peeks: bool) -> Any:
    """A step whose drafts are verified as far as another text leaves room; if it peeks, no draft that q finds unlikely is verified."""

    def step(p: Any, q: Any, k: int, generator: Any) -> Any:
        rows = len(q())
        text = np.zeros((rows, 0), dtype=np.int64)
        room = generator.integers(1, k + 1, rows)
        going, length, token = np.ones(rows, dtype=bool), np.zeros(rows, dtype=int), np.zeros(rows, dtype=np.int64)
        for place in range(k):
            of_p, of_q = p(text), q(text)
            draft = chosen(of_q, generator.random(rows))
            mass = np.take_along_axis(of_q, draft[:, None], -1)[:, 0]
            seen = going & (place < room) & ~(peeks & (mass < of_q.max(-1)))
            ratio = np.take_along_axis(of_p, draft[:, None], -1)[:, 0] / np.maximum(mass, 1e-300)
            kept = seen & (generator.random(rows) < ratio)
            left = np.where(seen[:, None], plain_residual(of_p, of_q), of_p)  # what is not verified is not known
            behind = chosen(left, generator.random(rows))
            token, length = np.where(going & ~kept, behind, token), length + kept
            going &= kept
            text = np.concatenate((text, draft[:, None]), -1)
        token = np.where(going, chosen(p(text), generator.random(rows)), token)
        return text, np.arange(k) < length[:, None], token

    return step


def test_a_scheduler_that_peeks_is_found() -> None:
    report = otd.check_step(scheduled(True), k=2, path=True, batched=True, seconds=None)
    assert report["output_distribution"].status == "failed", report


@pytest.mark.parametrize("samples", [2000, slow(4000), slow(None)])
def test_a_scheduler_that_looks_at_others_passes(samples: int | None) -> None:
    otd.check_step(scheduled(False), k=2, path=True, batched=True, samples=samples, seconds=None).raise_if_failed()
