"""Speculative sampling, of one token and along a path."""

import ot_draft as otd
from ot_draft import trees

from ..record import SPECULATIVE, AlongPath, Form, Work

WORK = Work(
    "leviathan", "Speculative sampling", "Leviathan et al. 2211.17192; Chen et al. 2302.01318",
    "the library's rule, whose docstring names the paper", "lossless", "one pass over the vocabulary per token",
    (Form("token", SPECULATIVE, "Leviathan et al., Theorem 1; Coq: sampling.v"),
     Form("path", AlongPath(trees.TokenWise(otd.rules.SpeculativeSampling())), "the token's rule at every node; Coq: joint.v")),
)  # fmt: skip
