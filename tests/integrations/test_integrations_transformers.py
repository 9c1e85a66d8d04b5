"""`generate` with several drafts has the law of plain `generate`, and the manners: padding, ends, streamers, criteria, seeds.

The law is enumerated by asking plain `generate` for its scores behind every prefix. Each verdict is a chi-square test that
rejects a right loop with probability 1e-9; planted errors must be rejected by it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from inspect import signature
from itertools import product
from typing import Any

import numpy as np
import pytest
from chances import chance
from slow import slow, slow_except
from tiny_models import tiny_llama, tiny_pair

import ot_draft as otd

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from ot_draft.decoding import CannotDecode, PromptLookup, SamplingParams  # noqa: E402
from ot_draft.decoding import engine as engine_module  # noqa: E402
from ot_draft.decoding.cache import CACHE_NAMES  # noqa: E402
from ot_draft.decoding.model_runner import ModelRunner  # noqa: E402
from ot_draft.integrations import transformers as ours  # noqa: E402
from ot_draft.integrations.transformers import multi_draft  # noqa: E402

paths, rules = otd.trees, otd.rules
FALSE_ALARM = 1e-9
N, EMITTED, END = 8, 3, 7  # vocabulary, tokens looked at, the token that ends a text
PROMPTS = torch.tensor([[1, 2, 3, 4], [0, 0, 0, 5], [0, 0, 3, 1]])
MASK = torch.tensor([[1, 1, 1, 1], [0, 0, 0, 1], [0, 0, 1, 1]])
WARPED = {"temperature": 0.7, "top_k": 6, "top_p": 0.95, "min_p": 0.02}
PLAIN = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
ENDS = {"eos_token_id": END, "pad_token_id": 0}
TREE = paths.TreeShape.by_level((2, 2))
WITHOUT = rules.RecursiveRejectionWithoutReplacement()

FREE_POSITIONS = otd.trees.Costs({1: 1.0, 9: 1.1}, {1: 0.01, 2: 0.01})  # of a machine on which much is drafted
MANY = pytest.mark.parametrize("many", [False, slow(True)], ids=["few texts", "many texts"])
WAYS: dict[str, tuple[int, dict[str, Any]]] = {  # texts a prompt, where they are many
    "speculative sampling": (1000, {"rule": rules.SpeculativeSampling(), "paths": 1, "length": 2}),
    "block verification": (1000, {"rule": paths.BlockVerification(), "paths": 1, "length": 3}),
    "k-seq": (1000, {"rule": rules.KSeq(), "paths": 3, "length": 2}),
    "joint": (400, {"paths": 2, "length": 2}),
    "optimal, hybrid drafts": (400, {"rule": rules.Optimal(law=otd.Hybrid(top=1)), "tree": TREE}),
    "without replacement": (1000, {"rule": WITHOUT, "tree": TREE}),
    "auto": (400, {"costs": FREE_POSITIONS}),
}


@cache
def pair() -> Any:
    """The models of most tests, which leave them as they are."""
    return tiny_pair(seed=11, n=N, layers=2)


def other_model(family: str, kind: str) -> Any:
    """A tiny model that is not a causal language model."""
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8, "d_kv": 4}
    config = getattr(transformers, f"{family}Config")(vocab_size=N, num_layers=1, num_heads=2, d_model=8, **sizes)
    return getattr(transformers, f"{family}For{kind}")(config)


def test_a_depth_that_no_step_reached_has_no_acceptance() -> None:
    """A draft model that is never right."""
    summary = multi_draft(pair().draft, paths=2, length=3).summary
    summary.tried, summary.accepted = [3, 0], [0, 0]
    assert np.array_equal(summary.acceptance_by_depth, [0, float("nan")], equal_nan=True)
    assert "0.00 nan" in str(summary)


def test_the_summary_counts_what_the_steps_did() -> None:
    steps: list[Any] = []
    loop = multi_draft(pair().draft, paths=2, length=3, seed=5, on_step=steps.append)
    pair().target.generate(PROMPTS, attention_mask=MASK, max_new_tokens=12, do_sample=True, custom_generate=loop)
    going = [(step, row) for step in steps for row in range(len(PROMPTS)) if step.active[row]]
    lengths = [int(step.length[row]) for step, row in going]
    assert loop.summary.target_calls == len(going) and loop.summary.tokens == sum(lengths) + len(lengths)
    reached = [sum(length >= depth for length in lengths) for depth in range(4)]
    assert loop.summary.acceptance_by_depth == [reached[i + 1] / reached[i] for i in range(3) if reached[i]]
    assert loop.summary.seconds.total == pytest.approx(sum(step.seconds.total for step in steps))
    said = f"{len(going)} target calls, {sum(lengths) + len(lengths)} tokens"
    assert str(loop.summary).startswith(said) and "seconds: draft" in str(loop.summary)


def exact_law(target: Any, row: int, settings: dict[str, Any]) -> np.ndarray:
    """Law (N,) * EMITTED of what plain `generate` puts behind a prompt, with padding behind the end token."""
    law = np.ones(())
    ended = np.zeros((), dtype=bool)
    for depth in range(EMITTED):
        prefixes = torch.tensor(list(product(range(N), repeat=depth)), dtype=torch.int64).reshape(N**depth, depth)
        ids = torch.cat((PROMPTS[row].expand(len(prefixes), -1), prefixes), 1)
        mask = torch.cat((MASK[row].expand(len(prefixes), -1), torch.ones_like(prefixes)), 1)
        returned = {"max_new_tokens": 1, "do_sample": True, "output_scores": True, "return_dict_in_generate": True}
        scores = target.generate(ids, attention_mask=mask, **returned, **settings).scores[0]
        rows = scores.double().softmax(-1).numpy().reshape((N,) * (depth + 1))
        rows = np.where(ended[..., None], np.eye(N)[0], rows)
        law = law[..., None] * rows
        ended = ended[..., None] | ((np.arange(N) == END) & ("eos_token_id" in settings))
    return law


def verdicts(texts: int, way: dict[str, Any], draft: Any = None, **settings: Any) -> list[float]:
    """The chance, for each prompt, of what `generate` returns for one padded batch of all of them."""
    models = pair()
    loop = multi_draft(models.draft if draft is None else draft, seed=5, **way)
    given = {"attention_mask": MASK.repeat_interleave(texts, 0), "max_new_tokens": EMITTED, "do_sample": True}
    made = models.target.generate(PROMPTS.repeat_interleave(texts, 0), custom_generate=loop, **given, **settings)
    tokens = made[:, PROMPTS.shape[1] :].reshape(len(PROMPTS), texts, EMITTED).numpy()
    found = []
    for row, seen in enumerate(tokens):
        counts = np.zeros((N,) * EMITTED)
        np.add.at(counts, tuple(seen.T), 1)
        found.append(chance(counts, exact_law(models.target, row, settings)))
    return found


@MANY
@pytest.mark.parametrize("name", WAYS)
def test_the_law_is_that_of_plain_generate(name: str, many: bool) -> None:
    texts, way = WAYS[name]
    assert min(verdicts(texts if many else texts // 3, way, **WARPED)) > FALSE_ALARM / len(PROMPTS)


@MANY
def test_the_law_with_an_end_token_and_untouched_logits(many: bool) -> None:
    texts, way = WAYS["k-seq"]
    assert min(verdicts(texts if many else texts // 3, way, **PLAIN, **ENDS)) > FALSE_ALARM / len(PROMPTS)


@MANY
@pytest.mark.parametrize("n", [5, 11])
def test_a_draft_with_another_vocabulary(n: int, many: bool) -> None:
    draft, (texts, way) = tiny_llama(4, n), WAYS["k-seq"]
    assert min(verdicts(texts if many else texts // 3, way, draft=draft, **PLAIN)) > FALSE_ALARM / len(PROMPTS)


def _settings_are_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ours, "sampling_of", lambda processors, do_sample: SamplingParams())


def _padding_is_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ours, "prompts_of", lambda model, input_ids, given: input_ids.tolist())


def _only_the_first_position_of_the_target_is_warped(patch: pytest.MonkeyPatch) -> None:
    made = ModelRunner.read_tree

    def read_tree(self: ModelRunner, *given: Any) -> Any:
        p, why = made(self, *given)
        p[:, 1:] = made(replace(self, sampling=SamplingParams()), *given)[0][:, 1:]
        return p, why

    patch.setattr(ModelRunner, "read_tree", read_tree)


def _the_draft_is_drawn_at_temperature_1_and_reported_warped(patch: pytest.MonkeyPatch) -> None:
    made = engine_module.Engine.propose

    def propose(self: Any) -> None:
        drafter = self.drafter
        warped, plain = drafter.runner, replace(drafter.runner, sampling=SamplingParams())
        made(self)
        q = drafter.q.clone()
        drafter.runner = plain
        made(self)
        drafter.runner = warped
        drafter.q.copy_(q)

    patch.setattr(engine_module.Engine, "propose", propose)


def _all_texts_share_one_row_of_numbers(patch: pytest.MonkeyPatch) -> None:
    made = engine_module.uniforms
    patch.setattr(engine_module, "uniforms", lambda seed, rows, *given: made(seed, [row % 50 for row in rows], *given))


@pytest.mark.parametrize(
    ("plant", "texts"),
    [
        (_settings_are_dropped, 300),  # and the two below: tokens that are impossible
        (_padding_is_read, 300),
        (_only_the_first_position_of_the_target_is_warped, 300),
        (_the_draft_is_drawn_at_temperature_1_and_reported_warped, 1000),
        (_all_texts_share_one_row_of_numbers, 1000),
    ],
)
def test_a_planted_error_is_rejected(
    plant: Callable[[pytest.MonkeyPatch], None], texts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    _, way = WAYS["speculative sampling"]
    assert min(verdicts(texts, way, **WARPED)) < FALSE_ALARM / len(PROMPTS)


class SecondTime(transformers.StoppingCriteria):  # type: ignore[misc]
    """Ends a row at the second occurrence of a token, which it holds under the name that transformers' class has for its own."""

    def __init__(self, eos_token_id: Any) -> None:
        self.eos_token_id = eos_token_id

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        return (input_ids[:, 4:] == self.eos_token_id).sum(-1) >= 2


