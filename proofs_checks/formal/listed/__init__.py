"""The theorems that Coq has checked: which file, which names, what they say, whose they are. The order is that of reading."""

from .along_paths import ALONG_PATHS
from .computed import COMPUTED
from .one_token import ONE_TOKEN
from .theorem import Planted, Theorem

__all__ = ["FILES", "THEOREMS", "Planted", "Theorem"]

THEOREMS = (*ONE_TOKEN, *ALONG_PATHS, *COMPUTED)
FILES = tuple(dict.fromkeys(theorem.file for theorem in THEOREMS))
