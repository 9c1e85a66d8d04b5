"""What came out of one check of one subject: the same record for rules, samplers, engines, servers and test vectors.

The fields of an `Outcome` are those of all verifiers; what a single verifier knows is in its `evidence`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from .ranges import Range

Record = dict[str, Any]  # plain data, of JSON's types only


class Status(StrEnum):
    """Outcome of a check, or of a whole report.

    Examples
    --------
    >>> from ot_draft.verify import Status
    >>> Status.UNDECIDED.value
    'not decided'
    """

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "not decided"
    CRASHED = "crashed"
    SKIPPED = "skipped"


@dataclass
class Tried:
    """The problems tried with k drafts: number, those that the rule refused, seconds, and FAILED if the check failed on one."""

    k: int
    cases: int = 0
    refused: int = 0
    seconds: float = 0.0
    status: Status = Status.PASSED


@dataclass(frozen=True, kw_only=True)
class RuleEvidence:
    """Evidence of a property of a selection rule, from exact enumeration.

    Attributes
    ----------
    reason : str
        What the smallest counterexample shows, or why the property was skipped.
    category : str
        The question that the property helps to answer, as in `RuleProperty`.
    cases : int
        Number of problems tried, those on the way to the smallest counterexample included.
    by_k : tuple of Tried
        The same by number of drafts.
    crash : str
        The error that the rule raised, if it was one.
    refused, refusal : int, str
        Number of problems that the rule does not take, and its message.
    only : tuple of int
        Numbers of drafts that were tried where others were left out: the rule refuses them, or one was asked for.
    ranges : mapping of str to Range
        What the rule was called with while the property held, by the kind of array.
    interrupted : bool
        Whether the rule was stopped in the middle of a call.
    expected_failure : str, optional
        Why the property must fail, in a test of pytest.
    """

    reason: str = ""
    category: str = "robust"
    cases: int = 0
    by_k: tuple[Tried, ...] = ()
    crash: str = ""
    refused: int = 0
    refusal: str = ""
    only: tuple[int, ...] = ()
    ranges: Mapping[str, Range] = field(default_factory=dict)
    interrupted: bool = False
    expected_failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class SamplerEvidence:
    """Evidence about a sampler, from calls on one problem or on all of them.

    Attributes
    ----------
    reason : str
        What was seen, or why the check was skipped or not decided.
    label : str
        The problem that a statistical check was made on, or on which another one failed.
    samples : int
        Number of calls.
    e_value, limit : float
        E-value of the sequential test, and the value at which it fails; no limit for checks that are no test.
    p_value : float
        Chi-square, for display.
    distance : float, optional
        Total variation distance that so many samples miss with probability 1e-6 at most; 1.0 if none is detected so surely.
        None for checks that are not about a distribution.
    """

    reason: str = ""
    label: str = ""
    samples: int = 0
    e_value: float = 0.0
    limit: float | None = None
    p_value: float = 1.0
    distance: float | None = None


@dataclass(frozen=True, kw_only=True)
class EngineEvidence:
    """Evidence about an engine, from its completions.

    Attributes
    ----------
    reason : str
        What was seen, or why the row was not tried.
    sent : str
        What was sent.
    p : float
        p-value under the distribution that the completions should follow.
    distance : float, optional
        Total variation distance of every token after the first that would have been missed with probability 1e-6 at most.
    """

    reason: str = ""
    sent: str = ""
    p: float = 1.0
    distance: float | None = None


@dataclass(frozen=True, kw_only=True)
class BetResult:
    """Result of one bet against reported distributions.

    Attributes
    ----------
    name, family, event : str
        Name of the bet, its family, and the event that it bets on.
    tokens : int
        Number of tokens that the bet applies to.
    observed, reported : float
        Observed frequency of the event among these tokens, and its mean reported probability.
    log_e_value : float
        Natural logarithm of the e-value of this bet alone.
    """

    name: str
    family: str
    event: str
    tokens: int
    observed: float
    reported: float
    log_e_value: float


@dataclass(frozen=True, kw_only=True)
class ServerEvidence:
    """Evidence about a server, two servers or a log, from emitted tokens.

    Attributes
    ----------
    reason : str
        What was seen, or why the test is undecided.
    tokens : int
        Number of tokens tested.
    log_e_value, log_largest : float
        Natural logarithm of the e-value after all tokens, and of the largest e-value so far.
    decided_at : int or None
        Number of tokens tested when the e-value reached 1 / false_alarm, if it did.
    bound : float
        Bound on the remaining bias, with probability `confidence`. On each set of tokens in the test, the mean difference between
        true and reported probability, or between the two servers, is smaller. The mean includes unreadable and charged tokens.
    confidence : float
        Confidence level of `bound`.
    distance : float or None
        Smallest bias of an event of probability 1/2, present in every token, that is missed with probability 1e-6 at most,
        after the losses on charged and unreadable tokens. 0.5 if not even the largest bias is found.
    skipped : int
        Number of tokens that were left out for a reason that does not depend on them.
    charged : int
        Number of tokens that were sampled and lost, or of which it is unknown whether a bet applied to them.
        Every bet loses on each of them as much as it can lose at most.
    unreadable : int
        Number of tokens, or of pairs of answers, that were left out for a reason that may depend on them. Every bet loses as
        for `charged`.
    left_out : tuple of (int, str)
        Kinds of reasons of `unreadable`, the most frequent first: number of occurrences, and the first of them.
    observed_bias : float
        Total variation distance between observed frequencies and mean reported probabilities of the tested tokens, for the
        partition of the tokens in which it is largest.
    unlisted : float
        Mean reported probability of the tokens beyond the lists. The audit does not distinguish these tokens.
    rounding : float
        Mean error that rounding may have in the reported distributions, as total variation distance.
    bets : tuple of BetResult
        The bets, in descending order of their e-values.
    more_tokens : int or None
        Estimated number of further tokens until the e-value reaches 1 / false_alarm. None if it did, or if it is 20 at most.
    for_bounds : mapping of str to int
        Estimated total number of tokens at which `bound` reaches each of the values 0.05, 0.01 and 0.001 below it, without those that
        the error of the distributions, or unread tokens, keep out of reach. Empty if the tokens are biased, or if `bound` is 1.
    remarks : tuple of str
        Other explanations of what was seen, and consequences.
    """

    reason: str = ""
    tokens: int = 0
    log_e_value: float = 0.0
    log_largest: float = 0.0
    decided_at: int | None = None
    bound: float = 1.0
    confidence: float = 0.0
    distance: float | None = None
    skipped: int = 0
    charged: int = 0
    unreadable: int = 0
    left_out: tuple[tuple[int, str], ...] = ()
    observed_bias: float = 0.0
    unlisted: float = 0.0
    rounding: float = 0.0
    bets: tuple[BetResult, ...] = ()
    more_tokens: int | None = None
    for_bounds: Mapping[str, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class VectorEvidence:
    """Evidence about a verifier of drafts, from one test vector.

    Attributes
    ----------
    reason : str
        What the verifier emitted instead of what was expected; empty if it passed.
    rule, level : str
        Rule and level of the vector.
    bugs : tuple of str
        Bugs that fail this vector.
    known : bool
        Whether the vector is expected to fail. A failure then does not decide.
    """

    reason: str = ""
    rule: str
    level: str
    bugs: tuple[str, ...] = ()
    known: bool = False


Evidence = RuleEvidence | SamplerEvidence | EngineEvidence | ServerEvidence | VectorEvidence
E_co = TypeVar("E_co", RuleEvidence, SamplerEvidence, EngineEvidence, ServerEvidence, VectorEvidence, covariant=True)


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[E_co]):
    """The outcome of one check.

    Attributes
    ----------
    check : str
        Name of the check: a property, a statistical test, a row, a bet, the id of a vector.
    status : Status, default="passed"
    claim : str
        What is claimed where it passed.
    evidence : Evidence
        What the verifier saw; `evidence.reason` is a sentence.
    decides : bool, default=True
        Whether a failure refutes the subject. False where a rule raised an error, for example.
    counterexample : dict, optional
        A problem on which it failed as plain data, and `code`, Python that shows it.
    seconds : float
        Time of the check.
    """

    check: str
    status: Status = Status.PASSED
    claim: str = ""
    evidence: E_co
    decides: bool = True
    counterexample: Record | None = None
    seconds: float = 0.0

    @property
    def refutes(self) -> bool:
        """Whether it shows that the subject is wrong."""
        return self.status == Status.FAILED and self.decides

    @property
    def code(self) -> str:
        """Python that shows the counterexample, to be pasted and run; empty without one."""
        return str((self.counterexample or {}).get("code", ""))

    @property
    def record(self) -> Record:
        """The fields as plain data."""
        return asdict(self, dict_factory=_plain)


def _plain(fields: Iterable[tuple[str, Any]]) -> Record:
    """Fields with strings in place of enums: what pytest-xdist can carry."""
    return {name: value.value if isinstance(value, StrEnum) else value for name, value in fields}
