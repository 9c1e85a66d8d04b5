"""A plain rejection sampler in the place of vLLM's (first model runner), right, or with one of the errors that engines have had.

Slow and obvious: request by request, in numpy. The errors are those of a list that was planted by hand in vLLM's own sampler.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

ERRORS = (
    "silently greedy",
    "q of the row before",
    "q squared",
    "top-k lost",
    "residual of the first place",
    "last request has the output of the first",
    "recovered from p",
    "bonus from the law of the last draft",
    "generator seeded anew",
    "one uniform for the batch",
    "recovered from p without the draft",
    "bonus at temperature 1",
    "last request has the first token of the first",
    "last request has the logits of the first",
    "5 % of first drafts forced",
    "acceptance 1.15 p/q",
    "noise of the draft again",
    "one uniform a place",
    "acceptance 1.05 p/q",
    "uniforms of 4 bits",
)
CUT = ("top-k lost", "bonus at temperature 1")  # seen only where truncation or another temperature is asked for
# no errors where each draft is sure, as n-grams are: q is one-hot, and the residual p without the draft
NONE_BY_NGRAMS = ("q squared", "recovered from p without the draft", "noise of the draft again")


def softmax(logits: np.ndarray) -> np.ndarray:
    mass = np.exp(logits - logits.max(-1, keepdims=True))
    return mass / mass.sum(-1, keepdims=True)


@dataclass
class Sampler:
    """vLLM's `rejection_sample`. raw: what the target's logits were before temperature and truncation, kept by `planted`."""

    error: str
    generator: np.random.Generator
    raw: list[Any] = field(default_factory=list)

    def __call__(
        self, draft_token_ids: Any, num_draft_tokens: list[int], max_spec_len: int, cu_num_draft_tokens: Any,
        draft_probs: Any, target_logits: Any, bonus_token_ids: Any, sampling_metadata: Any, **_: Any
    ) -> Any:  # fmt: skip
        if not max_spec_len:
            return bonus_token_ids.int()
        drafts = draft_token_ids.numpy()
        p, q = self._laws(target_logits, draft_probs, drafts)
        bonus = bonus_token_ids[:, 0].numpy().copy()
        ends = np.cumsum(num_draft_tokens)
        starts = ends - num_draft_tokens
        emitted = np.full((len(bonus), max_spec_len + 1), -1)
        uniforms = self._uniforms(len(bonus), max_spec_len)
        with_drafts = np.flatnonzero(np.array(num_draft_tokens) > 0)
        first, last = with_drafts[0], with_drafts[-1]
        for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
            at = np.arange(start, end)
            read = at
            if self.error == "last request has the logits of the first" and row == last:
                read = np.minimum(starts[first] + np.arange(len(at)), ends[first] - 1)
            tokens = self._chain(drafts[at], p[read], q[at], bonus[row], uniforms[row])
            emitted[row, : len(tokens)] = tokens
        if self.error == "last request has the output of the first":
            emitted[last] = emitted[first]
        if self.error == "last request has the first token of the first":
            emitted[last, 0] = emitted[first, 0]
        return bonus_token_ids.new_tensor(emitted).int()

    def _laws(self, target_logits: Any, draft_probs: Any, drafts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        q = (
            np.eye(target_logits.shape[-1])[drafts] if draft_probs is None else draft_probs.double().numpy()
        )  # None: n-grams
        if self.error == "q of the row before":
            q = np.roll(q, 1, axis=0)
        if self.error == "q squared":
            q = q**2 / (q**2).sum(-1, keepdims=True)
        return softmax(target_logits.double().numpy()), q

    def _uniforms(self, rows: int, length: int) -> np.ndarray:
        if self.error == "generator seeded anew":
            self.generator = np.random.default_rng(7)
        u = self.generator.random((rows, length))
        if self.error == "one uniform for the batch":
            u[:] = u[0, 0]
        if self.error == "one uniform a place":
            u[:] = u[0]
        return np.floor(u * 16) / 16 if self.error == "uniforms of 4 bits" else u

    def _chain(self, drafts: np.ndarray, p: np.ndarray, q: np.ndarray, bonus: int, uniforms: np.ndarray) -> list[int]:
        factor = {"acceptance 1.15 p/q": 1.15, "acceptance 1.05 p/q": 1.05}.get(self.error, 1.0)
        forced = self.error == "5 % of first drafts forced" and self.generator.random() < 0.05
        for place, draft in enumerate(drafts.tolist()):
            if self.error == "silently greedy":
                if draft == (top := int(p[place].argmax())):
                    continue
                return [*drafts[:place].tolist(), top]
            ratio = factor * p[place, draft] / max(q[place, draft], 1e-300)
            if not uniforms[place] < ratio and not (forced and place == 0):
                return [*drafts[:place].tolist(), self._recovered(place, draft, p, q)]
        if self.error == "bonus from the law of the last draft" and len(drafts):
            bonus = self.generator.choice(p.shape[1], p=p[-1])
        return [*drafts.tolist(), int(bonus)]

    def _recovered(self, place: int, draft: int, p: np.ndarray, q: np.ndarray) -> int:
        where = 0 if self.error == "residual of the first place" else place
        law = np.maximum(p[where] - q[where], 0)
        if self.error == "recovered from p":
            law = p[place]
        if self.error == "recovered from p without the draft":
            law = p[place] * (np.arange(p.shape[1]) != draft)
        law = law / law.sum() if law.sum() > 1e-12 else p[place]
        if self.error != "noise of the draft again":
            return int(self.generator.choice(len(law), p=law))
        # The noise, given that it drew this draft: the least of E / q is M, the others start at M q.
        noise = self.generator.exponential() * q[place]
        noise += self.generator.exponential(size=len(noise)) * (np.arange(len(noise)) != draft)
        return int(np.argmin(np.where(law > 0, noise / np.maximum(law, 1e-300), np.inf)))


@contextmanager
def planted(sampler: ModuleType, error: str, generator: np.random.Generator) -> Iterator[None]:
    """vLLM's module of the rejection sampler with ours in it; error: one of ERRORS, or "" for the right one."""
    ours, constraints = Sampler(error, generator), sampler.apply_sampling_constraints
    forward = sampler.RejectionSampler.forward

    def only_temperature(logits: Any, cumulated: Any, metadata: Any) -> Any:
        asked = (metadata.top_k, metadata.top_p)
        metadata.top_k = metadata.top_p = None
        try:
            return constraints(logits, cumulated, metadata)
        finally:
            metadata.top_k, metadata.top_p = asked

    def bonus_at_one(self: Any, *given: Any, **named: Any) -> Any:
        inner = self.sampler.forward

        def hot(logits: Any, sampling_metadata: Any, **rest: Any) -> Any:
            law = softmax(logits.double().numpy())  # the sampler works in place
            found = inner(logits=logits, sampling_metadata=sampling_metadata, **rest)
            drawn = [[generator.choice(law.shape[1], p=row)] for row in law]
            found.sampled_token_ids = found.sampled_token_ids.new_tensor(drawn)
            return found

        with mock.patch.object(self.sampler, "forward", hot):
            return forward(self, *given, **named)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(sampler, "rejection_sample", ours))
        if error == "top-k lost":
            stack.enter_context(mock.patch.object(sampler, "apply_sampling_constraints", only_temperature))
        if error == "bonus at temperature 1":
            stack.enter_context(mock.patch.object(sampler.RejectionSampler, "forward", bonus_at_one))
        yield
