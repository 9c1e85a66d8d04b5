"""Record what a run drafted and decided: `--trace`. One JSON line a step, and the laws as shards of arrays.

A folder holds steps.jsonl; trace.json, which says how it came about; pairs-*.npz, the laws p and q at the places where a
text really stood, for `ot-draft compare FILE` and `ot-draft sweep FOLDER`; and trees/trees-*.npz, the laws at all nodes
of the drafted trees, for `ot-draft replay`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...decoding import DecodeOptions, Step
from ...decoding.benchmark.methods import Method
from ...pairs.merge import TAIL, TAIL_CLASSES, merge

KEPT = 224  # tokens of a law that are kept one by one, the drafted ones among them
ROWS = 10_000  # laws stored at most
PAIRS_A_FILE, TREES_A_FILE = 1024, 64
Array = NDArray[Any]


class Trace:
    """Writes one run into an empty folder, while it goes on; `close` writes what is left.

    kept: tokens of every law that stay themselves, the others are merged into classes of like p/q (`ot_draft.pairs.merge`); 0: the
    whole vocabulary. rows_stored: laws stored at most; from the first tree that would pass it on, steps are recorded without laws.
    """

    def __init__(
        self, folder: Path, method: Method, options: DecodeOptions, kept: int = KEPT, rows_stored: int = ROWS
    ) -> None:
        (folder / "trees").mkdir(parents=True)  # FileExistsError where something is traced already
        self.folder, self.kept, self.rows_left, self.full = folder, kept, rows_stored, False
        tree: Any = method.drafting.tree  # a `FixedTree`: others are not traced
        self.shape, self.steps = tree.shape, 0
        self._inner = [node for node in range(self.shape.inner) if len(self.shape.children(node)) > 0]
        self._pairs: list[dict[str, Any]] = []
        self._trees: list[dict[str, Any]] = []
        self._files = {"pairs": 0, "trees": 0}
        self._lines = (folder / "steps.jsonl").open("w", encoding="utf-8")
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
        self._lines.write(json.dumps(line) + "\n")
        self.steps += 1
        if step.p is None or step.q is None or not self._inner or self.full:
            return
        self.full = len(self._inner) > self.rows_left
        if not self.full:
            self.rows_left -= len(self._inner)
            laws = step.p[row].double().numpy(), step.q[row].double().numpy()
            self._add_laws(prompt, position, step, laws, line)

    def _add_laws(
        self, prompt: int, position: int, step: Step, laws: tuple[Array, Array], line: dict[str, Any]
    ) -> None:
        (p, q), drafted, accepted = laws, line["drafted"], line["nodes"]
        stored = node_laws(self.shape.parents, self._inner, p, q, drafted, self.kept)
        self._trees.append({**stored, "drafted": drafted, "prompt": prompt, "step": step.number})
        for depth, node in enumerate([0, *accepted]):
            if node in self._inner:
                at = self._inner.index(node)
                self._pairs.append(
                    {name: stored[name][at] for name in ("p", "q", "tokens")}
                    | {"text": prompt, "position": position + depth}
                )
        self._write("pairs", self._pairs, PAIRS_A_FILE, self.folder)
        self._write("trees", self._trees, TREES_A_FILE, self.folder / "trees")

    def _write(self, name: str, rows: list[dict[str, Any]], least: int, folder: Path) -> None:
        if len(rows) < max(least, 1):
            return
        arrays: dict[str, Any] = {key: np.stack([np.asarray(row[key]) for row in rows]) for key in rows[0]}
        np.savez_compressed(folder / f"{name}-{self._files[name]:05}.npz", allow_pickle=False, **arrays)
        self._files[name] += 1
        rows.clear()

    def close(self) -> None:
        """Write what is left."""
        self._lines.close()
        self._write("pairs", self._pairs, 1, self.folder)
        self._write("trees", self._trees, 1, self.folder / "trees")


def node_laws(
    parents: Sequence[int], inner: Sequence[int], p: Array, q: Array, drafted: Sequence[int], kept: int
) -> dict[str, Array]:
    """p and q (N + 1, n) at the inner nodes, on slots: {p, q: float32 (M, slots), tokens: int32 (M, slots), TAIL for classes}.

    Every drafted token has a slot of its own everywhere. Nodes with equal tokens before them get one law, that of the
    first: the target computes them in different rows, and rounding must not tell apart what is one context.
    """
    n = p.shape[-1]
    whole = kept == 0 or n <= kept + TAIL_CLASSES
    kept = max(kept, len({token for token in drafted if token >= 0}))
    prefixes: list[tuple[int, ...]] = [()]
    for parent, token in zip(parents, drafted, strict=True):
        prefixes.append((*prefixes[parent], token))
    laws_after: dict[tuple[int, ...], tuple[Array, Array, Array]] = {}
    for node in inner:
        if prefixes[node] not in laws_after:
            laws = (p[node] / p[node].sum(), q[node] / q[node].sum())
            laws_after[prefixes[node]] = (*laws, np.arange(n)) if whole else _shrunk(*laws, drafted, kept)
    columns = zip(*(laws_after[prefixes[node]] for node in inner), strict=True)
    return {
        name: np.stack(column).astype(kind)
        for name, column, kind in zip(("p", "q", "tokens"), columns, ("f4", "f4", "i4"), strict=True)
    }


def _shrunk(p: Array, q: Array, drafted: Sequence[int], kept: int) -> tuple[Array, Array, Array]:
    weight = np.maximum(p, q)
    weight[[token for token in drafted if token >= 0]] = 2.0
    tokens = np.argpartition(-weight, kept - 1)[:kept]
    tokens = tokens[np.argsort(-p[tokens], kind="stable")]
    slots = np.append(tokens, np.full(TAIL_CLASSES, TAIL))
    if (p[tokens].sum() + q[tokens].sum()) < 2 - 1e-12:
        return (*merge(p, q, tokens.astype(np.int32), TAIL_CLASSES), slots)
    nothing = np.zeros(TAIL_CLASSES)  # truncated laws: no mass is left to be merged
    return np.append(p[tokens], nothing), np.append(q[tokens], nothing), slots
