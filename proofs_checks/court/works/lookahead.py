"""Lookahead decoding: n-grams that are no draw of a law, verified at temperature > 0 token by token with q = 1."""

import ot_draft as ot
from ot_draft import paths

from ..defendants import AlongPath, OneToken
from ..record import Form, Work
from ..rules import TOP

WORK = Work(
    name="lookahead", title="Lookahead decoding, sampling", paper="Fu et al. 2402.02057, Algorithm 4",
    code="hao-ai-lab/LookaheadDecoding lade/decoding.py@eed010d, jacobi_sample_multilevel", read="code",
    claim="lossless", cost="none beyond the target's sample",
    forms=(
        Form("code: one position", OneToken(ot.rules.NaiveTarget(law=TOP)), "exact checks: drafts chosen before the target's coins"),
        Form("code: n-grams", AlongPath(paths.NaivePath(), (2,), 2, paths.TreeShape.chains(2, 2), TOP), "exact checks"),
    ),
    remarks="An n-gram that appears twice is refused twice; its mass is 0 by then, and nothing changes. No token follows a whole n-gram.",
)  # fmt: skip
