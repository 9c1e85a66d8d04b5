"""Factorised drafts: heads with a distribution per position (Medusa, MTP, diffusion drafts), and their best joint proposal.

Two positions, with heads m_1 and m_2. A proposal is a coupling pi of both: a path (x_1, x_2) whose tokens have these distributions.
With block verification, which is optimal for one path, it accepts sum of min(m_1, p) first tokens, and then sum of min(pi, c) of
both with

    c(x_1, x_2) = min(m_1, p)(x_1) p(x_2 | x_1).

THEOREM. The best coupling of the heads accepts sum of min(m_1, p) + sum over x_2 of min(m_2(x_2), sum over x_1 of c(x_1, x_2)) tokens.
PROOF. Above: sum over x_1 of min(pi, c) is at most m_2(x_2), and at most the sum of c. Reached: a part f <= c of these column sums has row
sums of at most min(m_1, p) <= m_1, so that both heads have as much mass left as the other, and what is left is coupled in any way. QED

So heads that equal the target's marginals lose nothing: the best coupling is then the target. Independent draws of the positions
accept less, and so does any coupling that does not use p. Drawing is not always better than the two most probable tokens either: where p is
concentrated, that fixed path accepts more with naive target sampling (as measured in dflash #169).

WITHOUT THE TARGET. The drafter knows the heads, and that the target is one of several (a `Crowd`). N fixed tokens accept the sum of
p(v) over their prefixes v, on average that of E p(v). E p falls along a path: so the N prefixes of the largest E p are a tree, and the best
of all trees of N fixed tokens. Best first finds it. Where the two tokens are independent on average, E p is the product of the heads, and
this is DDTree's tree. For any drafting, prefix v is drafted with a probability c(v) that is the same for all targets. On
average no lossless rule accepts more than the largest sum of E min(c, p), over probabilities that fall along paths and sum to N
(`ceiling`). A rise of c(v) gains the share of targets with p(v) > c(v). So the best c(v) are quantiles of p(v), at one share for all v:
they decrease along paths without a constraint, and sorting finds them. They are small if targets differ much, and p(v) itself if not: then
sampling from p accepts more than fixed tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft.trees.drafting.baselines import ConfidentTree

from ..checking import check
from ..statement import Statement

__all__ = ["STATEMENTS", "best", "best_coupling", "check", "draw_heads", "fixed_path", "sampled"]

EACH_BY_ITSELF, NO_HEAD = "each position drawn by itself", "without the second head's law"
NEARLY_EVEN = "heads and target that are uniform"
ZERO = Fraction(0)
Joint = dict[tuple[int, int], Fraction]


def draw_heads(seed: int) -> otd.trees.MarkovModel:
    """Return the case of this number: a target of order 1; its draft's distributions at the root and after token 0 are the two heads."""
    return otd.trees.MarkovModel.random(np.random.default_rng([seed, 55]), 2 + seed % 2, 1)


def parts(case: otd.trees.MarkovModel) -> tuple[list[Fraction], list[Fraction], Joint]:
    """Return min(m_1, p), the second head, and c."""
    first = [min(a, b) for a, b in zip(case.target(()).tolist(), case.draft(()).tolist(), strict=True)]
    after = {x: case.target((x,)).tolist() for x in range(len(first))}
    return (
        first,
        case.draft((0,)).tolist(),
        {(x, y): a * b for x, a in enumerate(first) for y, b in enumerate(after[x])},
    )


def best(case: otd.trees.MarkovModel, error: str = "") -> Fraction:
    """Return the theorem's value."""
    first, second, chances = parts(case)
    columns = [sum((chances[x, y] for x in range(len(first))), ZERO) for y in range(len(second))]
    return sum(first, ZERO) + sum(columns if error else [min(a, b) for a, b in zip(second, columns, strict=True)], ZERO)


def best_coupling(case: otd.trees.MarkovModel) -> Joint:
    """Return the coupling of the proof."""
    _, second, chances = parts(case)
    joint, heads = dict.fromkeys(chances, ZERO), [case.draft(()).tolist(), list(second)]
    for limit in (chances, None):  # first what is accepted, then what is left
        for x, y in joint:
            mass = min(heads[0][x], heads[1][y]) if limit is None else min(limit[x, y], heads[1][y])
            joint[x, y] += mass
            heads[0][x], heads[1][y] = heads[0][x] - mass, heads[1][y] - mass
    return joint


