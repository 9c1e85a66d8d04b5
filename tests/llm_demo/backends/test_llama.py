"""A Llama's folder: which one OpenVINO reads, without transformers, and its tokenizer, which says what that of transformers says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny_folders import save_tiny_pair
from tiny_models import tiny_llama

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("openvino")
pytest.importorskip("numba")

from llm_demo.backends.fast_models import FastTarget  # noqa: E402
from llm_demo.backends.in_openvino import reads as is_read  # noqa: E402
from llm_demo.backends.llama import reads  # noqa: E402
from ot_draft.decoding import CannotDecode, DecodeOptions, Drafting, decode, load_pair, reference_decode  # noqa: E402
from ot_draft.decoding.benchmark.peers import generating, peers  # noqa: E402
from ot_draft.decoding.language_model import language_model  # noqa: E402
from ot_draft.decoding.tokens import Tokenizer  # noqa: E402
from ot_draft.trees import Joint  # noqa: E402

FEW = {"rtol": 0.0, "atol": 1e-4}  # of numbers up to 20


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_act": "gelu"},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
        {"rope_scaling": {"type": "linear", "factor": 2.0}},
        {"architectures": ["OtherForCausalLM"]},
    ],
)
def test_another_model_is_left_to_transformers(changes: dict[str, Any]) -> None:
    config = tiny_llama(5).config.to_dict()
    assert reads(config) and not reads(config | changes)


def test_a_folder_with_an_adapter_is_left_to_transformers(tmp_path: Path) -> None:
    """Which puts it on top of the weights, where peft is installed."""
    tiny_llama(5).save_pretrained(tmp_path)
    assert is_read(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")
    assert not is_read(tmp_path)
    with pytest.raises(CannotDecode, match=r"adapter_config\.json"):
        FastTarget(tmp_path, True)


def test_an_older_configuration_is_read_as_transformers_reads_it(tmp_path: Path) -> None:
    """Without the number of heads of keys, as Llama 1 and 2 have it, and with the older names of turns."""
    tiny_llama(5, 40, 2, torch.float32, num_key_value_heads=2, hidden_size=32).save_pretrained(tmp_path)
    file, text = tmp_path / "config.json", list(range(1, 30))
    config = {name: value for name, value in json.loads(file.read_text()).items() if name != "rope_parameters"}
    without = {name: value for name, value in config.items() if name not in ("num_key_value_heads", "rms_norm_eps")}
    turned = {"rope_theta": 50.0, "rope_scaling": {"rope_type": "default", "rope_theta": 70.0}}
    for older in (without | {"rope_theta": 50.0}, config | {"num_key_value_heads": None}, config | turned):
        file.write_text(json.dumps(older))
        model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
        wanted = model(torch.tensor([text])).logits[0].detach()
        found = language_model(FastTarget(tmp_path, True), 40).full_pass(text, list(range(1, 30))).logits
        torch.testing.assert_close(found, wanted, **FEW)


@pytest.mark.parametrize("lacks", ["model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight"])
def test_a_folder_that_is_not_whole_is_refused(lacks: str, tmp_path: Path) -> None:
    model = tiny_llama(5)
    tensors = {name: tensor for name, tensor in model.state_dict().items() if name != lacks}
    model.save_pretrained(tmp_path, state_dict=tensors)
    with pytest.raises(CannotDecode, match=f"is incomplete: {lacks} is missing"):
        FastTarget(tmp_path, True).compiled(())


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return save_tiny_pair(tmp_path_factory.mktemp("models"))


def test_a_folder_is_read_without_transformers(models: list[str]) -> None:
    read = (
        "import sys; from ot_draft.decoding import load_pair, decode, Drafting, DecodeOptions\n"
        f"pair = load_pair({models[1]!r}, 'lookup', backend='openvino-float')\n"
        "print(decode(pair, [pair.encode('a b c')], Drafting.autoregressive(), DecodeOptions(max_tokens=9)).tokens[0])\n"
        "print([name for name in ('transformers', 'torch._dynamo', 'sympy') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, check=True).stdout
    tokens, imported = map(json.loads, printed.splitlines())
    assert imported == []
    by_transformers = load_pair(models[1], models[3])
    assert isinstance(by_transformers.target, transformers.LlamaForCausalLM)
    prompt = by_transformers.encode("a b c")
    assert tokens == decode(by_transformers, [prompt], Drafting.autoregressive(), DecodeOptions(max_tokens=9)).tokens[0]


def test_transformers_generates_with_models_of_its_own(models: list[str]) -> None:
    pair = load_pair(models[1], models[3], backend="openvino-float")
    theirs = generating(pair)
    assert isinstance(theirs.target, transformers.LlamaForCausalLM) and generating(theirs) is theirs
    torch.testing.assert_close(theirs.logits_along([1, 2, 3], [3])[0], pair.logits_along([1, 2, 3], [3])[0], **FEW)
    assert [peer.models.target for peer in peers(theirs, 2)] == [theirs.target] * 3


def test_a_draft_from_a_folder_drafts_for_one(models: list[str]) -> None:
    """The texts are the target's, by whatever the draft is computed."""
    pair, options = load_pair(models[1], models[3], backend="openvino-float"), DecodeOptions(max_tokens=12, seed=3)
    drafting = Drafting.chains(2, 2, Joint())
    assert pair.law == "float32 weights"
    made = decode(pair, [pair.encode("a b c")], drafting, options)
    assert made.tokens == [reference_decode(pair, pair.encode("a b c"), drafting, options)]


def test_weights_in_several_files_are_left_to_torch(models: list[str], tmp_path: Path) -> None:
    for file in Path(models[1]).iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model.safetensors").rename(tmp_path / "model-00001-of-00001.safetensors")
    with pytest.raises(CannotDecode, match=r"weights in one model.safetensors, which .* lacks"):
        load_pair(str(tmp_path), "lookup", backend="openvino-float")


@pytest.mark.parametrize("change", ["class", "added", "template list", "no file"])
def test_a_tokenizer_that_asks_for_more_is_left_to_transformers(models: list[str], tmp_path: Path, change: str) -> None:
    for file in Path(models[1]).iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert Tokenizer.of(tmp_path) is not None
    told = json.loads((tmp_path / "tokenizer_config.json").read_text())
    told |= {"class": {"tokenizer_class": "LlamaTokenizer"}, "added": {"add_bos_token": True}}.get(change, {})
    told |= {"template list": {"chat_template": [{"name": "default"}]}}.get(change, {})
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(told))
    if change == "no file":
        (tmp_path / "tokenizer.json").unlink()
    assert Tokenizer.of(tmp_path) is None
