"""Completions by the target in contexts.jsonl: `python -m llm_demo.data.continue_prompts figures/data/contexts.jsonl`.

The `text` of every entry of origin "target" is sampled again from the full target distribution at the entry's temperature; other entries
are not changed. This is required only if prompts change, because the completions are committed.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import torch

from llm_demo.models.load import load_pair
from ot_draft.decoding.pair import prompt_text

SEED = 20251121
DRAWS = 4
SHORTEST = 32


def read_entries(file: Path) -> list[dict[str, Any]]:
    """Return one dictionary per line: kind, origin, source, licence, temperature (None unless sampled), messages, text."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def answers(prompts: list[str], temperature: float, target: Any, tokenizer: Any, length: int) -> list[str]:
    """Return completions of at most `length` tokens, sampled without truncation of the distribution.

    Of DRAWS completions of a prompt, the first with at least SHORTEST tokens is kept, or otherwise the longest. The contexts of a shorter
    completion would be similar, and suppressing its end token would change its distribution.
    """
    batch = tokenizer(prompts, add_special_tokens=False, return_tensors="pt", padding=True, padding_side="left")
    options = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
    output = target.generate(**batch, max_new_tokens=length, num_return_sequences=DRAWS, **options)
    draws = output[:, batch["input_ids"].shape[1] :].reshape(len(prompts), DRAWS, -1)
    kept = []
    for tokens in draws:
        lengths = (tokens != tokenizer.eos_token_id).sum(-1).tolist()
        best = next((i for i, number in enumerate(lengths) if number >= SHORTEST), lengths.index(max(lengths)))
        kept.append(tokenizer.decode(tokens[best], skip_special_tokens=True))
    return kept


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--length", default=112, help="Maximum number of tokens of a completion.")
def main(file: Path, length: int) -> None:
    """Write the completions into FILE."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    entries = read_entries(file)
    pair = load_pair(draft="lookup", backend="torch")
    asked = sorted((e for e in entries if e["origin"] == "target"), key=_batch)
    for (kind, temperature), group in groupby(asked, key=_batch):
        batch = list(group)
        prompts = [prompt_text(entry, pair.tokenizer) for entry in batch]
        for entry, text in zip(batch, answers(prompts, temperature, pair.target, pair.tokenizer, length), strict=True):
            entry["text"] = text
        click.echo(f"{kind} at temperature {temperature}: {len(batch)} answers")
    lines = [json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries]
    file.write_text("".join(lines), encoding="utf-8")


def _batch(entry: dict[str, Any]) -> tuple[str, float]:
    return entry["kind"], entry["temperature"]


if __name__ == "__main__":
    main()
