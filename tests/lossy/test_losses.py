"""The losses against brute force over all token sets, and their gradients against finite differences."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import ot_draft as otd
from ot_draft import arrays as xp

torch = pytest.importorskip("torch")

from ot_draft.laws import probability_inside  # noqa: E402
from ot_draft.lossy.losses import acceptance_loss, accepted_length_loss  # noqa: E402
from ot_draft.trees.model import MarkovModel  # noqa: E402

LAWS = [
    (otd.IID(), 1),
    (otd.IID(), 2),
    (otd.IID(), 4),
    (otd.Hybrid(top=1), 3),
    (otd.Hybrid(top=-1), 3),
    (otd.Hybrid(top="auto"), 4),
    (otd.SpecHubLaw(), 2),
]
WITH_K = pytest.mark.parametrize(("law", "k"), LAWS, ids=str)


def logits(rows: int, n: int, seed: int, dtype: Any = torch.float64) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    return tuple((2 * torch.randn(rows, n, generator=generator, dtype=torch.float64)).to(dtype) for _ in range(2))


def least_cut(p: Any, q: Any, k: int, law: otd.DraftLaw) -> Any:
    """1 + min over all 2^n token sets of p(H) - Q(all drafts in H)."""
    sets = [torch.tensor(chosen) for chosen in product((False, True), repeat=p.shape[-1])]
    return 1 + torch.stack(
        [(p * chosen).sum(-1) - probability_inside(law, q, chosen.expand(p.shape), k) for chosen in sets]
    ).amin(0)


@WITH_K
def test_the_loss_is_that_of_all_token_sets(law: otd.DraftLaw, k: int) -> None:
    target, draft = logits(20, 6, seed=k)
    p, q = target.softmax(-1), draft.softmax(-1)
    found = acceptance_loss(p, q, k, law)
    assert torch.allclose(found, -least_cut(p, q, k, law).log(), rtol=0, atol=1e-12)


@WITH_K
def test_the_gradient_is_that_of_finite_differences(law: otd.DraftLaw, k: int) -> None:
    target, draft = logits(6, 7, seed=10 + k)
    draft.requires_grad_()
    # Away from ties of the cut and of the top tokens, which are a null set, the loss is smooth.
    assert torch.autograd.gradcheck(
        lambda x: acceptance_loss(target.softmax(-1), x.softmax(-1), k, law), (draft,), eps=1e-7, atol=1e-6
    )


@WITH_K
def test_the_gradient_is_that_of_the_least_of_all_cuts(law: otd.DraftLaw, k: int) -> None:
    target, draft = logits(10, 6, seed=20 + k)
    mine, brute = (draft.clone().requires_grad_() for _ in range(2))
    acceptance_loss(target.softmax(-1), mine.softmax(-1), k, law).sum().backward()
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
    wide = acceptance_loss(target.double().softmax(-1), draft.double().softmax(-1), k)
    draft.requires_grad_()
    narrow = acceptance_loss(target.float().softmax(-1), draft.float().softmax(-1), k)
    narrow.sum().backward()
    assert narrow.dtype == torch.float32 and draft.grad.dtype == dtype
    assert torch.allclose(narrow.double(), wide, rtol=2e-6, atol=2e-6)
    assert bool(draft.grad.isfinite().all())


def test_nearly_disjoint_laws_keep_their_digits() -> None:
    p = torch.tensor([1 - 1e-6, 1e-6], dtype=torch.float32)
    q = torch.tensor([1e-6, 1 - 1e-6], dtype=torch.float32)
    exact = otd.optimal_acceptance(p.double() / p.double().sum(), q.double() / q.double().sum(), 4)
    assert np.isclose(acceptance_loss(p, q, 4).exp().item() ** -1, float(exact), rtol=1e-5)


def test_equal_laws_cost_nothing_and_push_nowhere() -> None:
    draft = logits(5, 30, seed=5)[0].requires_grad_()
    loss = acceptance_loss(draft.detach().softmax(-1), draft.softmax(-1), 3)
    loss.sum().backward()
    assert torch.allclose(loss, torch.zeros(5, dtype=torch.float64), atol=1e-12)
    assert draft.grad.abs().max() < 1e-12


def test_descent_on_it_raises_the_acceptance_with_k_drafts() -> None:
    target, start = logits(4, 50, seed=6)
    draft = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([draft], lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        acceptance_loss(target.softmax(-1), draft.softmax(-1), 4).sum().backward()
        optimizer.step()
    before, after = (otd.optimal_acceptance(target.softmax(-1), x.detach().softmax(-1), 4) for x in (start, draft))
    assert bool((after > before + 0.2).all()) or bool((after > 0.99).all())


@pytest.mark.parametrize(
    ("k", "law", "said"),
    [(0, None, "k must be at least 1, got 0"), (3, otd.SpecHubLaw(), "k = 2")],
)
def test_wrong_arguments_are_told(k: int, law: Any, said: str) -> None:
    p = torch.ones(4) / 4
    with pytest.raises(otd.InvalidDrafts, match=said):
        acceptance_loss(p, p, k, law)


def test_a_law_without_a_known_gradient_is_refused_only_where_one_is_wanted() -> None:
    target, draft = logits(5, 6, seed=7)
    p, q = target.softmax(-1), draft.softmax(-1)
    found = acceptance_loss(p, q, 2, otd.WithoutReplacement())
    assert torch.allclose(found, -least_cut(p, q, 2, otd.WithoutReplacement()).log(), rtol=0, atol=1e-12)
    with pytest.raises(otd.InvalidDrafts, match="gradient in q, got WithoutReplacement"):
        acceptance_loss(p, q.requires_grad_(), 2, otd.WithoutReplacement())


def test_different_vocabularies_are_told() -> None:
    with pytest.raises(otd.InvalidDistribution, match="q must have 4 tokens, as many as p, got 5"):
        acceptance_loss(torch.ones(4) / 4, torch.ones(5) / 5)


def tables(seed: int, n: int, L: int) -> tuple[MarkovModel, Any, Any]:
    """A random model with zeros and ties, and (n^L, L, n) of its laws along every text, all of them; texts (n^L, L)."""
    model = MarkovModel.random(np.random.default_rng(seed), n, order=1 + seed % 2)
    texts = list(product(range(n), repeat=L))
    laws = [
        [[[float(x) for x in law(text[:i])] for i in range(L)] for text in texts] for law in (model.target, model.draft)
    ]
    return model, torch.tensor(laws, dtype=torch.float64), torch.tensor(texts)


def probability(p: Any, texts: Any) -> Any:
    return p.gather(-1, texts[..., None])[..., 0].prod(-1)


@pytest.mark.parametrize(("n", "L"), [(2, 1), (2, 2), (3, 3), (2, 5)])
@pytest.mark.parametrize("seed", range(6))
def test_the_mean_accepted_length_over_texts_is_the_exact_one(seed: int, n: int, L: int) -> None:
    model, (p, q), texts = tables(seed, n, L)
    drawn = probability(p, texts) > 0
    p, q, texts = p[drawn], q[drawn], texts[drawn]
    exact = otd.trees.evaluate(otd.trees.BlockVerification(), model, (1, L)).expected_length
    mean = (probability(p, texts) * accepted_length_loss(p, q, texts)).sum()
    assert torch.allclose(-mean, torch.tensor(float(exact), dtype=torch.float64), rtol=0, atol=1e-12)


def test_without_earlier_places_the_accepted_length_is_another() -> None:
    """A planted error: the weight of the last ratio alone, without the least one before it."""
    model, (p, q), texts = tables(0, 3, 3)
    drawn = probability(p, texts) > 0
    p, q, texts = p[drawn], q[drawn], texts[drawn]
    own_p, own_q = (x.gather(-1, texts[..., None])[..., 0].cumprod(-1) for x in (p, q))
    wrong = (own_p[:, -1] * torch.minimum(own_q / own_p, torch.ones(())).sum(-1)).sum()
    exact = otd.trees.evaluate(otd.trees.BlockVerification(), model, (1, 3)).expected_length
    assert wrong > float(exact) + 1e-3


def test_the_gradient_of_the_mean_is_that_of_the_exact_length() -> None:
    """By finite differences of the enumeration: every mass of a draft that does not look back."""
    generator = torch.Generator().manual_seed(5)
    p, q = (torch.randn(3, generator=generator, dtype=torch.float64).softmax(-1) for _ in range(2))
    slopes = q.log().requires_grad_()
    texts = torch.tensor(list(product(range(3), repeat=3)))

    def exact(scores: Any) -> float:
        laws = [law.detach().numpy() for law in (p, scores.softmax(-1))]
        model = MarkovModel({(): laws[0]}, {(): laws[1]}, 0)
        return float(otd.trees.evaluate(otd.trees.BlockVerification(), model, (1, 3)).expected_length)

    along = [law.expand(27, 3, 3) for law in (p, slopes.softmax(-1))]
    (probability(along[0], texts) * accepted_length_loss(*along, texts)).sum().backward()
    for token in range(3):
        step = 1e-5 * torch.eye(3, dtype=torch.float64)[token]
        wanted = (exact(slopes + step) - exact(slopes - step)) / 2e-5
        assert abs(float(slopes.grad[token]) + wanted) < 1e-7


def test_one_place_is_the_overlap_and_the_types_are_kept() -> None:
    target, draft = logits(4, 6, seed=1, dtype=torch.float32)
    p, q = target.softmax(-1)[:, None], draft.softmax(-1)[:, None]
    loss = accepted_length_loss(p, q, torch.zeros(4, 1, dtype=torch.int64))
    assert torch.allclose(loss, -torch.minimum(p, q).sum((-2, -1))) and loss.dtype == torch.float32
    assert accepted_length_loss(p.half(), q.half(), torch.zeros(4, 1, dtype=torch.int64)).dtype == torch.float32


def test_ratios_that_no_float_holds_decide_nothing() -> None:
    """The draft is sure of what the target hardly writes, ten times over; then it has no mass where the target has."""
    p, q = torch.tensor([1e-30, 1.0]).expand(10, 2), torch.tensor([1.0, 0.0]).expand(10, 2).clone().requires_grad_()
    loss = accepted_length_loss(p, q, torch.zeros(10, dtype=torch.int64))
    loss.backward()
    assert abs(float(loss.detach())) < 1e-28 and bool(q.grad.isfinite().all())


def test_a_text_that_the_target_does_not_write_is_refused() -> None:
    p = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    with pytest.raises(otd.InvalidDistribution, match=r"text\[1\] must have positive probability in p"):
        accepted_length_loss(p, p, torch.tensor([0, 1]))


@pytest.mark.parametrize(
    ("p", "q", "text"),
    [
        ((5, 3, 4), (5, 3, 4), (1, 3)),
        ((5, 2, 4), (5, 2, 4), (5, 1)),
        ((5, 3, 4), (5, 3, 1), (5, 3)),
        ((5, 0, 4), (5, 0, 4), (5, 0)),
        ((4,), (4,), ()),
    ],
    ids=["one text for all", "a text too short", "q of one token", "no place", "no places"],
)
def test_other_shapes_are_refused_where_torch_would_broadcast(p: Any, q: Any, text: Any) -> None:
    with pytest.raises(otd.InvalidDistribution, match=rf"p and q must have shape .*text {re.escape(str(text))}\."):
        accepted_length_loss(torch.ones(p), torch.ones(q), torch.zeros(text, dtype=torch.int64))


@pytest.mark.parametrize(
    ("small", "drafted"),
    [
        # Three ratios of 1e150: the product passes float64, and then meets q = 0.
        (1e-150, [1.0, 1.0, 1.0, 0.0, 1.0]),
        # It comes back to 1e-30 behind what no float holds.
        (1e-150, [1.0, 1.0, 1.0, 1e-300, 1e-300, 1e-300, 0.5]),
        # One ratio that no float holds.
        (1e-310, [1.0, 0.0, 1.0]),
    ],
)
def test_running_ratios_beyond_floats_are_no_nan(small: float, drafted: list[float]) -> None:
    L = len(drafted)
    p = torch.tensor([small, 1.0], dtype=torch.float64).expand(L, 2)
    q = torch.tensor([[mass, 1 - mass] for mass in drafted], dtype=torch.float64, requires_grad=True)
    loss = accepted_length_loss(p, q, torch.zeros(L, dtype=torch.int64))
    loss.backward()
    exact_p, exact_q = ([[Fraction(x) for x in row] for row in law.tolist()] for law in (p, q.detach()))
    before, weight, wanted = Fraction(1), Fraction(1), Fraction(0)
    for of_p, of_q in zip(exact_p, exact_q, strict=True):
        wanted += sum(min(weight * a, before * b) for a, b in zip(of_p, of_q, strict=True))
        before *= of_q[0] / of_p[0]
        weight = min(weight, before)
    assert abs(float(loss.detach()) + float(wanted)) < 1e-12 and bool(q.grad.isfinite().all())


def test_places_without_the_drafts_mass_have_the_gradient_of_a_running_product() -> None:
    for seed in range(8):
        generator = torch.Generator().manual_seed(seed)
        p, q = (torch.randn(30, 5, 4, generator=generator, dtype=torch.float64).softmax(-1) for _ in range(2))
        texts = torch.randint(4, (30, 5), generator=generator)
        q = xp.where(torch.rand(30, 5, 1, generator=generator) < 0.2, q.scatter(-1, texts[..., None], 0), q)
        q.requires_grad_()
        own_p, own_q = (x.gather(-1, texts[..., None])[..., 0] for x in (p, q))
        before = torch.cat((torch.ones_like(own_p[:, :1]), (own_q / own_p).cumprod(-1)[:, :-1]), -1)
        plain = -xp.minimum(before.cummin(-1).values[..., None] * p, before[..., None] * q).sum((-2, -1))
        loss = accepted_length_loss(p, q, texts)
        assert torch.allclose(loss, plain, rtol=0, atol=1e-12)
        (wanted,), (found,) = (torch.autograd.grad(x.sum(), q) for x in (plain, loss))
        assert torch.allclose(found, wanted, rtol=1e-9, atol=1e-12) and bool((own_q == 0).any())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("apart", [120.0, 2000.0])
@pytest.mark.parametrize(("k", "sum_of_ratios"), [(1, 8), (2, 9), (4, 11)])
def test_certain_of_different_tokens_the_loss_of_logits_is_finite(
    k: int, sum_of_ratios: int, apart: float, dtype: Any
) -> None:
    """By hand: all but two of 8 tokens have e^-apart under both models. k = 1: the overlap is 8 e^-apart. Else H holds all tokens but the
    target's, with 7 e^-apart, and the target's is among k drafts with k e^-apart."""
    target, draft = torch.zeros(8, dtype=dtype), torch.zeros(8, dtype=dtype)
    target[0] = draft[1] = apart
    draft.requires_grad_()
    loss = acceptance_loss(target, draft, k, logits=True)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(apart - np.log(sum_of_ratios), rel=1e-6)
    others = -1 / 8 if k == 1 else 0
    first = -1 / 8 if k == 1 else -k / sum_of_ratios
    second = 7 / 8 if k == 1 else k / sum_of_ratios
    assert draft.grad.tolist() == pytest.approx([first, second, *[others] * 6], abs=1e-3)
    path = torch.stack((target, target))
    along = draft.detach().expand(2, 8).clone().requires_grad_()
    length = accepted_length_loss(path, along, torch.tensor([0, 0]), logits=True)
    length.backward()
    assert abs(float(length.detach())) < 1e-40 and bool(along.grad.isfinite().all())


@WITH_K
def test_the_loss_of_logits_is_that_of_their_probabilities(law: otd.DraftLaw, k: int) -> None:
    target, draft = logits(30, 6, seed=40 + k)
    mine, theirs = (draft.clone().requires_grad_() for _ in range(2))
    found = acceptance_loss(target, mine, k, law, logits=True)
    wanted = acceptance_loss(target.softmax(-1), theirs.softmax(-1), k, law)
    found.sum().backward()
    wanted.sum().backward()
    assert torch.allclose(found, wanted, rtol=0, atol=1e-12) and torch.allclose(mine.grad, theirs.grad, atol=1e-12)


@WITH_K
def test_masked_logits_have_the_loss_of_all_token_sets_and_a_finite_gradient(law: otd.DraftLaw, k: int) -> None:
    """Rows of every mask of 4 tokens under each model. Without a common token the acceptance is 0, unless a fixed token is drafted."""
    kept = [mask for mask in product((True, False), repeat=4) if any(mask)]
    masks = [(torch.tensor(a), torch.tensor(b)) for a in kept for b in kept]
    target, draft = logits(len(masks), 4, seed=60 + k)
    target, draft = (
        x.masked_fill(~torch.stack(side), -torch.inf)
        for x, side in zip((target, draft), zip(*masks, strict=True), strict=True)
    )
    wanted = -least_cut(target.softmax(-1), draft.softmax(-1), k, law).clamp(min=0).log()
    never = wanted > 30  # rounding may leave 1e-16 of 0
    assert bool(never.any()) == (law != otd.Hybrid(top="auto"))  # which fixes all tokens
    gradients = []
    for given in (True, False):
        mine = [x.clone().requires_grad_() for x in (target, draft)]
        p, q = mine if given else (x.softmax(-1) for x in mine)
        found = acceptance_loss(p, q, k, law, logits=given)
        found.sum().backward()
        assert bool((found[never] == torch.inf).all())
        assert torch.allclose(found[~never], wanted[~never], rtol=0, atol=1e-12)
        assert all(bool(x.grad.isfinite().all()) and not x.grad[never].any() for x in mine)
        gradients.append([x.grad for x in mine])
    assert all(torch.allclose(a[~never], b[~never], atol=1e-12) for a, b in zip(*gradients, strict=True))


def test_the_accepted_length_of_logits_is_that_of_their_probabilities() -> None:
    target, draft = (x.view(5, 4, 6) for x in logits(20, 6, seed=9))
    text = torch.randint(6, (5, 4), generator=torch.Generator().manual_seed(1))
    draft[0, 1, text[0, 1]] = -torch.inf  # no mass for a token of the text
    mine, theirs = (draft.clone().requires_grad_() for _ in range(2))
    found = accepted_length_loss(target, mine, text, logits=True)
    wanted = accepted_length_loss(target.softmax(-1), theirs.softmax(-1), text)
    found.sum().backward()
    wanted.sum().backward()
    assert torch.allclose(found, wanted, rtol=0, atol=1e-12) and torch.allclose(mine.grad, theirs.grad, atol=1e-12)
    target[0, 0, text[0, 0]] = -torch.inf
    with pytest.raises(otd.InvalidDistribution, match=r"text\[0, 0\] must have positive probability in p"):
        accepted_length_loss(target, draft, text, logits=True)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("of", ["p", "q"])
def test_nan_is_handed_on_and_is_no_acceptance(of: str, k: int) -> None:
    p, q = torch.tensor([0.2, 0.3, 0.5]), torch.tensor([0.4, 0.3, 0.3])
    (p if of == "p" else q)[2] = float("nan")
    assert bool(acceptance_loss(p, q, k).isnan()) and bool(acceptance_loss(p, q, k, logits=True).isnan())


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("of", ["p", "q"])
def test_a_row_of_logits_without_a_token_is_nan_and_the_others_are_not(of: str, k: int) -> None:
    p, q = torch.tensor([[0.2, 0.3, 0.5]] * 2), torch.tensor([[0.4, 0.3, 0.3]] * 2)
    (p if of == "p" else q)[1] = float("-inf")
    assert acceptance_loss(p, q, k, logits=True).isnan().tolist() == [False, True]


def test_one_row_for_all_is_spread_for_every_k() -> None:
    p, q = torch.tensor([0.2, 0.3, 0.5]), torch.tensor([[0.4, 0.3, 0.3], [0.2, 0.2, 0.6]])
    for k in (1, 2):
        rows = torch.stack([acceptance_loss(p, row, k) for row in q])
        assert torch.equal(acceptance_loss(p, q, k), rows) and torch.equal(acceptance_loss(p, q[:1], k), rows[:1])


ROWS = torch.ones(2, 2) / 2


@pytest.mark.parametrize(
    ("p", "said"),
    [
        ([0.5, 0.5], "p must be a torch tensor of floats .*, got a list"),
        (np.full(2, 0.5), "p must be a torch tensor of floats .*, got a ndarray"),
        (torch.tensor([1, 0]), r"p must be a torch tensor of floats .*, got a tensor \(2,\) of torch.int64"),
        (torch.tensor(1.0), r"p must be .* got a tensor \(\) of torch.float32"),
        (torch.ones(0), r"p must be .* n >= 1, got a tensor \(0,\) of torch.float32"),
    ],
)
def test_what_is_no_law_is_told_by_both(p: Any, said: str) -> None:
    with pytest.raises(otd.InvalidDistribution, match=said):
        acceptance_loss(p, ROWS[0])
    with pytest.raises(otd.InvalidDistribution, match=said):
        accepted_length_loss(p, ROWS, torch.tensor([0, 1]))


def test_batches_that_do_not_fit_are_told() -> None:
    with pytest.raises(otd.InvalidDistribution, match=r"p \(3, 2\), q \(2, 2\)"):
        acceptance_loss(torch.ones(3, 2) / 2, ROWS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ([0, 1], "text must be a torch tensor of integer token ids, got a list"),
        (torch.tensor([0.0, 1.0]), "text must be a torch tensor of integer token ids, got a .* of torch.float32"),
        (torch.tensor([True, False]), "text must be a torch tensor of integer token ids, got a .* of torch.bool"),
        (torch.tensor([0, 2]), r"text\[1\] must be a token id in 0 .. 1, got 2"),
        (torch.tensor([-1, 0]), r"text\[0\] must be a token id in 0 .. 1, got -1"),
    ],
)
def test_what_is_no_text_is_told(text: Any, said: str) -> None:
    with pytest.raises(otd.InvalidDrafts, match=said):
        accepted_length_loss(ROWS, ROWS, text)


def test_a_text_of_narrow_integers_is_read() -> None:
    wanted = accepted_length_loss(ROWS, ROWS, torch.tensor([0, 1]))
    for dtype in (torch.uint8, torch.int16, torch.int32):
        assert torch.equal(accepted_length_loss(ROWS, ROWS, torch.tensor([0, 1], dtype=dtype)), wanted)
