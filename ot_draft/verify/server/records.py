"""Emitted tokens with their reported distributions, one at a time and as arrays: the input of every test of the audit.

A distribution is kept as its most probable tokens, and the total probability of the others. The choice of the tokens depends on the
distribution alone, never on the emitted token: otherwise their probability would not be known before the token, and no bet on them
would be fair. Single distributions are checked when they are added, and sorted and cut per block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import blake2b
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from ...arrays import Array
from ...errors import CannotAudit
from ..boundary import int_from, probability
from .grouped import BINS, hashed
from .rounding import EXACT, OFF, VOCABULARY, decimals_of, explains, log_error, relative_of, step_of

TOP = 64  # max. number of tokens of a distribution that are kept separately
LIGHT = 2.0**-10  # tokens below this probability are not among the TOP ones of a larger vocabulary, which saves sorting
NO_TOKEN = -1
MOST_IDS = 2**62  # bound on token ids (also digests of strings), positions and step offsets
UNNAMED_TOKEN = MOST_IDS - 1  # a token whose string does not identify it: it is not a listed one
UNNAMED = -(2**62)  # the sequence of a token without a name of its sequence
OVER = 0.1  # rel. excess over the least listed probability from which an unlisted token must have been omitted
LEFT_OUT = (
    "the emitted token is not in the list, although it is more probable than a listed one. List the most probable tokens, whatever was "
    "emitted"
)
_SMALL = np.arange(TOP)
NUMBERS = ("request", "position", "batch", "step_offset")  # optional keys of an entry that hold numbers or names
# Keys of an entry of a log.
ENTRY = {*NUMBERS, "token", "target_probs", "ids", "probabilities", "logprobs", "own", "whole", "draft_probs"}


@dataclass(frozen=True)
class Tokens:
    """T emitted tokens and the N most probable tokens of each of their distributions.

    token (T,): ids. ids, mass (T, N): listed tokens and their probabilities in descending order, -1 and 0 as padding. residual_mass
    (T,): probability of all others. own (T,): reported probability of the emitted token, NaN if unknown. request, position, batch (T,):
    sequence, position in it, and which requests ran together. step_offset (T,): number of tokens that the same step of speculative
    decoding emitted before, -1 if unknown. draft (T, N), draft_residual_mass (T,): the draft model's distribution on the same tokens,
    NaN if unknown. Before normalisation: total (T,), sum of the probabilities; size (T,), their number; whole (T,), whether these are
    all tokens; relative, decimals (T,): error by the number type, and number of decimals (`rounding`); completed (T,): whether the
    emitted token may be listed because it was emitted (`past.ListLengths`).
    """

    token: Array
    ids: Array
    mass: Array
    residual_mass: Array
    own: Array
    request: Array
    position: Array
    batch: Array
    step_offset: Array
    draft: Array
    draft_residual_mass: Array
    total: Array
    size: Array
    whole: Array
    relative: Array
    decimals: Array
    completed: Array

    def __len__(self) -> int:
        return len(self.token)

    def take(self, rows: Array) -> Tokens:
        """Return these rows, in this order."""
        return Tokens(*(getattr(self, field.name)[rows] for field in fields(self)))

    def cut(self, least: Array) -> Tokens:
        """Return the tokens without listed tokens of a probability up to least (T,); -1 keeps a row unchanged."""
        rows, kept = least >= 0, self.mass > least[:, None]
        mass, draft = np.where(kept, self.mass, 0.0), np.where(kept | np.isnan(self.draft), self.draft, 0.0)
        some = rows & kept.any(1)
        return replace(
            self,
            ids=np.where(kept | ~rows[:, None], self.ids, NO_TOKEN),
            mass=mass,
            residual_mass=np.where(rows, np.maximum(0.0, 1 - mass.sum(1)), self.residual_mass),
            draft=draft,
            draft_residual_mass=np.where(rows, np.maximum(0.0, 1 - draft.sum(1)), self.draft_residual_mass),
            total=np.where(rows, mass.sum(1), self.total),
            size=np.where(rows, kept.sum(1), self.size),
            relative=np.where(some, np.maximum(self.relative, relative_of(mass)), self.relative),
            decimals=np.where(some, np.minimum(self.decimals, decimals_of(mass)), self.decimals),
        )

    def at_temperature(self, temperature: float, tolerance: float) -> Tokens:
        """Return the tokens with their distributions p at another temperature than 1, and the error of these in `relative`.

        With a = 1 / temperature and S the sum of p(x)^a over the listed tokens, the listed ones have p(x)^a / Z. If r is the probability
        of all others and m the least of the listed ones, Z is from S to S + r m^(a - 1) for a > 1, and to S + n^(1 - a) r^a for a < 1
        and a vocabulary of n. The middle is taken. tolerance: relative error of p.
        """
        power = 1 / temperature
        found = np.where(self.mass > 0, self.mass, 0.0) ** power
        total, rest = np.maximum(found.sum(1), 1e-300), self.residual_mass
        least = np.where(self.mass > 0, self.mass, np.inf).min(1, initial=1.0)
        others = rest * least ** (power - 1) if power > 1 else VOCABULARY ** (1 - power) * rest**power
        step = np.where(self.decimals < EXACT, 10.0 ** -self.decimals.astype(float) / 2, 0.0)
        off = self.relative + step / least + tolerance
        error = np.expm1(np.minimum(2 * power * np.log1p(off), 1.0)) - tolerance + others / (2 * total)
        mass = found / (total + others / 2)[:, None]
        return replace(
            self,
            mass=mass,
            residual_mass=np.where(self.whole & (rest == 0), 0.0, np.maximum(0.0, 1 - mass.sum(1))),
            own=np.full(len(self), math.nan),
            total=np.where(self.whole, 1.0, mass.sum(1)),
            relative=np.maximum(error, 0.0),
            decimals=np.full(len(self), EXACT),
        )

    @cached_property
    def slot(self) -> Array:
        """Index of the emitted token in its list, -1 if it is not listed: (T,)."""
        found = self.ids == self.token[:, None]
        return np.where(found.any(1), found.argmax(1), -1)

    @cached_property
    def by_rank(self) -> tuple[Array, Array]:
        """The interval [a, b) of the emitted token, when the unit interval is cut into the probabilities in descending order."""
        return self._interval(np.cumsum(self.mass, axis=1) - self.mass)

    @cached_property
    def by_id(self) -> tuple[Array, Array]:
        """The same for probabilities in the order of token ids, unlisted tokens last."""
        before = np.where(self.ids < self.token[:, None], self.mass, 0.0).sum(1)
        return self._interval(np.broadcast_to(before[:, None], self.mass.shape))

    @cached_property
    def shares(self) -> Array:
        """Parts of the emitted token's intervals, by rank and by id, in each of BINS parts of the unit interval: (T, 2 BINS)."""
        start, end = (BINS * np.stack(side, axis=1)[:, :, None] for side in zip(self.by_rank, self.by_id, strict=True))
        parts = np.clip(end - np.arange(BINS), 0.0, 1.0) - np.clip(start - np.arange(BINS), 0.0, 1.0)
        return (parts / np.maximum(end - start, 1e-300)).reshape(len(self), -1)

    @cached_property
    def with_rest(self) -> tuple[Array, Array]:
        """The target's and the draft model's distribution, NaN if unknown, with all unlisted tokens as the last one: (T, N + 1) each."""
        return np.column_stack([self.mass, self.residual_mass]), np.column_stack([self.draft, self.draft_residual_mass])

    @cached_property
    def by_uniform(self) -> Array:
        """The distribution of a token, given in which of BINS parts of the unit interval the uniform number lies that tests its draft.

        (T, BINS, N + 1), all unlisted tokens as the last one; p itself if q is unknown. Draft token x is accepted if the number is below
        p(x) / q(x), otherwise the token is from the residual distribution: the mean over the parts is p.
        """
        p, q = self.with_rest
        drafted: Array = np.where(np.isnan(q[:, :1]), p, q)
        ratio: Array = p / np.maximum(drafted, 1e-300)
        below = np.clip(BINS * ratio[:, None] - np.arange(BINS)[:, None], 0.0, 1.0)
        taken, residual = drafted[:, None] * below, np.maximum(p - drafted, 0.0)
        residual /= np.maximum(residual.sum(1, keepdims=True), 1e-300)
        found: Array = taken + np.maximum(1 - taken.sum(2, keepdims=True), 0.0) * residual[:, None]
        return found

    @cached_property
    def context(self) -> Array:
        """A hash of the distribution, the same for similar ones: its four most probable tokens, and sixteenths of the largest one."""
        return hashed(*self.ids[:, :4].T, np.rint(16 * self.mass[:, 0]))

    def along_ids(self, mass: Array) -> Array:
        """For every listed token, the probability of listed tokens of lower ids, plus half its own: (T, N) -> (T, N)."""
        order = self._order
        there = np.take_along_axis(mass, order, axis=1)
        found = np.empty_like(mass)
        np.put_along_axis(found, order, np.cumsum(there, axis=1) - there / 2, axis=1)
        return found

    @cached_property
    def _order(self) -> Array:
        return np.argsort(self.ids, axis=1)

    def _interval(self, starts: Array) -> tuple[Array, Array]:
        start = self.at_slot(starts, 1 - self.residual_mass)
        return start, np.minimum(start + self.at_slot(self.mass, self.residual_mass), 1.0)

    def at_slot(self, values: Array, otherwise: Array | float) -> Array:
        """Return values[t, slot t], and `otherwise` if the emitted token is not listed: (T, N) -> (T,)."""
        there = values[np.arange(len(self)), self.slot]
        return np.where(self.slot >= 0, there, otherwise)


