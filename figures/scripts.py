"""Which figures there are, and in which folder the script of each lies: told here, once."""

from __future__ import annotations

import importlib
from types import ModuleType

# Run times first, before the other figures warm the machine; in the report they come last.
SCRIPTS = (
    "speed.run_time",
    "speed.classes",
    "selection.construction",
    "selection.transport_plans",
    "selection.khisti_figure_2",
    "acceptance.acceptance_bernoulli",
    "acceptance.acceptance_random",
    "acceptance.acceptance_real",
    "selection.division_factor",
    "selection.k_seq_share",
    "selection.list_level",
    "acceptance.real_kinds",
    "acceptance.real_quality",
    "selection.multi_candidate",
    "laws.draft_laws",
    "laws.hybrid",
    "laws.without_replacement",
    "laws.several_drafts",
    "acceptance.temperature",
    "acceptance.truncation",
    "acceptance.lossy",
    "paths.block_efficiency",
    "paths.spectr_table_1",
    "paths.spectr_real",
    "paths.real_trees",
    "speed.latency",
    "paths.path_gap",
    "paths.lossy_paths",
    "paths.decoding_tree",
)
MODULES = {module.rpartition(".")[2]: module for module in SCRIPTS}
NAMES = tuple(MODULES)


def script(name: str) -> ModuleType:
    """The script of a figure: its `compute`, `draw`, `numbers` and ABOUT."""
    return importlib.import_module(f"figures.{MODULES[name]}")
