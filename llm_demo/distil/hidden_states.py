"""The target's hidden states along a corpus, kept on the disk: `python -m llm_demo.distil.hidden_states --corpus FILE.npz --out FOLDER`.

The target's passes cost most of what distillation costs, and say the same every time: they are made once, and students are trained on what
was kept (`llm_demo.distil.states`), as soon as the first texts are read. For every token: the features that a `StateDraft` reads and the
last hidden state, from which the head's rows give the logits of any tokens, in 16 bits; for every token that the target wrote, the
logarithms of the sums that make laws of these logits, at temperatures 1 and .6. About 4.6 kB a token of 576 numbers a layer.

CORPUS: as `llm_demo.distil.text.read_corpus` takes it.
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

from llm_demo.distil.text import Text, read_corpus
from llm_demo.distil.train import some_of
from llm_demo.models.load import load_pair
from ot_draft.decoding import CannotDecode
from ot_draft.decoding.draft_models import features_of

TEMPERATURES = (1.0, 0.6)
PRODUCTS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
MANY, FEW = 1024, 8  # rows of the head's product, and of its logits, which then stay in a core's cache
ROWS_ON_A_GPU = 8192  # of logits, 1.6 GB of 49,152 tokens


@dataclass(frozen=True)
class HiddenStates:
    """Arrays on the disk, by token and by text.

    reads: (r,), after how many layers of the target states are kept, besides the last. tokens: (N,). starts: (T + 1,). written: (T,), the
    number of a text's tokens that are its prompt. states: (N, r + 1, width) float16, after the layers that are read (normed) and the last
    (as the head takes it). log_sums: (N, 2) float32, of the law of the token behind. done: (T,) bool. batches: (M, rows), numbers of texts
    about as long as each other, -1 for none, in the order in which they are read.
    """

    reads: np.ndarray
    tokens: np.ndarray
    starts: np.ndarray
    written: np.ndarray
    states: np.ndarray
    log_sums: np.ndarray
    done: np.ndarray
    batches: np.ndarray

    @classmethod
    def open(cls, folder: Path, mode: Any = "r") -> HiddenStates:
        """Those of a folder; mode: of numpy's memory maps."""
        return cls(**{name: np.load(folder / f"{name}.npy", mmap_mode=mode) for name in cls.__annotations__})

    @classmethod
    def begin(cls, folder: Path, texts: Sequence[Text], target: Any, rows: int, seed: int) -> HiddenStates:
        """New ones, of which nothing is known yet."""
        folder.mkdir(parents=True, exist_ok=True)
        lengths, config = np.array([len(text.tokens) for text in texts]), target.config
        reads, count = some_of(config.num_hidden_layers), int(lengths.sum())
        given = {
            "reads": np.array(reads),
            "tokens": np.concatenate([text.tokens for text in texts]),
            "starts": np.append(0, lengths.cumsum()),
            "written": np.array([text.start for text in texts]),
            "batches": batches_of(lengths, rows, np.random.default_rng(seed)),
        }
        for name, array in given.items():
            np.save(folder / f"{name}.npy", array)
        new: dict[str, tuple[Any, tuple[int, ...]]] = {
            "states": (np.float16, (count, len(reads) + 1, config.hidden_size)),
            "log_sums": (np.float32, (count, len(TEMPERATURES))),
            "done": (bool, (len(texts),)),
        }
        for name, (kind, shape) in new.items():
            open_memmap(folder / f"{name}.npy", mode="w+", dtype=kind, shape=shape).flush()
        return cls.open(folder, "r+")

    @property
    def texts(self) -> list[Text]:
        """The corpus."""
        return [Text(self.tokens[self.place(text)].tolist(), int(first)) for text, first in enumerate(self.written)]

    def place(self, text: int) -> slice:
        """Where a text stands."""
        return slice(int(self.starts[text]), int(self.starts[text + 1]))

    def padded(self, texts: Sequence[int]) -> Tensor:
        """Tokens (B, T), filled up on the right."""
        parts = [torch.from_numpy(np.array(self.tokens[self.place(text)])) for text in texts]
        return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)

    def arrays(self, texts: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens (B, T), states (B, T, r + 1, width) and logarithms of sums (B, T, 2) in float32, filled up on the right."""
        places = [self.place(text) for text in texts]

        def filled_up(array: np.ndarray) -> Tensor:
            parts = [torch.from_numpy(array[place].astype(np.float32)) for place in places]
            return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)

        return self.padded(list(texts)), filled_up(self.states), filled_up(self.log_sums)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of every text, (T,)."""
        return np.diff(self.starts)


@dataclass(frozen=True)
class HeldStates:
    """The same in the memory of a device, of texts filled up on the right: 4.6 kB a token of 576 numbers a layer.

    tokens: (T, L). states: (T, L, r + 1, width) float16. log_sums: (T, L, 2) float32. The others as of `HiddenStates`.
    """

    reads: np.ndarray
    tokens: Tensor
    lengths: np.ndarray
    written: np.ndarray
    states: Tensor
    log_sums: Tensor
    done: np.ndarray
    batches: np.ndarray

    @classmethod
    @torch.no_grad()
    def of(cls, target: Any, texts: Sequence[Text], rows: int, seed: int = 0) -> HeldStates:
        """What the target thinks of texts: passes over as many as a batch of the training has, in its type of numbers."""
        reads, lengths = some_of(target.config.num_hidden_layers), np.array([len(text.tokens) for text in texts])
        tokens = torch.zeros(len(texts), int(lengths.max()), dtype=torch.int64)
        for row, text in enumerate(texts):
            tokens[row, : len(text.tokens)] = torch.tensor(text.tokens)
        tokens = tokens.to(target.device)
        states = tokens.new_empty((*tokens.shape, len(reads) + 1, target.config.hidden_size), dtype=torch.float16)
        sums = tokens.new_empty((*tokens.shape, len(TEMPERATURES)), dtype=torch.float32)
        for start in range(0, len(texts), rows):
            part = slice(start, start + rows)
            states[part] = thoughts(target, tokens[part], reads)
            last = states[part, :, -1].flatten(0, 1).to(target.dtype)
            few_rows = MANY if target.device.type == "cpu" else ROWS_ON_A_GPU
            found = [log_sums(target.lm_head(few)) for few in last.split(few_rows)]
            sums[part] = torch.cat(found).unflatten(0, states[part].shape[:2])
        batches = batches_of(lengths, rows, np.random.default_rng(seed))
        written = np.array([text.start for text in texts])
        return cls(np.array(reads), tokens, lengths, written, states, sums, np.ones(len(texts), bool), batches)

    @staticmethod
    def bytes_of(target: Any, texts: int, longest: int) -> int:
        """Memory of the states along so many texts, filled up to the longest."""
        return 2 * texts * longest * (len(some_of(target.config.num_hidden_layers)) + 1) * target.config.hidden_size

    def arrays(self, texts: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """As of `HiddenStates`."""
        rows = sent(torch.from_numpy(np.array(texts)), self.tokens.device)
        longest = int(self.lengths[texts].max())
        return self.tokens[rows, :longest], self.states[rows, :longest].float(), self.log_sums[rows, :longest]


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the CPU on a device, which is not waited for: a copy of memory that is not pinned would wait for all that it is to do."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def counted_places(hidden_states: HiddenStates | HeldStates, texts: np.ndarray) -> Tensor:
    """Whether the target wrote what follows a place, bool (B, T): from the prompt's last token on.

    On the CPU, so that no device is waited for.
    """
    lengths, written = (
        torch.from_numpy(each[texts])[:, None] for each in (hidden_states.lengths, hidden_states.written)
    )
    place = torch.arange(int(lengths.max()))
    return (place >= written - 1) & (place < lengths)


def batches_of(lengths: np.ndarray, rows: int, generator: np.random.Generator) -> np.ndarray:
    """Texts about as long as each other together, (M, rows), -1 where there is none; the batches in random order."""
    order = np.argsort(lengths + generator.random(len(lengths)), kind="stable")
    filled = np.append(order, np.full(-len(order) % rows, -1))
    return generator.permutation(filled.reshape(-1, rows))


@torch.inference_mode()
def read(target: Any, hidden_states: HiddenStates, batch: Sequence[int]) -> int:
    """Read some texts together; how many tokens they have. Under autocast the sums are those of rounded logits, off by some per cent."""
    texts = [text for text in batch if text >= 0]
    states = thoughts(target, hidden_states.padded(texts), hidden_states.reads.tolist())
    places = [hidden_states.place(text) for text in texts]
    written = [
        slice(int(hidden_states.written[text]) - 1, b.stop - b.start) for text, b in zip(texts, places, strict=True)
    ]
    # With the states as they are kept, so that the laws made of them later have sum 1.
    rows = torch.cat([states[row, part, -1] for row, part in enumerate(written)]).half().float()
    sums = torch.cat([log_sums(few) for many in rows.split(MANY) for few in target.lm_head(many).split(FEW)]).numpy()
    ends = np.cumsum([part.stop - part.start for part in written])
    for row, (text, place, part, end) in enumerate(zip(texts, places, written, ends, strict=True)):
        hidden_states.states[place] = states[row, : place.stop - place.start].half().numpy()
        hidden_states.log_sums[place.start + part.start : place.stop] = sums[end - (part.stop - part.start) : end]
        hidden_states.done[text] = True
    return sum(int(hidden_states.starts[text + 1] - hidden_states.starts[text]) for text in texts)


def thoughts(target: Any, tokens: Tensor, reads: Sequence[int]) -> Tensor:
    """States (B, T, r + 1, width) of the target at tokens (B, T): after the layers that are read, normed, and the last."""
    hidden = target.model(tokens, use_cache=False, output_hidden_states=True).hidden_states
    normed = features_of(hidden, reads, target.config.rms_norm_eps).unflatten(-1, (len(reads) + 1, -1))
    return torch.cat((normed[:, :, :-1], hidden[-1].unsqueeze(-2)), -2)


def log_sums(logits: Tensor) -> Tensor:
    """Logarithms (N, 2) of the sums that make laws of logits (N, n) at both temperatures."""
    return torch.stack([(logits.float() / temperature).logsumexp(-1) for temperature in TEMPERATURES], -1)


@click.command()
@click.option("--corpus", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
@click.option(
    "--minutes", type=click.FloatRange(min=0, min_open=True), help="Stop after so many [default: at the end]."
)
@click.option("--rows", default=16, show_default=True, type=click.IntRange(1), help="Texts read together.")
@click.option(
    "--dtype",
    default="float32",
    show_default=True,
    type=click.Choice(list(PRODUCTS)),
    help="Of the target's products: 16 bits are several times as fast where the processor has them.",
)
@click.option("--threads", default=1, show_default=True, help="Of torch, on the CPU.")
@click.option("--seed", default=0, show_default=True, help="Of the order.")
def main(corpus: Path, out: Path, minutes: float | None, rows: int, dtype: str, threads: int, seed: int) -> None:
    """Read CORPUS and keep the target's hidden states in OUT; goes on where it was interrupted."""
    torch.set_num_threads(threads)
    target = load_pair(backend="torch").target
    try:
        texts = read_corpus(corpus)
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None
    new = not (out / "done.npy").exists()
    hidden_states = HiddenStates.begin(out, texts, target, rows, seed) if new else HiddenStates.open(out, "r+")
    if not new and hidden_states.texts != texts:
        raise click.UsageError(f"{out} holds hidden states of another corpus than {corpus}: name another folder")
    if not np.array_equal(hidden_states.batches, batches_of(hidden_states.lengths, rows, np.random.default_rng(seed))):
        raise click.UsageError(
            f"{out} was begun with other --rows or another --seed: give them again, or name another folder"
        )
    start, count, said = time.perf_counter(), 0, 0.0
    for batch in hidden_states.batches:
        if all(hidden_states.done[text] for text in batch if text >= 0):
            continue
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype != "float32"):
            count += read(target, hidden_states, batch)
        spent = time.perf_counter() - start
        if spent > said + 60:
            said = spent
            click.echo(f"{spent:5.0f} s: {int(hidden_states.done.sum())} texts, {count / spent:.0f} tokens a second")
        if minutes is not None and spent > 60 * minutes:
            break


if __name__ == "__main__":
    main()
