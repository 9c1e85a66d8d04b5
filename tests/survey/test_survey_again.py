"""Sixteen rows of the survey, drawn at random, recomputed from their papers and code by loops without the survey's code; argued rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction as F
from heapq import heappop, heappush
from itertools import count, product
from math import exp, log
from typing import Any

import numpy as np
import pytest

from proofs_checks.survey import REGISTER
from proofs_checks.survey.cases import along_path, one_token

Law = dict[tuple[int, ...], F]
Row = tuple[F, ...]
Model = Callable[[tuple[int, ...]], Row]


def positive_part(p: Row, q: Row) -> list[F]:
    rest = [max(a - b, F(0)) for a, b in zip(p, q, strict=True)]
    return [a / sum(rest) for a in rest] if sum(rest) else list(p)


def one_draft(p: Row, q: Row, accept: Callable[[int], F], rest: Any) -> Law:
    """A draft token x of q, kept with accept(x), else a token of rest."""
    law: Law = defaultdict(F)
    for x, mass in enumerate(q):
        kept = min(F(1), accept(x)) if mass else F(0)
        law[x,] += mass * kept
        for y, other in enumerate(rest):
            law[y,] += mass * (1 - kept) * other
    return law


def lenience(p: Model, q: Model) -> Law:
    """SPEC-RL: accept with min(1, p / (l q)), l = 1/2, else a token of p."""
    return one_draft(p(()), q(()), lambda x: 2 * p(())[x] / q(())[x], p(()))


def closed_pull(p: Model, q: Model) -> Law:
    """mlx-lm 1085: accept with min(1, p / q), else a token of p."""
    return one_draft(p(()), q(()), lambda x: p(())[x] / q(())[x], p(()))


def sigmoids(p: Model, q: Model) -> Law:
    """Wagner et al.: with logits log p and log q, p / (1 + p) and q / (1 + q) in the test and in the residual."""
    a, b = ([mass / (1 + mass) for mass in side(())] for side in (p, q))
    rest = [max(s - t, F(0)) for s, t in zip(a, b, strict=True)]
    whole = sum(rest) or sum(a)
    rest = [mass / whole for mass in (rest if sum(rest) else a)]
    return one_draft(p(()), q(()), lambda x: a[x] / b[x], rest)


def ensemble(p: Model, q: Model) -> Law:
    """DIVERSED, weight 1/2: speculative sampling for (p + q) / 2, whose output is that distribution."""
    return {(y,): (a + b) / 2 for y, (a, b) in enumerate(zip(p(()), q(()), strict=True))}


def target(p: Model, q: Model) -> Law:
    """A greedy draft with q = 1 is kept with p(x), and replaced by another token of p."""
    x = max(range(len(p(()))), key=lambda y: (q(())[y], -y))
    law: Law = defaultdict(F)
    law[x,] = p(())[x]
    for y, mass in enumerate(p(())):
        if y != x:
            law[y,] += mass  # (1 - p(x)) of the rounds, times p(y) / (1 - p(x))
    return law


def top_candidates(p: Model, q: Model) -> Law:
    """MCSD at draft temperature 0: q's two most probable tokens, tested in order with q on these two as if drawn without replacement."""
    n = len(p(()))
    chosen = sorted(range(n), key=lambda y: (-q(())[y], y))[:2]
    whole = sum(q(())[y] for y in chosen)
    law: Law = defaultdict(F)
    left, drafts, chance = p(()), tuple(q(())[y] / whole if y in chosen else F(0) for y in range(n)), F(1)
    for x in chosen:
        if not drafts[x]:
            break
        kept = min(F(1), left[x] / drafts[x])
        law[x,] += chance * kept
        left, chance = tuple(positive_part(left, drafts)), chance * (1 - kept)
        others = [F(0) if y == x else mass for y, mass in enumerate(drafts)]
        drafts = tuple(mass / sum(others) for mass in others) if sum(others) else tuple(others)
    for y, mass in enumerate(left):
        law[y,] += chance * mass
    return law


def chain(p: Model, q: Model) -> Law:
    """FlashInfer: two drafts in a row by p / q, the residual at the first rejection, a token of p after both; then p up to three tokens."""
    n, law = len(p(())), defaultdict[tuple[int, ...], F](F)
    for path in product(range(n), repeat=2):
        chance = q(())[path[0]] * q(path[:1])[path[1]] if q(())[path[0]] else F(0)
        for i in range(3):
            if not chance:
                break
            text = path[:i]
            kept = min(F(1), p(text)[path[i]] / q(text)[path[i]]) if i < 2 else F(0)
            rest = positive_part(p(text), q(text)) if i < 2 else p(text)
            for y, mass in enumerate(rest):
                for after in product(range(n), repeat=2 - i):
                    whole = (*text, y, *after)
                    tail = F(1)
                    for j in range(i + 1, 3):
                        tail *= p(whole[:j])[whole[j]]
                    law[whole] += chance * (1 - kept) * mass * tail
            chance *= kept
    return law


