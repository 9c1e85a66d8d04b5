"""The command behind every published table measures what the table says: target and draft are those that it names, and not swapped.

Models of one law each have answers in closed form, which a target measured against itself, or a swap of the two, would not give.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tiny_models import constant_llama, tiny_llama, tiny_pair

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import ot_draft as otd  # noqa: E402
from llm_demo import acceptance  # noqa: E402
from llm_demo.bench import auto, block_efficiency, latency  # noqa: E402
from llm_demo.bench.contenders import bench  # noqa: E402
from llm_demo.bench.trees import bounds  # noqa: E402
from llm_demo.bench.trees import calibration as trees_calibration  # noqa: E402
from llm_demo.bench.trees.measure import Behind, Models, measure  # noqa: E402
from llm_demo.bench.trees.methods import WAYS  # noqa: E402
from llm_demo.bench.trees.root_acceptance import root_rows  # noqa: E402
from llm_demo.bench.trees.texts import Context  # noqa: E402
from llm_demo.data import capture, capture_settings  # noqa: E402
from llm_demo.distil import losses  # noqa: E402
from llm_demo.prompts import Prompt  # noqa: E402
from ot_draft.decoding import CannotDecode, DecodeOptions, Pair, SamplingParams  # noqa: E402
from ot_draft.decoding.draft_models import SubsetDraft  # noqa: E402

P, Q = np.array([0.5, 0.2, 0.2, 0.1]), np.array([0.1, 0.7, 0.1, 0.1])  # no statistic is the same with the two swapped
SURE, HALVES = np.array([0.0, 1.0, 0.0, 0.0]), np.array([0.0, 0.5, 0.5, 0.0])
TEXT, PROMPTS = [1, 2, 3, 1], [Prompt("prose", [1, 2, 3]), Prompt("code", [3, 1])]


def pair_of(target: np.ndarray, draft: np.ndarray) -> Pair:
    return Pair(constant_llama(target), constant_llama(draft))


def halves(levels: int) -> float:
    """Tokens accepted where every level is with chance 1/2."""
    return 1 - 0.5**levels


# real_block_efficiency.csv


def lengths_of(target: np.ndarray, draft: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(block_efficiency, "CLASSES", None)
    options = DecodeOptions(max_tokens=2, laws=True, seed=4, stop=())
    return block_efficiency.replay_text(pair_of(target, draft), 1, PROMPTS[0], options, every=1, draws=16)


def test_block_efficiency_on_the_same_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    found = lengths_of(HALVES, SURE, monkeypatch)  # all paths are one token, which the target takes in half the cases
    for name, length in found.items():
        if name.startswith("TokenWise") and "KSeq" not in name:
            assert length == pytest.approx(halves(int(name[-1])), abs=1e-3), name
        elif name.endswith(("x4", "x8")):
            assert length == pytest.approx(halves(int(name[-1])), abs=0.9), name
    swapped = lengths_of(SURE, HALVES, monkeypatch)  # of eight paths some go on with the target's token
    assert swapped["TokenWise(Optimal) 8x4"] > 1.5
    itself = lengths_of(P, P, monkeypatch)
    assert all(value == pytest.approx(int(name[-1])) for name, value in itself.items() if name.endswith(("x4", "x8")))


# real_trees.csv, real_trees_acceptance.csv, real_trees_plans.json


def roots(target: np.ndarray, draft: np.ndarray) -> list[Any]:
    models = Models(constant_llama(target), {"draft": constant_llama(draft)}, 4)
    return root_rows(Behind(Context(0, "prose", 1.0, tuple(TEXT)), models), "draft")


def test_acceptance_at_the_roots() -> None:
    for p, q in ((P, Q), (Q, P)):
        for row in roots(p, q):
            assert row["overlap"] == pytest.approx(np.minimum(p, q).sum(), abs=1e-4)
            assert row["Optimal"] == pytest.approx(otd.optimal_acceptance(p, q, row["k"]), abs=1e-4)
    assert abs(roots(P, Q)[1]["Optimal"] - roots(Q, P)[1]["Optimal"]) > 0.02
    assert all(row["overlap"] == 1 for row in roots(P, P))


@pytest.fixture(scope="module")
def planned() -> trees_calibration.Calibration:
    """For a vocabulary of 24: of a smaller one no 16 children are drawn."""
    pair = tiny_pair(3, 24, layers=3)
    return trees_calibration.found(pair, [Prompt("random", [1 + i, 2, 3 * i]) for i in range(6)], (1.0,), 24)


def test_lengths_of_the_ways_to_spend_nodes(planned: trees_calibration.Calibration) -> None:
    def lengths(target: np.ndarray, draft: np.ndarray) -> dict[str, float]:
        models = Models(constant_llama(target), {"embedded": constant_llama(draft)}, 4)
        behind = Behind(Context(0, "prose", 1.0, tuple(TEXT)), models)
        row = measure(behind, "embedded", planned.at(1.0), [8])[0]
        return {way: row[way] for way in WAYS}

    found, swapped = lengths(HALVES, SURE), lengths(SURE, HALVES)
    assert found["one path, block"] == pytest.approx(halves(8), abs=1e-3)
    assert all(0.2 < length < 1.001 for way, length in found.items() if "counted" not in way)
    assert swapped["OPT-Tree"] > 1.5  # the two tokens of the draft, three levels deep
    itself = lengths(P, P)
    assert itself["one path, block"] == pytest.approx(8, abs=1e-3)


def test_caps_of_the_ways_to_spend_nodes(
    planned: trees_calibration.Calibration, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "NODES", 8)
    monkeypatch.setattr(bounds, "RUNS", 4)

    def caps(target: np.ndarray, draft: np.ndarray) -> dict[str, float]:
        pair = Pair(constant_llama(target), constant_llama(draft))
        return bounds.caps(pair, Context(0, "prose", 1.0, tuple(TEXT)), planned.at(1.0)["embedded"], 0)

    itself, swapped = caps(P, P), caps(SURE, HALVES)
    assert itself["one path, block"] == pytest.approx(8, abs=1e-3)  # every text is accepted as far as the path goes
    # The target's one token is drafted in half the cases.
    assert swapped["one path, block"] == pytest.approx(halves(8), abs=1e-3)
    assert all(0 < length <= 8 for length in swapped.values())


def test_the_table_of_caps_compares_the_same_places(planned: trees_calibration.Calibration) -> None:
    places = [
        {"text": str(text), "temperature": "1.0", "draft": "embedded", "nodes": "32"}
        | dict.fromkeys(WAYS, str(1 + text))
        for text in range(3)
    ]
    # Two texts at place 0, of 1 and 3, one at place 2, of 4.
    of_text = [
        {"text": text, "round": number} | dict.fromkeys(bounds.DRAFTED, cap)
        for text, number, cap in (("0", "0", "1"), ("2", "0", "4"), ("0", "1", "3"))
    ]
    rows = bounds.as_markdown(bounds.compared(places, of_text), planned.at(1.0)["embedded"]).splitlines()[2:]
    assert len(rows) == len(WAYS)
    for row, (name, way) in zip(rows, WAYS.items(), strict=True):
        naive = way.rule == otd.trees.NaivePath()
        assert row.startswith(f"| {name} | 2.00 | {'2.00' if naive else '3.00'} |")
        assert f"| {'1.00' if naive else '0.67'} ±" in row


def test_a_draft_that_is_the_target_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    target = tiny_llama(5, 11, 3, torch.float32)
    pair, layers = Pair(target, tiny_llama(6, 11, 2, torch.float32)), {"1 layer fewer": [1]}
    assert set(trees_calibration.models_of(pair, layers, 11).drafts) == {"embedded", "1 layer fewer", "lookup"}
    monkeypatch.setattr(trees_calibration, "without_layers", lambda target, missing: target)
    with pytest.raises(CannotDecode, match="'1 layer fewer' has the target's distribution"):
        trees_calibration.models_of(pair, layers, 11)
    with pytest.raises(CannotDecode, match="'embedded' has the target's distribution"):
        trees_calibration.models_of(Pair(target, target), {}, 11)


# llm_demo.bench.contenders, bench_auto_cpu.csv, bench_peers_cpu.csv


def efficiencies(rows: Sequence[Any], name: str) -> dict[str, float]:
    """Of i.i.d. drafts: others have tokens that the draft would hardly ever draw."""
    own = [row for row in rows if row.get("law", "iid") in ("iid", "")]
    return {row[name]: float(row.get("block_efficiency") or row["tokens_a_call"]) for row in own}


MANY = [
    Prompt("prose", [1, 2, 3])
] * 16  # a batch: 16 texts of 6 tokens, 64 steps or more a method, standard error .06 or less
SHORT = DecodeOptions(max_tokens=6, seed=9, stop=())


def test_the_bench_of_all_rules() -> None:
    def bench_of(target: np.ndarray, draft: np.ndarray) -> dict[str, float]:
        return efficiencies(bench(pair_of(target, draft), MANY, 16, SHORT, ((1, 1), (4, 1))), "rule")

    found, swapped, itself = bench_of(HALVES, SURE), bench_of(SURE, HALVES), bench_of(P, P)
    own = set(found) - {"autoregressive"}
    assert found["autoregressive"] == 1 and all(abs(found[rule] - 1.5) < 0.25 for rule in own), found
    assert swapped["joint"] > 1.8 and swapped["optimal"] > 1.8 and all(itself[rule] > 1.95 for rule in own)


def test_transformers_own_generation_in_the_bench() -> None:
    def bench_of(target: np.ndarray, draft: np.ndarray) -> dict[str, float]:
        return efficiencies(bench(pair_of(target, draft), PROMPTS[:1], 1, SHORT, ((1, 1),)), "rule")

    found, itself = bench_of(SURE, HALVES), bench_of(P, P)
    assert found["transformers, plain"] == itself["transformers, plain"] == 1
    assert bench_of(SURE, np.array([1.0, 0, 0, 0]))["transformers, assisted"] == 1  # a draft that is never right
    assert itself["transformers, assisted"] == 2


def test_the_bench_of_the_shape_that_chooses_itself() -> None:
    def bench_of(target: np.ndarray, draft: np.ndarray) -> dict[str, float]:
        pair = pair_of(target, draft)
        methods = [
            auto.auto_method(),
            *(m for m in auto.contenders(pair, 16, "shapes") if m.rule in ("joint", "block")),
        ]
        return efficiencies(auto.bench(pair, MANY, 16, SHORT, methods, lambda done: None), "method")

    found, swapped, itself = bench_of(HALVES, SURE), bench_of(SURE, HALVES), bench_of(P, P)
    wide = next(name for name in found if name.startswith("joint"))  # four paths of two tokens
    long = next(name for name in found if name.startswith("block") and "4" in name)
    assert found["autoregressive"] == 1 and abs(found[wide] - 1 - halves(2)) < 0.35 and swapped[wide] > 2.3
    assert abs(found[long] - 1 - halves(4)) < 0.5 and itself[long] > 2.5


# latency_cpu.csv


def test_latency_is_the_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that every pass of the target moves by 7 seconds, and every pass of the draft by 1000."""
    pair, clock = tiny_pair(), [0.0]

    def moves(seconds: float) -> Any:
        def moved(*_: Any) -> None:
            clock[0] += seconds

        return moved

    pair.target.register_forward_hook(moves(7.0))
    pair.draft.register_forward_hook(moves(1000.0))
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("ot_draft.decoding.step.perf_counter", lambda: clock[0], raising=False)
    assert latency.verify_times(pair, 5, 3, context=4, steps=3) == [7000.0, 7000.0]
    assert latency.draft_times(pair, 2, context=4, steps=3) == [1000000.0, 1000000.0]


