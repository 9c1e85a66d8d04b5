"""Reports for equal contexts, by themselves: the bet is fair, right reports pass, and lists are read as what they are."""

from __future__ import annotations

import numpy as np
import pytest

from ot_draft.audit.answers import UNREPORTED, Answer, Emitted
from ot_draft.audit.consistency import STAKES, Contexts, Ends
from ot_draft.audit.reported import Lists, Reported


def emitted(token: int, mass: np.ndarray, **given: bool) -> Emitted:
    ids = np.argsort(-mass, kind="stable")
    return Emitted(token, float(np.log(mass[token])), ids, np.log(mass[ids]), **given)


def test_the_bet_on_equal_contexts_is_fair_whatever_moved_the_reports_apart() -> None:
    """The mean of the factor under the second report, by enumeration, for any first one: at most 1, and 1 up to the slack."""
    generator = np.random.default_rng(0)
    for _ in range(30):
        first, second = generator.dirichlet(np.ones(6), size=2)
        for listed in (1, 3, 6):
            mean = np.zeros(len(STAKES))
            for token in range(6):
                contexts = Contexts(1e-6)
                contexts.add("a", Answer((emitted(0, first),), ""), listed, 0.0)
                contexts.add("a", Answer((emitted(token, second),), ""), listed, 0.0)
                mean += second[token] * np.exp(contexts._wealth)
            assert (mean <= 1 + 1e-12).all() and (mean > 1 - 2e-4).all()


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.15])
def test_rounding_in_other_batches_is_no_reason(spread: float) -> None:
    generator = np.random.default_rng(1)
    contexts, logits = Contexts(1e-6), 2 * generator.normal(size=(16, 50))
    for prompt in np.tile(np.arange(16), 40).tolist():
        mass = np.exp(logits[prompt] + spread * generator.normal(size=50))
        mass /= mass.sum()
        contexts.add([prompt], Answer((emitted(int(generator.choice(50, p=mass)), mass),), ""), 20, 0.0)
    assert contexts.compared == 16 * 39
    assert contexts.refusal(leaves_to_chance=True) == ""


def test_which_ends_are_none() -> None:
    law = np.full(8, 1 / 8)

    def answer(*tokens: int, finish: str = "stop") -> Answer:
        return Answer(tuple(emitted(token, law) for token in tokens), finish)

    reported, hidden, counted, full = Ends(), Ends(), Ends(), Ends()
    for i in range(20):
        reported.add("a", answer(1, 2, 3, i % 2 + 6), 16)  # two tokens that end, nowhere else
        hidden.add("a", answer(1, 2, 3, i % 4), 16)
        counted.add("a", answer(1, 2, finish=UNREPORTED), 16)
        full.add([i % 3], answer(*range(1, 3 + i % 3), finish="length"), 16)
    assert (reported.refusal(), full.refusal()) == ("", "")
    assert "--ignore-eos" in hidden.refusal() and "--ignore-eos" in counted.refusal()


@pytest.mark.parametrize(("digits", "as_mass", "least"), [(2, True, 0.1), (3, True, 0.01), (3, False, 0.0025)])
def test_nothing_is_bet_on_what_rounding_may_have_made(digits: int, as_mass: bool, least: float) -> None:
    generator, lists, rows = np.random.default_rng(2), Lists(Reported()), []
    for mass in generator.dirichlet(np.full(30, 0.2), size=40):
        order = np.argsort(-mass)[:20]
        with np.errstate(divide="ignore"):
            logs = (
                np.maximum(np.log(np.round(mass[order], digits)), -1e4)
                if as_mass
                else np.round(np.log(mass[order]), digits)
            )
        rows.append(Emitted(int(order[0]), float(logs[0]), order, logs, as_mass=as_mass))
    lists.learn([Answer(tuple(rows), "")])
    assert lists.least == pytest.approx(least, rel=0.2)
    for row in rows:
        law = lists.law(row)
        if law is not None:
            assert 1 - law[1].sum() >= lists.least * (1 - 1e-9)
            assert not as_mass or law[1].min() >= lists.least
    toy = np.array([0.5, 0.3, 0.2])
    exact = Lists(Reported())
    exact.learn([Answer(tuple(emitted(i % 3, toy, as_mass=as_mass) for i in range(40)), "")])
    assert exact.error == 0.0  # a law of few digits is no rounded one
