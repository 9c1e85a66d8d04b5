"""Lossless selection along whole drafted paths: path rules, models to try them on, and their exact check."""

from .block_verification import BlockVerification
from .exact import PathEvaluation, evaluate
from .joint import Joint
from .model import MarkovModel, Model
from .path_rule import PathRule
from .token_wise import TokenWise
from .traversal import Traversal

__all__ = [
    "BlockVerification",
    "Joint",
    "MarkovModel",
    "Model",
    "PathEvaluation",
    "PathRule",
    "TokenWise",
    "Traversal",
    "evaluate",
]
