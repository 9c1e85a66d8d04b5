"""What the target thinks along a corpus, kept on the disk: `python -m llm_demo.distil.thoughts --corpus FILE.npz --out FOLDER`.

The target's passes cost most of what distillation costs, and say the same every time: they are made once, and students are trained on what
was kept (`llm_demo.distil.states`), as soon as the first texts are read. For every token: the features that a `StateDraft` reads and the
last hidden state, from which the head's rows give the logits of any tokens, in 16 bits; for every token that the target wrote, the
logarithms of the sums that make laws of these logits, at temperatures 1 and .6. About 4.6 kB a token of 576 numbers a layer.

CORPUS: an .npz with tokens (N,), starts (T,), where each text begins, and first_written (T,), how many of its tokens are the prompt.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.lib.format import open_memmap
from torch import Tensor
from torch.nn.functional import rms_norm

from llm_demo.models.load import load_pair
from ot_draft.decoding import DTYPES

READS = (3, 15, 27)  # of 30 layers; and the last
TEMPERATURES = (1.0, 0.6)


@dataclass(frozen=True)
class Thoughts:
    """Arrays on the disk, by token and by text.

    tokens: (N,). starts: (T + 1,). written: (T,), the number of a text's tokens that are its prompt. states: (N, 4, width) float16, after
    the layers that are read (normed) and the last (as the head takes it). log_sums: (N, 2) float32, of the law of the token behind.
    done: (T,) bool. batches: (M, rows), numbers of texts about as long as each other, -1 for none, in the order in which they are read.
    """

    tokens: np.ndarray
    starts: np.ndarray
    written: np.ndarray
    states: np.ndarray
    log_sums: np.ndarray
    done: np.ndarray
    batches: np.ndarray

    @classmethod
    def open(cls, folder: Path, mode: Any = "r") -> Thoughts:
        """Those of a folder; mode: of numpy's memory maps."""
        return cls(**{name: np.load(folder / f"{name}.npy", mmap_mode=mode) for name in cls.__annotations__})

    @classmethod
    def begin(cls, folder: Path, corpus: Path, width: int, rows: int, seed: int) -> Thoughts:
        """New ones, of which nothing is known yet."""
        folder.mkdir(parents=True, exist_ok=True)
        with np.load(corpus) as arrays:
            tokens, starts, written = (arrays[name] for name in ("tokens", "starts", "first_written"))
        starts = np.append(starts, len(tokens)).astype(np.int64)
        for name, array in {
            "tokens": tokens,
            "starts": starts,
            "written": written,
            "batches": batches_of(np.diff(starts), rows, np.random.default_rng(seed)),
        }.items():
            np.save(folder / f"{name}.npy", array)
        new: dict[str, tuple[Any, tuple[int, ...]]] = {
            "states": (np.float16, (len(tokens), len(READS) + 1, width)),
            "log_sums": (np.float32, (len(tokens), len(TEMPERATURES))),
            "done": (bool, (len(written),)),
        }
        for name, (kind, shape) in new.items():
            open_memmap(folder / f"{name}.npy", mode="w+", dtype=kind, shape=shape).flush()
        return cls.open(folder, "r+")

    def place(self, text: int) -> slice:
        """Where a text stands."""
        return slice(int(self.starts[text]), int(self.starts[text + 1]))

    def padded(self, texts: Sequence[int]) -> Tensor:
        """Tokens (B, T), filled up on the right."""
        parts = [torch.from_numpy(self.tokens[self.place(text)].astype(np.int64)) for text in texts]
        return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)


def batches_of(lengths: np.ndarray, rows: int, generator: np.random.Generator) -> np.ndarray:
    """Texts about as long as each other together, (M, rows), -1 where there is none; the batches in random order."""
    order = np.argsort(lengths + generator.random(len(lengths)), kind="stable")
    filled = np.append(order, np.full(-len(order) % rows, -1))
    return generator.permutation(filled.reshape(-1, rows))


@torch.inference_mode()
def read(target: Any, thoughts: Thoughts, batch: Sequence[int]) -> int:
    """Read some texts together; how many tokens they have."""
    texts = [text for text in batch if text >= 0]
    hidden = target.model(thoughts.padded(texts), use_cache=False, output_hidden_states=True).hidden_states
    features = torch.stack([hidden[number] for number in READS], -2)
    features = rms_norm(features, features.shape[-1:], eps=target.config.rms_norm_eps)
    states = torch.cat((features, hidden[-1].unsqueeze(-2)), -2)
    for row, text in enumerate(texts):
        place = thoughts.place(text)
        length, first = place.stop - place.start, int(thoughts.written[text]) - 1
        thoughts.states[place] = states[row, :length].half().numpy()
        # With the state as it was kept, so that the laws made of it later have sum 1.
        last = states[row, first:length, -1].half().float()
        logits = target.lm_head(last)
        sums = torch.stack([(logits / temperature).logsumexp(-1) for temperature in TEMPERATURES], -1)
        thoughts.log_sums[place.start + first : place.stop] = sums.numpy()
        thoughts.done[text] = True
    return sum(int(thoughts.starts[text + 1] - thoughts.starts[text]) for text in texts)


@click.command()
@click.option("--corpus", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
@click.option(
    "--minutes", type=click.FloatRange(min=0, min_open=True), help="Stop after so many [default: at the end]."
)
@click.option("--rows", default=16, show_default=True, type=click.IntRange(1), help="Texts read together.")
@click.option("--dtype", default="float32", show_default=True, type=click.Choice(list(DTYPES)), help="Of the target.")
@click.option("--threads", default=1, show_default=True, help="Of torch, on the CPU.")
@click.option("--seed", default=0, show_default=True, help="Of the order.")
def main(corpus: Path, out: Path, minutes: float | None, rows: int, dtype: str, threads: int, seed: int) -> None:
    """Read CORPUS and keep what the target thinks in OUT; goes on where it was interrupted."""
    torch.set_num_threads(threads)
    target = load_pair(dtype=dtype, packed=False).target
    new = not (out / "done.npy").exists()
    thoughts = Thoughts.begin(out, corpus, target.config.hidden_size, rows, seed) if new else Thoughts.open(out, "r+")
    start, count, said = time.perf_counter(), 0, 0.0
    for batch in thoughts.batches:
        if all(thoughts.done[text] for text in batch if text >= 0):
            continue
        count += read(target, thoughts, batch)
        spent = time.perf_counter() - start
        if spent > said + 60:
            said = spent
            click.echo(f"{spent:5.0f} s: {int(thoughts.done.sum())} texts, {count / spent:.0f} tokens a second")
        if minutes is not None and spent > 60 * minutes:
            break


if __name__ == "__main__":
    main()
