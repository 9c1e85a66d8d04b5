"""Speculative decoding with several drafts, of any two causal language models that share a vocabulary. Needs the extra `llm`."""
# ruff: noqa: E402

from ..errors import CannotDecode
from ..optional import load as _load

# First: what is missing is told with its extra, by whatever module of this folder it was asked for.
_load("torch", "llm")

from .drafting import Drafting
from .load import load_draft, load_pair
from .loop import Decoded, DecodeOptions, decode, decode_steps
from .pair import Pair
from .policy import Policy
from .prompt_lookup import PromptLookup
from .reference import reference_decode
from .sampling import Processed, SamplingParams
from .step import DecodeSummary, Step
from .tuning import Auto

__all__ = [
    "Auto",
    "CannotDecode",
    "DecodeOptions",
    "DecodeSummary",
    "Decoded",
    "Drafting",
    "Pair",
    "Policy",
    "Processed",
    "PromptLookup",
    "SamplingParams",
    "Step",
    "backends",
    "benchmark",
    "decode",
    "decode_steps",
    "draft_models",
    "load",
    "load_draft",
    "load_pair",
    "methods",
    "model",
    "reference_decode",
    "tokens",
]