def whole_numbers(values: Array, what: str) -> Array:
    """Return values as int64. Raises CannotAudit for another type."""
    found = _array(values, what)
    if not found.size:
        return np.zeros(found.shape, dtype=np.int64)
    if found.dtype.kind not in "iu":
        raise CannotAudit(f"{what} must be whole numbers, got type {found.dtype}. Pass integers.")
    if found.dtype.kind == "u" and found.max() >= 2**63:
        raise CannotAudit(f"{what} must be below 2^63, got {found.max()}. Pass smaller ones.")
    return found.astype(np.int64)


def real_numbers(values: Array, what: str) -> Array:
    """Return values as float64. Raises CannotAudit for another type and for lists of unequal lengths."""
    found = _array(values, what)
    real = found.dtype.kind in "fiu" or (found.dtype == object and all(isinstance(each, Real) for each in found.flat))
    if not real:
        raise CannotAudit(f"{what} must be real numbers, got type {found.dtype}. Pass floats.")
    try:
        return found.astype(np.float64)
    except OverflowError as error:
        raise CannotAudit(f"{what} must be real numbers ({error}). Pass floats.") from error


def _array(values: Array, what: str) -> Array:
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:  # ragged lists, tensors of other kinds
        raise CannotAudit(f"{what} must be an array ({error}). Pass lists of equal lengths.") from error


