"""Laws out of a file's arrays: which of them are a pair, and masses or logits as laws in double precision."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..arrays import Array
from ..errors import InvalidDistribution
from ..problem import Problem
from .formats import Column

LAWS = (("p", "q"), ("target", "draft"))  # target first
LOGITS = (("target_logits", "draft_logits"), ("p_logits", "q_logits"))
NAMES = f"p and q, or {' and '.join(LOGITS[0])}"


def names_in(found: Mapping[str, Column], file: Path) -> tuple[str, str]:
    """The first two of these names that the file has. Raises InvalidDistribution where there are none."""
    for names in (*LAWS, *LOGITS):
        if set(names) <= found.keys():
            return names
    lacking = [name for name in LAWS[0] if name not in found]
    lacks = f" has no {lacking[0]}," if len(lacking) == 1 else ""
    raise InvalidDistribution(f"{file}:{lacks} it holds {', '.join(found) or 'nothing'}: give {NAMES}")


def as_laws(array: Array, name: str, source: str, start: int = 0, temperature: float = 1.0) -> Array:
    """An array of masses or of logits, by its name, as laws (..., n) in float64; Fractions stay what they are.

    Masses sum to 1 to the precision in which they are stored, else InvalidDistribution; of float32 and float16 they are divided by
    their sum. start: row of the file that the first row is.
    """
    if any(name in names for names in LOGITS):
        return laws_of_logits(array, temperature, source, start)
    if array.dtype == np.float64 or array.dtype.hasobject:
        return np.asarray(array)
    where = f"{source}: " if source else ""
    if array.dtype == np.float16:
        _check_sums(array, where, start)
    elif array.dtype == np.float32:
        try:
            Problem(array, array, 1)
        except InvalidDistribution as error:
            raise InvalidDistribution(f"{where}{name}{str(error).removeprefix('p')}") from error
    else:
        raise InvalidDistribution(f"{where}{name} has dtype {array.dtype}: give float64, float32, float16 or Fractions")
    array = array.astype(np.float64)
    return np.asarray(array / array.sum(-1, keepdims=True))


def _check_sums(masses: Array, where: str, start: int) -> None:
    """Masses of float16 are off by 2^-11 of themselves, those near 0 by 2^-25."""
    sums, allowed = masses.astype(np.float64).sum(-1), 2.0**-11 + masses.shape[-1] * 2.0**-25
    wrong = np.flatnonzero(~(abs(sums - 1) <= allowed).ravel())  # NaN is wrong, too
    if len(wrong) or (masses < 0).any():
        row = int(wrong[0]) if len(wrong) else int(np.flatnonzero((masses < 0).any(-1).ravel())[0])
        raise InvalidDistribution(
            f"{where}row {start + row}: masses of float16 that sum to {sums.ravel()[row]:.6g}, or negative ones: give laws"
        )


def laws_of_logits(logits: Array, temperature: float = 1.0, source: str = "", start: int = 0) -> Array:
    """softmax(logits / temperature) in float64, (..., n). start: row of the file that the first row is, for the error.

    -inf is a token without mass. Raises InvalidDistribution for NaN, +inf, and rows that are -inf throughout.
    """
    if logits.dtype.kind not in "fiu" or not logits.shape[-1:] or not logits.shape[-1]:
        raise InvalidDistribution(
            f"{source}: logits have dtype {logits.dtype}, shape {logits.shape}: give real numbers (..., n), n >= 1"
        )
    logits = logits.astype(np.float64)
    highest = logits.max(-1, keepdims=True)
    sound = np.isfinite(highest[..., 0]) & ~np.isnan(logits).any(-1)
    if not sound.all():
        row = start + int(np.flatnonzero(~sound)[0])
        raise InvalidDistribution(
            f"{source}, row {row}: its logits hold NaN or inf, or are -inf throughout: capture the row again, or leave it out"
        )
    with np.errstate(over="ignore"):  # what is as far below the highest as no float64 can say has mass 0
        masses = np.exp((logits - highest) / temperature)
    law: Array = masses / masses.sum(-1, keepdims=True)
    return law
