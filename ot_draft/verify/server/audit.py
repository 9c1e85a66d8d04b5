"""`Audit`: emitted tokens go in with their reported distributions, a report comes out, after any number of tokens."""

from __future__ import annotations

from dataclasses import replace
from math import inf, log

import numpy as np

from ...arrays import Array
from ...errors import CannotAudit
from .bets import Bets
from .blocks import Tokens, stack
from .bound import Bound
from .evidence import DecisionLimits, LeftOut, outcome_of
from .past import ListLengths, Order, Past
from .records import Token
from .report import ServerReport
from .rounding import NOTHING, Rounding
from .wealth import Learner, Wealth, WealthSettings, in_context


class Audit:
    """Test whether emitted tokens follow the distributions reported for them.

    The test is sequential: bets on the tokens give an e-value, and the report may be made after every token. Memory is constant.

    Parameters
    ----------
    level : float, default=1e-6
        Bound on the probability that correct tokens are ever called biased, in (0, 1).
    confidence : float, default=0.999
        Confidence level of the bound on the remaining bias, in (0, 1).
    tolerance : float, default=1e-4
        Relative error that the reported probabilities may have, in [0, 0.1).
    rounding : float, default=0.0
        Absolute error that each reported probability may have, in [0, 0.1). Rounding that the numbers show themselves is added:
        16-bit floats, and decimals whose sum is not 1.
    temperature : float, default=1.0
        Sampling temperature, above 0, if the reported distributions are those at temperature 1. The sampled ones are computed. The
        unlisted tokens leave an error, and a distribution with an error above 0.25 is skipped.

    Raises
    ------
    CannotAudit
        If a parameter is outside its range.

    See Also
    --------
    ot_draft.verify.server.ServerReport : The result.
    ot_draft.verify.server.read_log : Reads tokens from a log.

    Notes
    -----
    `add` takes the tokens of each sequence in their order, each token once. Tokens that come out of order, as
    their positions show, are not tested. They count as unreadable, and reduce the e-value.

    References
    ----------
    .. [1] Ville, "Étude critique de la notion de collectif", 1939.
    .. [2] Shafer, "Testing by betting", Journal of the Royal Statistical Society A, 2021.
    .. [3] Fan, Grama, Liu, "Exponential inequalities for martingales with applications", Electronic Journal of Probability, 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft.verify.server import Audit, Token
    >>> p = np.array([0.5, 0.3, 0.2])
    >>> generator = np.random.default_rng(0)
    >>> audit = Audit()
    >>> audit.add(*Token.of_arrays(generator.choice(3, size=1000, p=p), np.tile(p, (1000, 1))))
    >>> audit.report().word
    'no bias found'
    >>> audit.add(*Token.of_arrays(np.zeros(1000, dtype=int), np.tile(p, (1000, 1))))
    >>> audit.report().word
    'biased'
    """

    def __init__(
        self, level: float = 1e-6, confidence: float = 0.999, tolerance: float = 1e-4, rounding: float = 0.0,
        temperature: float = 1.0
    ) -> None:  # fmt: skip
        for name, value in (("level", level), ("confidence", confidence)):
            if not 0 < value < 1:
                raise CannotAudit(f"{name} must be between 0 and 1, got {value}. Pass such a number.")
        for name, value, kind in (("tolerance", tolerance, "a relative"), ("rounding", rounding, "an absolute")):
            if not 0 <= value < 0.1:
                raise CannotAudit(f"{name} must be {kind} error from 0 to below 0.1, got {value}. Pass such a number.")
        if not 0 < temperature < inf:
            raise CannotAudit(
                f"temperature must be above 0 and finite, got {temperature}. Pass the sampling temperature."
            )
        self.level, self.confidence, self.tolerance, self.temperature = level, confidence, tolerance, temperature
        self._bets, self._past, self._bound, self._no_mass = Bets(), Past(), Bound(), 0
        self._stakes = WealthSettings()
        self._wealth = Wealth(tolerance, self._bets.placed, self._past.settings.tilts, self._stakes)
        self._learner = Learner(len(self._bets.scored), self._stakes)
        self._rounding, self._order = Rounding(rounding), Order()
        self._lengths = ListLengths()
        self._rows: list[Token] = []
        self._owed = 0  # number of tokens that every bet will be charged for
        self._largest = 0.0
        self._crossed: int | None = None
        self.skipped, self.charged, self.left_out = 0, 0, LeftOut()
        self.uncharged = 0  # unseen tokens that cost no bet, and count as biased in the bound; set by the caller
        self.undecided = ""  # why no verdict is possible, set by the caller
        self.remarks: tuple[str, ...] = ()  # limits of the result, set by the caller

    def add(self, *tokens: Token) -> None:
        """Add tokens with their distributions, those of each sequence in their order.

        Parameters
        ----------
        *tokens : Token
            Tokens from `Token.of_law`, `Token.of_top`, `Token.of_arrays` or `read_log`.
        """
        for token in tokens:
            self._rows.append(token)
            if len(self._rows) == 512:  # number of tokens whose bets are settled together
                self._flush()

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self._read(stack(rows))
        self._pay()

    def _pay(self) -> None:
        """Charge the bets for what is owed, before the bets of a block."""
        self._wealth.charge(self._owed, self._learner.reach)
        self._owed = 0

    def _read(self, tokens: Tokens) -> None:
        """Settle all bets on a block, then learn from it: every bet depends on earlier blocks only."""
        tokens, doubtful, short = self._lengths.read(self._in_order(tokens))
        self.charge(doubtful)
        self.skip(short)
        self._pay()
        if self.temperature != 1:
            tokens = tokens.at_temperature(self.temperature, self.tolerance, self._rounding.stated)
            known = tokens.relative <= DecisionLimits.max_error
            self.skip(int((~known).sum()))
            tokens = tokens.take(np.flatnonzero(known))
        if not len(tokens):
            return
        seen = self._past.read(tokens)
        slack, nothing = self._rounding.read(tokens.mass, tokens.residual_mass, tokens.total, tokens.size, tokens.whole,
                                             tokens.relative, tokens.decimals)  # fmt: skip
        scored = self._bets.scores(tokens, self._past, seen)
        y_scored, m_scored = scored.outcomes(tokens)
        y, m = (np.hstack(sides) for sides in zip((y_scored, m_scored), self._bets.overlaps(tokens, seen), strict=True))
        self._wealth.settle(y, m, slack)
        combined = self._learner.bet(tokens, scored, m_scored)
        context = in_context(tokens, self._past, seen, self._stakes.reach)
        self._wealth.settle_learned(combined, context, slack, self._learner.reach)
        # An unlisted token counts as one of all unlisted ones: servers write -9999, -100 or -inf as unknown log-probability.
        beyond = np.where(tokens.whole, np.fmin(tokens.own, tokens.residual_mass), tokens.residual_mass)
        own: Array = np.where(tokens.slot >= 0, tokens.at_slot(tokens.mass, 0.0), beyond)
        none = own < NOTHING
        self._wealth.settle_no_mass(none, nothing)
        self._no_mass += int(np.count_nonzero(none))
        self._bound.add(tokens, slack)
        self._past.learn(tokens, seen)
        self._learner.learn(tokens, scored, y_scored, m_scored)
        self._largest = max(self._largest, self._wealth.total)
        if self._crossed is None and self._largest >= -log(self.level):
            self._crossed = self._bound.count

    def _in_order(self, tokens: Tokens) -> Tokens:
        """Return the tokens that can be tested, one sequence after the other, in the order in which the sequences began.

        A distribution depends on the tokens before it. Hence a token that is read twice, or after its successor, does not follow it.
        """
        late, request = self._order.read(tokens.request, tokens.position)
        for row in np.flatnonzero(late).tolist():
            reason = "not after its predecessor in the sequence: log every token once, each sequence in order and with a name of its own"
            self._count_out(reason, f"request {request[row]}, position {tokens.position[row]}")
        tokens = replace(tokens, request=request)
        names = request[np.r_[True, request[1:] != request[:-1]]].tolist()
        if not late.any() and len(set(names)) == len(names):
            return tokens
        rows = np.flatnonzero(~late)
        _, first, text = np.unique(request[rows], return_index=True, return_inverse=True)
        return tokens.take(rows[np.argsort(first[text], kind="stable")])

    def leave_out(self, reason: str, where: str, tokens: int = 1) -> None:
        """Count tokens that cannot be read, for a reason that may depend on them.

        Every bet loses on each of them as much as it can lose at most.

        Parameters
        ----------
        reason : str
            Reason why they cannot be read.
        where : str
            Line or row in a log, or another location.
        tokens : int, default=1
            Number of tokens.
        """
        self._count_out(reason, where, tokens)

    def charge(self, tokens: int, ends: int = 0) -> None:
        """Take from every bet its largest loss, for tokens that are lost or of which it is unknown whether the bet applied to them.

        ends: further tokens that end a sequence, which cost the bet on tokens of no mass only (`consistency.Ends`).
        """
        self.charged += tokens
        self._owed += tokens
        self._wealth.settle_no_mass(np.zeros(ends, dtype=bool), np.ones(ends))

    def _count_out(self, reason: str, where: str, tokens: int = 1) -> None:
        self.left_out.add(reason, where, tokens)
        self._owed += tokens

    def skip(self, tokens: int = 1) -> None:
        """Count tokens that are left out for a reason that does not depend on them."""
        self.skipped += tokens

    @property
    def tokens(self) -> int:
        """Number of tokens added."""
        return self._bound.count + len(self._rows)

    @property
    def log_e_value(self) -> float:
        """Natural logarithm of the e-value after all tokens."""
        self._flush()
        return self._wealth.total

    @property
    def biased(self) -> bool:
        """Whether the e-value has ever reached 1 / level."""
        self._flush()
        return self._crossed is not None

    def report(self, subject: str = "tokens") -> ServerReport:
        """Return the report on the tokens so far.

        Parameters
        ----------
        subject : str, default="tokens"
            Name of the server or log in the report.

        Returns
        -------
        report : ServerReport
            Report with one outcome.
        """
        self._flush()
        outcome = outcome_of(self, self._wealth, self._bound, self._no_mass, self._largest, self._crossed)
        return ServerReport(subject, (outcome,), {"tolerance": self.tolerance}, self.level)
