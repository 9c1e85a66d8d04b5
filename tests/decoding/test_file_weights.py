"""`--dtype file`: a target of a GGUF file's own blocks is the model of these numbers, rounded as it says, and texts follow it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import test_decode_law as texts_law
from tiny_models import tiny_llama, tiny_pair

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")

from ot_draft.decoding import CannotDecode, Pair, load_pair  # noqa: E402
from ot_draft.decoding.file_weights import (  # noqa: E402
    NAMES,
    FileWeights,
    Int4Linear,
    check_products,
    check_read_whole,
    write_blocks,
)
from ot_draft.decoding.llama import FloatTensors, Llama, turned_rows  # noqa: E402
from ot_draft.decoding.load import as_llama  # noqa: E402

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
TEXT = torch.tensor([[1, 2, 3, 4, 5]])


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
                order = torch.arange(len(linear.weight)) if heads is None else turned_rows(heads, 0, 8)
                blocks = gguf.quantize(linear.weight.detach()[order].numpy(), its)
                linear.weight[order] = torch.from_numpy(gguf.dequantize(blocks, its))
                tensors.append(SimpleNamespace(name=f"blk.{number}.{names[name]}.weight", tensor_type=its, data=blocks))
    its = gguf.GGMLQuantizationType.Q8_0
    for name, table in (("token_embd", model.get_input_embeddings()), ("output", model.get_output_embeddings())):
        blocks = gguf.quantize(table.weight.detach().numpy(), its)
        tensors.append(SimpleNamespace(name=f"{name}.weight", tensor_type=its, data=blocks))
    return [*tensors, SimpleNamespace(name="output_norm.weight", tensor_type=gguf.GGMLQuantizationType.F32, data=None)]


def file_model(folder: Path, kind: str, n: int, other: str | None = None) -> tuple[Llama, Any]:
    """A target of 4 bits, and transformers' model of the same numbers in float32."""
    check_products()
    model = tiny_llama(7, n, 2, torch.float32, **SIZES)
    write_blocks(SimpleNamespace(tensors=in_blocks(model, kind, other)), folder, model.config)
    return Llama(
        FileWeights(folder, FloatTensors(model.state_dict())), SimpleNamespace(**model.config.to_dict())
    ), model


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1"])
def test_the_target_of_a_files_blocks_is_the_model_of_their_numbers(kind: str, tmp_path: Path) -> None:
    found, model = file_model(tmp_path, kind, 40)
    assert all(
        isinstance(layer.qkv, Int4Linear) and isinstance(layer.gate_up, Int4Linear) for layer in found.model.layers
    )
    laws = [each(TEXT).logits.softmax(-1) for each in (found, model, as_llama(model))]
    apart = [0.5 * (law - laws[1]).abs().sum(-1).max() for law in laws]
    assert apart[2] < 1e-5 and 0 < apart[0] < 0.1  # rows and scales of bfloat16
    other = file_model(tmp_path, "Q4_1" if kind == "Q4_0" else "Q4_0", 40)[0]  # other blocks of the same weights
    assert 0.5 * (other(TEXT).logits.softmax(-1) - laws[1]).abs().sum(-1).max() > 2 * apart[0]


def test_rows_are_read_by_themselves(tmp_path: Path) -> None:
    """No row depends on what is read with it, or a drafted tree would change the target's law."""
    layer = file_model(tmp_path, "Q4_1", 40)[0].model.layers[0].gate_up
    x = torch.randn(2, 9, 32)
    assert torch.equal(layer(x), torch.stack([torch.cat([layer(row[None]) for row in text]) for text in x]))