@pytest.mark.parametrize("end", [3, torch.tensor(3), torch.tensor([3])], ids=str)
def test_only_the_class_of_transformers_defines_end_tokens(end: Any) -> None:
    """A criterion of the user's own is asked, whatever its attributes; its rows are padded as in `generate`."""
    models = pair()
    given = {"attention_mask": MASK, "max_new_tokens": 30, "pad_token_id": 0, "stopping_criteria": [SecondTime(end)]}
    plain = models.target.generate(PROMPTS, **given)
    assert int((plain[:, 4:] == 3).sum(-1).max()) == 2
    for way in ({"paths": 2, "length": 3}, {"prompt_lookup_num_tokens": 4}):
        made = models.target.generate(PROMPTS, custom_generate=multi_draft(models.draft, **way), **given)
        assert made.tolist() == plain.tolist()


class Soft(transformers.LlamaForCausalLM):  # type: ignore[misc]
    """Does what PEFT's prompt tuning does: the first pass of `generate` reads vectors before the prompt, `forward` alone does not."""

    tokens = 2  # of the soft prompt

    def prepare_inputs_for_generation(self, input_ids: Any, is_first_iteration: bool = False, **kwargs: Any) -> Any:
        made = super().prepare_inputs_for_generation(input_ids, is_first_iteration=is_first_iteration, **kwargs)
        if is_first_iteration and self.tokens:
            soft = torch.ones(len(input_ids), self.tokens, self.config.hidden_size, dtype=self.dtype)
            made["inputs_embeds"] = torch.cat((soft, self.get_input_embeddings()(input_ids)), 1)
            made["input_ids"], made["position_ids"] = None, None
        if self.tokens:
            mask = made["attention_mask"]
            made["attention_mask"] = torch.cat((mask.new_ones(len(mask), self.tokens), mask), 1)
        return made


