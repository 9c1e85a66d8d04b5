"""llama.cpp's own server on one GGUF file, in a process of its own, until it is ended.

Called as  python llama_process.py GGUF DRAFTS PORT; DRAFTS is "none", "ngram", "greedy" or "drawn": by a draft model, here the same file.
"""

from __future__ import annotations

import signal
import sys

import xllamacpp as llama

KINDS = llama.common_speculative_type
DRAFTS = {
    "none": [],
    "ngram": [KINDS.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE],
    "greedy": [KINDS.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE],
    "drawn": [KINDS.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE],
}


def main(gguf: str, drafts: str, port: str) -> None:
    parameters = llama.CommonParams()
    parameters.model.path = gguf
    parameters.n_ctx, parameters.n_parallel, parameters.port = 2048, 4, int(port)
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.verbosity = -1
    if DRAFTS[drafts]:
        parameters.speculative.types = DRAFTS[drafts]
    if drafts in ("greedy", "drawn"):
        draft = parameters.speculative.draft
        draft.mparams.path = gguf
        draft.n_max, draft.n_min, draft.p_min = 3, 0, 0.0
        draft.probabilistic = drafts == "drawn"
        draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = 1
    server = llama.Server(parameters)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
