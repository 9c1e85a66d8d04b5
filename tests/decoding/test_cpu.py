"""What makes products cheap on a CPU computes what it says: other layouts, fewer bits, weights as a file has them."""

from __future__ import annotations

import pytest
from tiny_models import tiny_llama

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.decoding.cpu import (  # noqa: E402
    Float16Linear,
    Int8Linear,
    bytes_read,
    has_short_products,
    pack,
    pack_draft,
    pack_float16,
)
from ot_draft.decoding.file_weights import BYTES, GROUP, Int4Linear, check_products, unpacked  # noqa: E402


def test_packed_layers_compute_the_same() -> None:
    model = tiny_llama(3, 40, dtype=torch.float32)
    tokens = torch.arange(12).reshape(2, 6)
    plain = model(tokens).logits
    assert pack(model) == 0  # too small to gain by it
    assert pack(model, 0) in (0, 8)  # seven in its layer, and the head; none where torch was built without oneDNN
    assert torch.allclose(model(tokens).logits, plain, rtol=0, atol=1e-5 * plain.abs().max().item())
    assert pack(tiny_llama(3), 0) == 0  # float64 is left alone


def test_layers_of_8_bits_read_every_row_by_itself() -> None:
    model = tiny_llama(3, 40, dtype=torch.float32)
    replaced = pack_draft(model)
    if not replaced:
        pytest.skip("torch has no products of 8 bits here")
    assert replaced == 3 and type(model.model.layers[0].mlp.down_proj) is torch.nn.Linear
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
    assert replaced == 8 and pack_float16(model, 0) == 0  # seven in its layer, and the head
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


def blocks_of(kind: str, outputs: int = 32, inputs: int = 128) -> torch.Tensor:
    """Random rows of blocks, whose scales are small."""
    blocks = torch.randint(0, 256, (outputs, inputs // GROUP * BYTES[kind]), dtype=torch.uint8)
    head = blocks.view(outputs, -1, BYTES[kind])[..., : BYTES[kind] - 16]
    numbers = torch.rand(*head.shape[:2], head.shape[2] // 2) - 0.5
    head.copy_(numbers.half().view(torch.uint8))
    return blocks


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1"])
def test_blocks_are_unpacked_as_gguf_says(kind: str) -> None:
    gguf = pytest.importorskip("gguf")
    blocks = blocks_of(kind)
    codes, scales, zeros = unpacked(blocks, kind)
    found = ((codes.unflatten(1, (-1, GROUP)) - 8.0) * scales[..., None] + zeros[..., None]).flatten(1)
    wanted = gguf.dequantize(blocks.numpy(), gguf.GGMLQuantizationType[kind])
    torch.testing.assert_close(found, torch.from_numpy(wanted), rtol=0, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 2, 5, 17])
@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1"])
def test_products_of_4_bits_are_those_of_the_weights_that_they_stand_for(kind: str, rows: int) -> None:
    """Of rows and scales that bfloat16 can hold; only the result is rounded, to one part in 256."""
    check_products()
    blocks = blocks_of(kind)
    head = blocks.view(32, -1, BYTES[kind])[..., : BYTES[kind] - 16]
    head.copy_(head.contiguous().view(torch.float16).mul(4).round().div(4).view(torch.uint8))
    codes, scales, zeros = unpacked(blocks, kind)
    weight = ((codes.unflatten(1, (-1, GROUP)) - 8.0) * scales[..., None] + zeros[..., None]).flatten(1)
    x = torch.randn(2, rows, 128).bfloat16().float()
    found, wanted = Int4Linear(blocks, kind)(x), x @ weight.T
    assert found.shape == wanted.shape and found.dtype == torch.float32
    torch.testing.assert_close(found, wanted, rtol=2**-8, atol=1e-4)
    planted = Int4Linear(blocks.roll(1, 0), kind)(x)
    assert not torch.allclose(planted, wanted, rtol=0.1, atol=0.1)
