"""Bad input to the demo gets one clear line that names what was given and what to give instead; good input loads."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_models import tiny_llama, tiny_pair

import ot_draft as otd

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from llm_demo.models.load import DRAFT_FILE, load_pair  # noqa: E402
from ot_draft.decoding import Auto, PromptLookup  # noqa: E402
from ot_draft.decoding.drafting import Drafting  # noqa: E402
from ot_draft.decoding.language_model import LanguageModel, language_model  # noqa: E402
from ot_draft.decoding.loop import (  # noqa: E402
    DecodeOptions,
    begin,
    decode,
    decode_steps,
)
from ot_draft.decoding.pair import Pair  # noqa: E402
from ot_draft.decoding.policy import Policy  # noqa: E402
from ot_draft.decoding.probe import check_reads_trees  # noqa: E402
from ot_draft.decoding.reference import reference_decode  # noqa: E402
from ot_draft.decoding.sampling import SamplingParams  # noqa: E402
from ot_draft.errors import CannotDecode  # noqa: E402

paths, rules = otd.trees, otd.rules
K_SEQ = paths.TokenWise(rules.KSeq())
PLAN = Drafting.chains(2, 3, K_SEQ)


def start(prompts: Any, **options: Any) -> Any:
    """An engine on a tiny pair with a context of 256."""
    return begin(tiny_pair(), prompts, PLAN, DecodeOptions(**options)).next()


class Choice(Policy):
    """Chooses what it is given, whatever its candidates are."""

    def __init__(self, candidates: Any, chosen: Any) -> None:
        self.candidates, self.chosen = candidates, chosen

    def choose(self, texts: Any) -> Any:
        return self.chosen


def run_by(policy: Any) -> Any:
    return decode(tiny_pair(), [[1]], policy, DecodeOptions(max_tokens=2))


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "prompts as one text": (lambda: start("abc"), "list of lists of token ids, got 'abc'"),
    "prompts as a tensor": (lambda: start(torch.ones(1, 2).long()), "list of lists of token ids, got tensor([[1, 1]])"),
    "a text for tokens": (
        lambda: start([[1], "abc"]),
        "prompt 1 must be a list of token ids, got 'abc'. Use pair.encode",
    ),
    "one prompt alone": (lambda: start([1, 2]), "prompt 0 must be a list of token ids, got 1"),
    "tokens with a point": (
        lambda: start([[1, 1.5]]),
        "each token of prompt 0 must be an integer of at least 0 and below 8, got 1.5",
    ),
    "half a token": (lambda: start([[1]], max_tokens=2.5), "max-tokens must be an integer of at least 1, got 2.5"),
    "a path rule for a drafting": (lambda: run_by(paths.Joint()), "policy must be a Drafting, Auto or Policy, got"),
    "a class for a policy": (lambda: run_by(Auto), "policy must be a Drafting, Auto or Policy, got"),
    "no candidates": (lambda: run_by(Choice((), PLAN)), "candidates of Choice must be draftings, got none"),
    "no candidate": (lambda: run_by(Choice((Drafting.chains(1, 1, K_SEQ),), PLAN)), "not one of its candidates"),
    "no drafting chosen": (
        lambda: run_by(Choice((PLAN,), None)),
        "Choice chose None, which is not one of its candidates",
    ),
    "vocabularies differ": (lambda: Pair(tiny_llama(0, 8), tiny_llama(0, 9)), "vocabulary of 8 tokens, got 9"),
    "prompt longer than the context": (
        lambda: start([[1], [1] * 256]),
        "prompt 1 must be shorter than the target's context of 256 tokens, got 256",
    ),
    "no room for new tokens": (
        lambda: start([[1] * 200], max_tokens=64),
        "max-tokens must be at most 56 for prompt 0 of 200 tokens",
    ),
    "no prompt": (lambda: start([]), "prompts must hold at least one prompt"),
    "empty prompt": (lambda: start([[1], []]), "prompt 1 must have at least one token"),
    "token outside the vocabulary": (
        lambda: start([[1, 8]]),
        "each token of prompt 0 must be an integer of at least 0 and below 8, got 8",
    ),
    "no tokens wanted": (lambda: start([[1]], max_tokens=0), "max-tokens must be an integer of at least 1, got 0"),
    "rows and prompts": (lambda: start([[1]], rows=[1, 2]), "rows must hold one entry per prompt (1), got 2"),
    "half a seed": (lambda: start([[1]], seed=1.5), "seed must be an integer, got 1.5"),
    "no seed": (lambda: start([[1]], seed=None), "seed must be an integer, got None"),
    "a word for a seed": (lambda: start([[1]], seed="a"), "seed must be an integer, got 'a'"),
    "one stop": (lambda: start([[1]], stop=3), "stop must be a list of integers, got 3"),
    "a word for a stop": (lambda: start([[1]], stop="a"), "stop must be a list of integers, got 'a'"),
    "half a stop": (lambda: start([[1]], stop=[2, 1.5]), "each of stop must be an integer, got 1.5"),
    "one row": (lambda: start([[1]], rows=3), "rows must be a list of integers, got 3"),
    "half a row": (lambda: start([[1]], rows=[1.5]), "each of rows must be an integer, got 1.5"),
    "no sampling": (lambda: start([[1]], sampling=None), "sampling must be SamplingParams, got None"),
    "a number for a draft's sampling": (
        lambda: start([[1]], draft_sampling=5),
        "draft_sampling must be SamplingParams, got 5",
    ),
    "a number for processors": (lambda: start([[1]], processed=[3]), "processed must be a list of Processed, got [3]"),
    "a dictionary for options": (
        lambda: decode(tiny_pair(), [[1]], options={"seed": 1}),
        "options must be DecodeOptions, got {'seed': 1}",
    ),  # type: ignore[arg-type]
    "no pair": (lambda: decode(None, [[1]]), "pair must be a Pair, got None. Use load_pair"),  # type: ignore[arg-type]
    "a word for a temperature": (
        lambda: SamplingParams("a"),
        "temperature must be a number, 0 (greedy) or more, got 'a'",
    ),  # type: ignore[arg-type]
    "no top-k": (lambda: SamplingParams(top_k=None), "top-k must be a number, 0 (all) or more tokens, got None"),  # type: ignore[arg-type]
    "a word for top-p": (
        lambda: SamplingParams(top_p="a"),
        "top-p must be a number, at least 0 and at most 1, got 'a'",
    ),  # type: ignore[arg-type]
    "half a token looked up": (
        lambda: PromptLookup(1.5),
        "prompt-lookup-num-tokens must be an integer of at least 1, got 1.5",
    ),  # type: ignore[arg-type]
    "half a match": (lambda: PromptLookup(2, 1.5), "max-matching-ngram-size must be an integer of at least 1, got 1.5"),  # type: ignore[arg-type]
    "half a least match": (lambda: PromptLookup(2, 2, 1.5), "min_ngram must be an integer, got 1.5"),  # type: ignore[arg-type]
    "warm_up of -1 s": (lambda: Auto(warm_up=-1), "warm_up must be a number of seconds, got -1. Use 0 for none"),
    "warm_up of NaN": (lambda: Auto(warm_up=float("nan")), "warm_up must be a number of seconds, got nan"),
    "a number to look up by": (lambda: Auto(lookup=5), "lookup must be a PromptLookup or None, got 5"),  # type: ignore[arg-type]
    "a number for costs": (lambda: Auto(costs=5), "costs must be otd.trees.Costs or None, got 5"),  # type: ignore[arg-type]
    "one number for paths": (lambda: Auto(paths=5), "paths must be pairs of a number and a length, got 5"),  # type: ignore[arg-type]
    "no path of two": (
        lambda: Auto(paths=((0, 2),)),
        "each number and length of paths must be an integer of at least 1, got 0",
    ),
    "half a path": (lambda: Drafting.chains(1.5, 2, K_SEQ), "paths must be an integer of at least 1, got 1.5"),  # type: ignore[arg-type]
    "a number for a tree": (lambda: Drafting(5, K_SEQ), "tree must be a TreeDrafter, got 5"),  # type: ignore[arg-type]
    "a selection rule": (
        lambda: Drafting(PLAN.tree, rules.KSeq()),
        "rule must be a path rule, got KSeq(factor=None, law=IID())",
    ),  # type: ignore[arg-type]
    "no path": (lambda: Drafting.chains(0, 4, K_SEQ), "paths must be an integer of at least 1, got 0"),
    "no length": (lambda: Drafting.chains(4, 0, K_SEQ), "length must be an integer of at least 1, got 0"),
    "rule without tree": (lambda: Drafting.of(rule=K_SEQ), "rule must be the default without a tree"),
    "rule and law": (lambda: Drafting.chains(2, 2, K_SEQ, otd.WithoutReplacement()), "drawn by WithoutReplacement"),
    "law and number": (lambda: Drafting.chains(3, 2, paths.NaivePath(), otd.SpecHubLaw()), "k = 2"),
    "temperature": (lambda: SamplingParams(-1), "temperature must be 0 (greedy) or more, got -1"),
    "top-p": (lambda: SamplingParams(top_p=1.5), "top-p must be at least 0 and at most 1, got 1.5"),
    "top-k": (lambda: SamplingParams(top_k=-3), "top-k must be 0 (all) or more tokens, got -3"),
    "min-p": (lambda: SamplingParams(min_p=2), "min-p must be at least 0 and at most 1, got 2"),
    "dtype": (lambda: load_pair(dtype="int8"), "dtype must be one of float32, bfloat16, float16, float64, got 'int8'"),
    "device": (lambda: load_pair(device="abacus"), "got 'abacus'. Use cpu or cuda"),
    "no such path": (lambda: load_pair("./nowhere"), "target './nowhere' does not exist"),
    "no such GGUF file": (lambda: load_pair("models/nothing.gguf"), "does not exist"),
    "a file of another kind": (lambda: load_pair(__file__), "must be a directory or a .gguf file"),
    "attention without masks": (lambda: _with_attention("flash_attention_2"), "attention must take a tree mask"),
    "positions that nobody asks for": (
        lambda: _of_family("Mpt", d_model=8),
        "MptForCausalLM does not go by position_ids",
    ),
    "a decoder torn from its encoder": (
        lambda: _of_family("Bart", decoder_layers=1, decoder_attention_heads=2),
        "does not go by position_ids",
    ),
    "places in the mask": (
        lambda: _of_family("Falcon", num_attention_heads=2, alibi=True),
        "does not go by position_ids",
    ),
    "layers with a state": (lambda: _of_family("Lfm2", layer_types=["conv"]), "layers of kind 'conv'"),
    "a mask of its own": (
        lambda: _of_family("GPTNeo", num_layers=1, attention_types=[[["local"], 1]]),
        "GPTNeoForCausalLM has a causal mask of its own",
    ),
}


def _with_attention(name: str) -> None:
    model = tiny_llama(0)
    model.config._attn_implementation = name
    check_reads_trees(LanguageModel(model, 8))


def _of_family(name: str, **settings: Any) -> None:
    """A tiny model of another family, under the names that most of them have for their sizes."""
    import transformers

    sizes = {"hidden_size": 8, "num_heads": 2, "n_heads": 2, "n_layers": 1, "num_hidden_layers": 1, "d_model": 8}
    ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    config = getattr(transformers, f"{name}Config")(vocab_size=8, **(sizes | ends | settings))
    check_reads_trees(LanguageModel(getattr(transformers, f"{name}ForCausalLM")(config), 8))


def test_chunks_of_attention_limit_the_context() -> None:
    model = tiny_llama(0)
    model.config.attention_chunk_size = 16  # as in Llama 4: behind it a token does not see the text's beginning
    assert LanguageModel(model, 8).info.max_length == 16


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told_in_one_line(name: str) -> None:
    ask, told = BAD[name]
    with pytest.raises(ValueError, match=re.escape(told)) as raised:
        ask()
    assert "\n" not in str(raised.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_no_cuda() -> None:
    with pytest.raises(CannotDecode, match="requires CUDA"):
        load_pair(device="cuda")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two directories with tiny models of one tokenizer, and one with another tokenizer."""
    base = tmp_path_factory.mktemp("models")
    for name, words in (("target", "abcdefgh"), ("draft", "abcdefgh"), ("other", "abcdefgx")):
        tiny_llama(len(name), 8, dtype=torch.float32).save_pretrained(base / name)
        _tokenizer(words).save_pretrained(base / name)
    return base


