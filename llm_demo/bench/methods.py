"""What the bench compares: our path rules on K paths of length L, and what transformers does with the same two models."""

from __future__ import annotations

from dataclasses import dataclass

from ot_draft.cli.decode.methods import Method, method_called, shape_of

GRID = ((1, 4), (8, 4), (1, 8), (8, 8))  # SpecTr's Table 1
ONE_PATH = (("speculativesampling", None), ("block", None))
PATHS = (
    ("recursiverejection", None),
    ("kseq", None),
    ("optimal", None),
    ("joint", None),
    ("optimal", "hybrid:auto"),
    ("joint", "hybrid:auto"),
    ("recursiverejectionwithoutreplacement", None),
)
PLAIN = "autoregressive"
PEER_PLAIN, PEER_ASSISTED = "transformers, plain", "transformers, assisted"


@dataclass(frozen=True)
class Contender:
    """One line of the bench. method: None for a peer, that is, for transformers' own generation."""

    name: str
    K: int
    L: int
    method: Method | None = None

    @property
    def law(self) -> str:
        """Of the drafts."""
        return self.method.law if self.method else ("iid" if self.K else "")


def contenders(grid: tuple[tuple[int, int], ...] = GRID, peers: bool = True) -> list[Contender]:
    """The baseline first, then all rules for every (K, L), then the peers (which draft one path)."""
    found = [Contender(PLAIN, 0, 0, method_called(PLAIN, None, shape_of(1, 1, None)))]
    for K, L in grid:
        for rule, law in ONE_PATH if K == 1 else PATHS:
            found.append(Contender(rule, K, L, method_called(rule, law, shape_of(K, L, None))))
    if peers:
        found.append(Contender(PEER_PLAIN, 0, 0))
        found += [Contender(PEER_ASSISTED, 1, L) for L in dict.fromkeys(L for _, L in grid)]
    return found
