"""SubSpec: exact verification by the target's samples, and a lossy one that looks ahead.

EXACT walks down the tree by the target's own tokens. LOSSY keeps a child that is not the target's token where its mass reaches the
threshold and the next `window_size` tokens below it match; here a tree of one level, threshold 3/10 and no window. TRAVERSAL could not be
decided: two texts of traversal_verification.py are stored without their repository, neither fits the stored class of tree nodes, and in
the first the draft's masses stand one level too high, so that no draft is ever kept.
"""

from fractions import Fraction
from typing import Any

import ot_draft as otd
from ot_draft import arrays as xp

from ..by_hand import most_probable
from ..record import NAIVE_TREE, TARGET_SAMPLE, TOP, Form, OneToken, Work, biased
from ..rules import Single

BAR = Fraction(3, 10)
FILES = "NYCU-EDgeAi/subspec_v2 specdecodes/models/utils/tree_verify.py, lossy_tree_verify.py@d9c7855"


class Lossy(Single):
    """Keep the child that is the target's token, or whose mass reaches the bar; else emit the target's token."""

    def __call__(self, p: Any, q: Any, drafts: Any) -> Any:
        return otd.Selection(
            super().__call__(p, q, drafts).accept, otd.rules.NaiveTarget(law=TOP)(p, q, drafts).residual
        )


def by_hand(chance: Any, p: Any, q: Any, k: int) -> tuple[int]:
    (x,) = most_probable(q(), 1)
    s = chance.draw(p())
    return (x,) if s == x or p()[x] >= BAR else (s,)


WORK = Work(
    "subspec", "SubSpec", "", "code of its tree verification", "exact; lossy if enabled", "none beyond the target's sample",
    (Form("exact", NAIVE_TREE, "the target's walk; exact checks", when='verify_method "exact", the default'),
     biased("lossy, threshold 3/10", OneToken(Lossy(lambda p, q: xp.where(p >= BAR, 1, p), law=TOP), (1,)), by_hand,
            "if (not use_entropy) and p < threshold_f: continue; every other child counts", TARGET_SAMPLE, 'verify_method "exact"',
            on_purpose=True, when='verify_method "lossy"', seen="read, not run")),
    FILES, undecided=(("traversal", "two stored versions, neither of which fits the stored tree class; no draft would be kept"),),
)  # fmt: skip
