"""Eight rows of the survey, drawn at random from 174, recomputed from their papers by loops without the survey's code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction as F
from itertools import product
from typing import Any

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
    """DIVERSED, weight 1/2: speculative sampling for (p + q) / 2, whose output is that law."""
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


AGAIN = {
    ("lenience", "lenience 1/2, the rest from p"): lenience,
    ("flashinfer", "ChainSpeculativeSampling: a chain"): chain,
    ("mlx-lm", "MTP, pull 1085: p/q, then a sample of p"): closed_pull,
    ("wagner", "sigmoid"): sigmoids,
    ("mcsd", "code: top candidates at draft temperature 0"): top_candidates,
    ("sequoia", "code: one noise a prompt"): one_noise,
    ("diversed", "weight 1/2"): ensemble,
    ("vllm-ascend", "no law given (n-gram, greedy draft)"): target,
}


@pytest.mark.parametrize(("name", "rule"), AGAIN)
def test_a_row_by_other_code(name: str, rule: str) -> None:
    form = next(form for form in REGISTER[name][0].forms if form.name == rule)
    make = one_token if form.verifier.length == 1 else along_path
    cases = [case for case in make(form.verifier.ks) if case.n <= 3][:60:2]
    for found in form.verifier.results(cases):
        law = AGAIN[name, rule](found.case.target, found.case.draft)
        assert {text: mass for text, mass in law.items() if mass} == found.emitted, found.case
