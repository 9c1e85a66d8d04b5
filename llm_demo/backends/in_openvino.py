"""Backends of OpenVINO: a target of the Llama family on a CPU, with float or 8-bit activations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from llm_demo import backends
from llm_demo.backends import llama
from llm_demo.backends.fast_weights import ADAPTER, WEIGHTS
from ot_draft import MissingPackage
from ot_draft.decoding import CannotDecode, Pair
from ot_draft.decoding.backends import LoadRequest
from ot_draft.decoding.gguf_files import BLOCKS
from ot_draft.decoding.load import (
    by_transformers,
    check_one_vocabulary,
    draft_alone,
    folder_of,
    own_draft,
    tokenizer_of,
)
from ot_draft.optional import require

PACKAGES = "openvino", "numba"
SLOWER = "torch computes the passes, which take about 4 times as long as by OpenVINO"  # docs/benchmarks.md
FEW = 700  # min. number of tokens for static graphs of 1 and 2 positions, which take 2.7 s to build and save 3 to 4 ms per pass


def reads(folder: Path) -> bool:
    """Return whether OpenVINO supports a model's folder: a Llama without biases and adapter, with one file of weights."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return False
    with_biases = config.get("attention_bias") or config.get("mlp_bias")
    adapted = (folder / ADAPTER).is_file()  # transformers adds it to the weights
    return llama.reads(config) and not with_biases and not adapted and (folder / WEIGHTS).is_file()


@dataclass(frozen=True)
class OpenVino:
    """A backend of `ot_draft.decoding.backends`. exact: with float activations, else with 8-bit ones of a GGUF file's products."""

    name: str
    exact: bool

    def check(self, request: LoadRequest) -> None:
        """Raise CannotDecode unless the target is a GGUF file or a folder, on a CPU, in float32."""
        if not (request.target.endswith(".gguf") or Path(request.target).is_dir()) or not request.float32_on_cpu:
            raise CannotDecode(
                f"backend {self.name} requires a .gguf file or directory, a CPU, and the default dtype, device and cache. Use these, or"
                " backend torch."
            )
        require(*PACKAGES, extra="openvino")

    def offer(self, folder: Path | None) -> tuple[bool, str]:
        """Return whether this backend is the default for a folder, and otherwise a hint.

        Only float activations are a default, because they keep the distribution up to rounding, and only for converted GGUF files.
        """
        if not self.exact or folder is None or not reads(folder):
            return False, ""
        missing = [package for package in PACKAGES if find_spec(package) is None]
        if missing:
            return False, f"{SLOWER}: {MissingPackage(missing[0], 'openvino')}"
        of_file = (folder / BLOCKS).is_file()
        return of_file, "" if of_file else f"{SLOWER}: use --backend {self.name}"

    def load(self, request: LoadRequest) -> Pair:
        """Load the target in OpenVINO, and a draft of layers or of a GGUF file too; other drafts are loaded in torch."""
        from llm_demo.backends.fast_models import FITTED, FastTarget

        folder = folder_of(Path(request.target), request.progress)
        if folder is None:
            raise CannotDecode(
                "backend openvino requires a folder for converted GGUF files. Set OT_DRAFT_CACHE to a writable folder."
            )
        few = request.tokens is not None and request.tokens < FEW
        target = FastTarget(folder, self.exact, () if few else FITTED)
        tokenizer = tokenizer_of(folder, "target")
        draft: Any = None
        if request.draft is not None and request.draft.endswith(".safetensors"):
            request.progress(f"reading the draft, {Path(request.draft).name}")
            draft = own_draft(target, Path(request.draft))
        elif request.draft is not None:
            is_file = request.draft.endswith(".gguf")
            its = folder_of(Path(request.draft), request.progress) if is_file else None
            if its is not None and reads(its):
                draft, theirs = FastTarget(its, False, target.asked), tokenizer_of(its, "draft")
            else:
                draft, theirs = draft_alone(request, Pair(target), request.draft)
            check_one_vocabulary(tokenizer, theirs)
        request.progress("compiling the graphs")
        target.compiled(getattr(draft, "reads", ()))
        name = f"OpenVINO {version('openvino')}, graphs for {target.asked}"
        loader = by_transformers(request)
        return Pair(target, draft, tokenizer, by_transformers=loader, law=target.law, name=name)


ROUNDED, EXACT = OpenVino(backends.ROUNDED, exact=False), OpenVino(backends.EXACT, exact=True)
