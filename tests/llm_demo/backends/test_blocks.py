"""Blocks of a GGUF file are unpacked as gguf says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
gguf = pytest.importorskip("gguf")

from llm_demo.backends.fast_weights import GROUP, unpacked  # noqa: E402
from ot_draft.decoding.gguf_files import BYTES  # noqa: E402

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}


def turned_rows(heads: int, width: int) -> Any:
    """The order of rows in which the two numbers of each pair that is turned together are neighbours, as a file has them."""
    return torch.arange(heads * width).view(heads, 2, width // 2).transpose(1, 2).flatten()


def in_blocks(model: Any, kind: str, other: str | None = None) -> list[Any]:
    """What gguf's reader would say of a file with this model; the model's weights are rounded to what stands there. other: a type for v."""
    tensors = []
    names = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output"}
    names |= {f"{each}_proj": f"ffn_{each}" for each in ("gate", "up", "down")}
    for number, layer in enumerate(model.model.layers):
        for part in (layer.self_attn, layer.mlp):
            for name, linear in part.named_children():
                if name not in names:
                    continue
                its = gguf.GGMLQuantizationType[other if other and name == "v_proj" else kind]
                heads = {"q_proj": 4, "k_proj": 2}.get(name)
                order = torch.arange(len(linear.weight)) if heads is None else turned_rows(heads, 8)
                blocks = gguf.quantize(linear.weight.detach()[order].numpy(), its)
                linear.weight[order] = torch.from_numpy(gguf.dequantize(blocks, its))
                tensors.append(SimpleNamespace(name=f"blk.{number}.{names[name]}.weight", tensor_type=its, data=blocks))
    its = gguf.GGMLQuantizationType.Q8_0
    for name, table in (("token_embd", model.get_input_embeddings()), ("output", model.get_output_embeddings())):
        blocks = gguf.quantize(table.weight.detach().numpy(), its)
        tensors.append(SimpleNamespace(name=f"{name}.weight", tensor_type=its, data=blocks))
    return [*tensors, SimpleNamespace(name="output_norm.weight", tensor_type=gguf.GGMLQuantizationType.F32, data=None)]


def blocks_of(kind: str, outputs: int = 32, inputs: int = 128) -> torch.Tensor:
    """Random rows of blocks, whose scales are small."""
    blocks = torch.randint(0, 256, (outputs, inputs // GROUP * BYTES[kind]), dtype=torch.uint8)
    head = blocks.view(outputs, -1, BYTES[kind])[..., : BYTES[kind] - 16]
    numbers = torch.rand(*head.shape[:2], head.shape[2] // 2) - 0.5
    head.copy_(numbers.half().view(torch.uint8))
    return blocks


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1"])
def test_blocks_are_unpacked_as_gguf_says(kind: str) -> None:
    blocks = blocks_of(kind)
    codes, scales, zeros = unpacked(blocks, kind)
    found = ((codes.unflatten(1, (-1, GROUP)) - 8.0) * scales[..., None] + zeros[..., None]).flatten(1)
    wanted = gguf.dequantize(blocks.numpy(), gguf.GGMLQuantizationType[kind])
    torch.testing.assert_close(found, torch.from_numpy(wanted), rtol=0, atol=1e-6)