def by_itself(case: otd.trees.MarkovModel) -> Joint:
    """Return the accepted tokens of positions drawn independently from their heads."""
    return {
        (x, y): a * b for x, a in enumerate(case.draft(()).tolist()) for y, b in enumerate(case.draft((0,)).tolist())
    }


def sampled(case: otd.trees.MarkovModel, joint: Joint) -> Any:
    """Return the result of block verification of paths drawn from a coupling of the heads."""
    n = len(case.target(()))
    drafts: dict[tuple[int, ...], Any] = {(): case.draft(())}
    for x in range(n):
        row = np.array([joint[x, y] for y in range(n)], dtype=object)
        drafts[(x,)] = row / row.sum() if row.sum() else case.draft((0,))
    return otd.trees.evaluate(otd.trees.BlockVerification(), otd.trees.MarkovModel(case.targets, drafts, 1), (1, 2))


def likeliest(head: list[Fraction]) -> int:
    """Return the first token of the largest mass."""
    return head.index(max(head))


def fixed_path(case: otd.trees.MarkovModel) -> Fraction:
    """Return the accepted tokens of the two most probable ones, with naive target sampling."""
    x, y = likeliest(case.draft(()).tolist()), likeliest(case.draft((0,)).tolist())
    accepted: Fraction = case.target(())[x] * (1 + case.target((x,))[y])
    return accepted


def theorem(case: otd.trees.MarkovModel, error: str) -> bool:
    """Return whether the coupling has the heads as its distributions, is lossless, and accepts the value.

    Drawing each by itself accepts no more.
    """
    joint = by_itself(case) if error == EACH_BY_ITSELF else best_coupling(case)
    tokens = range(len(case.target(())))
    heads = (
        [sum((joint[x, y] for y in tokens), ZERO) for x in tokens],
        [sum((joint[x, y] for x in tokens), ZERO) for y in tokens],
    )
    if heads != (case.draft(()).tolist(), case.draft((0,)).tolist()):
        return False
    found, value = sampled(case, joint), best(case, error if error == NO_HEAD else "")
    return found.lossless and found.expected_length == value >= sampled(case, by_itself(case)).expected_length


def draws_are_better(case: otd.trees.MarkovModel, error: str) -> bool:
    """Return whether a drawn path accepts at least as much as the most probable one, which is false."""
    if error:
        even = np.array([Fraction(1, len(case.target(())))] * len(case.target(())), dtype=object)
        case = otd.trees.MarkovModel(dict.fromkeys(case.targets, even), dict.fromkeys(case.drafts, even), 1)
    return bool(sampled(case, by_itself(case)).expected_length >= fixed_path(case))


def shown(case: otd.trees.MarkovModel) -> str:
    """Return the target's distributions and the two heads."""
    rows = [("p", case.target(())), *((f"p after {x}", case.target((x,))) for x in range(len(case.target(()))))]
    rows += [("m1", case.draft(())), ("m2", case.draft((0,)))]
    return ", ".join(f"{name} = ({', '.join(map(str, row.tolist()))})" for name, row in rows)


CELLS = 12  # of equal mass, in a crowd
OF_ONE_TARGET, OF_PRODUCTS, BY_LEVEL = "by one target's masses", "by products, where tokens depend", "by level"
ONE_CELL, ONE_NODE, MEAN_LAW = "heads that are uniform", "one node fewer", "the mean law for every target"


@dataclass(frozen=True)
class Crowd:
    """Targets of two tokens that have the same heads as their own distributions, all equally likely.

    first, second: the token of every cell; shifts: target s has the second token of cell order[u] + s after the first one of cell u. With
    all shifts the two tokens are independent on average.
    """

    first: tuple[int, ...]
    second: tuple[int, ...]
    order: tuple[int, ...]
    shifts: tuple[int, ...]

    @property
    def joints(self) -> list[Joint]:
        """p of both tokens, by target."""
        tokens, cells = range(max(self.first + self.second) + 1), len(self.first)
        found: list[Joint] = []
        for shift in self.shifts:
            joint: Joint = {(x, y): ZERO for x in tokens for y in tokens}
            for u, x in enumerate(self.first):
                joint[x, self.second[(self.order[u] + shift) % cells]] += Fraction(1, cells)
            found.append(joint)
        return found

    @property
    def models(self) -> list[otd.trees.MarkovModel]:
        """The targets with their heads."""
        heads = [_laws(joint) for joint in self.joints]
        return [otd.trees.MarkovModel(dict(p), {(): p[()], **{v: second for v in p if v}}, 1) for p, second in heads]

    @property
    def masses(self) -> dict[tuple[int, ...], Fraction]:
        """E p(v) of every prefix."""
        return prefix_masses(self.joints)


