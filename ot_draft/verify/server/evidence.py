"""Evidence of an audit from the wealth of its bets, and the tokens that could not be read."""

from __future__ import annotations

import re
from dataclasses import asdict
from math import ceil, log
from typing import Any, Protocol

import numpy as np

from ..outcome import BetResult, Outcome, ServerEvidence, Status
from .bets import BETS
from .bound import EVENTS, Bound
from .rounding import NOTHING
from .wealth import NO_MASS, Wealth

FOLLOWS_REPORTS = "reported_distributions"  # the check of an audit
SUSPICIOUS = log(20)  # log e-value from which the number of further tokens is estimated
TARGETS = (0.05, 0.01, 0.001)  # bounds for which a number of tokens is estimated
ROUGHEST = 0.25  # max. mean error of the reported distributions for a decision
UNLISTED = 0.9  # max. mean probability beyond the lists for a decision
UNREADABLE = 0.05  # max. share of unreadable tokens for a decision
KINDS = 20  # of reasons that are counted apart
SHOWN = 3  # reasons in a sentence


class LeftOut:
    """Tokens that could not be read: how many for each kind of reason, and where the first of each stood."""

    def __init__(self) -> None:
        self.tokens = 0
        self.kinds: dict[str, list[Any]] = {}

    def add(self, reason: str, where: str = "", tokens: int = 1) -> None:
        """Count these. Reasons that differ in numbers and quoted words alone are of one kind."""
        self.tokens += tokens
        kind = re.sub(r"'[^']*'|\"[^\"]*\"|[-+]?\d[\d.,e+-]*|\bnan\b|\binf\b", "...", reason)
        if kind not in self.kinds and len(self.kinds) >= KINDS:
            kind = "another reason"
        self.kinds.setdefault(kind, [0, f"{where}: {reason}" if where else reason])[0] += 1

    @property
    def reasons(self) -> tuple[tuple[int, str], ...]:
        """Number of each kind, the most frequent first, and the first of them."""
        return tuple(sorted(((count, first) for count, first in self.kinds.values()), key=lambda kind: -kind[0]))

    def __str__(self) -> str:
        return reasons_text(self.reasons)


def reasons_text(reasons: tuple[tuple[int, str], ...]) -> str:
    """The most frequent reasons in one sentence."""
    return "; ".join(f"{first} ({count:,} of this kind)" for count, first in reasons[:SHOWN])


class Judge(Protocol):
    """The part of an `Audit` that its outcome is computed from."""

    level: float
    confidence: float
    tolerance: float
    temperature: float
    skipped: int
    charged: int
    left_out: LeftOut
    undecided: str
    remarks: tuple[str, ...]


def outcome_of(
    audit: Judge, wealth: Wealth, bound: Bound, no_mass: int, largest: float, crossed: int | None
) -> Outcome[ServerEvidence]:
    """Return the outcome of an audit in which `no_mass` tokens had no mass, and the e-value reached its limit at `crossed`."""
    tokens, now, without = bound.count, wealth.total, audit.left_out.tokens
    unseen = without + audit.charged
    most = bound.largest(audit.confidence, audit.tolerance, unseen)
    bets = _bets(wealth, tokens, no_mass)
    undecided = audit.undecided or ("" if crossed is not None else _too_little(audit, bound))
    status = Status.UNDECIDED if undecided else Status.PASSED if crossed is None else Status.FAILED
    strongest = bets[0]
    found = (
        f"strongest evidence: {strongest.event}: {strongest.observed:.2%} observed, {strongest.reported:.2%} reported"
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
        more_tokens=ceil(tokens * (-log(audit.level) - now) / now) if crossed is None and now > SUSPICIOUS else None,
        for_bounds={
            f"{target:g}": ceil(tokens * (most / target) ** 2)
            for target in TARGETS
            if target < most < 1 and crossed is None
        },
    )
    claim = (
        f"observed and reported frequencies differ by less than {most:.2g} on average over all tokens, on each of {EVENTS:,} sets of "
        f"ranks, of probabilities and of intervals of the unit interval, with confidence {audit.confidence:.4g} (no bound for a bias whose "
        "sign changes from context to context)"
    )
    return Outcome(
        check=FOLLOWS_REPORTS,
        status=status,
        claim=claim if status == Status.PASSED else "",
        evidence=evidence,
        counterexample=asdict(strongest) if status == Status.FAILED else None,
    )


def _bets(wealth: Wealth, tokens: int, no_mass: int) -> tuple[BetResult, ...]:
    """All bets with their own e-values, in descending order of these."""
    shares = (wealth.came / np.maximum(wealth.tokens, 1), wealth.expected / np.maximum(wealth.tokens, 1))
    numbers = (column.tolist() for column in (wealth.tokens.astype(int), *shares, wealth.bets()))
    rows = [(bet.name, bet.family, bet.event, *row) for bet, *row in zip(BETS, *numbers, strict=True)]
    event = f"a token of probability below {NOTHING:g}"
    rows.append((NO_MASS, NO_MASS, event, tokens, no_mass / max(tokens, 1), 0.0, wealth.no_mass))
    names = ("name", "family", "event", "tokens", "observed", "reported", "log_e_value")
    bets = [BetResult(**dict(zip(names, row, strict=True))) for row in rows]
    return tuple(sorted(bets, key=lambda bet: -bet.log_e_value))


def _too_little(audit: Judge, bound: Bound) -> str:
    """Why what was read cannot be called right: over UNREADABLE of all tokens were left out, or the reports are too rough or too short."""
    left_out = audit.left_out
    every = bound.count + left_out.tokens
    if audit.temperature != 1 and audit.skipped > bound.count:
        return (
            f"the lists omit too much: for {audit.skipped:,} of {audit.skipped + bound.count:,} tokens, the distribution at temperature "
            f"{audit.temperature:g} cannot be computed from raw probabilities within {ROUGHEST:.0%}. Log more tokens per position, or the "
            "distribution that is sampled from (vLLM: --logprobs-mode processed_logprobs)"
        )
    if not every:
        return "no tokens were read"
    if left_out.tokens <= UNREADABLE * every:
        if bound.rest > UNLISTED:
            return (
                f"{bound.rest:.1%} of the probability is not in the lists, apart from tokens that may be listed because they were emitted. "
                "Log the 20 most probable tokens at every position"
            )
        return (
            f"the reported probabilities are too rough: off by up to {bound.slack:.2g}"
            if bound.slack > ROUGHEST
            else ""
        )
    return (
        f"{left_out.tokens:,} of {every:,} tokens cannot be read, and what is left out may depend on the tokens (at most "
        f"{UNREADABLE:.0%} may be): {left_out}"
    )
