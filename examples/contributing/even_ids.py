"""A bet of the audit, for ot_draft/verify/server/even_ids.py."""

from ot_draft.verify.server.bets import Bet, Score
from ot_draft.verify.server.blocks import Tokens

EVEN = Bet("even id", "calibration", "a token of even id")


def even_ids(tokens: Tokens) -> Score:
    """1 for tokens of even id (T, N), and one number for the rest, of whose tokens only the mass is known."""
    return (tokens.ids % 2 == 0).astype(float), 0.5
