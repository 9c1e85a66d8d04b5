"""Defaults shared by the library and its commands, without heavy imports."""

TEMPERATURE, TOP_K, TOP_P, MIN_P = 1.0, 0, 1.0, 0.0  # the last three: all tokens are kept
MAX_TOKENS, SEED = 64, 0  # of a text
DTYPE, DEVICE = "float32", "cpu"
BACKEND = "auto"  # chosen by the target and by what is installed: `resolve` of `ot_draft/decoding/backends.py`
PATHS, LENGTH = 4, 4  # drafted paths, and their tokens
CHAIN_LENGTH = 8  # of the path that a chain of three models drafts
RULE = "joint"
TRACE_KEPT, TRACE_ROWS = 224, 10_000  # tokens stored per distribution, and max. stored pairs of distributions
# Max. looked-up tokens, and max. n-gram length: of prompt lookup alone, and with other drafts.
LOOKUP, AUTO_LOOKUP = (10, 2), (16, 3)