@texts_law.MANY
@pytest.mark.parametrize("drafting", ["k-seq", "block verification", "autoregressive"])
def test_texts_follow_the_law_of_that_target(
    drafting: str, many: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = file_model(tmp_path, "Q4_1", texts_law.N)[0]
    pair = Pair(target, tiny_pair(seed=11, n=texts_law.N, dtype=torch.float32).draft)
    monkeypatch.setattr(texts_law, "models", lambda: pair)
    texts_law.exact_law.cache_clear()
    try:
        policy = texts_law.DRAFTINGS[drafting]()
        found = texts_law.verdicts(policy, texts_law.SamplingParams(), texts_law.TEXTS[many])
        assert min(found) > texts_law.FALSE_ALARM / len(texts_law.PROMPTS)
        # Planted: texts of the target in float32 do not pass for this one's.
        texts_law.exact_law.cache_clear()
        other = Pair(tiny_llama(8, texts_law.N, 2, torch.float32, **SIZES), pair.draft)
        monkeypatch.setattr(texts_law, "models", lambda: other)
        laws = {tuple(p): texts_law.exact_law(tuple(p), texts_law.SamplingParams()) for p in texts_law.PROMPTS}
        monkeypatch.setattr(texts_law, "models", lambda: pair)
        monkeypatch.setattr(texts_law, "exact_law", lambda prompt, sampling: laws[prompt])
        assert min(texts_law.verdicts(policy, texts_law.SamplingParams(), texts_law.TEXTS[many])) < 1e-6
    finally:
        monkeypatch.undo()
        texts_law.exact_law.cache_clear()


def test_types_without_a_product_are_named(tmp_path: Path) -> None:
    with pytest.raises(CannotDecode, match=r"layers\.0\.self_attn\.q_proj.*is of type Q4_0 and Q5_1.*take float16"):
        file_model(tmp_path, "Q4_0", 40, other="Q5_1")
    with pytest.raises(CannotDecode, match="this is none"):
        FileWeights(tmp_path / "nothing", FloatTensors({}))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, ""),
        ({"rope_freqs.weight": 1}, "has rope_freqs.weight, which transformers does not read"),
        ({"blk.0.attn_q.bias": 1}, "has blk.0.attn_q.bias"),
        ({"blk.0.ffn_gate_exps.weight": 1}, "has blk.0.ffn_gate_exps.weight"),
        ({"blk.0.ffn_up.weight": 0}, "has no blk.0.ffn_up.weight: it is not whole"),
        ({"llama.rope.scaling.type": "linear"}, "has llama.rope.scaling.type"),
        ({"llama.rope.scaling.type": "none"}, ""),
        ({"general.architecture": "phi3", "rope_factors_long.weight": 1}, "has rope_factors_long.weight"),
    ],
)
def test_a_file_that_would_be_read_in_part_is_refused(changes: dict[str, Any], named: str) -> None:
    """transformers drops what it does not know and draws what is not there: texts would follow the law of another model."""
    fields: dict[str, Any] = {"general.architecture": "llama", "llama.block_count": 1}
    tensors = dict.fromkeys(f"blk.0.{name}.weight" for name in (*NAMES, "attn_norm", "ffn_norm"))
    tensors = {name: None for name in tensors if not name.startswith(("blk.0.token_embd", "blk.0.output"))}
    tensors |= dict.fromkeys(("token_embd.weight", "output.weight", "output_norm.weight"))
    for name, value in changes.items():
        if name.endswith(("weight", "bias")):
            tensors.pop(name, None)
            tensors |= {name: None} if value else {}
        else:
            fields[name] = value
    reader = SimpleNamespace(
        fields={name: SimpleNamespace(name=name, contents=lambda value=value: value) for name, value in fields.items()},
        tensors=[SimpleNamespace(name=name) for name in tensors],
    )
    if not named:
        check_read_whole(reader, "a.gguf")
        return
    with pytest.raises(CannotDecode, match=f"a.gguf {named}"):
        check_read_whole(reader, "a.gguf")


def test_a_product_that_is_wrong_here_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Int4Linear.forward
    monkeypatch.setattr(Int4Linear, "forward", lambda self, x: right(self, x).roll(1, -1))
    with pytest.raises(CannotDecode, match=rf"torch {torch.__version__.split('+')[0]}.*no right product of 4 bits"):
        check_products()


@pytest.mark.parametrize("options", [{"packed": False}, {"cache": False}])
def test_it_needs_a_file_and_packed_weights(options: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"")
    with pytest.raises(CannotDecode, match=r"weights from a \.gguf file"):
        load_pair(str(tmp_path / "a.gguf"), "lookup", "file", **options)
    with pytest.raises(CannotDecode, match=r"weights from a \.gguf file"):
        load_pair(str(tmp_path), "lookup", "file")


@pytest.mark.slow  # the file may have to be converted: half a minute
def test_the_embedded_target_is_near_that_of_32_bits() -> None:
    load = pytest.importorskip("llm_demo.models.load")
    if load.missing_packages():
        pytest.skip(f"no {', '.join(load.missing_packages())}: see the Makefile")
    pairs = [load.load_pair(draft="lookup", dtype=dtype) for dtype in ("float32", "file")]
    text = pairs[0].encode("Bread rises when yeast makes gas of the sugar in the dough, and the dough holds it.")
    p, q = (pair.target(torch.tensor([text])).logits.softmax(-1) for pair in pairs)
    assert 0 < 0.5 * (p - q).abs().sum(-1).mean() < 0.03
