"""Drafts that are no model of the target's vocabulary: without layers, with another tokenizer. All keep the target's law of the text.

The models are tiny and random, in float64; the two tokenizers are trained here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from chances import chance
from tiny_models import tiny_llama

import ot_draft as otd
from ot_draft.draft_spec import Chain, DraftSpec, EarlyExit, Lookup, NamedModel, OtherTokenizer, SkipLayers

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from ot_draft.decoding import CannotDecode, DecodeOptions, Drafting, Pair, decode, load_pair  # noqa: E402
from ot_draft.decoding.cascade import CascadePath  # noqa: E402
from ot_draft.decoding.draft_models import IntersectionDraft  # noqa: E402
from ot_draft.decoding.drafters import ModelDrafter  # noqa: E402
from ot_draft.decoding.reference import next_token  # noqa: E402
from ot_draft.decoding.sampling import SamplingParams  # noqa: E402
from ot_draft.decoding.self_draft import least_missed, self_draft  # noqa: E402
from ot_draft.decoding.text_draft import TextDraft  # noqa: E402

FALSE_ALARM = 1e-9
TEXTS, EMITTED = 1500, 3
CORPUS = ("abba cab", "a bad cab", "dab a cab", "cad bad dad", "a baa abba")
PATH = otd.trees.BlockVerification()


def tokenizer(size: int, mark: str = "Ġ") -> Any:
    """BPE over a few letters, trained here: spaces stand as a mark in front of words."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(replacement=mark, prepend_scheme="never")
    made.decoder = tokenizers.decoders.Metaspace(replacement=mark, prepend_scheme="never")
    made.train_from_iterator(CORPUS, tokenizers.trainers.BpeTrainer(vocab_size=size, show_progress=False))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made)


OURS, THEIRS = tokenizer(8), tokenizer(14, "▁")
N = len(OURS)


def test_the_tokenizers_differ() -> None:
    ours, theirs = OURS.get_vocab(), THEIRS.get_vocab()
    assert len(ours) == 8 and len(theirs) == 14
    assert OURS.decode(OURS("a bad cab").input_ids) == THEIRS.decode(THEIRS("a bad cab").input_ids) == "a bad cab"
    assert OURS("a bad cab").input_ids != THEIRS("a bad cab").input_ids


def target() -> Any:
    return tiny_llama(5, N, layers=3)


def drafted(kind: str) -> tuple[Pair, Drafting]:
    """A pair with such a draft, and how it drafts."""
    if kind in ("skip", "exit"):
        return Pair(
            target(), self_draft(target(), SkipLayers((1,)) if kind == "skip" else EarlyExit(2)), OURS
        ), Drafting.chains(1, 2, PATH)
    if kind == "chain":
        draft, cascade = self_draft(target(), SkipLayers((1,))), self_draft(target(), EarlyExit(1))
        return Pair(target(), draft, OURS, cascade=cascade), Drafting(CascadePath.of(3, 2), PATH)
    other = tiny_llama(6, len(THEIRS), layers=1)
    if kind == "tli":
        draft = IntersectionDraft.of(other, THEIRS, OURS, N)
        assert 4 <= len(draft.vocabulary_subset) < N + 1
        return Pair(target(), draft, OURS), Drafting.chains(1, 2, PATH)
    return Pair(target(), None, OURS, text_draft=TextDraft(other, THEIRS, OURS)), Drafting.looked_up()


KINDS = ("skip", "exit", "tli", "slem", "chain")


def law_of_text(prompt: list[int]) -> np.ndarray:
    """Law of the first EMITTED tokens: the product of the target's conditionals."""
    law, model = np.ones(()), Pair(target()).target_model
    for depth in range(EMITTED):
        texts = [[*prompt, *prefix] for prefix in product(range(N), repeat=depth)]
        rows = [next_token(model, text, SamplingParams()).numpy() for text in texts]
        law = law[..., None] * np.reshape(rows, (N,) * (depth + 1))
    return law


def found(kind: str, prompt: list[int]) -> tuple[float, float]:
    """The chance of what is emitted under the target's law of the text, and tokens a call."""
    pair, drafting = drafted(kind)
    texts = TEXTS // 6 if kind == "slem" else TEXTS  # its draft model reads one text after the other
    done = decode(pair, [prompt] * texts, drafting, DecodeOptions(max_tokens=EMITTED, stop=()))
    counts = np.zeros((N,) * EMITTED)
    np.add.at(counts, tuple(np.array(done.tokens).T), 1)
    return chance(counts, law_of_text(prompt)), done.block_efficiency


@pytest.mark.parametrize("kind", KINDS)
def test_the_text_follows_the_target(kind: str) -> None:
    found_chance, efficiency = found(kind, list(OURS("a bad").input_ids))
    assert found_chance > FALSE_ALARM
    assert efficiency > (1 if kind == "slem" else 1.05)  # something is accepted


@pytest.mark.parametrize("kind", ["skip", "tli"])
def test_drafts_of_another_law_than_is_told_are_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = ModelDrafter.propose

    def rolled(self: Any, *random: Any) -> None:
        usual(self, *random)
        self.q.copy_(self.q.roll(1, -1))

    monkeypatch.setattr(ModelDrafter, "propose", rolled)
    assert found(kind, list(OURS("a bad").input_ids))[0] < FALSE_ALARM


def test_a_text_draft_that_always_counts_as_right_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    usual: Callable[..., Any] = otd.trees.NaivePath._select

    def trusting(self: Any, tree: Any, draws: Any) -> Any:
        sure = tree.p.clone()
        for node in range(tree.tokens.shape[1]):
            sure[:, node] = torch.nn.functional.one_hot(tree.tokens[:, node].clamp(min=0), N)
        return usual(self, type(tree)(tree.parents, tree.tokens, sure, tree.q, tree.bounds, tree.law), draws)

    monkeypatch.setattr(otd.trees.NaivePath, "_select", trusting)
    assert found("slem", list(OURS("a bad").input_ids))[0] < FALSE_ALARM


