"""llama.cpp's server, from the wheel xllamacpp, with the tiny pair as GGUF files: started here, and queried over HTTP."""

from __future__ import annotations

import multiprocessing
import socket
import time
from pathlib import Path
from typing import Any

from ot_draft.verify.engine.engines import server
from ot_draft.verify.engine.engines.server import LACKS, STATE, RequestLimits, complete, counters
from ot_draft.verify.engine.tiny_pair import CONTEXT, END, letter

__all__ = ["LACKS", "complete", "counters", "start", "stop"]

REQUESTS, PRESENCE_OF_PROMPT, SLOTS = 1500, True, 8


def start(target: str, draft: str, drafts: str = "drawn", tokens: str = "2") -> dict[str, str]:
    """Start the server. drafts: "drawn" or "greedy", of the draft model, or "none". tokens: number of draft tokens per step."""
    from importlib.metadata import version

    import httpx

    files = [str(write_gguf(Path(folder))) for folder in (target, draft)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(*files, drafts, int(tokens), port))
    process.start()
    STATE["process"], url, until = process, f"http://127.0.0.1:{port}", time.monotonic() + RequestLimits.timeout_s
    while True:
        try:
            if httpx.get(f"{url}/health", timeout=5, trust_env=False).status_code == 200:
                break
        except httpx.HTTPError:
            time.sleep(0.5)
        if not process.is_alive() or time.monotonic() > until:
            raise TimeoutError(f"llama.cpp's server does not answer; exit status {process.exitcode}")
    server.start(target, draft, url, "llamacpp")
    return {"xllamacpp": version("xllamacpp"), "drafts": drafts}


def _serve(target: str, draft: str, drafts: str, tokens: int, port: int) -> None:
    import xllamacpp

    given = xllamacpp.CommonParams()
    given.model.path, given.port, given.n_ctx, given.n_parallel = target, port, CONTEXT * SLOTS, SLOTS
    given.cache_ram_mib, given.verbosity = 0, -1
    small = given.speculative.draft
    for cache in (given, small):
        cache.cache_type_k = cache.cache_type_v = (
            xllamacpp.ggml_type.GGML_TYPE_F32
        )  # the distributions are those of float32
    for threads in (given.cpuparams, given.cpuparams_batch, small.cpuparams, small.cpuparams_batch):
        threads.n_threads = 1
    if drafts != "none":
        given.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        small.mparams.path, small.n_max, small.n_min, small.p_min = draft, tokens, 0, 0.0
        small.probabilistic = drafts == "drawn"
    running = xllamacpp.Server(given)
    while running:
        time.sleep(3600)


def write_gguf(folder: Path) -> Path:
    """Write the model of a folder as a float32 GGUF file next to the folder, and return its path; each token is a letter."""
    import gguf
    from transformers import AutoModelForCausalLM

    out, model = folder.with_suffix(".gguf"), AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    config, writer = model.config, gguf.GGUFWriter(out, "llama")
    n, heads = config.vocab_size, {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, value in {
        "context_length": CONTEXT, "embedding_length": config.hidden_size, "block_count": config.num_hidden_layers,
        "feed_forward_length": config.intermediate_size, "head_count": heads["q_proj"], "head_count_kv": heads["k_proj"],
        "key_length": config.head_dim, "value_length": config.head_dim, "rope_dimension_count": config.head_dim,
        "layer_norm_rms_eps": config.rms_norm_eps, "rope_freq_base": config.rope_parameters["rope_theta"], "vocab_size": n,
        "tokenizer_model": "llama", "token_list": [*map(letter, range(n - 1)), END], "token_scores": [0.0] * n,
        "token_types": [gguf.TokenType.NORMAL] * (n - 1) + [gguf.TokenType.CONTROL], "eos_token_id": n - 1, "add_bos_token": False,
    }.items():  # fmt: skip
        getattr(writer, f"add_{name}")(value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        tensor = weight.numpy()
        if count := next((heads[part] for part in heads if part in name), 0):
            # RoPE pairs neighbouring rows of a head in llama.cpp, and rows half a head apart in transformers
            tensor = tensor.reshape(count, 2, -1, tensor.shape[-1]).swapaxes(1, 2).reshape(tensor.shape).copy()
        writer.add_tensor(str(names.get_name(name, try_suffixes=(".weight",))), tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def stop() -> None:
    """End the process of the server."""
    process: Any = STATE.pop("process", None)
    if process is not None:
        process.kill()
        process.join()
