"""What the tests of the engine have in common: which drafts, which samplers, and what each batch's texts are compared with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from planted_in_plugin import PLANTED
from requests_and_laws import KINDS

HERE = Path(__file__).parent
RULES = ("SpeculativeSampling", "BlockVerification")
SAMPLERS = ("own", *RULES)
EACH = 500  # requests of each kind in a batch
ERRORS = [f"{rule}, {error}" for rule in RULES for error in PLANTED]
PIECES = 160  # tokens a step: prompts are read in pieces
WEAK = "one uniform used twice"  # takes more requests to be seen
DEFECTS = {
    "own, validate_tokens not mended": ["grammar"],
    "own, expand_batch_to_tokens not mended": ["sampled", "penalised"],
    "own, apply_sampling_constraints not mended": ["top-k"],
}


def speculative(drafts: str, draft: Path) -> dict[str, Any]:
    """vLLM's speculative_config for "probabilistic" or "greedy" drafts of a model, or "ngram"."""
    if drafts == "ngram":
        lookup = {"prompt_lookup_min": 1, "prompt_lookup_max": 3}
        return {"method": "ngram", "num_speculative_tokens": 3, **lookup}
    count = 2 if drafts == "probabilistic" else 3  # 2: the token after the last draft is one of those compared
    return {
        "method": "draft_model",
        "model": str(draft),
        "num_speculative_tokens": count,
        "draft_sample_method": drafts,
    }


def runs(drafts: str) -> list[tuple[str, list[str], int]]:
    """Sampler, kinds of requests, requests of each kind."""
    kinds = list(KINDS)
    mixed = [(name, kinds, EACH) for name in SAMPLERS]
    if drafts != "probabilistic":
        return mixed
    planted = [(name, ["sampled"], (8 if name.endswith(WEAK) else 2) * EACH) for name in ERRORS]
    return [*mixed, *planted, *((name, kinds, 2 * EACH) for name, kinds in DEFECTS.items())]


def environment(**more: str) -> dict[str, str]:
    """Of an engine's process: one thread, no hub, the test's own modules."""
    folders = [str(HERE.parent.parent), str(HERE), str(HERE.parent / "integrations")]
    path = os.pathsep.join([*folders, *filter(None, [more.get("PLUGIN_FOR_TESTS")])])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VLLM_", "OT_DRAFT_", "PYTEST_"))}
    return kept | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"} | more


def run_engine(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What engine_process.py answers to the job."""
    given, answer, log = folder / "job.json", folder / "answer.json", folder / "log.txt"
    given.write_text(json.dumps(job))
    with log.open("w") as out:
        command = [sys.executable, str(HERE / "engine_process.py"), str(given), str(answer)]
        code = subprocess.run(command, stdout=out, stderr=out, env=environment(), check=False, timeout=3000).returncode
    if code:
        pytest.fail(f"the engine ended with {code}:\n" + "\n".join(log.read_text().splitlines()[-25:]))
    found: dict[str, Any] = json.loads(answer.read_text())
    return found
