"""NaN and infinity among the logits: a draft without a law costs acceptance only, a target without one is an error, never a text.

The models lose their laws at some texts and keep them at others, so that what is drafted beside a lost law must still follow the target's.
"""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import numpy as np
import pytest
from chances import chance
from slow import slow_except
from test_decode_law import DRAFTINGS, DYNAMIC, FALSE_ALARM, PROMPTS, N
from tiny_models import tiny_pair

import ot_draft as otd

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.decoding.drafting import Drafting  # noqa: E402
from ot_draft.decoding.loop import DecodeOptions, decode  # noqa: E402
from ot_draft.decoding.pair import Pair  # noqa: E402
from ot_draft.decoding.reference import next_token, reference_decode  # noqa: E402
from ot_draft.decoding.sampling import Processed, SamplingParams  # noqa: E402
from ot_draft.errors import CannotDecode  # noqa: E402

NAN, INF = float("nan"), float("inf")
ALL = DRAFTINGS | DYNAMIC
MODEL_DRAFTS = [name for name in ALL if name not in ("autoregressive", "prompt lookup")]
LOST = r"the draft model gives no distribution"


def losing(model: Any, found: float, places: slice = slice(2, 3), tokens: tuple[int, ...] = (0, 2, 5)) -> Any:
    """The model with such numbers among its logits wherever its largest logit is at one of the tokens."""
    model = copy.deepcopy(model)

    def lose(_: Any, __: Any, logits: Any) -> Any:
        lost = (logits.argmax(-1)[..., None] == torch.tensor(tokens)).any(-1)
        logits[..., places] = logits[..., places].masked_fill(lost[..., None], found)
        return logits

    model.lm_head.register_forward_hook(lose)
    return model


def pair_losing(found: float, of_draft: bool, places: slice = slice(2, 3), tokens: tuple[int, ...] = (0, 2, 5)) -> Pair:
    pair = tiny_pair(seed=11, n=N, layers=2)
    if of_draft:
        return Pair(pair.target, losing(pair.draft, found, places, tokens))
    return Pair(losing(pair.target, found, places, tokens), pair.draft)


LOSSES = [(NAN, slice(2, 3)), (INF, slice(2, 4)), (-INF, slice(None))]
LOST_DRAFTS = [(name, found, places) for name in MODEL_DRAFTS for found, places in LOSSES]
# Every way to draft loses by NaN, three by the other numbers too.
QUICK = [*(f"{name}, nan" for name in MODEL_DRAFTS), "k-seq, -inf", "joint, -inf", "ours, -inf"]


@pytest.mark.filterwarnings(f"ignore:{LOST}")
@pytest.mark.parametrize(
    ("name", "found", "places"), slow_except(LOST_DRAFTS, *QUICK, name=lambda case: f"{case[0]}, {case[1]}")
)
def test_a_draft_without_a_law_draws_uniformly(name: str, found: float, places: slice) -> None:
    """As the reference does, token for token, with every rule and tree."""
    pair, policy = pair_losing(found, True, places), ALL[name]()
    options = DecodeOptions(SamplingParams(0.9, top_p=0.95), max_tokens=4, seed=3)
    made = decode(pair, PROMPTS, policy, options)
    assert sum(int(step.without_law.sum()) for step in made.steps if step.without_law is not None) > 0
    if name != "auto":  # it chooses by the whole batch
        wanted = [reference_decode(pair, prompt, policy, options, row) for row, prompt in enumerate(PROMPTS)]
        assert made.tokens == wanted


@pytest.mark.parametrize("name", ["k-seq", "optimal", "joint", "ours"])
def test_texts_follow_the_target_whatever_the_draft_loses(name: str) -> None:
    pair, prompt, texts = pair_losing(NAN, True), [3, 1], 400
    with pytest.warns(RuntimeWarning, match=LOST):
        tokens = np.array(decode(pair, [prompt] * texts, ALL[name](), DecodeOptions(max_tokens=2)).tokens)
    first = next_token(pair.target_model, prompt, SamplingParams()).numpy()
    second = [next_token(pair.target_model, [*prompt, token], SamplingParams()).numpy() for token in range(N)]
    counts = np.zeros((N, N))
    np.add.at(counts, tuple(tokens.T), 1)
    assert chance(counts, first[:, None] * np.array(second)) > FALSE_ALARM


