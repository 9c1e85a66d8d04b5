"""Estimated speed-up of large targets: measured costs of random weights of their shape, and tokens per target call of real trees.

Models with random weights accept no drafts, so that their speed-up cannot be measured. The cost of a step on a device does not depend on
the acceptance. The engine thus decodes with random weights of the right shape, and the speed-up is computed from the costs and from the
tokens per target call of each drafting method on real distributions: real_trees.csv, real_paths.csv (one path of every length) and
real_states.csv (a hidden-state draft) in figures/data. It holds for the acceptance of the draft that is named in every row; other pairs of
models have other acceptance.

speed_up: compared with the autoregressive step of the same engine, with fused layers (`fused_layer`) in a graph.
roofline_ms: bytes of the target's weights divided by the bandwidth of a copy, measured in the same run; of_roofline: the step in multiples
of it.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from llm_demo.bench.auto import plain_method
from llm_demo.bench.trees.calibration import EMBEDDED_STATES, Calibration
from llm_demo.bench.trees.methods import WAYS
from llm_demo.bench.trees.plans import DraftPlan
from llm_demo.distil.train import some_of
from llm_demo.gpu.fused_layer import fuse
from llm_demo.gpu.roofline import COPY, REPEATS, Timer, copy_bandwidth
from llm_demo.rows import Row, read
from ot_draft.decoding import DecodeOptions, Drafting, Pair
from ot_draft.decoding.benchmark import COSTS, MethodCosts, measure_costs
from ot_draft.decoding.draft_models import StateDraft
from ot_draft.decoding.methods import Method
from ot_draft.selection import approximate_for

DATA = Path(__file__).parents[2] / "figures" / "data"
TABLES = [DATA / f"{name}.csv" for name in ("real_trees", "real_paths", "real_states")]
PLANS = [DATA / f"{name}_plans.json" for name in ("real_trees", "real_states")]
ONE_PATH = "one path, block"
LENGTHS = (1, 2, 3, 4, 6, 8)  # lengths of one path
BUDGETS = {"chains, Joint": (32,), "Sequoia, traversal": (32,), "counted, traversal": (16, 32, 64)}
TEMPERATURES = (0.6, 1.0)
WARM_UP, TIMED, CONTEXT = 2, 5, 512  # numbers of untimed and timed steps of a run; number of tokens of every prompt
SUBSET = 32_768  # number of tokens that a hidden-state draft scores
OF_STATES, OTHER_MODEL = "2 layers that read its states", "a smaller model"
# Drafts whose acceptance is combined with the cost of each kind of draft.
ACCEPTANCE = {OF_STATES: (EMBEDDED_STATES,), OTHER_MODEL: ("8 layers fewer", "4 layers fewer")}


@dataclass(frozen=True)
class LlamaShape:
    """Sizes of a Llama. held: number of layers with separate weights; all others share these weights.

    A layer of a large model is many times as large as a GPU's cache, so that shared weights are read from memory again.
    """

    name: str
    hidden: int
    inner: int
    layers: int
    heads: int
    groups: int
    vocabulary: int
    held: int = 1000


ONE = LlamaShape("Llama 3.2 1B", 2048, 8192, 16, 32, 8, 128_256)
EIGHT = LlamaShape("Llama 3.1 8B", 4096, 14_336, 32, 32, 8, 128_256)
SEVENTY = LlamaShape("Llama 3.1 70B", 8192, 28_672, 80, 64, 8, 128_256, held=20)
# (target, draft); a draft of None has two layers of the target's width.
PAIRS: tuple[tuple[LlamaShape, LlamaShape | None], ...] = ((EIGHT, None), (EIGHT, ONE), (SEVENTY, None), (SEVENTY, ONE))
TINY = LlamaShape("dry run", 16, 32, 3, 2, 1, 40, held=2)
DRY: tuple[tuple[LlamaShape, LlamaShape | None], ...] = ((TINY, None), (TINY, TINY))


def large_rows(device: torch.device, seconds: float, dry: bool) -> Iterator[Row]:
    """Yield a row for every shape, method, number of nodes and acceptance; no pair is started after the time limit in seconds."""
    end, known, made = time.monotonic() + seconds, Acceptance.read(), dict[LlamaShape, Any]()
    timer, bandwidth, unfused = None, 0.0, dict[LlamaShape, MethodCosts]()
    for target, draft in DRY if dry else PAIRS:
        if time.monotonic() > end:
            return
        prompt = torch.randint(
            target.vocabulary, (1, 4 if dry else CONTEXT), generator=torch.Generator().manual_seed(1)
        )
        if target not in made:
            model = random_model(target, device, torch.float32 if dry else torch.bfloat16)
            unfused[target] = _autoregressive(model, prompt.tolist())
            made = {target: fuse(model)}
        pair = Pair(made[target], _draft(made[target], draft))
        timer = timer or Timer(device, REPEATS if device.type == "cuda" else 2)
        bandwidth = bandwidth or copy_bandwidth(timer, COPY if timer.on_cuda else 1 << 20)
        floor = {"roofline_ms": f"{1000 * bytes_read(made[target]) / bandwidth:.4g}"}
        about = {"target": target.name, "draft": draft.name if draft else OF_STATES} | floor
        yield from (
            with_roofline(about | row)
            for row in _ways(pair, prompt.tolist(), OTHER_MODEL if draft else OF_STATES, known, dry, unfused[target])
        )
        del pair
        if device.type == "cuda":
            torch.cuda.empty_cache()


def bytes_read(model: Any) -> int:
    """Return the minimum number of bytes of weights that a forward pass of few tokens reads: all layers, the norm and the head.

    Parameters
    ----------
    model : LlamaForCausalLM
        Layers may share their weights, which are then counted once per layer.

    Returns
    -------
    size : int
        Number of bytes. Activations, keys and values are not counted.
    """
    modules = [*model.model.layers, model.model.norm, model.lm_head]
    return sum(weight.numel() * weight.element_size() for module in modules for weight in module.parameters())


def with_roofline(row: Row) -> Row:
    """Return the row with its step time as a multiple of the roofline: the bytes of the target divided by the copy bandwidth."""
    return row | {"of_roofline": f"{float(row['step_ms']) / float(row['roofline_ms']):.4g}"}


def _draft(target: Any, shape: LlamaShape | None) -> Any:
    embedding = target.get_input_embeddings()
    if shape is not None:
        return fuse(random_model(shape, embedding.weight.device, embedding.weight.dtype))
    config = target.config
    two = LlamaShape(
        OF_STATES, config.hidden_size, config.intermediate_size, 2, config.num_attention_heads,
        config.num_key_value_heads, 8,
    )  # fmt: skip
    backbone = random_model(two, embedding.weight.device, embedding.weight.dtype).model
    backbone.set_input_embeddings(embedding)
    scored = torch.arange(min(SUBSET, config.vocab_size), device=embedding.weight.device)
    draft = StateDraft(backbone, embedding, scored, some_of(config.num_hidden_layers))
    return fuse(draft.to(embedding.weight).eval().requires_grad_(False))


def random_model(shape: LlamaShape, device: torch.device, dtype: torch.dtype) -> Any:
    """Return a Llama of this shape with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    ends: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    config = LlamaConfig(
        vocab_size=shape.vocabulary, hidden_size=shape.hidden, intermediate_size=shape.inner,
        num_hidden_layers=min(shape.layers, shape.held), num_attention_heads=shape.heads,
        num_key_value_heads=shape.groups, max_position_embeddings=4096, tie_word_embeddings=True, **ends,
    )  # fmt: skip
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)  # otherwise the weights would first be allocated in float32
    try:
        with torch.device(device):
            model: Any = LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    held = list(model.model.layers)
    model.model.layers = nn.ModuleList([_again(held[i % len(held)], i) for i in range(shape.layers)])
    model.config.num_hidden_layers = shape.layers
    return model.eval().requires_grad_(False)