def _tokenizer(words: str) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="a"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made)


def test_a_pair_from_directories(folder: Path) -> None:
    pair = load_pair(str(folder / "target"), str(folder / "draft"), dtype="float64")
    prompt = pair.encode("a c d")
    assert prompt == [0, 2, 3]
    made = decode(pair, [prompt], PLAN, DecodeOptions(max_tokens=6)).tokens[0]
    assert made == reference_decode(pair, prompt, PLAN, DecodeOptions(max_tokens=6))
    assert pair.text(made).split() == ["abcdefgh"[token] for token in made]


def test_a_pair_has_one_name_for_the_same_models_loaded_alike(folder: Path) -> None:
    """By which what steps cost is kept; none where nothing is to be kept."""
    target, draft = str(folder / "target"), str(folder / "draft")
    ways: list[dict[str, Any]] = [{}, {}, {"dtype": "float64"}, {"cache": False}]
    one, same, *others, none = (load_pair(target, draft, **way).name for way in ways)
    assert one == same and len({one, *others}) == 2 and not none
    assert load_pair(target, "lookup").name != one


def test_half_precision_weights_give_laws_in_single_precision(folder: Path) -> None:
    pair = load_pair(str(folder / "target"), str(folder / "draft"), dtype="bfloat16")
    (step, *_) = decode(pair, [[1, 2], [3]], PLAN, DecodeOptions(max_tokens=4, laws=True)).steps
    assert step.p is not None and step.p.dtype == torch.float32
    assert torch.allclose(step.p.sum(-1), torch.ones(2, PLAN.tree.budget + 1))


