"""Lossless selection along whole drafted paths: path rules, ways to draft trees, and their exact check."""

from . import drafting, rules
from .drafting.adaptive import AdaptiveTree
from .drafting.baselines import StoppedPath
from .drafting.counted import CountedTree, LookupTree
from .drafting.drafter import TreeDrafter
from .drafting.fixed import FixedTree
from .evaluation.batched_form import batched_form
from .evaluation.best_shapes import FastestTree, acceptance_by_child, expected_accepted, fastest_tree, sequoia
from .evaluation.evaluate import evaluate
from .evaluation.program import cap_bound, path_bound, tree_program_bound
from .evaluation.wall_clock import Costs, plan
from .model import MarkovModel
from .rules.block_verification import BlockVerification
from .rules.joint import Joint
from .rules.path_rule import PathRule
from .rules.token_wise import NaivePath, TokenWise
from .rules.toward_path import TowardPath
from .rules.traversal import Traversal
from .tree import DraftTree, TreeShape

__all__ = [
    "AdaptiveTree",
    "BlockVerification",
    "Costs",
    "CountedTree",
    "DraftTree",
    "FastestTree",
    "FixedTree",
    "Joint",
    "LookupTree",
    "MarkovModel",
    "NaivePath",
    "PathRule",
    "StoppedPath",
    "TokenWise",
    "TowardPath",
    "Traversal",
    "TreeDrafter",
    "TreeShape",
    "acceptance_by_child",
    "batched_form",
    "cap_bound",
    "drafting",
    "evaluate",
    "evaluation",
    "expected_accepted",
    "fastest_tree",
    "model",
    "path_bound",
    "plan",
    "rules",
    "sequoia",
    "tree",
    "tree_program_bound",
]
