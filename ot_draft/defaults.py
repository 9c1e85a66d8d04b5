"""Defaults shared by the library and its commands, without heavy imports."""

from dataclasses import dataclass

MAX_TOKENS = 64  # new tokens per prompt
SEED = 0
DTYPE, DEVICE = "float32", "cpu"
BACKEND = "auto"  # chosen by the target and by what is installed: `resolve` of `ot_draft/decoding/backends.py`
PATHS, LENGTH = 4, 4  # draft paths, and their tokens
TRACE_ROWS = 10_000  # max. stored pairs of distributions
# Max. draft tokens, and max. n-gram length: of prompt lookup alone, and with other drafts.
LOOKUP, AUTO_LOOKUP = (10, 2), (16, 3)


@dataclass(frozen=True)
class SamplingFields:
    """Fields of `SamplingParams`, whose methods need torch. By default, all tokens are kept."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
