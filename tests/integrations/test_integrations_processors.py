"""Logits processors that look at the text: `generate` with several drafts applies them at every node, as plain `generate` does at
every token."""

from __future__ import annotations

from typing import Any

import pytest
from slow import slow, slow_except
from test_integrations_transformers import (
    ENDS,
    FALSE_ALARM,
    GREEDY_WAYS,
    MANY,
    MASK,
    PROMPTS,
    WAYS,
    N,
    greedy,
    pair,
    verdicts,
)
from tiny_models import tiny_llama

import ot_draft as otd

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from ot_draft.decoding import CannotDecode, DecodeOptions, Drafting, Processed, SamplingParams, decode, reference_decode  # noqa: E402
from ot_draft.integrations.generate_request import sampling_of  # noqa: E402
from ot_draft.integrations.transformers import multi_draft  # noqa: E402

FEW = 100  # texts a prompt: every text is asked about by itself
FEWEST = 60  # where an error emits tokens that are impossible
PENALISED = {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2, "temperature": 0.8, "top_k": 7, "typical_p": 0.95}
CONSTRAINED = {
    "bad_words_ids": [[3], [2, 4]],
    "sequence_bias": {(5,): 1.5, (1, 6): -2.0},
    "epsilon_cutoff": 0.02,
    "top_k": 0,
    "logits_processor": [transformers.MinLengthLogitsProcessor(6, ENDS["eos_token_id"])],
    **ENDS,
}


@MANY
@pytest.mark.parametrize("settings", [PENALISED, CONSTRAINED], ids=["penalised", "constrained"])
@pytest.mark.parametrize("name", ["joint", slow("without replacement")])
def test_the_law_is_that_of_plain_generate(name: str, settings: dict[str, Any], many: bool) -> None:
    texts, way = WAYS[name]
    assert min(verdicts(texts if many else FEW, way, **settings)) > FALSE_ALARM / len(PROMPTS)


@MANY
@pytest.mark.parametrize("n", [5, slow(11)])
def test_a_draft_with_another_vocabulary(n: int, many: bool) -> None:
    draft, (texts, way) = tiny_llama(4, n), WAYS["joint"]
    assert min(verdicts(texts if many else FEW, way, draft=draft, **PENALISED)) > FALSE_ALARM / len(PROMPTS)


def _shown_the_emitted_text_only(self: Any, tokens: Any, logits: Any) -> Any:
    drafted = len(tokens) > 1  # only the root is asked about alone
    return LAW(self, tokens[:, :-1] if drafted else tokens, logits)


def _without_padding(self: Any, processors: Any, greedy: bool = False, before: Any = ()) -> None:
    INIT(self, processors, greedy)


def _without_processors(self: Any, tokens: Any, logits: Any) -> Any:
    return logits.softmax(-1)


LAW, INIT = Processed.law, Processed.__init__


@pytest.mark.parametrize(
    ("method", "wrong"),
    [("law", _shown_the_emitted_text_only), ("__init__", _without_padding), ("law", _without_processors)],
)
def test_a_planted_error_is_rejected(method: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Processed, method, wrong)
    _, way = WAYS["joint"]
    assert min(verdicts(FEWEST, way, **(PENALISED | {"repetition_penalty": 4.0}))) < FALSE_ALARM / len(PROMPTS)


class Rises(transformers.LogitsProcessor):  # type: ignore[misc]
    """One of the user's own: prefers the token after the last one."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        return scores.scatter_add(1, (input_ids[:, -1:] + 1) % N, torch.full((len(scores), 1), 0.3, dtype=scores.dtype))


class TopKLogitsWarper(transformers.LogitsProcessor):  # type: ignore[misc]
    """Keeps the least probable tokens, under the name of a class of transformers."""

    top_k = 3

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        return scores.masked_fill(scores > scores.sort(-1).values[:, self.top_k - 1, None], float("-inf"))


class TemperatureLogitsWarper(transformers.TemperatureLogitsWarper):  # type: ignore[misc]
    """A temperature that depends on the length."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        return scores / (self.temperature if input_ids.shape[1] % 2 else 0.9)


class TopPLogitsWarper(transformers.LogitsProcessor):  # type: ignore[misc]
    """Without the attribute that transformers' class has."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        return scores.masked_fill(scores < scores.mean(-1, keepdim=True), float("-inf"))


class PrefixConstrainedLogitsProcessor(TopKLogitsWarper):
    """As above, for a class that is rebuilt for each row."""


class RepetitionPenaltyLogitsProcessor(TopPLogitsWarper):
    """As above, with a tensor under the name that transformers' class has for one."""

    prompt_ignore_length = torch.tensor([1, 2, 3])


