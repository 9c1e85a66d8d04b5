"""Laws that are reported in 16 bits or in few decimals: right tokens are never called biased, large biases still are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from slow import slow

from ot_draft.arrays import Array
from ot_draft.verify.server import Audit, CannotAudit, Token
from ot_draft.verify.server.rounding import Rounding, log_error, relative_of

from .chains import inverse, softmax


def bfloat16(p: Array) -> Array:
    return ((p.astype(np.float32).view(np.uint32) + 0x8000) & 0xFFFF0000).view(np.float32)


PRINTS: dict[str, Callable[[Array], Array]] = {
    "float16": lambda p: p.astype(np.float16),
    "float16 in float64": lambda p: p.astype(np.float16).astype(np.float64),
    "bfloat16": bfloat16,
    "float32": lambda p: p.astype(np.float32),
    "2 decimals": lambda p: np.round(p, 2),
    "3 decimals": lambda p: np.round(p, 3),
    "3 decimals in float32": lambda p: np.round(p, 3).astype(np.float32),
    "6 decimals": lambda p: np.round(p, 6),
}


def contexts(n: int, generator: np.random.Generator) -> Array:
    """Thirty laws, sharp and flat."""
    return softmax(generator.uniform(1, 5, (30, 1)) * generator.normal(size=(30, n)))


def audited(p: Array, drawn: Array, reported: Array, tokens: int, listed: int, generator: np.random.Generator) -> Audit:
    """Tokens of random contexts, drawn from `drawn`; laws whole, or the first so many of `reported`."""
    audit, at = Audit(), generator.integers(len(p), size=tokens)
    token = inverse(drawn[at], generator.random(tokens))
    order = np.argsort(-p, axis=1, kind="stable")[:, :listed]
    for x, row in zip(token.tolist(), at.tolist(), strict=True):
        law, ids = reported[row], order[row]
        try:
            audit.add(Token.of_top(x, ids, law[ids], float(law[x]))) if listed else audit.add(Token.of_law(x, law))
        except CannotAudit as error:
            audit.leave_out(str(error), "token")
    return audit


@pytest.mark.parametrize(("n", "listed"), [(2, 0), (30, 0), (30, 20), slow(2, 20), slow(2000, 0), slow(2000, 20)])
@pytest.mark.parametrize("name", PRINTS)
def test_right_tokens_under_rounded_laws_are_not_biased(name: str, n: int, listed: int) -> None:
    generator = np.random.default_rng(7)
    p = contexts(n, generator)
    audit = audited(p, p, PRINTS[name](p), 3000, min(listed, n), generator)
    assert not audit.biased, audit.report()
    assert audit.log_e_value < 5


@pytest.mark.parametrize("listed", [0, 20])
@pytest.mark.parametrize("name", [name for name in PRINTS if name != "2 decimals"])
def test_a_liar_under_rounded_laws_is_found(name: str, listed: int) -> None:
    """A fifth of the tokens are the likeliest: a total variation of about .17."""
    generator = np.random.default_rng(8)
    p = contexts(30, generator)
    drawn = 0.8 * p + 0.2 * np.eye(30)[p.argmax(1)]
    assert audited(p, drawn, PRINTS[name](p), 2000, listed, generator).biased


def test_the_slack_is_above_the_distance_that_rounding_makes() -> None:
    """Against the distance itself, after division by the sum, or with the rest as one token."""
    generator = np.random.default_rng(1)
    for n in (2, 5, 30, 60):
        p = -np.sort(-generator.dirichlet(np.full(n, 0.3), size=200), axis=1)
        for name in ("float16", "bfloat16", "2 decimals", "3 decimals"):
            r = PRINTS[name](p).astype(float)
            decimals = np.full(200, int(name[0]) if name[0] in "23" else 99)
            total, whole, size = r.sum(1), np.ones(200, dtype=bool), np.full(200, n)
            rounding = Rounding(decimals=int(decimals[0]))
            slack, nothing = rounding.read(r / total[:, None], 0 * total, total, size, whole, relative_of(r), decimals)
            distance = np.abs(p - r / total[:, None]).sum(1) / 2
            assert np.all(distance <= slack + 1e-12) and np.all((p * (r == 0)).sum(1) <= nothing)
            order = np.argsort(-r, axis=1)[:, : n // 2 + 1]
            top, true = (np.take_along_axis(x, order, axis=1) for x in (r, p))
            divided = top / np.maximum(top.sum(1, keepdims=True), 1)
            rest, true_rest = np.maximum(1 - divided.sum(1), 0), 1 - true.sum(1)
            slack, nothing = rounding.read(
                divided, rest, top.sum(1), 0 * size + order.shape[1], ~whole, relative_of(r), decimals
            )
            distance = (np.abs(divided - true).sum(1) + np.abs(rest - true_rest)) / 2
            assert np.all(distance <= slack + 1e-12) and np.all(true_rest <= nothing + slack + rest)


def test_hand_written_laws_are_exact() -> None:
    """[.5, .3, .2] has few decimals, and its sum says that nothing was rounded away."""
    audit, generator = Audit(), np.random.default_rng(0)
    for token in generator.choice(3, p=[0.4, 0.4, 0.2], size=4000):
        audit.add(Token.of_law(token, np.array([0.5, 0.3, 0.2], dtype=np.float32)))
    assert audit.biased


def test_rounding_that_nothing_shows_can_be_stated() -> None:
    """Two tokens of .996 and .004 in two decimals have a sum of 1: the second is reported as if it could never come."""
    tokens = np.random.default_rng(0).random(3000) < 0.004
    said, unsaid = Audit(rounding=0.005), Audit()
    for token in tokens.astype(int).tolist():
        for audit in (said, unsaid):
            audit.add(Token.of_law(token, [1.0, 0.0]))
    assert unsaid.biased and not said.biased
    with pytest.raises(CannotAudit, match="rounding must be an absolute error"):
        Audit(rounding=0.5)


def test_logarithms_of_few_digits_have_an_error() -> None:
    logs = np.log(np.random.default_rng(0).dirichlet(np.ones(20)))
    assert log_error(logs) == log_error(logs.astype(np.float32)) == 0
    assert log_error(np.round(logs, 2)) == pytest.approx(0.005, rel=0.01)
    half = logs.astype(np.float16).astype(float)
    assert np.abs(np.exp(logs - half) - 1).max() < log_error(half) < 0.01


@pytest.mark.parametrize("looked_at", [slow(False), True])
@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize(("listed", "digits"), [slow(3, 4), (3, 3), slow(5, 3), (1, 3)])
def test_a_zero_in_few_decimals_is_no_evidence(listed: int, digits: int, every: int, looked_at: bool) -> None:
    """Short lists, asked about after every token, alone or mixed with exact ones: a light token is reported as 0."""
    generator, audit = np.random.default_rng(5), Audit()
    p = softmax(generator.uniform(1, 3, (50, 1)) * generator.normal(size=(50, 2000)))
    at = generator.integers(50, size=1500)
    token, tops = inverse(p[at], generator.random(1500)), np.argsort(-p, axis=1)[:, :listed]
    for i, (x, law, ids) in enumerate(zip(token.tolist(), p[at], tops[at], strict=True)):
        mass, own = (
            (law[ids], float(law[x])) if i % every else (np.round(law[ids], digits), round(float(law[x]), digits))
        )
        audit.add(Token.of_top(x, ids, mass, own))
        assert not looked_at or i % 7 or not audit.biased
    assert audit.log_e_value < 5


@pytest.mark.parametrize("digits", [1, slow(2), 3])
@pytest.mark.parametrize("listed", [1, slow(3), 20])
def test_a_zero_beside_logarithms_is_no_evidence(listed: int, digits: int) -> None:
    """The logarithms of a list have few digits, and so has the emitted token's own probability."""
    generator, audit = np.random.default_rng(6), Audit()
    p = softmax(2 * generator.normal(size=(50, 5000)))
    at, tops = generator.integers(50, size=1500), np.argsort(-p, axis=1)[:, :listed]
    for x, law, ids in zip(inverse(p[at], generator.random(1500)).tolist(), p[at], tops[at], strict=True):
        logs = np.round(np.log(law[ids]), digits)
        audit.add(Token.of_top(x, ids, np.exp(logs), round(float(law[x]), digits), error=log_error(logs)))
    assert not audit.biased and audit.log_e_value < 5


def test_reports_that_are_too_rough_decide_nothing() -> None:
    generator, audit = np.random.default_rng(8), Audit()
    for _ in range(300):
        law = generator.dirichlet(np.ones(60))
        audit.add(Token.of_law(int(generator.choice(60, p=law)), np.round(law, 2)))
    assert "too rough" in audit.report().evidence.reason
