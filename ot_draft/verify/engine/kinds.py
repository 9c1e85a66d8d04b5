"""Kinds of requests to an engine, and the distribution of the next token of each, by the documentation of the settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import Array

DEPTH = 4  # tokens of a completion whose joint distribution is enumerated
TOKENS = 6  # max_tokens of a request: the last of the compared tokens are drafted and verified too

Text = tuple[int, ...]


@dataclass(frozen=True)
class Kind:
    """One kind of request.

    Attributes
    ----------
    prompt : tuple of int
        Token ids.
    settings : dict
        Settings in addition to prompt, max_tokens and ignore_eos, by vLLM's names; "grammar": allowed tokens by position.
    share : float
        Number of requests, relative to the first kind.
    large : bool
        Whether the pair of 2,000 tokens gets it, too.
    """

    prompt: Text
    settings: dict[str, Any] = field(default_factory=dict)
    share: float = 0.1
    large: bool = False

    def request(self, **more: Any) -> dict[str, Any]:
        """Return the request for the adapter."""
        return (
            {"prompt": list(self.prompt), "max_tokens": TOKENS, "ignore_eos": True, "temperature": 1.0}
            | self.settings
            | more
        )

    def ends(self, n: int) -> set[int]:
        """Return the tokens that end a completion."""
        ignored = self.settings.get("ignore_eos", True)
        return {*self.settings.get("stop_token_ids", ()), *(() if ignored else (n - 1,))}

    def masses(
        self, logits: Array, texts: Array, presence_of_prompt: bool = False, close: float = 5e-3
    ) -> tuple[Array, Array]:
        """Return distributions of the next token, by grammar, biases, penalties, temperature, top-k, top-p and min-p, in this order.

        Parameters
        ----------
        logits : array of shape (m, n)
            Logits after each completion.
        texts : int array of shape (m, t)
            Completions so far.
        presence_of_prompt : bool, default=False
            Whether presence and frequency penalties count the prompt's tokens too, as in llama.cpp.
        close : float, default=5e-3
            Distance of a token from the limit of a truncation below which an engine's rounding may decide (llama.cpp's: 7e-4).

        Returns
        -------
        law : array of shape (m, n)
            Distributions.
        certain : bool array of shape (m,)
            Whether no token is close to a limit.
        """
        ask, (m, n) = self.settings, logits.shape
        scores = np.array(logits, dtype=float)
        if allowed := (ask["grammar"][texts.shape[1]] if "grammar" in ask else ask.get("allowed_token_ids")):
            scores[:, np.setdiff1d(np.arange(n), allowed)] = -np.inf
        for token, bias in ask.get("logit_bias", {}).items():
            scores[:, token] += bias
        if texts.shape[1] < ask.get("min_tokens", 0):
            scores[:, sorted(self.ends(n))] = -np.inf
        counts = np.zeros((m, n))
        np.add.at(counts, (np.arange(m)[:, None], texts), 1)
        prompt = np.bincount(self.prompt, minlength=n)
        by = np.where(counts + prompt > 0, ask.get("repetition_penalty", 1.0), 1.0)
        scores = np.where(scores > 0, scores / by, scores * by)
        counts += prompt if presence_of_prompt else 0
        scores -= ask.get("frequency_penalty", 0.0) * counts + ask.get("presence_penalty", 0.0) * (counts > 0)
        if self.temperature == 0:
            ranked = np.sort(scores)
            return np.eye(n)[scores.argmax(-1)], ranked[:, -1] - ranked[:, -2] > close
        scores /= self.temperature
        sure = np.ones(m, dtype=bool)
        if k := ask.get("top_k"):
            ranked = np.sort(scores)
            sure &= ranked[:, -k] - ranked[:, -k - 1] > close
            scores[scores < ranked[:, [-k]]] = -np.inf
        law = np.exp(scores - scores.max(-1, keepdims=True))
        law /= law.sum(-1, keepdims=True)
        if top_p := ask.get("top_p"):
            order = np.argsort(law)
            below = np.take_along_axis(law, order, -1).cumsum(-1)
            sure &= (abs(below - 1 + top_p) > close).all(-1)
            np.put_along_axis(law, order, np.where(below <= 1 - top_p, 0, np.take_along_axis(law, order, -1)), -1)
        if min_p := ask.get("min_p"):
            edge = min_p * law.max(-1, keepdims=True)
            sure &= (abs(law - edge) > close * edge).all(-1)
            law[law < edge] = 0
        return law / law.sum(-1, keepdims=True), sure

    @property
    def temperature(self) -> float:
        """Temperature; 0: the largest logit."""
        return float(self.settings.get("temperature", 1.0))


PLAIN = "plain"
# Truncations and biases come with a temperature for which the distribution depends on the order of application.
KINDS = {
    PLAIN: Kind((1, 2, 3, 4, 5), share=1.0, large=True),
    "temperature": Kind((5, 1, 6, 2), {"temperature": 0.7}, 0.3, large=True),
    "top-k": Kind((5, 1, 6), {"temperature": 0.9, "top_k": 4}),
    "top-p": Kind((5, 4, 3), {"temperature": 1.6, "top_p": 0.7}),
    "top-k and top-p": Kind((4, 1), {"temperature": 1.6, "top_k": 4, "top_p": 0.7}),
    "min-p": Kind((2, 3), {"temperature": 0.7, "min_p": 0.15}),
    "top-k of many": Kind((2, 3, 9), {"top_k": 50}, large=True),
    "repetition penalty": Kind((4, 4, 1, 0), {"repetition_penalty": 3.0}, 0.25),
    "presence, frequency": Kind((4, 1, 0), {"temperature": 0.9, "presence_penalty": 1.8, "frequency_penalty": 1.2}),
    "logit bias": Kind((0, 6, 1), {"temperature": 0.6, "logit_bias": {2: 1.5, 4: -2.0}}),
    "allowed tokens": Kind((6, 5, 4), {"allowed_token_ids": [0, 2, 3, 5]}),
    "grammar": Kind((0, 1), {"grammar": [[0, 1, 2], [2, 3, 4, 5], [0, 1, 6], [0, 3, 4], *[[0, 1, 2, 3, 4, 5, 6]] * TOKENS]}),
    "end of text": Kind((3, 1), {"ignore_eos": False}),
    "min tokens": Kind((2, 3, 2), {"ignore_eos": False, "stop_token_ids": [4, 5], "min_tokens": 3}),
    "stop tokens": Kind((0, 2, 5), {"stop_token_ids": [1, 3]}),
    "seeded": Kind((1, 2, 3, 4, 5), {"seed": 10_000}),
    "n = 3": Kind((6, 2), {"n": 3}),
    "repeating prompt": Kind((1, 2, 3, 1, 2, 3, 1, 2)),
    "long prompt": Kind(tuple((3 * i + i * i // 5) % 7 for i in range(120))),
    "greedy": Kind((3, 3, 2), {"temperature": 0.0}, 0.05, large=True),
}  # fmt: skip


def kinds_for(n: int) -> dict[str, Kind]:
    """Return the kinds for a pair of n tokens."""
    if n > 100:
        return {name: kind for name, kind in KINDS.items() if kind.large}
    return {name: kind for name, kind in KINDS.items() if kind.settings.get("top_k", 0) < n}


@dataclass(frozen=True)
class ReferencePair:
    """The tiny pair in transformers. presence_of_prompt: as in `Kind.masses`."""

    target: Any
    draft: Any
    presence_of_prompt: bool = False

    @classmethod
    def load(cls, target: Path, draft: Path, presence_of_prompt: bool = False) -> ReferencePair:
        """Load both models in float32."""
        from transformers import AutoModelForCausalLM

        load = AutoModelForCausalLM.from_pretrained
        return cls(load(target, dtype="float32").eval(), load(draft, dtype="float32").eval(), presence_of_prompt)

    @property
    def n(self) -> int:
        """Vocabulary size."""
        return int(self.target.config.vocab_size)

    def logits(self, model: Any, prompt: Text, texts: Array) -> Array:
        """Return logits after the prompt and after every token of completions: int (m, t) -> (m, t + 1, n)."""
        import torch

        texts, rows = np.unique(texts, axis=0, return_inverse=True)
        ids = torch.tensor(np.concatenate((np.tile(prompt, (len(texts), 1)), texts), 1).astype(np.int64))
        with torch.inference_mode():
            parts = [
                model(part, use_cache=False).logits[:, len(prompt) - 1 :].double().numpy() for part in ids.split(256)
            ]
        return np.concatenate(parts)[rows]

    def laws(self, kind: Kind, texts: Array) -> tuple[Array, Array, Array]:
        """Return target and draft distributions at every position of completions, and whether the target's is certain.

        int (m, t) -> (m, t, n), (m, t, n), bool (m, t).
        """
        both = []
        for model in (self.target, self.draft):
            logits = self.logits(model, kind.prompt, texts[:, :-1])
            positions = [
                kind.masses(logits[:, i], texts[:, :i], self.presence_of_prompt) for i in range(texts.shape[1])
            ]
            both.append([np.stack(each, 1) for each in zip(*positions, strict=True)])
        (p, sure), (q, _) = both
        return p, q, sure

    def enumerated(self, kind: Kind) -> dict[Text, float]:
        """Return the probability of every DEPTH tokens and of every shorter completion that ends; empty if one is not certain."""
        law: dict[Text, float] = {(): 1.0}
        ended: dict[Text, float] = {}
        ends = kind.ends(self.n)
        for depth in range(DEPTH):
            texts = list(law)
            found = np.array(texts, dtype=np.int64).reshape(len(texts), depth)
            rows, sure = kind.masses(
                self.logits(self.target, kind.prompt, found)[:, -1], found, self.presence_of_prompt
            )
            if not sure.all():
                return {}
            following = {
                (*text, y): law[text] * row[y]
                for text, row in zip(texts, rows, strict=True)
                for y in np.flatnonzero(row).tolist()
            }
            ended |= {text: mass for text, mass in following.items() if text[-1] in ends}
            law = {text: mass for text, mass in following.items() if text[-1] not in ends}
        return law | ended
