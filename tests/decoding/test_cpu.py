"""What makes passes cheap on a CPU computes what it says: other layouts, fewer bits, joined layers, grouped heads, lean passes."""

from __future__ import annotations

import copy
from threading import Thread
from typing import Any

import pytest
from tiny_models import tiny_llama, tiny_pair

import ot_draft as ot

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.decoding.cache import SlotCache, causal_mask, tree_mask  # noqa: E402
from ot_draft.decoding.cpu import (  # noqa: E402  # noqa: E402
    GROUPED,
    Float16Linear,
    Int8Linear,
    Part,
    bytes_read,
    group_heads,
    has_short_products,
    join,
    pack,
    pack_draft,
    pack_float16,
)
from ot_draft.decoding.cpu_llama import LeanLlamaModel, make_lean  # noqa: E402
from ot_draft.decoding.drafting import Drafting  # noqa: E402
from ot_draft.decoding.language_model import LanguageModel  # noqa: E402
from ot_draft.decoding.loop import DecodeOptions, decode  # noqa: E402


def test_packed_layers_compute_the_same() -> None:
    model = tiny_llama(3, 40, dtype=torch.float32)
    tokens = torch.arange(12).reshape(2, 6)
    plain = model(tokens).logits
    assert pack(model) == 0  # too small to gain by it
    assert pack(model, 0) in (0, 5)  # four in its layer, and the head; none where torch was built without oneDNN
    assert torch.allclose(model(tokens).logits, plain, rtol=0, atol=1e-5 * plain.abs().max().item())
    assert pack(tiny_llama(3), 0) == 0  # float64 is left alone


def test_layers_of_8_bits_read_every_row_by_itself() -> None:
    model = tiny_llama(3, 40, dtype=torch.float32)
    replaced = pack_draft(model)
    if not replaced:
        pytest.skip("torch has no products of 8 bits here")
    assert replaced == 2 and type(model.model.layers[0].mlp.down_proj) is torch.nn.Linear
    assert pack_draft(model) == pack_draft(tiny_llama(3)) == 0  # done already; float64 is left alone
    linear = torch.nn.Linear(64, 300)
    head, rows = Int8Linear(linear), torch.randn(2, 5, 64) * torch.logspace(-3, 3, 5)[:, None]
    rows[1, 3] = 0
    with torch.no_grad():
        wanted, found = linear(rows), head(rows)
        each = torch.stack([torch.stack([head(row[None])[0] for row in text]) for text in rows])
    assert torch.equal(found, each)
    assert torch.equal(found[1, 3], linear.bias)
    assert ((found - wanted).abs().amax(-1) <= 0.03 * wanted.abs().amax(-1)).all()


def test_layers_of_16_bits_compute_in_single_precision_what_their_rounded_weights_say() -> None:
    model, rounded = tiny_llama(3, 40, dtype=torch.float32), tiny_llama(3, 40, dtype=torch.float32)
    assert pack_float16(tiny_llama(3), 0) == 0  # float64 is left alone
    assert pack_float16(model) == 0  # too small to gain by it
    replaced = pack_float16(model, 0)
    if not replaced:
        pytest.skip("torch has no products of 16 bits here")
    assert replaced == 5 and pack_float16(model, 0) == 0  # four in its layer, and the head
    for linear in (module for module in rounded.modules() if isinstance(module, torch.nn.Linear)):
        linear.weight = torch.nn.Parameter(linear.weight.half().float())  # the tied embedding keeps what it has
    tokens = torch.arange(12).reshape(2, 6)
    found, wanted = model(tokens).logits, rounded(tokens).logits
    assert found.dtype == torch.float32
    assert torch.allclose(found, wanted, rtol=0, atol=1e-5 * wanted.abs().max().item())
    linear = torch.nn.Linear(64, 300)
    assert torch.equal(Float16Linear(linear)(torch.zeros(2, 3, 64)), linear.bias.expand(2, 3, 300))


def test_a_weight_beyond_16_bits_keeps_its_layer_as_it_is() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)).requires_grad_(False)
    model[0].weight[1, 2] = 7e4
    assert pack_float16(model, 0) == has_short_products()
    assert type(model[0]) is torch.nn.Linear
    assert type(model[1]) is (Float16Linear if has_short_products() else torch.nn.Linear)


