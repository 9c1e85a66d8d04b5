"""Why vLLM's test of 4,096 tokens passed with the draft's noise used again, and the one of 16 tokens did not (its pull request 54282).

    PYTHONPATH=. python tests/verify/sampler/wide_and_narrow.py

Both hold Pearson's statistic below df + 10 sqrt(2 df). It grows by N sum (r - p)^2 / p, r the law that comes out. Not part of the tests:
half a minute. What came out stands in docs/check_sampler.md.
"""

from __future__ import annotations

import torch

import ot_draft as otd

CLASSES = 16  # neighbours in the order of p / q together: of thousands of tokens r is not known one by one


def emitted(p: torch.Tensor, q: torch.Tensor, draws: int) -> torch.Tensor:
    """The law that comes out where the noise that drew the draft draws the token in its place: exact but for the latter's law."""
    left, refused, at_once = (p - q).clamp(min=0), torch.zeros_like(p), min(draws, 1_600_000 // len(p))
    for _ in range(draws // at_once):
        noise = torch.empty(at_once, len(p)).exponential_()
        draft = (q.float() / noise).argmax(-1)
        refused.index_add_(0, (left.float() / noise).argmax(-1), 1 - (p / q).clamp(max=1)[draft])
    return torch.minimum(p, q) + refused / (draws // at_once * at_once)


def main() -> None:
    """Of each test: the fault's bias, by how much the statistic grows, by how much it has to, and the calls of `otd.check_step`."""
    for n, trials in ((16, 200_000), (4096, 41_000)):
        torch.manual_seed(0)
        p, q = torch.randn(2, n, generator=torch.Generator().manual_seed(42)).double().softmax(-1)
        order = torch.argsort(p / q)
        classes = ((p[order].cumsum(0) - p[order] / 2) * CLASSES).long()
        right, wrong = (
            torch.zeros(CLASSES).double().index_add_(0, classes, law[order]) for law in (p, emitted(p, q, 400_000))
        )
        kept = right > 0
        bias, grows = float((wrong - right).abs().sum() / 2), float(((wrong - right)[kept] ** 2 / right[kept]).sum())
        bar = 10 * (2 * (n - 1)) ** 0.5
        calls = otd.required_samples(bias, n, 1, "check_step", batched=True)
        print(
            f"{n} tokens, {trials} trials: bias {bias:.3f}, grows by {trials * grows:.0f} of {bar:.0f}, check_step {calls}"
        )


if __name__ == "__main__":
    main()
