"""Speculative decoding with several drafts, of any two causal language models that share a vocabulary. Needs `torch`."""

from .draft import Draft
from .drafting import Drafting
from .errors import CannotDecode
from .load import DTYPES, load_draft, load_pair
from .loop import AUTOREGRESSIVE, Decoded, Options, decode, decode_steps
from .packed import pack
from .pair import Pair, prompt_text, unpadded
from .processed import Processed
from .reference import reference_decode
from .sampling import Sampling
from .step import Details, Seconds, Step

__all__ = [
    "AUTOREGRESSIVE",
    "DTYPES",
    "CannotDecode",
    "Decoded",
    "Details",
    "Draft",
    "Drafting",
    "Options",
    "Pair",
    "Processed",
    "Sampling",
    "Seconds",
    "Step",
    "decode",
    "decode_steps",
    "load_draft",
    "load_pair",
    "pack",
    "prompt_text",
    "reference_decode",
    "unpadded",
]