def test_the_bytes_that_a_pass_reads() -> None:
    def tied(is_tied: bool) -> torch.nn.Module:
        embedding, head = torch.nn.Embedding(10, 4), torch.nn.Linear(4, 10, bias=False)
        if is_tied:
            head.weight = embedding.weight
        return torch.nn.ModuleDict({"embedding": embedding, "up_proj": torch.nn.Linear(4, 3), "head": head})

    assert (
        bytes_read(tied(True)) == bytes_read(tied(False)) == 4 * (4 * 3 + 3 + 40)
    )  # of the embedding a few rows, not counted
    if not has_short_products():
        pytest.skip("torch has no products of 8 and 16 bits here")
    model = tied(True).requires_grad_(False)
    pack_float16(model, 0)
    assert bytes_read(model) == 2 * (4 * 3 + 40)
    model = tied(True).requires_grad_(False)
    pack_draft(model)
    assert 4 * 3 + 40 <= bytes_read(model) <= 4 * 3 + 40 + 4 * (3 + 4 + 4)  # and a bias, and rows that set the scale


class Attention(torch.nn.Module):
    """Three layers that read the same rows."""

    def __init__(self, bias: bool = True, width: int = 6) -> None:
        super().__init__()
        self.q_proj = torch.nn.Linear(6, 5, bias=bias)
        self.k_proj, self.v_proj = torch.nn.Linear(width, 3, bias=bias), torch.nn.Linear(6, 2, bias=bias)
        self.requires_grad_(False)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("order", ["qkv", "vkq", "kq", "qqkv", "qkqkvv"])
def test_joined_layers_give_each_its_part_in_any_order(order: str, bias: bool) -> None:
    apart = Attention(bias)
    joined = copy.deepcopy(apart)
    join(joined)
    assert isinstance(joined.q_proj, Part) and joined.q_proj.q_proj.out_features == 10
    one, other = torch.randn(2, 3, 6), torch.randn(4, 6)
    for x in (one, other, one, one.clone()):
        for name in order:
            layer = f"{name}_proj"
            assert torch.allclose(getattr(joined, layer)(x), getattr(apart, layer)(x), atol=1e-6)
    for name in "qkv":  # another tensor for each, as in cross-attention
        x = torch.randn(2, 6)
        assert torch.allclose(getattr(joined, f"{name}_proj")(x), getattr(apart, f"{name}_proj")(x), atol=1e-6)


def test_joined_layers_multiply_once_and_keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    module, calls = Attention(), 0
    join(module)
    product = module.q_proj.q_proj

    def counted(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return torch.nn.functional.linear(x, product.weight, product.bias)

    monkeypatch.setattr(product, "forward", counted)
    for _ in range(2):
        x = torch.randn(3, 6)
        _ = module.q_proj(x), module.k_proj(x), module.v_proj(x)
    assert calls == 2
    assert module.q_proj._results.last is None


def test_layers_that_do_not_fit_together_stay_apart() -> None:
    wide, mixed = Attention(width=7), Attention()
    mixed.v_proj.bias = None
    for module in (wide, mixed, Attention().double()):
        join(module)
        assert type(module.q_proj) is type(module.v_proj) is torch.nn.Linear


def test_a_copy_of_joined_layers_is_independent() -> None:
    module = Attention()
    join(module)
    twin = copy.deepcopy(module)
    twin.q_proj.q_proj.weight.zero_()
    x = torch.randn(2, 6)
    assert torch.equal(twin.k_proj(x), twin.q_proj.q_proj.bias[5:8].expand(2, 3))
    assert not torch.equal(module.k_proj(x), twin.k_proj(x))


def test_threads_that_share_joined_layers_do_not_mix() -> None:
    apart = Attention()
    joined = copy.deepcopy(apart)
    join(joined)
    wrong = []

    def ask() -> None:
        for _ in range(300):
            x = torch.randn(2, 6)
            names = ("q_proj", "k_proj", "v_proj")
            wrong.extend(n for n in names if not torch.allclose(getattr(joined, n)(x), getattr(apart, n)(x), atol=1e-6))

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}


@pytest.mark.parametrize(("attention", "error"), [("sdpa", 1e-12), ("eager", 1e-4)])  # eager: softmax in float32
@pytest.mark.parametrize("heads", [HEADS, {"num_attention_heads": 4, "num_key_value_heads": 4}])
def test_grouped_heads_read_a_tree_as_those_of_transformers_do(
    heads: dict[str, int], attention: str, error: float
) -> None:
    """The same passes of two texts and of a tree behind each."""
    model, slow = tiny_llama(5, 11, 2, **heads), tiny_llama(5, 11, 2, **heads)
    assert group_heads(model) and model.config._attn_implementation == GROUPED
    slow.set_attn_implementation(attention)
    found, wanted = (_tree_behind_texts(each) for each in (model, slow))
    for ours, theirs in zip(found, wanted, strict=True):
        assert torch.allclose(ours, theirs, rtol=0, atol=error)


