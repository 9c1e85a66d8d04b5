"""Laws that come one by one: checked at once, sorted and cut to their heaviest tokens a block at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from operator import index
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array
from ..errors import CannotAudit
from .records import MOST_IDS, NO_TOKEN, TOP, Tokens, real_numbers, whole_numbers
from .rounding import OFF, decimals_of, explains, relative_of

LIGHT = 2.0**-10  # in a vocabulary of more than TOP tokens, those below this mass are never among the heaviest
_SMALL = np.arange(TOP)


class Row(NamedTuple):
    """Tokens of a law with their masses as reported, (m,) each, in any order.

    total: what the masses are divided by. whole: whether the law speaks of all tokens that can come, `size` of them; error: relative
    error of the masses, beside what they show themselves.
    """

    ids: Array
    mass: Array
    total: float
    whole: bool
    size: int
    error: float = 0.0

    def cut(self) -> tuple[Array, Array, float]:
        """The heaviest TOP tokens in descending order, their masses, and the mass of all others."""
        order = np.lexsort((self.ids, -self.mass))[:TOP]
        mass = self.mass[order] / self.total
        return self.ids[order], mass, 0.0 if self.whole and self.size <= TOP else max(0.0, 1.0 - float(mass.sum()))


class Added(NamedTuple):
    """One emitted token; draft (m,): the draft model's law at the row's ids."""

    token: int
    law: Row
    own: float
    request: int
    position: int
    batch: int
    place: int
    draft: Array | None


def dense_row(law: Array, where: str) -> Row:
    """A law over the whole vocabulary (n,); CannotAudit where it is no law."""
    if type(law) is not np.ndarray or law.dtype.kind != "f":
        law = real_numbers(law, f"{where}: probabilities")
    if law.ndim != 1 or not len(law):
        raise CannotAudit(f"{where}: the law has shape {law.shape}: give one probability a token, (n,)")
    # .sum and .min take twice as long.
    least = float(np.minimum.reduce(law))
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.add.reduce(law, dtype=np.float64))
    near = abs(total - 1) <= OFF or (math.isfinite(total) and explains(law[law > 0].astype(np.float64), len(law), True))
    if not (least >= 0 and near):  # `not >=` is true of NaN
        raise CannotAudit(f"{where}: the law has sum {total:.6g} and least entry {least:.6g}: give probabilities")
    if len(law) <= TOP:
        return Row(_SMALL[: len(law)], law.astype(np.float64), total, True, len(law))
    ids = np.flatnonzero(law > LIGHT)
    return Row(ids, law[ids].astype(np.float64), total, True, len(law))


def top_row(
    ids: Sequence[int] | Array, mass: Sequence[float] | Array, where: str, whole: bool = False, error: float = 0.0
) -> Row:
    """A law of which some tokens are known, the heaviest; whole: there are no others; error: relative, of all masses.

    CannotAudit where ids come twice, a mass is no number from 0 to 1, or their sum is above 1, or another than 1 if whole.
    """
    tokens = ids if type(ids) is np.ndarray and ids.dtype.kind == "i" else whole_numbers(ids, f"{where}: ids")
    masses = real_numbers(mass, f"{where}: probabilities")
    if tokens.ndim != 1 or masses.shape != tokens.shape or not len(tokens):
        raise CannotAudit(f"{where}: {tokens.shape} token ids for {masses.shape} probabilities: give one for each")
    named = set(tokens.tolist())
    if len(named) < len(tokens):
        raise CannotAudit(f"{where}: a token stands twice among the {len(tokens)} of the law")
    if not 0 <= min(named) <= max(named) < MOST_IDS:
        raise CannotAudit(f"{where}: ids are {min(named)} to {max(named)}: give numbers from 0 on below {MOST_IDS}")
    values = masses.tolist()
    total = math.fsum(values) if all(0 <= each <= 1 + OFF for each in values) else math.nan
    if not (total <= 1 + OFF and (not whole or total >= 1 - OFF)):
        _explained(tokens, masses, total, where, whole, error)
    return Row(tokens, masses, total if whole else max(total, 1.0), whole, len(tokens), error)


def _explained(tokens: Array, masses: Array, total: float, where: str, whole: bool, error: float) -> None:
    """CannotAudit where rounding does not explain that masses miss 1, or miss the numbers from 0 to 1."""
    if math.isnan(total):
        bad = next(i for i, each in enumerate(masses) if not 0 <= each <= 1 + OFF)
        raise CannotAudit(f"{where}: token {tokens[bad]} has probability {masses[bad]:.6g}: give numbers from 0 to 1")
    if abs(total - 1) <= error + OFF or explains(masses, len(masses), whole):
        return
    sums = f"the probabilities of {len(tokens)} tokens sum to {total:.6g}"
    raise CannotAudit(f"{where}: {sums}: a {'whole law has a sum of 1' if whole else 'law has at most 1'}")


def whole_number(value: Any, name: str, where: str, least: int = 0) -> int:
    """A token, a position, a place; CannotAudit where it is no whole number from `least` on, or beyond all."""
    if type(value) is int and least <= value < MOST_IDS:
        return value
    try:
        number = index(value)
    except TypeError as error:
        raise CannotAudit(f"{where}: {name} is {value!r:.40}: give a whole number") from error
    if value is True or value is False or not least <= number < MOST_IDS:
        said = value if abs(number) < 2**64 else "beyond 64 bits"
        raise CannotAudit(f"{where}: {name} is {said}: give a whole number from {least} on below {MOST_IDS}")
    return number


def probability(value: Any, name: str, where: str) -> float:
    """A number from 0 to 1, or NaN for unknown; CannotAudit where it is another."""
    if not isinstance(value, float | int | np.floating | np.integer) or not (0 <= value <= 1 + OFF or value != value):
        raise CannotAudit(f"{where}: {name} is {value!r:.40}: give a number from 0 to 1")
    return float(value)


def number_of(name: object, where: str = "name") -> int:
    """A whole number for a request's or batch's name: itself, or 62 bits of a text's digest; CannotAudit for NaN and infinity."""
    if type(name) is int and -(2**62) < name < 2**62:
        return name
    if isinstance(name, np.integer):
        return number_of(int(name), where)
    if isinstance(name, float | np.floating) and not math.isfinite(name):
        raise CannotAudit(f"{where}: {name} is no name of a request or a batch: give a whole number or a text")
    text = hex(name) if isinstance(name, int) else str(name)  # Python writes no decimals of very long numbers
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "big") >> 2


