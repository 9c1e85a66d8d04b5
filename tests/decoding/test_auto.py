"""A shape that chooses itself: the law of its texts, what it chooses, and what it costs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from chances import chance
from slow import slow
from test_decode_law import FALSE_ALARM, N, exact_law
from test_lookup import Knows
from tiny_models import tiny_llama, tiny_pair

import ot_draft as otd

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.decoding import (  # noqa: E402
    Auto,
    CannotDecode,
    DecodeOptions,
    Drafting,
    Pair,
    Policy,
    PromptLookup,
    SamplingParams,
    Step,
    decode,
    decode_steps,
    reference_decode,
)
from ot_draft.decoding.language_model import LanguageModel  # noqa: E402
from ot_draft.decoding.model import CallSizes  # noqa: E402
from ot_draft.decoding.prompt_lookup import History  # noqa: E402
from ot_draft.decoding.reference import one_step  # noqa: E402
from ot_draft.decoding.step import Seconds  # noqa: E402
from ot_draft.decoding.tuning.acceptance import AcceptanceCounts  # noqa: E402
from ot_draft.decoding.tuning.costs import MeasuredCosts  # noqa: E402
from ot_draft.decoding.tuning.warm_up import measure  # noqa: E402

paths, rules = otd.trees, otd.rules
TEXTS = pytest.mark.parametrize("texts", [250, slow(500)])
PROMPT = [3, 1, 0, 3, 1]
EVEN = [0, 0]  # behind which no token is much likelier than all others, so that few texts tell much
MENU = (
    Drafting.autoregressive(),
    Drafting.chains(1, 2, paths.BlockVerification()),
    Drafting.chains(3, 2, paths.TokenWise(rules.KSeq())),
    Drafting.looked_up(PromptLookup(3)),
    Drafting.chains(2, 2, paths.Joint()),
    Drafting.of(paths.LookupTree(5, 3), lookup=PromptLookup(3)),
)
COSTS = otd.trees.Costs(
    {1: 1.0, 64: 4.0}, {1: 0.1, 8: 0.1}
)  # of a machine on which neither nothing nor everything pays


class Chosen(Policy):
    """Any function of the texts, as a plan."""

    candidates = MENU

    def __init__(self, choose: Callable[[Sequence[Sequence[int]]], Drafting]) -> None:
        self._choose = choose

    def choose(self, texts: Sequence[Sequence[int]]) -> Drafting:
        return self._choose(texts)


def by_the_texts(texts: Sequence[Sequence[int]]) -> Drafting:
    """As an adversary would: every token of every text changes what is drafted next."""
    return MENU[sum(text[-1] + len(text) for text in texts) % len(MENU)]


def verdict(plan: Callable[[int], Any], texts: int, tokens: int = 2, batch: int = 10) -> tuple[float, set[Drafting]]:
    """The chance of the first tokens of so many texts, decoded in small batches, and what was drafted by.

    plan: of the batch that begins at a row.
    """
    pair, law = tiny_pair(seed=11, n=N), exact_law(tuple(EVEN), SamplingParams())
    counts, used = np.zeros((N,) * tokens), set[Drafting]()
    for first in range(0, texts, batch):
        options = DecodeOptions(max_tokens=tokens, rows=range(first, first + batch))
        made = decode(pair, [EVEN] * batch, plan(first), options)
        np.add.at(counts, tuple(np.array(made.tokens).T), 1)
        used |= {step.drafting for step in made.steps}
    return chance(counts, law.sum(tuple(range(tokens, law.ndim)))), used


@TEXTS
def test_whoever_sees_the_past_only_keeps_the_law(texts: int) -> None:
    found, used = verdict(lambda first: Chosen(by_the_texts), texts)
    assert found > FALSE_ALARM and used == set(MENU)


def test_who_looks_at_the_present_draws_is_found() -> None:
    """Plain decoding, but with a draft wherever plain decoding would bring the likeliest token."""
    pair, drafted = tiny_pair(seed=11, n=N), Drafting.chains(1, 1, paths.TokenWise(rules.SpeculativeSampling()))
    likeliest = int(exact_law(tuple(EVEN), SamplingParams()).sum((1, 2)).argmax())

    class Peeks(Chosen):
        candidates = (MENU[0], drafted)

    def peek(row: int) -> Chosen:
        def choose(texts: Sequence[Sequence[int]]) -> Drafting:
            outcome = list(one_step(pair, list(texts[0]), MENU[0], DecodeOptions(), row, 0))
            return drafted if outcome == [likeliest] else MENU[0]

        return Peeks(choose)

    found, used = verdict(peek, texts=400, tokens=1, batch=1)
    assert found < FALSE_ALARM and len(used) == 2


def test_changing_shapes_equal_the_reference() -> None:
    pair, options = tiny_pair(seed=3, n=7), DecodeOptions(max_tokens=30, seed=7)
    made = decode(pair, [PROMPT], Chosen(by_the_texts), options)
    assert made.tokens == [reference_decode(pair, PROMPT, Chosen(by_the_texts), options)]
    assert len({step.drafting for step in made.steps}) > 3


class Recorded(Policy):
    """The choices of a run, again."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._left = [step.drafting for step in steps]
        self.candidates = tuple(self._left)

    def choose(self, texts: Sequence[Sequence[int]]) -> Drafting:
        return self._left.pop(0)


