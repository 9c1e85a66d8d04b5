"""A language of a thousand tokens in which a speculative sampler errs: texts for the audit of two sides, and its errors.

200 contexts, entropy 2.0 nats, draft acceptance .71, three drafts a step; a token leads from context to context by a fixed table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mutants.tables import shared_noise

from ot_draft.arrays import Array

from .chains import LENGTH, residual, softmax

TOKENS, CONTEXTS, ENTROPY, ACCEPTANCE = 1000, 200, 2.0, 0.71


def language(seed: int) -> tuple[Array, Array]:
    """Laws of target and draft, (CONTEXTS, TOKENS) each."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(CONTEXTS, TOKENS))
    sharp = _where(lambda x: -_entropy(softmax(x * logits)), 0.5, 8.0, -ENTROPY)
    p, noise = softmax(sharp * logits), generator.normal(size=(CONTEXTS, TOKENS))
    apart = _where(lambda x: -np.minimum(p, softmax(sharp * logits + x * noise)).sum(1).mean(), 0.0, 3.0, -ACCEPTANCE)
    return p, softmax(sharp * logits + apart * noise)


def _entropy(p: Array) -> float:
    return float(-(p * np.log(p + 1e-300)).sum(1).mean())


def _where(rises: Callable[[float], float], low: float, high: float, value: float) -> float:
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if rises(middle) > value else (middle, high)
    return middle


Tables = tuple[
    Array, Array, Array
]  # mass that is drafted and taken, law of the token in a refused one's place, law of the bonus token


def right(p: Array, q: Array) -> Tables:
    return np.minimum(p, q), residual(p, q), p


def greedy(p: Array, q: Array) -> Tables:
    point = np.eye(p.shape[1])[p.argmax(1)]
    return point, p, point


def lenient(p: Array, q: Array) -> Tables:
    return np.minimum(1.15 * p, q), residual(p, q), p


def residual_is_target(p: Array, q: Array) -> Tables:
    return np.minimum(p, q), p, p


def noise_again(p: Array, q: Array) -> Tables:
    return np.minimum(p, q), shared_noise(p, q), p


def bonus_from_draft(p: Array, q: Array) -> Tables:
    return np.minimum(p, q), residual(p, q), q


def draft_forced(p: Array, q: Array) -> Tables:
    """One draft in twenty is taken unseen."""
    return 0.95 * np.minimum(p, q) + 0.05 * q, residual(p, q), p


def other_drafts(p: Array, q: Array) -> Tables:
    """Drafts are drawn at temperature .8, and verified as draws from q."""
    drawn = sharpened(q, 0.8)
    return drawn * np.minimum(p / q, 1), residual(p, q), p


def target_without_draft(p: Array, q: Array) -> Tables:
    """A refused draft is replaced by a draw from the target, any token but itself."""
    refused = np.maximum(q - p, 0) / (1 - p)
    law = p * (refused.sum(1, keepdims=True) - refused)
    return np.minimum(p, q), law / law.sum(1, keepdims=True), p


def likeliest_residual(p: Array, q: Array) -> Tables:
    return np.minimum(p, q), np.eye(p.shape[1])[residual(p, q).argmax(1)], p


def colder(p: Array, q: Array) -> Tables:
    """The target at temperature .95, without an error else."""
    return right(sharpened(p, 0.95), q)


def truncated(p: Array, q: Array) -> Tables:
    """The target's 50 likeliest tokens alone."""
    kept = np.where(p >= np.sort(p, axis=1)[:, [-50]], p, 0)
    return right(kept / kept.sum(1, keepdims=True), q)


def other_model(p: Array, q: Array) -> Tables:
    """The target with noise of .1 in its logits."""
    return right(softmax(np.log(p) + 0.1 * np.random.default_rng(5).normal(size=p.shape)), q)


def sharpened(law: Array, temperature: float) -> Array:
    return softmax(np.log(law) / temperature)


SAMPLERS = {
    make.__name__: make
    for make in (
        right, greedy, residual_is_target, lenient, noise_again, bonus_from_draft, draft_forced, other_drafts,
        target_without_draft, likeliest_residual, colder, truncated, other_model,
    )
}  # fmt: skip


class Spoken:
    """A side that writes in the language; a prompt is a context. first_drafted: whether the first token is drafted for."""

    def __init__(self, name: str, laws: tuple[Array, Array], seed: Sequence[int], first_drafted: bool = True) -> None:
        taken, refused, bonus = SAMPLERS[name](*laws)
        steps = np.concatenate([taken, (1 - taken.sum(1, keepdims=True)) * refused], axis=1)
        self._steps, self._bonus, self._first = (law.cumsum(1) for law in (steps, bonus, laws[0]))
        self._generator, self._first_drafted = np.random.default_rng(seed), first_drafted
        self._after = np.random.default_rng(77).integers(CONTEXTS, size=(CONTEXTS, TOKENS))

    def ask(self, requests: Sequence[tuple[str, Any]], tokens: int) -> list[Any]:
        context, place = np.array([prompt[0] for _, prompt in requests]), np.zeros(len(requests), dtype=int)
        made = np.empty((len(requests), tokens), dtype=np.int64)
        for t in range(tokens):
            uniforms = self._generator.random(len(context))
            for row, (at, u) in enumerate(zip(context, uniforms, strict=True)):
                drafted = place[row] < LENGTH and (t > 0 or self._first_drafted)
                laws = self._steps if drafted else self._bonus if t or self._first_drafted else self._first
                cell = int(np.searchsorted(laws[at], u * laws[at, -1], "right"))
                made[row, t] = cell % TOKENS
                place[row] = place[row] + 1 if drafted and cell < TOKENS else 0
            context = self._after[context, made[:, t]]
        return list(made)

    def contexts(self, prompts: Array, answers: Array) -> Array:
        """The context of every token of answers (m, T) to prompts (m,): (m, T)."""
        found = np.empty_like(answers)
        context = prompts
        for t in range(answers.shape[1]):
            found[:, t], context = context, self._after[context, answers[:, t]]
        return found
