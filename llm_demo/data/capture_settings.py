"""Real pairs (p, q) under other sampling settings: `python -m llm_demo.data.capture_settings --out figures/data/smollm2_settings.npz`.

The file has one position of every text of figures/data/contexts.jsonl, at several temperatures, and at temperature 1 with top-k or top-p
truncation of both target and draft. figures/data/README.md describes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray

from llm_demo.data.capture import CONTEXTS, DRAFTS, choose_positions, encode, load_models, provenance
from llm_demo.data.continue_prompts import read_entries
from ot_draft.data.merge import Masses, on_top_tokens, optimum
from ot_draft.decoding import Pair, SamplingParams

TEMPERATURES = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5)
TOP_K = (5, 20, 50, 200)
TOP_P = (0.5, 0.8, 0.9, 0.95)
SETTINGS = (
    *(("temperature", value) for value in TEMPERATURES),
    *(("top-k", value) for value in TOP_K),
    *(("top-p", value) for value in TOP_P),
)
KEPT = 224


def law(logits: Masses, kind: str, value: float) -> Masses:
    """Return the distribution of the next token from logits, both (n,): at a temperature, or at 1 with top-k or top-p truncation."""
    setting: dict[str, Any] = {kind.replace("-", "_"): value}
    masses: Masses = SamplingParams(**setting).masses(torch.from_numpy(logits)).numpy()
    return masses


@torch.inference_mode()
def last_logits(tokens: list[int], pair: Pair) -> tuple[Masses, Masses]:
    """Return the logits of target and draft after the tokens, (n,) each in float64; -inf for tokens that the draft does not score."""
    target, draft = (logits[0].double().numpy() for logits in pair.logits_along(tokens, [len(tokens)]))
    return target, draft


def capture(entries: list[dict[str, Any]], pair: Pair) -> dict[str, NDArray[Any]]:
    """Return the arrays of the stored file."""
    p, q, full = [], [], []
    for index, entry in enumerate(entries):
        tokens, prompt_length = encode(entry, pair.tokenizer)
        logits = last_logits(tokens[: choose_positions(len(tokens), prompt_length, index)[0]], pair)
        laws = [(law(logits[0], *setting), law(logits[1], *setting)) for setting in SETTINGS]
        shrunk = [on_top_tokens(*both, KEPT) for both in laws]
        p.append([target for target, *_ in shrunk])
        q.append([draft for _, draft, _ in shrunk])
        full.append([[optimum(target, draft, k) for k in DRAFTS] for target, draft in laws])
    return {
        "p": np.array(p, dtype=np.float32).swapaxes(0, 1),
        "q": np.array(q, dtype=np.float32).swapaxes(0, 1),
        "setting": np.array([kind for kind, _ in SETTINGS]),
        "value": np.array([value for _, value in SETTINGS]),
        "kind": np.array([entry["kind"] for entry in entries]),
        "text": np.arange(len(entries), dtype=np.int32),
        "drafts": np.array(DRAFTS, dtype=np.int32),
        "full_optimum": np.array(full).swapaxes(0, 1),
        "provenance": np.array(provenance()),
    }


@click.command()
@click.option("--contexts", default=CONTEXTS, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
def main(contexts: Path, out: Path) -> None:
    """Capture one position of every text of CONTEXTS under all settings, and write OUT."""
    torch.set_num_threads(1)
    arrays = capture(read_entries(contexts), load_models())
    np.savez_compressed(out, allow_pickle=False, **arrays)
    click.echo(f"{arrays['p'].shape[1]} contexts, {len(SETTINGS)} settings, {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
