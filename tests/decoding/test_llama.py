"""`Llama` is transformers' Llama: the same numbers over the cache and along texts, with drafts that read its states, and from a folder."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from slow import slow_except
from tiny_folders import save_tiny_pair
from tiny_models import tiny_llama, tiny_state_pair

import ot_draft as ot

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from llm_demo.distil.train import as_tensors  # noqa: E402
from ot_draft.decoding import DecodeOptions, Drafting, Pair, decode, load_draft, load_pair, reference_decode  # noqa: E402
from ot_draft.decoding.benchmark.peers import generating, peers  # noqa: E402
from ot_draft.decoding.cache import SlotCache, causal_mask, tree_mask  # noqa: E402
from ot_draft.decoding.cpu import pack, pack_float16  # noqa: E402
from ot_draft.decoding.language_model import LanguageModel  # noqa: E402
from ot_draft.decoding.llama import Llama, Norm, reads  # noqa: E402
from ot_draft.decoding.load import as_llama  # noqa: E402
from ot_draft.decoding.tokens import Tokenizer  # noqa: E402

GROUPS, HEADS = ({"num_attention_heads": 4, "num_key_value_heads": groups} for groups in (2, 4))
KINDS: dict[str, dict[str, Any]] = {
    "groups": GROUPS,
    "heads": HEADS,
    "biases": {"attention_bias": True, "mlp_bias": True},
    "one table": {"tie_word_embeddings": True},
    "wide heads": {**GROUPS, "head_dim": 6},
    "other turns": {"rope_theta": 300.0},
}
FEW = {
    "rtol": 0.0,
    "atol": 1e-4,
}  # of numbers up to 20: transformers' own passes in float32 are as far from those in float64


def llama(layers: int = 3, **changes: Any) -> Any:
    """A model of transformers whose norms and biases are not 1 and 0."""
    made = tiny_llama(5, 11, layers, torch.float32, **changes)
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if "bias" in name or "norm" in name:
                weight.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(len(name)))
    return made


def passes(model: Any) -> list[torch.Tensor]:
    """Logits of two texts, of a tree behind each, and of a text by itself, where no mask is given; hidden states along it."""
    reader, cache = LanguageModel(model, 11, keeps=(1,)), SlotCache(16, 3)
    texts = torch.arange(10).reshape(2, 5)
    slots = torch.arange(5).expand(2, -1)
    first = reader.logits(cache, texts, slots, slots, causal_mask(5, 16, torch.device("cpu")))
    lengths, depths = torch.tensor([4, 3]), torch.tensor([0, 1, 1, 2])
    sees = ot.paths.TreeShape((0, 0, 1)).layout(torch.zeros((2, 3), dtype=torch.int64)).sees
    mask = tree_mask(torch.from_numpy(sees.copy()), lengths, 16)
    places = lengths[:, None] + torch.arange(4)
    nodes = torch.tensor([[4, 1, 2, 3], [8, 3, 2, 1]])
    behind = reader.logits(cache, nodes, places, lengths[:, None] + depths, mask)
    text = [1, 2, 3, 4, 5]
    return [first, behind, cache.states_at(places), reader.logits_along(text, [2, 5]), reader.features_along(text)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", [False, True])
def test_passes_give_the_numbers_of_transformers(kind: str, packed: bool) -> None:
    model = llama(**KINDS[kind])
    own = as_llama(model)
    assert isinstance(own, Llama)
    if packed:
        pack(own, 0)
    for ours, theirs in zip(passes(own), passes(model.double()), strict=True):
        torch.testing.assert_close(ours, theirs.float(), **FEW)


def test_what_is_kept_and_handed_out_is_what_transformers_records() -> None:
    model, tokens = llama(), torch.tensor([[1, 2, 3, 4]])
    found, wanted = (each(tokens, output_hidden_states=True).hidden_states for each in (as_llama(model), model))
    assert len(found) == len(wanted) == 4
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, **FEW)


PLANTED = {
    "keys that are not turned": lambda m: m.model.inverse.zero_(),
    "norms without weight": lambda m: m.model.layers[1].before_mlp.scaled.fill_(4.0),
    "another epsilon": lambda m: m.model.layers[0].before_attention.least.fill_(1.0),
    "neighbours that are not": lambda m: m.model.layers[0].qkv.weight.copy_(m.model.layers[0].qkv.weight.flip(0)),
    "up and gate": lambda m: m.model.layers[2].gate_up.weight.copy_(m.model.layers[2].gate_up.weight.roll(32, 0)),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_an_error_in_a_pass_is_found(planted: str) -> None:
    model = llama(**GROUPS)
    own = as_llama(model)
    with torch.no_grad():
        PLANTED[planted](own)
    pairs = zip(passes(own), passes(model.double()), strict=True)
    assert any(not torch.allclose(ours, theirs.float(), **FEW) for ours, theirs in pairs)


def test_a_norm_of_almost_nothing() -> None:
    theirs = transformers.models.llama.modeling_llama.LlamaRMSNorm(16, 1e-5)
    x = torch.randn(3, 16) * torch.tensor([[1.0], [1e-3], [0.0]])
    torch.testing.assert_close(Norm(16, 1e-5)(x), theirs(x).detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_act": "gelu"},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
        {"architectures": ["OtherForCausalLM"]},
    ],
)
def test_another_model_is_left_to_transformers(changes: dict[str, Any]) -> None:
    config = tiny_llama(5).config.to_dict()
    assert reads(config) and not reads(config | changes)


def states_pair(folder: Path, reads_states: bool) -> tuple[Pair, Pair]:
    """A pair by transformers in float32, and the same by `Llama`, both drafts read from one file."""
    from safetensors.torch import save_file

    made = tiny_state_pair(3, 12, [0, 1, 2, 4, 5, 7, 8, 9, 10])
    made.target.float()
    tensors = as_tensors(made.draft)
    if not reads_states:
        tensors = {name: tensor for name, tensor in tensors.items() if name.startswith(("model.", "vocabulary"))}
    save_file(tensors, folder / "draft.safetensors")
    targets = made.target, as_llama(made.target)
    plain, own = (Pair(target, load_draft(target, folder / "draft.safetensors")) for target in targets)
    return plain, own


TREES = {
    "one path": lambda: Drafting.chains(1, 3, ot.paths.BlockVerification()),
    "several": lambda: Drafting.chains(3, 2, ot.paths.Joint()),
    "counted": lambda: Drafting.of(ot.paths.CountedTree(6, 3)),
}


@pytest.mark.parametrize("reads_states", [False, True])
@pytest.mark.parametrize("tree", slow_except(TREES, "several"))
def test_texts_are_those_of_transformers_and_of_the_reference(tree: str, reads_states: bool, tmp_path: Path) -> None:
    plain, own = states_pair(tmp_path, reads_states)
    assert type(own.draft.backbone).__module__ != type(plain.draft.backbone).__module__
    prompts, options = [[1, 2, 3], [4, 5]], DecodeOptions(max_tokens=14, seed=2)
    wanted = decode(plain, prompts, TREES[tree](), options)
    found = decode(own, prompts, TREES[tree](), options)
    assert found.tokens == wanted.tokens
    assert found.tokens == [reference_decode(own, p, TREES[tree](), options, row) for row, p in enumerate(prompts)]
    laws = replace(options, laws=True, max_tokens=4)
    steps = zip(
        decode(own, prompts, TREES[tree](), laws).steps, decode(plain, prompts, TREES[tree](), laws).steps, strict=True
    )
    for ours, theirs in steps:
        torch.testing.assert_close(ours.q, theirs.q, rtol=0, atol=1e-3)  # states that are read again let rounding grow
        torch.testing.assert_close(ours.p, theirs.p, **FEW)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("packing", [lambda model: 0, pack, pack_float16])
def test_a_copy_reads_by_its_own_weights(how: Any, packing: Any) -> None:
    own = as_llama(llama())
    packing(own, 0) if packing in (pack, pack_float16) else None
    other, before = how(own), passes(own)
    with torch.no_grad():
        for weight in own.parameters():
            weight.zero_()
    for ours, wanted in zip(passes(other), before, strict=True):
        torch.testing.assert_close(ours, wanted, **FEW)
    assert not torch.allclose(passes(own)[1], before[1], atol=1e-3)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return save_tiny_pair(tmp_path_factory.mktemp("models"))


def test_a_folder_is_read_without_transformers(models: list[str]) -> None:
    read = (
        "import sys; from ot_draft.decoding import load_pair, decode, Drafting, DecodeOptions\n"
        f"pair = load_pair({models[1]!r}, {models[3]!r})\n"
        "print(decode(pair, [pair.encode('a b c')], Drafting.plain(), DecodeOptions(max_tokens=9)).tokens[0])\n"
        "print([name for name in ('transformers', 'torch._dynamo', 'sympy') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, check=True).stdout
    tokens, imported = map(json.loads, printed.splitlines())
    assert imported == []
    by_transformers = load_pair(models[1], models[3], packed=False)
    assert isinstance(by_transformers.target, transformers.LlamaForCausalLM)
    prompt = by_transformers.encode("a b c")
    assert tokens == decode(by_transformers, [prompt], Drafting.plain(), DecodeOptions(max_tokens=9)).tokens[0]


def test_transformers_generates_with_models_of_its_own(models: list[str]) -> None:
    pair = load_pair(models[1], models[3])
    theirs = generating(pair)
    assert isinstance(theirs.target, transformers.LlamaForCausalLM) and generating(theirs) is theirs
    torch.testing.assert_close(theirs.logits_along([1, 2, 3], [3])[0], pair.logits_along([1, 2, 3], [3])[0], **FEW)
    assert [peer.models.target for peer in peers(theirs, 2)] == [theirs.target] * 3


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


def test_the_embedded_tokenizer_says_what_that_of_transformers_says() -> None:
    load = pytest.importorskip("llm_demo.models.load")
    if load.missing_packages():
        pytest.skip(f"no {', '.join(load.missing_packages())}: see the Makefile")
    pair, theirs = load.load_pair(draft="lookup"), load.load_pair(draft="lookup", packed=False).tokenizer
    assert type(pair.tokenizer) is Tokenizer
    ours, chat = pair.tokenizer, [{"role": "system", "content": "{% if %}"}, {"role": "user", "content": "  Naïve\n"}]
    for text in ("Naïve 日本 <|im_start|>user\n  x = [1,2]<|im_end|>", "", " a\n\n\tb  ", "🦊🕰️"):
        for special in (True, False):
            tokens = theirs(text, add_special_tokens=special).input_ids
            assert ours(text, add_special_tokens=special)["input_ids"] == tokens
            assert ours.decode(tokens, skip_special_tokens=special) == theirs.decode(
                tokens, skip_special_tokens=special
            )
    for messages in (chat, chat[1:]):
        for prompt in (True, False):
            options = {"tokenize": False, "add_generation_prompt": prompt}
            assert ours.apply_chat_template(messages, **options) == theirs.apply_chat_template(messages, **options)
    assert len(ours) == len(theirs) and ours.get_vocab() == theirs.get_vocab()
