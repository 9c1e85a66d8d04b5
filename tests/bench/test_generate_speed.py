"""Time of one target call inside `generate`, one drafted path, against transformers' own assisted generation: run by `make bench` only.

The same target, the same draft, the same prompts, in turn, on one thread, in seconds of that thread: other programs take none of
them. The pass over the prompt, which assisted generation makes together with its first drafts, counts as a target call.
A measurement, not a judgement: a slow or busy machine makes no test fail.
"""

from __future__ import annotations

import statistics
from time import process_time
from typing import Any

import pytest

import ot_draft as otd

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.integrations.transformers import multi_draft  # noqa: E402

ROUNDS, WARM_UP, NEW = 7, 1, 48
PROMPTS = [
    "The history of the steam engine begins in the first century, when",
    "def quicksort(numbers):\n    ",
    "Question: why is the sky blue? Answer:",
]


@pytest.fixture(scope="module")
def models() -> Any:
    """Target, the demo's draft layers under a head for the whole vocabulary (which assisted generation needs), tokenizer."""
    import copy

    from transformers import LlamaForCausalLM

    from llm_demo.models.load import load_pair, missing_packages

    if missing_packages():
        pytest.skip(f"no {', '.join(missing_packages())}: see the Makefile")
    pair = load_pair(backend="torch")
    target, layers = pair.target, pair.draft.backbone
    config = copy.deepcopy(target.config)
    config.num_hidden_layers = len(layers.layers)
    draft = LlamaForCausalLM(config)
    draft.model = layers
    draft.lm_head.weight = target.get_output_embeddings().weight
    return target, draft.eval().requires_grad_(False), pair.tokenizer


class Calls:
    """Counts the forward passes of a model."""

    def __init__(self, model: Any) -> None:
        self.count = 0
        self.handle = model.register_forward_hook(self._add)

    def _add(self, *_: Any) -> None:
        self.count += 1


@pytest.mark.parametrize("length", [4, 8])
def test_one_path_against_assisted_generation(benchmark: Any, models: Any, capsys: Any, length: int) -> None:
    target, draft, tokenizer = models
    settings = draft.generation_config
    settings.num_assistant_tokens, settings.num_assistant_tokens_schedule = length, "constant"
    settings.assistant_confidence_threshold = 0.0  # else it drafts less where the draft is unsure
    ways: dict[str, dict[str, Any]] = {
        "assisted": {"assistant_model": draft},
        "ours": {"custom_generate": multi_draft(draft, otd.rules.SpeculativeSampling(), 1, length)},
    }
    prompts = [tokenizer(prompt, return_tensors="pt") for prompt in PROMPTS]
    calls, found = Calls(target), {name: list[tuple[float, float]]() for name in ways}

    def one_round() -> None:
        for prompt in prompts:
            for name, way in ways.items():
                calls.count, start = 0, process_time()
                texts = target.generate(**prompt, **way, do_sample=True, top_k=0, max_new_tokens=NEW, pad_token_id=0)
                seconds, made = process_time() - start, texts.shape[1] - prompt.input_ids.shape[1]
                found[name].append((seconds / calls.count, seconds / made))

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        benchmark.pedantic(one_round, rounds=ROUNDS, warmup_rounds=WARM_UP)
    finally:
        torch.set_num_threads(threads)
        calls.handle.remove()
    kept = {name: values[WARM_UP * len(prompts) :] for name, values in found.items()}
    pairs = list(zip(kept["ours"], kept["assisted"], strict=True))
    by_call, by_token = (statistics.median(a[i] / b[i] for a, b in pairs) for i in range(2))
    each = {name: 1e3 * statistics.median(call for call, _ in values) for name, values in kept.items()}
    benchmark.extra_info.update(by_call=by_call, by_token=by_token, target=1.0)
    with capsys.disabled():
        print(
            f"\nK = 1, L = {length}: {each['ours']:.1f} ms a target call, assisted generation {each['assisted']:.1f} ms;"
            f" ratio {by_call:.2f} a call (target 1), {by_token:.2f} a token"
        )


@pytest.mark.parametrize(("paths", "length"), [(1, 4), (8, 4)])
def test_a_processor_at_every_node(benchmark: Any, models: Any, capsys: Any, paths: int, length: int) -> None:
    target, draft, tokenizer = models
    steps: list[float] = []
    loop = multi_draft(draft, None, paths, length, on_step=lambda step: steps.append(step.seconds.total))
    prompts = [tokenizer(prompt, return_tensors="pt") for prompt in PROMPTS]
    ratios: list[float] = []  # of both rounds and the warm-up

    def one_round() -> None:
        for prompt in prompts:
            medians = []
            for penalty in (1.0, 1.1):
                steps.clear()
                given = {"do_sample": True, "top_k": 0, "max_new_tokens": NEW, "pad_token_id": 0}
                target.generate(**prompt, **given, repetition_penalty=penalty, custom_generate=loop)
                medians += [statistics.median(steps[1:])] if steps[1:] else []  # a text may end at once
            if len(medians) == 2:
                ratios.append(medians[1] / medians[0])

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        benchmark.pedantic(one_round, rounds=2, warmup_rounds=WARM_UP)
    finally:
        torch.set_num_threads(threads)
    ratio = statistics.median(ratios)
    benchmark.extra_info.update(ratio=ratio)
    with capsys.disabled():
        print(f"\nK = {paths}, L = {length}: a step with a repetition penalty takes {ratio:.2f} of one without")