class ListedMasses(NamedTuple):
    """Listed tokens of a distribution with their reported probabilities, (m,) each, in any order.

    total: divisor of the probabilities. whole: whether no other token can be sampled; size: number of tokens then. error: relative error
    of the probabilities, in addition to what their digits show. completed: whether the emitted token may be listed because it was emitted.
    """

    ids: Array
    mass: Array
    total: float
    whole: bool
    size: int
    error: float = 0.0
    completed: bool = False

    @classmethod
    def of_top(cls, ids: Array, mass: Array, whole: bool, error: float, completed: bool = False) -> ListedMasses:
        """Return the most probable tokens of a distribution, unchecked. whole: there are no others."""
        total = math.fsum(mass.tolist())
        return cls(ids, mass, total if whole else max(total, 1.0), whole, len(ids), error, completed)

    def cut(self) -> tuple[Array, Array, float]:
        """Return the TOP most probable tokens in descending order, their probabilities, and that of all others."""
        order = np.lexsort((self.ids, -self.mass))[:TOP]
        mass = self.mass[order] / self.total
        return self.ids[order], mass, 0.0 if self.whole and self.size <= TOP else max(0.0, 1.0 - float(mass.sum()))


class Token(NamedTuple):
    """One emitted token with its reported distribution: the input of an `Audit`.

    Make it by `Token.of_law` (whole distribution), `Token.of_top` (the most probable tokens) or `Token.of_arrays`. These check
    their arguments and raise CannotAudit.

    Attributes
    ----------
    token : int
        Id of the emitted token.
    law : ListedMasses
        Reported distribution: token ids and probabilities, of shape (m,) each.
    own : float
        Reported probability of the emitted token, NaN if unknown.
    request : int
        Number that identifies the sequence.
    position : int
        Position in the sequence, -1 if unknown. A sequence without a name ends where a position does not increase.
        In a named sequence such a token is left out.
    batch : int
        Number that identifies the requests of one batch.
    step_offset : int
        Number of tokens that the same step of speculative decoding emitted before, -1 if unknown.
    draft : float array of shape (m,) or None
        Probabilities of the draft model for the token ids of `law`.

    See Also
    --------
    Audit : Takes the tokens.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft.verify.server import Token
    >>> token = Token.of_law(1, np.array([0.5, 0.3, 0.2]), request="first", position=0)
    >>> token.own, token.position, token.step_offset
    (0.3, 0, -1)
    >>> Token.of_top(7, np.array([7, 4]), np.array([0.6, 0.3])).law.ids.tolist()
    [7, 4]
    """

    token: int
    law: ListedMasses
    own: float
    request: int
    position: int
    batch: int
    step_offset: int
    draft: Array | None

    @classmethod
    def of_law(
        cls, token: int, target_probs: Array, *, request: object = None, position: int = -1, batch: object = 0,
        step_offset: int = -1, draft_probs: Array | None = None
    ) -> Token:  # fmt: skip
        """Return a token with its whole distribution.

        Parameters
        ----------
        token : int
            Id of the emitted token.
        target_probs : array_like of shape (n,)
            Reported probabilities of all n tokens.
        request : object, optional
            Name of the sequence: an integer, a string or another object with a distinct string form.
        position : int, default=-1
            Position in the sequence, -1 if unknown.
        batch : object, default=0
            Name of the batch that the request ran in.
        step_offset : int, default=-1
            Number of tokens that the same step of speculative decoding emitted before, -1 if unknown.
        draft_probs : array_like of shape (n,), optional
            Probabilities of the draft model.

        Returns
        -------
        token : Token
            The token, checked.

        Raises
        ------
        CannotAudit
            If `target_probs` or `draft_probs` is not a probability vector, their lengths differ, or `token` is not an id below n.
            Also if a name, position or step offset is invalid.

        Examples
        --------
        >>> Token.of_law(1, [0.5, 0.3, 0.2]).own
        0.3
        """
        row, p = dense_row(target_probs), np.asarray(target_probs)
        token, draft = int_from("token", token, 0, MOST_IDS, CannotAudit), None
        if token >= len(p):
            raise CannotAudit(f"token must be below {len(p)}, the length of target_probs, got {token}")
        if draft_probs is not None:
            dense_row(draft_probs, "draft_probs")
            if len(draft_probs) != len(p):
                raise CannotAudit(f"draft_probs must have the length of target_probs, {len(p)}, got {len(draft_probs)}")
            draft = np.asarray(draft_probs, dtype=np.float64)[row.ids]
        return cls(token, row, float(p[token]), *names(request, position, batch, step_offset), draft)

    @classmethod
    def of_top(
        cls, token: int, ids: Array, probabilities: Array, own: float = math.nan, *, request: object = None,
        position: int = -1, batch: object = 0, step_offset: int = -1, draft_probs: Array | None = None, whole: bool = False,
        error: float = 0.0
    ) -> Token:  # fmt: skip
        """Return a token with the most probable tokens of its distribution. The other tokens share the remaining probability.

        Parameters
        ----------
        token : int
            Id of the emitted token.
        ids : array_like of shape (N,)
            Ids of the listed tokens. A list may hold the emitted token because it was emitted.
        probabilities : array_like of shape (N,)
            Reported probabilities of the listed tokens.
        own : float, optional
            Reported probability of the emitted token, if it is not listed. Default: NaN, unknown.
        request : object, optional
            Name of the sequence: an integer, a string or another object with a distinct string form.
        position : int, default=-1
            Position in the sequence, -1 if unknown.
        batch : object, default=0
            Name of the batch that the request ran in.
        step_offset : int, default=-1
            Number of tokens that the same step of speculative decoding emitted before, -1 if unknown.
        draft_probs : array_like of shape (N,), optional
            Probabilities of the draft model for `ids`.
        whole : bool, default=False
            Whether no other token can be sampled. The probabilities then sum to 1.
        error : float, default=0.0
            Relative error of the probabilities, for example from log-probabilities of few digits.

        Returns
        -------
        token : Token
            The token, checked.

        Raises
        ------
        CannotAudit
            If an id occurs twice, the probabilities are not those of a distribution, or the emitted token is not listed although
            `own` exceeds the least listed probability by more than 10 % and rounding.

        Examples
        --------
        >>> Token.of_top(7, [7, 4], [0.6, 0.3]).law.whole
        False
        """
        row, draft = top_row(ids, probabilities, whole, probability("error", error, OFF, CannotAudit)), None
        if draft_probs is not None:
            there = top_row(ids, draft_probs, name="draft_probs")
            draft = there.mass / there.total
        own, token = probability("own", own, OFF, CannotAudit), int_from("token", token, 0, MOST_IDS, CannotAudit)
        if own > row.mass.min() and token not in row.ids:
            # Both as they may have been before rounding.
            least = row.mass.min() * (1 + OVER + row.error) + step_of(row.mass)
            if own - step_of(np.array([own])) > least:
                raise CannotAudit(LEFT_OUT)
        return cls(token, row, own, *names(request, position, batch, step_offset), draft)

    @classmethod
    def of_arrays(cls, tokens: Array, laws: Array, **known: Array) -> list[Token]:
        """Return T tokens with their whole distributions.

        Parameters
        ----------
        tokens : int array_like of shape (T,)
            Ids of the emitted tokens.
        laws : array_like of shape (T, n)
            Reported probabilities of all n tokens.
        **known : array_like
            `request`, `position`, `batch` and `step_offset`, integers of shape (T,), and `draft_probs`, probabilities of the draft model of
            shape (T, n). Meaning as in `Token.of_law`.

        Returns
        -------
        tokens : list of Token
            The tokens, checked.

        Raises
        ------
        CannotAudit
            If the shapes do not fit, a name in `known` is unknown, or `Token.of_law` raises for a row.

        Examples
        --------
        >>> [token.own for token in Token.of_arrays([0, 1], [[0.5, 0.5], [0.25, 0.75]])]
        [0.5, 0.75]
        """
        tokens, laws = whole_numbers(tokens, "tokens"), real_numbers(laws, "laws")
        if laws.ndim != 2 or tokens.shape != laws.shape[:1] or not laws.shape[1]:
            raise CannotAudit(
                f"laws must have shape (T, n) for T tokens, got {laws.shape} for tokens of shape {tokens.shape}."
            )
        if unknown := sorted(set(known) - {*NUMBERS, "draft_probs"}):
            raise CannotAudit(f"{unknown[0]!r} is not an argument. Pass any of {', '.join(NUMBERS)}, draft_probs.")
        numbers = {name: whole_numbers(known[name], name) for name in NUMBERS if name in known}
        if wrong := [name for name, each in numbers.items() if each.shape != tokens.shape]:
            raise CannotAudit(f"{wrong[0]} must have shape ({len(tokens)},), got {numbers[wrong[0]].shape}.")
        columns: dict[str, Any] = {name: each.tolist() for name, each in numbers.items()}
        if "draft_probs" in known:
            columns["draft_probs"] = real_numbers(known["draft_probs"], "draft_probs")
            if columns["draft_probs"].shape != laws.shape:
                raise CannotAudit(
                    f"draft_probs must have the shape of laws, {laws.shape}, got {columns['draft_probs'].shape}."
                )
        found = []
        for i, (token, law, *about) in enumerate(zip(tokens.tolist(), laws, *columns.values(), strict=True)):
            try:
                found.append(cls.of_law(token, law, **dict(zip(columns, about, strict=True))))
            except CannotAudit as error:
                raise CannotAudit(f"row {i}: {error}") from error
        return found

    @classmethod
    def of_entry(cls, entry: dict[str, Any]) -> Token:
        """Return the token of a parsed log entry, with keys of ENTRY."""
        token = int_from("token", entry.get("token"), 0, MOST_IDS, CannotAudit)
        known: dict[str, Any] = {name: entry[name] for name in NUMBERS if name in entry}
        if "draft_probs" in entry:
            known["draft_probs"] = _column(entry, "draft_probs")
        if "target_probs" in entry:
            return cls.of_law(token, _column(entry, "target_probs"), **known)
        if "ids" not in entry or ("probabilities" in entry) == ("logprobs" in entry):
            raise CannotAudit("no distribution. Write target_probs, or ids with either probabilities or logprobs.")
        whole = entry.get("whole", False)
        if type(whole) is not bool:
            raise CannotAudit(f"whole must be true or false, got {whole!r:.40}.")
        entry = _once(entry)
        if "logprobs" in entry:
            logs = _column(entry, "logprobs")
            if logs.max(initial=0.0) > 1e-2:
                raise CannotAudit(
                    f"logprobs must be at most 0, got {logs.max():g}. Write natural logarithms of probabilities."
                )
            mass, known["error"] = np.exp(np.minimum(logs, 0.0)), log_error(np.sort(logs)[-1:0:-1])
        else:
            mass = _column(entry, "probabilities")
        return cls.of_top(token, entry["ids"], mass, entry.get("own", np.nan), whole=whole, **known)


