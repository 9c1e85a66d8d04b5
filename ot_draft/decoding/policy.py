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

    def begin(self, pair: Pair, batch: int) -> Policy:
        """Return the policy for one run of these models on a batch of this size."""
        return self

    def choose(self, texts: History) -> Drafting:
        """Return the drafting of the next step, given the sequences so far.

        A step whose drafts do not fit into a model's context drafts nothing instead.
        """

    def observe(self, step: Step, seconds: float) -> None:
        """Take in what a step did, and how long it took with all that belongs to it."""