@pytest.mark.parametrize("sampling", [SamplingParams(), SamplingParams(0)], ids=str)
def test_auto_is_the_reference_with_the_same_choices(sampling: SamplingParams) -> None:
    pair, options = tiny_pair(seed=3, n=7), DecodeOptions(sampling, max_tokens=60, seed=7)
    plan = Auto(costs=COSTS)
    prompts = [PROMPT, [1], [2, 2, 5]]
    made = decode(pair, prompts, plan, options)
    for row, prompt in enumerate(prompts):
        assert made.tokens[row] == reference_decode(pair, prompt, Recorded(made.steps), options, row)
    kinds = {(step.drafting.tree.counts.n_paths, step.drafting.tree.counts.n_lookup_tokens > 0) for step in made.steps}
    assert len({step.drafting for step in made.steps}) > 3 and len(kinds) > 1
    again = decode(pair, prompts, Auto(costs=COSTS), options)
    assert again.tokens == made.tokens  # with costs from elsewhere, nothing depends on the clock
    if sampling.temperature == 0:
        assert made.tokens == decode(pair, prompts, options=options).tokens


@TEXTS
def test_auto_follows_the_law_while_it_learns(texts: int) -> None:
    """With what the batches before have brought."""
    plan = Auto(costs=COSTS)
    found, used = verdict(lambda first: plan, texts)
    assert found > FALSE_ALARM and len(used) > 1
    assert plan.acceptance.step >= texts / 10  # it has learnt from all batches


@TEXTS
def test_auto_follows_the_law_by_its_own_clock(texts: int) -> None:
    """What it chooses depends on measured times and on the texts before; what comes does not."""
    plan = Auto()
    found, _ = verdict(lambda first: plan, texts)
    assert found > FALSE_ALARM and len(plan.measured) == 1


def test_the_widest_tree_fits_behind_a_text_that_ended_by_the_longest_path() -> None:
    pair, long_prompt = Pair(tiny_llama(3, 6), tiny_llama(4, 6)), [3, 1, 0, 3, 1, 0, 2]
    plain = decode(pair, [long_prompt], options=DecodeOptions(SamplingParams(0), max_tokens=16)).tokens[0]
    long, wide = Drafting.looked_up(Knows(16, tokens=tuple(plain))), Drafting.chains(8, 4, paths.Joint())

    class LongThenWide(Chosen):
        candidates = (long, wide)

    prompts, options = [long_prompt, [2]], DecodeOptions(SamplingParams(0), max_tokens=3)
    made = decode(pair, prompts, LongThenWide(lambda texts: long if len(texts[1]) == 1 else wide), options)
    assert made.steps[0].length.tolist() == [16, 0] and made.steps[1].drafting == wide
    assert made.tokens == decode(pair, prompts, options=options).tokens


