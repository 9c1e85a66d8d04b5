"""Models run here, by transformers: whether a server's law is that of the model one thinks, and the draft model's laws."""

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
from .records import number_of
from .reported import Reported

ANSWERS = 64  # compared at most
AGREES = 0.02  # mean total variation up to which two ways to compute one model may differ (precision, kernels)


class LocalModel:
    """A model in a folder, in the format of transformers. CannotAudit if it cannot be loaded from there."""

    def __init__(self, folder: Path) -> None:
        transformers = load("transformers", "llm")
        self.folder = folder
        try:
            model = transformers.AutoModelForCausalLM
            self._model = model.from_pretrained(folder, local_files_only=True, dtype="float32").eval()
        except (OSError, ValueError, RuntimeError) as error:
            raise CannotAudit(f"{folder}: no model of transformers: {' '.join(str(error).split())[:200]}") from error
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError, RuntimeError, TypeError, AttributeError):
            self._tokenizer = None  # prompts must be ids then
        self._size = int(self._model.get_input_embeddings().num_embeddings)
        self._names: dict[int, int] | None = None

    def laws(self, prompt: str | Sequence[int], answer: Answer, temperature: float, places: int = 0) -> Array:
        """The laws at the places of an answer's tokens, as far as those before are tokens of this model: (m, n).

        places: of the answer, that are computed at least, so that how long it became does not matter to the last digit.
        """
        import torch

        context, after = self._ids(prompt), list[int]()
        for each in answer.tokens[:-1]:
            if (token := self.id(each.token)) is None:
                break
            after.append(token)
        row = [*context, *after, *[0] * (places - 1 - len(after))]
        try:
            with torch.no_grad():
                logits = self._model(torch.tensor([row])).logits[0, len(context) - 1 :][: len(after) + 1].double()
        except (IndexError, RuntimeError) as error:
            seen = f"{self.folder}: no laws after {len(row)} tokens"
            raise CannotAudit(f"{seen}: {' '.join(str(error).split())[:200]}") from error
        found: Array = torch.softmax(logits / temperature, dim=-1).numpy()
        return found

    def known(self, names: Array) -> tuple[list[int], list[int]]:
        """Which of the tokens that a server names are this model's, and their ids here. CannotAudit where most are not."""
        ids = [self.id(int(name)) for name in names]
        where = [i for i, token in enumerate(ids) if token is not None]
        if len(where) < len(ids) / 2:
            raise CannotAudit(
                f"{self.folder}: the server's tokens are not this model's: are the vocabularies the same?"
            )
        return where, [token for token in ids if token is not None]

    def _ids(self, prompt: str | Sequence[int]) -> list[int]:
        if not isinstance(prompt, str):
            return list(prompt)
        if self._tokenizer is None:
            raise CannotAudit(f"{self.folder} holds no tokenizer: give prompts as token ids (--prompts)")
        return list(self._tokenizer(prompt)["input_ids"])

    def id(self, name: int) -> int | None:
        """The model's id of a token as `answers` numbers it: itself, or the one token of this text."""
        if 0 <= name < self._size:
            return name
        if self._names is None:
            known = range(len(self._tokenizer) if self._tokenizer is not None else 0)
            self._names = _once([self._tokenizer.decode([i]) for i in known])
        return self._names.get(name)


class DraftLaws:
    """The draft model's laws at the places of a server's answers. overlap: mean of sum min(p, q) over the listed tokens."""

    def __init__(self, model: LocalModel, temperature: float) -> None:
        self.model, self._temperature = model, temperature or 1.0
        self._shared = self._places = 0.0

    def __str__(self) -> str:
        return str(self.model.folder)

    def rows(self, prompt: str | Sequence[int], answer: Answer, asked: int) -> Array:
        """(m, n): those of the first m tokens, of `asked` that the answer might have had. They depend on the tokens before alone."""
        return self.model.laws(prompt, answer, self._temperature, asked)

    def on(self, row: Array, names: Array, mass: Array) -> Array:
        """A row's masses on the tokens that a server lists with these masses, 0 for those that the model has not: (m,)."""
        found = np.zeros(len(names))
        where, ids = self.model.known(names)
        found[where] = row[ids]
        self._shared, self._places = self._shared + float(np.minimum(found, mass).sum()), self._places + 1
        return found

    @property
    def overlap(self) -> float:
        return self._shared / max(self._places, 1)


class Reference:
    """A model beside which a server's reports are set."""

    def __init__(self, model: LocalModel) -> None:
        self.model, self._compared = model, 0
        self._distances: list[float] = []

    def add(self, prompt: str | Sequence[int], answer: Answer, reported: Reported) -> None:
        """Compare one answer, up to ANSWERS of them, at the temperature that the server's laws are reported at."""
        if self._compared >= ANSWERS or not answer.tokens:
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
        """Return the outcome of the comparison: FAILED if the mean distance is above AGREES. CannotAudit if nothing could be compared."""
        if not self._distances:
            remedy = "the server must name tokens by id (vLLM and llama.cpp do)"
            raise CannotAudit(f"{self.model.folder}: no place could be compared: {remedy}")
        mean, largest = float(np.mean(self._distances)), float(np.max(self._distances))
        agrees, number = mean <= AGREES, len(self._distances)
        reason = (
            f"{'agrees with' if agrees else 'differs from'} the distribution served: total variation per token, on the listed tokens and "
            f"the rest, {mean:.3g} on average, {largest:.3g} at most, on {number:,} positions (differs: a mean above {AGREES})"
        )
        status = Status.PASSED if agrees else Status.FAILED
        claim = f"the mean total variation distance from the reference is at most {AGREES}" if agrees else ""
        return Outcome(
            check="reference", status=status, claim=claim, evidence=ServerEvidence(reason=reason, tokens=number)
        )


def _once(texts: Sequence[str]) -> dict[int, int]:
    """Numbers of the texts that one token alone has."""
    found: dict[int, int] = {}
    twice = set()
    for i, text in enumerate(texts):
        number = number_of(text)
        twice.update({number} & found.keys())
        found[number] = i
    return {number: i for number, i in found.items() if number not in twice}
