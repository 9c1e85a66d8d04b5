"""SpecBlock: deterministic trees, children tested in order against what the rejected ones leave of the target.

A child x is kept where u <= p(x) over the mass that the children before it left; if none is, the next token is drawn from p without them.
Where that has no mass the code draws from p, which has probability 0.
"""

from proofs_checks.lossy import engine_rules

from ..record import NAIVE_TREE, Form, OneToken, Work

WORK = Work(
    "specblock", "SpecBlock", "2605.07243", "code of the batched sampler", "the target's distribution", "none beyond the target's row",
    (Form("node", OneToken(engine_rules.TwoThresholds(1, 1)), "a draw from p, child by child; Coq: sampling.v"),
     Form("tree", NAIVE_TREE, "a fresh number for each child; exact checks")),
    "shiweijiezero/SpecBlock benchmarks_hf/algorithms/specblock_batch.py@b7938c5, _accept_sampling_batch",
    remarks="u <= p(x) keeps a child of mass 0 at u = 0. Its own distribution test prints PASS without a threshold.",
)  # fmt: skip
