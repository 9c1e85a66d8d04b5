"""The parts of the engine by themselves: masks, caches, texts; and no look at a value on the way."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_models import tiny_llama, tiny_pair, tiny_state_pair

import ot_draft as otd

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from ot_draft.decoding.cache import (  # noqa: E402
    SequenceBatch,
    SlotCache,
    tree_mask,
)
from ot_draft.decoding.drafting import Drafting  # noqa: E402
from ot_draft.decoding.language_model import bytes_read  # noqa: E402
from ot_draft.decoding.loop import DecodeOptions, begin  # noqa: E402
from ot_draft.decoding.pair import Pair  # noqa: E402

UNEVEN = otd.trees.TreeShape((0, 0, 0, 1, 1, 3, 6))
SEQUENTIAL = otd.trees.TokenWise(otd.rules.KSeq())


def test_a_node_sees_the_context_itself_and_its_ancestors() -> None:
    lengths = torch.tensor([2, 0])
    attention_mask = UNEVEN.layout(UNEVEN.parents_of(torch.zeros((2, UNEVEN.size), dtype=torch.int64))).attention_mask
    visible = tree_mask(torch.from_numpy(attention_mask.copy()), lengths, 12)
    assert visible.shape == (2, UNEVEN.size + 1, 12)
    for row, length in enumerate([2, 0]):
        for node in range(UNEVEN.size + 1):
            seen = {slot - length for slot in range(length, 12) if visible[row, node, slot]}
            assert seen == {0, node, *UNEVEN.path(node)}
            assert visible[row, node, :length].all()


def test_rows_move_at_once_also_where_they_overlap() -> None:
    cache = SlotCache(8)
    keys = torch.arange(16.0).reshape(2, 1, 8, 1)
    cache.slots = torch.arange(8).expand(2, 8)
    cache.update(keys, -keys, 0)
    cache.move(torch.tensor([[3, 2, 5], [5, 6, 7]]), torch.tensor([[2, 3, 4], [4, 5, 6]]))
    assert cache.keys[0][:, 0, :, 0].tolist() == [[0, 1, 3, 2, 5, 5, 6, 7], [8, 9, 10, 11, 13, 14, 15, 15]]
    assert torch.equal(cache.values[0], -cache.keys[0])


@pytest.mark.parametrize("widths", [(4, 4), (6, 4)], ids=["alike", "keys are wider than values"])
def test_the_cache_takes_no_more_than_its_layers_need(widths: tuple[int, int]) -> None:
    cache, layers = SlotCache(8, 5), 5
    cache.slots = torch.arange(3).expand(2, 3)
    for layer in range(layers):
        cache.update(*(torch.full((2, 1, 3, width), float(layer)) for width in widths), layer)
    assert cache.bytes == layers * 2 * 8 * sum(widths) * 4
    cache.move(torch.tensor([[2], [1]]), torch.tensor([[0], [0]]))
    for layer in range(layers):  # every layer has memory of its own
        assert (cache.keys[layer][:, :, :3] == layer).all() and (cache.values[layer][:, :, :3] == layer).all()
        assert (cache.keys[layer][:, :, 3:] == 0).all()


def test_k_paths_need_one_cache_of_the_prompt() -> None:
    pair, prompt = tiny_pair(), list(range(8)) * 12
    used = {}
    for many in (1, 8):
        engine = begin(pair, [prompt], Drafting.chains(many, 4, SEQUENTIAL), DecodeOptions(max_tokens=16)).next()
        used[many] = engine.target.cache.bytes, engine.drafter.runner.cache.bytes
        memory = [tensor.data_ptr() for tensor in engine.target.cache.keys.values()]
        _one_step(engine)
        assert [tensor.data_ptr() for tensor in engine.target.cache.keys.values()] == memory  # nothing is taken anew
    token = 2 * 2 * 8 * 8  # bytes of a token: layers, keys and values, width of a head, float64
    for one, eight in zip(used[1], used[8], strict=True):
        # The nodes of seven paths more, not their prompts; slots come in multiples of 8.
        assert 0 < eight - one <= (4 * 7 + 7) * token < len(prompt) * token
        assert one < (len(prompt) + 16 + 20) * token


def test_texts_are_cut_at_stop_tokens_and_at_the_end() -> None:
    texts = SequenceBatch.after([[1, 2], [3], [4, 4]], [9], 4, 2, torch.device("cpu"))
    chosen = torch.tensor([[5, 9, 6], [9, -1, -1], [7, 8, 8]])
    assert texts.advance(torch.tensor([2, 0, 2]), chosen).tolist() == [[5, 9, -1], [9, -1, -1], [7, 8, 8]]
    assert texts.active.tolist() == [False, False, True]
    assert texts.lengths[2] == 4 and texts.last[2] == 8
    assert texts.advance(torch.tensor([1, 0, 2]), chosen).tolist() == [[-1] * 3, [-1] * 3, [7, -1, -1]]
    assert texts.active.tolist() == [False] * 3 and texts.emitted.tolist() == [2, 1, 4]


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize(
    "drafting",
    [
        Drafting.autoregressive(),
        Drafting(otd.trees.FixedTree(UNEVEN, otd.Hybrid(top=3)), otd.trees.NaivePath()),
        Drafting.chains(3, 2, SEQUENTIAL),
        Drafting.chains(3, 2, otd.trees.Joint()),
    ],
    ids=["autoregressive", "naive", "k-seq", "joint"],
)
def test_a_step_waits_for_no_value(drafting: Drafting) -> None:
    """On the meta device, which has no values, so that looking at one is an error: as in a CUDA graph."""
    _steps_without_values(Pair(tiny_llama(0).to("meta"), tiny_llama(1).to("meta")), drafting)


@pytest.mark.usefixtures("few_steps")
def test_nor_does_one_of_a_draft_that_reads_states() -> None:
    pair = tiny_state_pair()
    there = Pair(pair.target.to("meta"), pair.draft.to("meta"))
    _steps_without_values(there, Drafting.chains(3, 2, SEQUENTIAL))


def _steps_without_values(pair: Pair, drafting: Drafting) -> None:
    engine = begin(pair, [[1, 2, 3], [4]], drafting, DecodeOptions(max_tokens=8)).next()
    engine.draw(0, [0, 1], 0)
    engine.propose()
    engine.verify()
    assert engine.p.shape == (2, drafting.tree.bounds.size + 1, 8) and engine.p.device.type == "meta"
    engine.select()
    engine.keep()


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize(
    "drafting",
    [
        Drafting.autoregressive(),
        Drafting.chains(2, 3, SEQUENTIAL),
        Drafting.chains(3, 2, otd.trees.Joint(), otd.Hybrid(top=1)),
        Drafting.chains(3, 2, otd.trees.Joint(), otd.Hybrid(top="auto")),
        Drafting.chains(
            3, 2, otd.trees.TokenWise(otd.rules.RecursiveRejectionWithoutReplacement()), otd.WithoutReplacement()
        ),
    ],
    ids=["autoregressive", "k-seq", "hybrid", "hybrid-auto", "without-replacement"],
)
def test_what_is_recorded_takes_nothing_from_the_host(drafting: Drafting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python numbers become a tensor by a copy to the device, which a CUDA graph cannot hold."""
    _nothing_from_the_host(Pair(tiny_llama(0).to("meta"), tiny_llama(1).to("meta")), drafting, monkeypatch)


