"""Choice of the drafting of each step from the past only, so that the output keeps the target distribution.

A step emits tokens of the target distribution given the sequence before it, whatever was decided before its random numbers are drawn. A
decision that depends on them, or on the drafts, would prefer some outcomes of the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from .drafting import Drafting
from .pair import Pair
from .prompt_lookup import History
from .step import Step


class PolicySettings(Protocol):
    """Argument of `decode`: settings that make the policy of a run, such as `Auto`. A `Policy` is its own policy."""

    @property
    def uses_clock(self) -> bool:
        """Whether choices depend on measured times, too."""
        return False

    def begin(self, pair: Pair, batch: int) -> Policy:
        """Return the policy for one run of these models on a batch of this size."""


class Policy(PolicySettings, Protocol):
    """Choice of the drafting of every step: a `Drafting`, the same in all steps, or a class of your own.

    Attributes
    ----------
    candidates : sequence of Drafting
        All draftings that it may choose.
    """

    if TYPE_CHECKING:  # a property here could not be replaced by an attribute

        @property
        def candidates(self) -> Sequence[Drafting]:
            """All draftings that it may choose; memory is taken for the largest one."""

    def begin(self, pair: Pair, batch: int) -> Policy:
        return self

    def choose(self, texts: History) -> Drafting:
        """Return the drafting of the next step, given the sequences so far.

        A step whose drafts do not fit into a model's context drafts nothing instead.
        """

    def observe(self, step: Step, seconds: float) -> None:
        """Learn from a step and its duration, including all overhead."""
