"""List of the figures, and the folder of each script."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType

from ot_draft.names import lookup

# In the order of the report.
GROUPS = {
    "SpecTr": (
        "trees.spectr_table_1",
        "trees.spectr_real",
        "acceptance.acceptance_bernoulli",
        "selection.transport_plans",
        "selection.division_factor",
        "selection.k_seq_share",
        "speed.run_time",
    ),
    "MCSD": ("selection.multi_candidate", "acceptance.acceptance_real"),
    "Theory": (
        "laws.without_replacement",
        "selection.construction",
        "selection.khisti_figure_2",
        "acceptance.acceptance_random",
        "selection.list_level",
        "selection.watermarks",
        "laws.hybrid",
        "laws.several_drafts",
        "acceptance.lossy",
    ),
    "Trees": ("trees.block_efficiency", "trees.path_gap", "trees.lossy_paths", "trees.decoding_tree"),
    "Real models": (
        "acceptance.real_kinds",
        "acceptance.real_quality",
        "laws.draft_laws",
        "acceptance.temperature",
        "acceptance.truncation",
        "trees.real_trees",
    ),
    "Speed": ("speed.classes", "speed.latency"),
}
PAPERS = ("SpecTr", "MCSD")  # groups of `make reproduce`
TIMED = ("speed.run_time", "speed.classes")  # computed last
SCRIPTS = (*(module for group in GROUPS.values() for module in group if module not in TIMED), *TIMED)
MODULES = {module.rpartition(".")[2]: module for module in SCRIPTS}
NAMES = tuple(MODULES)
BY_GROUP = {title: tuple(module.rpartition(".")[2] for module in group) for title, group in GROUPS.items()}


def named(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the figures of these names and groups, all if empty, in the order of computation. Raises InvalidArgument."""
    known = {name: (name,) for name in NAMES} | BY_GROUP
    chosen = {name for text in texts for name in lookup(text, known, "NAMES")}
    return tuple(name for name in NAMES if name in chosen or not texts)


def script(name: str) -> ModuleType:
    """Return the script of a figure, with `compute`, `draw`, `numbers` and ABOUT."""
    return importlib.import_module(f"figures.{MODULES[name]}")
