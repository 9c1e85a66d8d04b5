"""The cases by category: generic ones, and boundary cases in which verifiers failed.

Probabilities and random numbers are small multiples of powers of two, so that their sums, differences and products are exact in
float32 in every order. Categories about rounding name their arithmetic in the docstring.
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
    """A generator used for its bits only, which are the same in every version of Python."""

    def below(self, n: int) -> int:
        """An integer in [0, n)."""
        return self.getrandbits(32) % n

    def masses(self, n: int, whole: int = WHOLE, least: int = 1) -> list[int]:
        """n integers >= `least` with this sum."""
        left = whole - n * least
        cuts = sorted(self.below(left + 1) for _ in range(n - 1))
        return [least + b - a for a, b in zip([0, *cuts], [*cuts, left], strict=True)]

    def law(self, n: int) -> list[Fraction]:
        """A distribution in multiples of 1/64."""
        return [Fraction(mass, WHOLE) for mass in self.masses(n)]

    def drafted(self, row: Row) -> int:
        """A token of positive probability; probable ones are preferred."""
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
    """A case of a vector. texts: generated rows of p and q, as text. edge: value of the uniform number that the category is about."""

    category: str
    case: Case
    texts: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    edge: Fraction | None = None
    allowed: tuple[tuple[int, ...], ...] = ()  # outcomes that are not wrong, for rows with NaN


def shape(source: Source, rule: str, most: int = 8) -> tuple[int, ...]:
    """Parents: a chain, a tree, or children of one node, with one to `most` draft tokens."""
    size = 1 + min(source.below(most), source.below(most))
    if rule == "k-seq":
        return (-1,) * size
    if rule in ("sglang-tree", "recursive-rejection", "recursive-rejection-distinct"):
        return tuple(-1 if index < 2 else source.below(index // 2 + 1) - 1 for index in range(size))
    return chain(*range(size))


def filled(source: Source, rule: str, parents: tuple[int, ...], n: int, make: Callable[[int], tuple[Row, Row]]) -> Case:
    """A case of this shape; make(node) returns p and q. Siblings are distinct for rules that need it, if n allows."""
    laws = [make(node) for node in range(len(parents) + 1)]
    drafts: list[int] = []
    for parent in parents:
        siblings = [drafts[index] for index in range(len(drafts)) if parents[index] == parent]
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
    """Vocabulary size: small, but large enough for distinct siblings."""
    widest = max(parents.count(parent) for parent in parents)
    return max((2, 3, 3, 4, 4, 5, 6, 8)[source.below(8)], widest + 1)


def plain(source: Source, rule: str, most: int = 8) -> Written:
    """Distributions in multiples of 1/64."""
    parents = shape(source, rule, most)
    n = size_of(source, rule, parents)
    return Written("plain", filled(source, rule, parents, n, lambda node: (source.law(n), source.law(n))))


def one_hot(n: int, token: int) -> list[Fraction]:
    """Probability 1 at one token."""
    return [Fraction(int(y == token)) for y in range(n)]


def of_rows(
    name: str, make: Callable[[Source, int], tuple[Row, Row]], least: int = 3
) -> Callable[[Source, str], Written]:
    """A category that concerns the distributions: make(source, n) returns p and q of a node."""

    def written(source: Source, rule: str) -> Written:
        parents = shape(source, rule, 4)
        n = max(least, size_of(source, rule, parents))
        return Written(name, filled(source, rule, parents, n, lambda node: make(source, n)))

    return written


def cut(source: Source, n: int) -> list[Fraction]:
    """A distribution with tokens of probability 0, the last one among them."""
    held = source.masses(n - n // 2)
    where = sorted({source.below(n - 1) for _ in range(2 * n)})[: len(held)]
    held = [*held[: len(where) - 1], WHOLE - sum(held[: len(where) - 1])]
    return [Fraction(held[where.index(y)], WHOLE) if y in where else Fraction(0) for y in range(n)]


def disjoint(source: Source, n: int) -> tuple[Row, Row]:
    """p on the first half of the tokens, q on the second."""
    zeros = [Fraction(0)]
    return source.law(n // 2) + zeros * (n - n // 2), zeros * (n // 2) + source.law(n - n // 2)


def tiny(source: Source, n: int) -> tuple[Row, Row]:
    """Masses of 2^-30, about 1e-9, next to 1/4 and 1/2."""
    least = Fraction(1, 1 << 30)
    p = [least] * (n - 2) + [Fraction(1, 2)] * 2
    q = [Fraction(1, 4)] * 2 + [least] * (n - 3) + [Fraction(1, 2)]
    return p, q


def in_float(source: Source, n: int, short: bool) -> list[Fraction]:
    """A distribution rounded to float32 or bfloat16, as after softmax: its sum is 1 up to rounding."""
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
    "p truncated": lambda source, n: (cut(source, n), source.law(n)),
    "q truncated": lambda source, n: (source.law(n), cut(source, n)),
    "p and q truncated": lambda source, n: (cut(source, n), cut(source, n)),
    "probabilities of 2^-30": tiny,
    "probabilities rounded to float32": lambda source, n: (in_float(source, n, False), in_float(source, n, False)),
    "probabilities rounded to bfloat16": lambda source, n: (in_float(source, n, True), in_float(source, n, True)),
}
ONLY_P = (
    "one-hot q",
    "p = q",
    "disjoint p and q",
    "q truncated",
    "p and q truncated",
)  # skipped for rules that do not read q


def zero_p_draft(source: Source, rule: str) -> Written:
    """A draft token outside the target's truncated support: p is 0 there."""
    written = ROW_CATEGORIES["p truncated"](source, rule)
    case, drafts = written.case, list(written.case.drafts)
    index = source.below(len(drafts))
    parent = case.parents[index]
    siblings = [drafts[i] for i in range(len(drafts)) if case.parents[i] == parent and i != index]
    outside = [y for y, mass in enumerate(case.p[parent + 1]) if mass == 0 and y not in siblings]
    drafts[index] = outside[source.below(len(outside))] if outside else drafts[index]
    return Written("draft token with p = 0", replace(case, drafts=tuple(drafts)))


