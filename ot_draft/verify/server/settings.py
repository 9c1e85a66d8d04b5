"""Sampling settings and prompts with which two servers are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .server import PROMPTS, Prompt

Fields = Mapping[str, Any]
FRESH_SEED = object()  # value of a field: another random seed for each request


@dataclass(frozen=True)
class SamplingSetting:
    """Request fields of one sampling setting.

    Attributes
    ----------
    fields : mapping, optional
        Fields for engines that `by_engine` does not name; None if these lack the setting.
    by_engine : mapping
        Fields by engine; None if the engine lacks the setting.
    min_length : int
        Smallest max_tokens of a request.
    deterministic : bool
        Whether nothing is sampled: if sides differ, rounding may be the reason.
    long_prompts : bool
        Whether each prompt has all other prompts before it.
    """

    fields: Fields | None = None
    by_engine: Mapping[str, Fields | None] = field(default_factory=dict)
    min_length: int = 1
    deterministic: bool = False
    long_prompts: bool = False

    def of(self, engine: str) -> Fields | None:
        """Return the fields for an engine; None if it lacks the setting."""
        return self.by_engine.get(engine, self.fields)


SETTINGS = {
    "plain": SamplingSetting({}),
    "temperature 0.6": SamplingSetting({"temperature": 0.6}),
    "temperature 0": SamplingSetting({"temperature": 0.0}, deterministic=True),
    "top-p 0.8": SamplingSetting({"top_p": 0.8}),
    "top-k 5": SamplingSetting({"top_k": 5}, {"openai": None}),
    "min-p 0.1": SamplingSetting({"min_p": 0.1}, {"openai": None}),
    "repetition penalty 1.3": SamplingSetting(
        {"repeat_penalty": 1.3},
        {"vllm": {"repetition_penalty": 1.3}, "sglang": {"repetition_penalty": 1.3}, "openai": None},
    ),
    "presence penalty 1": SamplingSetting({"presence_penalty": 1.0}),
    "frequency penalty 1": SamplingSetting({"frequency_penalty": 1.0}),
    "logit bias": SamplingSetting({"logit_bias": {str(token): 4.0 for token in range(5, 400, 7)}}),
    "at least 3 tokens": SamplingSetting(
        by_engine={"vllm": {"min_tokens": 3}, "sglang": {"min_tokens": 3}}, min_length=5
    ),
    "seeds": SamplingSetting({"seed": FRESH_SEED}),
    "two answers": SamplingSetting({"n": 2}),
    "long prompts": SamplingSetting({}, long_prompts=True),
    "cached prompts": SamplingSetting(by_engine={"llamacpp": {"cache_prompt": True}}),
    "stop at a comma": SamplingSetting({"stop": [","]}),
    "a grammar": SamplingSetting(
        by_engine={
            "vllm": {"structured_outputs": {"regex": "( [a-z]+)+"}},
            "sglang": {"regex": "( [a-z]+)+"},
            "llamacpp": {"grammar": 'root ::= (" " [a-z]+)+'},
        }
    ),
}


def prompts_for_two() -> list[Prompt]:
    """Return the prompts for a comparison of two servers.

    In the first ones, the next token is nearly certain and the second is not: if an engine never drafts the first token of a response, an
    error is largest in the second. The repetitive ones are for drafts from prompt lookup.
    """
    certain = ["Once upon a", "Ladies and", "Thank you very", "On the other", "as soon as", "The United States of"]
    certain += ["from time to", "Happy birthday to"]
    repeated = {  # texts, each three times, and the number of their characters after that
        "The cat sat on the red mat and the dog sat on the blue mat near the old door of the house. ": 30,
        "one apple, two pears, three plums, four figs, five limes, six nuts, seven dates, ": 45,
        "for i in range(10):\n    print(i, i * i, i * i * i)\n    total = total + i\n": 40,
    }
    return [*certain, *(3 * text + text[:length] for text, length in repeated.items()), *PROMPTS[:5]]
