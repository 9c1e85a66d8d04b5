"""A plugin of vLLM's for tests: in every process of a server it mends the host, or plants an error, in ot_draft's plugin or in vLLM."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import Any

KEPT: list[Any] = []


def plugin() -> None:
    """Called by vLLM; PLANTED_FOR_TESTS is "patch", one of mutants.plugin.PLANTED, or a file that says what is planted: see `Switch`."""
    name = os.environ.get("PLANTED_FOR_TESTS")
    if name == "patch":
        from ot_draft.integrations import vllm_patches

        vllm_patches.apply_patches()
    elif name and Path(name).is_file():
        from vllm.v1.worker.gpu_model_runner import GPUModelRunner

        GPUModelRunner.execute_model = Switch(Path(name)).before(GPUModelRunner.execute_model)
    elif name:
        from mutants.plugin import planted

        KEPT.append(planted(name))
        KEPT[-1].__enter__()


class Switch:
    """What is planted in vLLM's sampler is read from a file before every step, so that one server can have one error after the other.

    The file has a name of `planted_vllm.sampler` ("own" is the right one), or one of `errors_in_vllm.ERRORS`.
    """

    def __init__(self, file: Path) -> None:
        self.file, self.name, self.planted = file, "", ExitStack()

    def before(self, step: Any) -> Any:
        @wraps(step)
        def stepped(*given: Any, **named: Any) -> Any:
            self.look()
            return step(*given, **named)

        return stepped

    def look(self) -> None:
        """Plant what the file says, if it says something else than before."""
        if (name := self.file.read_text()) == self.name:
            return
        import numpy as np
        from errors_in_vllm import ERRORS, planted
        from planted_vllm import sampler
        from vllm.v1.sample import rejection_sampler

        self.planted.close()
        self.planted.enter_context(sampler("own" if name in ERRORS else name))
        if name in ERRORS:
            self.planted.enter_context(planted(rejection_sampler, name, np.random.default_rng()))
        self.name = name
        print(f"planted: {name}", flush=True)
