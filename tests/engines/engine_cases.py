"""What the tests of engines have in common: the rules, vLLM's setting for drafts, and the environment of an engine's process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RULES = ("SpeculativeSampling", "BlockVerification")


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


def environment(**more: str) -> dict[str, str]:
    """Of an engine's process: one thread, no hub, the test's own modules."""
    folders = [str(folder) for folder in (HERE.parent.parent, HERE, HERE.parent / "integrations", HERE.parent)]
    path = os.pathsep.join([*folders, *filter(None, [more.get("PLUGIN_FOR_TESTS")])])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VLLM_", "OT_DRAFT_", "PYTEST_"))}
    return kept | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"} | more
