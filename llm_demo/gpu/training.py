"""Training of the committed hidden-state draft on a device, on texts by the target: `python -m llm_demo.gpu --run 2`.

1. Self-check: the committed draft's acceptance on fixed texts equals that on a CPU.
2. Write: the target generates texts in batches of many prompts, with four temperatures in turn.
3. States: one forward pass of the target over all texts; its hidden states stay in the device's memory.
4. Train: steps with losses from KL to -log acceptance (`kl_first`), and two more passes on the draft's own states. The best draft on
   held-out texts is saved.
5. Evaluate: acceptance on held-out prompts at temperatures 0.6 and 1.
"""

from __future__ import annotations

import copy
import gc
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch

from llm_demo import acceptance
from llm_demo.data.continue_prompts import read_entries
from llm_demo.distil.command import RATES, fills_memory, save
from llm_demo.distil.hidden_states import HeldStates
from llm_demo.distil.states import HELD_BACK, StateTrainer, kl_first, state_draft
from llm_demo.distil.text import Text, sample
from llm_demo.distil.train import some_of, write_draft
from llm_demo.gpu.file_parts import MIB, split
from llm_demo.gpu.runs import Abort
from llm_demo.models.load import STATE_DRAFT_FILE
from llm_demo.prompts import Prompt
from llm_demo.rows import Row
from ot_draft.decoding import Pair, load_draft
from ot_draft.decoding.pair import prompt_text

FIXED_TEXT = Path(__file__).parents[2] / "figures" / "data" / "contexts.jsonl"
NAME = "draft-2-layers-states-gpu"
SELF_CHECK = 0.4719  # `self_check` of the committed draft on a CPU in float32


@dataclass(frozen=True)
class Plan:
    """Sizes of a training run, and its abort rules.

    writing, evaluating: shares of the time. expected: acceptance that the self-check must find, within `near`; None for any. least_tokens:
    minimum number of generated tokens. worse: decrease of the held-out overlap that ends the training. every: seconds between checks of the
    held-out texts. part: number of bytes of a part of the draft's file, for machines with a limit on file sizes.
    """

    rows: int = 64
    write: int = 2048
    length: int = 224
    writing: float = 0.16
    evaluating: float = 0.12
    expected: float | None = None
    near: float = 0.01
    least_tokens: int = 1_000_000
    worse: float = 0.01
    every: float = 60.0
    part: int = 15 * MIB


def self_check(pair: Pair, limit: int = 24, longest: int = 160) -> float:
    """Return the mean acceptance with one draft on fixed texts that were sampled from the target at temperature 1.

    Parameters
    ----------
    pair : Pair
        Target, draft and tokenizer.
    limit : int, default=24
        Number of texts.
    longest : int, default=160
        Maximum number of tokens of a text, including its prompt.

    Returns
    -------
    alpha : float
        Mean of sum_x min(p, q) over all positions after the prompts.
    """
    entries = [entry for entry in read_entries(FIXED_TEXT) if entry["temperature"] == 1][:limit]
    found: list[float] = []
    for entry in entries:
        prompt = prompt_text(entry, pair.tokenizer)
        begin = len(pair.tokenizer(prompt, add_special_tokens=False).input_ids)
        text = pair.tokenizer(prompt + entry["text"], add_special_tokens=False).input_ids[:longest]
        if len(text) > begin:
            found += acceptance.overlaps(pair, text, begin, 1.0).tolist()
    return float(np.mean(found))