def test_common_tokens_are_read_and_scored_as_the_draft_has_them() -> None:
    other = tiny_llama(6, len(THEIRS), layers=1)
    draft = IntersectionDraft.of(other, THEIRS, OURS, N)
    ours, theirs = OURS.get_vocab(), THEIRS.get_vocab()
    common = {token: number for token, number in ours.items() if token.replace("Ġ", "▁") in theirs}
    assert draft.vocabulary_subset.tolist() == sorted(common.values())
    for token, number in common.items():
        assert int(draft.own_ids[number]) == theirs[token.replace("Ġ", "▁")]
    text = torch.tensor([[common["a"], common["b"], common["a"]]])
    own = other(draft.own_ids[text]).logits
    assert torch.equal(draft(text), own[..., draft.own_ids[draft.vocabulary_subset]])


def test_a_text_draft_goes_on_as_its_model_does_whatever_was_asked_before() -> None:
    other = tiny_llama(6, len(THEIRS), layers=1)
    draft = TextDraft(other, THEIRS, OURS, 3)
    texts = [list(OURS(text).input_ids) for text in ("a bad", "a bad cab", "dad", "a bad cad")]
    for text in (*texts, *texts[::-1]):
        own = list(THEIRS(OURS.decode(text)).input_ids)
        written = list(own)
        for _ in range(3):
            written.append(int(other(torch.tensor([written])).logits[0, -1].argmax()))
        behind = THEIRS.decode(written)[len(THEIRS.decode(own)) :]
        assert list(draft.find(text).tokens) == list(OURS(behind).input_ids)


def test_layers_left_out_share_their_weights_and_are_named() -> None:
    whole = target()
    draft = self_draft(whole, SkipLayers((0, 2)))
    assert [layer.self_attn.q_proj.weight.data_ptr() for layer in draft.model.layers] == [
        whole.model.layers[1].self_attn.q_proj.weight.data_ptr()
    ]
    assert len(self_draft(whole, EarlyExit(1)).model.layers) == 1
    assert Pair(whole, draft).assisting is None  # transformers would give it a cache of its own, without a layer 0
    for name in ("skip:3", "skip:0,1,2", "skip:a", "exit:3", "exit:0", "exit:1,2"):
        with pytest.raises(CannotDecode, match="layers"):
            self_draft(whole, DraftSpec.parse(name))
    with pytest.raises(CannotDecode, match="to draft for itself"):
        self_draft(torch.nn.Linear(2, 2), SkipLayers((1,)))


def test_names_of_drafts() -> None:
    known = {
        "lookup": Lookup(),
        "skip:12,20": SkipLayers((12, 20)),
        "exit:8": EarlyExit(8),
        "tli:a/b": OtherTokenizer("a/b", by_text=False),
        "slem:a/b": OtherTokenizer("a/b", by_text=True),
        "C:/models/q.gguf": NamedModel("C:/models/q.gguf"),
        "chain:exit:2,skip:0": Chain(EarlyExit(2), SkipLayers((0,))),
        "chain:b,skip:1,2": Chain(NamedModel("b"), SkipLayers((1, 2))),
        "chain:skip:1,2,b": Chain(SkipLayers((1, 2)), NamedModel("b")),
        "./run:3": NamedModel("./run:3"),
    }
    assert {name: DraftSpec.parse(name) for name in known} == known
    for name in (
        "",
        "skip:",
        "exit:1,2",
        "tli:",
        "chain:q",
        "chain:,r",
        "chain:q,lookup",
        "chain:q,slem:r",
        "chain:a,b,c",
        "chain:skip:1,2",
    ):
        with pytest.raises(CannotDecode, match="draft must be"):
            DraftSpec.parse(name)
    for name in ("ngram:3", "lookup:3"):
        with pytest.raises(CannotDecode, match=f"got '{name}'. Name one of these, or write ./{name}"):
            DraftSpec.parse(name)


def test_the_search_leaves_out_what_is_missed_least() -> None:
    whole = target()
    for weight in whole.model.layers[1].parameters():  # a layer that does nothing
        weight.mul_(0)
    missing, share = next(least_missed(whole, [([1, 2, 3, 4, 5], [2, 3, 4])], 1))
    assert missing == [1] and share == pytest.approx(1)


def test_pairs_are_loaded_by_these_names(tmp_path: Any) -> None:
    for name, model, words in (("target", target(), OURS), ("draft", tiny_llama(6, len(THEIRS), layers=1), THEIRS)):
        model.save_pretrained(tmp_path / name)
        words.save_pretrained(tmp_path / name)
    big, small = str(tmp_path / "target"), str(tmp_path / "draft")
    with pytest.raises(CannotDecode, match="tli:NAME"):
        load_pair(big, small)
    assert isinstance(load_pair(big, f"tli:{small}").draft, IntersectionDraft)
    by_text = load_pair(big, f"slem:{small}")
    assert by_text.draft is None and isinstance(by_text.text_draft, TextDraft)
    assert len(load_pair(big, "skip:0").draft.model.layers) == 2
    prompt = [list(OURS("a bad").input_ids)]
    for name, drafting in (
        (f"tli:{small}", Drafting.chains(2, 2, otd.trees.Joint())),
        (f"slem:{small}", Drafting.looked_up()),
    ):
        assert len(decode(load_pair(big, name), prompt, drafting, DecodeOptions(max_tokens=8, stop=())).tokens[0]) == 8