def _laws(joint: Joint) -> tuple[dict[tuple[int, ...], Any], Any]:
    """Return the distributions of the first token and of the second after every first one; and of the second, whatever the first."""
    n = 1 + max(x for x, _ in joint)
    table = np.array([[joint[x, y] for y in range(n)] for x in range(n)], dtype=object)
    first, second = table.sum(1), table.sum(0)
    return {(): first, **{(x,): table[x] / first[x] if first[x] else second for x in range(n)}}, second


def prefix_masses(joints: list[Joint]) -> dict[tuple[int, ...], Fraction]:
    """Return the mean mass of every prefix over these distributions of two tokens, the most probable first, and parents before children."""
    found: dict[tuple[int, ...], Fraction] = {}
    for joint in joints:
        for (x, y), mass in joint.items():
            found[(x,)] = found.get((x,), ZERO) + mass / len(joints)
            found[x, y] = found.get((x, y), ZERO) + mass / len(joints)
    return dict(sorted(found.items(), key=lambda item: (-item[1], len(item[0]), item[0])))


def draw_crowd(seed: int, tokens: int = 0) -> Crowd:
    """Return the crowd of this number, of this many tokens, by default two or three; every third has all shifts."""
    generator = np.random.default_rng([seed, 8])
    n = tokens or 2 + seed % 2
    spread = [generator.dirichlet(np.full(n, generator.choice((0.3, 1.0, 10.0)))) for _ in range(2)]
    first, second = (np.repeat(np.arange(n), generator.multinomial(CELLS, masses)) for masses in spread)
    shifts = range(CELLS) if seed % 3 == 0 else generator.choice(CELLS, int(generator.integers(1, 4)), replace=False)
    order = generator.permutation(CELLS)
    return Crowd(*(tuple(int(x) for x in some) for some in (first, second, order, shifts)))


def products(crowd: Crowd) -> Joint:
    """Return the distribution of two tokens that are drawn by their heads."""
    laws, second = _laws(crowd.joints[0])
    return {(x, y): a * b for x, a in enumerate(laws[()]) for y, b in enumerate(second)}


def best_fixed(crowd: Crowd, error: str) -> bool:
    """Return whether for 1 to 4 nodes the most probable prefixes are the best of all trees; where independent on average, it is the tree
    that is drafted."""
    masses = crowd.masses
    order = list(masses)
    if error == OF_ONE_TARGET:
        order = list(prefix_masses(crowd.joints[:1]))
    if error == OF_PRODUCTS:
        order = list(prefix_masses([products(crowd)]))
    if error == BY_LEVEL:
        order = sorted(masses, key=lambda v: (len(v), -masses[v]))
    for budget in range(1, 5):
        trees = (t for t in combinations(masses, budget) if all(len(v) == 1 or v[:1] in t for v in t))
        best = max(sum((masses[v] for v in tree), ZERO) for tree in trees)
        if sum((masses[v] for v in order[:budget]), ZERO) != best:
            return False
        if not error and len(crowd.shifts) == CELLS:
            drafted = ConfidentTree(budget, 2, budget, budget)
            every = [otd.trees.evaluate(otd.trees.NaivePath(), model, drafted) for model in crowd.models]
            if not all(found.lossless for found in every) or sum(f.expected_length for f in every) != CELLS * best:
                return False
    return True


def blind(crowd: Crowd, joint: Joint) -> Fraction:
    """Return tokens of two accepted on average of paths that this coupling of the heads draws: the first one always, the heads are its
    distribution."""
    total = sum((min(mass, p[v]) for p in crowd.joints for v, mass in joint.items()), ZERO)
    return 1 + total / len(crowd.shifts)


