"""llama.cpp by the low-level functions of llama-cpp-python: one text's cells, in which a token sees those of its first sequence alone.

`api` is that package's module, or what has its functions. A cell holds keys and values of one token, belongs to any number of sequences,
and is free where it belongs to none. New tokens take free cells in turn; a token sees the cells of its first sequence that stand no later
in the text. On a CPU attention adds them cell by cell and passes over the others: where the cells of a way stand in the order of the text,
its sums are those of autoregressive decoding, bit by bit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import finalize

import numpy as np

from ot_draft.decoding import CannotDecode

SEQUENCES = 128  # of a context; the checks of a pass and the logits' memory grow with them
SPARE = SEQUENCES - 1  # the sequence by which cells are brought to the front
TOKENS = 512  # that llama.cpp reads at once
ROWS = 63  # of them with logits: from 64 tokens on its attention on a CPU adds in another order


@dataclass
class TokenRow:
    """A token to be read. sequences: those that its cell is to belong to, its own first; wanted: whether its logits are asked for."""

    token: int
    position: int
    sequences: Sequence[int]
    wanted: bool


class Context:
    """Cells of one text, at least so many."""

    def __init__(self, api: Any, model: Any, cells: int, n: int) -> None:
        """model: as the api has it. n: tokens of its vocabulary. CannotDecode where there is no memory for it."""
        self.api, self.n, self.cells = api, n, cells
        given = api.llama_context_default_params()
        given.n_ctx, given.n_batch, given.n_ubatch = cells, TOKENS, TOKENS
        given.n_seq_max, given.kv_unified = SEQUENCES, True
        for name, most in {"n_outputs_max": SEQUENCES, "n_outputs_max_per_seq": 0}.items():  # that later versions have
            if hasattr(given, name):
                setattr(given, name, most)
        self._context = api.llama_init_from_model(model, given)
        if not self._context:
            raise CannotDecode(
                f"llama.cpp has no context of {cells} cells: there is too little memory, ask for a shorter text"
            )
        finalize(self, api.llama_free, self._context)
        self._memory = api.llama_get_memory(self._context)
        self._batch = api.llama_batch_init(TOKENS, 0, SEQUENCES)
        finalize(self, api.llama_batch_free, self._batch)

    def use_threads(self, count: int) -> None:
        """In all passes from now on."""
        self.api.llama_set_n_threads(self._context, count, count)

    def decode(self, rows: Sequence[TokenRow]) -> list[np.ndarray]:
        """Read tokens into free cells, in this order; logits (n,) of those that are wanted."""
        logits, start = list[np.ndarray](), 0
        while start < len(rows):
            end = wanted = 0
            for end in range(start, min(start + TOKENS, len(rows))):
                wanted += rows[end].wanted
                if wanted == ROWS:
                    break
            logits += self._decode(rows[start : end + 1])
            start = end + 1
        return logits

    def _decode(self, rows: Sequence[TokenRow]) -> list[np.ndarray]:
        batch = self._batch
        batch.n_tokens = len(rows)
        for place, row in enumerate(rows):
            batch.token[place], batch.pos[place], batch.logits[place] = row.token, row.position, row.wanted
            batch.n_seq_id[place] = len(row.sequences)
            for number, sequence in enumerate(row.sequences):
                batch.seq_id[place][number] = sequence
        code = self.api.llama_decode(self._context, batch)
        if code:
            raise CannotDecode(f"llama.cpp refuses a pass of {len(rows)} tokens (llama_decode says {code})")
        found = (self.api.llama_get_logits_ith(self._context, place) for place, row in enumerate(rows) if row.wanted)
        return [np.ctypeslib.as_array(logits, shape=(self.n,)).copy() for logits in found]

    def share(self, source: int, sequence: int, end: int) -> None:
        """Let an empty sequence have the cells of another one before this position."""
        self.api.llama_memory_seq_cp(self._memory, source, sequence, 0, end)

    def cut(self, sequence: int, start: int) -> None:
        """Take the cells of a sequence from this position on out of it; none has another one."""
        if not self.api.llama_memory_seq_rm(self._memory, sequence, start, -1):
            raise CannotDecode(
                "llama.cpp cannot take single tokens of this model back: take one without recurrent layers"
            )

    def keep(self, sequence: int) -> None:
        """Empty all sequences but one, and free their cells."""
        self.api.llama_memory_seq_keep(self._memory, sequence)

    def clear(self) -> None:
        """Free all cells."""
        self.api.llama_memory_clear(self._memory, False)

    def bring(self, source: int, start: int, end: int) -> None:
        """Replace what sequence 0 has from position start on by another one's cells, start to end, and free all others.

        Their keys and values are copied to where they follow the rest, since a text's cells are to stand in its order.
        """
        api, context, memory = self.api, self._context, self._memory
        api.llama_memory_seq_cp(memory, source, SPARE, start, end)
        size = api.llama_state_seq_get_size(context, SPARE)
        state = (ctypes.c_uint8 * size)()
        written = api.llama_state_seq_get_data(context, state, size, SPARE)
        self.keep(0)
        self.cut(0, start)
        if not written or not api.llama_state_seq_set_data(context, state, written, SPARE):
            raise CannotDecode("llama.cpp cannot copy the cells of an accepted path")
        api.llama_memory_seq_cp(memory, SPARE, 0, start, end)
        api.llama_memory_seq_rm(memory, SPARE, -1, -1)
