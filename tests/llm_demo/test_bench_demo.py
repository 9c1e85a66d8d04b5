"""The bench: its prompts, its peers, its arithmetic; and block efficiency on the same trees, against the exact law."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tiny_models import tiny_llama, tiny_pair

import ot_draft as ot
from figures.paths.control_variates import mean_and_error

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from llm_demo import machine  # noqa: E402
from llm_demo.bench import block_efficiency, latency  # noqa: E402
from llm_demo.bench import command as bench  # noqa: E402
from llm_demo.bench import costs as bench_costs  # noqa: E402
from llm_demo.bench import peers as bench_peers  # noqa: E402
from llm_demo.bench.methods import PEER_ASSISTED, PEER_PLAIN, contenders  # noqa: E402
from llm_demo.bench.run import Runs, run_all  # noqa: E402
from llm_demo.pairs.continue_prompts import read_entries  # noqa: E402
from llm_demo.prompts import FILE, Prompt, read_prompts  # noqa: E402
from ot_draft.decoding import Draft, Options, Pair, Sampling  # noqa: E402

paths, rules = ot.paths, ot.rules
KINDS = ("prose", "code", "dialogue", "lists", "continuation")
PROMPTS = [Prompt("prose", [1, 2, 3]), Prompt("code", [4, 5]), Prompt("lists", [6, 1, 1]), Prompt("prose", [7])]


def test_prompts_of_five_kinds_with_source_and_licence() -> None:
    entries = read_entries(FILE)
    assert Counter(entry["kind"] for entry in entries) == dict.fromkeys(KINDS, 40)
    assert tuple(entry["kind"] for entry in entries[:5]) == KINDS  # the kinds take turns
    assert all(entry["licence"] == "Apache-2.0" and "written for this project" in entry["source"] for entry in entries)
    assert len({str(entry["messages"]) + entry["text"] for entry in entries}) == len(entries)
    assert all(bool(entry["messages"]) != bool(entry["text"]) for entry in entries)


def test_prompts_go_through_the_chat_template() -> None:
    class Tokenizer:
        def __call__(self, text: str) -> Any:
            return SimpleNamespace(input_ids=list(text.encode()))

        def apply_chat_template(self, messages: Any, tokenize: bool, add_generation_prompt: bool) -> str:
            return f"<{messages[-1]['content']}>"

    first, *_, last = read_prompts(Tokenizer(), 5)
    assert bytes(first.tokens).startswith(b"<") and bytes(first.tokens).endswith(b">")
    assert last.kind == "continuation" and bytes(last.tokens).decode() == read_entries(FILE)[4]["text"]


def subset_draft(target: Any, subset: Sequence[int]) -> Draft:
    """The target itself as a draft that scores a subset only."""
    return Draft(target.model, target.get_input_embeddings(), torch.tensor(list(subset)))


def test_the_assistant_is_the_draft_on_the_whole_vocabulary() -> None:
    draft = subset_draft(tiny_llama(3, tie_word_embeddings=True), [1, 2, 5])
    tokens = torch.tensor([[1, 4, 2]])
    scored = bench_peers.assistant(draft)(tokens).logits.softmax(-1)
    assert torch.equal(scored, draft.spread(draft(tokens).softmax(-1)))
    assert (scored[..., [0, 3, 4, 6, 7]] == 0).all()


def test_assisted_generation_accepts_all_of_a_draft_that_is_the_target() -> None:
    target = tiny_llama(3, tie_word_embeddings=True)
    pair = Pair(target, subset_draft(target, range(8)))
    made = bench_peers.generate(pair, bench_peers.assistant(pair.draft), [1, 2], 3, 1.0, 13, seed=0)
    assert len(made.tokens) == 13 and made.calls in (4, 5)  # 4 tokens a call: the last call may be a short one
    plain = bench_peers.generate(pair, None, [1, 2], 0, 1.0, 13, seed=0)
    assert (len(plain.tokens), plain.calls) == (13, 13) and plain.seconds > 0


def trees() -> list[ot.paths.DraftTree]:
    options = Options(Sampling(0.5), max_tokens=8, laws=True, seed=1)  # sharp laws: siblings are often equal
    return list(block_efficiency.trees(tiny_pair(), [1, 2, 3], paths.Joint(), options, (4, 3)))


def exact_length(rule: ot.paths.PathRule, tree: ot.paths.DraftTree) -> float:
    """Expected accepted length given the tree, from the plain form of the rule."""
    tokens, shape = tree.tokens[0].tolist(), tree.shape
    prefixes = {tuple(tokens[v - 1] for v in shape.path(node)): node for node in reversed(range(shape.size + 1))}

    def law(table: Any, prefix: tuple[int, ...]) -> np.ndarray:
        row = table[0, prefixes[prefix]].double().numpy()
        return row / row.sum()

    model: Any = SimpleNamespace(target=lambda x: law(tree.p, tuple(x)), draft=lambda x: law(tree.q, tuple(x)))
    drafts = [tuple(tokens[v - 1] for v in shape.path(node)) for node in shape.levels[-1]]
    return sum((len(emitted) - 1) * mass for emitted, mass in rule(model, drafts).items())


@pytest.mark.parametrize(
    "rule", [rules.KSeq(), rules.RecursiveRejection(), rules.Optimal()], ids=lambda rule: rule.name
)
def test_expected_length_of_token_wise_rules_is_exact(rule: ot.SelectionRule) -> None:
    for tree in trees():
        lives = block_efficiency.survival(rule, tree)
        assert float(lives.sum()) == pytest.approx(exact_length(paths.TokenWise(rule), tree), abs=1e-9)
        assert (lives.diff() <= 1e-12).all()


def test_expected_length_of_other_rules_is_a_mean_of_draws() -> None:
    generator = torch.Generator().manual_seed(3)
    for tree in trees():
        found = block_efficiency.mean_length(paths.Joint(), tree, 2000, generator)
        assert found == pytest.approx(exact_length(paths.Joint(), tree), abs=5 * 1.5 / 2000**0.5)


def test_control_variates_have_mean_zero_over_the_drafts() -> None:
    generator = torch.Generator().manual_seed(5)
    shape = paths.TreeShape.chains(8, 1)
    p, q = torch.rand(2, 6, generator=generator, dtype=torch.float64).softmax(-1)
    q[4], q = 0, q / q.sum()
    q = q / q.sum()
    found: dict[str, list[float]] = {}
    for _ in range(300):
        tokens = torch.multinomial(q, 8, replacement=True, generator=generator)[None]
        tree = paths.DraftTree(shape, tokens, p.expand(1, 9, 6), q.expand(1, 9, 6))
        for name, value in block_efficiency.controls_on(tree).items():
            found.setdefault(name, []).append(value)
    assert len(found) == 4
    for values in found.values():
        assert abs(np.mean(values)) < 5 * np.std(values) / len(values) ** 0.5 + 1e-12
    assert np.std(found["control SpeculativeSampling"]) > 0.01


def test_lengths_of_all_sizes_and_a_file_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_efficiency, "CLASSES", None)
    pair, out = tiny_pair(), tmp_path / "lengths.csv"
    decoding = Options(max_tokens=3, laws=True, seed=4)
    whole = {"every": 1, "draws": 2}
    block_efficiency.write_texts(pair, PROMPTS[:2], out, 0, 1e9, decoding, **whole)
    block_efficiency.write_texts(pair, PROMPTS[:3], out, 2, 1e9, decoding, **whole)
    rows = bench_rows(out)
    assert [row["text"] for row in rows] == ["0", "1", "2"]
    assert rows[0]["Joint 8x8"] and not rows[1]["Joint 8x8"] and rows[1]["Joint 8x4"]
    for name, value in rows[0].items():
        if name.endswith(("x4", "x8")):
            assert 0 <= float(value) <= int(name[-1])


def bench_rows(file: Path) -> list[dict[str, str]]:
    import csv

    with file.open() as stream:
        return list(csv.DictReader(stream))


def test_a_control_variate_takes_noise_out_and_nothing_else() -> None:
    generator = np.random.default_rng(1)
    luck, weights = generator.normal(size=(200, 1)), generator.integers(1, 5, 200).astype(float)
    values = 2 + 3 * luck[:, 0] + 0.1 * generator.normal(size=200)
    plain, noise = mean_and_error(values, weights, np.empty((200, 0)))
    mean, error = mean_and_error(values, weights, luck)
    assert plain == pytest.approx(np.average(values, weights=weights)) and noise > 0.15
    assert error < 0.02 and abs(mean - 2) < 4 * error
    assert mean_and_error(values[:9], weights[:9], luck[:9])[0] == pytest.approx(
        np.average(values[:9], weights=weights[:9])
    )


def test_all_contenders_run_and_the_baseline_is_the_measure() -> None:
    pair = tiny_pair()
    rows = bench.bench(pair, PROMPTS[:2], 1, Options(max_tokens=6, stop=()), ((1, 2), (3, 2)))
    assert len(rows) == len(contenders(((1, 2), (3, 2)))) and len({tuple(row) for row in rows}) == 1
    plain = rows[0]
    assert (plain["rule"], float(plain["speed_up"]), float(plain["block_efficiency"])) == ("autoregressive", 1, 1)
    for row in rows:
        most = int(row["L"]) + 1 if row["K"] else 1
        assert 1 <= float(row["block_efficiency"]) <= most and float(row["step_ms"]) > 0
        assert bool(row["predicted"]) == bool(row["K"] and row["rule"] != PEER_ASSISTED)
    assert {row["rule"] for row in rows} >= {PEER_PLAIN, PEER_ASSISTED, "joint", "kseq", "optimal"}
    assert len(bench.show(rows).splitlines()) == len(rows) + 1


def test_a_batch_has_no_peers_and_counts_texts_that_go_on() -> None:
    pair = tiny_pair()
    chosen = contenders(((3, 2),), peers=False)
    done = run_all(pair, chosen, [PROMPTS[:2], PROMPTS[2:]], Options(Sampling(0.6), max_tokens=5, stop=()))
    plain = done[0]
    assert plain.text == [0, 1] * 5 + [2, 3] * 5 and plain.chosen == [1.0] * 20  # every text has five tokens
    for runs in done[1:]:
        assert all(sum(c for c, t in zip(runs.chosen, runs.text, strict=True) if t == text) >= 5 for text in range(4))
        for text in range(4):  # the last call of a text is the one that brings it to five tokens
            assert sum([c for c, t in zip(runs.chosen, runs.text, strict=True) if t == text][:-1]) < 5
        assert len(runs.steps) == 2 and runs.contender.method is not None


def test_speed_up_is_block_efficiency_times_the_paired_ratio_of_steps() -> None:
    one, many = (
        each
        for each in contenders(((3, 2),), peers=False)
        if each.name in ("autoregressive", "joint") and each.law in ("", "iid")
    )
    plain = Runs(one, [1.0, 1.0], [0, 1], [10.0, 30.0, 20.0])
    found = Runs(many, [1.0, 2.0, 3.0, 2.0], [0, 0, 1, 1], [20.0, 60.0, 20.0])
    gain, error = found.speed_up(plain)
    assert gain == 2 * 0.5 and error > 0  # the machine was slow in the second group, for both
    assert plain.speed_up(plain) == (1, 0)


def test_predictions_are_the_wall_clock_models() -> None:
    ours = [each for each in contenders(((3, 2),), peers=False) if each.name in ("autoregressive", "joint", "kseq")]
    parts = {bench_costs.key(each): bench_costs.Parts(4.0, 30.0, 1.0) for each in ours}
    parts[bench_costs.key(ours[0])] = bench_costs.Parts(0.0, 19.0, 1.0)
    costs = bench_costs.costs_of(parts, ours)
    expected = bench_costs.predicted(ours[1], 2.1, 0.1, costs[bench_costs.key(ours[1])])
    assert expected == pytest.approx(2.1 * 20 / 35)


def test_what_grew_is_named_where_a_prediction_is_off() -> None:
    before, dearer = bench_costs.Parts(4.0, 30.0, 1.0), bench_costs.Parts(4.5, 45.0, 1.0)
    assert bench_costs.reason(1.0, 1.1, before, dearer, 20, 20) == ""
    assert bench_costs.reason(0.7, 1.0, before, dearer, 20, 20) == "verify 30.0 -> 45.0 ms"
    assert bench_costs.reason(0.7, 1.0, before, before, 20, 14) == "plain step 20.0 -> 14.0 ms"
    assert bench_costs.reason(1.4, 1.0, before, before, 20, 28) == "plain step 20.0 -> 28.0 ms"
    assert "noise" in bench_costs.reason(0.7, 1.0, before, before, 20, 20)


def test_latency_along_both_axes() -> None:
    rows = latency.latency(tiny_pair(), (1, 4), (1, 2), context=5, visits=1)
    assert [(row["axis"], row["positions"], row["rows"]) for row in rows] == [
        ("positions", 1, 1),
        ("positions", 4, 1),
        ("rows", 1, 1),
        ("rows", 1, 2),
    ]
    assert all(0 < float(str(row["low_ms"])) <= float(str(row["ms"])) <= float(str(row["high_ms"])) for row in rows)


def test_latency_is_of_so_many_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, seen = tiny_pair(), []
    pair.target.register_forward_hook(lambda model, arguments, output: seen.append(tuple(arguments[0].shape)))
    latency.verify_times(pair, 5, 3, context=4, steps=2)
    assert seen == [(3, 3), (3, 5), (3, 5)]  # the prompts but for their last token, then the steps


def test_where_it_was_measured() -> None:
    found = machine.machine()
    assert set(found) == {"date", "machine", "load", "versions"} and "torch" in found["versions"]


@pytest.mark.parametrize("command", [bench.main, latency.main, block_efficiency.main])
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_no_cuda_is_one_clear_line(command: Any, tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["--device", "cuda", "--out", str(tmp_path / "x.csv")])
    assert done.exit_code == 2 and "no CUDA device" in done.output and "Traceback" not in done.output
