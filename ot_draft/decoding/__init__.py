"""Speculative decoding with several drafts, of any two causal language models that share a vocabulary. Needs `torch`."""

from .decode import AUTOREGRESSIVE, Decoded, Options, decode, decode_steps
from .draft import Draft
from .drafting import Drafting
from .errors import CannotDecode
from .packed import pack
from .pair import Pair, unpadded
from .processed import Processed
from .reference import reference_decode
from .sampling import Sampling
from .step import Details, Seconds, Step

__all__ = [
    "AUTOREGRESSIVE",
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
    "pack",
    "reference_decode",
    "unpadded",
]
