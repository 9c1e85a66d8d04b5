"""The cases: plain ones, and the hard places where verifiers went wrong, by the name of the place.

Masses and numbers are small multiples of powers of two: sums, differences and products of them are exact in float32, whatever the
order. Where a place is about rounding, its text says which arithmetic is meant.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from ot_draft.verify.vectors.readers.read import row as read_row

from .chance import Row
from .rules import CHOSEN, GUMBEL, Case, chain, first_best

WHOLE = 64
LARGE = 151_936
UNIFORMS = 1 << 12
Rows = tuple[Row, ...]


class Source(random.Random):
    """A generator of which only bits are used: they are the same in every version of Python."""

    def below(self, n: int) -> int:
        """A whole number in [0, n)."""
        return self.getrandbits(32) % n

    def masses(self, n: int, whole: int = WHOLE, least: int = 1) -> list[int]:
        """n whole numbers, none under `least`, with this sum."""
        left = whole - n * least
        cuts = sorted(self.below(left + 1) for _ in range(n - 1))
        return [least + b - a for a, b in zip([0, *cuts], [*cuts, left], strict=True)]

    def law(self, n: int) -> list[Fraction]:
        """A law in 64ths."""
        return [Fraction(mass, WHOLE) for mass in self.masses(n)]

    def drafted(self, row: Row) -> int:
        """A token with mass, the likely ones more often."""
        held = [token for token, mass in enumerate(row) if mass > 0]
        return max((held[self.below(len(held))] for _ in range(2)), key=lambda token: row[token])


@dataclass(frozen=True)
class RandomNumbers:
    """The random numbers of a replay: uniforms, and rows of noise as fractions, or as the text of a generated row."""

    uniforms: tuple[Fraction, ...]
    noise: tuple[Row, ...] = ()
    texts: tuple[str, ...] = ()  # of generated rows


@dataclass(frozen=True)
class Written:
    """A case as a vector holds it. texts: of generated rows of p and q. edge: the uniform that is set, where the place is about one."""

    place: str
    case: Case
    texts: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    edge: Fraction | None = None
    allowed: tuple[tuple[int, ...], ...] = ()  # outcomes, where it is about what may come out at all


def shape(source: Source, rule: str, most: int = 8) -> tuple[int, ...]:
    """Parents: a chain, a tree, or children of one node, of one to eight drafts."""
    size = 1 + min(source.below(most), source.below(most))
    if rule == "k-seq":
        return (-1,) * size
    if rule in ("sglang-tree", "recursive-rejection", "recursive-rejection-distinct"):
        return tuple(-1 if place < 2 else source.below(place // 2 + 1) - 1 for place in range(size))
    return chain(*range(size))


def filled(source: Source, rule: str, parents: tuple[int, ...], n: int, make: Callable[[int], tuple[Row, Row]]) -> Case:
    """A case of this shape; make(node) gives p and q there. Siblings are distinct where the rule wants that, as far as n allows."""
    laws = [make(node) for node in range(len(parents) + 1)]
    drafts: list[int] = []
    for parent in parents:
        siblings = [drafts[place] for place in range(len(drafts)) if parents[place] == parent]
        row = list(laws[parent + 1][0] if rule in CHOSEN else laws[parent + 1][1])
        if rule in ("sglang-tree", "recursive-rejection-distinct"):
            row = [
                Fraction(0) if token in siblings else max(mass, Fraction(1, WHOLE)) for token, mass in enumerate(row)
            ]
        drafts.append(source.drafted(row if sum(row) > 0 else [1] * n))
    p = tuple(law[0] for law in laws)
    tree = rule in ("recursive-rejection", "recursive-rejection-distinct", "k-seq")
    q = None if rule in CHOSEN else tuple(law[1] for law in laws)[: len(laws) if tree else len(parents)]
    return Case(p, q, tuple(drafts), parents)


def size_of(source: Source, rule: str, parents: tuple[int, ...]) -> int:
    """A number of tokens: few as a rule, enough for distinct siblings."""
    widest = max(parents.count(parent) for parent in parents)
    return max((2, 3, 3, 4, 4, 5, 6, 8)[source.below(8)], widest + 1)


def plain(source: Source, rule: str, most: int = 8) -> Written:
    """Laws in 64ths."""
    parents = shape(source, rule, most)
    n = size_of(source, rule, parents)
    return Written("plain", filled(source, rule, parents, n, lambda node: (source.law(n), source.law(n))))


def one_hot(n: int, token: int) -> list[Fraction]:
    """All mass on a token."""
    return [Fraction(int(y == token)) for y in range(n)]


def of_rows(
    name: str, make: Callable[[Source, int], tuple[Row, Row]], least: int = 3
) -> Callable[[Source, str], Written]:
    """A place that lies in the laws: make(source, n) gives p and q."""

    def written(source: Source, rule: str) -> Written:
        parents = shape(source, rule, 4)
        n = max(least, size_of(source, rule, parents))
        return Written(name, filled(source, rule, parents, n, lambda node: make(source, n)))

    return written


def cut(source: Source, n: int) -> list[Fraction]:
    """A law with tokens of mass 0, the last one among them."""
    held = source.masses(n - n // 2)
    where = sorted({source.below(n - 1) for _ in range(2 * n)})[: len(held)]
    held = [*held[: len(where) - 1], WHOLE - sum(held[: len(where) - 1])]
    return [Fraction(held[where.index(y)], WHOLE) if y in where else Fraction(0) for y in range(n)]


def disjoint(source: Source, n: int) -> tuple[Row, Row]:
    """p on the first half of the tokens, q on the second."""
    zeros = [Fraction(0)]
    return source.law(n // 2) + zeros * (n - n // 2), zeros * (n // 2) + source.law(n - n // 2)


def tiny(source: Source, n: int) -> tuple[Row, Row]:
    """Masses of 2^-30, about 1e-9, beside 1/2 and more."""
    least = Fraction(1, 1 << 30)
    p = [least] * (n - 2) + [Fraction(1, 2)] * 2
    q = [Fraction(1, 4)] * 2 + [least] * (n - 3) + [Fraction(1, 2)]
    return p, q


def in_float(source: Source, n: int, short: bool) -> list[Fraction]:
    """A law rounded to float32 or bfloat16, as softmax leaves it: its sum is 1 up to rounding."""
    masses = source.masses(n, 1000)
    return [rounded(mass / 1000, short) for mass in masses]


def rounded(x: float, short: bool) -> Fraction:
    """x in float32, or in bfloat16 by rounding to even, exactly."""
    bits = int.from_bytes(struct.pack("<f", x), "little")
    if short:
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return Fraction(struct.unpack("<f", bits.to_bytes(4, "little"))[0])


def same(source: Source, n: int) -> tuple[Row, Row]:
    """p = q."""
    row = source.law(n)
    return row, row


ROWS = {
    "one-hot p": lambda source, n: (one_hot(n, source.below(n)), source.law(n)),
    "one-hot q": lambda source, n: (source.law(n), one_hot(n, source.below(n))),
    "p = q": same,
    "disjoint p and q": disjoint,
    "p cut to its top tokens": lambda source, n: (cut(source, n), source.law(n)),
    "q cut to its top tokens": lambda source, n: (source.law(n), cut(source, n)),
    "both cut": lambda source, n: (cut(source, n), cut(source, n)),
    "masses of 2^-30": tiny,
    "rows of float32": lambda source, n: (in_float(source, n, False), in_float(source, n, False)),
    "rows of bfloat16": lambda source, n: (in_float(source, n, True), in_float(source, n, True)),
}
ONLY_P = (
    "one-hot q",
    "p = q",
    "disjoint p and q",
    "q cut to its top tokens",
    "both cut",
)  # nothing new where q is not looked at


def refused_draft(source: Source, rule: str) -> Written:
    """A draft outside what the target's top-k left: p is 0 there."""
    written = ROW_PLACES["p cut to its top tokens"](source, rule)
    case, drafts = written.case, list(written.case.drafts)
    place = source.below(len(drafts))
    parent = case.parents[place]
    siblings = [drafts[i] for i in range(len(drafts)) if case.parents[i] == parent and i != place]
    outside = [y for y, mass in enumerate(case.p[parent + 1]) if mass == 0 and y not in siblings]
    drafts[place] = outside[source.below(len(outside))] if outside else drafts[place]
    return Written("draft outside the target's top-k", replace(case, drafts=tuple(drafts)))


