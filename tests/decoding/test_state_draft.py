"""A draft that reads the target's hidden states, or its cache: the engine drafts from the laws that slow passes give."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from slow import slow_except
from tiny_models import tiny_llama, tiny_pair, tiny_state_pair

import ot_draft as otd
from ot_draft.draft_spec import DraftSpec

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


from llm_demo.bench.trees.prefixes import SLOTS, PrefixLogits, behind_places  # noqa: E402
from ot_draft.decoding import (  # noqa: E402
    CannotDecode,
    DecodeOptions,
    Drafting,
    Pair,
    Policy,
    PromptLookup,
    SamplingParams,
    decode,
    decode_steps,
    load_draft,
    model_runner,
    reference_decode,
)
from ot_draft.decoding.benchmark.peers import assistant, peers  # noqa: E402
from ot_draft.decoding.cache import SlotCache  # noqa: E402
from ot_draft.decoding.draft_models import (  # noqa: E402
    StateDraft,
    SubsetDraft,
    features_of,
)
from ot_draft.decoding.drafters import ModelDrafter  # noqa: E402
from ot_draft.decoding.engine import Engines  # noqa: E402
from ot_draft.decoding.language_model import StateModel, hidden_states, language_model  # noqa: E402
from ot_draft.decoding.loop import begin  # noqa: E402
from ot_draft.decoding.model_runner import ModelRunner  # noqa: E402
from ot_draft.decoding.self_draft import self_draft  # noqa: E402
from ot_draft.trees.drafting.baselines import ConfidentTree  # noqa: E402

paths, rules = otd.trees, otd.rules
PROMPTS = [[1, 2, 3, 4, 5, 6, 7, 1, 2], [5], [3, 1, 0]]
SUBSET = [0, 1, 2, 3, 5, 7, 8, 11]
OPTIONS = DecodeOptions(max_tokens=14, seed=7)


@cache
def pair() -> Pair:
    return tiny_state_pair(3, 12, SUBSET)


@cache
def self_pair(name: str = "skip:1") -> Pair:
    """The target drafts for itself without layers, in its own cache."""
    target = tiny_llama(5, 12, layers=3)
    return Pair(target, self_draft(target, DraftSpec.parse(name)))


PAIRS: dict[str, Callable[[], Pair]] = {
    "states": pair,
    "skip": self_pair,
    "skip the first": partial(self_pair, "skip:0"),
    "exit": partial(self_pair, "exit:2"),
}
EACH_PAIR = pytest.mark.parametrize("of", slow_except(PAIRS, "states", "exit"))


@dataclass(frozen=True)
class InTurn(Policy):
    """Draftings in turn by the length of the first text, which is all that the reference tells, too."""

    candidates: tuple[Drafting, ...]

    def choose(self, texts: Sequence[Sequence[int]]) -> Drafting:
        return self.candidates[len(texts[0]) % len(self.candidates)]


def changing() -> InTurn:
    """One path, nothing at all, what is looked up, a tree: the draft model lags behind by several tokens."""
    one = Drafting.chains(1, 1, paths.TokenWise(rules.SpeculativeSampling()))
    tree = Drafting(
        otd.trees.FixedTree(paths.TreeShape.by_level((2, 2, 1))), paths.TokenWise(rules.RecursiveRejection())
    )
    looked_up = Drafting.looked_up(PromptLookup(3, 1))
    return InTurn((one, looked_up, Drafting.autoregressive(), tree, Drafting.autoregressive()))


PLANS: dict[str, Callable[[], Any]] = {
    "one token": lambda: Drafting.chains(1, 1, paths.TokenWise(rules.SpeculativeSampling())),
    "one path": lambda: Drafting.chains(1, 4, paths.BlockVerification()),
    "k-seq": lambda: Drafting.chains(3, 3, paths.TokenWise(rules.KSeq())),
    "tree": lambda: Drafting(
        paths.FixedTree(paths.TreeShape((0, 0, 0, 1, 1, 3, 6)), otd.WithoutReplacement()),
        paths.TokenWise(rules.RecursiveRejectionWithoutReplacement()),
    ),
    "ours": lambda: Drafting.of(paths.AdaptiveTree(8, 4, 4)),
    "EAGLE-2": lambda: Drafting.of(ConfidentTree(8, 4, 3, 2)),
    "lookup and model": lambda: Drafting.of(paths.LookupTree(10, 4), lookup=PromptLookup(3, 1)),
}
EACH = pytest.mark.parametrize("name", PLANS)


@pytest.mark.parametrize("of", slow_except(PAIRS, "states", "skip"))
@pytest.mark.parametrize("name", slow_except(PLANS, "one token", "lookup and model"))
def test_the_engine_equals_the_reference(name: str, of: str) -> None:
    made = decode(PAIRS[of](), PROMPTS, PLANS[name](), OPTIONS)
    assert made.tokens == [expected(of, name, row) for row in range(len(PROMPTS))]
    assert len(torch.cat([step.length[step.active] for step in made.steps]).unique()) > 1


@pytest.mark.parametrize("of", slow_except(PAIRS, "states"))
def test_prompts_of_one_token_alone(of: str) -> None:
    """Nothing stands before their roots that the target could have kept states of."""
    made = decode(PAIRS[of](), [[3]], PLANS["one path"](), OPTIONS)
    assert made.tokens == [reference_decode(PAIRS[of](), [3], PLANS["one path"](), OPTIONS)]


@cache
def expected(of: str, name: str, row: int) -> list[int]:
    """What the reference emits."""
    return reference_decode(PAIRS[of](), PROMPTS[row], PLANS[name](), OPTIONS, row)


@pytest.mark.parametrize("of", slow_except(PAIRS, "states", "skip the first"))
def test_the_engine_equals_the_reference_where_draftings_take_turns(of: str) -> None:
    for row, prompt in enumerate(PROMPTS):
        options = replace(OPTIONS, rows=[row], max_tokens=20)
        assert decode(PAIRS[of](), [prompt], changing(), options).tokens == [
            reference_decode(PAIRS[of](), prompt, changing(), options, row)
        ]


@EACH_PAIR
def test_a_greedy_text_is_the_targets(of: str) -> None:
    options = DecodeOptions(SamplingParams(0.0), max_tokens=16, stop=(), draft_sampling=SamplingParams(1.0))
    plain = decode(PAIRS[of](), PROMPTS, Drafting.autoregressive(), options)
    for name in ("one path", "tree", "ours", "lookup and model"):
        made = decode(PAIRS[of](), PROMPTS, PLANS[name](), options)
        assert made.tokens == plain.tokens and made.block_efficiency > 1


def _what_the_target_read_is_written_over(patch: pytest.MonkeyPatch) -> None:
    made = ModelDrafter.__init__

    def init(self: ModelDrafter, tree: paths.TreeDrafter, runner: ModelRunner, *given: Any) -> None:
        assert runner.read is not None
        made(self, tree, replace(runner, read=torch.zeros_like(runner.read)), *given)
        self.reread_window = 0

    patch.setattr(ModelDrafter, "__init__", init)


def _drafted_rows_are_moved_as_in_a_cache_of_its_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ModelDrafter, "slots", lambda self, nodes: torch.where(nodes < 0, -1, nodes + 1))


def _the_root_is_not_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ModelRunner, "read_last", lambda self, count: torch.zeros(len(self.texts.tokens), 1, 12).double())


@pytest.mark.parametrize(
    "plant",
    [
        _what_the_target_read_is_written_over,
        _drafted_rows_are_moved_as_in_a_cache_of_its_own,
        _the_root_is_not_read,
    ],
)
def test_an_error_in_the_shared_cache_is_found(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [expected("skip", "tree", row) for row in range(len(PROMPTS))]
    plant(monkeypatch)
    assert decode(self_pair(), PROMPTS, PLANS["tree"](), OPTIONS).tokens != wanted


def test_a_self_draft_takes_no_memory_and_does_not_read_the_text() -> None:
    engine = begin(self_pair(), PROMPTS, PLANS["one path"](), OPTIONS).next()
    memory = engine.state
    assert memory.draft is not None and memory.draft.cache is memory.target.cache
    before = memory.target.cache.keys[0].clone(), memory.target.cache.bytes
    engine.draw(0, range(3), 0)
    engine.propose()
    after = memory.target.cache.keys[0], memory.target.cache.bytes
    for row, prompt in enumerate(PROMPTS):
        root = len(prompt) - 1
        assert torch.equal(after[0][row, :, :root], before[0][row, :, :root])
        assert not torch.equal(after[0][row, :, root : root + 4], before[0][row, :, root : root + 4])
    assert after[1] == before[1]


@pytest.mark.parametrize("name", ["one path", "tree", "ours"])
def test_reading_as_many_tokens_in_every_step_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a CUDA graph does, which holds one number of them."""
    wanted = decode(pair(), PROMPTS, PLANS[name](), OPTIONS).tokens
    made = ModelDrafter.__init__

    def init(self: ModelDrafter, tree: paths.TreeDrafter, *given: Any) -> None:
        made(self, tree, *given)
        self.reread_window = tree.length - 1

    monkeypatch.setattr(ModelDrafter, "__init__", init)
    assert decode(pair(), PROMPTS, PLANS[name](), OPTIONS).tokens == wanted


