"""Lossless selection along whole drafted paths: path rules, models to try them on, and their exact check."""

from .block_verification import BlockVerification
from .budget import WAYS, Drafted, simulate_budget
from .drafting import draft_tree, draft_trees, first_chains
from .dynamic_trees import StoppingRule, confident_tree, covered, sampled_tree
from .exact import PathEvaluation, evaluate, evaluate_tree
from .joint import Joint
from .model import MarkovModel, Model
from .naive_target import NaiveTarget
from .path_certificate import PathCertificate
from .path_program import PathBound, path_bound
from .path_rule import PathRule
from .plain import PlainTree
from .shapes import acceptance_by_child, expected_accepted, sequoia
from .simulated_model import SimulatedModel
from .simulator import Simulation, simulate, simulate_all, simulate_chains
from .token_wise import TokenWise
from .traversal import Traversal
from .tree import DraftTree, PathSelection, TreeShape
from .wall_clock import Costs, Efficiency, InvalidCosts, Planned, plan

__all__ = [
    "WAYS",
    "BlockVerification",
    "Costs",
    "DraftTree",
    "Drafted",
    "Efficiency",
    "InvalidCosts",
    "Joint",
    "MarkovModel",
    "Model",
    "NaiveTarget",
    "PathBound",
    "PathCertificate",
    "PathEvaluation",
    "PathRule",
    "PathSelection",
    "PlainTree",
    "Planned",
    "SimulatedModel",
    "Simulation",
    "StoppingRule",
    "TokenWise",
    "Traversal",
    "TreeShape",
    "acceptance_by_child",
    "confident_tree",
    "covered",
    "draft_tree",
    "draft_trees",
    "evaluate",
    "evaluate_tree",
    "expected_accepted",
    "first_chains",
    "path_bound",
    "plan",
    "sampled_tree",
    "sequoia",
    "simulate",
    "simulate_all",
    "simulate_budget",
    "simulate_chains",
]
