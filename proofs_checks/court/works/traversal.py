"""Traversal verification: every node of a tree is tested, from the leaves upward."""

import ot_draft as ot
from ot_draft import paths

from ..defendants import AlongPath
from ..record import Form, Work

TREE = paths.TreeShape.by_level((2, 1))
WORK = Work(
    name="traversal", title="Traversal verification", paper="Weng et al. 2505.12398, Algorithm 1", read="paper's algorithm",
    claim="lossless; optimal for one path", cost="a pass over the vocabulary a node",
    forms=(
        Form("chains", AlongPath(paths.Traversal(), (1, 2)), "in Coq for every tree whose children are drawn one after the other"),
        Form("children without replacement", AlongPath(paths.Traversal(), (2,), 2, TREE, ot.WithoutReplacement()), "in Coq"),
    ),
)  # fmt: skip