def impossible_draft(source: Source, rule: str) -> Written:
    """A draft to which q gives 0, and p gives mass."""
    written = ROW_PLACES["q cut to its top tokens"](source, rule)
    case, drafts = written.case, list(written.case.drafts)
    place = source.below(len(drafts))
    assert case.q is not None
    row = case.q[case.parents[place] + 1]
    drafts[place] = row.index(0)
    return Written("draft with q = 0", replace(case, drafts=tuple(drafts)))


def absent_draft(source: Source, rule: str) -> Written:
    """An id that is no token, -1 or beyond the vocabulary: refused, and nothing of p is taken off for it."""
    case = plain(source, rule, 4).case
    place = source.below(len(case.drafts))
    drafts = [*case.drafts[:place], *[(-1, case.n, case.n + 7)[source.below(3)]] * (len(case.drafts) - place)]
    if rule == "flashinfer-chain":  # padded with -1, and rows of zeros for it, as its callers do
        place = min(1, len(case.drafts) - 1)
        drafts = [*case.drafts[:place], *[-1] * (len(case.drafts) - place)]
    q = None if case.q is None else (*case.q[:place], *[[Fraction(0)] * case.n] * (len(case.q) - place))
    return Written("draft outside the vocabulary", replace(case, drafts=tuple(drafts), q=q))


