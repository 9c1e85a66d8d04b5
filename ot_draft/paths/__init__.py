"""Lossless selection along whole drafted paths: path rules, ways to draft trees, and their exact check."""

from . import drafting, rules
from .drafting.adaptive import AdaptiveTree
from .drafting.baselines import ConfidentTree, SampledTree, StoppedPath
from .drafting.counted import CountedTree
from .drafting.counted_acceptance import CountedAcceptance, LookedUpAcceptance, PairAcceptance
from .drafting.drafter import TreeDrafter
from .drafting.fixed import FixedTree, first_chains
from .drafting.growing import Growing, Grown, TreeDraws
from .drafting.lookup import LookupPath, LookupTree
from .drafting.shapes import acceptance_by_child, expected_accepted, sequoia
from .drafting.stepwise import Expansion, Stepwise
from .exact.certificate import PathCertificate
from .exact.evaluate import PathEvaluation, evaluate
from .exact.program import PathBound, path_bound
from .exact.survival import survival
from .exact.tree_program import cap_bound, tree_program_bound
from .model import MarkovModel, Model
from .plain import PlainTree
from .rules.block_verification import BlockVerification
from .rules.joint import Joint
from .rules.naive_path import NaivePath
from .rules.path_rule import PathRule
from .rules.token_wise import TokenWise
from .rules.toward_path import TowardPath
from .rules.traversal import Traversal
from .simulation.budget import WAYS, BudgetRun, best_by_level, covered, simulate_budget
from .simulation.models import SimulatedModel
from .simulation.run import Simulation, drafted_trees, simulate, simulate_all, simulate_chains
from .simulation.wall_clock import Costs, Efficiency, InvalidCosts, Planned, plan
from .tree import DraftTree, PathSelection, TreeBounds, TreeShape

__all__ = [
    "WAYS",
    "AdaptiveTree",
    "BlockVerification",
    "BudgetRun",
    "ConfidentTree",
    "Costs",
    "CountedAcceptance",
    "CountedTree",
    "DraftTree",
    "Efficiency",
    "Expansion",
    "FixedTree",
    "Growing",
    "Grown",
    "InvalidCosts",
    "Joint",
    "LookedUpAcceptance",
    "LookupPath",
    "LookupTree",
    "MarkovModel",
    "Model",
    "NaivePath",
    "PairAcceptance",
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
    "Stepwise",
    "StoppedPath",
    "TokenWise",
    "TowardPath",
    "Traversal",
    "TreeBounds",
    "TreeDrafter",
    "TreeDraws",
    "TreeShape",
    "acceptance_by_child",
    "best_by_level",
    "cap_bound",
    "covered",
    "drafted_trees",
    "drafting",
    "evaluate",
    "expected_accepted",
    "first_chains",
    "path_bound",
    "plan",
    "rules",
    "sequoia",
    "simulate",
    "simulate_all",
    "simulate_budget",
    "simulate_chains",
    "survival",
    "tree_program_bound",
]
