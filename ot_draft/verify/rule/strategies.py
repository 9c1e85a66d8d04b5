"""Hypothesis strategies for distributions, pairs (p, q) and problems in Fractions.

Probabilities are integer counts divided by their sum: they shrink to small fractions, and zeros, ties and one-hot distributions are
frequent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from fractions import Fraction
from fractions import Fraction as F
from functools import lru_cache
from itertools import product
from math import factorial, prod
from typing import Any

import numpy as np

from ...arrays import Array, where
from ...errors import MissingPackage
from ...laws import DraftLaw, Fact, is_defined
from ...problem import Problem

try:
    import hypothesis.strategies as st
except ImportError:
    raise MissingPackage("hypothesis", "check") from None

Draw = Callable[[Any], Any]
Strategy = Any

LARGEST_COUNTS = (3, 6, 12, 60, 2, 1, 1000)  # 1 makes one-hot and uniform distributions, 2 and 3 ties, 1000 heavy tails
VOCABULARY_SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 33, 50, 64, 65, 100, 129, 200, 257, 300, 512, 777, 1000)
DECADES = (0, 1, 3, 6, 9, 12)  # between the largest mass and the smallest
MOST_DRAFTS = 8  # max. number of draft tokens of a problem
# (n, k) with sampled drafts, since q is positive on all tokens. Every k, since a rule may take one k only.
WIDE = ((4, 3), (64, 4), (64, 6), (64, 7), (300, 1), (300, 2), (300, 5), (1000, MOST_DRAFTS))
MOST_ROWS = ((64,), (8, 8), (2, 32), (32, 2), (4, 4, 4), (16, 2, 2), (2, 16, 2), (2, 2, 16))


def as_masses(counts: Any) -> Array:
    """Counts (n,) divided by their sum, as Fractions; all mass on token 0 where every count is 0."""
    counts = [int(count) for count in counts]
    if not any(counts):
        counts[0] = 1
    total = sum(counts)
    return np.array([Fraction(count, total) for count in counts], dtype=object)


def distributions(n: int) -> Strategy:
    """Distributions over n tokens: object array (n,) of Fractions."""
    largest = st.sampled_from(LARGEST_COUNTS)
    return largest.flatmap(lambda most: st.lists(st.integers(0, most), min_size=n, max_size=n)).map(as_masses)


@st.composite
def unrelated(draw: Draw, min_n: int, max_n: int) -> tuple[Array, Array]:
    """p and q drawn token by token: tokens can be removed when shrinking, and p == q does not come up half of the time."""
    most_p, most_q = draw(st.sampled_from(LARGEST_COUNTS)), draw(st.sampled_from(LARGEST_COUNTS))
    counts = draw(st.lists(st.tuples(st.integers(0, most_p), st.integers(0, most_q)), min_size=min_n, max_size=max_n))
    return as_masses([count for count, _ in counts]), as_masses([count for _, count in counts])


@st.composite
def pairs(draw: Draw, min_n: int, max_n: int) -> tuple[Array, Array]:
    """p and q over min_n to max_n tokens: unrelated, or related in one of the ways on which wrong rules often fail."""
    alone = ("same", "reversed", "disjoint", "close", "close", "repeated", "zeros in p", "rare")
    shape = draw(st.sampled_from((*["any"] * 4, *alone)))
    p, q = draw(unrelated(min_n, max_n))
    n = len(p)
    if shape == "same":
        return p, p.copy()
    if shape == "reversed":
        return p, p[::-1].copy()
    if shape == "repeated" and 2 * n <= max_n:
        return np.tile(p, 2) / 2, np.tile(q, 2) / 2
    if shape == "close" and n > 1:
        places, bits = draw(st.integers(1, n - 1)), draw(st.sampled_from((4, 53, 30, 53, 54)))
        return p, _moved(p, places, Fraction(1, 2**bits))  # at 53 bits p and q differ by one ulp
    if shape in {"zeros in p", "rare"}:
        heaviest = q == q.max()
        rare = (q + 3 * as_masses(heaviest)) / 4 if shape == "rare" else q  # the tokens of p are rarely drafted
        return _without(p, ~heaviest), rare
    return p, _without(q, p == 0) if shape == "disjoint" else q


def _moved(p: Array, places: int, share: Fraction) -> Array:
    """p with a share of the first most probable token moved to the token `places` ids later, cyclically."""
    q, heaviest = p.copy(), int(np.argmax(p == p.max()))
    q[heaviest] -= share * p[heaviest]
    q[(heaviest + places) % len(p)] += share * p[heaviest]
    return q


def _without(mass: Array, kept: Array) -> Array:
    """The mass on the kept tokens, normalised; unchanged if nothing would be left."""
    left = where(kept, mass, 0)
    return left / left.sum() if left.sum() > 0 else mass


ONLY: ContextVar[frozenset[int] | None] = ContextVar("ONLY", default=None)  # numbers of drafts to try; None: all


def numbers_of_drafts(law: DraftLaw, candidates: Iterable[int]) -> list[int]:
    """Candidates for which the draft law is defined: those of ONLY if there are any, else all, which a search then skips."""
    defined, only = [k for k in candidates if is_defined(law, k)], ONLY.get()
    return [k for k in defined if only is None or k in only] or defined


def sizes(law: DraftLaw, max_n: int, max_k: int, max_drafts: int) -> list[tuple[int, int]]:
    """Sizes (n, k): every k for which the draft law is defined, with the largest n <= max_n for which n^k <= max_drafts."""
    allowed = numbers_of_drafts(law, range(1, max_k + 1))
    return [(max(n for n in range(1, max_n + 1) if n**k <= max_drafts), k) for k in allowed]


@st.composite
def problems(draw: Draw, law: DraftLaw, max_n: int = 5, max_k: int = 4, max_drafts: int = 81) -> Problem:
    """Problems in Fractions with at most max_drafts draft tuples."""
    n, k = draw(st.sampled_from(sizes(law, max_n, max_k, max_drafts)))
    # Below n: only then can tokens be removed when shrinking.
    fewest = draw(st.sampled_from((1, min(2, n - 1), n - 1)))
    p, q = draw(pairs(fewest, n))
    return Problem(p, q, k, law)


def small_problems(law: DraftLaw) -> Strategy:
    """Problems with fewer draft tuples, for properties that run the rule several times."""
    return problems(law, max_n=4, max_k=3, max_drafts=27)


def one_draft(law: DraftLaw) -> Strategy:
    """Problems with k = 1."""
    return problems(law, max_k=1)


@st.composite
def large_problems(
    draw: Draw,
    law: DraftLaw,
    batch: Strategy | None = None,
    cells: int = 256_000,
    tuples: int = 256,
    tokens_of_q: Sequence[int] = (1, 2, 3, 4, 6, 9, 16, 30, 100, 300),
) -> Problem:
    """Problems of an engine's sizes that have few draft tuples, because q is positive on few tokens.

    Up to 1,000 tokens, 8 drafts and the axes that `batch` draws; masses down to 1e-12, log-uniform; at most `tuples` draft tuples of
    a pair, and at most `cells` tuples times tokens times pairs. The sizes shrink one by one; the masses come from a seed.
    """
    shape = draw(st.just(()) if batch is None else batch)
    rows = prod(shape)
    k = draw(st.sampled_from(numbers_of_drafts(law, range(1, MOST_DRAFTS + 1))))
    n = draw(st.sampled_from([n for n in VOCABULARY_SIZES if n <= max(2, cells // (2**k * rows))]))
    fewest = (
        1 if Fact.NEVER_RUNS_OUT in law.facts else min(n, k)
    )  # else tokens outside q are drafted, and there are many
    most = max([fewest, *(s for s in range(1, n + 1) if s**k * n * rows <= cells and s**k <= tuples)])
    held = draw(st.sampled_from(sorted({fewest, *(s for s in tokens_of_q if fewest <= s <= most), most})))
    decades = draw(st.sampled_from(DECADES))
    relation = draw(st.sampled_from(("same tokens", "all tokens", "some tokens", "near", "other tokens")))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    alike = draw(st.sampled_from(("", "", "p", "q", "pq"))) if shape else ""  # equal in all requests of a batch
    return _of_size(rng, law, shape, (n, k, held), decades, relation, alike)


def _of_size(
    rng: np.random.Generator, law: DraftLaw, shape: tuple[int, ...], size: tuple[int, int, int], decades: int, relation: str,
    alike: str = "",
) -> Problem:  # fmt: skip
    """A problem in a batch of this shape. size: number of tokens, of drafts, and of tokens of q."""
    n, k, held = size
    p, q = zip(*[_related(rng, n, held, decades, relation) for _ in np.ndindex(shape)], strict=True)
    p, q = (x[:1] * len(x) if name in alike else x for name, x in (("p", p), ("q", q)))
    return Problem(np.array(p).reshape(*shape, n), np.array(q).reshape(*shape, n), k, law)


def _related(rng: np.random.Generator, n: int, held: int, decades: int, relation: str) -> tuple[list[Fraction], ...]:
    """p and q (n,): q on `held` tokens; p on the same, on others, on some, on all, or near q."""
    order = rng.permutation(n)
    if rng.integers(4) == 0:  # tokens that are one in a mask of 64 bits
        order = order[np.argsort(order % 64 != order[0] % 64, kind="stable")]
    q = _on(rng, n, order[:held], decades)
    if relation == "near":
        p, share = q.copy(), Fraction(1, 10 ** max(1, decades))
        return list((1 - share) * p + share * _on(rng, n, rng.permutation(n)[:2], decades)), list(q)
    tokens = {"same tokens": np.flatnonzero(q > 0), "all tokens": np.arange(n), "other tokens": np.flatnonzero(q == 0)}
    chosen = tokens.get(relation, rng.permutation(n)[: rng.integers(1, n + 1)])
    return list(_on(rng, n, chosen if len(chosen) else np.arange(n), decades)), list(q)


def _on(rng: np.random.Generator, n: int, tokens: Array, decades: int) -> Array:
    """Probabilities (n,) on these tokens that span the given number of decades."""
    counts = np.zeros(n, dtype=object)
    counts[tokens] = [int(10**power) for power in rng.uniform(0, decades, len(tokens)).tolist()]
    counts[tokens[-1]], counts[tokens[0]] = 1, 10**decades
    return as_masses(counts)


def single_together(law: DraftLaw) -> list[Problem]:
    """The largest vocabulary with the most drafts and the smallest masses, in Fractions and, with more draft tuples, in floats.

    Also the most different drafts of which all tuples can be enumerated, with masses large enough for each to count in floats.
    """
    largest = _together(law, ((),), tuple((VOCABULARY_SIZES[-1], MOST_DRAFTS, held) for held in (1, 2)))
    many_different = ((5, 5, 5), (4, 6, 4), (8, 4, 8))  # n, k, tokens of q: about 4,096 draft tuples, i.i.d.
    return [*largest, *_together(law, ((),), many_different, 1, "some tokens")]


def batches_together(law: DraftLaw) -> list[Problem]:
    """The largest batches in one, two and three axes with the smallest masses; in the first of these with many tokens or drafts, too."""
    many = tuple(next(shape for shape in MOST_ROWS if len(shape) == axes) for axes in (1, 2, 3))
    return [*_together(law, tuple(MOST_ROWS), ((5, 2, 2),)), *_together(law, many, ((100, 4, 2), (9, MOST_DRAFTS, 2)))]


def all_together(law: DraftLaw) -> list[Problem]:
    """Single pairs and batches."""
    return [*single_together(law), *batches_together(law)]


def _together(
    law: DraftLaw, shapes: tuple[tuple[int, ...], ...], sizes: tuple[tuple[int, int, int], ...], decades: int = DECADES[-1],
    relation: str = "all tokens",
) -> tuple[Problem, ...]:  # fmt: skip
    """Problems of these shapes and sizes (n, at most k, tokens of q), by default with masses over the most decades."""
    return _made_together(
        law, shapes, sizes, decades, relation, tuple(numbers_of_drafts(law, range(1, MOST_DRAFTS + 1)))
    )


@lru_cache(maxsize=64)  # several properties try them, each on copies, and they are thousands of Fractions
def _made_together(
    law: DraftLaw, shapes: tuple[tuple[int, ...], ...], sizes: tuple[tuple[int, int, int], ...], decades: int, relation: str,
    numbers: tuple[int, ...], tuples: int = 256,
) -> tuple[Problem, ...]:  # fmt: skip
    rng, found = np.random.default_rng(0), []
    for shape, (n, most, held) in product(shapes, sizes):
        k = max(
            (k for k in numbers if k <= most and (Fact.NEVER_RUNS_OUT in law.facts or factorial(k) <= tuples)),
            default=0,
        )
        if k:
            tokens = held if Fact.NEVER_RUNS_OUT in law.facts else max(held, k)
            found.append(_of_size(rng, law, shape, (n, k, min(n, tokens)), decades, relation))
    return tuple(found)


def wide_problems(law: DraftLaw, cells: int = 256_000) -> list[Problem]:
    """Problems in which q lies on all tokens, up to 1,000, and p on half of them; n times k at most `cells`."""
    allowed = numbers_of_drafts(law, range(1, MOST_DRAFTS + 1))
    sizes = {(n, max(k for k in allowed if k <= most)): None for n, most in WIDE if most >= allowed[0]}
    rng, found = np.random.default_rng(0), []
    for n, k in (size for size in sizes if size[0] * size[1] <= cells):
        p, q = _on(rng, n, rng.permutation(n)[: n // 2], 1), _on(rng, n, rng.permutation(n), 1)
        found.append(Problem(p, q, k, law))
    return found


def requests(law: DraftLaw, cells: int = 1_500) -> Strategy:
    """Batches of up to 64 requests in up to three axes."""
    few_rows = (
        (),
        (1,),
        (2,),
        (3,),
        (5,),
        (1, 1),
        (2, 3),
        (1, 1, 1),
        (8,),
        (2, 2, 3),
        (16,),
        (33,),
        (9, 2),
        (4, 16),
        (2, 4, 8),
    )
    return large_problems(law, st.sampled_from((*few_rows, *MOST_ROWS)), cells)


def all_sizes(law: DraftLaw, **few: Any) -> Strategy:
    """Single pairs and batches."""
    return large_problems(law, **few) | requests(law, **few)


@st.composite
def problems_without_ties(draw: Draw, law: DraftLaw, max_n: int = 4, max_k: int = 3) -> Problem:
    """Problems in which no two masses of q are equal, so that no order among them depends on token ids."""
    n, k = draw(st.sampled_from(sizes(law, max_n, max_k, 27)))
    q = as_masses(draw(st.lists(st.integers(0, 3 * n), min_size=1, max_size=n, unique=True)))
    return Problem(draw(distributions(len(q))), q, k, law)


@st.composite
def batches(draw: Draw, law: DraftLaw, max_rows: int = 3, max_n: int = 4, max_k: int = 3) -> Problem:
    """Batches of 2 to max_rows problems: p and q of shape (rows, n)."""
    most, k = draw(st.sampled_from(sizes(law, max_n, max_k, 27)))
    n = draw(st.integers(1, most))
    rows = draw(st.lists(pairs(n, n), min_size=2, max_size=max_rows))
    return Problem(np.stack([p for p, _ in rows]), np.stack([q for _, q in rows]), k, law)


@st.composite
def covered_problems(draw: Draw, law: DraftLaw, max_n: int = 4, max_k: int = 4, max_drafts: int = 81) -> Problem:
    """Problems in which k drafts can hold every token of q, and p puts nothing on the others."""
    n, k = draw(st.sampled_from(sizes(law, max_n, max_k, max_drafts)))
    counts = st.tuples(st.integers(0, 3), st.integers(1, 3))
    held = draw(st.lists(counts, min_size=1, max_size=min(n, k)))
    others = [(0, 0)] * draw(st.integers(0, n - len(held)))
    rows = held + others if draw(st.booleans()) else others + held
    target = [count for count, _ in rows]
    if not any(target):
        target = [draft for _, draft in rows]
    return Problem(as_masses(target), as_masses([count for _, count in rows]), k, law)


@st.composite
def scarce_problems(draw: Draw, law: DraftLaw, max_n: int = 5, max_k: int = 4, max_drafts: int = 81) -> Problem:
    """Problems in which most drafts fall on a token that p never outputs: each further draft adds almost as much as the first."""
    n, k = draw(st.sampled_from([size for size in sizes(law, max_n, max_k, max_drafts) if size[0] > 1]))
    counts = st.tuples(st.integers(0, 3), st.integers(0, 3))
    rest = draw(st.lists(counts, min_size=1, max_size=n - 1))
    target, draft = [0, *(count for count, _ in rest)], [draw(st.integers(1, 60)), *(count for _, count in rest)]
    target[1] += not any(target)
    return Problem(as_masses(target), as_masses(draft), k, law)


def scarce_or_not(law: DraftLaw) -> Strategy:
    """Problems under the draft law, half of them from `scarce_problems`."""
    return problems(law) | scarce_problems(law)


Pair = tuple[tuple[F, ...], tuple[F, ...]]
PAIRS = (
    ((F(1),), (F(1),)),  # one token
    ((F(1, 2), F(1, 3), F(1, 6)), (F(1, 2), F(1, 3), F(1, 6))),  # p == q
    ((F(0), F(1)), (F(0), F(1))),  # both one-hot, the same
    ((F(1), F(0)), (F(0), F(1))),  # both one-hot, different
    ((F(0), F(1), F(0)), (F(1, 2), F(1, 4), F(1, 4))),  # p one-hot
    ((F(1, 2), F(1, 4), F(1, 4)), (F(0), F(1), F(0))),  # q one-hot
    ((F(1, 2), F(1, 2), F(0), F(0)), (F(0), F(0), F(1, 3), F(2, 3))),  # disjoint supports
    ((F(0), F(2, 5), F(0), F(3, 5)), (F(1, 4),) * 4),  # zeros in p
    ((F(1, 4),) * 4, (F(0), F(2, 5), F(0), F(3, 5))),  # zeros in q
    ((F(0), F(1, 3), F(2, 3), F(0)), (F(0), F(0), F(1, 3), F(2, 3))),  # zeros in both
    ((F(2**53 - 1, 2**54), F(2**53 + 1, 2**54)), (F(2**53 + 1, 2**54), F(2**53 - 1, 2**54))),  # one ulp apart
    (
        (F(1, 2), F(2**53 - 1, 2**55), F(2**53 + 1, 2**55)),
        (F(1, 2), F(2**53 + 1, 2**55), F(2**53 - 1, 2**55)),
    ),  # in part
    ((F(1, 2), F(1, 4), F(1, 8), F(1, 8)), (F(1, 4), F(1, 8), F(5, 16), F(5, 16))),  # ties in p/q
)


def subnormal_pairs(tiny: F = F(5e-324)) -> tuple[Pair, ...]:
    """Pairs (p, q) with a mass that is by default the smallest subnormal number: in both, in p and in q."""
    rest, thirds = (tiny, F(1, 2), F(1, 2) - tiny), (F(1, 3),) * 3
    return ((tiny, 1 - tiny), (1 - tiny, tiny)), (rest, thirds), (thirds, rest)


def boundary_list(law: DraftLaw) -> list[Problem]:
    """Proper boundary cases: every pair with 1 to 4 drafts, as far as the draft law allows them, also with more than n."""
    return _problems(PAIRS, law, 1)


def extreme_list(law: DraftLaw) -> list[Problem]:
    """Problems that are valid but not proper: no drafts, probabilities of 5e-324, and a batch without rows."""
    no_rows = np.zeros((0, 3), dtype=object)
    most = max(numbers_of_drafts(law, range(3)))
    none = _problems(PAIRS, law, 0, 0)
    return [*_problems(subnormal_pairs(), law, 1), *none, Problem(no_rows, no_rows, most, law)]


def _problems(pairs: Sequence[Pair], law: DraftLaw, least: int, most: int = 4, tuples: int = 64) -> list[Problem]:
    """Every pair with `least` to `most` drafts, small ones first."""
    allowed = numbers_of_drafts(law, range(least, most + 1))
    few = [(p, q, k) for (p, q), k in product(pairs, allowed) if len(p) ** k <= tuples]
    few.sort(key=lambda each: (len(each[0]), each[2]))
    return [Problem(list(p), list(q), k, law) for p, q, k in few]