def nothing_left(source: Source, rule: str) -> Written:
    """p = q, and a draft of mass 0 in both: it is refused, and nothing is left of p - q; then p is due."""
    parents = chain(*range(1 + source.below(3)))
    n = 4 + source.below(3)
    rows = [cut(source, n) for _ in range(len(parents) + 1)]
    drafts = [source.drafted(row) for row in rows[:-1]]
    place = source.below(len(drafts))
    drafts[place] = [y for y, mass in enumerate(rows[place]) if mass == 0][-1]
    return Written("empty residual", Case(tuple(rows), tuple(rows[:-1]), tuple(drafts), parents))


def zero_coin(source: Source, rule: str) -> Written:
    """A coin of exactly 0 and a draft of mass 0 in p."""
    return replace(refused_draft(source, rule), place="coin 0, draft with p = 0", edge=Fraction(0))


def nearly_one(source: Source, rule: str) -> Written:
    """The last number is 1 - 2^-24, and p's last tokens have mass 0. Arithmetic: float32, in which all sums here are exact."""
    return replace(
        ROW_PLACES["p cut to its top tokens"](source, rule),
        place="number below 1 by 2^-24",
        edge=1 - Fraction(1, 1 << 24),
    )


def one_itself(source: Source, rule: str) -> Written:
    """The last number is 1, as a generator on (0, 1] gives it: the last token that has mass is due."""
    return replace(ROW_PLACES["p cut to its top tokens"](source, rule), place="number 1", edge=Fraction(1))


def number_zero(source: Source, rule: str) -> Written:
    """The last number is 0, and p's first tokens have mass 0: the first token that has mass is due."""
    written = of_rows("number 0", lambda source, n: (cut(source, n)[::-1], source.law(n)))(source, rule)
    return replace(written, edge=Fraction(0))


