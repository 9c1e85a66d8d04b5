"""Which figures there are, and in which folder the script of each lies: told here, once."""

from __future__ import annotations

import importlib
from types import ModuleType

# In the order of the report.
GROUPS = {
    "SpecTr": (
        "paths.spectr_table_1",
        "paths.spectr_real",
        "acceptance.acceptance_bernoulli",
        "selection.transport_plans",
        "selection.division_factor",
        "selection.k_seq_share",
    ),
    "MCSD": ("selection.multi_candidate", "laws.without_replacement"),
    "Theory": (
        "selection.construction",
        "selection.khisti_figure_2",
        "acceptance.acceptance_random",
        "selection.list_level",
        "selection.watermarks",
        "laws.hybrid",
        "laws.several_drafts",
        "acceptance.lossy",
    ),
    "Paths": ("paths.block_efficiency", "paths.path_gap", "paths.lossy_paths", "paths.decoding_tree"),
    "Real models": (
        "acceptance.acceptance_real",
        "acceptance.real_kinds",
        "acceptance.real_quality",
        "laws.draft_laws",
        "acceptance.temperature",
        "acceptance.truncation",
        "paths.real_trees",
    ),
    "Speed": ("speed.run_time", "speed.classes", "speed.latency"),
}
TIMED = ("speed.run_time", "speed.classes")  # made first, before the other figures warm the machine
SCRIPTS = (*TIMED, *(module for group in GROUPS.values() for module in group if module not in TIMED))
MODULES = {module.rpartition(".")[2]: module for module in SCRIPTS}
NAMES = tuple(MODULES)
BY_GROUP = {title: tuple(module.rpartition(".")[2] for module in group) for title, group in GROUPS.items()}


def script(name: str) -> ModuleType:
    """The script of a figure: its `compute`, `draw`, `numbers` and ABOUT."""
    return importlib.import_module(f"figures.{MODULES[name]}")
