"""What an audit says: biased or not, what gave it away, how much bias can be left, how many tokens would tell more."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from math import ceil, log
from typing import Any, Protocol

import numpy as np

from .bets import BETS
from .bound import EVENTS, Bound
from .rounding import NOTHING
from .wealth import NO_MASS, Wealth

SUSPICIOUS = log(20)  # an e-value of which one says how many tokens would decide
TARGETS = (0.05, 0.01, 0.001)  # bounds for which the number of tokens is told
ROUGHEST = 0.25  # mean error of the reported laws above which nothing is decided
REPORT_THRESHOLD = 0.001  # mass of unnamed tokens, and error of the laws, from which on a sentence tells them
UNNAMED = 0.9  # share of the mass beyond the lists above which nothing is decided
UNREADABLE = 0.05  # share of tokens left out above which nothing is decided
KINDS = 20  # of reasons that are told apart
SHOWN = 3  # of them in a sentence
EVEN = "an event of probability 1/2"
SMALL = 4.0  # powers of ten up to which a number is written out


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
        return "; ".join(f"{first} ({count:,} of this kind)" for count, first in self.reasons[:SHOWN])


class Judge(Protocol):
    """The part of an `Audit` that a verdict is read from."""

    level: float
    confidence: float
    tolerance: float
    skipped: int
    charged: int
    left_out: LeftOut
    undecided: str


@dataclass(frozen=True)
class Finding:
    """One bet: how often its event came, how often the laws said, shares of the tokens it applies to, and its own e-value."""

    name: str
    family: str
    event: str
    tokens: int
    came: float
    expected: float
    log_e_value: float


@dataclass(frozen=True)
class Verdict:
    """Result of an audit.

    `str(verdict)` gives it as text, `verdict.word` as "biased", "no bias found" or "cannot be decided".

    Attributes
    ----------
    tokens : int
        Number of tokens tested.
    skipped : int
        Number of tokens that were left out for a reason that does not depend on them.
    charged : int
        Number of tokens that were sampled and lost, or of which it is unknown whether a bet applied to them.
        Every bet loses on each of them as much as it can lose at most.
    visible : float
        Smallest bias of an event of probability 1/2, present in every token, that is missed with probability 1e-6 at most,
        after the losses on charged and unreadable tokens. 0.5 if not even the largest bias is found.
    unreadable : int
        Number of tokens that were left out for a reason that may depend on them. Every bet loses as for `charged`.
    left_out : str
        The most frequent reasons, with the first occurrence of each.
    undecided : str
        Reason why the result is "cannot be decided"; empty if it is decided.
    biased : bool
        Whether the e-value has reached 1 / level.
    decided_at : int or None
        Number of tokens tested when the e-value reached 1 / level, if it did.
    level : float
        Bound on the probability that correct tokens are ever called biased.
    log_e_value, log_largest : float
        Natural logarithm of the e-value after all tokens, and of the largest e-value so far.
    bound : float
        Bound on the remaining bias, with probability `confidence`. On each set of tokens in the test, the mean difference between
        true and reported probability is smaller. The mean includes unreadable and charged tokens.
    confidence : float
        Confidence level of `bound`.
    seen : float
        Total variation distance between observed frequencies and mean reported probabilities of the tested tokens, for the
        partition of the tokens in which it is largest.
    unnamed : float
        Mean reported probability of the tokens beyond the lists. The audit does not distinguish these tokens.
    rounding : float
        Mean error that rounding may have in the reported distributions, as total variation distance.
    findings : tuple of Finding
        The bets, in descending order of their e-values.
    more : int or None
        Estimated number of further tokens until the result is "biased". None if it is already, or if the e-value is 20 at most.
    for_bounds : dict of str to int
        Estimated total number of tokens at which `bound` reaches each of the values 0.05, 0.01 and 0.001 below it.
        Empty if the tokens are biased, or if `bound` is 1.

    See Also
    --------
    Audit : Makes the verdict.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft.verify.server import Audit, Token
    >>> audit = Audit()
    >>> audit.add(*Token.of_arrays(np.zeros(1000, dtype=int), np.full((1000, 2), 0.5)))
    >>> verdict = audit.verdict()
    >>> verdict.biased, verdict.decided_at
    (True, 512)
    """

    tokens: int
    skipped: int
    charged: int
    visible: float
    unreadable: int
    left_out: str
    undecided: str
    biased: bool
    decided_at: int | None
    level: float
    log_e_value: float
    log_largest: float
    bound: float
    confidence: float
    seen: float
    unnamed: float
    rounding: float
    findings: tuple[Finding, ...]
    more: int | None
    for_bounds: dict[str, int]

    @classmethod
    def of(
        cls, audit: Judge, wealth: Wealth, bound: Bound, no_mass: int, largest: float, crossed: int | None
    ) -> Verdict:
        """Verdict on what an audit has read; `no_mass` tokens had probability 0."""
        tokens, now, without = bound.count, wealth.total, audit.left_out.tokens
        most = bound.largest(audit.confidence, audit.tolerance)
        unseen = without + audit.charged
        most = (most * tokens + unseen) / (tokens + unseen) if tokens else most
        shares = (wealth.came / np.maximum(wealth.tokens, 1), wealth.expected / np.maximum(wealth.tokens, 1))
        numbers = (column.tolist() for column in (wealth.tokens.astype(int), *shares, wealth.bets()))
        findings = [Finding(bet.name, bet.family, bet.event, *row) for bet, *row in zip(BETS, *numbers, strict=True)]
        event = f"a token of probability below {NOTHING:g}"
        none = Finding(NO_MASS, NO_MASS, event, tokens, no_mass / max(tokens, 1), 0.0, wealth.no_mass)
        findings = sorted([*findings, none], key=lambda finding: -finding.log_e_value)
        need = -log(audit.level)
        more = ceil(tokens * (need - now) / now) if crossed is None and now > SUSPICIOUS else None
        for_bounds = {
            f"{target:g}": ceil(tokens * (most / target) ** 2)
            for target in TARGETS
            if target < most < 1 and crossed is None
        }
        undecided = audit.undecided or ("" if crossed is not None else _too_little(tokens, audit.left_out, bound))
        visible = wealth.visible(tokens, unseen, audit.level)
        return cls(tokens, audit.skipped, audit.charged, visible, without, str(audit.left_out), undecided, crossed is not None, crossed,
                   audit.level, now, largest, most, audit.confidence, bound.seen, bound.rest, bound.slack,
                   tuple(findings), more, for_bounds)  # fmt: skip

    def __str__(self) -> str:
        if self.undecided:
            return f"cannot be decided: {self.undecided}"
        if self.biased:
            strongest = self.findings[0]
            return (
                f"biased: e-value {e_value(self.log_largest)} (level {self.level:g}), decided after {self.decided_at:,} tokens. "
                f"What gave it away: {strongest.event}: {strongest.came:.2%} came, {strongest.expected:.2%} were reported"
            )
        said = (
            f"no bias found in {self.tokens:,} tokens: on {EVENTS:,} sets of ranks, of probabilities, of parts of the unit interval, what "
            f"came differs from what was reported by less than {self.bound:.2g}, on average over all tokens, with {self.confidence:.4g} "
            f"confidence (no bound for a bias whose sign changes from context to context); e-value {e_value(self.log_e_value)}"
        )
        if self.unnamed > REPORT_THRESHOLD:
            said += f". Beyond the listed tokens lie {self.unnamed:.1%} of the mass: there nothing was looked at"
        if self.rounding > REPORT_THRESHOLD:
            said += f". The reported laws are rounded, and off by up to {self.rounding:.2g}"
        if self.skipped:
            said += f". {self.skipped:,} tokens more were left out, since their law cannot be known"
        if paid := self.charged + self.unreadable:
            said += (
                f". Every bet paid for {paid:,} tokens that were lost or not told from others, which may be for what they were: a bias of "
                f"less than about {self.visible:.2g} in {EVEN} might not have been seen"
            )
        if self.more is not None:
            said += f". It hints at a bias: about {self.more:,} tokens more would decide"
        return said

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {"verdict": self.word, **asdict(self), "text": str(self)}

    @property
    def detectable_bias(self) -> dict[str, float]:
        """`visible`, by the event that it is about: see `otd.detectable_bias`."""
        return {EVEN: self.visible}

    @property
    def word(self) -> str:
        """Biased, no bias found, or cannot be decided."""
        return "cannot be decided" if self.undecided else "biased" if self.biased else "no bias found"


def _too_little(read: int, left_out: LeftOut, bound: Bound) -> str:
    """Why what was read cannot be called right: over UNREADABLE of all tokens were left out, or the reports are too rough or too short."""
    every = read + left_out.tokens
    if not every:
        return "no tokens were read"
    if left_out.tokens <= UNREADABLE * every:
        if bound.rest > UNNAMED:
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


def e_value(logarithm: float) -> str:
    """e to this power in two digits, as a power of ten from SMALL on."""
    powers = logarithm / log(10)
    return f"{10**powers:.2g}" if abs(powers) < SMALL else f"10^{powers:.0f}"
