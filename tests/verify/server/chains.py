"""Pairs of small random Markov models, and samplers on them: speculative ones as engines have them, right and wrong.

A state is the last two tokens; target and draft look at the last one only, so that "the law of the place before" is another row.
Everything a token-wise sampler does in a state is four tables: the law the drafts are really drawn from, the chance of taking each,
the law of the token in the place of a refused one, and the law of the token after a whole accepted path. They are drawn from as an
engine draws, token by token, and the total variation of what comes out is computed from them exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ot_draft.arrays import Array

LENGTH = 3  # drafts a step
PROMPTS = [[i] for i in range(16)]


@dataclass(frozen=True)
class Pair:
    """Target p and draft q by the last token: (n, n) each."""

    p: Array
    q: Array

    @property
    def n(self) -> int:
        return len(self.p)

    def rows(self, laws: Array, back: int = 0) -> Array:
        """Laws by the last token (back = 0) or by the one before (back = 1), for all states: (n * n, n)."""
        states = np.arange(self.n**2)
        return laws[states % self.n if back == 0 else states // self.n]


def random_pair(seed: int, n: int = 24) -> Pair:
    """A target with sharp and flat rows, and a draft that is blunter and errs by 1 in every logit: it is right in half of the tokens."""
    generator = np.random.default_rng(seed)
    sharpness = generator.uniform(1.0, 3.0, (n, 1))
    logits = sharpness * generator.normal(size=(n, n))
    return Pair(softmax(logits), softmax(0.5 * logits + generator.normal(size=(n, n))))


def softmax(logits: Array) -> Array:
    mass = np.exp(logits - logits.max(-1, keepdims=True))
    return mass / mass.sum(-1, keepdims=True)


@dataclass(frozen=True)
class Tables:
    """A token-wise sampler: draft (S, n), accept (S, n), refused (S, n, n) by the refused draft, bonus (S, n); S states."""

    draft: Array
    accept: Array
    refused: Array
    bonus: Array

    def accepted(self) -> Array:
        """Probability that x is drafted and taken: (S, n)."""
        return self.draft * self.accept

    def corrected(self) -> Array:
        """Probability that x comes in the place of a refused draft: (S, n)."""
        return np.einsum("sd,sdx->sx", self.draft * (1 - self.accept), self.refused)


def residual(p: Array, q: Array) -> Array:
    """(p - q)+ over its sum; p where that is 0."""
    mass = np.maximum(p - q, 0)
    total = mass.sum(-1, keepdims=True)
    return np.where(total > 1e-14, mass / np.where(total > 1e-14, total, 1), p)


def whatever_was_refused(law: Array) -> Array:
    """The same law after every refused draft: (S, n) -> (S, n, n)."""
    return np.repeat(law[:, None, :], law.shape[1], axis=1)


def right(pair: Pair) -> Tables:
    """Speculative sampling (Leviathan et al., Chen et al. 2023)."""
    p, q = pair.rows(pair.p), pair.rows(pair.q)
    return Tables(q, np.minimum(1, p / q), whatever_was_refused(residual(p, q)), p)


def distance(pair: Pair, wrong: Tables, share: float = 1.0) -> float:
    """Mean total variation a token, exact: `share` of the tokens are drawn by the wrong tables, the others by the right ones.

    The chain over (state, place in the step) is solved for its stationary law; at every place the law of the emitted token, given
    the state, is compared with the target's.
    """
    good = right(pair)
    mixed = [share * getattr(wrong, part)() + (1 - share) * getattr(good, part)() for part in ("accepted", "corrected")]
    bonus = share * wrong.bonus + (1 - share) * good.bonus
    stationary = stationary_law(pair, *mixed, bonus)
    emitted = np.stack([mixed[0] + mixed[1]] * LENGTH + [bonus])
    return float((stationary * np.abs(emitted - pair.rows(pair.p)).sum(-1)).sum() / 2)


def stationary_law(pair: Pair, accepted: Array, corrected: Array, bonus: Array) -> Array:
    """Stationary law over (place in the step, state), by iteration: (LENGTH + 1, S)."""
    n, states = pair.n, pair.n**2
    following = (np.arange(states)[:, None] % n * n + np.arange(n)).ravel()
    law = np.full((LENGTH + 1, states), 1 / (states * (LENGTH + 1)))
    for _ in range(200):
        back = law[:LENGTH].sum(0)[:, None] * corrected + law[LENGTH][:, None] * bonus
        flows = [back, *(law[place][:, None] * accepted for place in range(LENGTH))]
        following_law = np.stack([np.bincount(following, flow.ravel(), states) for flow in flows])
        following_law = (following_law + law) / 2  # a chain that has a period would never settle
        if np.abs(following_law - law).max() < 1e-12:
            break
        law = following_law
    return law


def share_for(pair: Pair, wrong: Tables, bias: float) -> float:
    """The share of wrongly drawn tokens that gives this mean total variation a token; ValueError if all of them give less."""
    whole = distance(pair, wrong)
    if whole < bias:
        raise ValueError(f"all tokens drawn wrongly differ by {whole:.4f} only")
    share = bias / whole
    for _ in range(3):  # nearly linear
        share = min(1.0, share * bias / distance(pair, wrong, share))
    return share


@dataclass(frozen=True)
class Emitted:
    """Tokens of R requests, T each: token, place in the step, last token before (R, T); batch (R,), None if all ran together."""

    token: Array
    place: Array
    last: Array
    batch: Array | None = None


def run(pair: Pair, wrong: Tables, share: float, requests: int, length: int, generator: np.random.Generator,
        start: Array | None = None) -> Emitted:  # fmt: skip
    """Speculative sampling of `requests` texts at once: draft, test, and the token in its place or after them.

    start (R,): the states that the texts begin in, drawn if not said.
    """
    good = wrong if share == 1 else right(pair)  # at share 1, no token is drawn by the right tables
    state = generator.integers(pair.n**2, size=requests) if start is None else start
    place = np.zeros(requests, dtype=int)
    columns: list[tuple[Array, Array, Array]] = []
    for _ in range(length):
        wrongly = generator.random(requests) < share
        draft = _draw(_chosen(wrongly, wrong.draft, good.draft, state), generator)
        chance = np.where(wrongly, wrong.accept[state, draft], good.accept[state, draft])
        taken = generator.random(requests) < chance
        refused = np.where(wrongly[:, None], wrong.refused[state, draft], good.refused[state, draft])
        bonus = _chosen(wrongly, wrong.bonus, good.bonus, state)
        at_end = place == LENGTH
        other = _draw(np.where(at_end[:, None], bonus, refused), generator)
        token = np.where(taken & ~at_end, draft, other)
        columns.append((token, place, state % pair.n))
        place = np.where(taken & ~at_end, place + 1, 0)
        state = state % pair.n * pair.n + token
    return Emitted(*(np.stack(column, axis=1) for column in zip(*columns, strict=True)))


def as_log(pair: Pair, emitted: Emitted, with_draft: bool) -> dict[str, Array]:
    """The arrays of an .npz log, 32 tokens of each request after one another, as a server would write it."""
    requests, length = emitted.token.shape
    request, position = np.divmod(np.arange(requests * length), length)
    order = np.lexsort((position, request, position // 32))
    batch = np.zeros(requests, dtype=int) if emitted.batch is None else emitted.batch
    last = emitted.last.ravel()[order]
    arrays = {"token": emitted.token.ravel()[order], "target_probs": pair.p[last], "request": request[order], "position": position[order],
              "batch": batch[request[order]], "step_offset": emitted.place.ravel()[order]}  # fmt: skip
    return arrays | ({"draft_probs": pair.q[last]} if with_draft else {})


def _chosen(wrongly: Array, wrong: Array, good: Array, state: Array) -> Array:
    return np.where(wrongly[:, None], wrong[state], good[state])


def _draw(laws: Array, generator: np.random.Generator) -> Array:
    return inverse(laws, generator.random(len(laws)))


def inverse(laws: Array, uniforms: Array) -> Array:
    """The tokens whose intervals, in the order of ids, hold the uniforms: (R, n), (R,) -> (R,)."""
    return np.minimum((laws.cumsum(-1) <= uniforms[:, None]).sum(-1), laws.shape[-1] - 1)


def with_tables(tables: Tables, **other: Array) -> Tables:
    """The tables, some of them others."""
    return replace(tables, **other)


class Chain:
    """A side that writes by laws (n, n) of the next token given the last; a prompt is a token, a setting is not looked at."""

    def __init__(self, laws: Array, seed: int, shared: int = 1) -> None:
        self.steps, self.generator, self.shared = (
            laws.cumsum(1) / laws.sum(1, keepdims=True),
            np.random.default_rng(seed),
            shared,
        )

    def ask(self, requests: Sequence[tuple[str, Any]], tokens: int) -> list[Any]:
        state = np.array([prompt[0] for _, prompt in requests])
        made = np.empty((len(requests), tokens), np.int64)
        for t in range(tokens):
            uniforms = np.repeat(self.generator.random(-(-len(state) // self.shared)), self.shared)[: len(state)]
            state = made[:, t] = (self.steps[state] < uniforms[:, None]).sum(1)
        return list(made)
