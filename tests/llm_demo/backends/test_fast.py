"""Models in OpenVINO: the numbers of the file's weights, trees that equal plain decoding in every bit, and drafts that read states."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from chances import chance
from decoding import test_decode_law as texts_law
from slow import slow
from test_blocks import SIZES, in_blocks
from tiny_models import tiny_llama

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")
pytest.importorskip("openvino")
pytest.importorskip("numba")

from llm_demo.backends import fast_graph, fast_models  # noqa: E402
from llm_demo.backends.fast_attention import kernels  # noqa: E402
from llm_demo.backends.fast_graph import (  # noqa: E402
    Attention,
    Compiled,
    Pass,
    Product,
    quantizes_activations,
    rows_in,
)
from llm_demo.backends.fast_models import FastDraft, FastTarget  # noqa: E402
from llm_demo.backends.fast_weights import GROUP, MIDDLE, Weights  # noqa: E402
from llm_demo.backends.in_openvino import FEW  # noqa: E402
from llm_demo.distil.train import as_tensors  # noqa: E402
from ot_draft.decoding import (  # noqa: E402
    Auto,
    CannotDecode,
    DecodeOptions,
    Drafting,
    Pair,
    SamplingParams,
    decode,
    load_pair,
)
from ot_draft.decoding.draft_models import StateDraft  # noqa: E402
from ot_draft.decoding.gguf_files import write_blocks  # noqa: E402
from ot_draft.decoding.language_model import language_model  # noqa: E402
from ot_draft.decoding.reference import reference_decode  # noqa: E402
from ot_draft.trees import BlockVerification, FixedTree, Joint, TreeShape  # noqa: E402

N = 40
TEXT = [(7 * place) % N for place in range(1, 50)]
KINDS = ["Q4_0", "Q4_1", "Q8_0"]


def target_of(
    folder: Path,
    kind: str,
    exact: bool = False,
    other: str | None = None,
    seed: int = 7,
    n: int = N,
    fitted: tuple[int, ...] = fast_models.FITTED,
) -> tuple[Any, Any]:
    """A target of a converted file, and transformers' model of the same numbers in float32."""
    model = tiny_llama(seed, n, 3, torch.float32, 0.3, **SIZES)
    its = gguf.GGMLQuantizationType.Q8_0
    model.lm_head.weight.copy_(torch.from_numpy(gguf.dequantize(gguf.quantize(model.lm_head.weight.numpy(), its), its)))
    blocks = in_blocks(model, kind, other)
    model.save_pretrained(folder)
    write_blocks(SimpleNamespace(tensors=blocks), folder, model.config)
    return FastTarget(folder, exact, fitted), model


def far(one: Any, other: Any) -> float:
    """The largest total variation between laws of logits."""
    return float((one.softmax(-1) - other.softmax(-1)).abs().sum(-1).max() / 2)


@pytest.mark.parametrize(("kind", "other"), [*((kind, None) for kind in KINDS), ("Q4_0", "Q5_1")])
def test_the_law_is_that_of_the_files_weights(kind: str, other: str | None, tmp_path: Path) -> None:
    """Float activations give the file's distribution to rounding; int8 activations differ by their rounding, where the CPU has it."""
    places = list(range(1, len(TEXT)))
    exact, model = target_of(tmp_path, kind, True, other, fitted=())  # all rows are read in one pass
    wanted = language_model(model, N).full_pass(TEXT, places).logits
    assert far(language_model(exact, N).full_pass(TEXT, places).logits, wanted) < 1e-5
    other_target = FastTarget(tmp_path, False, ())
    distance = far(language_model(other_target, N).full_pass(TEXT, places).logits, wanted)
    if quantizes_activations():
        assert 1e-5 < distance < 0.25 and other_target.law == fast_models.INT8
    else:
        assert distance < 1e-5 and other_target.law == fast_models.NO_INT8
    planted, _ = target_of(tmp_path / "other", kind, True, seed=8, fitted=())
    assert far(language_model(planted, N).full_pass(TEXT, places).logits, wanted) > 0.25


