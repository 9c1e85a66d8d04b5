"""Lookahead decoding, sampling: n-grams that were collected before the target's random numbers are compared with its sample.

An n-gram that appears twice is rejected twice; its mass is 0 by then, and nothing changes.
"""

import ot_draft as otd
from ot_draft import trees

from ..record import TOP, TREE, AlongPath, Form, OneToken, Work

WORK = Work(
    "lookahead", "Lookahead decoding", "Lookahead decoding 2024", "code", "lossless", "none beyond the target's sample",
    (Form("code: one position", OneToken(otd.rules.NaiveTarget(law=TOP)),
          "Coq: sampling.v; drafts are chosen before the target's random numbers"),
     Form("code: n-grams", AlongPath(trees.NaivePath(), (2,), 2, TREE, TOP), "exact checks")),
    "hao-ai-lab/LookaheadDecoding lade/decoding.py@eed010d, jacobi_sample_multilevel",
)  # fmt: skip
