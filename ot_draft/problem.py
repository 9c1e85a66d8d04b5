"""Problem(p, q, k, law): validates once, so that rules need not."""

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

from . import arrays as xp
from .arrays import Array
from .boundary import int_from
from .errors import InvalidArgument, InvalidDistribution, InvalidDrafts
from .laws import IID, DraftLaw, check_defined

# How far a sum may be from 1. float32 leaves room for a softmax over 150,000 tokens; Fractions leave none.
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}


@dataclass(frozen=True, init=False)
class Problem:
    """One draft-selection problem, or a batch of them.

    Parameters
    ----------
    p, q : array_like of shape (..., n)
        Target and draft distributions of one kind: Fractions, floats, NumPy arrays or PyTorch tensors. Lists and tuples
        are read as Fractions if they hold a Fraction, else as float64.
    k : int, default=2
        Number of draft tokens.
    law : DraftLaw, optional
        Joint distribution of the draft tokens, by default `IID()`.

    Raises
    ------
    InvalidDistribution
        If p or q is not a probability vector, or their shapes differ. Nothing is repaired.
    InvalidDrafts
        If k is not an integer >= 0, or the draft law is not defined for k drafts.

    Examples
    --------
    >>> import ot_draft as otd
    >>> problem = otd.Problem([0.5, 0.5], [0.75, 0.25], k=2)
    >>> problem.n, problem.batch, problem.law
    (2, (), IID())
    """

    p: Array
    q: Array
    k: int
    law: DraftLaw

    def __init__(self, p: Any, q: Any, k: int = 2, law: DraftLaw | None = None) -> None:
        p, q = as_array(p, "p"), as_array(q, "q")
        check_alike(p, q)
        check_values(p, "p")
        check_values(q, "q")
        law = IID() if law is None else law
        check_law(law, k)
        for name, value in (("p", p), ("q", q), ("k", int(k)), ("law", law)):
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        """Vocabulary size."""
        return int(self.p.shape[-1])

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading axes of p."""
        return tuple(self.p.shape[:-1])


def check_law(law: Any, k: Any) -> None:
    """Raise InvalidDrafts unless law is a draft law that is defined for k drafts."""
    number = int_from("k", k, 0, error=InvalidDrafts, remedy="Pass the number of drafts.")
    check_is_law(law)
    check_defined(law, number)


def check_is_law(given: Any) -> None:
    """Raise InvalidDrafts unless the argument is a draft law."""
    if not isinstance(given, DraftLaw):
        raise InvalidDrafts(
            f"law must be a draft law, got {given!r}. Pass for example otd.IID() or otd.WithoutReplacement()."
        )


def check_problem(given: Any) -> None:
    """Raise InvalidArgument unless the argument is a Problem."""
    if not isinstance(given, Problem):
        raise InvalidArgument(
            f"problem must be an otd.Problem, got a {type(given).__name__}. Pass otd.Problem(p, q, k, law)."
        )


def as_array(x: Any, name: str) -> Array:
    """x as one of the three kinds of array; never a copy of what already is one."""
    if isinstance(x, list | tuple):
        flat = np.asarray(x, dtype=object)
        if Fraction in _types(flat):
            x = flat
        else:
            try:
                x = np.asarray(x)
            except ValueError as error:
                raise InvalidDistribution(
                    f"{name} must have rows of equal length, got a ragged list ({error}). Correct the rows."
                ) from None
    if not xp.is_torch(x) and not isinstance(x, np.ndarray):
        raise InvalidDistribution(
            f"{name} must be a list, a NumPy array or a torch tensor, got a {type(x).__name__}. Convert it."
        )
    if isinstance(x, np.matrix | np.ma.MaskedArray):  # they have other rules for shapes and sums
        raise InvalidDistribution(
            f"{name} must be a plain numpy.ndarray, got a {type(x).__name__}. Pass numpy.array({name})."
        )
    check_plain(x, name)
    if x.ndim == 0:
        raise InvalidDistribution(f"{name} must have shape (..., n), got a single number. Pass n probabilities.")
    if x.shape[-1] == 0:
        raise InvalidDistribution(
            f"{name} must have shape (..., n) with n >= 1 tokens, got {tuple(x.shape)}. Pass n probabilities."
        )
    return _exact_entries(x, name) if not xp.is_torch(x) and x.dtype == object else _float_entries(x, name)


def check_plain(x: Array, name: str) -> None:
    """Raise InvalidDistribution for a tensor that is sparse or requires a gradient."""
    if xp.is_torch(x) and (x.requires_grad or x.layout != xp.namespace(x).strided):
        raise InvalidDistribution(
            f"{name} must be dense and without gradient, got a tensor that is sparse or requires a gradient."
            f" Pass {name}.detach().to_dense()."
        )


def _exact_entries(x: np.ndarray, name: str) -> np.ndarray:
    types, valid = _types(x), set[Any]({Fraction, int})
    if types == {Fraction}:
        return x
    if types <= valid:  # integers become Fractions: int / int would leave the exact kind
        return np.asarray(np.frompyfunc(Fraction, 1, 1)(x), dtype=object)
    row = next(row for row in np.ndindex(x.shape) if type(x[row]) not in valid)
    among = " among Fractions" if Fraction in types else ""
    raise InvalidDistribution(
        f"{name}{_at(row[:-1])}, token {row[-1]} must be a Fraction, got {x[row]!r} ({type(x[row]).__name__}){among}."
        " Make every probability a Fraction, or every one a float."
    )


def _types(x: np.ndarray) -> set[Any]:
    return set(map(type, x.ravel().tolist()))


def _float_entries(x: Array, name: str) -> Array:
    kind = str(x.dtype).removeprefix("torch.")
    if kind not in TOLERANCE:
        raise InvalidDistribution(
            f"{name} must have dtype float32, float64 or Fractions, got {kind}. Convert it: integers may be counts, and ratios in half"
            " precision are not lossless."
        )
    return x


def check_kinds(p: Array, q: Array) -> None:
    """Raise InvalidDistribution for two arrays of different kinds, number types or devices."""
    if xp.is_torch(p) != xp.is_torch(q) or xp.is_exact(p) != xp.is_exact(q):
        raise InvalidDistribution(
            f"p and q must be arrays of one kind, got {_kind(p)} and {_kind(q)}. Convert one of them."
        )
    if p.dtype != q.dtype or (xp.is_torch(p) and p.device != q.device):
        raise InvalidDistribution(
            f"p and q must have one dtype and one device, got {_kind(p)} and {_kind(q)}. Convert one of them."
        )


def check_alike(p: Array, q: Array) -> None:
    """Raise InvalidDistribution for two arrays of different shapes, kinds, number types or devices."""
    check_kinds(p, q)
    if p.shape != q.shape:
        seen = f"p and q must have one shape, got {tuple(p.shape)} and {tuple(q.shape)}"
        if p.shape[-1] == q.shape[-1]:
            raise InvalidDistribution(
                f"{seen}. Pass one row of q per row of p, with numpy.broadcast_to if all rows share one."
            )
        raise InvalidDistribution(
            f"{seen}. Pass both over one vocabulary, with probability 0 for tokens that a model lacks."
        )


def common_batch(error: type[ValueError] = InvalidDrafts, /, **arrays: Array) -> tuple[int, ...]:
    """Common shape of all axes but the last. Raises the error where there is none, or p and q differ in the last."""
    try:
        if "p" in arrays and "q" in arrays and arrays["p"].shape[-1] != arrays["q"].shape[-1]:
            raise ValueError
        return xp.batch_shape(*arrays.values())
    except ValueError:
        shapes = ", ".join(f"{name} {tuple(x.shape)}" for name, x in arrays.items())
        raise error(
            f"{' and '.join(arrays)} must have shapes that broadcast, got {shapes}. Pass equal batches, or axes of 1 where all share a row."
        ) from None


def check_values(x: Array, name: str) -> None:
    """Raise InvalidDistribution for a row of negative numbers, or one that does not sum to 1."""
    if xp.is_meta(x):
        return
    exact, negative = xp.is_exact(x), "must be >= 0"
    with np.errstate(invalid="ignore"):
        sums = _exact_sums(x) if exact else x.sum(-1, keepdims=True)
    # Comparisons of all tokens only where some token is invalid. NaN is neither finite nor >= 0.
    if exact and any(mass.numerator < 0 for mass in x.flat):
        _refuse(x < 0, x, name, negative)
    elif not exact and not (xp.namespace(sums).isfinite(sums).all() and (xp.min(x, axis=-1, keepdims=True) >= 0).all()):
        _refuse(~xp.namespace(x).isfinite(x), x, name, "must be finite")
        _refuse(x < 0, x, name, negative)
    tolerance = 0 if exact else TOLERANCE[str(x.dtype).removeprefix("torch.")]
    wrong = sums != 1 if exact else abs(sums - 1) > tolerance
    if wrong.any():
        index = _first(wrong)
        value = sums[index] if exact else float(sums[index])
        raise InvalidDistribution(
            f"{name}{_at(index[:-1])} must sum to 1 (tolerance {tolerance}), got {_shown(value)}. Divide the row by its sum."
        )


def _exact_sums(x: np.ndarray) -> np.ndarray:
    """Sums of Fractions (..., n) over the last axis, (..., 1): in whole numbers, over one denominator a row."""
    sums = np.empty((*x.shape[:-1], 1), dtype=object)
    for row in np.ndindex(x.shape[:-1]):
        masses = x[row].tolist()
        unit = lcm(*{mass.denominator for mass in masses})
        sums[row] = Fraction(sum(mass.numerator * (unit // mass.denominator) for mass in masses), unit)
    return sums


def _refuse(bad: Array, x: Array, name: str, text: str) -> None:
    if bad.any():
        index = _first(bad)
        value = x[index] if xp.is_exact(x) else float(x[index])
        raise InvalidDistribution(
            f"{name}{_at(index[:-1])}, token {index[-1]} {text}, got {_shown(value)}. Correct the logits or counts that it comes from."
        )


def _shown(value: Any, max_characters: int = 40) -> str:
    """A number in a message: Fractions of many digits as decimals, those next to 1 by what they miss."""
    text = str(value)
    if len(text) <= max_characters:  # as of every float
        return text
    apart = value - (1 if abs(value - 1) < Fraction(1, 10**9) else 0)
    exponent = len(str(abs(apart.numerator))) - len(str(apart.denominator))
    near = "" if apart == value else "1 and "
    return f"{near}about {float(apart):.3g}" if abs(exponent) < 300 else f"{near}about {'-' * (apart < 0)}1e{exponent}"


def _first(bad: Array) -> tuple[int, ...]:
    """Index of the first one."""
    return tuple(int(i) for i in np.argwhere(xp.to_host(bad))[0])


def _at(row: tuple[int, ...]) -> str:
    return f" row {list(row)}" if row else ""


def _kind(x: Array) -> str:
    if xp.is_torch(x):
        return f"torch {str(x.dtype).removeprefix('torch.')} on {x.device}"
    return "Fractions" if xp.is_exact(x) else f"numpy {x.dtype}"


def token_ids(drafts: Any, like: Array) -> Array:
    """Return drafts as int64 (..., k) of like's kind, (..., n); -1 marks an absent draft. Raises InvalidDrafts for other ids."""
    n, drafts = like.shape[-1], drafts if xp.is_torch(drafts) else np.asarray(drafts)
    kind = str(drafts.dtype).removeprefix("torch.")
    if not kind.startswith(("int", "uint")):
        raise InvalidDrafts(f"drafts must be integer token ids, got dtype {kind}. Convert them.")
    if not drafts.ndim:
        raise InvalidDrafts(
            f"drafts must have shape (..., k), got the single number {int(drafts)}. Pass a list of k token ids."
        )
    drafts = xp.integers(drafts, like=like)  # bytes would overflow in sums, and unsigned ones know no -1
    if xp.is_meta(drafts):
        return drafts
    ids = xp.host_view(drafts)
    bad = (ids < -1) | (ids >= n)
    if bad.any():
        index = _first(bad)
        raise InvalidDrafts(
            f"drafts{_at(index[:-1])}, position {index[-1]}: token must be in 0 .. {n - 1}, or -1 for an absent"
            f" draft token, got {int(drafts[index])}. Correct the token id."
        )
    return drafts