def test_models_that_do_not_belong_together(folder: Path) -> None:
    with pytest.raises(CannotDecode, match="the tokenizers differ"):
        load_pair(str(folder / "target"), str(folder / "other"))
    with pytest.raises(CannotDecode, match="draft must be made for this target") as raised:
        load_pair(str(folder / "target"))  # the embedded draft is for the embedded target
    assert "\n" not in str(raised.value)
    with pytest.raises(CannotDecode, match="draft must be made for this target"):
        load_pair(str(folder / "target"), str(DRAFT_FILE))
    with pytest.raises(CannotDecode, match="must be an existing file"):
        load_pair(str(folder / "target"), str(folder / "no.safetensors"))


@pytest.mark.parametrize("backend", ["torch", "openvino-float"])
@pytest.mark.parametrize("lacks", ["lm_head.weight", "model.layers.0.self_attn.v_proj.weight", "model.norm.weight"])
def test_weights_that_are_not_there_are_not_made_up(folder: Path, tmp_path: Path, backend: str, lacks: str) -> None:
    """transformers fills them with random numbers, and warns; a head that is no embedding is not its embedding."""
    from safetensors.torch import load_file, save_file

    if backend != "torch":
        pytest.importorskip("openvino")
    part = tmp_path / "part"
    shutil.copytree(folder / "target", part)
    weights = load_file(part / "model.safetensors")
    save_file(
        {name: value for name, value in weights.items() if name != lacks}, part / "model.safetensors", {"format": "pt"}
    )
    with pytest.raises(CannotDecode, match=f"is incomplete: {lacks} is missing"):
        load_pair(str(part), "lookup", backend=backend)