@pytest.mark.usefixtures("few_steps")
def test_nor_does_what_reads_states(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = tiny_state_pair()
    there = Pair(pair.target.to("meta"), pair.draft.to("meta"))
    _nothing_from_the_host(there, Drafting.chains(2, 3, SEQUENTIAL), monkeypatch)


def _nothing_from_the_host(pair: Pair, drafting: Drafting, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the meta device, which takes the ways of a device."""
    engine = begin(pair, [[1, 2, 3], [4]], drafting, DecodeOptions(max_tokens=8)).next()
    engine.draw(0, [0, 1], 0)
    _one_step(engine)  # the first one may: it comes before the recording
    asked: list[str] = []
    for name in ("tensor", "as_tensor", "from_numpy"):
        made = getattr(torch, name)
        monkeypatch.setattr(
            torch, name, lambda *given, made=made, **more: (asked.append(str(given)), made(*given, **more))[1]
        )
    _one_step(engine)
    assert asked == []


def test_shapes_of_a_step_do_not_depend_on_what_was_accepted() -> None:
    engine = begin(
        tiny_pair(), [[1, 2, 3], [4]], Drafting.chains(2, 3, SEQUENTIAL), DecodeOptions(max_tokens=12)
    ).next()
    addresses = _addresses(engine)
    for step in range(3):
        engine.draw(0, [0, 1], step)
        _one_step(engine)
        assert _addresses(engine) == addresses


@pytest.mark.parametrize("family", ["Qwen2", "GPTNeoX", "GPT2"])
def test_other_families_of_models(family: str) -> None:
    from ot_draft.decoding.loop import decode
    from ot_draft.decoding.reference import reference_decode

    pair, options = Pair(_other(family, 1), _other(family, 2)), DecodeOptions(max_tokens=10)
    drafting = Drafting.chains(2, 3, SEQUENTIAL)
    prompts = [[1, 2, 3, 4], [5]]
    expected = [reference_decode(pair, prompt, drafting, options, row) for row, prompt in enumerate(prompts)]
    assert decode(pair, prompts, drafting, options).tokens == expected


def _other(family: str, seed: int) -> Any:
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2}
    if family == "Qwen2":
        sizes["num_key_value_heads"] = 1
    if family == "GPT2":
        sizes = {"n_embd": 16, "n_head": 2, "n_layer": 2}
    ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    config = getattr(transformers, f"{family}Config")(vocab_size=8, initializer_range=0.4, **sizes, **ends)
    name = f"{family}LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM"
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return getattr(transformers, name)(config).double().eval().requires_grad_(False)


def _one_step(engine: Any) -> None:
    engine.propose()
    engine.verify()
    engine.select()
    engine.keep()


def _addresses(engine: Any) -> list[int]:
    fixed = [
        engine.drafter.tokens,
        engine.drafter.q,
        engine.length,
        engine.nodes,
        engine.chosen,
        engine.emitted,
        engine.uniforms,
    ]
    fixed += [*vars(engine.texts).values()][:-1]
    fixed += [
        memory
        for reader in (engine.target, engine.drafter.runner)
        for memory in (*reader.cache.keys.values(), *reader.cache.values.values())
    ]
    return [tensor.data_ptr() for tensor in fixed]


@pytest.mark.parametrize("tied", [True, False])
def test_the_bytes_that_a_pass_reads(tied: bool) -> None:
    embedding, head = torch.nn.Embedding(10, 4), torch.nn.Linear(4, 10, bias=False)
    if tied:
        head.weight = embedding.weight
    model = torch.nn.ModuleDict({"embedding": embedding, "up_proj": torch.nn.Linear(4, 3), "head": head})
    assert bytes_read(model) == 4 * (4 * 3 + 3 + 40)  # of the embedding a few rows, not counted
