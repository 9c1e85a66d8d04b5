"""Which texts are continued: those of the command line, of a file, or a few that come with the demo."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...decoding import CannotDecode, Pair

# Written for this project: a story, an explanation, code. Three: the default comparison is to end within minutes on two cores.
DEFAULT_PROMPTS = (
    "Write a short story about a fox who finds a clock in the forest.",
    "Explain in a few sentences how bread rises when it is baked.",
    "Write a Python function that counts the words in a text file.",
)


def read_prompts(given: Sequence[str], file: Path | None) -> list[str]:
    """Prompts as text: those given and those of the file, one a line; else DEFAULT_PROMPTS."""
    if file is None:
        return list(given) or list(DEFAULT_PROMPTS)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CannotDecode(f"prompt file {str(file)!r} cannot be read: {getattr(error, 'strerror', error)}") from None
    prompts = [*given, *(line for line in lines if line.strip())]
    if not prompts:
        raise CannotDecode(f"prompt file {str(file)!r} holds no prompt: write one a line")
    return prompts


def encode_prompts(pair: Pair, prompts: Sequence[str], chat: bool | None) -> tuple[list[list[int]], bool]:
    """Token ids of every prompt, and whether they were put as a user's turn: where there is a chat template, unless told."""
    has_template = bool(getattr(pair.tokenizer, "chat_template", None))
    if chat and not has_template:
        raise CannotDecode("the target's tokenizer has no chat template: leave --chat away")
    as_turn = has_template if chat is None else chat
    return [pair.encode(prompt, as_turn) for prompt in prompts], as_turn