def ceiling(crowd: Crowd, budget: int, mean_law: bool = False) -> Fraction:
    """Return the bound above for N nodes, without its order of probabilities, which the best have: those of one share of targets with p(v)
    > c(v).

    mean_law: use the mean of the targets instead, which is an error.
    """
    targets = [crowd.masses] if mean_law else [prefix_masses([joint]) for joint in crowd.joints]
    steps: list[tuple[Fraction, Fraction]] = []  # share of the targets that gain, and by how much c rises there
    for v in crowd.masses:
        masses = sorted(target[v] for target in targets)
        steps += [
            (Fraction(len(masses) - i, len(masses)), mass - below)
            for i, (below, mass) in enumerate(zip([ZERO, *masses], masses, strict=False))
        ]
    value, left = ZERO, Fraction(budget)
    for share, rise in sorted(steps, reverse=True):
        taken = min(rise, left)
        value, left = value + share * taken, left - taken
    return value


def program(crowd: Crowd, budget: int, coupled: bool = False) -> tuple[float, Joint]:
    """Return the ceiling and the probabilities of pairs, by a linear program in floats.

    coupled: for paths that are drawn from a coupling of the heads.
    """
    from scipy import optimize, sparse

    joints = crowd.joints
    nodes = list(prefix_masses(joints))
    heads = prefix_masses([products(crowd)])
    targets = [prefix_masses([joint]) for joint in joints]
    each, count = len(nodes), len(joints)
    accepted = sparse.hstack((sparse.vstack([-sparse.eye(each)] * count), sparse.eye(each * count)))
    chances = np.array([[(v == u) - (v == u[:1]) * (len(u) == 2) for v in nodes] for u in nodes if len(u) == 2])
    chances = np.vstack((chances, np.ones(each)))
    rows = sparse.vstack((accepted, sparse.hstack((chances, sparse.csr_matrix((len(chances), each * count))))))
    limits = np.append(np.zeros(rows.shape[0] - 1), budget)
    bounds = [(float(heads[v]),) * 2 if coupled and len(v) == 1 else (0.0, 1.0) for v in nodes]
    bounds += [(0.0, float(target[v])) for target in targets for v in nodes]
    both: dict[str, Any] = {}
    if coupled:  # both positions keep their distributions
        n = 1 + max(x for x, _ in joints[0])
        pairs = [[len(v) == 2 and v[side] == x for v in nodes] for x in range(n) for side in (0, 1)]
        equal = np.hstack((np.array(pairs, dtype=float), np.zeros((2 * n, each * count))))
        both = {"A_eq": equal, "b_eq": equal[:, :each] @ [float(heads[v]) for v in nodes]}
    cost = np.append(np.zeros(each), np.full(each * count, -1 / count))
    found = optimize.linprog(cost, rows.tocsr(), limits, bounds=bounds, **both)
    joint = {v: Fraction(float(x)).limit_denominator(1000) for v, x in zip(nodes, found.x, strict=False) if len(v) == 2}
    return -float(found.fun), joint


def never_above(crowd: Crowd, error: str) -> bool:
    """Return whether the closed form is the program's value.

    Two nodes drawn by their heads, by the best coupling, or fixed are not above it.
    """
    bound = ceiling(crowd, 1 if error == ONE_NODE else 2, error == MEAN_LAW)
    drawn, fixed = blind(crowd, products(crowd)), sum(list(crowd.masses.values())[:2], ZERO)
    each = [sampled(model, products(crowd)) for model in crowd.models]
    exact = all(found.lossless for found in each) and sum(found.expected_length for found in each) == len(each) * drawn
    agree = abs(program(crowd, 2)[0] - float(bound)) < 1e-9
    return exact and agree and max(drawn, fixed) <= bound and program(crowd, 2, coupled=True)[0] <= float(bound) + 1e-9


