"""Speculative decoding with several drafts, of any two causal language models that share a vocabulary. Needs `torch`."""

from typing import Any
from warnings import warn

from ..errors import CannotDecode
from .compared.measure import COSTS, Comparison, Measured, MethodCosts, compare_methods, measure_costs
from .compared.methods import (
    AutoMethod,
    Call,
    Method,
    auto_method,
    lookup_method,
    method_called,
    methods_to_compare,
    shape_of,
)
from .compared.peer_methods import Peer, assistant, generate, peers
from .cpu import group_heads, make_lean, pack, pack_draft, pack_float16
from .draft_plan import Drafting
from .drafts import StateDraft, SubsetDraft, features_of, one_place_later
from .dynamic.methods import dynamic_method, dynamic_methods
from .load import DTYPES, load_draft, load_pair
from .loop import AUTOREGRESSIVE, Decoded, Options, decode, decode_steps
from .pair import Pair, prompt_text, unpadded
from .plans.auto import Auto
from .plans.chooser import Chooser, Plan, Run
from .plans.lookup import Lookup, Match
from .prefixes import PrefixLogits
from .processed import Processed
from .reference import reference_decode
from .sampling_settings import Sampling
from .step import Details, Seconds, Step

__all__ = [
    "AUTOREGRESSIVE",
    "COSTS",
    "DTYPES",
    "Auto",
    "AutoMethod",
    "Call",
    "CannotDecode",
    "Chooser",
    "Comparison",
    "Decoded",
    "Details",
    "Drafting",
    "Lookup",
    "Match",
    "Measured",
    "Method",
    "MethodCosts",
    "Options",
    "Pair",
    "Peer",
    "Plan",
    "PrefixLogits",
    "Processed",
    "Run",
    "Sampling",
    "Seconds",
    "StateDraft",
    "Step",
    "SubsetDraft",
    "assistant",
    "auto_method",
    "compare_methods",
    "decode",
    "decode_steps",
    "dynamic_method",
    "dynamic_methods",
    "features_of",
    "generate",
    "group_heads",
    "load_draft",
    "load_pair",
    "lookup_method",
    "make_lean",
    "measure_costs",
    "method_called",
    "methods_to_compare",
    "one_place_later",
    "pack",
    "pack_draft",
    "pack_float16",
    "peers",
    "prompt_text",
    "reference_decode",
    "shape_of",
    "unpadded",
]


def __getattr__(name: str) -> Any:
    if name == "Draft":
        warn(
            "ot_draft.decoding.Draft is called SubsetDraft now; the old name goes with the next version",
            DeprecationWarning,
            2,
        )
        return SubsetDraft
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