SMALL_DRAFT = Pair(tiny_llama(1, 7, layers=8), tiny_llama(2, 7))

# What it chooses, on a machine and texts that are made up: no model is asked.


def step_of(drafting: Drafting, length: int, parts: Seconds) -> Step:
    """A step of one text that accepted so much."""
    one = torch.tensor([True])
    none = torch.zeros(1, 1, dtype=torch.int64)
    return Step(0, none, none, torch.tensor([length]), none, none, none, one, ~one, none, parts, drafting=drafting)


def played(
    accepts: Callable[[int], float],
    machine: Callable[[Drafting], Seconds],
    steps: int,
    seed: int = 0,
    counted: tuple[float, ...] = (),
) -> Any:
    """Tokens and seconds of a run on a made-up text whose step `number` accepts each draft with chance accepts(number).

    counted: acceptance by depth, as it was counted of the models before.
    """
    pair = replace(SMALL_DRAFT, acceptance=SimpleNamespace(of_path=counted)) if counted else SMALL_DRAFT
    chooser = Auto(lookup=None, warm_up=0).begin(pair, 1)
    generator, tokens, spent, chosen = np.random.default_rng(seed), 0, 0.0, []
    for number in range(steps):
        drafting = chooser.choose(History([[0] * (number + 3)]))
        length = 0
        while length < drafting.tree.bounds.length and generator.random() < accepts(number):
            length += 1
        parts = machine(drafting)
        chooser.observe(step_of(drafting, length, parts), parts.total)
        tokens, spent = tokens + length + 1, spent + parts.total
        chosen.append(drafting.tree.bounds.size)
    return tokens, spent, chosen


def linear(a_call: float, a_position: float) -> Callable[[Drafting], Seconds]:
    """A machine on which a plain step takes one second."""
    return lambda drafting: Seconds(a_call * drafting.tree.bounds.length, 1 + a_position * drafting.tree.bounds.size)


@pytest.mark.parametrize("chance", [slow(0.0), slow(0.1), 0.2])
def test_it_loses_at_most_two_percent_where_nothing_is_to_be_gained(chance: float) -> None:
    rates = [played(lambda number: chance, linear(0.2, 0.08), 1500, seed)[:2] for seed in range(4)]
    ratio = sum(tokens for tokens, _ in rates) / sum(spent for _, spent in rates)
    assert ratio > 0.98, ratio


def test_it_finds_what_is_to_be_gained() -> None:
    """Of drafts that are accepted with chance a, the best length is known."""
    for a in (0.45, 0.7, 0.9):
        best = max((1 - a ** (L + 1)) / (1 - a) / (1 + 0.15 * L) for L in range(9))
        rates = [
            tokens / spent
            for tokens, spent, _ in (played(lambda number, a=a: a, linear(0.1, 0.05), 600, s) for s in range(3))
        ]
        assert np.mean(rates) > 0.94 * best and min(rates) > 0.8 * best


def test_it_follows_a_text_that_changes() -> None:
    def accepts(number: int) -> float:
        return 0.9 if number // 300 % 2 else 0.05

    sizes = np.array([played(accepts, linear(0.1, 0.05), 1200, seed)[2] for seed in range(4)])
    # What was good for long is given up more slowly than what never was: 60 steps after the change it is tried again now and then, in
    # .43 +- .02 of the steps (with fifteen shapes .41 +- .02; three of twelve texts had .40).
    for start, plain in ((60, 0.9), (660, 0.55)):
        assert np.mean(sizes[:, start : start + 240] == 0) > plain
    for start in (330, 930):
        assert np.mean(sizes[:, start : start + 270] >= 4) > 0.95


def test_nothing_is_tried_where_acceptance_was_counted() -> None:
    """But the draft model at the beginning, whose cost is not known. A text that is another than those counted is followed."""
    chosen = [played(lambda number: 0.35, linear(0.25, 0.1), 600, seed, (0.35,) * 4)[2] for seed in range(3)]
    assert np.mean(np.array(chosen)[:, 10:] != 0) < 0.05
    easy = [played(lambda number: 0.9, linear(0.1, 0.05), 600, seed, (0.5,) * 4) for seed in range(2)]
    assert np.mean([np.array(chosen[60:]) >= 4 for _, _, chosen in easy]) > 0.75
    hard = [played(lambda number: 0.05, linear(0.1, 0.05), 600, seed, (0.5,) * 4) for seed in range(2)]
    assert np.mean([np.array(chosen[60:]) == 0 for _, _, chosen in hard]) > 0.7


