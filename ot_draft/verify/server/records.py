"""Emitted tokens with their reported distributions: the checked input of the audit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from ...arrays import Array
from ...boundary import int_from, probability
from ...errors import CannotAudit
from .rounding import OFF, explains, log_error, step_of

TOP = 64  # max. number of tokens of a distribution that are kept separately
MOST_IDS = 2**62  # bound on token ids (also digests of strings), positions and step offsets
UNNAMED_TOKEN = MOST_IDS - 1  # a token whose string does not identify it: it is not a listed one
UNNAMED = -(2**62)  # the sequence of a token without a name of its sequence
OVER = 0.1  # rel. excess over the least listed probability from which an unlisted token must have been omitted
LEFT_OUT = (
    "the emitted token is not in the list, although it is more probable than a listed one. List the most probable tokens, whatever was "
    "emitted"
)
NUMBERS = ("request", "position", "batch", "step_offset")  # optional keys of an entry that hold numbers or names
# Keys of an entry of a log.
ENTRY = {*NUMBERS, "token", "target_probs", "ids", "probabilities", "logprobs", "own", "whole", "draft_probs"}


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
    gaps: whether tokens may be omitted that are more probable than a listed one.
    """

    ids: Array
    mass: Array
    total: float
    whole: bool
    size: int
    error: float = 0.0
    completed: bool = False
    gaps: bool = False

    @classmethod
    def of_top(
        cls, ids: Array, mass: Array, whole: bool, error: float, completed: bool = False, gaps: bool = False
    ) -> ListedMasses:
        """Return the most probable tokens of a distribution, unchecked. whole: there are no others."""
        total = math.fsum(mass.tolist())
        return cls(ids, mass, total if whole else max(total, 1.0), whole, len(ids), error, completed, gaps)


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
        return ListedMasses(np.arange(len(law)), law.astype(np.float64), total, True, len(law))
    ids = np.flatnonzero(law > 2.0**-10)  # less probable tokens are not among the TOP ones, which saves sorting
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
