"""Reports for equal contexts, by themselves: the bet is fair, right reports pass, and lists are read as what they are."""

from __future__ import annotations

import re
from fractions import Fraction as F
from itertools import compress, product
from math import prod

import numpy as np
import pytest

from ot_draft.verify.server.answers import TOLERANCES, UNREPORTED, Answer, Emitted
from ot_draft.verify.server.consistency import ContextLimits, Contexts, Ends
from ot_draft.verify.server.reported import Lists, Reported


def emitted(token: int, mass: np.ndarray, **given: bool) -> Emitted:
    ids = np.argsort(-mass, kind="stable")
    return Emitted(token, float(np.log(mass[token])), ids, np.log(mass[ids]), **given)


def test_the_bet_on_equal_contexts_is_fair_whatever_moved_the_reports_apart() -> None:
    """The mean of the factor under the second report, by enumeration, for any first one: at most 1, and 1 up to the slack."""
    generator = np.random.default_rng(0)
    for _ in range(30):
        first, second = generator.dirichlet(np.ones(6), size=2)
        for listed in (1, 3, 6):
            mean = np.zeros(len(ContextLimits().stakes))
            for token in range(6):
                contexts = Contexts(1e-6)
                contexts.add("a", Answer((emitted(0, first),), ""), lambda each, n=listed: n)
                contexts.add("a", Answer((emitted(token, second),), ""), lambda each, n=listed: n)
                mean += second[token] * np.exp(contexts._wealth)
            assert (mean <= 1 + 1e-12).all() and (mean > 1 - 2e-4).all()


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.15])
def test_rounding_in_other_batches_is_no_reason(spread: float) -> None:
    generator = np.random.default_rng(1)
    contexts, logits = Contexts(1e-6), 2 * generator.normal(size=(16, 50))
    for prompt in np.tile(np.arange(16), 40).tolist():
        mass = np.exp(logits[prompt] + spread * generator.normal(size=50))
        mass /= mass.sum()
        contexts.add([prompt], Answer((emitted(int(generator.choice(50, p=mass)), mass),), ""), lambda each: 20)
    assert contexts.compared == 16 * 39
    assert contexts.refusal(leaves_to_chance=True) == ""


def test_two_laws_for_one_text_are_shown() -> None:
    """Requests whose cache holds what was drafted, not the token that came: each is drawn from the law that it reports."""
    generator = np.random.default_rng(3)
    contexts, laws, first = Contexts(1e-6), generator.dirichlet(np.full(8, 0.2), size=8), np.full(8, 1 / 8)
    for number in range(200):
        token, held = generator.integers(8, size=2)
        held = held if number % 4 == 0 else token
        after = emitted(int(generator.choice(8, p=laws[held])), laws[held])
        contexts.add([1, 2], Answer((emitted(int(token), first), after), ""), lambda each: 8)
    said = contexts.refusal(leaves_to_chance=True)
    assert "not a function of the context" in said and "depends on the emitted token" not in said
    masses = re.findall(
        r"1 tokens \(\d\) after the prompt \[1, 2\], .*? are \d: ([\d.e-]+), .*? and then \d: ([\d.e-]+),", said
    )[0]
    assert set(masses) <= {f"{law.max():.3g}" for law in laws}, said


def test_which_ends_are_none() -> None:
    law = np.full(8, 1 / 8)

    def answer(*tokens: int, finish: str = "stop") -> Answer:
        return Answer(tuple(emitted(token, law) for token in tokens), finish)

    reported, hidden, counted, full = Ends(), Ends(), Ends(), Ends()
    for i in range(20):
        reported.add_requested("a", answer(1, 2, 3, i % 2 + 6), 16)  # two tokens that end, nowhere else
        hidden.add_requested("a", answer(1, 2, 3, i % 4), 16)
        counted.add_requested("a", answer(1, 2, finish=UNREPORTED), 16)
        full.add_requested([i % 3], answer(*range(1, 3 + i % 3), finish="length"), 16)
    assert (reported.refusal(), full.refusal()) == ("", "")
    assert "--ignore-eos" in hidden.refusal() and "--ignore-eos" in counted.refusal()