def test_a_machine_on_which_positions_are_free_gets_wide_trees() -> None:
    _, _, chosen = played(lambda number: 0.6, linear(0.01, 0), 300)
    assert np.mean(np.array(chosen[100:]) >= 8) > 0.8


def test_costs_are_compared_at_one_speed_of_the_machine() -> None:
    """The machine slows down to half its speed while only one kind of step is taken: the others are believed slower too.

    Not quite as much: a change that one kind of step alone has told of may be that kind's own, and an eighth is put down to it.
    """
    costs, plain, path = (
        MeasuredCosts(0.1, 0.05),
        Drafting.autoregressive(),
        Drafting.chains(1, 1, paths.BlockVerification()),
    )
    parts = {plain: Seconds(0, 1, 0.02), path: Seconds(0.1, 1.15, 0.04)}
    for drafting, times, slower in ((plain, 3, 1), (path, 6, 1), (path, 30, 2)):
        for _ in range(times):
            now = Seconds(
                *(slower * part for part in (parts[drafting].draft, parts[drafting].verify, parts[drafting].select))
            )
            costs.learn(step_of(drafting, 0, now), now.total)
    assert costs.step(path) == pytest.approx(2 * 1.29, rel=0.02)
    assert costs.step(Drafting.autoregressive()) == pytest.approx(2 * 1.02, rel=0.125)


def test_the_draft_model_is_measured_before_anything_is_decided() -> None:
    """Even where looked-up tokens seem to pay at once."""
    chooser, machine, asked = Auto(warm_up=0).begin(SMALL_DRAFT, 1), linear(0.1, 0.05), 0
    for _ in range(2 + 1 + 2):  # plain ones, and the one in which memory is taken
        drafting = chooser.choose(History([[1, 2, 3, 4] * 4]))
        asked += drafting.tree.counts.n_model_calls > 0
        parts = machine(drafting)
        chooser.observe(step_of(drafting, 0, parts), parts.total)
    assert asked == 1 + 2


def test_one_call_that_the_machine_disturbed_says_little() -> None:
    """A hundred times as long: what one position and five were measured to cost stays so within a tenth."""
    costs, found = MeasuredCosts(0.1, 0.05), []
    one, four, eight = (Drafting.chains(1, length, paths.BlockVerification()) for length in (1, 4, 8))
    for drafting in (*[Drafting.autoregressive()] * 3, *[one, four] * 4, *[eight] * 2):
        size = drafting.tree.bounds.size
        disturbed = drafting == eight and bool(found)
        found = [costs.step(each) for each in (one, four)] if drafting == eight else found
        parts = Seconds(0.1 * size, 100 if disturbed else 1 + 0.05 * size)
        costs.learn(step_of(drafting, 0, parts), parts.total)
    assert found == pytest.approx([1.15, 1.6], rel=0.05)
    now = [
        costs.step(each) / costs.step(Drafting.autoregressive()) for each in (one, four)
    ]  # the machine may be slower now
    assert now == pytest.approx(found, rel=0.05)


@pytest.mark.parametrize("least", [1, 2])
def test_a_change_of_shape_is_told_from_the_call_itself(least: int) -> None:
    """On a machine where a call on another number of rows than the one before takes longer."""
    costs, plain, looked_up = (
        MeasuredCosts(0.1, 0.05, sizes=CallSizes(least)),
        Drafting.autoregressive(),
        Drafting.looked_up(PromptLookup(4)),
    )
    one = Drafting.chains(1, 1, paths.BlockVerification())
    before = least
    for drafting in (plain, plain, one, one, looked_up, looked_up, looked_up, *[one, looked_up] * 12):
        positions = max(drafting.tree.bounds.size + 1, least)
        parts = Seconds(0.1 if drafting == one else 0, 1 + 0.1 * (positions > 2) + 0.4 * (positions != before))
        costs.learn(step_of(drafting, 0, parts), parts.total)
        before = positions
    assert costs.change() == pytest.approx(0.4, rel=0.1)
    assert costs.step(one) == pytest.approx(1.1, rel=0.05) and costs.step(looked_up) == pytest.approx(1.1, rel=0.1)