def on_the_threshold(source: Source, rule: str) -> Written:
    """The first coin is p/q exactly, with q = 1/2: u q and p/q are exact, and < and <= part."""
    parents = chain(*range(1 + source.below(2)))
    n = 3 + source.below(2)
    rows = [source.law(n) for _ in range(len(parents) + 1)]
    laws: list[Row] = [source.law(n) for _ in parents]
    token = min(range(n), key=lambda y: (rows[0][y], y))
    laws[0] = [Fraction(1, 2) if y == token else Fraction(1, 2) / (n - 1) for y in range(n)]
    if n == 4:  # thirds are no binary fractions
        laws[0] = [Fraction(1, 2) if y == token else Fraction((1, 1, 2)[(y - token) % n - 1], 8) for y in range(n)]
    drafts = (token, *(source.drafted(law) for law in laws[1:]))
    written = Case(tuple(rows), None if rule in CHOSEN else tuple(laws), drafts, parents)
    edge = rows[0][token] if rule in CHOSEN else 2 * rows[0][token]
    return Written("coin on the threshold", written, edge=edge)


def above_one(source: Source, rule: str) -> Written:
    """A one-hot row of q whose mass rounded to 1 + 2^-23, the float32 behind 1."""
    written = ROW_PLACES["one-hot q"](source, rule)
    q = tuple([mass * (1 + Fraction(1, 1 << 23)) for mass in row] for row in written.case.q or ())
    return replace(written, place="q above 1 by rounding", case=replace(written.case, q=q))


def nan_p(source: Source, rule: str) -> Written:
    """The first row of p is NaN: a refusal, or any token of the vocabulary, and no other id."""
    case = plain(source, rule, 2).case
    nan = [float("nan")] * case.n
    drafts = replace(case, p=(nan, *case.p[1:]))
    allowed = tuple((token,) for token in range(case.n))
    return Written("row of NaN in p", drafts, allowed=allowed)


def nan_q(source: Source, rule: str) -> Written:
    """A row of q is NaN, and its draft, token 0, has no mass in p: a refusal, or a token that has mass."""
    n = 3 + source.below(4)
    row = [Fraction(0), *source.law(n - 1)]
    case = Case((row, source.law(n)), ([float("nan")] * n,), (0,), (-1,))
    return Written("row of NaN in q", case, allowed=tuple((token,) for token in range(1, n)))


def equal_siblings(source: Source, rule: str) -> Written:
    """A token stands twice among the children of the root: its second place is worth nothing."""
    written = plain(source, rule, 1)
    n = max(4, written.case.n)
    token, other = source.below(n), source.below(n)
    drafts, parents = (token, token, other), (-1, -1, -1)
    rows = tuple(source.law(n) for _ in range(4))
    return Written("equal siblings", Case(rows, None if rule in CHOSEN else rows, drafts, parents))