class Prefix(Soft):
    """Does what PEFT's prefix tuning does: the first pass finds keys and values in the cache."""

    def prepare_inputs_for_generation(self, input_ids: Any, is_first_iteration: bool = False, **kwargs: Any) -> Any:
        made = transformers.LlamaForCausalLM.prepare_inputs_for_generation(
            self, input_ids, is_first_iteration=is_first_iteration, **kwargs
        )
        return made | {CACHE: _a_cache_with_a_prompt()} if is_first_iteration else made


class Appends(transformers.LlamaForCausalLM):  # type: ignore[misc]
    """Reads one token more than it is given, as XLM does."""

    def prepare_inputs_for_generation(self, input_ids: Any, **kwargs: Any) -> Any:
        made = super().prepare_inputs_for_generation(input_ids, **kwargs)
        return made | {"input_ids": torch.nn.functional.pad(input_ids, (0, 1), value=5)}


class Later(transformers.LlamaForCausalLM):  # type: ignore[misc]
    """Reads another token in all passes but the first."""

    def prepare_inputs_for_generation(self, input_ids: Any, is_first_iteration: bool = False, **kwargs: Any) -> Any:
        made = super().prepare_inputs_for_generation(input_ids, is_first_iteration=is_first_iteration, **kwargs)
        return made if is_first_iteration else made | {"input_ids": 0 * made["input_ids"]}