@pytest.mark.parametrize(("bits", "groups", "least"), [(4, 3, True), (4, 3, False), (8, 3, False), (8, 1, False)])
def test_a_product_is_that_of_the_weights(bits: int, groups: int, least: bool) -> None:
    """Also of groups whose weights are all the least; with rounded rows to the rounding of these."""
    random = np.random.default_rng(5)
    codes = random.integers(0, 16, (24, 3 * GROUP), np.uint8) if bits == 4 else random.integers(-127, 128, (24, 96))
    codes = codes.reshape(24, groups, -1).astype(np.uint8 if bits == 4 else np.int8)
    scales = random.uniform(0.01, 0.1, (24, groups)).astype(np.float16)
    scales[3] = scales[7, 0] = 0
    lows = random.uniform(-1, 1, (24, groups)).astype(np.float32) if least else None
    weights = Weights(codes, scales, lows)
    values = (codes.astype(float) - (MIDDLE if bits == 4 else 0)) * scales[..., None] + (
        0 if lows is None else lows[..., None]
    )
    rows = random.standard_normal((5, 3 * GROUP)).astype(np.float32)
    wanted = rows @ values.reshape(24, -1).T
    for group, off in ((0, 1e-5), (GROUP, 0.02)) if quantizes_activations() else ((0, 1e-5),):
        for fitted in ((), (5,), (1, 2)):
            entered, times = partial(rows_in, 3 * GROUP), Product([weights])
            (found,) = Compiled(lambda _, x, times=times: [times(x)], [entered], group, fitted)(rows)
            assert np.abs(found.numpy() - wanted).max() < off * np.abs(wanted).max()
        assert np.array_equal(weights.codes, codes)


