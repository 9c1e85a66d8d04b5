"""What the configuration of a Llama says: whether its passes are plain enough for a graph of our own, and its sizes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def reads(config: dict[str, Any]) -> bool:
    """Whether a model of this configuration is one that is read so."""
    rope = _rope(config)
    return (
        config.get("model_type") == "llama"
        and (config.get("architectures") or ["LlamaForCausalLM"]) == ["LlamaForCausalLM"]
        and config.get("hidden_act") == "silu"
        and rope.get("rope_type", rope.get("type", "default")) == "default"
        and config.get("quantization_config") is None
    )


def settings(config: dict[str, Any]) -> SimpleNamespace:
    """The same by name, with what older configurations leave to transformers."""
    heads = config.get("num_key_value_heads") or config["num_attention_heads"]
    return SimpleNamespace(**{"rms_norm_eps": 1e-6, **config, "num_key_value_heads": heads})


def head_width(config: SimpleNamespace) -> int:
    """Numbers of a head."""
    own = getattr(config, "head_dim", None)
    return int(own or config.hidden_size // config.num_attention_heads)


def rope_base(config: SimpleNamespace) -> float:
    """Return the base frequency of the rotary position embedding (RoPE)."""
    return float(_rope(vars(config)).get("rope_theta") or getattr(config, "rope_theta", None) or 10_000.0)


def _rope(config: dict[str, Any]) -> dict[str, Any]:
    """The older name first, as transformers does where both are there."""
    return config.get("rope_scaling") or config.get("rope_parameters") or {}
