"""Selection rules: the interface, and the selection that they return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import signature
from reprlib import repr as shortened
from typing import Any, TypeVar, cast

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
    named. passes: number of passes over the vocabulary in the formula for the acceptance. seconds: of the linear program for drafts from q
    (n,) and k, by its size.
    """

    solves_program: bool = False
    plans_on_host: bool = False
    slow: bool = False
    passes: int = 2
    seconds: Callable[[Array, int], float] = field(default=lambda q, k: 0.0, compare=False, repr=False)

    @property
    def on_host(self) -> bool:
        """Whether it computes on the host, from values, wherever the arrays are."""
        return self.solves_program or self.plans_on_host


@dataclass(frozen=True)
class Siblings:
    """Properties of a rule on the children of a tree's nodes.

    valid_under: facts of a draft law under which the output follows the target, in addition to the rule's own draft law; None for no other
    one. any_number: whether nodes with the same tokens before them may have different numbers of drafts, because the rule does not use the
    number. any_lists: whether the drafts of all nodes with the same tokens make one list under every draft law; i.i.d. drafts do for every
    rule. separate_fixed: whether fixed and sampled draft tokens of several nodes can be passed separately (`select_siblings`).
    """

    valid_under: Fact | None = None
    any_number: bool = False
    any_lists: bool = False
    separate_fixed: bool = False


class SelectionRule(ABC):
    """A selection rule: a function of (p, q, drafts), and the draft law under which it is lossless.

    A rule of your own is this class with a `law` and one method; `otd.evaluate(rule, problem)` then says exactly whether it
    is valid. The arrays are trusted (`otd.Problem` validates them); they must not be changed. A call raises InvalidDistribution for tensors
    that require a gradient; for training there is `otd.losses`. A rule may also have methods `under`, `approximate_for`, `target_kept`,
    `toward` and `select_siblings`, for the functions of these names.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> class Reject(otd.SelectionRule):  # rejects all draft tokens, and samples from p
    ...     law = otd.IID()
    ...
    ...     def __call__(self, p, q, drafts):
    ...         return otd.Selection(0 * otd.arrays.gather(p, drafts), p)
    >>> otd.evaluate(Reject(), otd.Problem([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], k=2)).lossless
    True
    """

    law: DraftLaw
    # Claims beyond validity, for `otd.check_rule`: "maximal", "optimal", "kseq_bound", "cover", "within_budget".
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

    It is valid for this call alone: a subclass with its own call has none, unless it gives one. The formula is an attribute of the
    function, which `wraps` copies to the wrapper in `_of_constants`.
    """

    def mark(call: Call) -> Call:
        setattr(call, "closed_form", form)  # noqa: B010  # functions have no such attribute for the type checker
        return call

    return mark


Rule = TypeVar("Rule")


def under(rule: SelectionRule, law: DraftLaw) -> SelectionRule | None:
    """Return the rule for drafts of another law, whatever their number, or None."""
    own = getattr(rule, "under", None)
    return cast("SelectionRule | None", own(law)) if own else rule if law == rule.law else None


def approximate_for(rule: Rule, law: DraftLaw) -> Rule:
    """Return the selection rule or path rule as decoding runs it, which may lose a little acceptance to save time."""
    own = getattr(rule, "approximate_for", None)
    return cast(Rule, own(law)) if own else rule


def target_kept(rule: SelectionRule, p: Array, q: Array, k: int) -> Array:
    """Return the distribution (..., n) that the output must have with k draft positions: p unless the rule is lossy on purpose."""
    own = getattr(rule, "target_kept", None)
    return own(p, q, k) if own else p


def toward(rule: SelectionRule, target: Any, p: Array, q: Array, drafts: Array) -> Selection:
    """Return the selection for the target r = target(p, q, k, law), (..., n), instead of p."""
    own = getattr(rule, "toward", None)
    if own:
        return cast(Selection, own(target, p, q, drafts))
    return rule(target(p, q, drafts.shape[-1], rule.law), q, drafts)


def select_siblings(rule: SelectionRule, p: Array, q: Array, fixed: Array, draws: Array) -> tuple[Array, Selection]:
    """Return all drafts (..., j + r) and the selection among them, by a rule with `Siblings.separate_fixed`.

    fixed: (..., j) fixed tokens. draws: (..., r) draws outside them, of several nodes, of any number.
    """
    own = getattr(rule, "select_siblings", None)
    if own:
        return cast("tuple[Array, Selection]", own(p, q, fixed, draws))
    drafts = xp.concat((fixed, draws), axis=-1)
    return drafts, rule(p, q, drafts)


def valid_under(rule: SelectionRule, law: DraftLaw, k: int) -> bool:
    """Whether the output has the target distribution if k drafts follow this draft law."""
    enough = rule.siblings.valid_under
    return (
        law == rule.law or canonical(law, k) == canonical(rule.law, k) or (enough is not None and enough in law.facts)
    )


def check_callable(rule: Any) -> None:
    """Raise InvalidArgument unless the rule can be called, and for a class."""
    if isinstance(rule, type) or not callable(rule):
        raise InvalidArgument(
            f"rule must be an instance of a selection rule, got {rule!r}. Pass for example otd.rules.KSeq()."
        )


def checked(given: Any, p: Array, drafts: Array) -> Selection:
    """Return the selection given for p (..., n) and drafts (..., k). Raises InvalidArgument unless it has these shapes."""
    n, k = p.shape[-1], drafts.shape[-1]
    parts = (given.accept, given.residual) if isinstance(given, Selection) else ()
    of_kind = [type(x) is type(p) and (xp.is_torch(x) or x.dtype.kind in "fiuO") for x in parts]
    if parts and all(of_kind) and [tuple(x.shape[-1:]) for x in parts] == [(k,), (n,)]:
        return given
    seen = ", ".join(
        f"{type(x).__name__} {tuple(getattr(x, 'shape', ()))} {getattr(x, 'dtype', '')}".rstrip() for x in parts
    )
    raise InvalidArgument(
        f"the rule must return otd.Selection(accept, residual) of numeric {type(p).__module__.split('.')[0]} arrays like p, (..., {k}) and"
        f" (..., {n}), got {seen or type(given).__name__}. Correct the return value."
    )


def with_arguments(rule: SelectionRule) -> str:
    """Return the rule's name in comparisons: with the arguments of its constructor that are stored and differ from their defaults.

    The draft law is named separately. A rule whose name is not that of its class has no arguments in it.
    """
    if rule.name != type(rule).__name__:
        return rule.name
    shown = {}
    for name, parameter in signature(type(rule)).parameters.items():
        value = getattr(rule, name, parameter.default)
        if name not in ("name", "law") and (text := _short(value)) != _short(parameter.default):
            shown[name] = text
    arguments = ", ".join(f"{name}={text}" for name, text in shown.items())
    return type(rule).__name__ + (f"({arguments})" if shown else "")


def _short(value: Any) -> str:
    """A short text for a value, without addresses: the name of a rule or function, else the start and end of its repr."""
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    if type(name) is str:
        return name
    return type(value).__name__ if " object at 0x" in repr(value) else shortened(value)


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