@pytest.mark.parametrize("exact", [False, True])
def test_it_says_how_many_rows_its_passes_have(exact: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as a pass of one token was given, which is read twice where a row by itself has other bits."""
    target, _ = target_of(tmp_path, "Q4_1", exact)
    passes, read = language_model(target, N), list[int]()
    for least in (passes.call_sizes.min_rows, 3 - passes.call_sizes.min_rows):
        target.least = least
        monkeypatch.setattr(target, "_compiled", lambda x, rows: read.append(len(x)) or [torch.zeros(len(rows), N)])
        one = torch.zeros(1, 1, dtype=torch.int64)
        passes.forward(passes.cache(1), one, one, one, torch.ones(1, 1, 1, dtype=torch.bool))
        assert passes.call_sizes.min_rows == least == read[-1]


def test_activations_are_floats_where_openvino_rejects_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with ONEDNN_MAX_CPU_ISA=AVX2 on a CPU with AVX-512: a grouped product raises RuntimeError when it is compiled or run."""
    compiled = fast_graph.Compiled

    def rejecting(make: Any, inputs: Any, group: int, fitted: Any = ()) -> Any:
        if group:
            raise RuntimeError("could not create a primitive descriptor")
        return compiled(make, inputs, group, fitted)

    monkeypatch.setattr(fast_graph, "Compiled", rejecting)
    assert fast_graph.quantizes_activations.__wrapped__() is False


def test_without_graphs_of_their_own_where_these_would_have_other_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise distributions by trees would differ from those of autoregressive decoding. Looked at with int8 activations only."""
    monkeypatch.setattr(fast_models, "GROUP", GROUP if quantizes_activations() else 0)
    monkeypatch.setattr(fast_models, "quantizes_activations", lambda: True)
    target, run = target_of(tmp_path, "Q4_1")[0], FastTarget.run

    def other_bits(self: Any, graph: Any, least: int, *given: Any) -> Any:
        found, *others = run(self, graph, least, *given)
        return [found + (least in self.fitted), *others]

    monkeypatch.setattr(FastTarget, "run", other_bits)
    passes = language_model(target, N)
    assert passes.call_sizes.fitted == () and passes.call_sizes.min_rows in (1, 2)
    monkeypatch.setattr(FastTarget, "run", run)
    assert language_model(target_of(tmp_path, "Q4_1")[0], N).call_sizes.fitted == (1, 2)
    assert language_model(FastTarget(tmp_path, False, ()), N).call_sizes.fitted == ()


@pytest.mark.parametrize("exact", [False, True])
def test_graphs_of_their_own_give_what_the_general_one_gives(exact: bool, tmp_path: Path) -> None:
    """Logits, features and the cache after passes of one to four rows, of one text and of two: bitwise with int8 activations."""
    own, general = target_of(tmp_path, "Q4_1", exact)[0], FastTarget(tmp_path, exact, ())
    both = [own.as_model(N, (1,)), general.as_model(N, (1,))]
    assert [passes.call_sizes.fitted for passes in both] == [(1, 2), ()]
    tokens, slots = torch.tensor(TEXT)[None], torch.arange(len(TEXT))[None]
    attention_mask = torch.ones(len(TEXT), len(TEXT), dtype=torch.bool).tril()[None]
    caches = [passes.cache(len(TEXT)) for passes in both]
    for start, rows, last in ((0, 20, 1), (20, 1, 0), (21, 2, 0), (23, 3, 0), (26, 2, 1), (28, 1, 0), (29, 4, 2)):
        at = slice(start, start + rows)
        one, other = (
            passes.forward(cache, tokens[:, at], slots[:, at], slots[:, at], attention_mask[:, at], last)
            for passes, cache in zip(both, caches, strict=True)
        )
        pairs = [(one.logits, other.logits), (one.hidden, other.hidden)]
        pairs += [tuple(torch.from_numpy(getattr(cache, name)) for cache in caches) for name in ("keys", "values")]
        for mine, theirs in pairs:
            assert mine.shape == theirs.shape
            same = torch.allclose(mine, theirs, atol=1e-4) if general.exact else torch.equal(mine, theirs)
            assert same, (start, rows)


def test_few_tokens_are_not_worth_graphs_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The costs that are kept are told apart by it, too."""
    file = tmp_path / "a.gguf"
    file.touch()
    target_of(tmp_path, "Q4_1")
    monkeypatch.setattr("llm_demo.backends.in_openvino.folder_of", lambda name, progress: tmp_path)
    monkeypatch.setattr("llm_demo.backends.in_openvino.tokenizer_of", lambda folder, role: None)
    unknown, enough, few = (
        load_pair(str(file), "lookup", backend="openvino", tokens=tokens) for tokens in (None, FEW, FEW - 1)
    )
    for pair, fitted in ((unknown, (1, 2)), (enough, (1, 2)), (few, ())):
        assert language_model(pair.target, N).call_sizes.fitted == fitted
    assert unknown.name == enough.name != few.name


def test_a_pass_may_run_on_every_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenVINO puts its threads on the first processors if it is let, in every process on the same ones."""
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("takes two processors, and a system that says where a thread may run")
    target, _ = target_of(tmp_path, "Q8_0")
    passes, allowed, attend = language_model(target, N), list[set[int]](), Pass.attend

    def noted(now: Pass, *arguments: Any) -> None:
        allowed.append(os.sched_getaffinity(0))  # of the thread that computes
        attend(now, *arguments)

    monkeypatch.setattr(Pass, "attend", noted)
    passes.full_pass(TEXT, [1])
    assert allowed and all(each == os.sched_getaffinity(0) for each in allowed)


def test_passes_of_other_numbers_of_rows_leave_nothing_behind(tmp_path: Path) -> None:
    """OpenVINO asks for shapes anew where their number changes, and never frees a node in Python."""
    target, _ = target_of(tmp_path, "Q8_0")
    passes = language_model(target, N)
    cache = passes.cache(8)

    def alive() -> int:
        return sum(isinstance(each, Attention) for each in gc.get_objects())

    def read(rows: int) -> Any:
        slots = torch.arange(rows)[None]
        return passes.forward(cache, slots, slots, slots, torch.ones(1, rows, 8, dtype=torch.bool).tril(), 1).logits

    first = [read(rows) for rows in (2, 3, 5)]
    before = alive()
    again = [read(rows) for rows in (2, 3, 5, 4, 2, 3, 5)]
    assert alive() == before > 0
    assert all(torch.equal(one, other) for one, other in zip(first, again[-3:], strict=True))


def attended(slots: list[int], reorder: bool = False) -> Any:
    """What the last of so many tokens attends to, where they stand in these of 64 slots, in this order or with the first two swapped."""
    fill, attend = kernels(64, 3)
    random = np.random.default_rng(0)
    qkv = random.standard_normal((len(slots), (9 + 2 * 3) * 64)).astype(np.float32)
    keys, values = random.standard_normal((2, 64, 3, 64)).astype(np.float32)
    attention_mask = np.zeros((1, len(slots), 64), bool)
    for row in range(len(slots)):
        attention_mask[0, row, slots[: row + 1]] = True
    found, counts = np.zeros((len(slots), 64), np.int64), np.zeros(len(slots), np.int64)
    fill(attention_mask, 64, found, counts)
    if reorder:
        found[:, :2] = found[:, 1::-1]
    angles = np.arange(32) * np.arange(len(slots))[:, None] / 7
    turns, out = (
        (np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)),
        np.zeros((len(slots), 576), np.float32),
    )
    attend(
        qkv,
        keys,
        values,
        np.array(slots),
        found,
        counts,
        *turns,
        np.zeros((3, 64), np.float32),
        np.zeros((3, 64), np.int32),
        out,
    )
    return out, qkv, turns


def test_attention_is_the_same_in_every_bit_wherever_the_slots_lie() -> None:
    chain, qkv, (cosines, sines) = attended(list(range(11)))
    scattered, *_ = attended([0, 1, 2, 7, 9, 20, 22, 30, 41, 50, 63])
    assert np.array_equal(chain, scattered)
    swapped, *_ = attended(list(range(11)), reorder=True)
    assert not np.array_equal(chain[2:], swapped[2:]) and np.allclose(chain[2:], swapped[2:], atol=1e-5)
    heads = torch.from_numpy(qkv).view(11, 15, 64)
    half = torch.cat((-heads[..., 32:], heads[..., :32]), -1)
    turned = heads * torch.from_numpy(cosines)[:, None].repeat(1, 1, 2) + half * torch.from_numpy(sines)[
        :, None
    ].repeat(1, 1, 2)
    keys, values = turned[:, 9:12].repeat_interleave(3, 1), heads[:, 12:].repeat_interleave(3, 1)
    args = (x.transpose(0, 1)[None] for x in (turned[:, :9], keys, values))
    wanted = torch.nn.functional.scaled_dot_product_attention(*args, is_causal=True)[0].transpose(0, 1)
    assert np.allclose(wanted.reshape(11, -1).numpy(), chain, atol=1e-6)


def state_draft(target: FastTarget, model: Any) -> tuple[Any, Any]:
    """A draft that reads its states, and the same by transformers."""

    made = tiny_llama(11, N, 2, torch.float32, 0.3, **SIZES).model
    draft = StateDraft(made, model.get_input_embeddings(), torch.arange(0, N, 2), (1, 2)).float().requires_grad_(False)
    made.set_input_embeddings(model.get_input_embeddings())
    generator = torch.Generator().manual_seed(3)
    for weight in (draft.fuse.weight, draft.project.weight):
        weight.copy_(0.3 * torch.randn(weight.shape, generator=generator))

    return FastDraft(as_tensors(draft), target), draft.eval()


def test_a_draft_that_reads_states(tmp_path: Path) -> None:
    target, model = target_of(tmp_path, "Q8_0")
    draft, theirs = state_draft(target, model)
    pair, places = Pair(target, draft), [3, 10, 20, 30]
    _, found = pair.logits_along(TEXT, places)
    _, wanted = Pair(model, theirs).logits_along(TEXT, places)
    assert far(found, wanted) < 0.15
    assert torch.equal(found.isinf(), wanted.isinf()) and bool(found[0].isinf().any())
    tree = Drafting.of(FixedTree(TreeShape((0, 0, 1, 2, 3))))
    greedy = DecodeOptions(SamplingParams(0.0), max_tokens=40, stop=())
    prompts = [TEXT[:9], TEXT[:5]]
    plain = [decode(pair, [prompt], options=greedy).tokens[0] for prompt in prompts]
    drafted = decode(pair, prompts, tree, greedy)
    assert drafted.tokens == plain and drafted.block_efficiency > 1


@pytest.mark.parametrize("drafting", [Drafting.chains(1, 4, BlockVerification()), slow(Drafting.chains(3, 3, Joint()))])
def test_drawn_texts_are_those_of_the_reference(drafting: Drafting, tmp_path: Path) -> None:
    """What the draft is given at each token too: its own states where tokens were drafted, the target's once they are accepted."""
    target, model = target_of(tmp_path, "Q8_0", exact=True)
    pair, options = Pair(target, state_draft(target, model)[0]), DecodeOptions(max_tokens=60, stop=(), seed=2)
    made = decode(pair, [TEXT[:9]], drafting, options)
    assert made.tokens == [reference_decode(pair, TEXT[:9], drafting, options)]
    assert made.block_efficiency > 1.1


def test_the_shape_that_chooses_itself(tmp_path: Path) -> None:
    """By its own clock, which asks the models where they are and what they read: they are no modules of torch."""
    target, model = target_of(tmp_path, "Q8_0", exact=True)
    draft, _ = state_draft(target, model)
    target.compiled(draft.reads)  # as `load_pair` does
    pair, auto = Pair(target, draft), Auto()
    made = decode(pair, [TEXT[:9]], auto, DecodeOptions(max_tokens=20, stop=()))
    assert len(made.tokens[0]) == 20 and not any(costs.needs(()) == 0 for costs in auto.measured.values())


def test_texts_of_several_threads_are_those_of_one(tmp_path: Path) -> None:
    """They share the graphs, which are one pass's at a time: two at once end the process."""
    target, model = target_of(tmp_path, "Q8_0", exact=True)
    pair, options = Pair(target, state_draft(target, model)[0]), DecodeOptions(max_tokens=24, stop=(), seed=2)

    def one(start: int) -> list[list[int]]:
        return decode(pair, [TEXT[start : start + 9]], Drafting.chains(1, 4, BlockVerification()), options).tokens

    wanted = [one(start) for start in range(6)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(6))) == wanted


