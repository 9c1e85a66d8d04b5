"""Configuration of a Llama: whether the OpenVINO graph supports it, and its sizes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def reads(config: dict[str, Any]) -> bool:
    """Return whether the graph supports a model with this configuration."""
    rope = _rope(config)
    return (
        config.get("model_type") == "llama"
        and (config.get("architectures") or ["LlamaForCausalLM"]) == ["LlamaForCausalLM"]
        and config.get("hidden_act") == "silu"
        and rope.get("rope_type", rope.get("type", "default")) == "default"
        and config.get("quantization_config") is None
    )


def settings(config: dict[str, Any]) -> SimpleNamespace:
    """Return the configuration as attributes, with transformers' defaults for fields that older files lack."""
    heads = config.get("num_key_value_heads") or config["num_attention_heads"]
    return SimpleNamespace(**{"rms_norm_eps": 1e-6, **config, "num_key_value_heads": heads})


def head_width(config: SimpleNamespace) -> int:
    """Return the width of an attention head."""
    own = getattr(config, "head_dim", None)
    return int(own or config.hidden_size // config.num_attention_heads)


def rope_base(config: SimpleNamespace) -> float:
    """Return the base frequency of the rotary position embedding (RoPE)."""
    return float(_rope(vars(config)).get("rope_theta") or getattr(config, "rope_theta", None) or 10_000.0)


def _rope(config: dict[str, Any]) -> dict[str, Any]:
    """Return the RoPE settings; the older field has precedence, as in transformers."""
    return config.get("rope_scaling") or config.get("rope_parameters") or {}
