"""Whether the law that a server reports is that of the model one thinks it serves: compared with transformers, run here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Array
from ..errors import CannotAudit
from ..optional import load
from .answers import Answer
from .records import number_of
from .reported import Reported

ANSWERS = 64  # compared at most
AGREES = 0.02  # mean total variation up to which two ways to compute one model may differ (precision, kernels)


class Reference:
    """A model in a folder, in the format of transformers. CannotAudit if it cannot be loaded from there."""

    def __init__(self, folder: Path) -> None:
        transformers = load("transformers", "llm")
        self.folder, self._compared = folder, 0
        self._distances: list[float] = []
        try:
            model = transformers.AutoModelForCausalLM
            self._model = model.from_pretrained(folder, local_files_only=True, dtype="float32").eval()
        except (OSError, ValueError, RuntimeError) as error:
            raise CannotAudit(f"{folder}: no model of transformers: {' '.join(str(error).split())[:200]}") from error
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError, RuntimeError, TypeError, AttributeError):
            self._tokenizer = None  # prompts must be ids then
        self._names: dict[int, int] | None = None

    def add(self, prompt: str | Sequence[int], answer: Answer, reported: Reported) -> None:
        """Compare one answer, up to ANSWERS of them."""
        if self._compared >= ANSWERS or not answer.tokens:
            return
        self._compared += 1
        context, emitted = self._ids(prompt), [self._id(each.token) for each in answer.tokens]
        for token, law, each in zip(emitted, self._laws(context, emitted, reported), answer.tokens, strict=False):
            if token is None:
                break
            ids = [self._id(int(name)) for name in each.ids]
            known = [i for i, token in enumerate(ids) if token is not None]
            if len(known) < len(ids) / 2:
                raise CannotAudit(
                    f"{self.folder}: the server's tokens are not this model's: are the vocabularies the same?"
                )
            here, there = np.exp(each.logs[known]), law[[ids[i] for i in known]]
            rest = abs(here.sum() - there.sum())
            self._distances.append(float(np.abs(here - there).sum() + rest) / 2)

    def _laws(self, context: list[int], emitted: Sequence[int | None], reported: Reported) -> Array:
        """The reference's laws at the places of the emitted tokens, at the temperature that the server's are reported at."""
        import torch

        known = emitted[: emitted.index(None)] if None in emitted else emitted
        after = [token for token in known[: len(emitted) - 1] if token is not None]
        with torch.no_grad():
            logits = self._model(torch.tensor([context + after])).logits[0, len(context) - 1 :].double()
        temperature = reported.temperature if reported.mode != "raw" and reported.temperature > 0 else 1.0
        found: Array = torch.softmax(logits / temperature, dim=-1).numpy()
        return found

    def _ids(self, prompt: str | Sequence[int]) -> list[int]:
        if not isinstance(prompt, str):
            return list(prompt)
        if self._tokenizer is None:
            raise CannotAudit(f"{self.folder} holds no tokenizer: give prompts as token ids (--prompts)")
        return list(self._tokenizer(prompt)["input_ids"])

    def _id(self, name: int) -> int | None:
        """The model's id of a token as `answers` numbers it: itself, or the one token of this text."""
        size = int(self._model.get_input_embeddings().num_embeddings)
        if 0 <= name < size:
            return name
        if self._names is None:
            known = range(len(self._tokenizer) if self._tokenizer is not None else 0)
            self._names = _once([self._tokenizer.decode([i]) for i in known])
        return self._names.get(name)

    def verdict(self) -> str:
        """A sentence on what was seen; it begins with "differs" where AGREES is passed. CannotAudit if nothing could be compared."""
        if not self._distances:
            remedy = "the server must name tokens by id (vLLM and llama.cpp do)"
            raise CannotAudit(f"{self.folder}: no place could be compared: {remedy}")
        mean, largest = float(np.mean(self._distances)), float(np.max(self._distances))
        return (
            f"{'agrees with' if mean <= AGREES else 'differs from'} the law served: total variation a token, on the listed tokens and "
            f"the rest, {mean:.3g} on average, {largest:.3g} at most, on {len(self._distances):,} places (differs: a mean above {AGREES})"
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
