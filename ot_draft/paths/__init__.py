"""Lossless selection along whole drafted paths: path rules, models to try them on, and their exact check."""

from . import rules
from .drafting.adaptive import AdaptiveTree
from .drafting.budget import WAYS, Drafted, best_by_level, simulate_budget
from .drafting.confident import ConfidentTree
from .drafting.counted import CountedAcceptance, LookedUpAcceptance
from .drafting.counted_tree import CountedTree
from .drafting.dynamic import StoppingRule, confident_tree, covered, sampled_tree
from .drafting.dynamic_called import DYNAMIC_TREES, dynamic_tree
from .drafting.dynamic_tree import DynamicTree, Growing, Grown, TreeDraws
from .drafting.lookup_tree import LookupTree
from .drafting.plans import Expansion
from .drafting.sampled import SampledTree
from .drafting.shapes import acceptance_by_child, expected_accepted, sequoia
from .drafting.stopped import StoppedPath
from .drafting.trees import draft_tree, draft_trees, first_chains
from .exact.adapted import evaluate_plan
from .exact.certificate import PathCertificate
from .exact.dynamic import evaluate_dynamic
from .exact.evaluate import PathEvaluation, evaluate, evaluate_tree
from .exact.program import PathBound, path_bound
from .exact.survival import survival
from .exact.tree_program import cap_bound, tree_program_bound
from .model import MarkovModel, Model
from .plain import PlainTree
from .rules.block_verification import BlockVerification
from .rules.joint import Joint
from .rules.naive_target import NaiveTarget
from .rules.path_rule import PathRule
from .rules.token_wise import TokenWise
from .rules.toward import Toward
from .rules.traversal import Traversal
from .simulation.models import SimulatedModel
from .simulation.run import Simulation, simulate, simulate_all, simulate_chains
from .simulation.wall_clock import Costs, Efficiency, InvalidCosts, Planned, plan
from .tree import DraftTree, FreeShape, PathSelection, TreeShape

__all__ = [
    "DYNAMIC_TREES",
    "WAYS",
    "AdaptiveTree",
    "BlockVerification",
    "ConfidentTree",
    "Costs",
    "CountedAcceptance",
    "CountedTree",
    "DraftTree",
    "Drafted",
    "DynamicTree",
    "Efficiency",
    "Expansion",
    "FreeShape",
    "Growing",
    "Grown",
    "InvalidCosts",
    "Joint",
    "LookedUpAcceptance",
    "LookupTree",
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
    "SampledTree",
    "SimulatedModel",
    "Simulation",
    "StoppedPath",
    "StoppingRule",
    "TokenWise",
    "Toward",
    "Traversal",
    "TreeDraws",
    "TreeShape",
    "acceptance_by_child",
    "best_by_level",
    "cap_bound",
    "confident_tree",
    "covered",
    "draft_tree",
    "draft_trees",
    "dynamic_tree",
    "evaluate",
    "evaluate_dynamic",
    "evaluate_plan",
    "evaluate_tree",
    "expected_accepted",
    "first_chains",
    "path_bound",
    "plan",
    "rules",
    "sampled_tree",
    "sequoia",
    "simulate",
    "simulate_all",
    "simulate_budget",
    "simulate_chains",
    "survival",
    "tree_program_bound",
]