@texts_law.MANY
@pytest.mark.parametrize("drafting", [slow("k-seq"), "block verification", slow("autoregressive")])
def test_texts_follow_the_law_of_that_target(
    drafting: str, many: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 4-bit weights and rows rounded to 8 bits; drafted by another one of a file."""
    target, draft = (target_of(tmp_path / str(seed), "Q4_1", seed=seed, n=texts_law.N)[0] for seed in (7, 9))
    pair = Pair(target, draft)
    monkeypatch.setattr(texts_law, "models", lambda: pair)
    policy, sampling = texts_law.DRAFTINGS[drafting](), texts_law.SamplingParams()
    counts = texts_law.emitted(policy, sampling, texts_law.TEXTS[many])

    def verdict() -> float:
        laws = (texts_law.exact_law.__wrapped__(tuple(prompt), sampling) for prompt in texts_law.PROMPTS)
        return min(chance(*each) for each in zip(counts, laws, strict=True))

    assert verdict() > texts_law.FALSE_ALARM / len(texts_law.PROMPTS)
    # Planted: texts of this target do not pass for another one's.
    other = Pair(tiny_llama(8, texts_law.N, 3, torch.float32, 0.3, **SIZES), pair.draft)
    monkeypatch.setattr(texts_law, "models", lambda: other)
    assert verdict() < 1e-6


def test_what_it_cannot_read_is_named(tmp_path: Path) -> None:
    for settings in ({"dtype": "float16"}, {"cache": False}):
        with pytest.raises(CannotDecode, match=r"backend openvino requires a .gguf file or directory"):
            load_pair("a.gguf", "lookup", backend="openvino", **settings)
    with pytest.raises(CannotDecode, match=r"backend must be one of auto, torch, .*got 'tpu'"):
        load_pair("a.gguf", "lookup", backend="tpu")