def best_of_the_blind(crowd: Crowd, error: str) -> bool:
    """Return whether no coupling of the heads accepts more on average than independent draws, which is false."""
    if error:
        once = tuple(range(1 + max(crowd.first + crowd.second)))
        crowd = Crowd(once, once, tuple(sorted(once, key=lambda u: crowd.order[u])), once)
    (_, joint), own = program(crowd, 2, coupled=True), products(crowd)
    n = 1 + max(x for x, _ in own)
    heads = [[[sum(law[v] for v in law if v[side] == x) for x in range(n)] for side in (0, 1)] for law in (joint, own)]
    return not (heads[0] == heads[1] and blind(crowd, joint) > blind(crowd, own))


STATEMENTS = (
    Statement(
        "the best proposal of two heads",
        "Couplings of two heads' distributions accept at most sum min(m1, p) + sum min(m2, sum over x1 of min(m1, "
        "p) p(.|x1)), which is attained.",
        "this project; proof in the module",
        "Fractions, all paths and all decisions of block verification enumerated",
        theorem,
        (EACH_BY_ITSELF, NO_HEAD),
        draw=draw_heads,
        limit=200,
        show=shown,
    ),
    Statement(
        "a path drawn by heads against the most probable one",
        "Sampling each position from its head accepts at least as much as the path of the most probable tokens.",
        "plausible; z-lab/dflash #169",
        "Fractions, all paths",
        draws_are_better,
        (NEARLY_EVEN,),
        expected="refuted",
        draw=draw_heads,
        limit=200,
        show=shown,
    ),
    Statement(
        "the best tree of fixed tokens",
        "Among trees of N fixed tokens the N prefixes of largest mean target probability accept most: DDTree's, if "
        "independent on average.",
        "this project; proof in the module; DDTree (2604.12989), OPT-Tree",
        "Fractions, all trees of up to 4 nodes; what is drafted, by enumeration",
        best_fixed,
        (OF_ONE_TARGET, OF_PRODUCTS, BY_LEVEL),
        draw=draw_crowd,
        limit=100,
    ),
    Statement(
        "the ceiling of two nodes drafted without the target",
        "For every way to draft two nodes by heads alone, no lossless rule accepts more on average than the largest sum of E min(c, p).",
        "this project; proof in the module",
        "Fractions, drafts that are drawn enumerated; the program with all conditions, in floats, agrees",
        never_above,
        (ONE_NODE, MEAN_LAW),
        draw=draw_crowd,
        limit=60,
    ),
    Statement(
        "the best coupling of two heads without the target",
        "If two tokens are independent on average, sampling each from its head has the largest acceptance of all couplings.",
        "plausible",
        "a linear program proposes a coupling, which Fractions judge",
        best_of_the_blind,
        (ONE_CELL,),
        expected="refuted",
        draw=lambda seed: draw_crowd(3 * seed),
        limit=60,
    ),
)


def own_marginals(case: otd.trees.MarkovModel) -> otd.trees.MarkovModel:
    """Return the same target, with heads that are the distributions of its two tokens."""
    first = case.target(())
    second = sum((mass * case.target((x,)) for x, mass in enumerate(first)), 0 * first)
    return otd.trees.MarkovModel(case.targets, {(): first, **{(x,): second for x in range(len(first))}}, 1)


def means(cases: int = 200, tokens: int = 0, budget: int = 2) -> dict[str, float]:
    """Return the mean number of accepted tokens of two by proposal of two or four nodes, over `count` crowds that are independent on
    average.

    Drawn are one path, for block verification, or a counted tree, for traversal: that one after one target of each crowd.
    """
    totals = dict.fromkeys(("ceiling", "drawn by the heads", "best fixed tree"), 0.0)
    for number in range(cases):
        crowd = draw_crowd(3 * number, tokens)
        drawn: Any = blind(crowd, products(crowd))
        if budget > 2:
            model = crowd.models[number % CELLS].in_floats()
            drawn = otd.trees.evaluate(otd.trees.Traversal(), model, otd.trees.CountedTree(budget, 2)).expected_length
        found = ceiling(crowd, budget), drawn, sum(list(crowd.masses.values())[:budget], ZERO)
        for name, value in zip(totals, found, strict=True):
            totals[name] += float(value) / cases
    return totals


if __name__ == "__main__":
    for name, found in {"two nodes": means(), "four": means(budget=4), "two, eight tokens": means(40, 8)}.items():
        print(name, ", ".join(f"{proposal} {mean:.3f}" for proposal, mean in found.items()), sep=": ")
