"""The report on a server, two servers or a log, and its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..e_values import e_value_text
from ..outcome import Outcome, ServerEvidence, Status
from ..report import Report

SAME_SERVERS = "equal_distributions"  # the check of two servers
ServerOutcome = Outcome[ServerEvidence]


@dataclass(frozen=True)
class ServerReport(Report[ServerEvidence]):
    """Outcomes of the tests of a server, two servers or a log.

    The first outcome is that of the test of all tokens. Further outcomes are a comparison with a reference model, or the
    settings of two servers. `str(report)` gives the first one as text, `report.word` as "biased", "no bias found" or
    "cannot be decided".

    Attributes
    ----------
    subject : str
        Address of the server, or name of the log.
    outcomes : tuple of Outcome
        Outcomes of the tests, with `ServerEvidence`.
    tried : mapping
        Facts about the requests and the answers, as plain data.
    false_alarm : float, default=0.0
        Bound on the probability that correct tokens are ever called biased.

    See Also
    --------
    ot_draft.verify.server.Audit : Makes the report.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft.verify.server import Audit, Token
    >>> audit = Audit()
    >>> audit.add(*Token.of_arrays(np.zeros(1000, dtype=int), np.full((1000, 2), 0.5)))
    >>> report = audit.report()
    >>> report.status.value, report.evidence.decided_at
    ('failed', 512)
    """

    @property
    def evidence(self) -> ServerEvidence:
        """Evidence of the test of all tokens."""
        return self.outcomes[0].evidence

    @property
    def word(self) -> str:
        """The status of the test of all tokens in the words of the text."""
        test = self.outcomes[0]
        two = test.check == SAME_SERVERS
        return {
            Status.PASSED: "no difference found" if two else "no bias found",
            Status.FAILED: "the servers differ" if two else "biased",
            Status.UNDECIDED: "cannot be decided",
        }[test.status]

    @property
    def exit_status(self) -> int:
        """1 if a test failed, 2 if none failed and one is undecided, else 0."""
        return {Status.FAILED: 1, Status.PASSED: 0}.get(self.status, 2)

    def __str__(self) -> str:
        test, evidence = self.outcomes[0], self.evidence
        if test.status == Status.UNDECIDED:
            return f"{self.word}: {evidence.reason}"
        if test.status == Status.FAILED:
            return (
                f"{self.word}: e-value {e_value_text(evidence.log_largest)} (level {self.false_alarm:g}), decided after "
                f"{evidence.decided_at:,} tokens; {evidence.reason}"
            )
        said = f"{self.word} in {evidence.tokens:,} tokens: {test.claim}; e-value {e_value_text(evidence.log_e_value)}"
        return ". ".join([said, *_limits(evidence)])

    @property
    def e_value_meaning(self) -> str:
        """One sentence on what an e-value is."""
        null = "servers have the same distribution" if self.outcomes[0].check == SAME_SERVERS else "server is unbiased"
        return (
            f"e-value: evidence against the hypothesis that the {null}; at least 1/alpha = {1 / self.false_alarm:,.0f} rejects it at "
            f"level alpha = {self.false_alarm:g}"
        )

    def facts(self) -> Iterator[tuple[str, str]]:
        """Name and text of what it was tried with, of what was left out, and of remarks."""
        for name, value in self.tried.items():
            if name == "tolerance":
                yield name, f"the reported probabilities may have a relative error of {value} (--tolerance)"
                continue
            yield from ((name, str(each)) for each in (value if isinstance(value, list) else [value]))
        yield from (("left out", f"{reason} ({times:,} times)") for times, reason in self.evidence.left_out[:5])
        yield from (("remark", remark) for remark in self.evidence.remarks)


def _limits(evidence: ServerEvidence, min_reported: float = 0.001) -> Iterator[str]:
    """Sentences on what the test did not see.

    min_reported: probability beyond the lists, and error by rounding, from which they are mentioned.
    """
    if evidence.reason:
        yield evidence.reason
    if evidence.unlisted > min_reported:
        yield (
            f"Tokens with {evidence.unlisted:.1%} of the probability are not distinguished: they are not in the lists, or not among the "
            "most probable ones that are tested"
        )
    if evidence.rounding > min_reported:
        yield (
            f"The distributions have an error of up to {evidence.rounding:.2g}, by rounding or by unlisted tokens at another temperature; "
            "no number of tokens brings the bound below it"
        )
    if evidence.skipped:
        yield f"{evidence.skipped:,} further tokens are left out, because their distribution cannot be known"
    lost = evidence.charged + evidence.unreadable
    if lost and evidence.distance is not None:
        yield (
            f"Every bet is charged its largest loss for {lost:,} tokens that are lost or ambiguous, possibly because of their values: a "
            f"bias of less than about {evidence.distance:.2g} in an event of probability 1/2 may be missed"
        )
    if evidence.more_tokens is not None:
        yield f"There is weak evidence of a bias: about {evidence.more_tokens:,} more tokens would decide"
    if evidence.bets and not any(bet.tokens for bet in evidence.bets if bet.family == "draft distribution"):
        yield (
            "No draft distributions are known: with them (draft_probs in a log, --draft for a server) wrong acceptance and reused random "
            "numbers take a third of the tokens or less"
        )
