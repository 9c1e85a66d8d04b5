"""Who chooses what is drafted in a step: by the past only, so that the texts keep the target's law.

A step brings tokens of the target's law given the text before it, whatever was decided before its random numbers are
drawn. A decision by them, or by what they drafted, would be another thing: it would prefer some outcomes of the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from .drafting import Drafting
from .pair import Pair
from .prompt_lookup import History
from .step import Step


class Policy(Protocol):
    """Chooses the drafting of every step: `Drafting`, the same in all, and `Auto`, what promises most; or one of your own."""

    if TYPE_CHECKING:  # else an attribute could not take its place

        @property
        def menu(self) -> Sequence[Drafting]:
            """All that it may choose; memory is taken for the largest."""

    @property
    def uses_clock(self) -> bool:
        """Whether choices depend on measured times too, and not on the texts alone."""
        return False

    def begin(self, pair: Pair, batch: int, room: int | None) -> Policy:
        """The same for one run of these models on so many texts. room: tokens that a draft may have beyond the text, None: any number."""
        return self

    def choose(self, texts: History) -> Drafting:
        """For the next step of the batch, given its texts so far."""

    def observe(self, step: Step, seconds: float) -> None:
        """Take in what a step did, and how long it took with all that belongs to it."""
