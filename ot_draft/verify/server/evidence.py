"""Evidence of an audit from the wealth of its bets, and the tokens that could not be read."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from math import ceil, log
from typing import Protocol

import numpy as np

from ..outcome import BetResult, Outcome, ServerEvidence, Status
from .bound import Bound
from .rounding import NOTHING
from .wealth import Wealth


@dataclass(frozen=True)
class DecisionLimits:
    """Limits within which tokens without evidence of a bias pass, and settings of the report."""

    max_unreadable: float = 0.05  # share of unreadable tokens
    max_unlisted: float = 0.9  # mean probability beyond the lists
    max_error: float = 0.25  # error of the reported distributions, in total variation
    suspicious: float = log(20)  # log e-value from which the number of further tokens is estimated
    bounds: tuple[float, ...] = (0.05, 0.01, 0.001)  # for which a number of tokens is estimated


class LeftOut:
    """Tokens that could not be read: number of occurrences and first location of each kind of reason.

    max_kinds: number of kinds that are counted separately.
    """

    def __init__(self, max_kinds: int = 20) -> None:
        self.tokens = 0
        self._max_kinds = max_kinds
        self._kinds: dict[str, tuple[int, str]] = {}

    def add(self, reason: str, where: str = "", tokens: int = 1) -> None:
        """Count tokens. Reasons that differ only in numbers and quoted words are of one kind."""
        self.tokens += tokens
        kind = re.sub(r"'[^']*'|\"[^\"]*\"|[-+]?\d[\d.,e+-]*|\bnan\b|\binf\b", "...", reason)
        if kind not in self._kinds and len(self._kinds) >= self._max_kinds:
            kind = "another reason"
        count, first = self._kinds.get(kind, (0, f"{where}: {reason}" if where else reason))
        self._kinds[kind] = count + 1, first

    @property
    def reasons(self) -> tuple[tuple[int, str], ...]:
        """Number of occurrences of each kind, the most frequent first, and its first reason."""
        return tuple(sorted(self._kinds.values(), key=lambda kind: -kind[0]))

    def __str__(self) -> str:
        return "; ".join(f"{first} ({count:,} of this kind)" for count, first in self.reasons[:3])


class Judge(Protocol):
    """The part of an `Audit` that its outcome is computed from."""

    level: float
    confidence: float
    tolerance: float
    temperature: float
    skipped: int
    charged: int
    uncharged: int
    left_out: LeftOut
    undecided: str
    remarks: tuple[str, ...]


def outcome_of(
    audit: Judge, wealth: Wealth, bound: Bound, no_mass: int, largest: float, crossed: int | None
) -> Outcome[ServerEvidence]:
    """Return the outcome of an audit.

    no_mass: number of tokens of probability 0. largest: largest log e-value. crossed: number of tokens at which the e-value reached its
    limit, None if it did not.
    """
    limits, tokens, now, without = DecisionLimits(), bound.count, wealth.total, audit.left_out.tokens
    unseen = without + audit.charged
    missing = unseen + audit.uncharged
    most = bound.largest(audit.confidence, audit.tolerance, missing)
    least = (
        audit.tolerance + bound.slack + missing / max(1, tokens + missing)
    )  # of the bound, with any number of tokens
    bets = _bets(wealth, tokens, no_mass)
    undecided = audit.undecided or ("" if crossed is not None else _too_little(audit, bound, limits))
    status = Status.UNDECIDED if undecided else Status.PASSED if crossed is None else Status.FAILED
    strongest = bets[0]
    found = (
        f"strongest evidence: {strongest.event}: {strongest.observed:.2%} observed, {strongest.reported:.2%} reported "
        "(the event may be weighted, and the difference is not the size of the bias)"
    )
    evidence = ServerEvidence(
        reason={Status.UNDECIDED: undecided, Status.FAILED: found}.get(status, ""),
        tokens=tokens,
        log_e_value=now,
        log_largest=largest,
        decided_at=crossed,
        bound=most,
        confidence=audit.confidence,
        distance=wealth.visible(tokens, unseen, audit.level),
        skipped=audit.skipped,
        charged=audit.charged,
        unreadable=without,
        left_out=audit.left_out.reasons,
        observed_bias=bound.seen,
        unlisted=bound.rest,
        rounding=bound.slack,
        bets=bets,
        remarks=audit.remarks,
        more_tokens=ceil(tokens * (-log(audit.level) - now) / now)
        if crossed is None and now > limits.suspicious
        else None,
        for_bounds={
            f"{target:g}": ceil(tokens * ((most - least) / (target - least)) ** 2)
            for target in limits.bounds
            if least < target < most < 1 and crossed is None
        },
    )
    claim = (
        f"observed and reported frequencies differ by less than {most:.2g} on average over all tokens, on each of {bound.events:,} sets of "
        f"ranks, of probabilities and of intervals of the unit interval, with confidence {audit.confidence:.4g} (the total variation "
        "distance has no bound and may be larger, because errors that differ from context to context cancel in these sets)"
    )
    return Outcome(
        check="reported_distributions",
        status=status,
        claim=claim if status == Status.PASSED else "",
        evidence=evidence,
        counterexample=asdict(strongest) if status == Status.FAILED else None,
    )


def _bets(wealth: Wealth, tokens: int, no_mass: int) -> tuple[BetResult, ...]:
    """All bets with their own e-values, in descending order of these."""
    shares = (wealth.came / np.maximum(wealth.tokens, 1), wealth.expected / np.maximum(wealth.tokens, 1))
    numbers = (column.tolist() for column in (wealth.tokens.astype(int), *shares, wealth.bets()))
    rows = [(bet.name, bet.family, bet.event, *row) for bet, *row in zip(wealth.placed, *numbers, strict=True)]
    event = f"a token of probability below {NOTHING:g}"
    rows.append(("no mass", "no mass", event, tokens, no_mass / max(tokens, 1), 0.0, wealth.no_mass))
    names = ("name", "family", "event", "tokens", "observed", "reported", "log_e_value")
    bets = [BetResult(**dict(zip(names, row, strict=True))) for row in rows]
    return tuple(sorted(bets, key=lambda bet: -bet.log_e_value))


def _too_little(audit: Judge, bound: Bound, limits: DecisionLimits) -> str:
    """Why tokens without evidence of a bias do not pass; "" if they do."""
    read, unreadable, skipped = bound.count, audit.left_out.tokens, audit.skipped
    if audit.temperature != 1 and skipped > read:
        return (
            f"the lists omit too much: for {skipped:,} of {skipped + read:,} tokens, the distribution at temperature "
            f"{audit.temperature:g} cannot be computed from raw probabilities within {limits.max_error:.0%}. Log more tokens per position, "
            "or the distribution that is sampled from (vLLM: --logprobs-mode processed_logprobs)"
        )
    if not read + unreadable:
        return "no tokens were read"
    if unreadable > limits.max_unreadable * (read + unreadable):
        return (
            f"{unreadable:,} of {read + unreadable:,} tokens cannot be read, and the reason may depend on the tokens (at most "
            f"{limits.max_unreadable:.0%} may be unreadable): {audit.left_out}"
        )
    if bound.rest > limits.max_unlisted:
        return (
            f"{bound.rest:.1%} of the probability is not in the lists, apart from tokens that may be listed because they were emitted. "
            "Log the 20 most probable tokens at every position"
        )
    return (
        f"the reported probabilities are too rough: off by up to {bound.slack:.2g}"
        if bound.slack > limits.max_error
        else ""
    )