def one_noise(p: Model, q: Model) -> Law:
    """Sequoia with one draft a cycle: the drafted token is the same in every cycle; a kept one is followed by a token of p."""
    a, b = p(()), q(())
    law: Law = defaultdict(F)
    for x, mass in enumerate(b):
        waiting = [((), mass)] if mass else []
        while waiting:
            text, chance = waiting.pop()
            if len(text) >= 3:
                law[text[:3]] += chance
                continue
            kept = min(F(1), a[x] / b[x])
            for y in range(len(a)):
                waiting += [((*text, x, y), chance * kept * a[y])] if kept * a[y] else []
                rest = (1 - kept) * positive_part(a, b)[y]
                waiting += [((*text, y), chance * rest)] if rest else []
    return law


def greatest(masses: Row) -> int:
    """The most probable token, the first of several."""
    return max(range(len(masses)), key=lambda y: (masses[y], -y))


def argmax(p: Model, q: Model) -> Law:
    """The output is the target's most probable token, whatever was drafted."""
    return {(greatest(p(())),): F(1)}


def index_by_index(p: Model, q: Model) -> Law:
    """llama.cpp's example: the draft's first candidate x, kept with p(x)/q(x), else candidates in order of id subtracted by their place."""
    a, b = p(()), q(())
    x, law = greatest(b), defaultdict[tuple[int, ...], F](F)
    candidates, drafts = ([y for y, mass in enumerate(side) if mass] for side in (a, b))
    left = {y: max(a[y] - (b[drafts[i]] if i < len(drafts) else 0), F(0)) for i, y in enumerate(candidates)}
    left = left if sum(left.values()) else {y: a[y] for y in candidates}
    kept = min(F(1), a[x] / b[x])
    law[x,] = kept
    for y, mass in left.items():
        law[y,] += (1 - kept) * mass / sum(left.values())
    return law


def two_samples(p: Model, q: Model) -> Law:
    """fms-extras issue 12: two candidates that begin with x, a sample of p for each; x if one sample is x, else the first sample."""
    x, law = greatest(q(())), defaultdict[tuple[int, ...], F](F)
    for first, second in product(range(len(p(()))), repeat=2):
        law[x if x in (first, second) else first,] += p(())[first] * p(())[second]
    return law


def typical(p: Model, q: Model) -> Law:
    """Medusa: the draft's first candidate if p of it is above min(.3, .09 exp(-H)), else the target's."""
    a, x = p(()), greatest(q(()))
    entropy = -sum(float(mass) * log(float(mass) + 1e-5) for mass in a)
    return {(x if float(a[x]) > min(0.3, 0.09 * exp(-entropy)) else greatest(a),): F(1)}


def without_x(p: Model, q: Model) -> Law:
    """xLLM before pull 2175: two drafts by p / q; after a rejection of x, p without x."""
    law: Law = defaultdict(F)

    def emit(text: tuple[int, ...], masses: list[F], chance: F) -> None:
        for y, mass in enumerate(masses):
            for after in product(range(len(masses)), repeat=2 - len(text)):
                whole, tail = (*text, y, *after), F(1)
                for j in range(len(text) + 1, 3):
                    tail *= p(whole[:j])[whole[j]]
                law[whole] += chance * mass * tail

    def go(text: tuple[int, ...], chance: F) -> None:
        a, b = p(text), q(text)
        if len(text) == 2:
            return emit(text, list(a), chance)
        for x, mass in enumerate(b):
            if mass:
                kept = min(F(1), a[x] / b[x])
                if kept < 1:
                    others = [F(0) if y == x else other for y, other in enumerate(a)]
                    emit(text, [other / sum(others) for other in others], chance * mass * (1 - kept))
                go((*text, x), chance * mass * kept)
        return None

    go((), F(1))
    return law


def speculative(p: Model, q: Model) -> Law:
    """Hu and Huang, over the key: a draft token of q, p / q, the residual."""
    return one_draft(p(()), q(()), lambda x: p(())[x] / q(())[x], positive_part(p(()), q(())))


Node = tuple[int, ...]


def trees_of(q: Model, budget: int) -> list[tuple[dict[Node, list[int]], F]]:
    """DySpec's trees: the draw that is most likely to be reached comes next, a child that its siblings are not."""
    found = []

    def grow(children: dict[Node, list[int]], heap: list[Any], number: Any, chance: F) -> None:
        if sum(map(len, children.values())) == budget or not heap:
            found.append((children, chance))
            return
        value, _, node = heappop(heap)
        before = children.get(node, [])
        left = [F(0) if y in before else mass for y, mass in enumerate(q(node))]
        if not sum(left):
            grow(children, heap, number, chance)
            return
        for y, mass in enumerate(left):
            if mass:
                part, more = mass / sum(left), list(heap)
                if len(before) < 1:
                    heappush(more, (value * (1 - part), next(number), node))
                if len(node) < 1:
                    heappush(more, (value * part, next(number), (*node, y)))
                grow(children | {node: [*before, y]}, more, number, chance * part)

    number = count()
    grow({}, [(F(-1), next(number), ())], number, F(1))
    return found


