"""Tokens fixed from anywhere: exact under every rule, `Hybrid` a special case, rows of a batch, and the errors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from random_problems import fractions, random_masses, random_pair

import ot_draft as otd
from ot_draft import trees
from ot_draft.laws import canonical, law_called, sets

TOKENS = ((), (2,), (1, 0), (2, 2), (0, -1, 2), (2, 1, 0))  # repeated, absent, all of three tokens


def problems() -> Iterator[otd.Problem]:
    """Tokens of no mass in p, in q, and with all of q's mass on them; j = 0, j < k, j = k, j > k."""
    generator = np.random.default_rng(5)
    pairs = [random_pair(generator, 3) for _ in range(4)]
    pairs += [(fractions([0, 1, 1]), fractions([1, 1, 0])), (fractions([1, 0, 2]), fractions([0, 0, 1]))]
    pairs += [(fractions([1, 1, 0]), fractions([0, 1, 0])), (fractions([0, 0, 1]), fractions([1, 2, 1]))]
    for tokens in TOKENS:
        for k in (1, 2, 3):
            for p, q in pairs:
                yield otd.Problem(p, q, k, otd.Fixed(tokens))


def test_every_rule_for_it_is_exact_and_the_optimum_is_that_of_the_linear_program() -> None:
    drawn = set()
    for problem in problems():
        law = problem.law
        best = otd.optimal_acceptance(problem.p, problem.q, problem.k, law)
        assert otd.solve(problem, "flow").acceptance == best
        rules = [otd.rules.Optimal(law), otd.rules.FromCoupling(law), otd.rules.NaiveTarget(law)]
        if canonical(law, problem.k) == otd.IID():
            rules += [otd.rules.KSeq(), otd.rules.RecursiveRejection()]
        for rule in rules:
            result = otd.evaluate(rule, problem)
            assert (result.output == problem.p).all()
            assert result.acceptance == best if rule in rules[:2] else result.acceptance <= best
            if form := rule.closed_form(problem):
                assert form[0] == result.acceptance
        drawn.add((sets.draws(law, problem.q, problem.k), problem.k))
    assert {(0, 1), (0, 3), (1, 2), (2, 2), (1, 3), (2, 3), (3, 3)} <= drawn


def test_hybrid_drafting_is_the_case_of_top_tokens() -> None:
    generator = np.random.default_rng(6)
    for n, k in ((3, 2), (4, 3), (5, 2)):
        for top in (0, 1, 2, -1, "auto"):
            p, q = random_pair(generator, n)
            hybrid = otd.Hybrid(top)
            fixed = otd.Fixed(hybrid.fixed_drafts(q, k))
            tuples = np.stack(np.meshgrid(*[np.arange(n)] * k, indexing="ij"), -1).reshape(-1, k)
            assert (hybrid.probability(q, tuples) == fixed.probability(q, tuples)).all()
            mine, theirs = (
                otd.evaluate(otd.rules.Optimal(law), otd.Problem(p, q, k, law)).acceptance for law in (fixed, hybrid)
            )
            assert mine == theirs


def test_trees_with_fixed_tokens_are_exact() -> None:
    shape = trees.TreeShape((0, 0, 1, 1, 2))
    for seed, tokens in enumerate(((1,), (0, 1), (2, 2))):
        model = trees.MarkovModel.random(np.random.default_rng(seed), 3 if 2 in tokens else 2)
        law = otd.Fixed(tokens)
        for rule in (trees.Joint(), trees.TokenWise(otd.rules.Optimal(law)), trees.Traversal(), trees.NaivePath()):
            small = trees.TreeShape((0, 0, 1)) if 2 in tokens else shape
            assert trees.evaluate(rule, model, small, law).lossless
        assert not trees.rules.fits(trees.Joint(), shape, otd.WithoutReplacement())