class LogitNormalization(TopKLogitsWarper):
    """As above, for a class that is left out."""


@pytest.mark.parametrize(
    ("own", "texts"),
    [
        (TopKLogitsWarper(), FEWEST),
        (TemperatureLogitsWarper(0.3), FEW),
        (TopPLogitsWarper(), FEWEST),
        (PrefixConstrainedLogitsProcessor(), FEWEST),
        (RepetitionPenaltyLogitsProcessor(), FEWEST),
        (LogitNormalization(), FEWEST),
    ],
    ids=lambda own: "" if isinstance(own, int) else type(own).__name__,
)
def test_processors_are_known_by_their_class_and_not_by_its_name(own: Any, texts: int) -> None:
    _, way = WAYS["joint"]
    with pytest.raises(CannotDecode, match="is not known to depend on input_ids and scores alone"):
        verdicts(1, way, logits_processor=[own], top_k=0)
    found = verdicts(texts, way | {"stateless": (type(own),)}, logits_processor=[own], top_k=0)
    assert min(found) > FALSE_ALARM / len(PROMPTS)


def watermark() -> Any:
    made = transformers.WatermarkingConfig(bias=2.0, seeding_scheme="lefthash")
    return made.construct_processor(N, "cpu")


SETTINGS: dict[str, dict[str, Any]] = {
    "repetition penalty": {"repetition_penalty": 1.7},
    "no repeated pair": {"no_repeat_ngram_size": 2},
    "bad words": {"bad_words_ids": [[3], [2, 4]]},
    "bias": {"sequence_bias": {(5,): 1.5, (1, 6): -2.0}},
    "shortest length": {"min_new_tokens": 5, "eos_token_id": [1, 2, 3], "pad_token_id": 0},
    "forced end": {"forced_eos_token_id": 6, "eos_token_id": 6, "pad_token_id": 0},
    "growing end": {"exponential_decay_length_penalty": (2, 1.5), "eos_token_id": 6, "pad_token_id": 0},
    "suppressed": {"suppress_tokens": [1, 5], "begin_suppress_tokens": [2]},
    "allowed tokens": {"prefix_allowed_tokens_fn": lambda row, text: [(row + 2) % N, (int(text[-1]) + 3) % N]},
    "allowed tokens, all refused before": {
        "prefix_allowed_tokens_fn": lambda row, text: [(row + 2) % N, (int(text[-1]) + 3) % N],
        "no_repeat_ngram_size": 1,
    },
    "watermark": {"logits_processor": [watermark()]},
    "two of them": {"repetition_penalty": 1.7, "no_repeat_ngram_size": 3},
    "of the user's own": {"logits_processor": [Rises()], "repetition_penalty": 1.2},
}


@pytest.mark.parametrize("name", slow_except(SETTINGS, "bias", "suppressed"))
def test_greedy_is_plain_generate_token_for_token(name: str) -> None:
    models = pair()
    plain = greedy(models.target, **SETTINGS[name])
    assert plain[0] != greedy(models.target)[0], "the setting changes nothing here: the test would say nothing"
    for way in GREEDY_WAYS.values():
        loop = multi_draft(models.draft, stateless=(Rises,), **way)
        assert greedy(models.target, custom_generate=loop, **SETTINGS[name]) == plain


@MANY
def test_settings_that_only_the_general_way_can_honour(many: bool) -> None:
    """Warpers in another order, and those that keep several tokens whatever their mass."""
    warpers = [transformers.TopPLogitsWarper(0.3, min_tokens_to_keep=3), transformers.TemperatureLogitsWarper(0.3)]
    texts, way = WAYS["joint"]
    assert min(verdicts(texts if many else FEW, way, logits_processor=warpers, top_k=0)) > FALSE_ALARM / len(PROMPTS)


def test_the_engine_is_the_reference() -> None:
    models, prompts = pair(), [[1, 2, 3], [4], [5, 5]]
    penalty = transformers.RepetitionPenaltyLogitsProcessor(1.6)
    options = DecodeOptions(processed=[Processed([penalty, Rises()])] * 3, max_tokens=6, seed=3)
    for drafting in (
        Drafting.chains(3, 3, otd.trees.Joint()),
        Drafting(otd.trees.FixedTree(otd.trees.TreeShape.by_level((3, 2, 1))), otd.trees.Traversal()),
    ):
        texts = decode(models, prompts, drafting, options).tokens
        assert texts == [reference_decode(models, prompt, drafting, options, row) for row, prompt in enumerate(prompts)]