class Restarts(transformers.LlamaForCausalLM):  # type: ignore[misc]
    """Gives every token after the prompt position 0."""

    def _update_model_kwargs_for_generation(self, outputs: Any, model_kwargs: Any, **kwargs: Any) -> Any:
        made = super()._update_model_kwargs_for_generation(outputs, model_kwargs, **kwargs)
        return made | {"position_ids": torch.zeros_like(made["attention_mask"][:, -1:])}


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Restarts, "Restarts._update_model_kwargs_for_generation must be that of transformers"),
        (Later, "input_ids, as Later"),
        (Soft, "as Soft prepares"),
        (Prefix, "holds tokens"),
        (Appends, "input_ids, as Appends"),
    ],
)
def test_what_generate_adds_outside_of_forward_is_refused(kind: Any, says: str) -> None:
    model = tiny_llama(11, N, 2)
    model.__class__ = kind
    with pytest.raises(CannotDecode, match=says) as refused:
        model.generate(PROMPTS, attention_mask=MASK, max_new_tokens=4, custom_generate=multi_draft(pair().draft))
    assert "\n" not in str(refused.value)


def test_a_way_of_its_own_to_prepare_the_same_inputs_is_taken() -> None:
    model, given = tiny_llama(11, N, 2), {"attention_mask": MASK, "max_new_tokens": 9}
    plain = model.generate(PROMPTS, **given).tolist()
    model.__class__ = type("Same", (Soft,), {"tokens": 0})
    assert model.generate(PROMPTS, custom_generate=multi_draft(pair().draft), **given).tolist() == plain


def with_pictures() -> Any:
    """A model of pictures and text."""
    ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {"vocab_size": N, "num_key_value_heads": 1, "head_dim": 8, "initializer_range": 0.6}
    marks = {"image_token_index": 7, "boi_token_index": 6, "eoi_token_index": 5, "mm_tokens_per_image": 4}
    config = transformers.Gemma3Config(
        text_config=sizes | text | ends, vision_config=sizes | {"image_size": 8, "patch_size": 4}, **marks
    )
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return transformers.Gemma3ForConditionalGeneration(config).double().eval()


def test_inputs_that_hold_nothing_or_change_nothing() -> None:
    """transformers adds an empty `mm_encoder_outputs`; tokenizers return types of tokens, all 0, which GPT-2 reads and Gemma 3 does not."""
    model, types = with_pictures(), {"token_type_ids": torch.zeros_like(PROMPTS)}
    given, loop = {"attention_mask": MASK, "max_new_tokens": 9}, multi_draft(with_pictures(), paths=2, length=3)
    plain = model.generate(PROMPTS, **given).tolist()
    assert model.generate(PROMPTS, **given, **types).tolist() == plain
    for more in ({}, types):
        assert model.generate(PROMPTS, custom_generate=loop, **given, **more).tolist() == plain
    with pytest.raises(CannotDecode, match="mm_encoder_outputs is not passed on"):
        model.generate(PROMPTS, custom_generate=loop, pixel_values=torch.zeros(1, 3, 8, 8), **given)
    with pytest.raises(CannotDecode, match="token_type_ids is not passed on"):
        model.generate(PROMPTS, custom_generate=loop, token_type_ids=torch.ones_like(PROMPTS), **given)
    reads = tiny_gpt2(16)
    assert reads.generate(PROMPTS, **given, **types).tolist() != reads.generate(PROMPTS, **given).tolist()
    with pytest.raises(CannotDecode, match="token_type_ids is not passed on"):
        reads.generate(PROMPTS, custom_generate=loop, **given, **types)


