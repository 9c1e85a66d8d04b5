"""Every causal language model of transformers that its configuration makes tiny: `multi_draft` gives plain `generate`'s text, or refuses.

Minutes: `make test` takes a few of them. What cannot be made tiny by the common names of sizes is skipped, with the reason.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
from slow import slow_except

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES  # noqa: E402

import ot_draft as otd  # noqa: E402
from ot_draft.decoding import CannotDecode  # noqa: E402
from ot_draft.decoding.probe import TRIED  # noqa: E402
from ot_draft.integrations.transformers import multi_draft  # noqa: E402

N = 48
# The sizes that configurations have, by their names.
SMALL: dict[str, Any] = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "dim", "word_embed_proj_dim", "embedding_size", "embedding_dim"), 32
    ),
    **dict.fromkeys(
        (
            "ffn_dim",
            "intermediate_size",
            "d_ff",
            "n_inner",
            "encoder_ffn_dim",
            "decoder_ffn_dim",
            "moe_intermediate_size",
        ),
        48,
    ),
    **dict.fromkeys(
        ("num_attention_heads", "attention_heads", "n_head", "num_heads", "n_heads", "decoder_attention_heads"), 4
    ),
    **dict.fromkeys(("encoder_attention_heads",), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "multi_query_group_num"), 2),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers", "decoder_layers", "encoder_layers"), 2),
    **dict.fromkeys(
        ("head_dim", "kv_channels", "attention_head_dim", "v_head_dim", "qk_nope_head_dim", "qk_rope_head_dim"), 8
    ),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(
        ("num_experts_per_tok", "moe_k", "n_group", "topk_group", "n_shared_experts", "first_k_dense_replace"), 1
    ),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 128),
    "vocab_size": N,
    "rotary_dim": 4,
    "shared_expert_intermediate_size": 48,
}
ENDS = {"pad_token_id": 0, "bos_token_id": None, "eos_token_id": None}
NAMES = sorted(set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))
QUICK = ("llama", "gpt2", "gemma3_text", "mixtral", "deepseek_v3", "xglm", "openai-gpt", "doge", "bloom", "roberta")


def tiny(name: str) -> Any:
    """A random model of this family; skips where the common names of sizes do not make one that runs by itself."""
    failure = ""
    for heads in (2, 4):  # of keys and values: some share them
        model, failure = _tiny(name, SMALL | dict.fromkeys(("num_key_value_heads", "num_kv_heads"), heads))
        if model is not None:
            return model
    pytest.skip(f"not tiny by these names: {failure}")


def _tiny(name: str, sizes: dict[str, Any]) -> tuple[Any, str]:
    """The model, or None and why there is none."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    try:
        with torch.random.fork_rng(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(5)
            config = CONFIG_MAPPING[name]()
            for part in (config, config.get_text_config()):
                for size, value in sizes.items():
                    if isinstance(getattr(part, size, None), int):
                        setattr(part, size, value)
                for end, value in ENDS.items():
                    setattr(part, end, value)
                kinds = getattr(part, "layer_types", None)
                if kinds:
                    part.layer_types = (list(dict.fromkeys(kinds)) * 2)[:2]
            weights = sum(weight.numel() for weight in _on_meta(config).parameters())
            if weights > 3e6:
                return None, f"{weights:.0f} weights"
            model = transformers.AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)
            for weight in model.parameters():  # sharp enough that every token of the context matters
                if weight.dim() > 1:
                    weight.mul_(4)
            plain(model)
            return model, ""
    except Exception as error:
        return None, f"{type(error).__name__}: {str(error).splitlines()[:1]}"


def _on_meta(config: Any) -> Any:
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(copy.deepcopy(config))


PROMPTS = torch.tensor([[0, 0, 7, 3, 9], [4, 1, 8, 2, 6], [0, 5, 11, 20, 13]])


def plain(model: Any, **options: Any) -> Any:
    given = {"attention_mask": (PROMPTS > 0).long(), "max_new_tokens": 9, "do_sample": False}
    return model.generate(PROMPTS, **given | options).tolist()


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", slow_except(NAMES, *QUICK))
def test_a_family_is_decoded_as_by_generate_or_refused(name: str) -> None:
    target = tiny(name)
    draft = copy.deepcopy(target)
    head, generator = draft.get_output_embeddings().weight, torch.Generator().manual_seed(1)
    head.add_(0.3 * head.std() * torch.randn(head.shape, generator=generator))
    told = ""
    try:
        made = plain(target, custom_generate=multi_draft(draft, otd.trees.Joint(), paths=2, length=3))
    except CannotDecode as refused:
        told = str(refused)
    assert "\n" not in told and (told or made == plain(target))
    assert not (told and name in TRIED), told


def test_a_window_of_its_own_limits_the_context() -> None:
    target = tiny("doge")
    target.config.keep_window_size = 4
    with pytest.raises(CannotDecode, match="window of its own mask"):
        plain(target, custom_generate=multi_draft(copy.deepcopy(target)))


def test_a_family_that_reads_a_tree_otherwise_is_named() -> None:
    for name, told in (("xglm", r"ValueError: Attention mask should"), ("roberta", r"laws being 0\.\d+ off")):
        model = tiny(name)
        with pytest.raises(CannotDecode, match=told):
            plain(model, custom_generate=multi_draft(copy.deepcopy(model)))


@pytest.mark.parametrize("kind", ["Mamba", "Mamba2", "FalconMamba"])
def test_a_state_without_positions_is_refused_in_one_line(kind: str) -> None:
    sizes = {"num_heads": 4, "head_dim": 16, "n_groups": 1} if kind == "Mamba2" else {}
    config = getattr(transformers, f"{kind}Config")
    small = {"vocab_size": N, "hidden_size": 32, "num_hidden_layers": 1, "state_size": 4}
    model = getattr(transformers, f"{kind}ForCausalLM")(config(**small, **sizes, **ENDS)).eval()
    with pytest.raises(CannotDecode, match="cannot be rewound to a rejected draft token"):
        plain(model, custom_generate=multi_draft(model))
