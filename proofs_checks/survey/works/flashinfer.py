"""FlashInfer: its chain kernel is the p/q test with the residual; later uniform numbers only count what would have been accepted."""

from ..record import CHAIN, PATH, SPECULATIVE, Form, Work

WORK = Work(
    "flashinfer", "FlashInfer", "", "code of the kernel", "the target's distribution", "two passes over the vocabulary",
    (Form("ChainSpeculativeSampling: a token", SPECULATIVE, "speculative sampling; Coq: sampling.v", mode=CHAIN),
     Form("ChainSpeculativeSampling: a chain", PATH, "speculative sampling; Coq: sampling.v", mode=CHAIN)),
    "flashinfer-ai/flashinfer include/flashinfer/sampling.cuh@5b1af97, ChainSpeculativeSampling", engine="FlashInfer",
    remarks="After rounding it takes the last token of positive residual.",
)  # fmt: skip