def _again(layer: Any, number: int) -> Any:
    """Return layer `number` with the weights of another layer and a separate index in the cache."""
    twin, attention = copy.copy(layer), copy.copy(layer.self_attn)
    attention.layer_idx = number
    twin._modules = layer._modules | {"self_attn": attention}
    return twin


@dataclass(frozen=True)
class Acceptance:
    """Results on real distributions: the plans of every draft, and tokens per target call by (draft, temperature, way, nodes)."""

    plans: Mapping[str, Mapping[str, DraftPlan]]
    tokens: Mapping[tuple[str, float, str, int], float]

    @classmethod
    def read(cls) -> Acceptance:
        """Read the committed tables."""
        plans = {name: of for file in PLANS for name, of in Calibration.read(file).plans.items()}
        return cls(plans, tokens_a_call([row for file in TABLES for row in read(file)]))

    def drafting(self, draft: str, temperature: float, way: str, nodes: int) -> Drafting:
        """Return the drafting of a method in the tables."""
        of = WAYS[way]
        tree = of.drafts(self.plans[draft][str(temperature)], nodes, False)
        return Drafting.of(tree, approximate_for(of.rule, tree.law))


def tokens_a_call(rows: Sequence[Row]) -> dict[tuple[str, float, str, int], float]:
    """Return the mean accepted length over all contexts plus 1, by (draft, temperature, way, nodes)."""
    lengths: dict[tuple[str, float, str, int], list[float]] = {}
    for row in rows:
        for way in (name for name in WAYS if row.get(name)):
            key = row["draft"], float(row["temperature"]), way, int(row["nodes"])
            lengths.setdefault(key, []).append(float(row[way]))
    return {key: 1 + sum(found) / len(found) for key, found in lengths.items()}