class NothingAfter(transformers.LogitsProcessor):  # type: ignore[misc]
    """Leaves no token behind a text that ends in one of these tokens."""

    def __init__(self, *tokens: int) -> None:
        self.tokens = torch.tensor(tokens)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        return scores.masked_fill((input_ids[:, -1:] == self.tokens).any(-1, keepdim=True), float("-inf"))


def test_no_token_left() -> None:
    """Where the target never gets, as behind a bad word, that is no matter; elsewhere it is told."""
    models = pair()
    loop = multi_draft(models.draft, stateless=(NothingAfter,), seed=1)
    given = {"custom_generate": loop, "do_sample": True, "max_new_tokens": 12}
    bad_words = transformers.NoBadWordsLogitsProcessor([[3], [6]], eos_token_id=-1)
    texts = models.target.generate(PROMPTS, logits_processor=[bad_words, NothingAfter(3, 6)], **given)
    assert texts.shape == (3, 16)
    with pytest.raises(CannotDecode, match=r"sequence 0, after \d+ tokens: logits processors must leave a token"):
        models.target.generate(PROMPTS, logits_processor=[NothingAfter(*range(N))], **given)
    for sampled in (True, False):
        with pytest.raises(CannotDecode, match=r"sequence 0, after \d+ tokens: logits processors must leave a token"):
            models.target.generate(
                PROMPTS, prefix_allowed_tokens_fn=lambda row, text: [], **given | {"do_sample": sampled}
            )


class Sees(transformers.LogitsProcessor):  # type: ignore[misc]
    """Keeps the texts that it is shown."""

    def __init__(self) -> None:
        self.texts: list[list[int]] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self.texts += input_ids.tolist()
        return scores


def test_a_hidden_token_that_processors_would_see_is_refused() -> None:
    loop, tokens = multi_draft(pair().draft), torch.tensor([[5, 0, 2]])
    with pytest.raises(CannotDecode, match="row 0 of attention_mask hides a token after another"):
        pair().target.generate(tokens, pad_token_id=0, repetition_penalty=1.2, max_new_tokens=2, custom_generate=loop)


def test_processors_see_padding_before_the_text() -> None:
    models, sees, loop = pair(), Sees(), multi_draft(pair().draft, stateless=(Sees,))
    for ids in ([0, 0, 5, 2, 3, 1], [5, 2, 3, 1, 0, 0]):
        tokens = torch.tensor([ids])
        given = {"attention_mask": (tokens > 0).long(), "max_new_tokens": 4, "logits_processor": [sees]}
        if ids[-1] == 0:  # behind which plain `generate` goes on
            with pytest.raises(CannotDecode, match="attention_mask row 0 must be 1 at the last token"):
                models.target.generate(tokens, custom_generate=loop, **given)
        else:
            models.target.generate(tokens, custom_generate=loop, **given)
    assert sees.texts and all(text[:6] == [0, 0, 5, 2, 3, 1] for text in sees.texts)


def test_nothing_is_allowed_behind_the_end() -> None:
    """As by a list of the texts that are allowed: plain `generate` does not ask there either."""
    models = pair()
    loop = multi_draft(models.draft, rule=otd.rules.KSeq(), paths=3, length=3, seed=1)
    given = {"custom_generate": loop, "do_sample": True, "max_new_tokens": 9, "attention_mask": MASK}
    for ended, ends in ((lambda text: 6 in text[4:], {"eos_token_id": 6}), (lambda text: len(text) >= 13, {})):

        def allowed(row: int, text: Any, ended: Any = ended) -> list[int]:
            return [] if ended(text) else [(int(text[-1]) + 5) % N, 6]

        texts = models.target.generate(PROMPTS, prefix_allowed_tokens_fn=allowed, pad_token_id=0, **given, **ends)
        assert 6 in texts[:, 4:]


def test_a_warper_that_drops_nothing_is_asked_itself() -> None:
    assert sampling_of([transformers.TopKLogitsWarper(3)], True) == SamplingParams(top_k=3)
    assert sampling_of([transformers.TopKLogitsWarper(3, filter_value=-4.0)], True) is None
