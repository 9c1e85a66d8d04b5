"""EAGLE-1 and EAGLE-2: tree verification at temperature > 0.

EAGLE-1 draws children without replacement and rejects recursively with the q they were drawn by. EAGLE-2 and 3 take the top tokens; their
code sets q = 1: a child x is taken with probability P(x), else P(x) becomes 0 and P is normalised. That is drawing from P, child by
child. With top children and the draft's own q in the test it would not be lossless.
"""

import ot_draft as ot
from ot_draft import paths

from ..record import TOP, AlongPath, Form, OneToken, Work, biased
from .specinfer import ON_TOP_TOKENS

NAIVE = ot.rules.NaiveTarget(law=TOP)
WORK = Work(
    "eagle", "EAGLE-1, EAGLE-2 tree verification", "Li et al. 2024 (EAGLE, EAGLE-2)", "code of both", "lossless",
    "one pass a child (EAGLE-1); none (EAGLE-2)",
    (Form("code of EAGLE-1", OneToken(ot.rules.RecursiveRejectionWithoutReplacement()), "Coq: sampling.v"),
     Form("code of EAGLE-2, q set to 1", OneToken(NAIVE), "the output is a draw from p, whatever was chosen; Coq: sampling.v"),
     Form("tree of EAGLE-2", AlongPath(paths.NaivePath(), (2,), 2, paths.TreeShape.by_level((2, 1)), TOP), "exact checks"),
     biased("top children, the draft's q (a choice left open)", OneToken(ot.rules.RecursiveRejection(), (1, 2), TOP), ON_TOP_TOKENS,
            "acp = px / qx with qx = q(x) for a child that was chosen, not drawn", OneToken(NAIVE, (1, 2)),
            "qx = 1 and P(x) = 0 after a refusal, as the code of EAGLE-2 has it")),
    "SafeAILab/EAGLE eagle/modeling_eagle.py, eagle/model/utils.py@cb7e084, evaluate_posterior",
)  # fmt: skip
