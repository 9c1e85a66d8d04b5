"""Whether the law that a server reports is that of the model one thinks it serves: compared with transformers, run here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Array
from ..errors import CannotAudit, MissingPackage
from .answers import Answer
from .reported import Reported
from .rows import number_of

ANSWERS = 64  # compared at most
AGREES = 0.02  # mean total variation up to which two ways to compute one model may differ (precision, kernels)


@dataclass(frozen=True)
class Comparison:
    """Total variation between reported law and reference, on the listed tokens and the rest: over `tokens` places."""

    tokens: int
    mean: float
    largest: float

    @property
    def agrees(self) -> bool:
        """Whether the mean is at most AGREES."""
        return self.mean <= AGREES

    def __str__(self) -> str:
        word = "agrees with" if self.agrees else "differs from"
        return (
            f"{word} the law served: total variation a token {self.mean:.3g} on average, {self.largest:.3g} at most, "
            f"on {self.tokens:,} places (differs: above {AGREES} on average)"
        )


class Reference:
    """A model in a folder, in the format of transformers. CannotAudit if it cannot be loaded from there."""

    def __init__(self, folder: Path) -> None:
        try:
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ModuleNotFoundError as error:
            raise MissingPackage("transformers", "llm") from error
        self.folder, self._compared = folder, 0
        self._distances: list[float] = []
        try:
            self._model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype="float32").eval()
        except (OSError, ValueError, RuntimeError) as error:
            raise CannotAudit(f"{folder}: no model of transformers: {' '.join(str(error).split())[:200]}") from error
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError, RuntimeError, TypeError, AttributeError):
            self._tokenizer = None  # prompts must be ids then
        self._names: dict[int, int] | None = None

    def add(self, prompt: str | Sequence[int], answer: Answer, reported: Reported) -> None:
        """Compare one answer, up to ANSWERS of them."""
        if self._compared >= ANSWERS or not answer.tokens:
            return
        self._compared += 1
        context, emitted = self._ids(prompt), [self._id(each.token) for each in answer.tokens]
        for position, (law, each) in enumerate(
            zip(self._laws(context, emitted, reported), answer.tokens, strict=False)
        ):
            if emitted[position] is None:
                break
            ids = [self._id(int(name)) for name in each.ids]
            known = [i for i, token in enumerate(ids) if token is not None]
            if len(known) < len(ids) / 2:
                raise CannotAudit(
                    f"{self.folder}: the server's tokens are not this model's: is it the same vocabulary?"
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

    def comparison(self) -> Comparison:
        """What was seen; CannotAudit if nothing could be compared."""
        if not self._distances:
            raise CannotAudit(
                f"{self.folder}: no place could be compared: the server must name tokens by id (vLLM and llama.cpp do)"
            )
        return Comparison(len(self._distances), float(np.mean(self._distances)), float(np.max(self._distances)))


def _once(texts: Sequence[str]) -> dict[int, int]:
    """Numbers of the texts that one token alone has."""
    found: dict[int, int] = {}
    twice = set()
    for i, text in enumerate(texts):
        number = number_of(text)
        twice.update({number} & found.keys())
        found[number] = i
    return {number: i for number, i in found.items() if number not in twice}
