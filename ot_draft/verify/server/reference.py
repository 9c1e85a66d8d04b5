"""Local models in transformers: whether a server serves the distribution of a model, and the distributions of its draft model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import Array
from ...errors import CannotAudit
from ...optional import load
from ..outcome import Outcome, ServerEvidence, Status
from .answers import Answer
from .lookup import Overlap
from .records import number_of
from .reported import Reported


class LocalModel:
    """A model in a folder, in the format of transformers. Raises CannotAudit if it cannot be loaded."""

    def __init__(self, folder: Path) -> None:
        transformers = load("transformers", "llm")
        self.folder = folder
        try:
            model = transformers.AutoModelForCausalLM
            self._model = model.from_pretrained(folder, local_files_only=True, dtype="float32").eval()
        except (OSError, ValueError, RuntimeError) as error:
            raise CannotAudit(f"{folder}: no model of transformers: {_one_line(error)}") from error
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError, RuntimeError, TypeError, AttributeError):
            self._tokenizer = None  # prompts must be ids then
        self._size = int(self._model.get_input_embeddings().num_embeddings)
        self._names: dict[int, int] | None = None

    def laws(self, prompt: str | Sequence[int], answer: Answer, temperature: float, positions: int = 0) -> Array:
        """Return the distributions at the positions of a response, up to the first unknown token: (m, n).

        At least `positions` are computed, so that the length of the response does not change the last digits.
        """
        import torch

        context, after = self._ids(prompt), list[int]()
        for each in answer.tokens[:-1]:
            if (token := self.id(each.token)) is None:
                break
            after.append(token)
        row = [*context, *after, *[0] * (positions - 1 - len(after))]
        try:
            with torch.no_grad():
                logits = self._model(torch.tensor([row])).logits[0, len(context) - 1 :][: len(after) + 1].double()
        except (IndexError, RuntimeError) as error:
            raise CannotAudit(f"{self.folder}: no distributions after {len(row)} tokens: {_one_line(error)}") from error
        found: Array = torch.softmax(logits / temperature, dim=-1).numpy()
        return found

    def known(self, names: Array) -> tuple[list[int], list[int]]:
        """Return which tokens of the server are in this model, and their ids here. Raises CannotAudit if most are not."""
        ids = [self.id(int(name)) for name in names]
        where = [i for i, token in enumerate(ids) if token is not None]
        if len(where) < len(ids) / 2:
            raise CannotAudit(
                f"{self.folder} must have the server's vocabulary, got {len(where)} of {len(ids)} tokens. Use the served model."
            )
        return where, [token for token in ids if token is not None]

    def _ids(self, prompt: str | Sequence[int]) -> list[int]:
        if not isinstance(prompt, str):
            return list(prompt)
        if self._tokenizer is None:
            raise CannotAudit(f"{self.folder} has no tokenizer. Pass prompts as token ids with --prompts.")
        return list(self._tokenizer(prompt)["input_ids"])

    def id(self, name: int) -> int | None:
        """Return the model's id of a token of `answers`: itself, or the only token with this text; None if there is none."""
        if 0 <= name < self._size:
            return name
        if self._names is None:
            known = range(len(self._tokenizer) if self._tokenizer is not None else 0)
            self._names = _unique_texts([self._tokenizer.decode([i]) for i in known])
        return self._names.get(name)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


class DraftLaws(Overlap):
    """Distributions of the draft model at the positions of a server's responses."""

    def __init__(self, model: LocalModel, temperature: float) -> None:
        super().__init__()
        self.model, self._temperature = model, temperature or 1.0

    def __str__(self) -> str:
        return str(self.model.folder)

    def rows(self, prompt: str | Sequence[int], answer: Answer, asked: int) -> Array:
        """Return distributions of the first m positions (m, n), of `asked` possible ones. They depend on the tokens before alone."""
        return self.model.laws(prompt, answer, self._temperature, asked)

    def on(self, row: Array, names: Array, mass: Array) -> Array:
        """Return the draft probabilities of listed tokens with these probabilities, 0 for tokens that the model lacks: (m,)."""
        found = np.zeros(len(names))
        where, ids = self.model.known(names)
        found[where] = row[ids]
        self.count(found, mass)
        return found


class Reference:
    """Comparison of a server's reports with a local model.

    max_answers: responses that are compared. agrees: mean total variation distance up to which two computations of one model may differ,
    by precision and kernels.
    """

    def __init__(self, model: LocalModel, max_answers: int = 64, agrees: float = 0.02) -> None:
        self.model, self._compared, self._max_answers, self._agrees = model, 0, max_answers, agrees
        self._distances: list[float] = []

    def add(self, prompt: str | Sequence[int], answer: Answer, reported: Reported) -> None:
        """Compare a response, at the temperature of the reported distributions."""
        if self._compared >= self._max_answers or not answer.tokens:
            return
        self._compared += 1
        temperature = reported.temperature if reported.mode != "raw" and reported.temperature > 0 else 1.0
        for law, each in zip(self.model.laws(prompt, answer, temperature), answer.tokens, strict=False):
            if self.model.id(each.token) is None:
                break
            known, ids = self.model.known(each.ids)
            here, there = np.exp(each.logs[known]), law[ids]
            rest = abs(here.sum() - there.sum())
            self._distances.append(float(np.abs(here - there).sum() + rest) / 2)

    def outcome(self) -> Outcome[ServerEvidence]:
        """Return the outcome: FAILED if the mean distance is above `agrees`. Raises CannotAudit if nothing could be compared."""
        if not self._distances:
            raise CannotAudit(
                f"{self.model.folder}: no position could be compared. Let the server name tokens by id (vLLM and llama.cpp do)."
            )
        mean, largest = float(np.mean(self._distances)), float(np.max(self._distances))
        agrees, number = mean <= self._agrees, len(self._distances)
        reason = (
            f"{'agrees with' if agrees else 'differs from'} the distribution served: total variation per token, on the listed tokens and "
            f"the rest, {mean:.3g} on average, {largest:.3g} at most, on {number:,} positions (differs: a mean above {self._agrees})"
        )
        status = Status.PASSED if agrees else Status.FAILED
        claim = f"the mean total variation distance from the reference is at most {self._agrees}" if agrees else ""
        return Outcome(
            check="reference", status=status, claim=claim, evidence=ServerEvidence(reason=reason, tokens=number)
        )


def _unique_texts(texts: Sequence[str]) -> dict[int, int]:
    """Ids by digests of texts, without texts of several tokens."""
    found: dict[int, int] = {}
    twice = set()
    for i, text in enumerate(texts):
        number = number_of(text)
        twice.update({number} & found.keys())
        found[number] = i
    return {number: i for number, i in found.items() if number not in twice}