def _tree_behind_texts(model: torch.nn.Module) -> list[torch.Tensor]:
    """Logits of the texts, of a tree behind them, and of a text by itself, where no mask is given."""
    reader, cache = LanguageModel(model, 11), SlotCache(16, 2)
    texts = torch.arange(10).reshape(2, 5)
    slots = torch.arange(5).expand(2, -1)
    cpu = torch.device("cpu")
    first = reader.logits(cache, texts, slots, slots, causal_mask(5, 16, reader.dtype, cpu))
    lengths, depths = torch.tensor([4, 3]), torch.tensor([0, 1, 1, 2])
    sees = ot.paths.TreeShape((0, 0, 1)).layout(torch.zeros((2, 3), dtype=torch.int64)).sees
    mask = tree_mask(torch.from_numpy(sees.copy()), lengths, 16, reader.dtype)
    positions = lengths[:, None] + depths
    nodes = torch.tensor([[4, 1, 2, 3], [8, 3, 2, 1]])
    behind = reader.logits(cache, nodes, lengths[:, None] + torch.arange(4), positions, mask)
    return [first, behind, reader.logits_along([1, 2, 3, 4, 5], [2, 5])]


def test_other_attention_is_left_as_it_is() -> None:
    eager = tiny_llama(5)
    eager.set_attn_implementation("eager")
    assert not group_heads(eager) and eager.config._attn_implementation == "eager"
    assert not group_heads(torch.nn.Linear(3, 2)) and not group_heads(torch.nn.Module())


def test_a_pair_with_grouped_heads_writes_the_text_of_the_same_pair_without() -> None:
    pair, prompts = tiny_pair(3, 9, **HEADS), [[1, 2, 3], [4]]
    plan, options = Drafting.chains(3, 2, ot.paths.TokenWise(ot.rules.KSeq())), DecodeOptions(max_tokens=20, seed=4)
    texts = decode(pair, prompts, plan, options).tokens
    assert group_heads(pair.target) and group_heads(pair.draft)
    assert decode(pair, prompts, plan, options).tokens == texts


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize(
    "changes",
    [HEADS, {"num_attention_heads": 4, "num_key_value_heads": 4}, {"attention_bias": True, "mlp_bias": True}],
    ids=["groups", "heads", "biases"],
)
def test_lean_passes_give_the_numbers_of_transformers(changes: dict[str, Any], joined: bool) -> None:
    """In the engine's cache, and by themselves, where transformers' own passes are made."""
    model, slow = (tiny_llama(5, 11, 2, torch.float32, **changes) for _ in range(2))
    for each in (model, slow):
        with torch.no_grad():
            for name, weight in each.named_parameters():
                if "bias" in name or "norm" in name:
                    weight.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(len(name)))
        if joined:
            join(each)
    assert make_lean(model) == 1 and isinstance(model.model, LeanLlamaModel)
    for ours, theirs in zip(_tree_behind_texts(model), _tree_behind_texts(slow), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_lean_passes_hand_out_hidden_states() -> None:
    model, slow = (tiny_llama(5, 11, 3, torch.float32) for _ in range(2))
    make_lean(model)
    found = []
    for each in (model, slow):
        cache, slots = SlotCache(8, 3), torch.arange(5)[None]
        cache.slots = slots
        mask = causal_mask(5, 8, torch.float32, torch.device("cpu"))
        options = {"attention_mask": mask, "position_ids": slots, "past_key_values": cache}
        found.append(each(torch.arange(5)[None], output_hidden_states=True, **options).hidden_states)
    assert len(found[0]) == 4
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_a_copy_of_a_lean_model_reads_by_its_own_weights() -> None:
    model = tiny_llama(5, 11, 2, torch.float32)
    make_lean(model)
    other = copy.deepcopy(model)
    before = _tree_behind_texts(other)[1]
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    assert torch.equal(_tree_behind_texts(other)[1], before) and not _tree_behind_texts(model)[1].any()


def test_what_is_no_float32_llama_is_left_as_it_is() -> None:
    eager = tiny_llama(5, dtype=torch.float32)
    eager.set_attn_implementation("eager")
    assert not any(make_lean(model) for model in (tiny_llama(5), eager, torch.nn.Linear(3, 2)))


def test_a_norm_in_one_operation() -> None:
    model = tiny_llama(5, 11, 1, torch.float32)
    x = torch.randn(3, 16)
    expected = [model.model.norm(rows) for rows in (x, x.double())]
    make_lean(model)
    for rows, wanted in zip((x, x.double()), expected, strict=True):
        torch.testing.assert_close(model.model.norm(rows), wanted)
