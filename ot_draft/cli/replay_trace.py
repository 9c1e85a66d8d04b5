"""Block efficiency from recorded trees, selected again with fresh random numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ot_draft as ot

from ..array_files import read_arrays
from ..decoding import CannotDecode
from ..decoding.benchmark.methods import Method, method_called
from ..pairs.summary import clustered_error

REPEATS = 16
RECORDED = ("p", "q", "tokens", "drafted", "prompt")  # arrays of a batch of recorded trees


@dataclass(frozen=True)
class TraceEfficiency:
    """Tokens a target call, with its standard error over prompts, from so many steps."""

    block_efficiency: float
    error: float
    steps: int


def recorded(folder: Path) -> tuple[Method, TraceEfficiency]:
    """What was traced, and the block efficiency that was measured then."""
    about, steps = _about(folder), _steps(folder / "steps.jsonl")
    if not steps:
        raise CannotDecode(f"trace {str(folder)!r} holds no step")
    shape = ot.paths.TreeShape(tuple(about["parents"]))
    method = method_called(about["rule"], about["law"] or None, shape)
    return method, _efficiency([accepted for accepted, _ in steps], [prompt for _, prompt in steps])


def replay(folder: Path, rule: ot.paths.PathRule, repeats: int = REPEATS, seed: int = 0) -> TraceEfficiency:
    """Block efficiency of a path rule on the recorded trees, each selected from so many times.

    The rule has to be valid under the law that the trees were drawn by (InvalidDrafts), and may be another than the recorded
    one: the drafts do not depend on it, the contexts only by how far a step got.
    """
    lengths, prompts = [], []
    for number, (tree, of_prompt) in enumerate(recorded_trees(folder)):
        generator = np.random.default_rng([seed, number])
        count = rule.uniforms(tree.bounds)
        drawn = [rule.select(tree, generator.random((len(tree.tokens), count))).length for _ in range(repeats)]
        lengths += np.mean(drawn, axis=0).tolist()
        prompts += of_prompt.tolist()
    if not lengths:
        raise CannotDecode(f"trace {str(folder)!r} holds no tree: record it with laws (--trace-rows above 0)")
    return _efficiency(lengths, prompts)


def recorded_trees(folder: Path) -> Iterator[tuple[ot.paths.DraftTree, Any]]:
    """The recorded trees in batches, on the slots of their nodes, and the prompt of each.

    A token is renamed to its slot in the law of its parent; only siblings are ever compared, and equal contexts share
    their slots. Leaves hold any law: nothing but the token after a whole path is drawn from it.
    """
    about = _about(folder)
    shape = ot.paths.TreeShape(tuple(about["parents"]))
    if about["law"] == "hybrid:auto" and about["kept"]:
        raise CannotDecode("under hybrid:auto the number of top tokens depends on all of q: record with --trace-keep 0")
    law = method_called(about["rule"], about["law"] or None, shape).drafting.tree.law
    inner = [node for node in range(max(shape.parents, default=-1) + 1) if len(shape.children(node)) > 0]
    place = {node: at for at, node in enumerate(inner)}
    for file in sorted((folder / "trees").glob("*.npz")):
        p, q, slots, drafted, prompt = read_arrays(file, RECORDED, ", ".join(RECORDED)).values()
        p, q = (_laws(masses, file) for masses in (p, q))
        parents = [place[parent] for parent in shape.parents]
        same = slots[:, parents] == drafted[..., None]
        if ((drafted >= 0) & ~same.any(-1)).any():
            raise CannotDecode(f"{file}: a drafted token has no slot in the law of its parent: record the trace again")
        renamed = same.argmax(-1)
        tokens = np.where(drafted >= 0, renamed, -1)
        at = [place.get(node, 0) for node in range(shape.size + 1)]
        yield shape.tree(tokens, p[:, at], q[:, at[: inner[-1] + 1]], law), prompt


def _efficiency(lengths: Sequence[float], prompts: Sequence[int]) -> TraceEfficiency:
    texts = list(prompts) if len(set(prompts)) > 1 else list(range(len(prompts)))
    return TraceEfficiency(1 + float(np.mean(lengths)), clustered_error(lengths, texts), len(lengths))


def _laws(masses: Any, file: Path) -> Any:
    """Recorded in float32, as laws in float64."""
    masses = masses.astype(np.float64)
    sums = masses.sum(-1, keepdims=True)
    if not ((masses >= 0).all() and (abs(sums - 1) < 1e-3).all()):
        raise CannotDecode(f"{file} holds rows that are no laws: record the trace again")
    return masses / sums


def _steps(file: Path) -> list[tuple[int, int]]:
    """Accepted length and prompt of every step."""
    steps = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            step = json.loads(line)
            steps.append((int(step["accepted"]), int(step["prompt"])))
        except (ValueError, KeyError, TypeError):
            raise CannotDecode(
                f"{file}, line {number} is no step: a run that was stopped leaves such a line; remove it"
            ) from None
    return steps


def _about(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
        return {name: about[name] for name in ("rule", "law", "parents", "kept")}
    except (OSError, ValueError, KeyError, TypeError):
        raise CannotDecode(f"{str(folder)!r} is no trace: name a folder that `ot-draft decode --trace` wrote") from None
