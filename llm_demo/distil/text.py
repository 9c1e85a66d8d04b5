"""Text for distillation, written by the target itself: answers to prompts made of topics and forms, whole conversations, and what follows
on pieces of source files.

None of the prompts is one of `prompts.jsonl`, on which the draft is measured, or a piece of a file of which `contexts.jsonl` has one.
"""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ot_draft.decoding import CannotDecode, DecodeOptions, Pair, SamplingParams, decode

TEMPERATURES = (0.6, 0.8, 1.0, 1.2)
OPEN = 0.4  # share of the texts in which the target writes the question, too
PIECES = 0.2  # share of those that go on where a piece of a file ends
SHORTEST, LONGEST = 8, 48  # tokens of a piece
# Files of Python's standard library of which texts of figures/data/contexts.jsonl are, on which drafts are measured, too.
MEASURED_ON = {
    f"{name}.py" for name in ("calendar", "colorsys", "contextlib", "fractions", "heapq", "queue", "random", "statistics", "textwrap")
}  # fmt: skip


def _listed(text: str) -> list[str]:
    return [part.strip() for part in " ".join(text.split()).split("|")]


TOPICS = _listed("""
rain in the desert|a broken bicycle|the moon landing|whales|a family dinner|money and interest|bread and cheese|trains|
old photographs|learning to swim|the human heart|a lost key|volcanoes|school uniforms|a chess game|solar panels|the Roman Empire|
honey|a job interview|the stars|ants|sleep|paper|a small shop|electricity|painting a room|football|rivers and floods|a new
neighbour|medicine|clocks|the ocean floor|friendship|a garden in spring|computers|fear of heights|dance|wool|the alphabet|
airports|a village festival|cooking rice|glass|dinosaurs|time zones|a letter to a teacher|recycling|owls|cities at night|
gravity|a birthday|statistics|the post office|tea|robots|mountains|a broken promise|wind|maps|museums|dreams|mathematics|
a stack of records|sorting numbers|a text file with names|prime numbers|a shopping cart|dates and calendars|matrices|a web page|
user input|a temperature sensor|strings|a linked list|a dictionary of words|random numbers""")
FORMS = _listed("""
Write a short story about {}.|Explain {} to a ten-year-old.|List seven facts about {}.|Write a poem about {}.|
What should everyone know about {}?|Write a dialogue between two people about {}.|Give me step by step instructions that have to
do with {}.|Write a Python function that has to do with {}.|Write an email about {}.|What are common mistakes with {}?|
Describe {} in three paragraphs.|Write a quiz of five questions on {} with answers.|I have a question about {}. Can you help me?|
Summarise the history of {}.|Make a table about {} in Markdown.|Write a JavaScript program about {}.|Compare {} with something
similar.|Write a product review that mentions {}.|What is the best way to begin with {}?|Write a news report about {}.|
Write an SQL query for a table about {}.|Give me ten ideas for a project on {}.|Tell me a joke about {}.|Write a diary entry about {}.
""")


@dataclass(frozen=True)
class Text:
    """Token ids; those from `start` on were sampled from the target."""

    tokens: list[int]
    start: int