@pytest.mark.parametrize("greedy", [False, True])
def test_a_draft_behind_processors_that_loses_its_law_is_told_of(greedy: bool) -> None:
    pair = pair_losing(NAN, True)
    processed = [Processed([lambda tokens, scores: scores / 0.9], greedy)] * len(PROMPTS)
    with pytest.warns(RuntimeWarning, match=LOST):
        made = decode(pair, PROMPTS, ALL["k-seq"](), DecodeOptions(processed=processed, max_tokens=6))
    plain = decode(pair, PROMPTS, Drafting.autoregressive(), DecodeOptions(processed=processed, max_tokens=6))
    assert not greedy or made.tokens == plain.tokens


@pytest.mark.parametrize(
    "name", slow_except(["autoregressive", "speculative sampling", "joint", "ours", "EAGLE-2"], "joint")
)
def test_a_target_without_a_law_ends_as_many_texts_as_in_plain_decoding(name: str) -> None:
    """And the others have plain decoding's law: a lost law at a node that the text does not come to changes nothing."""
    prompt, length, texts = [3, 1], 2, 150
    whole = tiny_pair(seed=11, n=N, layers=2).target
    behind = [whole(torch.tensor([text])).logits[0, -1].argmax() for text in ([*prompt, token] for token in range(N))]
    rarest = min(
        {int(token) for token in behind if token != whole(torch.tensor([prompt])).logits[0, -1].argmax()},
        key=behind.count,
    )
    pair = pair_losing(NAN, False, tokens=(rarest,))
    counts, law = np.zeros(N**length + 1), np.zeros(N**length + 1)
    told = set()
    for row in range(texts):
        try:
            made = decode(pair, [prompt], ALL[name](), DecodeOptions(max_tokens=length, rows=[row])).tokens[0]
            counts[np.ravel_multi_index(tuple(made), (N,) * length)] += 1
        except CannotDecode as error:
            told.add(str(error).partition(". Load")[0])
            counts[-1] += 1
    first = next_token(pair.target_model, prompt, SamplingParams()).numpy()
    second = [next_token(pair.target_model, [*prompt, token], SamplingParams()).numpy() for token in range(N)]
    for a, b in product(range(N), repeat=length):
        law[np.ravel_multi_index((a, b), (N,) * length)] = np.nan_to_num(first[a] * second[a][b])
    law[-1] = 1 - law.sum()
    assert 0.05 < law[-1] < 0.95 and told == {
        "sequence 0, after 3 tokens: target logits must give a distribution, got NaN or inf"
    }
    assert chance(counts, law) > FALSE_ALARM


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize(("found", "places", "named"), [
    (NAN, slice(1), "NaN"), (INF, slice(N - 1, N), "got inf"), (-INF, slice(None), "-inf at every token"),
])  # fmt: skip
def test_what_the_target_gives_is_named(temperature: float, found: float, places: slice, named: str) -> None:
    pair = pair_losing(found, False, places, tuple(range(N)))
    options = DecodeOptions(SamplingParams(temperature))
    for policy in (Drafting.autoregressive(), ALL["k-seq"]()):
        with pytest.raises(CannotDecode, match=f"sequence 0, after 4 tokens: .* {named}.*wider type"):
            decode(pair, PROMPTS, policy, options)
    processed = [Processed([], greedy=not temperature)] * len(PROMPTS)
    with pytest.raises(CannotDecode, match=named):
        decode(pair, PROMPTS, Drafting.autoregressive(), DecodeOptions(processed=processed))
    with pytest.raises(CannotDecode, match="sequence 0, after 4 tokens"):
        reference_decode(pair, PROMPTS[0], Drafting.autoregressive(), options)


def test_a_temperature_that_leaves_no_finite_number_is_named() -> None:
    pair = tiny_pair(seed=11, n=N, layers=2, dtype=torch.float32)
    assert decode(pair, [[5]], Drafting.autoregressive(), DecodeOptions(SamplingParams(1e-30), max_tokens=1)).tokens
    for temperature in (1e-38, 1e-45):
        with pytest.raises(
            CannotDecode, match=f"temperature {temperature} are not finite. Use temperature 0, or at least"
        ):
            decode(pair, [[5]], Drafting.autoregressive(), DecodeOptions(SamplingParams(temperature)))


def test_the_row_that_is_named_is_the_one() -> None:
    pair = tiny_pair(seed=11, n=N, layers=2)
    behind = {token: int(pair.target(torch.tensor([[token]])).logits.argmax()) for token in range(N)}
    sound = next(token for token in behind if behind[token] != behind[5])
    pair = Pair(losing(pair.target, NAN, tokens=(behind[5],)), pair.draft)
    with pytest.raises(CannotDecode, match="sequence 2, after 1 tokens"):
        decode(pair, [[sound], [sound], [5]], ot_chain(), DecodeOptions(max_tokens=1))


def ot_chain() -> Drafting:
    return Drafting.chains(2, 2, otd.trees.Joint())
