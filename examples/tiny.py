"""Draft selection in one file, without this library: k drafts, two rules that keep the target's law, a proof, the optimum.

A draft model proposes k tokens, drawn from q. A selection rule keeps one of them, or draws another token, so that what comes out
follows the target's law p exactly. The more often it keeps a draft, the fewer calls of the large model. Needs numpy alone.
"""

from fractions import Fraction
from itertools import combinations, product

import numpy as np

p = np.array([Fraction(x, 12) for x in (6, 3, 2, 1)])  # the target: what has to come out
q = np.array([Fraction(x, 12) for x in (2, 3, 2, 5)])  # the draft: what proposes
n, k = len(p), 2


def recursive_rejection(drafts):
    """Test one draft after the other, each against what the tests before it have left of p (SpecInfer; Yang et al. 2024)."""
    law, left, alive = 0 * p, p, Fraction(1)
    for x in drafts:
        taken = min(Fraction(1), left[x] / q[x])
        law[x] += alive * taken
        alive *= 1 - taken
        left = np.maximum(left - q, 0 * p)  # what a rejected draft leaves to be drawn
        left = left / left.sum() if left.sum() else p
    return law + alive * left


def k_seq(drafts, rho=Fraction(3, 2)):
    """Accept each draft with chance p/(rho q), the first that passes; then the residual (K-SEQ of SpecTr, Sun et al. 2023)."""
    passes = np.minimum(1 + 0 * p, p / (rho * q))
    beta = (q * passes).sum()  # that one draft passes
    any_of_k = 1 - (1 - beta) ** k
    residual = p - q * passes * any_of_k / beta  # rho is large enough where none of these is negative
    assert (residual >= 0).all(), "give a larger rho"
    law, alive = 0 * p, Fraction(1)
    for x in drafts:
        law[x] += alive * passes[x]
        alive *= 1 - passes[x]
    return law + alive * residual / residual.sum()


def judge(rule):
    """The law that comes out, over all n^k drafts, and how often it is one of them: exact, since all numbers are fractions."""
    law, kept = 0 * p, Fraction(0)
    for drafts in product(range(n), repeat=k):
        chance, given = np.prod(q[list(drafts)]), rule(drafts)
        law = law + chance * given
        kept += chance * given[list(set(drafts))].sum()
    return law, kept


def optimum():
    """How often any lossless rule can keep a draft: the least bound over token sets, which is attained (max flow, min cut).

    Whatever the rule: a kept draft in the set needs a draft in it, and one outside of it comes out as often as p says.
    """
    sets = (list(s) for size in range(n + 1) for s in combinations(range(n), size))
    return min(1 - p[s].sum() + 1 - (1 - q[s].sum()) ** k for s in sets)


def sample(rule, generator):
    """One token: draw the drafts, let the rule decide, draw from what it says."""
    drafts = generator.choice(n, size=k, p=q.astype(float))
    return generator.choice(n, p=rule(drafts).astype(float))


if __name__ == "__main__":
    for rule in (recursive_rejection, k_seq):
        law, kept = judge(rule)
        print(
            f"{rule.__name__:20} law {' '.join(map(str, law))}  lossless: {(law == p).all()}  keeps a draft: {kept} = {float(kept):.4f}"
        )
    print(f"{'no rule keeps more':20} {optimum()} = {float(optimum()):.4f}")
    generator = np.random.default_rng(0)
    counts = np.bincount([sample(recursive_rejection, generator) for _ in range(2_000)], minlength=n)
    print(f"{'2,000 draws':20} {counts / counts.sum()}  target {p.astype(float)}")
