"""Record what a run drafted and decided: `--trace`. One JSON line a step, and the laws as shards of arrays.

A folder holds steps.jsonl; trace.json, which says how it came about; and pairs-*.npz, the laws p and q at the places where a
text really stood, for `ot-draft compare FILE` and `ot-draft sweep FOLDER`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import defaults
from ...data.merge import TAIL_CLASSES, on_top_tokens
from ...decoding import DecodeOptions, Step
from ...decoding.methods import Method

Array = NDArray[Any]


class Trace:
    """Writes one run into an empty folder, while it goes on; `close` writes what is left.

    kept: tokens of every law that stay themselves, the others are merged into classes of like p/q (`ot_draft.data.merge`); 0: the
    whole vocabulary. rows_stored: laws stored at most; from the first step that would pass it on, steps are recorded without laws.
    """

    def __init__(
        self,
        folder: Path,
        method: Method,
        options: DecodeOptions,
        kept: int = 224,
        rows_stored: int = defaults.TRACE_ROWS,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "steps.jsonl").touch(exist_ok=False)  # FileExistsError where something is traced already
        self.folder, self.kept, self.rows_left, self.full = folder, kept, rows_stored, False
        tree: Any = method.drafting.tree  # a `FixedTree`: others are not traced
        self.shape, self.steps = tree.shape, 0
        self._pairs: list[dict[str, Any]] = []
        self._files = 0
        sampling = vars(options.sampling)
        about = {"rule": method.rule, "law": method.law, "drafts": method.drafts, "parents": self.shape.parents,
                 "sampling": sampling, "seed": options.seed, "kept": kept}  # fmt: skip
        (folder / "trace.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")

    def add(self, prompt: int, position: int, step: Step, row: int = 0) -> None:
        """Record one step of one text. position: tokens before the root, the root included; laws are stored where the step has them."""
        length, chosen = int(step.length[row]), step.chosen[row].tolist()
        line = {
            "prompt": prompt, "step": step.number, "position": position, "root": int(step.root[row]),
            "drafted": step.drafted[row].tolist(), "accepted": length, "nodes": step.nodes[row].tolist()[:length],
            "next": chosen[length], "emitted": step.tokens(row), "finished": bool(step.finished[row]),
            "seconds": {name: round(value, 6) for name, value in vars(step.seconds).items()},
        }  # fmt: skip
        with (self.folder / "steps.jsonl").open("a", encoding="utf-8") as lines:  # a run that fails leaves no file open
            lines.write(json.dumps(line) + "\n")
        self.steps += 1
        nodes = [node for node in (0, *line["nodes"]) if len(self.shape.children(node)) > 0]
        if step.p is None or step.q is None or not nodes or self.full:
            return
        self.full = len(nodes) > self.rows_left
        if not self.full:
            self.rows_left -= len(nodes)
            for depth, node in enumerate(nodes):
                p, q = (laws[row, node].double().numpy() for laws in (step.p, step.q))
                about = {"text": prompt, "position": position + depth}
                self._pairs.append(stored_laws(p, q, self.kept) | about)
            self._write(least=1024)

    def _write(self, least: int) -> None:
        if len(self._pairs) < least:
            return
        arrays: Any = {key: np.stack([np.asarray(row[key]) for row in self._pairs]) for key in self._pairs[0]}
        np.savez_compressed(self.folder / f"pairs-{self._files:05}.npz", allow_pickle=False, **arrays)
        self._files += 1
        self._pairs.clear()

    def close(self) -> None:
        """Write what is left."""
        self._write(1)


def stored_laws(p: Array, q: Array, kept: int) -> dict[str, Array]:
    """p and q (n,) on slots: {p, q: float32 (slots,), tokens: int32 (slots,), TAIL for classes}; kept: as in `Trace`."""
    whole, n = (p / p.sum(), q / q.sum()), len(p)
    columns = (*whole, np.arange(n)) if kept == 0 or n <= kept + TAIL_CLASSES else on_top_tokens(*whole, kept)
    kinds = {"p": np.float32, "q": np.float32, "tokens": np.int32}
    return {name: column.astype(kind) for (name, kind), column in zip(kinds.items(), columns, strict=True)}