def zero_q_draft(source: Source, rule: str) -> Written:
    """A draft token with q = 0."""
    written = ROW_CATEGORIES["q truncated"](source, rule)
    case, drafts = written.case, list(written.case.drafts)
    index = source.below(len(drafts))
    assert case.q is not None
    row = case.q[case.parents[index] + 1]
    drafts[index] = row.index(0)
    return Written("draft token with q = 0", replace(case, drafts=tuple(drafts)))


def invalid_draft(source: Source, rule: str) -> Written:
    """An id outside the vocabulary, -1 or >= n: it is rejected, and the residual is p."""
    case = plain(source, rule, 4).case
    index = source.below(len(case.drafts))
    drafts = [*case.drafts[:index], *[(-1, case.n, case.n + 7)[source.below(3)]] * (len(case.drafts) - index)]
    if rule == "flashinfer-chain":  # callers pad with -1, and rows of zeros
        index = min(1, len(case.drafts) - 1)
        drafts = [*case.drafts[:index], *[-1] * (len(case.drafts) - index)]
    q = None if case.q is None else (*case.q[:index], *[[Fraction(0)] * case.n] * (len(case.q) - index))
    return Written("draft token outside the vocabulary", replace(case, drafts=tuple(drafts), q=q))


def empty_residual(source: Source, rule: str) -> Written:
    """p = q, and a draft token of probability 0: it is rejected, (p - q)+ is 0, and the token is sampled from p."""
    parents = chain(*range(1 + source.below(3)))
    n = 4 + source.below(3)
    rows = [cut(source, n) for _ in range(len(parents) + 1)]
    drafts = [source.drafted(row) for row in rows[:-1]]
    index = source.below(len(drafts))
    drafts[index] = [y for y, mass in enumerate(rows[index]) if mass == 0][-1]
    return Written("empty residual", Case(tuple(rows), tuple(rows[:-1]), tuple(drafts), parents))


def zero_uniform(source: Source, rule: str) -> Written:
    """A uniform number of exactly 0 and a draft token with p = 0."""
    return replace(zero_p_draft(source, rule), category="uniform = 0, draft token with p = 0", edge=Fraction(0))


