"""A plugin of vLLM's for tests: in every process of a server it mends the host, or plants an error in ot_draft's plugin."""

from __future__ import annotations

import os
from typing import Any

KEPT: list[Any] = []


def plugin() -> None:
    """Called by vLLM; PLANTED_FOR_TESTS is "mend" or one of mutants.plugin.PLANTED."""
    from mutants.plugin import planted

    from ot_draft.integrations import vllm_mends

    name = os.environ.get("PLANTED_FOR_TESTS")
    if name == "mend":
        vllm_mends.mend()
    elif name:
        KEPT.append(planted(name))
        KEPT[-1].__enter__()
