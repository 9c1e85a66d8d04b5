"""Text written by the target, to distil from: `python -m llm_demo.distil.corpus --out FILE.npz --minutes 60` (`text.read_corpus` reads it).

Plain decoding of many texts at once, each batch at another temperature. What a file holds already is kept, and not written twice.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import click
import torch

from llm_demo.distil.text import read_corpus, sample, write_corpus
from llm_demo.models.load import load_pair
from ot_draft.decoding import CannotDecode
from ot_draft.decoding.load import DTYPES


@click.command()
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="An .npz.")
@click.option("--minutes", default=60.0, show_default=True, type=click.FloatRange(min=0, min_open=True))
@click.option("--rows", default=192, show_default=True, type=click.IntRange(1), help="Texts written together.")
@click.option("--length", default=192, show_default=True, type=click.IntRange(2), help="Most tokens of a text.")
@click.option("--dtype", default="float32", show_default=True, type=click.Choice(list(DTYPES)), help="Of the target.")
@click.option("--threads", default=1, show_default=True, help="Of torch, on the CPU.")
@click.option("--seed", default=0, show_default=True, help="Of the first batch; others have the numbers behind it.")
def main(out: Path, minutes: float, rows: int, length: int, dtype: str, threads: int, seed: int) -> None:
    """Have the target write texts into OUT, which may hold some already."""
    torch.set_num_threads(threads)
    try:
        texts = read_corpus(out) if out.exists() else []
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None
    target = replace(load_pair(dtype=dtype), draft=None)
    seen = {tuple(text.tokens) for text in texts}
    begin, written = time.perf_counter(), 0
    spent = 0.0
    while not spent or spent < 60 * minutes:
        for text in sample(target, rows, length, seed):
            if tuple(text.tokens) not in seen:
                seen.add(tuple(text.tokens))
                texts.append(text)
                written += len(text.tokens) - text.start
        seed += 1
        write_corpus(out, texts)
        spent = time.perf_counter() - begin
        click.echo(f"{spent:5.0f} s: {len(texts)} texts in all, {written / spent:.0f} new tokens a second")


if __name__ == "__main__":
    main()