def sampled_tree(p: Model, q: Model) -> Law:
    """DySpec: recursive rejection of the children in turn, each tested with what is left of q; the residual, or p below a leaf."""
    law: Law = defaultdict(F)

    def emit(text: Node, masses: Row, chance: F) -> None:
        for y, mass in enumerate(masses):
            whole = (*text, y)
            if len(whole) == 3:
                law[whole] += chance * mass
            elif chance * mass:
                emit(whole, p(whole), chance * mass)

    def walk(children: dict[Node, list[int]], node: Node, chance: F) -> None:
        left, drafts = p(node), q(node)
        for x in children.get(node, []):
            kept = min(F(1), left[x] / drafts[x])
            if kept:
                walk(children, (*node, x), chance * kept)
            left, chance = tuple(positive_part(left, drafts)), chance * (1 - kept)
            others = [F(0) if y == x else mass for y, mass in enumerate(drafts)]
            drafts = tuple(mass / sum(others) for mass in others) if sum(others) else tuple(others)
        if chance:
            emit(node, left, chance)

    for children, chance in trees_of(q, 3):
        walk(children, (), chance)
    return law


AGAIN = {
    ("lenience", "lenience 1/2, residual p"): lenience,
    ("flashinfer", "ChainSpeculativeSampling: a chain"): chain,
    ("mlx-lm", "MTP, pull 1085: p/q, then a sample of p"): closed_pull,
    ("wagner", "sigmoid"): sigmoids,
    ("mcsd", "code: top candidates at draft temperature 0"): top_candidates,
    ("sequoia", "code: one noise per prompt"): one_noise,
    ("diversed", "weight 1/2"): ensemble,
    ("vllm-ascend", "no distribution given (n-gram, greedy draft)"): target,
    ("llama-cpp", "example `speculative`, one sequence"): index_by_index,
    ("fms-extras", "issue 12: a target sample for every candidate"): two_samples,
    ("mlx-node", "temperature 0"): argmax,
    ("medusa", "code, fast: one candidate"): typical,
    ("sglang", "sampled requests verified greedily"): argmax,
    ("dyspec", "tree whose shape follows the samples"): sampled_tree,
    ("xllm", "MTP, EAGLE-3: drawn drafts, q of the token alone"): without_x,
    ("hu-huang", "keeping the efficiency: one position of one path"): speculative,
}


@pytest.mark.parametrize(("name", "rule"), AGAIN)
def test_a_row_by_other_code(name: str, rule: str) -> None:
    form = next(form for form in REGISTER[name][0].forms if form.name == rule)
    make = one_token if form.verifier.length == 1 else along_path
    cases = [case for case in make(form.verifier.ks) if case.n <= 3][:60:2]
    for case, found in zip(cases, form.verifier.results([each.through(form.through) for each in cases]), strict=True):
        law = AGAIN[name, rule](case.target, case.draft)
        assert {text: mass for text, mass in law.items() if mass} == found.emitted, found.case


def total_variation(work: str, rule: str) -> str:
    """The total variation that an argued row states."""
    return next(each.example[3] for each in REGISTER[work][0].argued if each.rule == rule)


MIDDLES = (np.arange(4000) + 0.5) / 4000


def test_gumbel_noise_that_is_also_the_uniform_number() -> None:
    """A draft token 2 with p / q = 1/2 is rejected where u > 1/2; token 0 of (1/2, 1/2, 0) then has the noise of u, token 1 a fresh one."""
    u = MIDDLES[MIDDLES > 0.5]
    first = u.mean()  # P(fresh < u) where the two residual masses are equal
    assert 1 / 6 + 2 / 3 * 0.5 * first == pytest.approx(5 / 12, abs=1e-6)
    assert 0.5 * first == pytest.approx(3 / 8, abs=1e-6)
    assert total_variation("vllm-ascend", "second runner: the test's number is noise of token 0") == "1/12"


@pytest.mark.parametrize(("triton", "due"), [(False, 0.5 + 5 / 12 * log(4 / 3)), (True, 5 / 9 + log(4 / 3) / 4)])
def test_products_of_uniform_numbers(triton: bool, due: float) -> None:
    """P(the first token is 1) of two drafts, p = (1/2, 1/2), q = (1/3, 2/3): the last i counts whose weight is above the product of u."""
    one, two = MIDDLES[:, None], MIDDLES
    found = 0.0
    for second, mass in ((0, 1 / 3), (1, 2 / 3)):
        ratio = (3 / 2, 3 / 4)[second]
        weight = min(1, 3 / 4 * (ratio if triton else min(1, ratio)))
        found += 2 / 3 * mass * ((one <= 3 / 4) | (one * two <= weight)).mean()
    assert found == pytest.approx(due, abs=1e-3)
    assert total_variation("vllm-ascend", "enable_block_verify") == "(5/12) ln(4/3)"


def test_a_threshold_that_follows_the_entropy() -> None:
    tau = min(0.95, exp(-0.4 * log(2)))
    first = 2 / 3 * min(1, 3 / 4 / tau)  # P(token 1): a draft token 0 is always kept, a rejection gives token 0
    assert first - 1 / 2 == pytest.approx(2**-0.6 - 1 / 2)
    assert total_variation("vllm-ascend", "enable_entropy_verify") == "2^(-3/5) - 1/2"
