"""One plain way to draft and to verify, in batches, each part of which can be exchanged for a wrong one.

Drafts are i.i.d.; verification is recursive rejection, which with one draft is speculative sampling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import ot_draft as otd

Array = Any
Uniforms = Callable[[Any, tuple[int, ...]], Array]


def chosen(law: Array, u: Array) -> Array:
    """Tokens whose stretch of the cumulative mass holds u: (m, n), (m,) -> (m,)."""
    sums = law.cumsum(-1)
    return np.minimum((sums <= u[:, None] * sums[:, -1:]).sum(-1), last_of(law))


def last_of(law: Array) -> Array:
    return law.shape[-1] - 1 - (law[:, ::-1] > 0).argmax(-1)


def normal(law: Array, otherwise: Array) -> Array:
    mass = law.sum(-1, keepdims=True)
    return np.where(mass > 0, law / np.where(mass > 0, mass, 1), otherwise)


def fresh(generator: Any, shape: tuple[int, ...]) -> Array:
    return generator.random(shape)


def plain_residual(p: Array, q: Array) -> Array:
    return normal(np.maximum(p - q, 0), p)


def same(*given: Any) -> Any:
    return given[0]


def ratio(p_x: Array, q_x: Array, p: Array) -> Array:
    """p / q of the drafted token: 0 for 0 / 0."""
    with np.errstate(all="ignore"):
        return np.nan_to_num(p_x / q_x, nan=0.0, posinf=np.inf)


def row_before(law: Array) -> Array:
    return np.roll(law, 1, axis=0)


@dataclass
class Step:
    """A step. Every field is a part that can be exchanged.

    tests, recovery: the uniforms of the acceptance tests (m, k) and of recovery (m,).
    drafted: the law that drafts are drawn from, of q. p_seen, q_seen: the law that is verified with, of it and of the row before.
    odds: of the drafted token's p and q, (m, 1) or (m, n), and the row p (m, n): taken where u is below.
    residual: the law in a refused draft's place, of p and q. without_draft: whether the refused draft is left out of it.
    updates: whether the next draft is tested against it. last: the law of the token after a whole path, of p, q and the p before.
    race: whether the recovered token is the first of exponential arrivals, as in vLLM; shared: those of the draft again.
    after: what is done to the outcome. generator: what is done to the generator.
    place_of_residual, place_of_q: in a path, the place whose laws are taken for those of place t.
    """

    tests: Uniforms = fresh
    recovery: Uniforms = fresh
    drafted: Callable[[Array], Array] = same
    q_seen: Callable[[Array, Array], Array] = same
    p_seen: Callable[[Array, Array], Array] = same
    odds: Callable[[Array, Array, Array], Array] = ratio
    residual: Callable[[Array, Array], Array] = plain_residual
    without_draft: bool = False
    updates: bool = True
    last: Callable[[Array, Array, Array], Array] | None = None
    race: bool = False
    shared: bool = False
    after: Callable[..., tuple[Array, Array, Array]] = same
    generator: Callable[[Any], Any] = same
    place_of_residual: Callable[[int], int] = same
    place_of_q: Callable[[int], int] = same

    def draft(self, q: Array, k: int, generator: Any) -> Array:
        return otd.draw(otd.IID(), self.drafted(q), k, generator)

    def verify(self, p: Array, q: Array, drafts: Array, generator: Any, noise: Array = None) -> tuple[Array, Array]:
        """Token (m,) and the place of the draft taken, -1 for none: (m,)."""
        if self.p_seen is not same:
            p = self.p_seen(p, row_before(p))
        if self.q_seen is not same:
            q = self.q_seen(q, row_before(q))
        m, k = drafts.shape
        u = self.tests(generator, (m, k))
        taken = np.full(m, -1)
        for i in range(k):
            x = drafts[:, i : i + 1]
            odds = self.odds(*(np.take_along_axis(law, x, -1) for law in (p, q)), p)[:, 0]
            taken = np.where((taken < 0) & (u[:, i] < odds), i, taken)
            if self.updates or i == k - 1:
                p = self.residual(p, q)
            if self.without_draft:
                p = normal(p * (np.arange(p.shape[-1]) != x), p)
        if self.race:
            arrival = generator.exponential(size=p.shape) if noise is None else noise
            recovered = (p / arrival).argmax(-1)
        else:
            recovered = chosen(p, self.recovery(generator, (m,)))
        return (np.where(taken >= 0, drafts[np.arange(m), taken], recovered) if k else recovered), taken

    def sampler(self, p: Array, q: Array, drafts: Array, generator: Any) -> Array:
        """For check_sampler, batched."""
        generator = self.generator(generator)
        token, taken = self.verify(p, q, drafts, generator)
        return (
            self.after(drafts, np.arange(drafts.shape[1]) == taken[:, None], token)[2]
            if self.after is not same
            else token
        )

    def __call__(self, p: Array, q: Array, k: int, generator: Any) -> tuple[Array, Array, Array]:
        """For check_step, batched; with shared noise, k = 1."""
        generator, noise = self.generator(generator), None
        if self.shared:
            noise = generator.exponential(size=q.shape)
            drafts = (q / noise).argmax(-1)[:, None]
        else:
            drafts = self.draft(q, k, generator)
        token, taken = self.verify(p, q, drafts, generator, noise)
        outcome = drafts, np.arange(drafts.shape[1]) == taken[:, None], token
        return outcome if self.after is same else self.after(*outcome)

    def path(self, p: Any, q: Any, k: int, generator: Any) -> tuple[Array, Array, Array]:
        """For check_step with path=True, batched: speculative sampling at every place."""
        generator = self.generator(generator)
        drafts = np.zeros((len(q()), 0), dtype=int)
        laws_q, noises = [], []
        for _ in range(k):
            laws_q.append(q(drafts))
            noises.append(generator.exponential(size=laws_q[-1].shape) if self.shared else None)
            one = (laws_q[-1] / noises[-1]).argmax(-1)[:, None] if self.shared else self.draft(laws_q[-1], 1, generator)
            drafts = np.concatenate((drafts, one), -1)
        laws_p = [p(drafts[:, :t]) for t in range(k + 1)]
        token, length = np.zeros(len(drafts), dtype=int), np.full(len(drafts), -1)
        for t in range(k):
            seen = laws_q[self.place_of_q(t)]
            found, taken = self.verify(laws_p[t], seen, drafts[:, t : t + 1], generator, noises[t])
            if self.place_of_residual is not same:
                there = self.place_of_residual(t)
                left = self.residual(laws_p[there], laws_q[there])
                found = np.where(taken < 0, chosen(left, self.recovery(generator, (len(found),))), found)
            stops = (length < 0) & (taken < 0)
            token, length = np.where(stops, found, token), np.where(stops, t, length)
        whole = laws_p[k] if self.last is None else self.last(laws_p[k], q(drafts), laws_p[k - 1])
        last = chosen(whole, self.recovery(generator, (len(drafts),)))
        token, length = np.where(length < 0, last, token), np.where(length < 0, k, length)
        outcome = drafts, np.arange(k) < length[:, None], token
        return outcome if self.after is same else self.after(*outcome)
