"""Draft tuples of positive probability, also for large vocabularies, and output distributions from calls of a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from ...arrays import Array, broadcast_to, copy, is_exact, to_host
from ...laws import DraftLaw, Fact, sets
from ...problem import Problem
from ...selection import Selection, checked


def possible_tuples(law: DraftLaw, q: Array, k: int) -> tuple[Array, Array] | None:
    """Every draft tuple that a draft law can draw from Fractions q (n,), and its probability: int (m, k), Fractions (m,).

    Tokens of probability 0 are omitted first, so that a q with few tokens has few tuples in any vocabulary. The probabilities are then
    compared in float64 with those over all tokens, since a draft law may draw the omitted ones. None if there are too many tuples, if
    the found ones do not sum to exactly 1, or if the comparison fails.
    """
    return _possible(law, tuple(mass.as_integer_ratio() for mass in q.tolist()), k)


# The same problems are tried in Fractions, in floats and on torch. Pairs of integers, because hashing a Fraction takes long.
@lru_cache(maxsize=4096)
def _possible(
    law: DraftLaw, masses: tuple[tuple[int, int], ...], k: int, rounding: float = 1e-9
) -> tuple[Array, Array] | None:
    q = np.array([Fraction(*mass) for mass in masses], dtype=object)
    held = np.flatnonzero(q > 0)
    if len(held) < k and Fact.NEVER_RUNS_OUT not in law.facts:
        held = np.arange(len(q))
    among = q[held]
    for found in _candidates(law, among, k):
        near = law.probability(among.astype(np.float64), found)  # cheap, before Fractions
        tuples = found[near > 0]
        if abs(near.sum() - 1) > rounding:
            continue
        weight = law.probability(among[None, :], tuples)
        if weight.sum() == 1:
            drafts = np.where(tuples < 0, -1, held[tuples])
            whole = law.probability(q.astype(np.float64), drafts)
            return (drafts, weight) if np.allclose(whole, weight.astype(np.float64), rounding, rounding) else None
    return None


def _candidates(law: DraftLaw, q: Array, k: int, most: int = 4096) -> Iterator[Array]:
    """Lists that may hold all tuples: products of the tokens of q, all tuples of the draft law, tuples that occur in draws.

    most: maximum number of tuples, and number of draws.
    """
    n, tokens = len(q), np.flatnonzero(q > 0).tolist()
    if len(tokens) ** k <= most:
        yield np.array(list(product(tokens, repeat=k)), dtype=np.int64)
    if n ** law.count(n, k) <= most:
        yield np.concatenate(list(sets.tuples(n, law.count(n, k), k, most)))
    if (
        n <= 4 * k and Fact.NEVER_RUNS_OUT not in law.facts
    ):  # from nearly equal masses, in the order of q's: a draft law may fix the top tokens
        masses, rank = np.unique(q, return_inverse=True)
        flat = np.where(q > 0, 1 + rank / (10 * len(masses)), 0.0)
        flat = np.broadcast_to(flat / flat.sum(), (most, n))
        drawn = law.draw(flat, np.random.default_rng(0).random((most, k)))
        yield np.array(sorted(set(map(tuple, drawn.tolist()))))


Convert = Callable[[Array], Any]  # Fractions to the kind of array that the rule is to be given
Tuples = tuple[Array, Array]
ROUNDING = 1e-4  # max. error of a probability in float32; a smaller one in Fractions shows in the output distribution


class NoProbabilities(Exception):
    """accept or residual of a row is not a vector of probabilities."""


def tuples_of(problem: Problem) -> list[Tuples] | None:
    """Drafts (m, k) and probabilities (m,) of every pair of the batch; None if a pair has too many."""
    found = [possible_tuples(problem.law, q, problem.k) for q in problem.q.reshape(-1, problem.n)]
    return None if None in found else found  # type: ignore[return-value]  # mypy does not follow `in`


def as_given(x: Array) -> Array:
    """The Fractions themselves."""
    return x


def law_together(rule: Any, problem: Problem, tuples: Tuples, convert: Convert = as_given) -> Array:
    """Output distribution (n,) of a single pair: p and q (1, n) for all draft tuples (m, k), as `otd.evaluate` calls a rule."""
    return law_of_rows(rule, convert(copy(problem.p))[None, :], convert(copy(problem.q))[None, :], tuples)


def law_of_rows(rule: Any, p: Any, q: Any, tuples: Tuples, drafted: Any = None) -> Array:
    """Output distribution (n,) of p and q (n,) or (1, n), as they are in memory, for all draft tuples; drafted: the array to pass."""
    drafts, weight = tuples
    selection = _on_host(rule(p, q, like(drafts, p) if drafted is None else drafted), p, drafts)
    weight = _of_kind(weight, selection)
    residual = selection.residual.reshape(-1, selection.residual.shape[-1])
    left = weight * (1 - selection.accept.sum(-1))
    left = left.sum(keepdims=True) if len(residual) == 1 else left  # a residual that all rows share stays shared
    output = (left[:, None] * residual).sum(0)
    mass = weight[:, None] * broadcast_to(selection.accept, drafts.shape)
    np.add.at(output, drafts[drafts >= 0], mass[drafts >= 0])
    return output


def law_alone(rule: Any, problem: Problem, tuples: Tuples, convert: Convert) -> Array:
    """Output distribution (n,) of a single pair without batch axes: one call with p and q (n,) for each draft tuple (k,)."""
    p, q = convert(problem.p), convert(problem.q)
    parts = []
    for drafts, weight in zip(tuples[0], tuples[1][:, None], strict=True):
        selection = _on_host(rule(copy(p), copy(q), like(drafts, p)), p, drafts)
        parts.append(_of_kind(weight, selection) * selection.output(drafts))
    return np.sum(parts, axis=0)


def law_apart(rule: Any, problem: Problem, tuples: list[Tuples], convert: Convert = as_given) -> Array:
    """Output distributions (..., n) of a batch of requests, by calls with p, q (..., n) and one draft tuple each (..., k).

    The requests use their tuples in different orders, and consecutive calls get their arrays in different memory layouts.
    """
    output = np.zeros(problem.p.shape, dtype=object)
    pair = _rounded_once(problem, convert)
    for call, (drafts, weight) in enumerate(_in_calls(problem, tuples)):
        p, q, drafted = _given(pair, drafts, call + problem.n, convert)
        selection = _on_host(rule(p, q, drafted), p, drafts)
        output = output + _of_kind(weight, selection)[..., None] * selection.output(drafts)
    return output


def is_no_function(rule: Any, problem: Problem, tuples: list[Tuples], convert: Convert) -> bool:
    """Whether two calls with the same arguments differ, and one call with all tuples gives the right distribution.

    Then `law_apart` or `law_alone` had another distribution because the tuples were spread over calls.
    """
    calls = _in_calls(problem, tuples)
    same, pair = True, _rounded_once(problem, convert)
    for call, (drafts, _) in enumerate(calls):
        given = _given(pair, drafts, call, convert)
        one, two = (_on_host(rule(*given), given[0], drafts).output(drafts) for _ in range(2))
        same = same and np.array_equal(one, two)
    if same:
        return False
    drafts, weight = (np.stack(parts) for parts in zip(*calls, strict=True))
    p, q = (convert(np.repeat(x[None], len(calls), 0)) for x in (problem.p, problem.q))
    selection = _on_host(rule(p, q, like(drafts, p)), p, drafts)
    output = (_of_kind(weight, selection)[..., None] * selection.output(drafts)).sum(0)
    return bool((abs(output - problem.p) <= (0 if output.dtype == object else ROUNDING)).all())


def _in_calls(problem: Problem, tuples: list[Tuples]) -> list[Tuples]:
    """Drafts (..., k) and their probabilities (...) of every call."""
    calls, found = max(len(weight) for _, weight in tuples), []
    for call in range(calls):
        turn = [(call + place) % calls for place in range(len(tuples))]
        drafts = np.stack([drafts[i % len(drafts)] for (drafts, _), i in zip(tuples, turn, strict=True)])
        weight = np.array([w[i] if i < len(w) else 0 * w[0] for (_, w), i in zip(tuples, turn, strict=True)])
        found.append((drafts.reshape(*problem.batch, problem.k), weight.reshape(problem.batch)))
    return found


def _rounded_once(problem: Problem, convert: Convert) -> tuple[Array, Array]:
    """p and q for `_given`: converted to float64 once if the calls get floats, since the conversion of Fractions takes long."""
    p, q = problem.p, problem.q
    return (p, q) if convert is as_given else (p.astype(np.float64), q.astype(np.float64))


def _given(pair: tuple[Array, Array], drafts: Array, call: int, convert: Convert) -> tuple[Any, Any, Any]:
    """p, q and drafts in the memory layout of this call."""
    of_p, of_q, of_drafts = MEMORY[call % len(MEMORY)]
    if of_p is _side_by_side:
        both = convert(np.stack(pair, -1).reshape(*pair[0].shape[:-1], -1))
        p, q = both[..., ::2], both[..., 1::2]
    else:
        p, q = of_p(pair[0], convert), of_q(pair[1], convert)
    drafts = drafts.astype(np.int32) if of_drafts is _backwards and type(p) is np.ndarray else drafts
    return p, q, of_drafts(drafts, lambda x: like(x, p))


def _plain(x: Array, convert: Convert) -> Any:
    return convert(x.copy())


def _side_by_side(x: Array, convert: Convert) -> Any:
    return convert(np.repeat(x, 2, -1))[..., ::2]


def _transposed(x: Array, convert: Convert) -> Any:
    return convert(x.swapaxes(0, -1).copy()).swapaxes(0, -1)


def _backwards(x: Array, convert: Convert) -> Any:
    """Strides of -1 in NumPy. Torch does not support them and gets a flipped copy."""
    y = convert(x[..., ::-1].copy())
    return y[..., ::-1] if type(y) is np.ndarray else y.flip(-1)


def _expanded(x: Array, convert: Convert) -> Any:
    """One row in memory if all rows are equal, as in engines where requests share a distribution."""
    if not x.size or x.ndim == 1 or not (x == x.reshape(-1, x.shape[-1])[0]).all():
        return _plain(x, convert)
    row = convert(x.reshape(-1, x.shape[-1])[0].copy())
    if type(row) is not np.ndarray:
        return row.expand(x.shape)
    return np.lib.stride_tricks.as_strided(row, x.shape, (*(0 for _ in x.shape[1:]), row.strides[0]))


# Memory layouts of p, q and the drafts, in turn over the calls.
MEMORY = (
    (_plain, _plain, _plain),
    (_side_by_side, _side_by_side, _side_by_side),
    (_transposed, _plain, _transposed),
    (_expanded, _expanded, _plain),
    (_plain, _side_by_side, _plain),
    (_backwards, _transposed, _backwards),
)


def like(drafts: Array, p: Any) -> Any:
    """A copy of the drafts, of p's array type."""
    return drafts.copy() if type(p) is np.ndarray else type(p).new_tensor(p, drafts.tolist()).long()


def _on_host(given: Any, p: Any, drafts: Array) -> Selection:
    """The rule's selection, as numpy; floats in float64, so that nothing is rounded after the rule. Raises NoProbabilities."""
    selection = checked(given, p, drafts)
    kinds = "Oiu" if is_exact(p) else "O"  # 0 and 1 are as exact as Fractions
    parts = map(to_host, (selection.accept, selection.residual))
    accept, residual = (x.astype(object if x.dtype.kind in kinds else np.float64) for x in parts)
    least, sums = min(accept.min(), residual.min()), (np.max(accept.sum(-1)), np.max(abs(residual.sum(-1) - 1)))
    if not (least >= -ROUNDING and sums[0] <= 1 + ROUNDING and sums[1] <= ROUNDING):
        seen = f"smallest entry of accept and residual {least}, largest sum of accept {sums[0]}, sum of residual off 1 by {sums[1]}"
        raise NoProbabilities(seen)
    return Selection(accept, residual)


def _of_kind(weight: Array, selection: Selection) -> Array:
    return weight if selection.residual.dtype == object else weight.astype(np.float64)
