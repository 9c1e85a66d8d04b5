"""What a selection rule is, and what it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from . import arrays as xp
from .arrays import Array
from .errors import InvalidArgument
from .laws import DraftLaw, Fact, canonical
from .problem import Problem, check_plain

__all__ = ["ClosedForm", "Selection", "SelectionRule", "approximate_for", "with_fields"]


@dataclass(frozen=True)
class Selection:
    """A rule's decision, given the drafts.

    Parameters
    ----------
    accept : array of shape (..., k)
        Probability that the output is the draft at each position. The entries of a row sum to at most 1.
    residual : array of shape (..., n)
        Distribution of the output if no draft is taken. It may have fewer leading axes than accept.

    Examples
    --------
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> selection = otd.Selection(accept=np.array([0.75]), residual=np.array([0.0, 1.0]))
    >>> selection.output(np.array([0])).tolist()
    [0.75, 0.25]
    """

    accept: Array
    residual: Array

    def output(self, drafts: Array) -> Array:
        """Return the distribution of the output given the drafts.

        Parameters
        ----------
        drafts : int array of shape (..., k)
            Token ids, -1 for an absent draft.

        Returns
        -------
        output : array of shape (..., n)
            ``sum_i accept_i [x_i = y] + (1 - sum accept) residual``.
        """
        taken = xp.scatter_add(self.accept, drafts, self.residual.shape[-1])
        residual = xp.broadcast_to(self.residual, (*xp.batch_shape(taken, self.residual), self.residual.shape[-1]))
        return taken + (1 - self.accept.sum(-1, keepdims=True)) * residual


@dataclass(frozen=True)
class Cost:
    """Costs of a rule in addition to arithmetic on the vocabulary.

    solves_program: whether a program is solved for every pair (p, q), on the host, for small vocabularies. plans_on_host: whether it
    plans for every pair on the host in another way. slow: whether one pair may take seconds, so that the rule is compared only where it is
    named. seconds: of the linear program for drafts from q (n,) and k, by its size.
    """

    solves_program: bool = False
    plans_on_host: bool = False
    slow: bool = False
    seconds: Callable[[Array, int], float] = field(default=lambda q, k: 0.0, compare=False, repr=False)

    @property
    def on_host(self) -> bool:
        """Whether it computes on the host, from values, wherever the arrays are."""
        return self.solves_program or self.plans_on_host


@dataclass(frozen=True)
class Siblings:
    """Ways in which a rule takes the children of a tree's nodes.

    valid_under: facts of a law that suffice for the output to keep the target's law, beside the rule's own law; None where it is valid
    under its own only. any_number: whether nodes with the same tokens before them may have different numbers of drafts, because the rule
    does not use the number. any_lists: whether the drafts of all nodes that hold the same tokens make one list under every law; i.i.d.
    drafts do for every rule.
    """

    valid_under: Fact | None = None
    any_number: bool = False
    any_lists: bool = False


class SelectionRule(ABC):
    """A selection rule: a function of (p, q, drafts), and the draft law under which it keeps the target's law.

    A rule of your own is this class with a `law` and one method; `otd.evaluate(rule, problem)` then says exactly whether it
    is valid. The arrays are trusted (`otd.Problem` validates them); they must not be changed. A call raises InvalidDistribution for tensors
    that require a gradient; for training there is `otd.losses`.
    """

    law: DraftLaw
    # What the rule promises beyond validity, for `otd.check_rule`: "maximal", "optimal", "kseq_bound", "cover".
    claims: tuple[str, ...] = ()
    cost: Cost = Cost()
    siblings: Siblings = Siblings()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if call := vars(cls).get("__call__"):
            cls.__call__ = _of_constants(call)  # type: ignore[method-assign]

    @abstractmethod
    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        """p, q: (..., n) target and draft distributions; drafts: int (..., k) token ids, -1 for an absent draft."""

    def closed_form(self, problem: Problem, optimum: Array | None = None) -> ClosedForm | None:
        """(accepted, taken), (...) each, when k >= 1 drafts follow problem.law; None where no formula is known.

        accepted: probability that the output is a drafted token, whichever way it got there; taken: that the rule takes a draft.
        Exact on Fractions. optimum: (...) of the problem, where the caller knows it. The formula stands with the call: `with_closed_form`.
        """
        form = getattr(type(self).__call__, "closed_form", None)
        return None if form is None else form(self, problem, optimum)

    @property
    def name(self) -> str:
        """Name in tables and figures."""
        return type(self).__name__


def _of_constants(call: Callable[..., Selection]) -> Callable[..., Selection]:
    """The call of a rule, for arrays without a gradient: not every rule could give one."""

    @wraps(call)
    def checked_call(self: SelectionRule, p: Array, q: Array, drafts: Array) -> Selection:
        check_plain(p, "p")
        check_plain(q, "q")
        return call(self, p, q, drafts)

    return checked_call


ClosedForm = tuple[Array, Array]
Call = TypeVar("Call", bound=Callable[..., Selection])


def with_closed_form(form: Callable[..., ClosedForm | None]) -> Callable[[Call], Call]:
    """A decorator that gives a rule's call the formula of its acceptance, form(self, problem, optimum).

    It holds for this call alone: a subclass with a call of its own has none, or gives its own.
    """

    def mark(call: Call) -> Call:
        setattr(call, "closed_form", form)  # noqa: B010  # functions have no such attribute for the type checker
        return call

    return mark


@runtime_checkable
class SiblingRule(Protocol):
    """A rule to which fixed tokens and draws outside them may be given apart, with draws of several nodes."""

    def select_siblings(self, p: Array, q: Array, fixed: Array, draws: Array) -> tuple[Array, Selection]:
        """All drafts (..., j + r), and the selection among them; fixed: (..., j) fixed tokens; draws: (..., r), of any number."""


@runtime_checkable
class RuleOfLaws(Protocol):
    """A rule that is valid under several draft laws, each in a form of its own."""

    def under(self, law: DraftLaw) -> SelectionRule | None:
        """The rule for drafts of another law, whatever their number; None where there is none."""


@runtime_checkable
class LossyRule(Protocol):
    """A rule that is lossy on purpose."""

    @property
    def budget(self) -> tuple[str, Any] | None:
        """Bound of the output law's distance from p: the name of a divergence and its bound; None where nothing bounds it."""

    def target_kept(self, p: Array, q: Array, k: int) -> Array:
        """The law that the output has in the place of p, with k draft positions: (..., n)."""


