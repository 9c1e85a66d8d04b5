"""What llama-cpp-python's low-level functions do, in Python: cells, their sequences, and logits of what a token sees.

A stand-in for the package, with llama.cpp's refusals (llama-batch.cpp) and its way to choose cells (llama-kv-cache.cpp). Logits are drawn
by a number that is worked out of the tokens and positions of the cells that a token sees, cell by cell: one cell more, less or elsewhere
in the order gives other logits.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

LETTERS = "abcdefghijklmnop"
MIXES = 997


@dataclass
class Cell:
    """One that is in use."""

    position: int
    token: int
    sequences: set[int]


@dataclass
class ToyModel:
    """letters: its tokens. apart: how far its logits are from those of all such models."""

    letters: str
    apart: float
    kind: str = "toy 1M Q8_0"
    table: np.ndarray[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        common, own = (np.random.default_rng(seed).normal(size=(MIXES, len(LETTERS))) for seed in (1, 2))
        table = 1.5 * (common + self.apart * own)[:, : len(self.letters)]
        self.table = np.ascontiguousarray(table.astype(np.float32))


@dataclass
class ToyContext:
    """cells: None where free. head: where the next token looks for one."""

    model: ToyModel
    cells: list[Cell | None]
    sequences: int
    head: int = 0
    logits: dict[int, Any] = field(default_factory=dict)

    def positions(self, sequence: int) -> list[int]:
        """Of its cells."""
        return [cell.position for cell in self.cells if cell is not None and sequence in cell.sequences]

    def free(self, what: Callable[[Cell], None]) -> None:
        """Change all cells; those that are in no sequence any more are free, and the first of them is looked at first."""
        for place, cell in enumerate(self.cells):
            if cell is None:
                continue
            what(cell)
            if not cell.sequences:
                self.cells[place] = None
                self.head = min(self.head, place)

    def found(self, count: int) -> list[int]:
        """Free cells from the head on, then from the first one."""
        if self.head > sum(cell is not None for cell in self.cells) + 2 * count:
            self.head = 0
        order = [*range(self.head, len(self.cells)), *range(self.head)]
        return [place for place in order if self.cells[place] is None][:count]

    def refused(self, rows: Sequence[tuple[int, int, list[int]]]) -> bool:
        """Whether a batch of (token, position, sequences) is not read."""
        by_sequence: dict[int, list[int]] = {}
        for _, position, sequences in rows:
            for sequence in sequences:
                by_sequence.setdefault(sequence, []).append(position)
        for sequence, positions in by_sequence.items():
            known = self.positions(sequence)
            gaps = max(positions) - min(positions) + 1 > len(set(positions))
            if gaps or positions != sorted(positions) or (known and min(positions) != max(known) + 1):
                return True
        ends = {sequence: self.positions(sequence) for sequence in by_sequence}
        return any(
            (min(ends[one], default=-1), max(ends[one], default=-1))
            != (min(ends[other], default=-1), max(ends[other], default=-1))
            for _, _, (other, *others) in rows
            for one in others
        )


class ToyLlamaCpp:
    """As the module `llama_cpp`. files: models by the name of a file."""

    llama_token = ctypes.c_int32

    def __init__(self, files: dict[str, ToyModel]) -> None:
        self.files, self.passes = files, list[int]()

    def llama_backend_init(self) -> None: ...

    def llama_model_default_params(self) -> Any:
        return SimpleNamespace()

    def llama_model_load_from_file(self, file: bytes, given: Any) -> Any:
        return self.files.get(file.decode().rpartition("/")[2])

    def llama_model_free(self, model: ToyModel) -> None: ...

    def llama_model_get_vocab(self, model: ToyModel) -> str:
        return model.letters

    def llama_model_n_ctx_train(self, model: ToyModel) -> int:
        return 200

    def llama_model_size(self, model: ToyModel) -> int:
        return model.table.nbytes

    def llama_model_desc(self, model: ToyModel, name: Any, room: int) -> None:
        name.value = model.kind.encode()

    def llama_model_has_encoder(self, model: ToyModel) -> bool:
        return False

    def llama_model_is_recurrent(self, model: ToyModel) -> bool:
        return "recurrent" in model.kind

    def llama_model_chat_template(self, model: ToyModel, name: None) -> bytes:
        return b"{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"

    def llama_supports_gpu_offload(self) -> bool:
        return False

    def llama_vocab_n_tokens(self, letters: str) -> int:
        return len(letters)

    def llama_vocab_get_text(self, letters: str, token: int) -> bytes:
        return letters[token].encode()

    def llama_vocab_is_eog(self, letters: str, token: int) -> bool:
        return token == 0

    def llama_vocab_bos(self, letters: str) -> int:
        return 1

    def llama_vocab_eos(self, letters: str) -> int:
        return 0

    def llama_tokenize(
        self, letters: str, text: bytes, length: int, ids: Any, room: int, special: bool, parse: bool
    ) -> int:
        found = [1] * special + [letters.index(letter) for letter in text.decode()]
        if len(found) > room:
            return -len(found)
        ids[: len(found)] = found
        return len(found)

    def llama_detokenize(
        self, letters: str, ids: Any, count: int, text: Any, room: int, remove: bool, special: bool
    ) -> int:
        found = "".join(letters[token] for token in ids if special or token > 1).encode()
        if len(found) > room:
            return -len(found)
        text[: len(found)] = found
        return len(found)

    def llama_context_default_params(self) -> Any:
        return SimpleNamespace(n_outputs_max=0)

    def llama_init_from_model(self, model: ToyModel, given: Any) -> ToyContext | None:
        return ToyContext(model, [None] * given.n_ctx, given.n_seq_max) if given.n_ctx < 5000 else None

    def llama_free(self, context: ToyContext) -> None: ...

    def llama_set_n_threads(self, context: ToyContext, one: int, other: int) -> None: ...

    def llama_get_memory(self, context: ToyContext) -> ToyContext:
        return context

    def llama_batch_init(self, tokens: int, embedding: int, sequences: int) -> Any:
        rows = {name: [0] * tokens for name in ("token", "pos", "n_seq_id", "logits")}
        return SimpleNamespace(n_tokens=0, seq_id=[[0] * sequences for _ in range(tokens)], **rows)

    def llama_batch_free(self, batch: Any) -> None: ...

    def llama_decode(self, context: ToyContext, batch: Any) -> int:
        rows = [
            (batch.token[place], batch.pos[place], batch.seq_id[place][: batch.n_seq_id[place]])
            for place in range(batch.n_tokens)
        ]
        if context.refused(rows):
            return -1
        places = context.found(len(rows))
        if len(places) < len(rows):
            return 1
        for place, (token, position, sequences) in zip(places, rows, strict=True):
            context.cells[place] = Cell(position, token, set(sequences))
        context.head = places[-1] + 1
        self.passes.append(len(rows))
        context.logits = {
            place: context.model.table[mixed(context, position, sequences[0])]
            for place, (_, position, sequences) in enumerate(rows)
            if batch.logits[place]
        }
        return 0

    def llama_get_logits_ith(self, context: ToyContext, place: int) -> Any:
        return context.logits[place].ctypes.data_as(ctypes.POINTER(ctypes.c_float))

    def llama_memory_seq_cp(self, context: ToyContext, source: int, sequence: int, start: int, end: int) -> None:
        for cell in filter(None, context.cells):
            if source in cell.sequences and start <= cell.position < end:
                cell.sequences.add(sequence)

    def llama_memory_seq_rm(self, context: ToyContext, sequence: int, start: int, end: int) -> bool:
        def leave(cell: Cell) -> None:
            if cell.position >= start and (end < 0 or cell.position < end):
                cell.sequences.discard(sequence)

        context.free(leave)
        return True

    def llama_memory_seq_keep(self, context: ToyContext, sequence: int) -> None:
        def leave(cell: Cell) -> None:
            cell.sequences &= {sequence}

        context.free(leave)

    def llama_memory_clear(self, context: ToyContext, data: bool) -> None:
        context.cells, context.head = [None] * len(context.cells), 0

    def llama_state_seq_get_size(self, context: ToyContext, sequence: int) -> int:
        return len(saved(context, sequence))

    def llama_state_seq_get_data(self, context: ToyContext, state: Any, size: int, sequence: int) -> int:
        found = saved(context, sequence)
        state[: len(found)] = found
        return len(found)

    def llama_state_seq_set_data(self, context: ToyContext, state: Any, size: int, sequence: int) -> int:
        cells = json.loads(bytes(state[:size]))
        places = context.found(len(cells))
        if not places:
            return 0
        for place, (position, token) in zip(places, cells, strict=True):
            context.cells[place] = Cell(position, token, {sequence})
        context.head = places[-1] + 1
        return size


def mixed(context: ToyContext, position: int, sequence: int) -> int:
    """A number worked out of all that a token of this sequence and position sees, cell by cell."""
    number = 0
    for cell in filter(None, context.cells):
        if sequence in cell.sequences and cell.position <= position:
            number = (31 * number + 7 * cell.token + cell.position + 1) % MIXES
    return number


def saved(context: ToyContext, sequence: int) -> bytes:
    """The cells of a sequence."""
    cells = [[cell.position, cell.token] for cell in filter(None, context.cells) if sequence in cell.sequences]
    return json.dumps(cells).encode()