@pytest.mark.parametrize("kind", ["Fractions", "numpy", "torch"])
def test_a_batch_has_a_row_of_tokens_for_every_row(kind: str) -> None:
    generator = np.random.default_rng(7)
    p, q = random_masses(generator, 4, 64, (3,)), random_masses(generator, 4, 64, (3,))
    rows = [[1, -1], [3, 3], [0, 2]]
    law, alone = otd.Fixed(rows), [otd.Fixed(row) for row in rows]
    assert alone == [otd.Fixed((1,)), otd.Fixed((3,)), otd.Fixed(np.array([0, 2]))] and hash(law) == hash(
        otd.Fixed(rows)
    )
    wanted = [float(otd.optimal_acceptance(a, b, 3, each)) for a, b, each in zip(p, q, alone, strict=True)]
    if kind != "Fractions":
        p, q = p.astype(float), q.astype(float)
    if kind == "torch":
        torch = pytest.importorskip("torch")
        p, q = torch.from_numpy(p), torch.from_numpy(q)
    assert np.allclose(np.asarray(otd.optimal_acceptance(p, q, 3, law), dtype=float), wanted, rtol=0, atol=1e-12)
    if kind != "Fractions":
        generator = torch.Generator().manual_seed(1) if kind == "torch" else generator
        drafts = otd.draw(law, q, 3, generator)
        assert np.asarray(drafts)[:, 0].tolist() == [1, 3, 0] and int(drafts[2, 1]) == 2
        assert 1 not in np.asarray(drafts)[0, 1:] and np.asarray(law.n_fixed(q, 3)).tolist() == [[1], [1], [2]]
        accept = otd.rules.Optimal(law)(p, q, drafts).accept
        singly = [
            otd.rules.Optimal(each)(p[i : i + 1], q[i : i + 1], drafts[i : i + 1]).accept
            for i, each in enumerate(alone)
        ]
        assert np.allclose(accept, np.concatenate([np.asarray(x) for x in singly]), atol=1e-12)


def test_the_loss_takes_it() -> None:
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(2)
    p, q = (torch.randn(3, 5, generator=generator, dtype=torch.float64).softmax(-1) for _ in range(2))
    for law in (otd.Fixed((4, 1)), otd.Fixed(((0, 1), (2, 2), (3, -1)))):
        loss = otd.losses.acceptance_loss(p, q, 3, law)
        assert torch.allclose(loss, -otd.optimal_acceptance(p, q, 3, law).log(), rtol=0, atol=1e-12)
        slopes = q.log().requires_grad_()
        assert torch.autograd.gradcheck(
            lambda x, law=law: otd.losses.acceptance_loss(p, x.softmax(-1), 3, law), (slopes,), eps=1e-7, atol=1e-6
        )


def test_names_and_errors() -> None:
    assert law_called("fixed:3+1") == otd.Fixed((3, 1)) and otd.Fixed((3, 1)).name == "fixed:3+1"
    assert canonical(otd.Fixed(), 4) == otd.IID() == canonical(otd.Fixed((1,)), 0)
    assert canonical(otd.Fixed((1,)), 1) == otd.Fixed((1,))
    with pytest.raises(otd.InvalidArgument, match=r"draft law must be one of .* got 'fixed:x'"):
        law_called("fixed:x")
    for wrong in ((-2,), (1.5,), ((1,), (2, 3)), 4, "ab"):
        with pytest.raises((otd.InvalidArgument, ValueError)):
            otd.Fixed(wrong)
    half = np.array([0.5, 0.5])
    with pytest.raises(otd.InvalidDrafts, match=r"tokens of Fixed must be token ids in 0 \.\. 1, got 7"):
        otd.optimal_acceptance(half, half, 2, otd.Fixed((7,)))
    with pytest.raises(otd.InvalidDrafts, match=r"got rows \(2,\) for q of shape \(3, 2\)"):
        otd.Fixed([[0], [1]]).draw(np.stack([half] * 3), np.zeros((3, 2)))
