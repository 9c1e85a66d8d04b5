"""hipfire: trees of the draft's most probable tokens, followed by the target's draws; or children drawn without replacement, with q.

In one test every node has one draw of the target, and the child that is that token is taken. The other draws the candidates of a depth
without replacement, and rejects recursively with q renormalised; it tests every candidate that was drawn, in the tree or not, and stops
where the taken one has no node.
"""

import ot_draft as otd
from ot_draft import trees

from ..record import TOP, TREE, TREES, AlongPath, Form, OneToken, Work
from .several_drafts import walk

WITHOUT = otd.rules.RecursiveRejectionWithoutReplacement()
WORK = Work(
    "hipfire", "hipfire", "", "code of both tests; pull 483",
    "the target's distribution at any temperature", "none beyond the target's sample",
    (Form("tree by the target's samples", AlongPath(trees.NaivePath(), (2,), 2, TREE, TOP), "one draw per node, followed; exact checks",
          mode=TREES),
     Form("without replacement: node", OneToken(WITHOUT), "Coq: sampling.v, while q has mass left", mode=TREES),
     Form("without replacement: tree", walk(WITHOUT), "Coq: adaptive_trees.v", mode=TREES)),
    "warpfront/hipfire crates/hipfire-runtime/src/ddtree.rs@2f05029, sample_verified_tree, swor_step", engine="hipfire",
)  # fmt: skip
