"""Who says what is drafted in the next step: it sees the past only, so that the texts keep the target's law.

A step brings tokens of the target's law given the text before it, whatever was decided before its random numbers are
drawn. A decision by them, or by what they drafted, would be another thing: it would prefer some outcomes of the step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .lookup import Lookup, Match

Drafting = Any  # of `draft_plan`, which imports this module
Step = Any  # of `step`, which imports `draft_plan`


@dataclass(frozen=True)
class Run:
    """What is known when decoding begins. batch: number of texts; room: tokens that a draft may have beyond the text, None: any
    number; max_tokens: a text. pair: the models."""

    batch: int
    room: int | None
    max_tokens: int
    pair: Any


class Chooser(ABC):
    """Chooses the drafting of every step of one run. menu: all that it may choose; memory is taken for the largest."""

    menu: tuple[Drafting, ...]

    @abstractmethod
    def choose(self, texts: Sequence[Sequence[int]]) -> Drafting:
        """For the next step of the batch, given its texts so far, prompts included."""

    def found(self, lookup: Lookup, texts: Sequence[Sequence[int]]) -> Sequence[Match]:
        """What prompt lookup finds in the texts that `choose` was last asked about; searched again by those alone who did not search."""
        return [lookup.find(text) for text in texts]

    def learn(self, step: Step, seconds: float) -> None:
        """What a step did, and how long it took with all that belongs to it."""


class Plan(Protocol):
    """What is decoded by: one drafting, or many among which the run itself chooses."""

    def begin(self, run: Run) -> Chooser:
        """Who chooses in a run that begins."""

    def without_clock(self) -> Plan | None:
        """Itself if it chooses by the texts alone, None if by measured times too."""


class Always(Chooser):
    """One drafting in every step."""

    def __init__(self, drafting: Drafting) -> None:
        self.menu = (drafting,)

    def choose(self, texts: Sequence[Sequence[int]]) -> Drafting:
        return self.menu[0]