def last_uniform_below_one(source: Source, rule: str) -> Written:
    """The last uniform number is 1 - 2^-24, and p is 0 at the last token. Sums are exact in float32."""
    return replace(
        ROW_CATEGORIES["p truncated"](source, rule),
        category="uniform = 1 - 2^-24",
        edge=1 - Fraction(1, 1 << 24),
    )


def last_uniform_one(source: Source, rule: str) -> Written:
    """The last uniform number is 1, as from a generator on (0, 1]: the last token of positive probability is expected."""
    return replace(ROW_CATEGORIES["p truncated"](source, rule), category="uniform = 1", edge=Fraction(1))


def last_uniform_zero(source: Source, rule: str) -> Written:
    """The last uniform number is 0, and p is 0 at the first token: the first token of positive probability is expected."""
    written = of_rows("uniform = 0", lambda source, n: (cut(source, n)[::-1], source.law(n)))(source, rule)
    return replace(written, edge=Fraction(0))


def on_the_threshold(source: Source, rule: str) -> Written:
    """The first uniform number is exactly p/q with q = 1/2, so that < and <= differ; for deterministic draft tokens it is p."""
    parents = chain(*range(1 + source.below(2)))
    n = 3 + source.below(2)
    rows = [source.law(n) for _ in range(len(parents) + 1)]
    laws: list[Row] = [source.law(n) for _ in parents]
    token = min(range(n), key=lambda y: (rows[0][y], y))
    laws[0] = [Fraction(1, 2) if y == token else Fraction(1, 2) / (n - 1) for y in range(n)]
    if n == 4:  # multiples of 1/3 are not exact in binary
        laws[0] = [Fraction(1, 2) if y == token else Fraction((1, 1, 2)[(y - token) % n - 1], 8) for y in range(n)]
    drafts = (token, *(source.drafted(law) for law in laws[1:]))
    written = Case(tuple(rows), None if rule in CHOSEN else tuple(laws), drafts, parents)
    edge = rows[0][token] if rule in CHOSEN else 2 * rows[0][token]
    return Written("uniform equal to the threshold", written, edge=edge)


def above_one(source: Source, rule: str) -> Written:
    """A one-hot row of q whose mass rounded to 1 + 2^-23, the next float32 after 1."""
    written = ROW_CATEGORIES["one-hot q"](source, rule)
    q = tuple([mass * (1 + Fraction(1, 1 << 23)) for mass in row] for row in written.case.q or ())
    return replace(written, category="q above 1 by rounding", case=replace(written.case, q=q))


def nan_p(source: Source, rule: str) -> Written:
    """The first row of p is NaN: an error or any token of the vocabulary is right."""
    case = plain(source, rule, 2).case
    nan = [float("nan")] * case.n
    drafts = replace(case, p=(nan, *case.p[1:]))
    allowed = tuple((token,) for token in range(case.n))
    return Written("NaN in p", drafts, allowed=allowed)


def nan_q(source: Source, rule: str) -> Written:
    """A row of q is NaN, and its draft token 0 has p = 0: an error or a token with p > 0 is right."""
    n = 3 + source.below(4)
    row = [Fraction(0), *source.law(n - 1)]
    case = Case((row, source.law(n)), ([float("nan")] * n,), (0,), (-1,))
    return Written("NaN in q", case, allowed=tuple((token,) for token in range(1, n)))


def equal_siblings(source: Source, rule: str) -> Written:
    """A token occurs twice among the children of the root; the second occurrence must not be accepted."""
    written = plain(source, rule, 1)
    n = max(4, written.case.n)
    token, other = source.below(n), source.below(n)
    drafts, parents = (token, token, other), (-1, -1, -1)
    rows = tuple(source.law(n) for _ in range(4))
    return Written("equal siblings", Case(rows, None if rule in CHOSEN else rows, drafts, parents))


