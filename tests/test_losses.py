"""The losses against brute force over all token sets, and their gradients against finite differences."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import ot_draft as ot

torch = pytest.importorskip("torch")

from ot_draft.losses import acceptance_loss, acceptance_loss_of_logits  # noqa: E402

LAWS = [
    (ot.IID(), 1),
    (ot.IID(), 2),
    (ot.IID(), 4),
    (ot.Hybrid(top=1), 3),
    (ot.Hybrid(top=-1), 3),
    (ot.Hybrid(top="auto"), 4),
    (ot.Hub(), 2),
]
WITH_K = pytest.mark.parametrize(("law", "k"), LAWS, ids=str)


def logits(rows: int, n: int, seed: int, dtype: Any = torch.float64) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    return tuple((2 * torch.randn(rows, n, generator=generator, dtype=torch.float64)).to(dtype) for _ in range(2))


def least_cut(p: Any, q: Any, k: int, law: ot.DraftLaw) -> Any:
    """1 + min over all 2^n token sets of p(H) - Q(all drafts in H)."""
    sets = [torch.tensor(chosen) for chosen in product((False, True), repeat=p.shape[-1])]
    return 1 + torch.stack([(p * chosen).sum(-1) - law.inside(q, chosen.expand(p.shape), k) for chosen in sets]).amin(0)


@WITH_K
def test_the_loss_is_that_of_all_token_sets(law: ot.DraftLaw, k: int) -> None:
    target, draft = logits(20, 6, seed=k)
    p, q = target.softmax(-1), draft.softmax(-1)
    found = acceptance_loss(p, q, k, law)
    assert torch.allclose(found, -least_cut(p, q, k, law).log(), rtol=0, atol=1e-12)
    assert torch.equal(found, acceptance_loss_of_logits(target, draft, k, law))


@WITH_K
def test_the_gradient_is_that_of_finite_differences(law: ot.DraftLaw, k: int) -> None:
    target, draft = logits(6, 7, seed=10 + k)
    draft.requires_grad_()
    # Away from ties of the cut and of the top tokens, which are a null set, the loss is smooth.
    assert torch.autograd.gradcheck(
        lambda x: acceptance_loss_of_logits(target, x, k, law), (draft,), eps=1e-7, atol=1e-6
    )


@WITH_K
def test_the_gradient_is_that_of_the_least_of_all_cuts(law: ot.DraftLaw, k: int) -> None:
    target, draft = logits(10, 6, seed=20 + k)
    mine, brute = (draft.clone().requires_grad_() for _ in range(2))
    acceptance_loss_of_logits(target, mine, k, law).sum().backward()
    (-least_cut(target.softmax(-1), brute.softmax(-1), k, law).log()).sum().backward()
    assert torch.allclose(mine.grad, brute.grad, rtol=0, atol=1e-12)


def test_with_one_draft_it_is_the_overlap() -> None:
    target, draft = logits(50, 100, seed=3)
    p, q = target.softmax(-1), draft.softmax(-1)
    assert torch.allclose(acceptance_loss(p, q), -torch.minimum(p, q).sum(-1).log(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("k", [1, 4, 8])
def test_narrow_numbers_are_read_and_the_gradient_comes_back_in_them(k: int, dtype: Any) -> None:
    target, draft = logits(8, 1000, seed=4, dtype=dtype)
    wide = acceptance_loss_of_logits(target.double(), draft.double(), k)
    draft.requires_grad_()
    narrow = acceptance_loss_of_logits(target, draft, k)
    narrow.sum().backward()
    assert narrow.dtype == torch.float32 and draft.grad.dtype == dtype
    assert torch.allclose(narrow.double(), wide, rtol=2e-6, atol=2e-6)
    assert bool(draft.grad.isfinite().all())


def test_nearly_disjoint_laws_keep_their_digits() -> None:
    p = torch.tensor([1 - 1e-6, 1e-6], dtype=torch.float32)
    q = torch.tensor([1e-6, 1 - 1e-6], dtype=torch.float32)
    exact = ot.optimal_acceptance(p.double() / p.double().sum(), q.double() / q.double().sum(), 4)
    assert np.isclose(acceptance_loss(p, q, 4).exp().item() ** -1, float(exact), rtol=1e-5)


def test_equal_laws_cost_nothing_and_push_nowhere() -> None:
    draft = logits(5, 30, seed=5)[0].requires_grad_()
    loss = acceptance_loss_of_logits(draft.detach(), draft, 3)
    loss.sum().backward()
    assert torch.allclose(loss, torch.zeros(5, dtype=torch.float64), atol=1e-12)
    assert draft.grad.abs().max() < 1e-12


def test_descent_on_it_raises_the_acceptance_with_k_drafts() -> None:
    target, start = logits(4, 50, seed=6)
    draft = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([draft], lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        acceptance_loss_of_logits(target, draft, 4).sum().backward()
        optimizer.step()
    before, after = (ot.optimal_acceptance(target.softmax(-1), x.detach().softmax(-1), 4) for x in (start, draft))
    assert bool((after > before + 0.2).all()) or bool((after > 0.99).all())


@pytest.mark.parametrize(
    ("k", "law", "said"),
    [(0, None, "k is 0"), (3, ot.Hub(), "k = 2")],
)
def test_wrong_arguments_are_told(k: int, law: Any, said: str) -> None:
    p = torch.ones(4) / 4
    with pytest.raises(ot.InvalidDrafts, match=said):
        acceptance_loss(p, p, k, law)


def test_a_law_without_a_known_gradient_is_refused_only_where_one_is_wanted() -> None:
    target, draft = logits(5, 6, seed=7)
    p, q = target.softmax(-1), draft.softmax(-1)
    found = acceptance_loss(p, q, 2, ot.WithoutReplacement())
    assert torch.allclose(found, -least_cut(p, q, 2, ot.WithoutReplacement()).log(), rtol=0, atol=1e-12)
    with pytest.raises(ot.InvalidDrafts, match="gradient under WithoutReplacement"):
        acceptance_loss(p, q.requires_grad_(), 2, ot.WithoutReplacement())


def test_different_vocabularies_are_told() -> None:
    with pytest.raises(ot.InvalidDistribution, match="p has 4 tokens, q has 5"):
        acceptance_loss(torch.ones(4) / 4, torch.ones(5) / 5)