def equal_masses(source: Source, rule: str) -> Written:
    """The largest mass stands twice: the first of the two tokens is due."""
    n = 4 + source.below(3)
    parents = chain(*range(1 + source.below(3)))
    row = [Fraction(1, 4), Fraction(1, 4), *(Fraction(mass, WHOLE) for mass in source.masses(n - 2, WHOLE // 2))]
    rows = []
    for _ in range(len(parents) + 1):
        turn = source.below(n)
        rows.append([*row[turn:], *row[:turn]])
    best = [first_best(row) for row in rows]
    return Written("equal largest masses", Case(tuple(rows), None, tuple(best[:-1]), parents))


def large(source: Source, rule: str) -> Written:
    """Rows that a linear congruence makes, of up to 151,936 tokens."""
    n = (1000, 32_000, LARGE, LARGE)[source.below(4)]
    seeds = [1 + source.below(3) for _ in range(3)]
    shift = {1000: 18, 32_000: 23, LARGE: 25}[n]
    p_texts = tuple(f"masses:{seed}:{shift}" for seed in (seeds[0], seeds[1]))
    q_texts = (
        ()
        if rule in CHOSEN
        else tuple(f"masses:{seeds[2] + 5}:{shift}" for _ in range(2 if "rejection" in rule or rule == "k-seq" else 1))
    )
    p, q = (tuple(read_row(text, n) for text in texts) for texts in (p_texts, q_texts))
    token = (seeds[0] if rule in CHOSEN else seeds[2] + 5) % n if source.below(2) else source.below(n)
    return Written("large vocabulary", Case(p, q or None, (token,), (-1,)), (p_texts, q_texts))


ROW_PLACES = {name: of_rows(name, make) for name, make in ROWS.items()}
PLACE_DRAWN = ("sglang-chain", "sglang-tree", "flashinfer-chain", "llama.cpp-server", "recursive-rejection",
               "recursive-rejection-distinct", "k-seq")  # fmt: skip
ZERO_TRIED = ("flashinfer-chain", "llama.cpp-server", "recursive-rejection", "k-seq")
EXACT_COMPARED = ("vllm-v1", "vllm-v1-chosen", "sglang-chain", "flashinfer-chain", "tensorrt-llm")
CLOSED = ("vllm-v1", "vllm-v1-chosen", "transformers", "tensorrt-llm", "sglang-tree")
FIRST_RUNNERS = ("vllm-v1", "sglang-chain", "flashinfer-chain", "tensorrt-llm", "transformers")


def places_of(rule: str) -> list[Callable[[Source, str], Written]]:
    """The places that concern a rule."""
    of_q = rule not in CHOSEN
    found: list[Callable[[Source, str], Written]] = [plain, plain, plain, large]
    found += [make for name, make in ROW_PLACES.items() if of_q or name not in ONLY_P]
    if rule != "greedy":
        found.append(refused_draft)
    if of_q and rule not in ("vllm-v2-block", "k-seq"):
        found.append(impossible_draft)
    if (rule in CHOSEN and rule != "sglang-tree") or rule == "flashinfer-chain":
        found.append(absent_draft)
    also = {nothing_left: FIRST_RUNNERS, zero_coin: CLOSED, nearly_one: PLACE_DRAWN, one_itself: PLACE_DRAWN, number_zero: ZERO_TRIED,
            on_the_threshold: EXACT_COMPARED, above_one: ("sglang-chain", "flashinfer-chain"), equal_masses: ("greedy",),
            equal_siblings: ("sglang-tree", "recursive-rejection"), nan_q: ("vllm-v1",),
            nan_p: ("vllm-v1", "vllm-v1-chosen", "vllm-v2", "vllm-v2-chosen")}  # fmt: skip
    return found + [make for make, rules in also.items() if rule in rules]


def numbers_for(source: Source, rule: str, written: Written) -> RandomNumbers:
    """Random numbers of a replay, the edge among them where the place is about one."""
    case, size = written.case, len(written.case.drafts)
    count = {"sglang-tree": size + 2, "k-seq": size + 2, "greedy": 0}.get(rule, size + 1)
    uniforms = [Fraction(2 * source.below(UNIFORMS) + 1, 2 * UNIFORMS) for _ in range(count)]
    if written.edge is not None and written.place.startswith("coin 0"):
        uniforms = [written.edge] * size + uniforms[size:]
    elif written.place == "coin on the threshold":
        uniforms[0] = written.edge or uniforms[0]
    elif written.edge is not None:
        uniforms = [*uniforms[:-1], written.edge] if source.below(2) else [written.edge] * count
    if rule in PLACE_DRAWN or rule == "greedy":
        return RandomNumbers(tuple(uniforms))
    rows = 1 if rule in ("tensorrt-llm", "transformers") else 2 if rule.startswith("vllm-v1") else size + 1
    if written.texts:
        texts = tuple(f"noise:{11 + source.below(4)}" for _ in range(rows))
        return RandomNumbers(tuple(uniforms[:size]), tuple(read_row(text, case.n) for text in texts), texts)
    noise = [
        [Fraction(source.below(1023) + 1 - 512 * (rule in GUMBEL), 256) for _ in range(case.n)] for _ in range(rows)
    ]
    return RandomNumbers(tuple(uniforms[:size]), tuple(noise))
