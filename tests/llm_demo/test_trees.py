"""The table of ways to spend N nodes, on tiny random models: the same laws, lengths and rows as the slow and obvious way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slow import slow

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tiny_models import tiny_llama, tiny_pair  # noqa: E402

import ot_draft as otd  # noqa: E402
from llm_demo.bench.trees import command, summary  # noqa: E402
from llm_demo.bench.trees.calibration import Calibration, found, models_of  # noqa: E402
from llm_demo.bench.trees.lengths import expected_length, merged_laws, plain  # noqa: E402
from llm_demo.bench.trees.lookup_rates import seen_in  # noqa: E402
from llm_demo.bench.trees.measure import Behind, DraftLaws, drafted, measure  # noqa: E402
from llm_demo.bench.trees.methods import WAYS  # noqa: E402
from llm_demo.bench.trees.prefixes import PrefixLogits  # noqa: E402
from llm_demo.bench.trees.root_acceptance import COLUMNS  # noqa: E402
from llm_demo.bench.trees.summary import LOOKUP  # noqa: E402
from llm_demo.bench.trees.texts import Context  # noqa: E402
from llm_demo.prompts import Prompt  # noqa: E402
from llm_demo.rows import read  # noqa: E402
from ot_draft.decoding import CannotDecode, DecodeOptions, Drafting, Pair, SamplingParams, decode_steps  # noqa: E402
from ot_draft.decoding.self_draft import least_missed, without_layers  # noqa: E402

N = 24
PROMPT = (3, 1, 4, 1, 5)
PREFIXES = [(), (7,), (2, 9), (7, 7), (7, 7, 3), (0, 5, 5, 2, 1)]


@pytest.fixture(scope="module")
def pair() -> Pair:
    return tiny_pair(seed=3, n=N, layers=3)


HELD_OUT = [Prompt("random", [1 + i, 2, 3 * i]) for i in range(6)]


@pytest.fixture(scope="module")
def known(pair: Pair) -> Calibration:
    return found(pair, HELD_OUT, (0.0, 1.0), N)


def behind(pair: Pair, known: Calibration, number: int = 0, temperature: float = 1.0) -> Behind:
    return Behind(Context(number, "random", temperature, PROMPT), models_of(pair, known.layers, N))


def test_prefixes_in_any_order_give_the_logits_of_plain_passes() -> None:
    model = tiny_llama(5, N, 2)
    reader = PrefixLogits(model, PROMPT, N)
    for asked in (PREFIXES[3:4], PREFIXES, PREFIXES[::-1]):
        for prefix, logits in zip(asked, reader.at(asked), strict=True):
            wanted = model(torch.tensor([[*PROMPT, *prefix]])).logits[0, -1]
            assert torch.allclose(logits, wanted, atol=1e-10)
    assert reader.read == len({prefix[:d] for prefix in PREFIXES for d in range(len(prefix) + 1)})


def test_a_cache_that_grows_keeps_what_was_read() -> None:
    model = tiny_llama(5, N, 2)
    reader = PrefixLogits(model, PROMPT, N)
    many = [(a, b) for a in range(N) for b in range(0, N, 2)]
    found = reader.at(many)
    for prefix in (0, 77, len(many) - 1):
        wanted = model(torch.tensor([[*PROMPT, *many[prefix]]])).logits[0, -1]
        assert torch.allclose(found[prefix], wanted, atol=1e-10)


def test_a_target_without_layers_is_one_that_never_had_them() -> None:
    target, text = tiny_llama(1, N, 3), torch.tensor([PROMPT])
    shorter = without_layers(target, [1])
    whole = tiny_llama(1, N, 2)
    kept = {
        name.replace("layers.2.", "layers.1."): x for name, x in target.state_dict().items() if ".layers.1." not in name
    }
    whole.load_state_dict(kept)
    assert torch.equal(shorter(text).logits, whole(text).logits)
    assert len(target.model.layers) == 3 and not torch.allclose(target(text).logits, whole(text).logits)
    (((missing,), share),) = least_missed(target, [([*PROMPT], [2, 3, 4])], 1)
    shares = []
    for layer in range(3):
        alone = Pair(target, without_layers(target, [layer])).logits_along
        # One place after the other: what stands before its last token the target has read.
        p, q = (
            torch.cat(rows).softmax(-1) for rows in zip(*(alone(PROMPT, [place]) for place in (2, 3, 4)), strict=True)
        )
        shares.append(float(torch.minimum(p, q).sum(-1).mean()))
    assert shares[missing] == max(shares) and share == pytest.approx(max(shares))


class Random:
    """Logits of 2,000 tokens, others behind every prefix; those of the draft are the target's, blurred."""

    def __init__(self, noise: float) -> None:
        self.noise, self.context = noise, Context(0, "random", 1.0, PROMPT)

    def at(self, prefixes: Any) -> list[Any]:
        found = []
        for prefix in prefixes:
            generator = torch.Generator().manual_seed(hash(tuple(prefix)) % 1000)
            target, blur = 3 * torch.randn(2, 2000, generator=generator)
            found.append(target + self.noise * blur)
        return found