# trained_for_k.csv


def test_what_students_accept() -> None:
    for p, q in ((P, Q), (Q, P)):
        found = losses.accepted(pair_of(p, q), TEXT)
        for i, temperature in enumerate(losses.TEMPERATURES):
            a, b = (law ** (1 / temperature) / (law ** (1 / temperature)).sum() for law in (p, q))
            for j, k in enumerate(losses.KS):
                assert found[i, j] == pytest.approx(otd.optimal_acceptance(a, b, k), abs=1e-4)


def test_a_students_row_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A student that was trained towards the target, and the draft that it started from."""
    target, start = constant_llama(P), constant_llama(Q)

    def subset(model: Any) -> SubsetDraft:
        draft = SubsetDraft(model.model, model.get_input_embeddings(), torch.arange(4))
        draft.head.weight = torch.nn.Parameter(model.lm_head.weight.clone(), requires_grad=False)
        return draft

    students = {
        name: losses.Student(subset(constant_llama(law)), losses.for_drafts(1), 0.1)
        for name, law in ((losses.ONE_DRAFT, Q), ("better", P))
    }
    entries = [{"messages": [], "text": "a"}, {"messages": [], "text": "b"}]
    monkeypatch.setattr(losses, "read_entries", lambda file: entries)
    tokenizer: Any = lambda text, **_: SimpleNamespace(input_ids=TEXT)  # noqa: E731
    rows = losses.compare(Pair(target, subset(start), tokenizer), students, subset(start), 2)
    at_one = {row["loss"]: row for row in rows if row["temperature"] == 1.0 and row["k"] == 1 == row["L"]}
    overlap = np.minimum(P, Q).sum()
    assert float(at_one["before"]["acceptance"]) == pytest.approx(overlap, abs=1e-4)
    assert float(at_one["better"]["acceptance"]) == pytest.approx(1, abs=1e-4)
    assert float(at_one["better"]["more"]) == pytest.approx(1 - overlap, abs=1e-4)


# smollm2_pairs.npz, smollm2_settings.npz, and the acceptance in the drafts' card


def test_captured_laws_are_the_targets_and_the_drafts() -> None:
    pair = tiny_pair(2, 8)
    p, q = capture.full_laws(TEXT, [2, 3], pair)
    for laws, model in ((p, pair.target), (q, pair.draft)):
        logits = model(torch.tensor([TEXT])).logits[0, 1:3]
        for row, temperature in zip(laws, capture.TEMPERATURES, strict=True):
            assert row == pytest.approx((logits / temperature).softmax(-1).numpy(), abs=1e-9)
    shrunk = capture.shrink(2, np.stack([P, P]), np.stack([Q, Q]), 4)
    assert shrunk.full_optimum[0].tolist() == pytest.approx([otd.optimal_acceptance(P, Q, k) for k in capture.DRAFTS])
    target, draft = capture_settings.last_logits(TEXT, pair)
    assert target == pytest.approx(pair.target(torch.tensor([TEXT])).logits[0, -1].numpy())
    assert draft == pytest.approx(pair.draft(torch.tensor([TEXT])).logits[0, -1].numpy())


def test_acceptance_of_the_drafts_card() -> None:
    for draft, expected in ((Q, np.minimum(P, Q).sum()), (P, 1.0)):
        rows = acceptance.measure(pair_of(P, draft), PROMPTS, (1.0,), tokens=4)
        assert all(row["acceptance"] == pytest.approx(expected, abs=1e-4) for row in rows)
    sampling = SamplingParams(0.6)
    p, q = (sampling.masses(torch.tensor(law).log()).numpy() for law in (P, Q))
    (row, *_) = acceptance.measure(pair_of(P, Q), PROMPTS, (0.6,), tokens=4)
    assert row["acceptance"] == pytest.approx(np.minimum(p, q).sum(), abs=1e-4)
