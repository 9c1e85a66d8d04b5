"""Distribution of the *set* of drafted tokens, for draft laws that draw one token after another, and by enumeration for all others.

A set is a mask of bits. Where tokens are drawn one after another, the set drafted so far is a Markov chain: sum_{j<=k} C(n, j) sets
instead of n^k tuples.
"""

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from math import comb, lcm
from typing import Any

import numpy as np

from ..arrays import Array
from ..errors import InvalidArgument, InvalidDrafts

MAX_SETS = 200_000  # no solver handles more in minutes
MAX_TOKENS = 5_000


def independent(start: int, q: Array, draws: int) -> dict[int, Any]:
    """i.i.d. draws from q on top of the starting set. In integers: one denominator, so that no sum needs a gcd."""
    unit = lcm(*(mass.denominator for mass in q))
    numerators = [int(mass * unit) for mass in q]
    counts = chain(start, draws, lambda index, drawn: numerators)
    return {bits: Fraction(count, unit**draws) for bits, count in counts.items()}


def chain(start: int, draws: int, following: Callable[[int, int], Iterable[Any]]) -> dict[int, Any]:
    """Distribution of the set after the draws; `following` gives the weight of every next token, given its index and the set so far."""
    masses: dict[int, Any] = {start: 1}
    for index in range(draws):
        after: dict[int, Any] = {}
        for drawn, mass in masses.items():
            for token, share in enumerate(following(index, drawn)):
                if share:
                    bits = drawn | 1 << token
                    after[bits] = after.get(bits, 0) + mass * share
            if len(after) > MAX_SETS:
                raise too_many()
        masses = after
    return masses


def draws(law: Any, q: Array, k: int) -> int:
    """Number of drafts that are present and not fixed, for q (n,)."""
    n_fixed = law.n_fixed(q, k) if hasattr(law, "n_fixed") else 0  # a `FixedTokensLaw`, whose module needs this one
    return max(0, law.count(q.shape[-1], k) - int(np.ravel(n_fixed)[0]))


def most(law: Any, q: Array, k: int) -> int:
    """Maximum number of different draft sets from q (n,): the rows of the linear program."""
    return max(1, sum(comb(q.shape[-1], size) for size in range(1, draws(law, q, k) + 1)))  # fixed tokens only: one set


def enumerated(law: Any, q: Array, k: int, max_cells: int = 1 << 22) -> dict[int, Any]:
    """Distribution of the set from the probabilities of all draft tuples, for Fractions (n,). max_cells: tuples times tokens in memory."""
    masses: dict[int, Any] = {}
    for drafts_of_rows in tuples(len(q), law.count(len(q), k), k, max(1, max_cells // len(q))):
        chances = law.probability(q[None, :], drafts_of_rows)
        for drafts, mass in zip(drafts_of_rows, chances, strict=True):
            if mass:
                bits = bits_of(drafts)
                masses[bits] = masses.get(bits, Fraction(0)) + mass
    total = sum(masses.values())
    if total != 1:
        raise InvalidDrafts(
            f"{type(law).__name__}: the probabilities of all draft tuples must sum to 1, got {total}. Correct it."
        )
    return masses


def tuples(n: int, drawn: int, k: int, rows: int, max_tuples: int = 1 << 22) -> Iterator[np.ndarray]:
    """All tuples of `drawn` tokens and k - drawn absent drafts (-1), in chunks of int (at most `rows`, k).

    More than the default max_tuples take hours in Fractions and minutes in floats.
    """
    if n**drawn > max_tuples:
        raise InvalidArgument(
            f"the number of draft tuples must be at most {max_tuples:,}, got {n}^{drawn}. Use rule.closed_form(problem) for the acceptance"
            " of a rule that has a formula, ot_draft.data.compare_rules for an estimate, and otd.optimal_acceptance for the optimum."
        )
    for start in range(0, n**drawn, rows):
        index = np.arange(start, min(n**drawn, start + rows))
        columns = [index // n ** (drawn - 1 - i) % n for i in range(drawn)] + [0 * index - 1] * (k - drawn)
        yield np.stack(columns, -1) if columns else np.zeros((len(index), 0), dtype=np.int64)


def too_many() -> InvalidArgument:
    return InvalidArgument(
        f"the linear program has over {MAX_SETS} draft sets or {MAX_TOKENS} tokens: otd.optimal_acceptance gives the"
        " optimum without it"
    )


def bits_of(drafts: Iterable[Any]) -> int:
    """Bit mask of the drafted tokens; absent drafts (-1) leave no bit."""
    bits = 0
    for token in drafts:
        bits |= 1 << int(token) if token >= 0 else 0
    return bits


def tokens_of(bits: int) -> tuple[int, ...]:
    """The tokens of a mask, in rising order."""
    tokens = []
    while bits:
        lowest = bits & -bits
        tokens.append(lowest.bit_length() - 1)
        bits ^= lowest
    return tuple(tokens)
