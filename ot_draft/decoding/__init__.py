"""Speculative decoding with several drafts, of any two causal language models that share a vocabulary. Needs `torch`."""

from ..errors import CannotDecode
from .benchmark.measure import COSTS, Comparison, Measured, MethodCosts, compare_methods, measure_costs
from .benchmark.methods import (
    AutoMethod,
    Call,
    Method,
    auto_method,
    dynamic_method,
    dynamic_methods,
    lookup_method,
    method_called,
    methods_to_compare,
    shape_of,
)
from .benchmark.peers import Peer, assistant, generate, peers
from .benchmark.prefixes import PrefixLogits
from .cpu import group_heads, make_lean, pack, pack_draft, pack_float16
from .draft_models import StateDraft, SubsetDraft, features_of, one_place_later
from .drafting import Chooser, Drafting, Policy, Run
from .load import DTYPES, load_draft, load_pair
from .lookup import Lookup, Match
from .loop import AUTOREGRESSIVE, Decoded, decode, decode_steps
from .options import DecodeOptions
from .pair import Pair, prompt_text, unpadded
from .processed import Processed
from .reference import reference_decode
from .sampling import SamplingParams
from .step import Details, Seconds, Step
from .tuning.auto import Auto

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
    "DecodeOptions",
    "Decoded",
    "Details",
    "Drafting",
    "Lookup",
    "Match",
    "Measured",
    "Method",
    "MethodCosts",
    "Pair",
    "Peer",
    "Policy",
    "PrefixLogits",
    "Processed",
    "Run",
    "SamplingParams",
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