END = 2  # the end-of-sequence token of the next test, which no response shows
ROWS = {  # probabilities of tokens 0, 1 and END by the token before; None: the first token
    None: (F(2, 5), F(1, 2), F(1, 10)),
    0: (F(1, 2), F(1, 4), F(1, 4)),
    1: (F(0), F(1, 10), F(9, 10)),
}


def outcomes(length: int, text: tuple[int, ...] = (), mass: F = F(1)) -> list[tuple[tuple[int, ...], F]]:
    """Responses, without their end-of-sequence tokens, and their probabilities."""
    if len(text) == length or END in text:
        return [(text, mass)] if mass else []
    row = ROWS[text[-1] if text else None]
    return [found for token, p in enumerate(row) for found in outcomes(length, (*text, token), mass * p)]


@pytest.mark.parametrize("c", [F(1, 2), F(4), F(-1, 2), F(-9, 10)])
def test_bets_on_responses_without_their_ends_have_mean_at_most_one(c: F) -> None:
    """Enumerated with fractions: four responses; a bet on any set of tokens; token 1 almost always ends a response."""
    every, law, owed = outcomes(2), np.full(3, 1 / 3), []
    answers = {text: Answer(tuple(emitted(token, law) for token in text if token != END), "stop" if END in text else "length")
               for text, _ in every}  # fmt: skip
    for some in product(every, repeat=4):
        ends = Ends()
        owed.append((some, prod(p for _, p in some), sum(ends.add(answers[text])[0] for text, _ in some)))
    for event in product((0, 1), repeat=3):
        kept, least = {}, min(1 + c, 1 / (1 + c))
        for text, _ in every:
            pairs = [(token, ROWS[before]) for before, token in zip((None, *text), text, strict=False) if token != END]
            kept[text] = prod((1 + c * event[token]) / (1 + c * sum(compress(row, event))) for token, row in pairs)
        wealth = [(mass * prod(kept[text] for text, _ in some), least**tokens) for some, mass, tokens in owed]
        assert sum(won * paid for won, paid in wealth) <= 1
        if len(set(event)) > 1 and event[END] == (
            c < 0
        ):  # it would lose at ends: the test detects that nothing is charged
            assert sum(won for won, _ in wealth) > 1


def reported(mass: np.ndarray, digits: int, as_mass: bool) -> Emitted:
    order = np.argsort(-mass)[:20]
    with np.errstate(divide="ignore"):
        logs = np.log(np.round(mass[order], digits)) if as_mass else np.round(np.log(mass[order]), digits)
    logs = np.maximum(logs, TOLERANCES.lowest_log)
    return Emitted(int(order[0]), float(logs[0]), order, logs, as_mass=as_mass)


@pytest.mark.parametrize(("digits", "as_mass"), [(2, True), (3, True), (1, False), (2, False), (3, False)])
def test_the_error_of_a_report_is_read_from_its_digits(digits: int, as_mass: bool) -> None:
    for mass in np.random.default_rng(2).dirichlet(np.full(30, 0.2), size=40):
        row = reported(mass, digits, as_mass)
        true = np.sort(mass)[::-1][:20]
        assert np.all(np.abs(true - row.mass) <= row.error * row.mass + row.step + 1e-12)
        assert abs(true.sum() - row.mass.sum()) <= row.slack
        assert emitted(0, mass, as_mass=as_mass).slack < 1e-10
        for law in (Reported(top_k=5), Reported(top_k=5, temperature=0.5)):
            found, sharp = Lists(law).distribution(row), true ** (1 / law.temperature)
            if found is not None:
                sharp = sharp[:5] / sharp[:5].sum()
                assert np.abs(found[1][:5] - sharp).sum() / 2 <= 2 * found[2] + 1e-12


def test_tokens_of_one_mass_are_in_no_list_where_it_ends() -> None:
    """Which of them a server lists is its own choice, and the emitted one is always there."""
    law = np.array([0.3, 0.2, *np.full(10, 0.05)])
    lists = Lists(Reported(listed=6))
    for token in range(12):
        ids = np.array([0, 1, *sorted({8, 9, 10, 11} | ({token} - {0, 1}))])
        ids_and_masses = lists.distribution(Emitted(token, float(np.log(law[token])), ids, np.log(law[ids])))
        assert ids_and_masses is not None and ids_and_masses[0].tolist() == [0, 1]
