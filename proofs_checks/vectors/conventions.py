"""Convention of each rule: which random number is used where (field `convention` of its file of vectors)."""

GITHUB = "https://github.com/"
CUMULATIVE = "the first token, in the order of ids, at which the running sum of the weights is above u times their sum"
RACE = "the token with the largest weight / E"
GUMBEL = "the token with the largest log weight + G"
REST = "(p - q)+ at the rejected draft token, p if that is empty; p after the last draft token if all are accepted"
CHOSEN = "deterministic: q is 1 at the draft token and 0 elsewhere, so the residual is p without the draft token"
FIRST_RUNNER = (
    GITHUB + "vllm-project/vllm/blob/0097a7bbf1d91c71f03e35dc6c6fe978b88181f5/vllm/v1/sample/rejection_sampler.py"
)
SECOND_RUNNER = (
    GITHUB
    + "vllm-project/vllm/blob/02e318bde2ccdff60271df55b2898c839410616f/vllm/v1/worker/gpu/spec_decode/rejection_sampler_utils.py"
)
TREE_KERNEL = (
    GITHUB
    + "sgl-project/sglang/blob/120affb9613cc3f5bcd055ec09c7621d3ced0ebc/sgl-kernel/csrc/speculative/speculative_sampling.cuh"
)
PYEXECUTOR = GITHUB + "NVIDIA/TensorRT-LLM/blob/main/tensorrt_llm/_torch/pyexecutor"
V1 = {
    "source": FIRST_RUNNER,
    "accepts": "q > 0 and p/q >= u, p > 0",
    "draws": RACE,
    "weights": REST,
    "uniforms": "one per draft token",
    "noise": "exponentials: row 0 for a recovered token, row 1 for the token after the last draft token",
}
V2 = {
    "source": SECOND_RUNNER,
    "accepts": "p > u q",
    "draws": GUMBEL,
    "weights": REST,
    "uniforms": "one per draft token, in (0, 1]",
    "noise": "Gumbel: row i for the token that is sampled after i accepted draft tokens; the engine takes logarithms of p and q",
}
BLOCK = V2 | {
    "accepts": "the longest chain whose last test passes: u <= R/(R + 1 - w) before the last draft token, u <= w there; w is the product of"
    " p/q, capped at 1 after every draft token, R the sum of (w p - q)+ at the next position",
    "weights": "(w p - q)+ with the w of the accepted tokens, w = 1 at the root; p if that is empty, and after the last draft token",
}
FLASHINFER = {
    "source": GITHUB + "flashinfer-ai/flashinfer/blob/main/include/flashinfer/sampling.cuh, ChainSpeculativeSampling",
    "accepts": "u q < p",
    "draws": CUMULATIVE,
    "weights": REST,
    "noise": "none",
    "uniforms": "number i for draft token i; after i of L draft tokens are accepted, number min(i + 1, L) samples the last token",
}
MULTINOMIAL = {
    "draws": RACE + ", as torch.multinomial for one sample",
    "weights": REST,
    "uniforms": "one per draft token",
    "noise": "exponentials: one row, for the last token",
}
TREE = {
    "draws": CUMULATIVE,
    "noise": "none",
    "shape": "tree: children are tested in the order in which they are given",
}
CONVENTIONS: dict[str, dict[str, str]] = {
    "vllm-v1": V1,
    "vllm-v1-chosen": V1 | {"drafts": CHOSEN},
    "vllm-v2": V2,
    "vllm-v2-chosen": V2
    | {"drafts": CHOSEN + "; an id outside the vocabulary is rejected, and the token is sampled from p"},
    "vllm-v2-block": BLOCK,
    "vllm-v2-block-chosen": BLOCK | {"drafts": CHOSEN},
    "sglang-chain": FLASHINFER
    | {
        "source": GITHUB + "sgl-project/sglang/blob/main/python/sglang/kernels/ops/speculative/reject_sampling.py",
        "uniforms": "number i for draft token i; the next one samples the last token",
    },
    "sglang-tree": TREE
    | {
        "source": TREE_KERNEL,
        "accepts": "u <= the sum of p over the children up to this one, p > 0; thresholds 1",
        "weights": "p without the rejected children",
        "uniforms": "number 0 for the root's children, number i + 1 for those of draft token i; the next one samples the last token",
    },
    "flashinfer-chain": FLASHINFER,
    "tensorrt-llm": MULTINOMIAL
    | {
        "source": PYEXECUTOR + "/sampling_utils.py, get_rejected_indices, sample_rejected",
        "accepts": "u <= min(1, p/q), p > 0",
    },
    "transformers": MULTINOMIAL
    | {
        "source": GITHUB
        + "huggingface/transformers/blob/main/src/transformers/generation/utils.py, _speculative_sampling of 5.24",
        "accepts": "u <= p/q, p > 0; the engine takes logarithms of p and q",
    },
    "llama.cpp-server": {
        "source": GITHUB
        + "ggml-org/llama.cpp/blob/master/common/sampling.cpp, common_sampler_sample_and_accept_n; src/llama-sampler.cpp",
        "accepts": "the target's own sample is the draft token",
        "draws": CUMULATIVE + ", which is the order of the candidates",
        "weights": "p",
        "uniforms": "number i for the sample after i accepted draft tokens",
        "noise": "none",
        "drafts": CHOSEN,
    },
    "greedy": {
        "source": "any engine at temperature 0",
        "accepts": "p is largest at the draft token; of equal probabilities the first token counts",
        "draws": "the most probable token, the first of equal ones",
        "weights": "p",
        "uniforms": "none",
        "noise": "none",
    },
    "recursive-rejection": TREE
    | {
        "source": "https://arxiv.org/abs/2305.09781, multi-step speculative sampling",
        "accepts": "u q < p",
        "weights": "the residual: after each rejection norm((p - q)+), p if that is empty",
        "uniforms": "number i for draft token i; the next one samples the last token",
    },
    "recursive-rejection-distinct": TREE
    | {
        "source": "https://arxiv.org/abs/2402.12374, SWOR",
        "accepts": "u q < p",
        "weights": "the residual: after each rejection norm((p - q)+), p if that is empty; q loses the rejected token and is normalised",
        "uniforms": "number i for draft token i; the next one samples the last token",
    },
    "k-seq": {
        "source": "https://arxiv.org/abs/2310.15141, K-SEQ with factor k",
        "accepts": "u k q < p",
        "draws": CUMULATIVE,
        "noise": "none",
        "weights": "(p - c min(q, p/k))+ with c = (1 - (1 - b)^k)/b, b the sum of min(q, p/k); after an accepted draft token the row of p"
        " there",
        "uniforms": "number i for draft token i of k; number k after k rejections, number k + 1 after an accepted draft token",
        "shape": "k children of the root",
    },
}