def _once(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry with its emitted token listed once, if it is listed several times with the same numbers."""
    listed, names = whole_numbers(entry["ids"], "ids"), {"ids", "probabilities", "logprobs", "draft_probs"} & set(entry)
    first, *again = np.flatnonzero(listed == entry["token"]).tolist() or [0]
    same = [i for i in again if all(entry[name][i] == entry[name][first] for name in names)]
    return entry | {name: [x for i, x in enumerate(entry[name]) if i not in same] for name in names if same}


def _column(entry: dict[str, Any], name: str) -> Array:
    given = entry[name]
    if name == "logprobs" and type(given) is list:  # programs write null for -inf, which JSON lacks
        given = [-math.inf if each is None else each for each in given]
    elif type(given) is list and None in given:
        remedy = "Omit draft_probs where it is unknown." if name == "draft_probs" else "Write 0 for probability 0."
        raise CannotAudit(f"{name}[{given.index(None)}] must be a number, got null. {remedy}")
    found = real_numbers(given, name)
    if found.ndim != 1 or np.isnan(found).any():
        raise CannotAudit(f"{name} must be a list of numbers without NaN. Write real numbers.")
    return found


def dense_row(law: Array, name: str = "target_probs") -> ListedMasses:
    """Return a distribution over the whole vocabulary (n,). Raises CannotAudit for an invalid one."""
    if type(law) is not np.ndarray or law.dtype.kind != "f":
        law = real_numbers(law, "probabilities")
    if law.ndim != 1 or not len(law):
        raise CannotAudit(f"{name} must have shape (n,), got {law.shape}. Pass one probability per token.")
    # .sum and .min take twice as long.
    least = float(np.minimum.reduce(law))
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.add.reduce(law, dtype=np.float64))
    near = abs(total - 1) <= OFF or (math.isfinite(total) and explains(law[law > 0].astype(np.float64), len(law), True))
    if not (least >= 0 and near):  # `not >=` is true of NaN
        raise CannotAudit(f"{name} must be probabilities with sum 1, got sum {total:.6g} and least entry {least:.6g}.")
    if len(law) <= TOP:
        return ListedMasses(_SMALL[: len(law)], law.astype(np.float64), total, True, len(law))
    ids = np.flatnonzero(law > LIGHT)
    return ListedMasses(ids, law[ids].astype(np.float64), total, True, len(law))


def top_row(
    ids: Sequence[int] | Array, mass: Sequence[float] | Array, whole: bool = False, error: float = 0.0, name: str = "ids"
) -> ListedMasses:  # fmt: skip
    """Return the most probable tokens of a distribution. whole: there are no others; error: relative error of the probabilities.

    Raises CannotAudit if an id occurs twice, a probability is not in [0, 1], or their sum is above 1, or not 1 if whole.
    """
    tokens = ids if type(ids) is np.ndarray and ids.dtype.kind == "i" else whole_numbers(ids, "ids")
    masses = real_numbers(mass, "probabilities")
    if tokens.ndim != 1 or masses.shape != tokens.shape or not len(tokens):
        raise CannotAudit(f"ids and probabilities must have one shape (m,), got {tokens.shape} and {masses.shape}.")
    named = set(tokens.tolist())
    if len(named) < len(tokens):
        raise CannotAudit(f"{name} must be distinct, got one id twice among {len(tokens)}. List every token once.")
    if not 0 <= min(named) <= max(named) < MOST_IDS:
        raise CannotAudit(f"ids must be from 0 to below {MOST_IDS}, got {min(named)} to {max(named)}.")
    values = masses.tolist()
    total = math.fsum(values) if all(0 <= each <= 1 + OFF for each in values) else math.nan
    if not (total <= 1 + OFF and (not whole or total >= 1 - OFF)):
        _explained(tokens, masses, total, whole, error)
    return ListedMasses(tokens, masses, total if whole else max(total, 1.0), whole, len(tokens), error, not whole)


def _explained(tokens: Array, masses: Array, total: float, whole: bool, error: float) -> None:
    """Raise CannotAudit unless rounding explains that probabilities are not in [0, 1], or have another sum."""
    if math.isnan(total):
        bad = next(i for i, each in enumerate(masses) if not 0 <= each <= 1 + OFF)
        raise CannotAudit(f"probability of token {tokens[bad]} must be from 0 to 1, got {masses[bad]:.6g}.")
    if abs(total - 1) <= error + OFF or explains(masses, len(masses), whole):
        return
    wanted = "1, as whole is true" if whole else "at most 1"
    raise CannotAudit(f"probabilities of {len(tokens)} tokens must sum to {wanted}, got {total:.6g}.")


def number_of(name: object) -> int:
    """Return a number for the name of a request or batch: an integer itself, 62 bits of a digest for others; not NaN or infinity."""
    if type(name) is int and -(2**62) < name < 2**62:
        return name
    if isinstance(name, np.integer):
        return number_of(int(name))
    if isinstance(name, float | np.floating) and not math.isfinite(name):
        raise CannotAudit(f"the name of a request or a batch must be an integer or a string, got {name}.")
    text = hex(name) if isinstance(name, int) else str(name)  # Python does not print very long integers in decimal
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "big") >> 2


def names(request: object, position: int, batch: object, step_offset: int) -> tuple[int, int, int, int]:
    """Return request, position, batch and step offset as numbers. Raises CannotAudit for invalid ones."""
    position = int_from("position", position, -1, MOST_IDS, CannotAudit)
    step_offset = int_from("step_offset", step_offset, -1, MOST_IDS, CannotAudit)
    return UNNAMED if request is None else number_of(request), position, number_of(batch), step_offset


def stack(rows: Sequence[Token]) -> Tokens:
    """Return the tokens as one block."""
    token, laws, own, request, position, batch, step_offset, draft = zip(*rows, strict=True)
    counts = np.array([len(law.mass) for law in laws])
    there = np.arange(max(counts.max(), 1)) < counts[:, None]  # columns of each row, from the left
    ids, mass, q = (np.full(there.shape, filler) for filler in (NO_TOKEN, -1.0, 0.0))
    ids[there] = np.concatenate([law.ids for law in laws])
    mass[there] = np.concatenate([law.mass for law in laws])
    known = np.array([law is not None for law in draft])
    if known.any():
        q[there & known[:, None]] = np.concatenate([law for law in draft if law is not None])
    q[~known] = math.nan
    order = np.lexsort((ids, -mass), axis=-1)[:, :TOP]  # padding comes last
    ids, mass, q = (np.take_along_axis(side, order, axis=1) for side in (ids, mass, q))
    mass = np.maximum(mass, 0.0)
    divisor, whole, size, error, completed = (
        np.array(column) for column in zip(*(law[2:] for law in laws), strict=True)
    )
    total = np.where(whole, divisor, mass.sum(1))
    relative, decimals = np.maximum(relative_of(mass), error), decimals_of(mass)
    mass /= divisor[:, None]
    rest = np.where(whole & (size <= TOP), 0.0, np.maximum(0.0, 1 - mass.sum(1)))
    numbers = (np.array(column, dtype=np.int64) for column in (token, request, position, batch, step_offset))
    named = dict(zip(("token", "request", "position", "batch", "step_offset"), numbers, strict=True))
    draft_rest = np.maximum(0.0, 1 - q.sum(1))
    return Tokens(ids=ids, mass=mass, residual_mass=rest, own=np.array(own), draft=q, draft_residual_mass=draft_rest, total=total,
                  size=size, whole=whole, relative=relative, decimals=decimals, completed=completed, **named)  # fmt: skip