def _autoregressive(model: Any, prompts: list[list[int]]) -> MethodCosts:
    """Return the costs of an autoregressive step."""
    room = DecodeOptions(max_tokens=WARM_UP + 3 * TIMED, stop=())
    plain = plain_method()
    return measure_costs(Pair(model, model), prompts, [plain], room, warm_up=WARM_UP, timed=TIMED, rounds=1)[plain]


def _ways(
    pair: Pair, prompts: list[list[int]], kind: str, known: Acceptance, dry: bool, unfused: MethodCosts
) -> Iterator[Row]:
    """Yield the costs of an autoregressive step and of a step of every method, with the speed-up at each acceptance.

    unfused: costs of an autoregressive step with transformers' layers.
    """
    asked = [(ONE_PATH, length) for length in LENGTHS] + [(way, n) for way, each in BUDGETS.items() for n in each]
    plain, methods, cells = plain_method(), dict[Drafting, Method](), []
    for way, nodes in asked[:: 4 if dry else 1]:
        for draft in ACCEPTANCE[kind]:
            for temperature in TEMPERATURES:
                # The cost of a dynamic tree does not depend on its counted acceptance; that of a static tree depends on its shape.
                of = (ACCEPTANCE[kind][0], 1.0) if way.startswith("counted") else (draft, temperature)
                drafting = known.drafting(*of, way, nodes)
                methods[drafting] = Method.of(way, "", way, f"{nodes} nodes", drafting)
                cells.append((draft, temperature, way, nodes, drafting))
    steps = WARM_UP + 3 * TIMED  # of the autoregressive method, which makes most steps
    room = DecodeOptions(max_tokens=steps * 13, stop=())  # sufficient if all draft tokens are accepted
    costs = measure_costs(pair, prompts, [plain, *methods.values()], room, warm_up=WARM_UP, timed=TIMED, rounds=1)
    one = costs[plain].step
    yield _row(plain.label, 0, costs[plain], one)
    yield _row(f"{plain.label}, layers of transformers", 0, unfused, one)
    for draft, temperature, way, nodes, drafting in cells:
        tokens = known.tokens[draft, temperature, way, nodes]
        yield _row(way, nodes, costs[methods[drafting]], one, draft, temperature, tokens)


def _row(way: str, nodes: int, cost: MethodCosts, plain: float, of: str = "", at: Any = "", tokens: float = 1) -> Row:
    costs = {f"{name}_ms": f"{1000 * getattr(cost, name):.4g}" for name in ("step", *COSTS)}
    gain = {"tokens_a_call": f"{tokens:.4g}", "speed_up": f"{tokens * plain / cost.step:.4g}"}
    return {"way": way, "nodes": nodes, "acceptance_of": of, "temperature": at} | costs | gain
