"""Backend llama.cpp, through llama-cpp-python: any GGUF target with standard attention, and GGUF drafts."""

from __future__ import annotations

from importlib import util
from pathlib import Path
from typing import Any

from ot_draft import MissingPackage, defaults
from ot_draft.decoding import CannotDecode, Pair
from ot_draft.decoding.backends import LoadRequest
from ot_draft.decoding.load import by_transformers, check_one_vocabulary, draft_alone


class LlamaCpp:
    """A backend of `ot_draft.decoding.backends`."""

    def check(self, request: LoadRequest) -> None:
        """Raise CannotDecode unless the target is a GGUF file and the draft is supported."""
        if not request.target.endswith(".gguf") or request.device_map or request.dtype != defaults.DTYPE:
            raise CannotDecode(
                "backend llama.cpp requires a .gguf target and the default dtype and device map. Use these, or backend torch."
            )
        if request.draft is not None and request.draft.endswith(".safetensors"):
            raise CannotDecode(
                "draft must not be a .safetensors file with backend llama.cpp, which gives no access to embeddings and hidden states. Use a"
                " .gguf draft model with the target's vocabulary, or lookup."
            )
        if util.find_spec("llama_cpp") is None:
            raise MissingPackage("llama-cpp-python", "llamacpp")

    def offer(self, folder: Path | None) -> tuple[bool, str]:
        """Return that it is not a default: its 8-bit activations change the target distribution."""
        return False, ""

    def load(self, request: LoadRequest) -> Pair:
        """Load both models in llama.cpp, on its GPU unless the device is a CPU; torch loads a draft model that is not a GGUF file."""
        from llm_demo.backends.llama_cpp_model import LlamaCppFile

        target = LlamaCppFile(Path(request.target), gpu=not request.on_cpu)
        draft: Any = None
        if request.draft == request.target:
            draft = target
        elif request.draft is not None:
            draft, theirs = draft_alone(request, Pair(target), request.draft)
            check_one_vocabulary(target.tokenizer, theirs)
        return Pair(target, draft, target.tokenizer, by_transformers=by_transformers(request), law=target.law)


LLAMA_CPP = LlamaCpp()