def stack(rows: Sequence[Added]) -> Tokens:
    """The rows as one block."""
    token, laws, own, request, position, batch, place, draft = zip(*rows, strict=True)
    counts = np.array([len(law.mass) for law in laws])
    there = np.arange(max(counts.max(), 1)) < counts[:, None]  # True in a row's own columns, from the left
    ids, mass, q = (np.full(there.shape, filler) for filler in (NO_TOKEN, -1.0, 0.0))
    ids[there] = np.concatenate([law.ids for law in laws])
    mass[there] = np.concatenate([law.mass for law in laws])
    known = np.array([law is not None for law in draft])
    if known.any():
        q[there & known[:, None]] = np.concatenate([law for law in draft if law is not None])
    q[~known] = math.nan
    order = np.lexsort((ids, -mass), axis=-1)[:, :TOP]  # the columns that are not a row's own come last
    ids, mass, q = (np.take_along_axis(side, order, axis=1) for side in (ids, mass, q))
    mass = np.maximum(mass, 0.0)
    divisor, whole, size, error = (np.array(column) for column in zip(*(law[2:] for law in laws), strict=True))
    total = np.where(whole, divisor, mass.sum(1))
    relative, decimals = np.maximum(relative_of(mass), error), decimals_of(mass)
    mass /= divisor[:, None]
    rest = np.where(whole & (size <= TOP), 0.0, np.maximum(0.0, 1 - mass.sum(1)))
    numbers = (np.array(column, dtype=np.int64) for column in (token, request, position, batch, place))
    named = dict(zip(("token", "request", "position", "batch", "place"), numbers, strict=True))
    draft_rest = np.maximum(0.0, 1 - q.sum(1))
    return Tokens(ids=ids, mass=mass, rest=rest, own=np.array(own), draft=q, draft_rest=draft_rest, total=total, size=size,
                  whole=whole, relative=relative, decimals=decimals, **named)  # fmt: skip
