"""Sequoia: recursive rejection without replacement, uniform on the tokens not yet drafted where q has no mass left."""

import ot_draft as ot
from ot_draft import paths

from ..defendants import AlongPath, OneToken
from ..record import Form, Work

RULE = ot.rules.RecursiveRejectionWithoutReplacement()
WORK = Work(
    name="sequoia", title="Sequoia", paper="Chen et al. 2402.12374, Algorithm 2, Theorem 3.4",
    code="Infini-AI-Lab/Sequoia Tree/SpecTree.py@0ff3ff7, accept_step", read="paper's algorithm, code",
    claim="lossless; cover property", cost="one pass over the vocabulary a draft",
    forms=(
        Form("children of a node", OneToken(RULE), "exact checks; in Coq for every n and k"),
        Form("tree", AlongPath(paths.TokenWise(RULE), (2,), 2, paths.TreeShape.by_level((2, 1)), RULE.law),
             "the rule of a node at every node; in Coq"),
    ),
    remarks="Code: a refused token's logit is set to the type's least number; once all of q is refused, softmax is uniform on the drafted"
            " tokens too, where the paper leaves these out. It needs a q without any mass left.",
)  # fmt: skip