def equal_masses(source: Source, rule: str) -> Written:
    """Two tokens have the largest probability: the first one is expected."""
    n = 4 + source.below(3)
    parents = chain(*range(1 + source.below(3)))
    row = [Fraction(1, 4), Fraction(1, 4), *(Fraction(mass, WHOLE) for mass in source.masses(n - 2, WHOLE // 2))]
    rows = []
    for _ in range(len(parents) + 1):
        turn = source.below(n)
        rows.append([*row[turn:], *row[:turn]])
    best = [first_best(row) for row in rows]
    return Written("equal largest probabilities", Case(tuple(rows), None, tuple(best[:-1]), parents))


def large(source: Source, rule: str) -> Written:
    """Rows of up to 151,936 tokens from a linear congruential generator."""
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


ROW_CATEGORIES = {name: of_rows(name, make) for name, make in ROWS.items()}
CUMULATIVE_RULES = ("sglang-chain", "sglang-tree", "flashinfer-chain", "llama.cpp-server", "recursive-rejection",
               "recursive-rejection-distinct", "k-seq")  # fmt: skip
ZERO_TRIED = ("flashinfer-chain", "llama.cpp-server", "recursive-rejection", "k-seq")
EXACT_COMPARED = ("vllm-v1", "vllm-v1-chosen", "sglang-chain", "flashinfer-chain", "tensorrt-llm")
CLOSED = ("vllm-v1", "vllm-v1-chosen", "transformers", "tensorrt-llm", "sglang-tree")
FIRST_RUNNERS = ("vllm-v1", "sglang-chain", "flashinfer-chain", "tensorrt-llm", "transformers")


def categories_of(rule: str) -> list[Callable[[Source, str], Written]]:
    """The categories that concern a rule."""
    of_q = rule not in CHOSEN
    found: list[Callable[[Source, str], Written]] = [plain, plain, plain, large]
    found += [make for name, make in ROW_CATEGORIES.items() if of_q or name not in ONLY_P]
    if rule != "greedy":
        found.append(zero_p_draft)
    if of_q and rule not in ("vllm-v2-block", "k-seq"):
        found.append(zero_q_draft)
    if (rule in CHOSEN and rule != "sglang-tree") or rule == "flashinfer-chain":
        found.append(invalid_draft)
    also = {empty_residual: FIRST_RUNNERS, zero_uniform: CLOSED, last_uniform_below_one: CUMULATIVE_RULES,
            last_uniform_one: CUMULATIVE_RULES, last_uniform_zero: ZERO_TRIED,
            on_the_threshold: EXACT_COMPARED, above_one: ("sglang-chain", "flashinfer-chain"), equal_masses: ("greedy",),
            equal_siblings: ("sglang-tree", "recursive-rejection"), nan_q: ("vllm-v1",),
            nan_p: ("vllm-v1", "vllm-v1-chosen", "vllm-v2", "vllm-v2-chosen")}  # fmt: skip
    return found + [make for make, rules in also.items() if rule in rules]


def numbers_for(source: Source, rule: str, written: Written) -> RandomNumbers:
    """Random numbers of a replay, with the edge value if the category has one."""
    case, size = written.case, len(written.case.drafts)
    count = {"sglang-tree": size + 2, "k-seq": size + 2, "greedy": 0}.get(rule, size + 1)
    uniforms = [Fraction(2 * source.below(UNIFORMS) + 1, 2 * UNIFORMS) for _ in range(count)]
    if written.edge is not None and written.category.startswith("uniform = 0, draft"):
        uniforms = [written.edge] * size + uniforms[size:]
    elif written.category == "uniform equal to the threshold":
        uniforms[0] = written.edge or uniforms[0]
    elif written.edge is not None:
        uniforms = [*uniforms[:-1], written.edge] if source.below(2) else [written.edge] * count
    if rule in CUMULATIVE_RULES or rule == "greedy":
        return RandomNumbers(tuple(uniforms))
    rows = 1 if rule in ("tensorrt-llm", "transformers") else 2 if rule.startswith("vllm-v1") else size + 1
    if written.texts:
        texts = tuple(f"noise:{11 + source.below(4)}" for _ in range(rows))
        return RandomNumbers(tuple(uniforms[:size]), tuple(read_row(text, case.n) for text in texts), texts)
    noise = [
        [Fraction(source.below(1023) + 1 - 512 * (rule in GUMBEL), 256) for _ in range(case.n)] for _ in range(rows)
    ]
    return RandomNumbers(tuple(uniforms[:size]), tuple(noise))
