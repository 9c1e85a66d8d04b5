"""Drafting as a plan: what is drafted next, decided from all that was drafted so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..model import Path


class Expansion(NamedTuple):
    """Children drafted after a prefix: the tokens that were fixed, and then those that were drawn, i.i.d. from q outside them."""

    prefix: Path
    fixed: Path
    drawn: Path


History = tuple[Expansion, ...]
# What is drafted next, given all that was drafted so far: prefix, fixed tokens, number of draws. None: nothing more.
# `Joint` and `TokenWise(Optimal())` are lossless on its trees if it names no prefix twice (proofs_checks/paths/adapted_trees.py).
Plan = Callable[[History], tuple[Path, Path, int] | None]
