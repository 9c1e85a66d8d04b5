"""What the bench compares: our path rules on K paths of length L, and what transformers does with the same two models."""

from __future__ import annotations

from ot_draft.decoding import Pair
from ot_draft.decoding.benchmark.methods import Method, method_called, shape_of
from ot_draft.decoding.benchmark.peers import Peer, assistant

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
Grid = tuple[tuple[int, int], ...]


def own_methods(grid: Grid = GRID) -> list[Method]:
    """The plain method first, then all rules for every (K, L)."""
    plain = method_called(PLAIN, None, shape_of(1, 1, None))
    return [plain] + [
        method_called(rule, law, shape_of(K, L, None)) for K, L in grid for rule, law in (ONE_PATH if K == 1 else PATHS)
    ]


def peers(pair: Pair, grid: Grid = GRID) -> list[Peer]:
    """transformers' own generation with the same models: plain, and assisted by one draft of every length of the grid."""
    plain = method_called(PLAIN, None, shape_of(1, 1, None))
    helper = assistant(pair.assisting)
    assisted = [
        method_called("speculativesampling", None, shape_of(1, L, None)) for L in dict.fromkeys(L for _, L in grid)
    ]
    return [Peer.like(plain, PEER_PLAIN)] + [Peer.like(method, PEER_ASSISTED, helper) for method in assisted]