@pytest.mark.parametrize("least", [1, 2])
def test_one_position_goes_as_two_only_where_the_backend_says_so(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain steps between steps of one drafted token, where every other number of rows takes a third of a call more."""
    monkeypatch.setattr(LanguageModel, "call_sizes", CallSizes(least))
    auto = Auto(lookup=None, warm_up=0)
    auto.begin(SMALL_DRAFT, 1)
    (costs,) = auto.measured.values()
    one, rows = Drafting.chains(1, 1, paths.BlockVerification()), least
    for drafting in [Drafting.autoregressive()] * 3 + [one] * 4 + [Drafting.autoregressive(), one] * 10:
        before, rows = rows, max(drafting.tree.bounds.size + 1, least)
        parts = Seconds(0.1 * drafting.tree.bounds.size, 1 + (rows != before) / 3)
        costs.learn(step_of(drafting, 0, parts), parts.total)
    assert costs.change() == pytest.approx(1 / 3 if least == 1 else 0, rel=0.1)
    assert costs.step(Drafting.autoregressive()) == pytest.approx(1, rel=0.1) and costs.step(one) == pytest.approx(
        1.1, rel=0.1
    )


def test_a_number_of_rows_with_a_graph_of_its_own_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs nothing to come to it, nor to go back to the number that was there before."""
    monkeypatch.setattr(LanguageModel, "call_sizes", CallSizes(fitted=(1, 2)))
    auto = Auto(lookup=None, warm_up=0)
    auto.begin(SMALL_DRAFT, 1)
    (costs,), block = auto.measured.values(), paths.BlockVerification()
    plain, one, two, three = Drafting.autoregressive(), *(Drafting.chains(1, length, block) for length in (1, 2, 3))
    last = 0
    for drafting in [plain] * 3 + [one] * 3 + [two] * 3 + [three] * 3 + [plain, two, one, two, plain, three, one] * 10:
        rows = drafting.tree.bounds.size + 1
        changed, last = rows > 2 and last not in (0, rows), rows if rows > 2 else last
        parts = Seconds(0.1 * (rows - 1), 1 + 0.1 * (rows - 1) + 0.5 * changed)
        costs.learn(step_of(drafting, 0, parts), parts.total)
    assert costs.change() == pytest.approx(0.5, rel=0.1)
    assert costs.step(Drafting.autoregressive()) == pytest.approx(1, rel=0.05) and costs.step(one) == pytest.approx(
        1.2, rel=0.05
    )
    assert costs.step(two) == pytest.approx(1.4, rel=0.05) and costs.step(three) == pytest.approx(1.6, rel=0.05)


def test_what_pays_is_chosen_as_much_beside_graphs_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain steps between those that look up five tokens; a change is dear, and there is none."""
    monkeypatch.setattr(LanguageModel, "call_sizes", CallSizes(fitted=(1, 2)))
    costs = otd.trees.Costs({1: 1.0, 2: 1.0, 64: 0.8 + 0.1 * 64}, {1: 0.02, 8: 0.02}, change=5.0)
    chooser = Auto(warm_up=0, costs=costs, lookup=PromptLookup(5, 3, 1)).begin(SMALL_DRAFT, 1)
    sizes = [drafting.tree.bounds.size for drafting in chooser.candidates]
    assert [bool(size) for size in chooser._sizes] == [size > 1 for size in sizes]
    chooser._recent.append(6)
    chooser._matches, chooser._active = [], []
    by_place = {estimate.candidate: estimate.seconds for estimate in chooser._estimates()}
    for place, seconds in by_place.items():
        drafting = chooser.candidates[place]
        changes = 0 if sizes[place] in (0, 1, 5) else 2
        assert seconds == pytest.approx(chooser._costs.step(drafting) + 5 * changes)


@pytest.mark.parametrize("change", [0.0, 0.4])
def test_the_speed_of_the_machine_is_followed_where_every_call_is_of_another_size(change: float) -> None:
    """It falls to half: what a plain step takes is known after some, though none of them is one."""
    costs, plain = MeasuredCosts(0.1, 0.05), Drafting.autoregressive()
    two, four = (Drafting.chains(1, length, paths.BlockVerification()) for length in (2, 4))
    before = 1
    for number, drafting in enumerate([plain] * 3 + [two] * 3 + [four] * 3 + [two, four] * 30):
        positions = drafting.tree.bounds.size + 1
        slower = 1 if number < 29 else 2
        parts = Seconds(0.0, slower * (0.9 + 0.1 * positions + change * (positions != before)))
        costs.learn(step_of(drafting, 0, parts), parts.total)
        before = positions
    assert costs.step(Drafting.autoregressive()) == pytest.approx(2, rel=0.15)
    assert costs.change() == pytest.approx(2 * change, abs=0.25)


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("change", [0.0, 1.0])
def test_what_pays_is_chosen_less_where_changing_to_it_costs(
    change: float, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two sources one is looked up in every tenth step only, which does not pay a change to its shape and back."""
    monkeypatch.setattr(LanguageModel, "call_sizes", CallSizes(2))
    costs = otd.trees.Costs({1: 1.0, 2: 1.0, 64: 0.8 + 0.1 * 64}, {1: 0.02, 8: 0.02}, change=change) if told else None
    chooser, last, used = Auto(warm_up=0, costs=costs).begin(SMALL_DRAFT, 1), 2, []
    text, repeats = list(range(40)), [*range(50, 54), *range(60, 64), *range(50, 54)]
    for number in range(300):
        found = number > 60 and number % 10 == 0
        drafting = chooser.choose(History([repeats if found else text]))
        shape = max(drafting.tree.bounds.size + 1, 2)
        looks = not drafting.tree.counts.n_model_calls and drafting.tree.bounds.size > 0
        length = min(drafting.tree.bounds.length, 2 if looks else number % 2)
        parts = Seconds(0.02 * drafting.tree.bounds.length, 0.8 + 0.1 * shape + change * (shape != last))
        chooser.observe(step_of(drafting, length, parts), parts.total)
        used.append(looks and shape != last)
        last = shape
    assert (sum(used) > 12) == (change == 0), sum(used)


def test_its_candidates_fit_the_models() -> None:
    pair = tiny_pair(n=7)
    alone = Auto().begin(Pair(pair.target), 1)
    assert not any(drafting.tree.counts.n_model_calls for drafting in alone.candidates) and len(alone.candidates) > 5
    narrow = Auto(costs=otd.trees.Costs({1: 1.0, 3: 1.1}, {1: 0.1})).begin(pair, 1)
    assert {drafting.tree.bounds.size for drafting in narrow.candidates} == {
        0,
        1,
        2,
    }  # nothing is extrapolated from what was given
    with pytest.raises(CannotDecode, match="must not both be off"):
        Auto(model=False, lookup=None)


def test_without_a_draft_model_it_looks_up() -> None:
    pair = Pair(tiny_llama(3, 5))
    steps = list(decode_steps(pair, [PROMPT * 3], Auto(costs=COSTS), DecodeOptions(SamplingParams(0), max_tokens=50)))
    assert len(steps) < 35 and any(step.drafting.tree.counts.n_lookup_tokens for step in steps)


def test_its_own_clock_drives_it() -> None:
    plan = Auto(warm_up=0)
    made = decode(tiny_pair(seed=3, n=7), [PROMPT], plan, DecodeOptions(max_tokens=60))
    assert [step.drafting.tree.bounds.size for step in made.steps[:2]] == [0, 0]
    assert len({step.drafting for step in made.steps}) > 1 and len(plan.measured) == 1


def test_a_warm_up_measures_before_the_first_text() -> None:
    """Of plain steps and of chains; what it drew and counted is not in the text, and a second run has no other."""
    pair, plan, options = tiny_pair(seed=3, n=7), Auto(warm_up=60), DecodeOptions(max_tokens=40)
    made = decode(pair, [PROMPT], plan, options)
    (costs,) = plan.measured.values()
    assert costs.needs(MENU[:2]) is None
    assert plan.acceptance.step == len(made.steps)
    decode(pair, [PROMPT], plan, options)
    assert len(plan.measured) == 1 and list(plan.measured.values()) == [costs]


def test_a_warm_up_that_is_short_of_time_has_measured_two_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which a CPU can pay for, before four of four tokens."""
    clock = itertools.count()
    monkeypatch.setattr("ot_draft.decoding.tuning.warm_up.perf_counter", lambda: next(clock))
    costs = MeasuredCosts(0.1, 0.05)
    measure(tiny_pair(seed=3, n=7), 1, costs, True, 5.5)  # a second a step, behind the plain ones
    assert set(costs.rest) == {0, 1, 2}


def test_what_was_counted_of_a_pair_is_expected_of_it() -> None:
    """From the first step on, and with the weight of texts; what is seen prevails in the end."""
    counts, neutral, key = AcceptanceCounts(), AcceptanceCounts(), ("model", 1)
    counts.begin((0.7, 0.8))
    assert counts.expected(key, 3, 0)[0] == pytest.approx([1, 1.7, 1.7 + 0.56, 1.7 + 0.56 + 0.448])
    for _ in range(10):
        for each in (counts, neutral):
            each.learn([(key, 1, 0)])
    assert neutral.expected(key, 1, 0)[0][1] < 1.15 < counts.expected(key, 1, 0)[0][1] < 1.6
    for _ in range(300):
        counts.learn([(key, 1, 0)])
    assert counts.expected(key, 1, 0)[0][1] < 1.1
    counts.begin((0.5, 0.0, 0.0))
    assert counts.expected(key, 3, 0)[0][3] < 2


def test_what_is_not_tried_is_remembered_for_longer() -> None:
    """After twenty steps that rejected a draft token, two hundred steps without a draft bring it half the way back to what is unknown."""
    counts, key = AcceptanceCounts(), ("model", 1)
    assert counts.expected(key, 1, 0)[0][1] == pytest.approx(1.4)
    seen = []
    for drafted in ([(key, 1, 0)], [], []):
        for _ in range(20 if drafted else 200):
            counts.learn(drafted)
        means, upper_bounds = counts.expected(key, 1, 0.5)
        assert upper_bounds[1] > means[1]
        seen.append(means[1] - 1)
    assert seen[0] < 0.06 and seen[0] + 0.1 < seen[1] and seen[1] + 0.1 < seen[2] < 0.4


def test_tokens_looked_up_are_expected_as_they_were_counted() -> None:
    """Each by how many tokens before it stood alike, those looked up among them, until the text tells."""
    counts = AcceptanceCounts()
    for matched in (1, 2, 3):
        means = counts.expected(("lookup", matched), 4, 0)[0]
        chances = [
            (after - here) / (here - before) for before, here, after in zip(means, means[1:], means[2:], strict=False)
        ]
        assert [means[1] - 1, *chances] == pytest.approx(counts.matched[matched - 1 : matched + 3])
    for _ in range(100):
        counts.learn([(("lookup", 3), 4, 4)])
    assert counts.expected(("lookup", 3), 16, 0)[0][16] > 12


def test_a_warm_up_ends_in_time_and_fits_the_context() -> None:
    pair, plan = tiny_pair(seed=3, n=7), Auto(warm_up=1e-9)
    plan.begin(pair, 1)
    (costs,) = plan.measured.values()
    assert costs.needs(MENU) == 1  # the autoregressive steps alone
    small = tiny_pair(seed=3, n=7, max_position_embeddings=20)
    assert len(decode(small, [[1, 2]], Auto(), DecodeOptions(max_tokens=3)).tokens[0]) == 3
