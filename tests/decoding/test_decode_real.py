"""The engine on the real models, where they are installed: greedy text is the target's own, sampled text the reference's."""

from __future__ import annotations

from typing import Any

import pytest
from slow import slow

import ot_draft as otd

torch = pytest.importorskip("torch")

from llm_demo.models.load import DRAFT_FILE, TARGET_FILE, missing_packages, target_directory  # noqa: E402

if missing_packages():
    pytest.skip(f"the real models need {', '.join(missing_packages())}", allow_module_level=True)

from llm_demo.models.load import load_pair  # noqa: E402
from ot_draft.decoding.drafting import Drafting  # noqa: E402
from ot_draft.decoding.loop import DecodeOptions, decode  # noqa: E402
from ot_draft.decoding.reference import reference_decode  # noqa: E402
from ot_draft.decoding.sampling import SamplingParams  # noqa: E402
from ot_draft.decoding.tokens import Tokenizer  # noqa: E402

paths, rules = otd.trees, otd.rules
NEW = 6
TEXTS = """The capital of France is
Once upon a time there was a
def fibonacci(n):
The three primary colours are
Water boils at a temperature of
1, 2, 3, 4,
Dear Sir or Madam,
The opposite of cold is
import numpy as
In the year 1969, the first man
Shakespeare wrote the play
To make bread you need flour,
The quick brown fox
SELECT name FROM
Monday, Tuesday,
The chemical symbol of gold is
Thank you very
Photosynthesis is the process by which
She opened the door and
Two plus two equals""".splitlines()


@pytest.fixture(scope="module")
def pair() -> Any:
    """The embedded pair, named by its files."""
    return load_pair(str(target_directory() / TARGET_FILE), str(DRAFT_FILE))


@pytest.fixture(scope="module")
def theirs(pair: Any) -> Any:
    """The same pair in transformers."""
    return pair.by_transformers()


@pytest.fixture(scope="module", params=[2, slow(len(TEXTS))])
def greedy(pair: Any, theirs: Any, request: pytest.FixtureRequest) -> dict[str, list[int]]:
    """Some texts, and what transformers' own greedy search says to each."""
    options = {"do_sample": False, "max_new_tokens": NEW, "pad_token_id": 0}
    found = {}
    for text in TEXTS[: request.param]:
        prompt = torch.tensor([pair.encode(text)])
        made = theirs.target.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
        found[text] = made[0, prompt.shape[1] :].tolist()
    return found


@pytest.mark.parametrize(
    ("drafting", "draft_sampling"),
    [
        slow(Drafting.autoregressive(), None, id="autoregressive"),
        pytest.param(Drafting.chains(2, 3, paths.Joint()), SamplingParams(1), id="joint"),
        slow(
            Drafting(otd.trees.FixedTree(paths.TreeShape.by_level((2, 1)), otd.Hybrid(top=2)), paths.NaivePath()),
            SamplingParams(1),
            id="top tokens",
        ),
        slow(Drafting.chains(1, 3, paths.TokenWise(rules.SpeculativeSampling())), None, id="greedy draft"),
    ],
)
def test_greedy_text_is_the_targets_own(
    pair: Any, greedy: dict[str, list[int]], drafting: Drafting, draft_sampling: SamplingParams | None
) -> None:
    prompts = [pair.encode(text) for text in greedy]
    options = DecodeOptions(SamplingParams(0), draft_sampling, max_tokens=NEW)
    assert decode(pair, prompts, drafting, options).tokens == list(greedy.values())


@pytest.mark.slow  # test_decode_reference.py compares the engine with the reference on tiny models
@pytest.mark.parametrize(("texts", "tokens"), [(1, 1), (2, NEW)])
def test_sampled_text_is_the_references(texts: int, tokens: int, pair: Any) -> None:
    drafting, options = Drafting.chains(2, 2, paths.TokenWise(rules.KSeq())), DecodeOptions(max_tokens=tokens, seed=5)
    prompts = [pair.encode(text) for text in TEXTS[:texts]]
    expected = [reference_decode(pair, prompt, drafting, options, row) for row, prompt in enumerate(prompts)]
    assert decode(pair, prompts, drafting, options).tokens == expected


def test_the_embedded_tokenizer_says_what_that_of_transformers_says(pair: Any, theirs: Any) -> None:
    ours, theirs = pair.tokenizer, theirs.tokenizer
    assert type(ours) is Tokenizer and type(theirs) is not Tokenizer
    chat = [{"role": "system", "content": "{% if %}"}, {"role": "user", "content": "  Naïve\n"}]
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
