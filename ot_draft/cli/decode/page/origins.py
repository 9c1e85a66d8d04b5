"""How every token of a decoded text came about: accepted from the draft, corrected, bonus, or plain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ot_draft as ot

from ....decoding import Drafting, Step

ACCEPTED, CORRECTED, BONUS, PLAIN = "accepted", "corrected", "bonus", "plain"
MEANING = {
    ACCEPTED: "drafted, and accepted",
    CORRECTED: "in the place of refused drafts",
    BONUS: "one more after a whole path",
    PLAIN: "from the target alone",
}
COLOURS = {ACCEPTED: "#009E73", CORRECTED: "#D55E00", BONUS: "#0072B2", PLAIN: "#7F7F7F"}  # Okabe and Ito


@dataclass(frozen=True)
class TokenOrigin:
    """One emitted token. parent: the node after which it stands; node: its own, None if it was not drafted.

    refused: the other drafted nodes that stood there, and whose token is another.
    """

    token: int
    origin: str
    parent: int
    node: int | None
    refused: tuple[int, ...]


def origins(step: Step, row: int, drafting: Drafting) -> list[TokenOrigin]:
    """The tokens that a step adds to a text, in order."""
    shape, drafted = step.shape(row), step.drafted[row].tolist()
    length, nodes = int(step.length[row]), step.nodes[row].tolist()
    tokens = []
    for depth, token in enumerate(step.tokens(row)):
        parent = nodes[depth - 1] if depth else 0
        offered = [child for alive in living(step, row, shape, depth) for child in shape.children(alive)]
        offered = [child for child in offered if drafted[child - 1] >= 0]
        refused = tuple(child for child in offered if drafted[child - 1] != token)
        taken = nodes[depth] if depth < length else None
        kind = ACCEPTED if taken is not None else PLAIN if not drafting.tree.budget else CORRECTED if offered else BONUS
        tokens.append(TokenOrigin(token, kind, parent, taken, refused))
    return tokens


def living(step: Step, row: int, shape: ot.paths.TreeShape, depth: int) -> list[int]:
    """The nodes of a depth that hold the tokens chosen so far: equal drafts live together."""
    chosen, drafted = step.chosen[row].tolist(), step.drafted[row].tolist()
    alive = [0]
    for level in range(depth):
        alive = [child for node in alive for child in shape.children(node) if drafted[child - 1] == chosen[level]]
    return alive


class Pieces:
    """The text that each token adds to those before it; a token that ends within a character adds nothing."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._said = 0

    def add(self, token: int) -> str:
        self._tokens.append(token)
        whole = self._decode(self._tokens)
        if whole.endswith("\ufffd"):  # the sign for an unfinished character
            return ""
        piece = whole[self._said :]
        self._said = len(whole)
        return piece
