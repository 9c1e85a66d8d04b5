"""Benchmark and distillation as parts of the run on a GPU, limited by time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

import ot_draft as otd
from llm_demo.bench.auto import plain_method
from llm_demo.bench.contenders import bench
from llm_demo.distil import command as distillation
from llm_demo.distil import train as distil_train
from llm_demo.distil.train import Recipe, some_of, student, write_draft
from llm_demo.gpu.checks import tiny_pair
from llm_demo.gpu.file_parts import join, split
from llm_demo.gpu.runs import Abort
from llm_demo.gpu.training import NAME, SELF_CHECK, Plan, train
from llm_demo.models.load import STATE_DRAFT_FILE, load_pair
from llm_demo.prompts import Prompt, read_prompts
from ot_draft.decoding import DecodeOptions, Pair, SamplingParams
from ot_draft.decoding.methods import Method, dynamic_method, method_called, shape_of

SETTINGS = [(1, 1.0), (1, 0.6), (8, 1.0)]  # (batch, temperature), by decreasing priority
TOKENS, SEED = 96, 9
PEERS = ((1, 4),)  # (K, L) of transformers' assisted generation
MOST = 200  # max. number of prompts
TREES = ("lookup", "adaptive")
MANIFEST = ".parts.json"
STARTING = 15  # seconds of a process before and after a part


class Letters:
    """A tokenizer with 16 tokens for the dry run: the first letters of a text."""

    chat_template = None

    def __call__(self, text: str, **_: Any) -> Any:
        return SimpleNamespace(input_ids=[ord(letter) % 16 for letter in text[:8]])


def methods() -> list[Method]:
    """Return autoregressive decoding, single paths of several lengths, several paths, and trees."""
    one = [method_called("block", None, shape_of(1, length, None)) for length in (1, 2, 4)]
    many = [method_called(rule, None, shape_of(8, 4, None)) for rule in ("kseq", "optimal", "joint")]
    few = method_called("joint", None, shape_of(4, 2, None))
    return [plain_method(), *one, few, *many, *(dynamic_method(otd.trees.drafting.ALL[name](32)) for name in TREES)]


def bench_rows(
    device: torch.device, seconds: float, dry: bool, model: Path | None = None, out: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Yield rows of the benchmark at every setting, with as many prompts as the time allows; two groups first estimate the time per group.

    model: file of the target, or the manifest of its parts. out: folder; if it has a draft trained there, that draft is used.
    """
    end = time.monotonic() + seconds
    if dry:
        prompts: Sequence[Prompt] = [Prompt("random", [1 + i, 2, 3]) for i in range(4)]
        options = DecodeOptions(SamplingParams(1.0), max_tokens=4, stop=())
        yield from bench(tiny_pair(), prompts, 2, options, grid=((1, 2), (2, 2)))
        return
    trained = None if out is None else out / f"{NAME}.safetensors"
    pair = _pair(model, device, trained if trained is not None and trained.is_file() else None)
    prompts = read_prompts(pair.tokenizer, MOST)
    for number, (batch, temperature) in enumerate(SETTINGS):
        options = DecodeOptions(SamplingParams(temperature), max_tokens=TOKENS, seed=SEED)
        allowed = (end - time.monotonic()) / (len(SETTINGS) - number)
        begin = time.monotonic()
        rows = bench(pair, prompts[: 2 * batch], batch, options, PEERS, methods())
        spent = time.monotonic() - begin
        groups = min(int(2 * (allowed - spent) / spent), MOST // batch)
        if groups > 2:
            rows = bench(pair, prompts[: groups * batch], batch, options, PEERS, methods())
        yield from rows


def _pair(model: Path | None, device: torch.device, draft: Path | None = None) -> Pair:
    target = None if model is None else str(_joined(model))
    return load_pair(target, "states" if draft is None else str(draft), "bfloat16", str(device))


def _joined(model: Path) -> Path:
    """Return the target's file; for a manifest, the file that `join_model` writes, outside the folder of results."""
    return model.with_name("joined") / model.name.removesuffix(MANIFEST) if model.name.endswith(MANIFEST) else model


def join_model(model: Path | None, out: Path, dry: bool) -> None:
    """Join the target's file from its parts. Raises Abort if a part is not valid."""
    if dry:
        model = split(Path(__file__), out / "model-parts", 1000)
    if model is not None and model.name.endswith(MANIFEST):
        try:
            join(model, _joined(model).parent)
        except ValueError as error:
            raise Abort(str(error)) from None


def train_rows(
    out: Path, device: torch.device, seconds: float, dry: bool, model: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of `training.train`."""
    if dry:
        tiny = tiny_pair(dtype=torch.float32, layers=3)
        tiny.target.lm_head.weight = tiny.target.get_input_embeddings().weight  # as in the embedded model
        pair = Pair(tiny.target, tiny.draft, Letters())
        start = write_draft(student(tiny.target, range(8), Recipe(2, None, some_of(3))), out / "start.safetensors")
        plan = Plan(rows=2, write=14, length=8, least_tokens=1, worse=1.0, every=0.2)
        prompts = [Prompt("random", [1 + i, 2, 3]) for i in range(2)]
        yield from train(pair, prompts, min(seconds, 2.0), out, plan, start)
        return
    begin = time.monotonic()
    torch.set_float32_matmul_precision("high")  # float32 matmul in TF32, several times as fast
    torch.manual_seed(0)
    pair = _pair(model, device)
    left = seconds - (time.monotonic() - begin) - STARTING
    yield from train(pair, read_prompts(pair.tokenizer, 40), left, out, Plan(expected=SELF_CHECK))


def distil(out: Path, device: torch.device, seconds: float, dry: bool) -> None:
    """Continue the training of the committed draft, and write it with its card; in a dry run a tiny draft."""
    if dry:
        tiny = tiny_pair(dtype=torch.float32)
        tiny.target.lm_head.weight = tiny.target.get_input_embeddings().weight  # as in the embedded model
        pair = Pair(tiny.target, tiny.draft, Letters())
        draft, about = distillation.distil(
            pair, distil_train.Recipe(1, None, (1,), 2, 8), 8, 0.01, 2, say=lambda line: None
        )
        distillation.save(draft, about, out, "draft-dry-run")
        return
    sizes = ["--rows", "64", "--write", "1024", "--length", "224", "--states", "--start", str(STATE_DRAFT_FILE)]
    sizes += ["--prompts", "10"]
    minutes = (
        max(seconds - 30, 20) / 60
    )  # the remaining time is for loading and for the measurement on held-out prompts
    arguments = ["--out", str(out), "--device", str(device), "--dtype", "bfloat16", "--minutes", f"{minutes:.2f}"]
    distillation.main.main([*arguments, *sizes], standalone_mode=False)
