"""LMDeploy: its drafters take the argmax, and its sampler tests that token with q = 1."""

from ..record import CHAIN, SPECULATIVE, TARGET_SAMPLE, Form, Work, greedy

WORK = Work(
    "lmdeploy", "LMDeploy", "", "code of the sampler, of the proposers and of spec_agent.py; the sampler was run",
    "Leviathan et al. (its docstring)",
    "one pass over the vocabulary",
    (Form("no law given (MTP, EAGLE-3: argmax drafts)", TARGET_SAMPLE, "q set to 1; Coq: sampling.v", mode=CHAIN,
          when="as spec_agent.py calls it; temperature, top-k and top-p on the target's side"),
     Form("draft's law given", SPECULATIVE, "speculative sampling; Coq: sampling.v", mode=CHAIN, when="no caller gives one at this commit"),
     greedy("top-k 1")),
    "InternLM/lmdeploy lmdeploy/pytorch/spec_decode/reject_sampler.py@12c877c", engine="LMDeploy",
    remarks="One exponential for each token serves the residuals of all positions of a cycle, of which one is used.",
)  # fmt: skip
