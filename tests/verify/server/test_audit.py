"""`Audit`: wrong samplers are found, right ones are not; what it says, and what it refuses."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from mutants.catalogue import TABLES
from mutants.runs import LINKED, REUSED, RUNS, share_of_old_numbers
from slow import slow, slow_except

import ot_draft as otd
from ot_draft.verify.outcome import Status
from ot_draft.verify.server import Audit, CannotAudit, Token, read_log
from ot_draft.verify.server.bets import Bets
from ot_draft.verify.server.wealth import Wealth

from . import right_ones
from .chains import Pair, as_log, distance, inverse, random_pair, right, run, share_for
from .power import REQUESTS, feed

SEED = 1
SMALL = {"the draft's noise again", "odds bent by the context"}  # biases of 2 and 3 %, other ones in every context
WITHOUT_DRAFT = set(RUNS) - set(LINKED)  # of plain sampling


@pytest.fixture(scope="module")
def pair() -> Pair:
    return random_pair(SEED)


@pytest.mark.parametrize(
    "name",
    slow_except(
        [*TABLES, *RUNS],
        "residual is p",
        "residual is p without the draft",
        "recovery with the test's number",
        "the last row of a batch",
    ),
)
def test_a_wrong_sampler_is_found_in_its_log(name: str, pair: Pair, tmp_path: Path) -> None:
    """At its full strength or 10 % total variation a token, whichever is less, at the level 1e-6."""
    generator = np.random.default_rng(SEED)
    if name in RUNS:
        emitted = RUNS[name](pair, generator)
    else:
        wrong = TABLES[name](pair)
        share, length = min(1.0, 0.1 / distance(pair, wrong)), 800 if name in SMALL else 480
        emitted = run(pair, wrong, share, REQUESTS, length, generator)
    np.savez(tmp_path / "log.npz", **as_log(pair, emitted, with_draft=name not in WITHOUT_DRAFT))
    audit = Audit()
    for number, token in enumerate(read_log(tmp_path / "log.npz", audit.leave_out), 1):
        audit.add(token)
        if number % 2000 == 0 and audit.biased:  # the verdict stays
            break
    report = audit.report()
    assert report.status == Status.FAILED, report
    assert "strongest evidence" in str(report)


@pytest.mark.parametrize("name", REUSED)
def test_random_numbers_used_twice_are_found(name: str, pair: Pair) -> None:
    audit = Audit()
    share = share_of_old_numbers(name, pair, 0.1)
    feed(audit, pair, REUSED[name](pair, share, (REQUESTS, 200), np.random.default_rng(SEED)), with_draft=False)
    report = audit.report()
    assert report.status == Status.FAILED, report
    assert report.evidence.bets[0].family in {"neighbours", "requests"}
    assert "number" in report.evidence.bets[0].event


def test_the_bias_of_a_wrong_sampler_is_what_is_said(pair: Pair) -> None:
    """The enumerated distance of two of them against the frequencies of a long run."""
    assert distance(pair, right(pair)) < 1e-12
    for name in ("odds / 0.7", "last token greedy"):
        wrong = TABLES[name](pair)
        assert distance(pair, wrong, share_for(pair, wrong, 0.01)) == pytest.approx(0.01, rel=1e-3)
        emitted = run(pair, wrong, 1.0, 400, 500, np.random.default_rng(0))
        counts = np.zeros((4, pair.n, pair.n))
        np.add.at(counts, (emitted.place[:, 20:], emitted.last[:, 20:], emitted.token[:, 20:]), 1)
        total = counts.sum(-1, keepdims=True)
        seen = (np.abs(counts - total * pair.p).sum(-1) / 2).sum() / counts.sum()
        noise = 0.5 * np.sqrt(2 / np.pi * total * pair.p * (1 - pair.p)).sum() / counts.sum()
        assert distance(pair, wrong) - 0.01 < seen < distance(pair, wrong) + noise + 0.01


def test_without_tokens_nothing_is_decided() -> None:
    report = Audit().report()
    assert report.word == "cannot be decided" and "no tokens" in str(report)


def test_right_samplers_are_not_called_wrong() -> None:
    """50 runs of 512 tokens at the level .01; `power.py right` is the long form."""
    alarms = 0
    pairs = [random_pair(seed) for seed in range(10)]
    for seed in range(50):
        audit = Audit(level=0.01)
        pair, generator = pairs[seed % 10], np.random.default_rng([seed, 3])
        last = generator.integers(pair.n, size=512)
        audit.add(
            *Token.of_arrays(inverse(pair.p[last], generator.random(512)), pair.p[last], request=np.arange(512) // 16)
        )
        alarms += audit.biased
    assert alarms <= 1  # expected below 0.05


@pytest.mark.parametrize("seeds", [range(3), slow(range(3, 100))], ids=str)
def test_right_audits_of_many_kinds_are_not_biased(seeds: range) -> None:
    """Vocabularies, lists, batches, rules and number types of `right_ones`, whose command is the long form."""
    for seed in seeds:
        audit = right_ones.audited(seed, 1000, 1e-6)
        assert not audit.biased, (seed, str(audit.report()))


def test_one_by_one_is_as_in_blocks(pair: Pair) -> None:
    emitted = run(pair, right(pair), 0.0, 1, 700, np.random.default_rng(0))
    token, last, place = emitted.token[0], emitted.last[0], emitted.place[0]
    singly, at_once, by_top = Audit(), Audit(), Audit()
    at_once.add(*Token.of_arrays(token, pair.p[last], step_offset=place, draft_probs=pair.q[last]))
    for i in range(700):
        law = pair.p[last[i]]
        singly.add(Token.of_law(int(token[i]), law, step_offset=int(place[i]), draft_probs=pair.q[last[i]]))
        order = np.argsort(-law)
        by_top.add(
            Token.of_top(
                int(token[i]),
                order,
                law[order],
                step_offset=int(place[i]),
                draft_probs=pair.q[last[i]][order],
                whole=True,
            )
        )
    assert singly.log_e_value == pytest.approx(at_once.log_e_value, abs=1e-9)
    assert by_top.log_e_value == pytest.approx(at_once.log_e_value, abs=1e-9)
    assert singly.report().evidence.bound == pytest.approx(at_once.report().evidence.bound)


def test_memory_is_constant(pair: Pair) -> None:
    audit, generator = Audit(), np.random.default_rng(0)

    def more(requests: range) -> int:
        for request in requests:
            last = generator.integers(pair.n, size=64)
            audit.add(
                *Token.of_arrays(
                    inverse(pair.p[last], generator.random(64)), pair.p[last], request=np.full(64, request)
                )
            )
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        first, second = more(range(40)), more(range(40, 80))
    finally:
        tracemalloc.stop()
    assert second - first < 40 * 2_500  # what is remembered of a request, of the last 4,096 of them
    assert audit.tokens == 80 * 64


def test_it_says_what_it_knows(pair: Pair) -> None:
    audit, generator = Audit(), np.random.default_rng(5)
    last = generator.integers(pair.n, size=4000)
    audit.add(*Token.of_arrays(inverse(pair.p[last], generator.random(4000)), pair.p[last]))
    report = audit.report()
    assert report.status != Status.FAILED and report.evidence.decided_at is None
    assert 0.01 < report.evidence.bound < 0.1 and report.evidence.observed_bias < report.evidence.bound
    assert 4000 < report.evidence.for_bounds["0.01"] < report.evidence.for_bounds["0.001"]
    rounded = Audit(tolerance=0.02)
    rounded.add(*Token.of_arrays(inverse(pair.p[last], generator.random(4000)), pair.p[last]))
    assert rounded.report().evidence.for_bounds.keys() == {"0.05"}  # more tokens do not reach 0.01
    assert "no bias found in 4,000 tokens" in str(report)
    assert report.record["status"] == "passed"
    hinted = Audit(level=1e-12)
    slightly = 0.85 * pair.p[last] + 0.15 / pair.n
    while hinted.log_e_value < 5:
        hinted.add(*Token.of_arrays(inverse(slightly, generator.random(4000)), pair.p[last]))
    assert hinted.biased or hinted.report().evidence.more_tokens


def test_a_law_of_no_mass_is_refused_and_a_liar_still_found(pair: Pair) -> None:
    """It made the wealth NaN, and then nothing was ever biased."""
    audit, generator = Audit(), np.random.default_rng(0)
    for mass in ([0.0, 0.0], [np.nan, 1.0], [5e-324, 0.0], [np.inf, 0.0], [1e308, 1e308]):
        with pytest.raises(CannotAudit):
            audit.add(Token.of_top(0, [0, 1], mass, whole=True))
        audit.leave_out("no law", "here")
    last = generator.integers(pair.n, size=4000)
    audit.add(*Token.of_arrays(pair.p[last].argmax(1), pair.p[last]))
    assert audit.biased and np.isfinite(audit.log_e_value)


def test_a_wealth_that_is_no_number_is_an_error_of_ours() -> None:
    audit = Audit()
    audit.add(Token.of_law(0, [0.5, 0.5]))
    audit._wealth._combined[0] = np.nan
    with pytest.raises(RuntimeError, match="bug in ot_draft") as caught:
        audit.report()
    assert not isinstance(caught.value, otd.DraftSelectionError)


def test_what_is_left_out_costs_what_it_could_have_cost(pair: Pair) -> None:
    """No token, whatever its law, takes more from a bet than `charge` does."""
    generator = np.random.default_rng(4)
    size = (400, len(Bets().placed))
    y, m = generator.random(size), generator.random(size)
    y[:100], y[100:200], m[50:150], m[150:250] = 0, 1, 0, 1
    charged = Wealth(1e-4)
    charged.charge(1)
    for row in range(400):
        lost = Wealth(1e-4)
        lost.settle(y[[row]], m[[row]], np.zeros(1))
        assert np.all(charged._log <= lost._log + 1e-12)
    assert charged.total < 0


def test_tokens_that_are_left_out_before_others_are_added_cost_what_they_could_have_cost() -> None:
    """`audit.add(*read_log(log, audit.leave_out))` leaves out first. No token 2 can be read, and bets on this are learned later."""
    p, generator, audit = np.array([0.4, 0.3, 0.2, 0.1]), np.random.default_rng(1), Audit()
    tokens = generator.choice(4, p=p, size=4000)
    audit.leave_out("token 2", "", int((tokens == 2).sum()))
    kept = tokens[tokens != 2]
    audit.add(*Token.of_arrays(kept, np.tile(p, (len(kept), 1))))
    assert audit.report().word == "cannot be decided" and audit.log_e_value < 0


def test_left_out_by_the_token_is_not_biased(pair: Pair) -> None:
    """Of right tokens, every twentieth that is not the likeliest cannot be read: those that were read lean, and it is not their fault."""
    generator = np.random.default_rng(5)
    last = generator.integers(pair.n, size=20_000)
    token = inverse(pair.p[last], generator.random(20_000))
    lost = (token != pair.p[last].argmax(1)) & (generator.random(20_000) < 0.1)
    audit, blind = Audit(level=0.01), Audit(level=0.01)
    for start in range(0, 20_000, 500):
        part = np.arange(start, start + 500)[~lost[start : start + 500]]
        for each in (audit, blind):
            each.add(*Token.of_arrays(token[part], pair.p[last[part]]))
        for _ in range(500 - len(part)):
            audit.leave_out("no token", "here")
    assert blind.biased and not audit.biased and audit.report().evidence.bound > lost.mean()


def test_a_token_of_no_mass_is_enough() -> None:
    audit = Audit()
    audit.add(Token.of_law(0, np.array([1.0, 0.0])))
    assert not audit.biased
    audit.add(Token.of_law(1, np.array([1.0, 0.0])))
    audit.add(Token.of_law(1, np.array([1.0, 0.0])))
    assert audit.biased and audit.report().evidence.bets[0].name == "no mass"


def test_it_is_there_when_it_is_asked_for() -> None:
    assert otd.Audit is Audit and issubclass(CannotAudit, otd.DraftSelectionError)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda audit: audit.add(Token.of_law(0, np.array([0.5, 0.2]))), "got sum 0.7"),
        (lambda audit: audit.add(Token.of_law(0, np.array([1.5, -0.5]))), "least entry -0.5"),
        (lambda audit: audit.add(Token.of_law(0, np.array([np.nan, 1]))), "nan"),
        (lambda audit: audit.add(Token.of_law(2, np.array([0.5, 0.5]))), "token must be below 2"),
        (lambda audit: audit.add(Token.of_law(0, np.ones((1, 2)) / 2)), "shape"),
        (lambda audit: audit.add(Token.of_law(0, np.ones(2) / 2, draft_probs=np.ones(3) / 3)), "length of target_probs, 2, got 3"),
        (lambda audit: audit.add(Token.of_law(0, np.ones(2) / 2, draft_probs=np.ones(2))), "sum 1, got sum 2"),
        (lambda audit: audit.add(Token.of_top(0, [1, 1], [0.2, 0.2])), "must be distinct"),
        (lambda audit: audit.add(Token.of_top(0, [1, 2], [0.7, 0.7])), "at most 1, got 1.4"),
        (lambda audit: audit.add(Token.of_top(0, [1, 2], [0.7, -0.1])), "token 2 must be from 0 to 1, got -0.1"),
        (lambda audit: audit.add(Token.of_top(0, [1], [0.7, 0.1])), "must have one shape"),
        (lambda audit: audit.add(*Token.of_arrays(np.array([0, 5]), np.ones((2, 2)) / 2)), "row 1: token must be below 2"),
        (lambda audit: audit.add(*Token.of_arrays(np.array([0, 0]), np.array([[0.5, 0.5], [1, 1]]))), "row 1: target_probs must be"),
        (lambda audit: audit.add(*Token.of_arrays(np.array([0]), np.ones((2, 2)) / 2)), "must have shape (T, n)"),
        (lambda audit: audit.add(Token.of_top(0, [1, 2], [0.2, 0.2], whole=True)), "must sum to 1, as whole is true"),
        (lambda audit: audit.add(Token.of_top(-1, [1, 2], [0.2, 0.2])), "and below 4611686018427387904, got -1"),
        (lambda audit: audit.add(Token.of_top(0, [-1, 2], [0.2, 0.2])), "got -1 to 2"),
        (lambda audit: audit.add(Token.of_top(0, [1, 2], [0.2, 0.2], -0.1)), "own must be a number from 0 to 1, got -0.1"),
        (lambda audit: audit.add(Token.of_law(1.5, np.ones(2) / 2)), "got 1.5. Pass such an integer"),
        (lambda audit: audit.add(Token.of_law(2**70, np.ones(2) / 2)), "beyond 64 bits"),
        (lambda audit: audit.add(Token.of_law(10**5000, np.ones(2) / 2)), "beyond 64 bits"),
        (lambda audit: audit.add(Token.of_law(0, np.ones(2) / 2, request=np.nan)), "the name of a request"),
        (lambda audit: audit.add(Token.of_law(0, np.array([0.5 + 0.1j, 0.5]))), "real numbers, got type complex128"),
        (lambda audit: audit.add(*Token.of_arrays(np.array([0.7]), np.ones((1, 2)) / 2)), "tokens must be whole numbers"),
        (lambda audit: audit.add(*Token.of_arrays(np.array([0]), np.ones((1, 2)) / 2, draft=np.ones((1, 2)) / 2)), "is not an argument"),
        (lambda audit: audit.add(*Token.of_arrays(np.array([0]), np.ones((1, 2)) / 2, request=np.array([0.5]))), "request must be whole"),
        (lambda audit: Audit(level=0), "level must be between 0 and 1, got 0"),
        (lambda audit: Audit(confidence=1), "confidence must be between 0 and 1, got 1"),
        (lambda audit: Audit(tolerance=-1), "tolerance must be a relative error from 0 to below 0.1, got -1"),
    ],
)  # fmt: skip
def test_what_is_no_law_is_refused(call: object, said: str) -> None:
    with pytest.raises(CannotAudit, match=said.replace("(", r"\(").replace(")", r"\)")):
        call(Audit())  # type: ignore[operator]


def test_a_charge_is_the_loss_at_the_largest_learned_stakes() -> None:
    """Whether it is charged before the stakes are learned or after."""
    p, generator = np.array([0.5, 0.3, 0.2]), np.random.default_rng(0)
    tokens = Token.of_arrays(generator.choice(3, size=4000, p=[0.4, 0.4, 0.2]), np.tile(p, (4000, 1)))
    early, late, none = Audit(), Audit(), Audit()
    early.charge(2)
    for audit in (early, late, none):
        audit.add(*tokens)
        assert audit.log_e_value > 0
    late.charge(2)
    assert late.log_e_value < none.log_e_value
    assert early._wealth._combined == pytest.approx(late._wealth._combined)
    assert np.all(none._wealth._combined - late._wealth._combined > 0.1)