def tiny_gpt2(positions: int) -> Any:
    """A GPT-2 whose learned positions end: a pass beyond them raises IndexError."""
    ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "initializer_range": 0.8}
    with torch.random.fork_rng():
        torch.manual_seed(positions)
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(vocab_size=N, n_positions=positions, **sizes, **ends)
        )
    return model.double().eval()


@pytest.mark.parametrize("positions", [32, 12, 40])
@pytest.mark.parametrize("way", ["joint", "speculative sampling", "auto"])
def test_drafts_end_where_a_context_does(positions: int, way: str) -> None:
    """Of the target, 32, or of the draft model."""
    target, draft, given = tiny_gpt2(32), tiny_gpt2(positions), {"attention_mask": MASK, "max_new_tokens": 28}
    plain, settings = target.generate(PROMPTS, **given).tolist(), WAYS[way][1]
    for drafts in (draft, target):
        made = target.generate(PROMPTS, custom_generate=multi_draft(drafts, **settings), **given)
        assert made.tolist() == plain
    with pytest.raises(CannotDecode, match=r"max-tokens must be at most 28 .* the target's context is 32 tokens"):
        target.generate(PROMPTS[:1], custom_generate=multi_draft(draft, **settings), max_new_tokens=29)


@pytest.mark.parametrize("new", [28, 24])
def test_sequences_that_end_before_others_stay_within_the_context(new: int) -> None:
    """Rows of a batch grow at different speeds, and one that has ended is behind a tree in every later step."""
    target = tiny_gpt2(32)
    loop = multi_draft(target, paths=2, length=4)
    given = {"attention_mask": MASK.repeat(4, 1), "max_new_tokens": new, "do_sample": True, "temperature": 1.5}
    for seed in range(4):
        made = target.generate(
            PROMPTS.repeat(4, 1), custom_generate=loop, seed=seed, eos_token_id=1, pad_token_id=0, **given
        )
        assert made.shape[1] <= 4 + new


