"""Cells of one token sequence in llama.cpp, through the low-level functions of llama-cpp-python (`api`: its module, or a stand-in).

A cell holds keys and values of one token and belongs to any number of llama.cpp's sequences; it is free if it belongs to none. New tokens
are written to free cells in order. A token attends to the cells of its first sequence at positions up to its own. On a CPU, attention adds
them cell by cell and skips the others: if the cells of a path are in the order of the sequence, the sums are bitwise identical to
autoregressive decoding.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import finalize

import numpy as np

from ot_draft.decoding import CannotDecode

SEQUENCES = 128  # number of sequences of a context; the time of checks and the memory of logits grow with it
SPARE = SEQUENCES - 1  # sequence used for moving cells to the front
TOKENS = 512  # max. number of tokens per call of llama_decode
ROWS = 63  # max. number of them with logits: from 64 on, attention on a CPU sums in another order


@dataclass
class TokenRow:
    """A token to be read. sequences: those of its cell, the one that it attends to first. wanted: whether its logits are needed."""

    token: int
    position: int
    sequences: Sequence[int]
    wanted: bool


class Context:
    """A context of llama.cpp with at least `cells` cells, for one token sequence."""

    def __init__(self, api: Any, model: Any, cells: int, n: int) -> None:
        """model: handle of the api. n: vocabulary size. Raises CannotDecode if there is not enough memory."""
        self.api, self.n, self.cells = api, n, cells
        given = api.llama_context_default_params()
        given.n_ctx, given.n_batch, given.n_ubatch = cells, TOKENS, TOKENS
        given.n_seq_max, given.kv_unified = SEQUENCES, True
        for name, most in {
            "n_outputs_max": SEQUENCES,
            "n_outputs_max_per_seq": 0,
        }.items():  # exist in later versions only
            if hasattr(given, name):
                setattr(given, name, most)
        self._context = api.llama_init_from_model(model, given)
        if not self._context:
            raise CannotDecode(
                f"llama.cpp cannot allocate a context of {cells} cells. Use a shorter prompt or fewer new tokens."
            )
        finalize(self, api.llama_free, self._context)
        self._memory = api.llama_get_memory(self._context)
        self._batch = api.llama_batch_init(TOKENS, 0, SEQUENCES)
        finalize(self, api.llama_batch_free, self._batch)

    def use_threads(self, count: int) -> None:
        """Set the number of threads of all later passes."""
        self.api.llama_set_n_threads(self._context, count, count)

    def decode(self, rows: Sequence[TokenRow]) -> list[np.ndarray]:
        """Read tokens into free cells, in this order; return the logits (n,) of the wanted ones."""
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
        for index, row in enumerate(rows):
            batch.token[index], batch.pos[index], batch.logits[index] = row.token, row.position, row.wanted
            batch.n_seq_id[index] = len(row.sequences)
            for number, sequence in enumerate(row.sequences):
                batch.seq_id[index][number] = sequence
        code = self.api.llama_decode(self._context, batch)
        if code:
            raise CannotDecode(
                f"llama_decode failed with status {code} on {len(rows)} tokens. Use a shorter prompt or fewer new tokens."
            )
        found = (self.api.llama_get_logits_ith(self._context, index) for index, row in enumerate(rows) if row.wanted)
        return [np.ctypeslib.as_array(logits, shape=(self.n,)).copy() for logits in found]

    def share(self, source: int, sequence: int, end: int) -> None:
        """Add the cells of a sequence before position `end` to an empty sequence."""
        self.api.llama_memory_seq_cp(self._memory, source, sequence, 0, end)

    def cut(self, sequence: int, start: int) -> None:
        """Remove the cells of a sequence from position `start` on; they belong to no other sequence."""
        if not self.api.llama_memory_seq_rm(self._memory, sequence, start, -1):
            raise CannotDecode(
                "llama.cpp cannot remove single tokens of this model from its cache. Use a model without recurrent layers."
            )

    def keep(self, sequence: int) -> None:
        """Empty all sequences but one, and free their cells."""
        self.api.llama_memory_seq_keep(self._memory, sequence)

    def clear(self) -> None:
        """Free all cells."""
        self.api.llama_memory_clear(self._memory, False)

    def bring(self, source: int, start: int, end: int) -> None:
        """Replace the cells of sequence 0 from position `start` on by those of another sequence, up to `end`, and free all others.

        Their keys and values are copied, so that the cells are in the order of the token sequence.
        """
        api, context, memory = self.api, self._context, self._memory
        api.llama_memory_seq_cp(memory, source, SPARE, start, end)
        size = api.llama_state_seq_get_size(context, SPARE)
        state = (ctypes.c_uint8 * size)()
        written = api.llama_state_seq_get_data(context, state, size, SPARE)
        self.keep(0)
        self.cut(0, start)
        if not written or not api.llama_state_seq_set_data(context, state, written, SPARE):
            raise CannotDecode("llama.cpp cannot copy the cells of an accepted path. Use backend torch.")
        api.llama_memory_seq_cp(memory, SPARE, 0, start, end)
        api.llama_memory_seq_rm(memory, SPARE, -1, -1)
