"""Laws that come one by one: checked at once, sorted and cut to their heaviest tokens a block at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from ..arrays import Array
from ..errors import CannotAudit
from .records import NO_TOKEN, OFF, TOP, Tokens

LIGHT = 2.0**-10  # in a vocabulary of more than TOP tokens, those below this mass are never among the heaviest
_SMALL = np.arange(TOP)


class Row(NamedTuple):
    """Tokens of a law with their masses, (m,) each, in any order; `total` is what the masses are divided by; whole: no others can come."""

    ids: Array
    mass: Array
    total: float
    whole: bool

    def cut(self) -> tuple[Array, Array, float]:
        """The heaviest TOP tokens in descending order, their masses, and the mass of all others."""
        order = np.lexsort((self.ids, -self.mass))[:TOP]
        mass = self.mass[order] / self.total
        return self.ids[order], mass, 0.0 if self.whole and len(self.ids) <= TOP else max(0.0, 1.0 - float(mass.sum()))


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
    law = np.asarray(law)
    if law.ndim != 1 or not len(law):
        raise CannotAudit(f"{where}: the law has shape {law.shape}: give one probability a token, (n,)")
    # .sum and .min take twice as long.
    total, least = float(np.add.reduce(law, dtype=np.float64)), float(np.minimum.reduce(law))
    if not (least >= 0) or abs(total - 1) > OFF:  # `not >=` is true of NaN
        raise CannotAudit(f"{where}: the law has sum {total:.6g} and least entry {least:.6g}: give probabilities")
    if len(law) <= TOP:
        return Row(_SMALL[: len(law)], law.astype(np.float64), total, True)
    ids = np.flatnonzero(law > LIGHT)
    return Row(ids, law[ids].astype(np.float64), total, False)


def top_row(ids: Sequence[int] | Array, mass: Sequence[float] | Array, where: str, whole: bool = False) -> Row:
    """A law of which some tokens are known, the heaviest; whole: there are no others.

    CannotAudit where ids come twice, a mass is no number from 0 to 1, or their sum is above 1.
    """
    tokens, masses = np.array(ids), np.array(mass, dtype=np.float64)
    if tokens.ndim != 1 or masses.shape != tokens.shape or not len(tokens):
        raise CannotAudit(f"{where}: {tokens.shape} token ids for {masses.shape} probabilities: give one for each")
    if len(set(tokens.tolist())) < len(tokens):
        raise CannotAudit(f"{where}: a token stands twice among the {len(tokens)} of the law")
    total = float(masses.sum())
    if not (masses.min() >= 0 and total <= 1 + OFF):
        bad = next((i for i, each in enumerate(masses) if not 0 <= each <= 1 + OFF), None)
        if bad is not None:
            raise CannotAudit(
                f"{where}: token {tokens[bad]} has probability {masses[bad]:.6g}: give numbers from 0 to 1"
            )
        raise CannotAudit(f"{where}: the probabilities of {len(tokens)} tokens sum to {total:.6g}: a law has at most 1")
    return Row(tokens, masses, total if whole else max(total, 1.0), whole)


def number_of(name: object) -> int:
    """A whole number for a request's or batch's name: itself, or 62 bits of a text's digest."""
    if isinstance(name, int | np.integer):
        return int(name)
    return int.from_bytes(blake2b(str(name).encode(errors="surrogatepass"), digest_size=8).digest(), "big") >> 2


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
    mass = np.maximum(mass, 0.0) / np.array([law.total for law in laws])[:, None]
    whole = np.array([law.whole for law in laws]) & (counts <= TOP)
    rest = np.where(whole, 0.0, np.maximum(0.0, 1 - mass.sum(1)))
    numbers = (np.array(column, dtype=np.int64) for column in (token, request, position, batch, place))
    named = dict(zip(("token", "request", "position", "batch", "place"), numbers, strict=True))
    draft_rest = np.maximum(0.0, 1 - q.sum(1))
    return Tokens(ids=ids, mass=mass, rest=rest, own=np.array(own), draft=q, draft_rest=draft_rest, **named)