def train(
    pair: Pair, prompts: list[Prompt], seconds: float, out: Path, plan: Plan, start: Path = STATE_DRAFT_FILE
) -> Iterator[Row]:
    """Continue the training of a draft, and write it into `out`.

    Parameters
    ----------
    pair : Pair
        Target, draft and tokenizer.
    prompts : list of Prompt
        Held-out prompts for the measurement.
    seconds : float
        Time limit.
    out : Path
        Folder of the draft, its card and its parts.
    plan : Plan
        Sizes and abort rules.
    start : Path
        File of the initial draft.

    Yields
    ------
    row : dict
        "phase", "seconds" since the start, "quantity", "value" and "of".

    Raises
    ------
    Abort
        If the self-check fails, or too few tokens are generated. If the held-out overlap decreases, after the best draft has been measured.
    """
    begin = time.monotonic()

    def row(phase: str, quantity: str, value: float, of: str = "") -> Row:
        spent = f"{time.monotonic() - begin:.1f}"
        return {"phase": phase, "seconds": spent, "quantity": quantity, "value": f"{value:.6g}", "of": of}

    if plan.expected is not None:
        found = self_check(pair)
        yield row("self-check", "acceptance", found, f"expected {plan.expected}")
        if not abs(found - plan.expected) <= plan.near:
            raise Abort(f"the acceptance on fixed texts is {found:.4f}, and {plan.expected} on the CPU")
    texts, written = list[Text](), 0
    until = (time.monotonic() - begin) + plan.writing * seconds
    for number in count():
        texts += sample(pair, plan.write, plan.length, number)
        gc.collect()  # an engine and its graphs refer to each other
        written = sum(len(text.tokens) - text.start for text in texts)
        yield row("write", "tokens", written)
        spent = time.monotonic() - begin
        if len(texts) > HELD_BACK * plan.rows and (spent > until or fills_memory(pair.target, texts)):
            break
        if spent > 2 * until:
            raise Abort(f"only {len(texts)} texts were generated in {spent:.0f} s")
    if written < plan.least_tokens:
        raise Abort(f"{written} tokens were generated, fewer than {plan.least_tokens}")
    wide: Any = copy.deepcopy(pair.target).float()  # distributions from rounded logits have errors of a few per cent
    held = HeldStates.of(wide, texts, plan.rows)
    yield row("states", "tokens", held.tokens.numel())
    draft = state_draft(wide, start, some_of(wide.config.num_hidden_layers)).to(held.tokens.device)
    products = torch.bfloat16 if held.tokens.is_cuda else torch.float32
    trainer = StateTrainer(draft, [held], *RATES, 0, products, kl_first)
    reason = yield from _steps(trainer, begin, (1 - plan.evaluating) * seconds, out, plan, row)
    file = save(
        load_draft(pair.target, out / f"{NAME}-best.safetensors"),
        {"steps": trainer.steps, "positions": trainer.seen},
        out,
        NAME,
    )
    split(file, out / "parts", plan.part)
    saved = Pair(pair.target, load_draft(pair.target, file), pair.tokenizer)
    for each in acceptance.measure(saved, prompts):
        yield row(
            "evaluate",
            f"acceptance, temperature {each['temperature']}, {each['kind']}",
            each["acceptance"],
            f"± {each['error']:.4f}",
        )
    if reason:
        raise Abort(reason)


def _steps(
    trainer: StateTrainer, begin: float, end: float, out: Path, plan: Plan, row: Any
) -> Generator[Row, None, str]:
    """Train until `end` seconds after `begin`; return the reason of an earlier end. NAME-best.safetensors is the best draft."""
    first, best, checked = None, -1.0, -np.inf
    started = time.monotonic() - begin
    while True:
        spent = time.monotonic() - begin
        if spent - checked > plan.every or spent > end:
            checked, overlaps = spent, trainer.check(0)
            yield row(
                "train",
                "held-out overlap, temperature 1",
                overlaps[0],
                f"step {trainer.steps}, {trainer.seen} positions",
            )
            first = overlaps[0] if first is None else first
            if overlaps[0] > best:
                best = overlaps[0]
                write_draft(trainer.draft, out / f"{NAME}-best.safetensors")
            if overlaps[0] < first - plan.worse:
                return f"the held-out overlap fell from {first:.4f} to {overlaps[0]:.4f}"
            if spent > end:
                return ""
        trainer.step(min(1.0, (spent - started) / max(end - started, 1e-9)))