@runtime_checkable
class Retargetable(Protocol):
    """A rule that selects for another target quicker than by writing that target's law out."""

    def toward(self, target: Any, p: Array, q: Array, drafts: Array) -> Selection:
        """The selection for target(p, q, k, law) in the place of p, (..., n)."""


@runtime_checkable
class Approximable(Protocol):
    """A rule, of tokens or of paths, that decoding runs in a quicker form, which loses a little acceptance."""

    def approximate_for(self, law: DraftLaw) -> Any:
        """The quicker form, for drafts of this law."""


def under(rule: SelectionRule, law: DraftLaw) -> SelectionRule | None:
    """The rule for drafts of another law, whatever their number; None where there is none."""
    if isinstance(rule, RuleOfLaws):
        return rule.under(law)
    return rule if law == rule.law else None


def target_kept(rule: SelectionRule, p: Array, q: Array, k: int) -> Array:
    """The law that the output must have with k draft positions: p, but for a rule that is lossy on purpose. (..., n)."""
    return rule.target_kept(p, q, k) if isinstance(rule, LossyRule) else p


def valid_under(rule: SelectionRule, law: DraftLaw, k: int) -> bool:
    """Whether the output keeps the target's law when k drafts follow this law."""
    enough = rule.siblings.valid_under
    return (
        law == rule.law or canonical(law, k) == canonical(rule.law, k) or (enough is not None and enough in law.facts)
    )


Rule = TypeVar("Rule")


def approximate_for(rule: Rule, law: DraftLaw) -> Rule:
    """The rule as decoding under the law runs it: losing a little acceptance where that saves time."""
    return cast(Rule, rule.approximate_for(law)) if isinstance(rule, Approximable) else rule


def check_callable(rule: Any) -> None:
    """Refuse a rule that cannot be called, and a class in the place of a rule: InvalidArgument."""
    if isinstance(rule, type) or not callable(rule):
        raise InvalidArgument(f"rule is {rule!r}: give a rule, as otd.rules.KSeq()")


def checked(given: Any, p: Array, drafts: Array) -> Selection:
    """The selection given for p (..., n) and drafts (..., k). Raises InvalidArgument where it is no selection of these shapes."""
    n, k = p.shape[-1], drafts.shape[-1]
    parts = (given.accept, given.residual) if isinstance(given, Selection) else ()
    of_kind = [type(x) is type(p) and (xp.is_torch(x) or x.dtype.kind in "fiuO") for x in parts]
    if parts and all(of_kind) and [tuple(x.shape[-1:]) for x in parts] == [(k,), (n,)]:
        return given
    seen = ", ".join(
        f"{type(x).__name__} {tuple(getattr(x, 'shape', ()))} {getattr(x, 'dtype', '')}".rstrip() for x in parts
    )
    raise InvalidArgument(
        f"the rule gave {seen or type(given).__name__}: give otd.Selection(accept, residual) of numbers (..., {k}) and (..., {n}),"
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
    index = xp.arange(drafts.shape[-1], like=drafts)
    earlier = (drafts[..., :, None] == drafts[..., None, :]) & (index[:, None] > index)
    return (drafts >= 0) & ~earlier.any(-1)