def questions(seed: int, count: int) -> list[str]:
    """Different prompts while they last; none of them is held out."""
    generator = np.random.default_rng(seed)
    numbers = generator.choice(len(TOPICS) * len(FORMS), count, replace=count > len(TOPICS) * len(FORMS))
    return [FORMS[number % len(FORMS)].format(TOPICS[number // len(FORMS)]) for number in numbers]


def beginnings(pair: Pair, seed: int, count: int) -> list[list[int]]:
    """Prompts as token ids: questions in the chat template; in a share OPEN the template up to the user's turn; in a share PIECES no chat.

    Without a chat template questions alone.
    """
    tokenizer: Any = pair.tokenizer
    if not getattr(tokenizer, "chat_template", None):
        return [pair.encode(question) for question in questions(seed, count)]
    mark = "WHAT THE USER SAYS"
    opened = tokenizer.apply_chat_template([{"role": "user", "content": mark}], tokenize=False).partition(mark)[0]
    generator = np.random.default_rng([seed, 1])
    kinds = generator.choice(["open", "piece", "question"], count, p=[OPEN, PIECES, 1 - OPEN - PIECES])
    bare = tokenizer(opened, add_special_tokens=False).input_ids
    return [
        bare
        if kind == "open" and bare
        else piece(tokenizer, generator)
        if kind == "piece"
        else pair.encode(question, chat=True)
        for kind, question in zip(kinds, questions(seed, count), strict=True)
    ]


def piece(tokenizer: Any, generator: np.random.Generator) -> list[int]:
    """SHORTEST to LONGEST tokens of a file of Python's standard library, from the beginning of a line on: code, and prose in comments."""
    while True:
        lines = _lines(int(generator.integers(len(_files()))))
        begin = int(generator.integers(len(lines)))
        text = "".join(lines[begin : begin + LONGEST])
        found: list[int] = tokenizer(text, add_special_tokens=False).input_ids[
            : generator.integers(SHORTEST, LONGEST + 1)
        ]
        if len(found) >= SHORTEST:
            return found


@lru_cache
def _files() -> list[Path]:
    files = Path(sysconfig.get_path("stdlib")).glob("*.py")
    return sorted(file for file in files if file.stat().st_size > 2000 and file.name not in MEASURED_ON)


@lru_cache(None)
def _lines(number: int) -> list[str]:
    return _files()[number].read_text(encoding="utf-8", errors="ignore").splitlines(keepends=True)


def sample(pair: Pair, count: int, length: int, seed: int) -> list[Text]:
    """So many texts of at most `length` new tokens, one batch, at one of TEMPERATURES, which take turns with the seed.

    No token stops a text, so that a conversation that the target opens goes on over the end of the user's turn.
    """
    prompts = beginnings(pair, seed, count)
    options = DecodeOptions(
        SamplingParams(TEMPERATURES[seed % len(TEMPERATURES)]), max_tokens=length, seed=seed, stop=()
    )
    written = decode(pair, prompts, options=options).tokens
    return [Text([*prompt, *text], len(prompt)) for prompt, text in zip(prompts, written, strict=True)]


def read_corpus(file: Path) -> list[Text]:
    """The texts of an .npz: tokens (N,), starts (T,), where each text begins, first_written (T,), how many of its tokens are the prompt.

    CannotDecode where one of these arrays is missing.
    """
    with np.load(file) as arrays:
        missing = {"tokens", "starts", "first_written"} - set(arrays)
        if missing:
            raise CannotDecode(f"{file} has no array {min(missing)!r}: a corpus holds tokens, starts and first_written")
        tokens, starts, written = arrays["tokens"], arrays["starts"], arrays["first_written"]
    parts = np.split(tokens.astype(np.int64), starts[1:])
    return [Text(part.tolist(), int(first)) for part, first in zip(parts, written, strict=True)]


def write_corpus(file: Path, texts: list[Text]) -> None:
    """Texts as `read_corpus` reads them; the file is there as a whole or as it was."""
    tokens = [np.array(text.tokens, np.uint32) for text in texts]
    starts = np.cumsum([0, *map(len, tokens)])[:-1]
    part = file.with_name(f"{file.stem}.part.npz")
    np.savez_compressed(
        part, tokens=np.concatenate(tokens), starts=starts, first_written=np.array([text.start for text in texts])
    )
    part.replace(file)


def frequent_tokens(texts: list[Text], size: int, n: int) -> list[int]:
    """The tokens that occur most, increasing: the subset that a draft scores. Ties and unseen ones: lower ids first."""
    counts = np.zeros(n, dtype=np.int64)
    for text in texts:
        np.add.at(counts, text.tokens[text.start :], 1)
    return sorted(np.argsort(-counts, kind="stable")[:size].tolist())