def _not_moved_by_one(patch: pytest.MonkeyPatch) -> None:
    made = model_runner.hidden_before
    patch.setattr(model_runner, "hidden_before", lambda model, target, positions: made(model, target, positions + 1))


def _zero_before_drafted_tokens(patch: pytest.MonkeyPatch) -> None:
    made = StateModel.forward

    def forward(self: StateModel, cache: SlotCache, *given: Any, **options: Any) -> Any:
        """The draft model's own states are 0 where draft tokens are read: all passes but those over the sequence."""
        hidden = options.pop("hidden")
        return made(self, cache, *given, **options, hidden=hidden if options.get("last") else 0 * hidden)

    patch.setattr(StateModel, "forward", forward)


def _accepted_tokens_are_not_read_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ModelDrafter, "commit", lambda self, already, root, length: length - 2)


@pytest.mark.parametrize("plant", [_not_moved_by_one, _zero_before_drafted_tokens, _accepted_tokens_are_not_read_again])
def test_an_error_in_what_it_is_told_is_found(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs acceptance only: the law of the texts does not show it, the laws that are drafted from do."""
    right = right_laws()
    plant(monkeypatch)
    assert any(not torch.equal(one, other) for one, other in zip(drafted_laws(), right, strict=False))


def drafted_laws() -> list[Any]:
    drafting, options = PLANS["one path"](), replace(OPTIONS, laws=True, max_tokens=30)
    return [step.q for step in decode_steps(pair(), PROMPTS, drafting, options)]


@cache
def right_laws() -> list[Any]:
    """Without an error planted."""
    return drafted_laws()


def test_with_nothing_told_it_is_a_draft_that_reads_no_states() -> None:
    deaf = tiny_state_pair(3, 12, SUBSET, told=0.0)
    backbone = copy.deepcopy(deaf.draft.backbone)
    backbone.norm = deaf.draft.norm
    plain = SubsetDraft(backbone, deaf.target.get_input_embeddings(), torch.tensor(SUBSET)).to(torch.float64)
    for name in ("one path", "ours"):
        texts = [decode(each, PROMPTS, PLANS[name](), OPTIONS).tokens for each in (replace(deaf, draft=plain), deaf)]
        assert texts[0] == texts[1]


@EACH_PAIR
def test_laws_along_a_text_are_those_that_are_drafted_from(of: str) -> None:
    text = PROMPTS[0]
    found = PAIRS[of]().logits_along(text, [2, 5, len(text)])[1].softmax(-1)
    for place, law in zip((2, 5, len(text)), found, strict=True):
        options = replace(OPTIONS, laws=True)
        step = next(iter(decode_steps(PAIRS[of](), [text[:place]], PLANS["one token"](), options)))
        assert step.q is not None
        torch.testing.assert_close(step.q[0, 0], law)


def test_features_are_normed_side_by_side() -> None:
    hidden = [torch.randn(2, 3, 4, dtype=torch.float64) for _ in range(5)]
    found = features_of(hidden, (1, 3), 0.0)
    assert found.shape == (2, 3, 12)
    expected = torch.cat([hidden[i] / hidden[i].square().mean(-1, keepdim=True).sqrt() for i in (1, 3, 4)], -1)
    torch.testing.assert_close(found, expected)


def test_a_file_is_read_back_as_the_same_draft(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    from llm_demo.distil.train import as_tensors

    short = copy.deepcopy(pair().draft)
    for name, weight in short.named_parameters():
        if "embed_tokens" not in name and not name.startswith("head"):
            weight.copy_(weight.half())  # what a file holds
    save_file(as_tensors(short), tmp_path / "draft.safetensors")
    read = load_draft(pair().target, tmp_path / "draft.safetensors")
    assert isinstance(read, StateDraft) and read.reads == (1, 2) and read.vocabulary_subset.tolist() == SUBSET
    tokens, before = torch.tensor([[1, 2, 3]]), torch.randn(1, 3, 16, dtype=torch.float64)
    torch.testing.assert_close(read(tokens, before=before), short(tokens, before=before))


def test_behind_a_context_it_is_told_the_targets_states_and_then_its_own() -> None:
    """Trees of prefixes, in any order, through a cache that grows on the way: laws are those along each path by itself."""
    models = pair()
    draft = language_model(models.draft, 12)
    reader, context = PrefixLogits(models.draft, [3, 1, 4, 1], 12, models.target), [3, 1, 4, 1]
    features = hidden_states(language_model(models.target, 12, models.draft.reads), context[:-1])
    many = [(a, b, (a * b) % 12) for a in range(12) for b in range(12)]
    found = dict(zip(many, reader.at(many), strict=True))
    assert reader.read > SLOTS
    for asked in [(), (2,), *many[::17]]:
        text = [*context, *asked]
        logits = draft.full_pass(text, [len(text)], features).logits
        alone = draft.info.expand_to_vocab(logits, float("-inf"))[0]
        torch.testing.assert_close(reader.at([asked])[0], alone, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(found[many[5]], reader.at([many[5]])[0])
    places = behind_places(models.draft, [*context, 5, 6], [4, 6], 12, models.target)
    for place, logits in zip([4, 6], places, strict=True):
        alone = PrefixLogits(models.draft, [*context, 5, 6][:place], 12, models.target).at([()])[0]
        torch.testing.assert_close(logits, alone, atol=1e-9, rtol=1e-9)


def test_who_has_no_states_says_so() -> None:
    with pytest.raises(CannotDecode, match="hidden states"):
        PrefixLogits(pair().draft, [1, 2], 12)
    with pytest.raises(CannotDecode, match="hidden states"):
        assistant(pair().draft)


def test_transformers_asks_the_assistant_in_its_place() -> None:
    alone, other = pair(), tiny_pair(3, 12, layers=3).draft
    accompanied, plain = replace(alone, assistant=other), replace(alone, draft=other)
    assert [each.assisting for each in (alone, accompanied, plain)] == [None, other, other]
    labels = [[peer.label for peer in peers(each, 2)] for each in (alone, accompanied, plain)]
    assert labels[1] == labels[2] and len(labels[0]) == len(labels[1]) - 1


def test_the_target_keeps_states_only_for_who_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bool] = []
    made = Engines.__init__

    def init(self: Engines, memory: Any, *rest: Any) -> None:
        made(self, memory, *rest)
        kept.append(bool(memory.target.model.info.hidden_layers))

    monkeypatch.setattr(Engines, "__init__", init)
    decode(pair(), PROMPTS, Drafting.autoregressive(), OPTIONS)
    decode(pair(), PROMPTS, PLANS["one token"](), OPTIONS)
    assert kept == [False, True]


def test_it_follows_sampling_settings() -> None:
    options = replace(OPTIONS, sampling=SamplingParams(0.7, top_k=5))
    plan = PLANS["k-seq"]()
    assert decode(pair(), PROMPTS[:1], plan, options).tokens == [reference_decode(pair(), PROMPTS[0], plan, options)]


def test_a_target_of_another_kind() -> None:
    """GPT-2's epsilon has another name; features are normed all the same."""
    from transformers import GPT2Config, GPT2LMHeadModel

    target = GPT2LMHeadModel(GPT2Config(vocab_size=12, n_embd=16, n_layer=2, n_head=2, n_positions=64)).double().eval()
    whole, plan = Pair(target, pair().draft, shared_prefix=True), PLANS["one path"]()
    assert decode(whole, PROMPTS[:1], plan, OPTIONS).tokens == [reference_decode(whole, PROMPTS[0], plan, OPTIONS)]
