"""A GGUF file of which transformers would read a part alone raises CannotDecode."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny_models import tiny_llama

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")

from ot_draft.decoding import CannotDecode, load_pair  # noqa: E402
from ot_draft.decoding.gguf_files import FIELDS, NAMES, check_read_whole  # noqa: E402


def turned(kind: str, count: int, key: int | None = None) -> dict[str, Any]:
    """Fields of a model with heads of 80 numbers, or so many, of which so many are turned by place."""
    named = {
        "embedding_length": 320,
        "attention.head_count": 4,
        "rope.dimension_count": count,
        "attention.key_length": key,
    }
    return {"general.architecture": kind} | {f"{kind}.{name}": value for name, value in named.items()}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, ""),
        ({"rope_freqs.weight": 1}, "has rope_freqs.weight, which transformers does not read"),
        ({"blk.0.attn_q.bias": 1}, "has blk.0.attn_q.bias"),
        ({"blk.0.ffn_gate_exps.weight": 1}, "has blk.0.ffn_gate_exps.weight"),
        ({"blk.0.ffn_up.weight": 0}, "is incomplete: blk.0.ffn_up.weight is missing"),
        ({"llama.rope.scaling.type": "linear"}, "has llama.rope.scaling.type"),
        ({"llama.rope.scaling.type": "none"}, ""),
        ({"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 4.0}, ""),
        ({"llama.rope.scaling.factor": 4.0}, "has llama.rope.scaling.factor"),
        ({"llama.rope.scale_linear": 4.0}, "has llama.rope.scale_linear"),
        ({"llama.rope.scale_linear": 1.0}, ""),
        (
            {"llama.attention.layer_norm_rms_epsilon": None},
            "is incomplete: llama.attention.layer_norm_rms_epsilon is missing",
        ),
        ({"llama.block_count": None}, "is incomplete: llama.block_count is missing"),
        ({"general.architecture": None}, "is incomplete: general.architecture is missing"),
        ({"general.architecture": "phi3", "rope_factors_long.weight": 1}, "has rope_factors_long.weight"),
        *(
            ({f"llama.{name}": value}, f"has llama.{name}" if value not in (0, 1) else "")
            for name in ("attn_logit_softcapping", "final_logit_softcapping", "attention.scale", "logit_scale")
            for value in (0.0, 7.5)
        ),
        ({"llama.residual_scale": 0.2}, "has llama.residual_scale"),
        ({"llama.embedding_scale": 12.0}, "has llama.embedding_scale"),
        ({"llama.logit_scale": 1.0}, ""),
        ({"llama.attention.clamp_kqv": 8.0}, "has llama.attention.clamp_kqv"),
        ({"llama.attention.causal": False}, "has llama.attention.causal"),
        ({"llama.attention.causal": True}, ""),
        ({"llama.expert_count": 8}, "has llama.expert_count"),
        ({"llama.attention.sliding_window": 40, "llama.context_length": 50}, "has llama.attention.sliding_window"),
        ({"llama.attention.sliding_window": 50, "llama.context_length": 50}, ""),
        ({"general.architecture": "phi3", "phi3.attention.sliding_window": 40}, "has phi3.attention.sliding_window"),
        ({"general.architecture": "gemma3", "gemma3.attention.sliding_window": 40}, ""),
        ({"general.architecture": "gemma3", "gemma3.attention.key_length": 128}, "has gemma3.attention.key_length"),
        ({"general.architecture": "starcoder2", "starcoder2.rope.freq_base": 1e6}, "has starcoder2.rope.freq_base"),
        ({"general.architecture": "starcoder2", "starcoder2.rope.freq_base": 1e4}, ""),
        ({"general.architecture": "qwen2", "qwen2.rope.freq_base": 1e6}, ""),
        ({"general.architecture": "qwen3moe", "qwen3moe.expert_count": 8}, ""),
        ({"general.architecture": "falcon", "falcon.attention.layer_norm_epsilon": 9.999999747378752e-06}, ""),
        ({"general.architecture": "falcon", "falcon.attention.layer_norm_epsilon": 1e-6}, "has falcon.attention"),
        ({"general.architecture": "deci", "deci.embedding_length": 32, "deci.attention.head_count": [4, 2]}, ""),
        (turned("phi3", 96, key=128), "has phi3.rope.dimension_count"),
        (turned("phi3", 128, key=128), ""),
        (turned("stablelm", 20), ""),
        (turned("stablelm", 40), "has stablelm.rope.dimension_count"),
        (turned("nemotron", 40), ""),
        (turned("llama", 96), ""),  # which is read
    ],
)
def test_a_file_that_would_be_read_in_part_is_refused(changes: dict[str, Any], named: str) -> None:
    """transformers drops what it does not know and draws what is not there: texts would follow the law of another model."""
    fields: dict[str, Any] = {"general.architecture": "llama", **{f"llama.{name}": 1 for name in FIELDS}}
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
        fields={
            name: SimpleNamespace(name=name, contents=lambda value=value: value)
            for name, value in fields.items()
            if value is not None
        },
        tensors=[SimpleNamespace(name=name) for name in tensors],
    )
    if not named:
        check_read_whole(reader, "a.gguf")
        return
    with pytest.raises(CannotDecode, match=f"a.gguf {named}"):
        check_read_whole(reader, "a.gguf")


@pytest.mark.parametrize("found", ["cut short", "its beginning alone", "another kind", "nothing"])
def test_what_is_no_whole_file_is_said(found: str, tmp_path: Path) -> None:
    """By the file's name, for a download that broke off; gguf's reader says what numpy could not do."""
    file = tmp_path / "a.gguf"
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_tensor("token_embd.weight", torch.ones(40, 64).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    whole = file.read_bytes()
    cut = {"cut short": whole[:-2000], "its beginning alone": whole[:24], "another kind": b"x" * 5000, "nothing": b""}
    file.write_bytes(cut[found])
    with pytest.raises(CannotDecode, match=r"a.gguf must be a complete GGUF file"):
        load_pair(str(file), "lookup", backend="torch", cache=False)
    file.write_bytes(whole)
    with pytest.raises(CannotDecode, match=r"a.gguf is incomplete: llama\.attention\.head_count is missing"):
        load_pair(str(file), "lookup", backend="torch", cache=False)


def test_what_transformers_refuses_is_said(tmp_path: Path) -> None:
    """Sizes that are not those of the weights: transformers raises what is no error of values."""
    tiny_llama(3).save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"intermediate_size": 32', '"intermediate_size": 48'))
    with pytest.raises(CannotDecode, match="cannot be loaded"):
        load_pair(str(tmp_path), "lookup", backend="torch")