class Kept:
    """A streamer that keeps what it is given."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def put(self, value: Any) -> None:
        self.values.append(value.tolist())

    def end(self) -> None:
        self.values.append("end")


class EndsAt(transformers.StoppingCriteria):  # type: ignore[misc]
    """Ends a row at a token of its own; keeps the shapes that it was shown."""

    def __init__(self, ends: list[int]) -> None:
        self.ends, self.seen = torch.tensor(ends), list[Any]()

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        self.seen.append((input_ids.tolist(), scores))
        return input_ids[:, -1] == self.ends


GREEDY_WAYS = {**{name: way for name, (_, way) in WAYS.items()}, "optimal": {"rule": rules.Optimal(), "paths": 3}}
MANNERS: dict[str, dict[str, Any]] = {
    "no end": {},
    "an end token": {"eos_token_id": 3, "pad_token_id": 0},
    "two end tokens": {"eos_token_id": [2, 5], "pad_token_id": 6},
    "criteria": {"ends": [5, 4, 6]},
    "an end token and criteria": {"eos_token_id": 4, "pad_token_id": 0, "ends": [7, 7, 1]},
    "max_length": {"max_new_tokens": None, "max_length": 9},
}


def greedy(model: Any, **settings: Any) -> tuple[Any, list[Any], list[Any]]:
    """Texts, what the streamer got, what the criteria saw."""
    streamer, ends = Kept(), settings.pop("ends", None)
    criteria = [EndsAt(ends)] if ends else []
    given = {"attention_mask": MASK, "do_sample": False, "max_new_tokens": 12} | settings
    stopping = transformers.StoppingCriteriaList(criteria)
    texts = model.generate(PROMPTS, streamer=streamer, stopping_criteria=stopping, **given)
    return texts.tolist(), streamer.values, [criterion.seen for criterion in criteria]


@pytest.mark.parametrize("manner", slow_except(MANNERS, *(name for name in MANNERS if name != "an end token")))
def test_greedy_is_plain_generate_token_for_token(manner: str) -> None:
    models = pair()
    plain = greedy(models.target, **MANNERS[manner])
    for way in GREEDY_WAYS.values():
        assert greedy(models.target, custom_generate=multi_draft(models.draft, **way), **MANNERS[manner]) == plain


@pytest.mark.parametrize("prompt", [[0, 5, 0, 3, 1], [2, 5, 0, 0, 4]])
def test_pad_tokens_among_the_text_without_a_mask(prompt: list[int]) -> None:
    """transformers infers a mask that hides them."""
    models, given = pair(), {"pad_token_id": 0, "max_new_tokens": 9}
    plain = models.target.generate(torch.tensor([prompt]), **given)
    drafted = models.target.generate(torch.tensor([prompt]), custom_generate=multi_draft(models.draft), **given)
    assert drafted.tolist() == plain.tolist()


def by_letters(letters: str) -> Any:
    """A tokenizer of one letter a token, without blanks between them."""
    from tokenizers import Tokenizer, decoders, models

    made = Tokenizer(models.BPE({letter: place for place, letter in enumerate(letters)}, []))
    made.decoder = decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made)


def test_stop_strings_are_those_of_generate() -> None:
    models, letters = pair(), by_letters("abcdefgh")
    ids = models.target.generate(PROMPTS, attention_mask=MASK, max_new_tokens=9)[2, -9:]
    text = "".join("abcdefgh"[token] for token in ids)
    given = {"attention_mask": MASK, "max_new_tokens": 30, "stop_strings": [text[3:6]], "pad_token_id": 0}
    plain = models.target.generate(PROMPTS, tokenizer=letters, **given)
    alone = models.target.generate(PROMPTS[2:], tokenizer=letters, **given | {"attention_mask": MASK[2:]})
    assert alone.shape[1] <= PROMPTS.shape[1] + 6
    loop = multi_draft(models.draft, tokenizer=letters)
    assert models.target.generate(PROMPTS, custom_generate=loop, **given).tolist() == plain.tolist()
    assert models.target.generate(PROMPTS, tokenizer=letters, custom_generate=loop, **given).tolist() == plain.tolist()
    with pytest.raises(CannotDecode, match="Pass it as"):
        models.target.generate(PROMPTS, tokenizer=letters, custom_generate=multi_draft(models.draft), **given)


def test_ends_differ_from_row_to_row() -> None:
    """Or the comparison above would say nothing about padding."""
    texts, _, _ = greedy(pair().target, **MANNERS["an end token"])
    lengths = {text[4:].index(3) if 3 in text[4:] else len(text) for text in texts}
    assert len(lengths) > 1


def test_out_of_time_after_the_first_token() -> None:
    models = pair()
    loop = multi_draft(models.draft)
    assert models.target.generate(PROMPTS, custom_generate=loop, max_time=0.0, max_new_tokens=9).shape == (3, 5)


def test_a_text_streamer_gets_the_whole_text() -> None:
    class Words:
        def decode(self, tokens: list[int], **_: Any) -> str:
            return "".join(f"w{token} " for token in tokens)

    models = pair()
    streamer = transformers.TextIteratorStreamer(Words(), skip_prompt=True)
    loop = multi_draft(models.draft)
    made = models.target.generate(
        PROMPTS[:1], custom_generate=loop, streamer=streamer, do_sample=True, max_new_tokens=9
    )
    assert "".join(streamer) == Words().decode(made[0, 4:].tolist())


def sampled(chosen: slice = slice(None), loop: dict[str, Any] | None = None, **given: Any) -> list[list[int]]:
    models = pair()
    settings = {"attention_mask": MASK[chosen], "do_sample": True, "max_new_tokens": 10}
    function = multi_draft(models.draft, length=4, **(loop or {}))  # one shape: the clock has no part in it
    return list(models.target.generate(PROMPTS[chosen], custom_generate=function, **settings, **given).tolist())


def test_seeds() -> None:
    torch.manual_seed(1)
    first, second = sampled(), sampled()
    torch.manual_seed(1)
    assert sampled() == first != second
    assert sampled(loop={"seed": 4}) == sampled(seed=4) == sampled(loop={"seed": 3}, seed=4) != sampled(seed=5)
    by_generator = [sampled(generator=torch.Generator().manual_seed(seed)) for seed in (6, 6, 7)]
    assert by_generator[0] == by_generator[1] != by_generator[2]


def test_a_text_does_not_depend_on_the_rest_of_its_batch() -> None:
    whole = sampled(seed=4)
    assert [sampled(slice(row, row + 1), seed=4, rows=[row])[0] for row in range(3)] == whole
    assert sampled(slice(1, 2), seed=4, rows=[0])[0] != whole[1]


def test_several_texts_of_a_prompt_differ() -> None:
    texts = sampled(num_return_sequences=3, seed=2)
    assert len(texts) == 9
    assert len({tuple(text) for text in texts[:3]}) == 3


def test_the_output_object_and_the_steps() -> None:
    steps: list[Any] = []
    out = pair().target.generate(
        PROMPTS,
        attention_mask=MASK,
        custom_generate=multi_draft(pair().draft, on_step=steps.append),
        return_dict_in_generate=True,
        do_sample=True,
        max_new_tokens=10,
    )
    assert type(out).__name__ == "GenerateDecoderOnlyOutput"
    assert out.sequences.shape == (3, 14)
    emitted = [[token for step in steps for token in step.tokens(row)] for row in range(3)]
    assert emitted == out.sequences[:, 4:].tolist()


CACHE = next(name for name in CACHE_NAMES if name in signature(transformers.LlamaForCausalLM.forward).parameters)


def _a_cache_with_a_prompt() -> Any:
    return getattr(pair().target(PROMPTS), CACHE)


def _own() -> Any:
    return [lambda tokens, scores: scores]


REFUSED: list[tuple[Callable[[], dict[str, Any]], str]] = [
    (lambda: {"num_beams": 2}, "generation mode must be greedy search or sampling, got beam search"),
    (lambda: {"encoder_repetition_penalty": 1.2}, "scores alone, got EncoderRepetitionPenaltyLogitsProcessor"),
    (lambda: {"logits_processor": _own()}, r"stateless=\(function,\)"),
    (lambda: {"return_dict_in_generate": True, "output_scores": True}, "output_scores must be False"),
    (lambda: {CACHE: _a_cache_with_a_prompt()}, f"{CACHE} must be empty, got a cache that holds tokens"),
    (lambda: {"position_ids": torch.tensor([[5, 6, 7, 8]] * 3)}, "position_ids must be the positions of the tokens"),
    (lambda: {"output_hidden_states": True, "return_dict_in_generate": True}, "output_hidden_states must be False"),
    (lambda: {"assistant_model": pair().draft}, "assistant_model must be None"),
    (lambda: {"synced_gpus": True}, "synced_gpus must be False"),
    (lambda: {"max_new_tokens": 400}, "the target's context is 256 tokens"),
    (lambda: {"rows": [1]}, r"rows must hold one entry per prompt \(3\), got 1"),
]


@pytest.mark.parametrize(("given", "says"), REFUSED, ids=[says for _, says in REFUSED])
def test_what_cannot_be_honoured_is_refused_in_one_line(given: Callable[[], dict[str, Any]], says: str) -> None:
    models = pair()
    with pytest.raises(CannotDecode, match=says) as refused:
        models.target.generate(PROMPTS, custom_generate=multi_draft(models.draft), **({"max_new_tokens": 4} | given()))
    assert "\n" not in str(refused.value)


def test_prompt_lookup_by_the_names_that_generate_has_for_it() -> None:
    target = pair().target
    given = {"attention_mask": MASK, "do_sample": False, "max_new_tokens": 30}
    plain, steps = target.generate(PROMPTS, **given).tolist(), list[Any]()
    loop = multi_draft(prompt_lookup_num_tokens=5, max_matching_ngram_size=1, on_step=steps.append)
    assert target.generate(PROMPTS, custom_generate=loop, **given).tolist() == plain
    drafted = [step for step in steps if step.drafting.tree.bounds.size]
    assert {step.drafting.lookup for step in drafted} == {PromptLookup(5, 1)}
    assert max(int(step.length.max()) for step in drafted) > 0
    auto = multi_draft(shape="auto", costs=FREE_POSITIONS)
    assert target.generate(PROMPTS, custom_generate=auto, **given).tolist() == plain


def test_a_shape_of_its_own_beside_a_given_one() -> None:
    with pytest.raises(CannotDecode, match="must be 'auto' alone"):
        multi_draft(None, shape="auto", paths=2)
    with pytest.raises(CannotDecode, match="must be 'auto' alone, got 'wide'"):
        multi_draft(None, shape="wide")
    for given in ({"costs": FREE_POSITIONS}, {"prompt_lookup_num_tokens": 4}):
        with pytest.raises(CannotDecode, match="require shape 'auto'"):
            multi_draft(None, paths=2, **given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"draft_model": "SmolLM2-135M"}, r"causal language model, got 'SmolLM2-135M'. .*from_pretrained\(NAME\)"),
        ({"draft_model": other_model("Bert", "MaskedLM")}, "causal language model, got BertForMaskedLM"),
        ({"draft_model": other_model("T5", "ConditionalGeneration")}, "causal language model, got T5ForCond"),
        ({"draft_model": tiny_llama(1).model}, "causal language model, got LlamaModel"),
        ({"draft_model": torch.nn.DataParallel(tiny_llama(1))}, "causal language model, got DataParallel"),
        (
            {"draft_model": transformers.LlamaForSequenceClassification(tiny_llama(1).config)},
            "causal language model, got LlamaForSequenceClassification",
        ),
        (
            {"rule": "joint"},
            r"rule must be a path rule or a selection rule, got 'joint'. Use one, such as otd\.trees\.Joint\(\)",
        ),
        ({"rule": otd.trees.Joint}, r"got <class .*Joint'>"),
        ({"rule": otd.rules.KSeq}, r"got <class .*KSeq'>"),
        ({"rule": lambda p, q: p}, "got <function .*"),
    ],
)
def test_a_name_in_the_place_of_a_model_or_a_rule(given: dict[str, Any], says: str) -> None:
    with pytest.raises(CannotDecode, match=says):
        multi_draft(**{"draft_model": pair().draft} | given)


def test_padding_on_the_right_is_refused() -> None:
    """Plain `generate` would go on behind the padding."""
    models, tokens = pair(), torch.tensor([[1, 5, 2, 3], [5, 2, 0, 0]])
    with pytest.raises(CannotDecode, match=r"attention_mask row 1 must be 1 at the last token, got 0. Pad on the left"):
        models.target.generate(
            tokens, attention_mask=(tokens > 0).long(), custom_generate=multi_draft(models.draft), max_new_tokens=4
        )


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_without_the_packages_the_extra_is_named(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import ot_draft.integrations.transformers"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ot_draft.errors.MissingPackage: {package} is not installed. Run  pip install ")
    assert "[llm]'" in last


def test_a_rule_that_does_not_fit_the_draws() -> None:
    with pytest.raises(otd.InvalidDrafts):
        multi_draft(None, rule=paths.Joint(), law=otd.WithoutReplacement())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"seed": 1.5}, "seed must be an integer, got 1.5"),
        ({"seed": "3"}, "seed must be an integer, got '3'"),
        ({"paths": 1.5}, "paths must be an integer of at least 1, got 1.5"),
        ({"paths": "a"}, "paths must be an integer of at least 1, got 'a'"),
        ({"length": 2.5}, "length must be an integer of at least 1, got 2.5"),
        ({"rule": otd.trees.NaivePath(), "law": 5}, "law must be a draft law, got 5. Use one, such as otd.IID"),
        ({"tree": 5}, "tree must be a TreeShape, got 5"),
        ({"tree": (2, 2)}, r"tree must be a TreeShape, got \(2, 2\)"),
        ({"tree": otd.trees.TreeShape.by_level((2, 1)), "paths": 3}, "must not be given together with paths or length"),
        (
            {"tree": otd.trees.TreeShape.by_level((2, 1)), "length": 3},
            "must not be given together with paths or length",
        ),
        ({"on_step": 5}, "on_step must be a function of a Step, got 5"),
        ({"stateless": 5}, "stateless must be a list of types, got 5"),
        ({"stateless": "a"}, "stateless must be a list of types, got 'a'"),
        ({"stateless": (5,)}, r"stateless must be a list of types, got \(5,\)"),
    ],
    ids=lambda each: str(each)[:40],
)
def test_an_argument_of_another_kind_is_named(given: dict[str, Any], says: str) -> None:
    with pytest.raises(CannotDecode, match=says):
        multi_draft(tiny_llama(1), **given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"seed": 1.5}, "seed must be an integer, got 1.5"),
        ({"seed": "3"}, "seed must be an integer, got '3'"),
        ({"generator": 5}, "generator must be a torch.Generator, got 5"),
    ],
)
def test_what_generate_hands_on_is_named(given: dict[str, Any], says: str) -> None:
    drafted = multi_draft(tiny_llama(1).float(), paths=2, length=1)
    with pytest.raises(CannotDecode, match=says):
        tiny_llama(0).float().generate(
            torch.tensor([[1]]), custom_generate=drafted, max_new_tokens=2, do_sample=True, pad_token_id=0, **given
        )