RULES = [
    otd.trees.Joint(),
    otd.trees.Traversal(),
    otd.trees.TokenWise(otd.rules.KSeq()),
    otd.trees.TokenWise(otd.rules.Optimal()),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_merged_tokens_change_next_to_nothing(rule: otd.trees.PathRule) -> None:
    """Expected lengths on a tree's own tokens and classes, and on all tokens."""
    target, logits = Random(0.0), Random(0.3)
    draft: Any = DraftLaws(logits, 1.0)  # type: ignore[arg-type]
    drafting = otd.trees.FixedTree(otd.trees.TreeShape.chains(3, 3), otd.IID())
    tree = drafted({drafting: None}, draft, target.context)[drafting]
    merged = merged_laws(target, logits, set(draft.known), [tree], 1.0)  # type: ignore[arg-type]

    class Whole:
        number = dict(enumerate(range(2000)))  # noqa: RUF012

        def target(self, prefix: Any) -> Any:
            return target.at([prefix])[0].double().softmax(-1).numpy()

        def draft(self, prefix: Any) -> Any:
            return logits.at([prefix])[0].double().softmax(-1).numpy()

    whole: Any = Whole()
    lengths = otd.trees.rules.lengths(rule, whole, plain(tree, whole))
    wanted = sum(chance * length for length, chance in lengths.items())
    assert wanted > 0.1 and len(merged.of(tree.tokens).target(())) < 800
    assert expected_length(rule, tree, merged) == pytest.approx(wanted, rel=2e-3)


def engine_lengths(pair: Pair, drafting: Drafting, texts: int) -> np.ndarray:
    options = DecodeOptions(SamplingParams(1.0), max_tokens=40, seed=1, stop=())
    step = next(iter(decode_steps(pair, [list(PROMPT)] * texts, drafting, options)))
    return (step.emitted >= 0).sum(-1).numpy() - 1.0


@pytest.mark.parametrize(
    "name",
    [
        *("Sequoia", "hybrid, Joint"),
        *map(slow, ("adaptive, Joint", "chains, Joint", "chains, K-SEQ", "DySpec", "EAGLE-2")),
    ],
)
def test_lengths_are_those_of_the_engine(pair: Pair, known: Calibration, name: str) -> None:
    """The same draft, tree and rule behind one prompt: mean over the drafts, within four errors."""
    way, plan, seeds = WAYS[name], known.at(1.0)["embedded"], 40
    drafting = way.drafts(plan, 8, False)
    run = Drafting(drafting, way.rule)
    ours = np.array(
        [
            measure(behind(pair, known, seed), "embedded", known.at(1.0), [8], {name: way})[0][name]
            for seed in range(seeds)
        ]
    )
    theirs = engine_lengths(pair, run, 1500)
    error = np.hypot(ours.std(ddof=1) / seeds**0.5, theirs.std(ddof=1) / len(theirs) ** 0.5)
    assert abs(ours.mean() - theirs.mean()) < 4 * error + 1e-3


def test_a_run_that_was_stopped_goes_on_to_the_same_table(pair: Pair, known: Calibration, tmp_path: Path) -> None:
    prompts = [Prompt("random", [1, 2, 1, 2, 3 + i, 1, 2]) for i in range(2)]
    whole, parts = tmp_path / "whole.csv", tmp_path / "parts.csv"
    settings: dict[str, Any] = {"budgets": (8,), "temperatures": (0.0, 1.0)}
    assert command.table(pair, prompts, known, whole, **settings) == 4  # contexts
    command.table(pair, prompts, known, parts, seconds=0, **settings)
    command.table(pair, prompts, known, parts, drafts=["embedded", LOOKUP], **settings)
    while command.table(pair, prompts, known, parts, seconds=0, **settings):
        pass
    rows, again = read(whole), read(parts)
    order = ("text", "temperature", "draft", "nodes")
    assert sorted(rows, key=lambda r: [r[c] for c in order]) == sorted(again, key=lambda r: [r[c] for c in order])
    drafts = ["embedded", *known.layers, LOOKUP]
    assert {tuple(row[c] for c in order) for row in rows} == {
        (str(text), t, draft, "8") for text in range(2) for t in ("0.0", "1.0") for draft in drafts
    }
    assert all(row[way] for row in rows for way in WAYS if row["draft"] != LOOKUP)
    assert all(row[LOOKUP] for row in rows if row["draft"] == LOOKUP)
    for row in rows:
        assert all(0 <= float(row[way]) <= min(12, int(row["nodes"])) for way in WAYS if row[way])
    roots = read(command.files_beside(whole)[1])
    assert len(roots) == 2 * (len(drafts) - 1) * 3
    assert all(float(r["Optimal"]) >= max(float(r[name]) for name in COLUMNS[:3]) - 1e-4 for r in roots)
    text = summary.as_markdown(summary.cells(rows))
    assert text.count("| embedded |") == 2 and all(f"\n| {way} |" in text for way in WAYS)


def test_plans_are_stored_whole(known: Calibration, tmp_path: Path) -> None:
    known.write(tmp_path / "plans.json")
    assert Calibration.read(tmp_path / "plans.json").layers == known.layers
    for temperature in (0.0, 1.0):
        stored, wanted = Calibration.read(tmp_path / "plans.json").at(temperature), known.at(temperature)
        assert stored["embedded"].adaptive_tree(16) == wanted["embedded"].adaptive_tree(16)
        assert stored["embedded"].by_child == wanted["embedded"].by_child


def test_chains_of_numbers_of_nodes_that_none_have_are_refused(known: Calibration) -> None:
    with pytest.raises(CannotDecode, match="nodes must be one of 8, 16, 32, 64 for chains, got 12"):
        known.at(1.0)["embedded"].chains(12)


@pytest.mark.parametrize("lacks", ["by_child", "looked_up"])
def test_a_plan_that_lacks_something_is_refused(lacks: str, known: Calibration, tmp_path: Path) -> None:
    assert known.plans["embedded"]["1.0"].looked_up
    file = tmp_path / "plans.json"
    known.write(file)
    stored = json.loads(file.read_text())
    del stored["plans"]["embedded"]["1.0"][lacks]
    file.write_text(json.dumps(stored))
    with pytest.raises(TypeError, match=lacks):
        Calibration.read(file)


def test_a_looked_up_token_is_seen_as_far_as_the_text_went_on_so() -> None:
    text = [1, 2, 3, 4, 5, 1, 2, 3, 9, 9]
    # Behind 1, 2 stands 3 (right), then 4 (wrong); behind 2, 3 stands 4 (wrong); 9 alone had matched at the end.
    assert seen_in(text, 6) == [(7, 0, 3), (8, 1, 4), (8, 0, 4)]
