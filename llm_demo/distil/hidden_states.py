"""Hidden states of the target on a corpus, stored on disk: `python -m llm_demo.distil.hidden_states --corpus FILE.npz --out FOLDER`.

The target's forward passes are the largest cost of distillation. They are computed once, and drafts are trained on the stored states
(`llm_demo.distil.states`), which can start after the first texts. Stored for every token are the features that a `StateDraft` reads, and
the last hidden state, from which the head computes logits, in 16 bits; and for every generated token the logarithms of the normalising sums
of the softmax at temperatures 1 and 0.6. With a hidden size of 576 this is about 4.6 kB per token.

CORPUS: a file of `llm_demo.distil.text.write_corpus`.
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
MANY, FEW = 1024, 8  # numbers of rows of the head's input and of its product, whose logits then fit into a core's cache
ROWS_ON_A_GPU = 8192  # number of rows of logits, 1.6 GB with 49,152 tokens


@dataclass(frozen=True)
class HiddenStates:
    """Arrays on disk, by token and by text.

    reads: (r,), layers of the target after which states are stored, in addition to the last. tokens: (N,). starts: (T + 1,). written:
    (T,), number of prompt tokens of a text. states: (N, r + 1, width) float16, after the layers of `reads` (normed) and the last (as input
    of the head). log_sums: (N, 2) float32, of the distribution of the next token. done: (T,) bool. batches: (M, rows), indices of texts of
    similar length, -1 for none, in the order in which they are read.
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
        """Return the arrays in a folder; mode: of numpy's memory maps."""
        return cls(**{name: np.load(folder / f"{name}.npy", mmap_mode=mode) for name in cls.__annotations__})

    @classmethod
    def begin(cls, folder: Path, texts: Sequence[Text], target: Any, rows: int, seed: int) -> HiddenStates:
        """Create the arrays in a folder, without states."""
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
        """Texts of the corpus."""
        return [Text(self.tokens[self.place(text)].tolist(), int(first)) for text, first in enumerate(self.written)]

    def place(self, text: int) -> slice:
        """Return the range of a text's tokens."""
        return slice(int(self.starts[text]), int(self.starts[text + 1]))

    def padded(self, texts: Sequence[int]) -> Tensor:
        """Return tokens (B, T), padded on the right."""
        parts = [torch.from_numpy(np.array(self.tokens[self.place(text)])) for text in texts]
        return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)

    def arrays(self, texts: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """Return tokens (B, T), states (B, T, r + 1, width) and logarithms of sums (B, T, 2), padded on the right; floats are float32."""
        ranges = [self.place(text) for text in texts]

        def filled_up(array: np.ndarray) -> Tensor:
            parts = [torch.from_numpy(array[each].astype(np.float32)) for each in ranges]
            return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)

        return self.padded(list(texts)), filled_up(self.states), filled_up(self.log_sums)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of every text, (T,)."""
        return np.diff(self.starts)


@dataclass(frozen=True)
class HeldStates:
    """Hidden states in the memory of a device, for texts padded on the right: 4.6 kB per token with a hidden size of 576.

    tokens: (T, L). states: (T, L, r + 1, width) float16. log_sums: (T, L, 2) float32. All others: as in `HiddenStates`.
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
        """Compute the hidden states of texts, by forward passes of the target over `rows` texts, in its data type."""
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
        """Return the memory in bytes of the states of `texts` texts, padded to `longest` tokens."""
        return 2 * texts * longest * (len(some_of(target.config.num_hidden_layers)) + 1) * target.config.hidden_size

    def arrays(self, texts: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """Return the arrays as `HiddenStates.arrays` does."""
        rows = sent(torch.from_numpy(np.array(texts)), self.tokens.device)
        longest = int(self.lengths[texts].max())
        return self.tokens[rows, :longest], self.states[rows, :longest].float(), self.log_sums[rows, :longest]


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a CPU tensor to a device without synchronisation, through pinned memory."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def counted_places(hidden_states: HiddenStates | HeldStates, texts: np.ndarray) -> Tensor:
    """Return whether the token after a position was generated by the target, bool (B, T): from the prompt's last token on.

    The result is on the CPU, so that there is no synchronisation with a device.
    """
    lengths, written = (
        torch.from_numpy(each[texts])[:, None] for each in (hidden_states.lengths, hidden_states.written)
    )
    position = torch.arange(int(lengths.max()))
    return (position >= written - 1) & (position < lengths)


def batches_of(lengths: np.ndarray, rows: int, generator: np.random.Generator) -> np.ndarray:
    """Return batches of texts of similar length, (M, rows), -1 for none, in random order."""
    order = np.argsort(lengths + generator.random(len(lengths)), kind="stable")
    filled = np.append(order, np.full(-len(order) % rows, -1))
    return generator.permutation(filled.reshape(-1, rows))


@torch.inference_mode()
def read(target: Any, hidden_states: HiddenStates, batch: Sequence[int]) -> int:
    """Compute and store the states of a batch of texts, and return its number of tokens.

    Under autocast the sums are those of rounded logits, with errors of a few per cent.
    """
    texts = [text for text in batch if text >= 0]
    states = thoughts(target, hidden_states.padded(texts), hidden_states.reads.tolist())
    ranges = [hidden_states.place(text) for text in texts]
    written = [
        slice(int(hidden_states.written[text]) - 1, b.stop - b.start) for text, b in zip(texts, ranges, strict=True)
    ]
    # Computed from the stored float16 states, so that distributions computed from them later have sum 1.
    rows = torch.cat([states[row, part, -1] for row, part in enumerate(written)]).half().float()
    sums = torch.cat([log_sums(few) for many in rows.split(MANY) for few in target.lm_head(many).split(FEW)]).numpy()
    ends = np.cumsum([part.stop - part.start for part in written])
    for row, (text, each, part, end) in enumerate(zip(texts, ranges, written, ends, strict=True)):
        hidden_states.states[each] = states[row, : each.stop - each.start].half().numpy()
        hidden_states.log_sums[each.start + part.start : each.stop] = sums[end - (part.stop - part.start) : end]
        hidden_states.done[text] = True
    return sum(int(hidden_states.starts[text + 1] - hidden_states.starts[text]) for text in texts)


def thoughts(target: Any, tokens: Tensor, reads: Sequence[int]) -> Tensor:
    """Return states (B, T, r + 1, width) of the target at tokens (B, T): after the layers of `reads`, normed, and the last."""
    hidden = target.model(tokens, use_cache=False, output_hidden_states=True).hidden_states
    normed = features_of(hidden, reads, target.config.rms_norm_eps).unflatten(-1, (len(reads) + 1, -1))
    return torch.cat((normed[:, :, :-1], hidden[-1].unsqueeze(-2)), -2)


def log_sums(logits: Tensor) -> Tensor:
    """Return logarithms (N, 2) of the normalising sums of the softmax of logits (N, n) at both temperatures."""
    return torch.stack([(logits.float() / temperature).logsumexp(-1) for temperature in TEMPERATURES], -1)


@click.command()
@click.option("--corpus", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder of the hidden states."
)
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Time limit in minutes [default: none].")
@click.option("--rows", default=16, show_default=True, type=click.IntRange(1), help="Number of texts per batch.")
@click.option(
    "--dtype",
    default="float32",
    show_default=True,
    type=click.Choice(list(PRODUCTS)),
    help="Data type of matrix products; bfloat16 is several times as fast on processors that support it.",
)
@click.option("--threads", default=1, show_default=True, help="Number of torch threads on the CPU.")
@click.option("--seed", default=0, show_default=True, help="Seed of the order of batches.")
def main(corpus: Path, out: Path, minutes: float | None, rows: int, dtype: str, threads: int, seed: int) -> None:
    """Store the target's hidden states of CORPUS in OUT. A stopped run resumes with the same command."""
    torch.set_num_threads(threads)
    target = load_pair(backend="torch").target
    try:
        texts = read_corpus(corpus)
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None
    new = not (out / "done.npy").exists()
    hidden_states = HiddenStates.begin(out, texts, target, rows, seed) if new else HiddenStates.open(out, "r+")
    if not new and hidden_states.texts != texts:
        raise click.UsageError(
            f"--out must be a folder of the same corpus, got {out}, which has hidden states of another corpus. Use another folder."
        )
    if not np.array_equal(hidden_states.batches, batches_of(hidden_states.lengths, rows, np.random.default_rng(seed))):
        raise click.UsageError(
            f"--rows and --seed must be those of the first run with --out {out}. Use the same values, or another folder."
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
            click.echo(f"{spent:5.0f} s: {int(hidden_states.done.sum())} texts, {count / spent:.0f} tokens per second")
        if minutes is not None and spent > 60 * minutes:
            break


if __name__ == "__main__":
    main()
