"""What a selection rule is, and what it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from . import arrays as xp
from .arrays import Array
from .errors import InvalidArgument
from .laws import IID, DraftLaw
from .problem import Problem


@dataclass(frozen=True)
class Selection:
    """What a rule decides, given the drafts.

    accept:   (..., k) probability that the output is draft position i. The entries of a row sum to at most 1.
    residual: (..., n) law of the output when no draft is taken. May be broadcast (fewer leading axes than accept).
    """

    accept: Array
    residual: Array

    def output(self, drafts: Array) -> Array:
        """Law of the output given the drafts: (..., k) -> (..., n), sum_i accept_i [x_i = y] + (1 - sum accept) residual."""
        taken = xp.spread(self.accept, drafts, self.residual.shape[-1])
        residual = xp.broadcast(self.residual, (*xp.batch_shape(taken, self.residual), self.residual.shape[-1]))
        return taken + (1 - xp.total(self.accept)) * residual


class SelectionRule(ABC):
    """A selection rule: a function of (p, q, drafts), and the draft law under which it keeps the target's law.

    A rule of your own is this class with a `law` and one method; `ot.evaluate(rule, problem)` then says exactly whether it
    is valid. The arrays are trusted (`ot.Problem` validates them); they must not be changed.
    """

    law: DraftLaw
    # What the rule promises beyond validity, for `ot.check_rule`: "maximal", "optimal", "kseq_bound", "cover".
    claims: tuple[str, ...] = ()
    # Whether a program is solved for every pair (p, q): on the host, for small vocabularies.
    solves: ClassVar[bool] = False
    # Whether one pair may take seconds, so that the rule is compared only where it is named.
    slow: ClassVar[bool] = False
    # Whether nodes with the same tokens before them may have different numbers of drafts: the rule does not use the number.
    any_number: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        """A formula holds for the call it was written for: a subclass with a call of its own does not inherit it."""
        super().__init_subclass__(**options)
        if "__call__" in vars(cls) and "closed_form" not in vars(cls):
            cls.closed_form = SelectionRule.closed_form  # type: ignore[method-assign]

    @abstractmethod
    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        """p, q: (..., n) target and draft distributions; drafts: int (..., k) token ids, -1 for an absent draft."""

    @property
    def budget(self) -> tuple[str, Any] | None:
        """How far the output law may be from p: the name of a divergence and its bound; None for a rule that is lossless."""
        return None

    def kept_law(self, p: Array, q: Array, k: int) -> Array:
        """The law that the output must have with k draft positions: p, but for a rule that is lossy on purpose. (..., n)."""
        return p

    def toward(self, target: Any, p: Array, q: Array, drafts: Array) -> Selection:
        """What the rule decides for target(p, q, k, law) in the place of p, (..., n): `Toward` asks it."""
        return self(target(p, q, drafts.shape[-1], self.law), q, drafts)

    @property
    def name(self) -> str:
        """Name in tables and figures."""
        return type(self).__name__

    @property
    def label(self) -> str:
        """Name in the words of a text."""
        return self.name

    def valid_under(self, law: DraftLaw, k: int) -> bool:
        """Whether the output keeps the target's law when k drafts follow this law: here, where it is the rule's own."""
        return law == self.law or law.plain(k) == self.law.plain(k)

    def under(self, law: DraftLaw) -> SelectionRule | None:
        """The rule for drafts of another law, whatever their number; None where there is none."""
        return self if law == self.law else None

    def quick(self, law: DraftLaw) -> SelectionRule:
        """The rule as decoding under the law runs it: losing a little acceptance where that saves time."""
        return self

    def merges(self, law: DraftLaw) -> bool:
        """Whether the drafts of all nodes that hold the same tokens make one list for the rule."""
        return isinstance(law, IID)

    @property
    def takes_tops(self) -> bool:
        """Whether fixed tokens and draws outside them may be given apart, with draws of several nodes: `select_beside`."""
        return type(self).select_beside is not SelectionRule.select_beside

    def select_beside(self, p: Array, q: Array, tops: Array, draws: Array) -> tuple[Array, Selection]:
        """All drafts (..., j + r), and the selection among them; tops: (..., j) fixed ones; draws: (..., r), of any number."""
        drafts = xp.concatenate((tops, draws))
        return drafts, self(p, q, drafts)

    def closed_form(self, problem: Problem, optimum: Array | None = None) -> tuple[Array, Array] | None:
        """(accepted, taken), (...) each, when k >= 1 drafts follow problem.law; None where no formula is known.

        accepted: probability that the output is a drafted token, whichever way it got there; taken: that the rule takes a draft.
        Exact on Fractions. optimum: (...) of the problem, where the caller knows it.
        """
        return None

    def program_seconds(self, q: Array, k: int) -> float:
        """How long the linear program takes that the rule solves for drafts from q (n,), by its size; 0 where it solves none."""
        return 0.0


def checked(given: Any, p: Array, drafts: Array) -> Selection:
    """What a rule gave for p (..., n) and drafts (..., k). Raises InvalidArgument where that is no selection of these shapes."""
    n, k = p.shape[-1], drafts.shape[-1]
    parts = (given.accept, given.residual) if isinstance(given, Selection) else ()
    of_kind = [type(x) is type(p) and (xp.is_torch(x) or x.dtype.kind in "fiuO") for x in parts]
    if parts and all(of_kind) and [tuple(x.shape[-1:]) for x in parts] == [(k,), (n,)]:
        return given
    seen = ", ".join(
        f"{type(x).__name__} {tuple(getattr(x, 'shape', ()))} {getattr(x, 'dtype', '')}".rstrip() for x in parts
    )
    raise InvalidArgument(
        f"the rule gave {seen or type(given).__name__}: give ot.Selection(accept, residual) of numbers (..., {k}) and (..., {n}),"
        f" {type(p).__module__.split('.')[0]} arrays as p is"
    )


def with_fields(thing: Any) -> str:
    """A rule's or target's name with what it was given, `KL(0.02)`: numbers in short, no law, and nothing that is None."""
    values = (getattr(thing, field.name) for field in fields(thing) if field.name != "law")
    shown = (value if isinstance(value, str) else f"{float(value):g}" for value in values if value is not None)
    return f"{type(thing).__name__}({', '.join(shown)})"


def in_turn(take: Array) -> Array:
    """accept of a rule that goes through the drafts in order and takes draft i with probability take_i: (..., k) -> (..., k)."""
    accept = take + 0  # a copy
    if take.shape[-1] > 1:
        accept[..., 1:] *= (1 - take[..., :-1]).cumprod(-1)
    return accept


def first_time(drafts: Array) -> Array:
    """Whether a draft is present and no earlier position holds the same token: int (..., k) -> bool (..., k)."""
    index = xp.positions(drafts.shape[-1], drafts)
    earlier = (drafts[..., :, None] == drafts[..., None, :]) & (index[:, None] > index)
    return (drafts >= 0) & ~earlier.any(-1)
