"""Server of llama.cpp on one GGUF file, in a separate process that ends with its parent.

Called as  python process.py SETTINGS  with the settings of `server.Settings` as JSON. The Python executable needs xllamacpp only, so this
file imports nothing from the project.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import xllamacpp as llama

KINDS = llama.common_speculative_type
DRAFTS = {
    "none": [],
    "ngram": [KINDS.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE],
    "greedy": [KINDS.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE],
    "drawn": [KINDS.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE],
}


def main(settings: dict[str, Any]) -> None:
    """Run the server; all models use the number of threads of the settings."""
    parameters = llama.CommonParams()
    parameters.model.path, parameters.port = settings["gguf"], settings["port"]
    parameters.n_ctx, parameters.n_parallel = settings["context"], settings["parallel"]
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = settings["threads"]
    parameters.cache_ram_mib, parameters.verbosity = 0, -1
    if DRAFTS[settings["drafts"]]:
        parameters.speculative.types = DRAFTS[settings["drafts"]]
    if settings["drafts"] in ("greedy", "drawn"):
        draft = parameters.speculative.draft
        draft.mparams.path = settings["draft"]
        draft.n_max, draft.n_min, draft.p_min = settings["length"], 0, 0.0
        draft.probabilistic = settings["drafts"] == "drawn"
        draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = settings["threads"]
    server = llama.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()  # returns when the parent closes the pipe
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
