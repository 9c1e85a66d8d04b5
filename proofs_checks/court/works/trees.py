"""Trees and paths as wholes.

SPECINFER tests each drawn child against what the refused ones leave of the target. Its trees may also be expanded by the top tokens of one
model; the description does not say which rule is then used (the variants page: with q as it is that would not be lossless). SEQUOIA does so
without replacement. TRAVERSAL goes from the leaves up. BLOCK verification tests a path as a whole. Of GBV and UNIVER only abstracts could
be read; the nearest rule here is `Joint`. DYSPEC and SPECDEC++ let the shape depend on what was drafted. That is lossless where a child's
being there depends on tokens drawn before it, never on its own: DySpec's values are made before the draw, SpecDec++ ends the path by a head
that has seen the tokens up to there.
"""

import ot_draft as ot
from ot_draft import paths
from ot_draft.paths.drafting.baselines import SampledTree, StoppedPath

from ..record import TREE, AlongPath, Form, OneToken, Work
from .several_drafts import ABSTRACT, ALGORITHM, LOSSLESS, RECURSIVE, WALK, WITHOUT, walk

BLOCK = AlongPath(paths.BlockVerification())
STOPPED = StoppedPath(2, 0.5, (0.4,), (0.3, 0.9))  # after a token of mass below .4 it ends
WORKS = (
    Work("specinfer", "SpecInfer", "Miao et al. 2024", "the library's rule", LOSSLESS, "one pass a draft",
         (Form("node, children drawn from q", OneToken(RECURSIVE), "Coq: sampling.v"),
          Form("tree, children drawn from q", walk(RECURSIVE), WALK)),
         not_judged=(("trees expanded by top tokens", "the description does not say which q the test is told"),)),
    Work("sequoia", "Sequoia", "Chen et al. 2024", "code; the library's rule", "lossless; cover property",
         "one pass over the vocabulary a draft",
         (Form("node", OneToken(WITHOUT), "Coq: sampling.v; exact checks where q runs out"),
          Form("tree", walk(WITHOUT), "Coq: adaptive_trees.v")),
         "Infini-AI-Lab/Sequoia Tree/SpecTree.py@0ff3ff7, accept_step",
         remarks="Code: once all of q is refused, softmax is uniform on the drafted tokens too, where the paper leaves these out."),
    Work("dyspec", "DySpec", "Xiong et al. 2410.11744", "the library's drafter", LOSSLESS, "one pass a draft",
         (Form("tree whose shape follows the draws", AlongPath(paths.TokenWise(WITHOUT), (2,), 2, SampledTree(3, 2, 2, 2)),
               "a child's being there depends on earlier tokens alone; Coq: adaptive_trees.v"),)),
    Work("specdec-pp", "SpecDec++", "Huang et al. 2405.19715", "code; the library's drafter", LOSSLESS, "a head a token",
         (Form("path that is stopped", AlongPath(paths.TokenWise(ot.rules.SpeculativeSampling()), (1,), 2, STOPPED),
               "the end depends on tokens up to it; Coq: adaptive_trees.v"),),
         "Kaffaljidhmah2/SpecDec_pp specdec_pp/hf_generation.py@9c52edc, stop_prediction"),
    Work("block", "Block verification", "Sun et al. 2403.10444", ALGORITHM, "lossless; optimal for one path", "two passes a position",
         (Form("one path", BLOCK, "Coq: block.v; that no lossless rule for one path accepts more: block_optimal.v"),)),
    Work("traversal", "Traversal verification", "Weng et al. 2505.12398", ALGORITHM, "lossless; optimal for one path", "a pass a node",
         (Form("chains", AlongPath(paths.Traversal(), (1, 2)), "Coq: joint.v, adaptive_trees.v"),
          Form("tree, children without replacement", AlongPath(paths.Traversal(), (2,), 2, TREE, WITHOUT.law), "Coq: adaptive_trees.v"),
          Form("tree, children i.i.d.", AlongPath(paths.Traversal(), (2,), 2, TREE, ot.IID()), "Coq: adaptive_trees.v"))),
    Work("gbv", "GBV", "Thomas and Pal 2602.16961v1", ABSTRACT,
         "block verification is optimal for one path, off-path probabilities included; lossless for several", "not read",
         (Form("one path", BLOCK, "its claim of optimality is a theorem, Coq: block_optimal.v"),),
         not_judged=(("several paths", "abstract only; the nearest rule here is `Joint`"),)),
    Work("univer", "UniVer", "Weng et al. 2605.04543v1", ABSTRACT, "lossless; optimal within its framework", "not read", (),
         not_judged=(("its rule", "abstract only; the nearest rule here is `Joint`"),)),
)  # fmt: skip