def test_a_stored_head_counts_where_the_configuration_says_that_it_is_the_embedding(
    folder: Path, tmp_path: Path
) -> None:
    """In torch and in OpenVINO."""
    pytest.importorskip("openvino")
    both = tmp_path / "both"
    shutil.copytree(folder / "target", both)
    config = json.loads((both / "config.json").read_text())
    laws = []
    for tied in (False, True):
        (both / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": tied}))
        for backend in ("torch", "openvino-float"):
            target = load_pair(str(both), "lookup", backend=backend).target
            laws.append(language_model(target, 8).full_pass([1, 2, 3, 4], [2, 4]).logits)
    assert float(laws[0].abs().max()) > 0.1
    for other in laws[1:]:
        torch.testing.assert_close(laws[0], other, atol=1e-4, rtol=1e-4)


def test_an_empty_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(CannotDecode, match="cannot be loaded") as raised:
        load_pair(str(tmp_path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("width", [10, 14])
def test_embeddings_that_are_padded_differently(width: int) -> None:
    pair, options = (
        Pair(tiny_llama(1, 12), tiny_llama(2, width), tokenizer="one for both"),
        DecodeOptions(max_tokens=12),
    )
    made = decode(pair, [[1, 2], [3]], PLAN, options).tokens
    assert made == [reference_decode(pair, prompt, PLAN, options, row) for row, prompt in enumerate([[1, 2], [3]])]


def test_places_that_turn_otherwise_from_some_length_on_are_not_passed() -> None:
    """Longrope: transformers changes the factors of all places at once, where the keys in a cache keep the old ones."""
    turns = {"rope_type": "longrope", "short_factor": [1.0, 1.5, 2.0, 2.5], "long_factor": [3.0, 4.0, 5.0, 6.0]}
    turns |= {"rope_theta": 1e4, "original_max_position_embeddings": 16, "factor": 16.0}
    model = tiny_llama(2, 12, 2, rope_parameters=turns)
    pair, drafting = Pair(model, model), Drafting.chains(1, 3, paths.BlockVerification())
    text = [(7 * place + 3) % 12 for place in range(30)]

    def law_of(prompt: list[int]) -> Any:
        step = next(decode_steps(pair, [prompt], drafting, DecodeOptions(max_tokens=3, stop=(), laws=True)))
        return step.p[0, 0]

    for length in (10, 18, 30):  # what stays below it, and what is over it from the beginning
        wanted = model(torch.tensor([text[:length]])).logits[0, -1].softmax(-1)
        torch.testing.assert_close(law_of(text[:length]), wanted, atol=1e-6, rtol=0)
    alone = torch.stack([model(torch.tensor([text[:length]])).logits[0, -1] for length in range(1, 31)])
    for first, last in ((1, 30), (16, 17), (12, 16), (17, 30)):
        for logits in pair.logits_along(text, range(first, last + 1)):
            torch.testing.assert_close(logits, alone[first - 1 : last], atol=1e-5, rtol=0)
    for prompts, said in (
        ([text[:11]], r"prompt 0 must have at least 18 tokens, .* at most 16, .* got 11 tokens"),
        ([text[:17]], r"prompt 0 must have at least 18 tokens, .* got 17 tokens"),
        ([text[:30], text[:5]], r"prompt 1 must .* got 5 tokens"),
    ):
        with pytest.raises(CannotDecode, match=said):
            decode(pair, prompts, drafting, DecodeOptions(max_tokens=3, stop=()))
