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
from slow import slow
from tiny_models import tiny_llama, tiny_pair

import ot_draft as otd
from figures.trees.spectr_real import controlled_mean

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from llm_demo import machine  # noqa: E402
from llm_demo.bench import auto, block_efficiency, latency  # noqa: E402
from llm_demo.bench.contenders import bench, own_methods, peers  # noqa: E402
from llm_demo.data.continue_prompts import read_entries  # noqa: E402
from llm_demo.prompts import FILE, Prompt, read_prompts  # noqa: E402
from llm_demo.rows import read  # noqa: E402
from ot_draft.decoding import CannotDecode, DecodeOptions, Pair, SamplingParams  # noqa: E402
from ot_draft.decoding.benchmark import peers as bench_peers  # noqa: E402
from ot_draft.decoding.draft_models import SubsetDraft  # noqa: E402

paths, rules = otd.trees, otd.rules
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
        def __call__(self, text: str, add_special_tokens: bool = True) -> Any:
            return SimpleNamespace(input_ids=list(text.encode()))

        def apply_chat_template(self, messages: Any, tokenize: bool, add_generation_prompt: bool) -> str:
            return f"<{messages[-1]['content']}>"

    first, *_, last = read_prompts(Tokenizer(), 5)
    assert bytes(first.tokens).startswith(b"<") and bytes(first.tokens).endswith(b">")
    assert last.kind == "continuation" and bytes(last.tokens).decode() == read_entries(FILE)[4]["text"]
    with pytest.raises(CannotDecode, match=r"at most 200 with prompts\.jsonl, got 201"):
        read_prompts(Tokenizer(), 201)


def subset_draft(target: Any, subset: Sequence[int]) -> SubsetDraft:
    """The target itself as a draft that scores a subset only."""
    return SubsetDraft(target.model, target.get_input_embeddings(), torch.tensor(list(subset)))


def test_the_assistant_is_the_draft_on_the_whole_vocabulary() -> None:
    draft = subset_draft(tiny_llama(3, tie_word_embeddings=True), [1, 2, 5])
    tokens = torch.tensor([[1, 4, 2]])
    scored = bench_peers.assistant(draft)(tokens).logits.softmax(-1)
    assert torch.allclose(scored[..., [1, 2, 5]], draft(tokens).softmax(-1), rtol=1e-12)
    assert (scored[..., [0, 3, 4, 6, 7]] == 0).all()


def test_assisted_generation_accepts_all_of_a_draft_that_is_the_target() -> None:
    target = tiny_llama(3, tie_word_embeddings=True)
    pair = Pair(target, subset_draft(target, range(8)))
    options = DecodeOptions(max_tokens=13)
    assisted = bench_peers.generate(pair, bench_peers.assistant(pair.draft), [1, 2], 3, options, seed=0)
    assert len(assisted.tokens) == 13 and assisted.calls in (4, 5)  # 4 tokens a call: the last call may be a short one
    plain = bench_peers.generate(pair, None, [1, 2], 0, options, seed=0)
    assert (len(plain.tokens), plain.calls) == (13, 13) and plain.seconds > 0


def trees() -> list[otd.trees.DraftTree]:
    options = DecodeOptions(
        SamplingParams(0.5), max_tokens=8, laws=True, seed=1
    )  # sharp laws: siblings are often equal
    return list(block_efficiency.trees(tiny_pair(), [1, 2, 3], paths.Joint(), options, (4, 3)))


def exact_length(rule: otd.trees.PathRule, tree: otd.trees.DraftTree) -> float:
    """Expected accepted length given the tree, from the plain form of the rule."""
    tokens, shape = tree.tokens[0].tolist(), tree.shape(0)
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
def test_expected_length_of_token_wise_rules_is_exact(rule: otd.SelectionRule) -> None:
    for tree in trees():
        lives = block_efficiency.survival(paths.TokenWise(rule), tree)
        assert sum(lives) == pytest.approx(exact_length(paths.TokenWise(rule), tree), abs=1e-9)
        assert (np.diff(lives) <= 1e-12).all()


@pytest.mark.parametrize("draws", [150, slow(300), slow(2000)])
def test_expected_length_of_other_rules_is_a_mean_of_draws(draws: int) -> None:
    generator = torch.Generator().manual_seed(3)
    for tree in trees():
        found = block_efficiency.mean_length(paths.Joint(), tree, draws, generator)
        assert found == pytest.approx(exact_length(paths.Joint(), tree), abs=5 * 1.5 / draws**0.5)


@pytest.mark.parametrize("draws", [100, slow(300)])
def test_control_variates_have_mean_zero_over_the_drafts(draws: int) -> None:
    generator = torch.Generator().manual_seed(5)
    shape = paths.TreeShape.chains(8, 1)
    p, q = torch.rand(2, 6, generator=generator, dtype=torch.float64).softmax(-1)
    q[4], q = 0, q / q.sum()
    q = q / q.sum()
    found: dict[str, list[float]] = {}
    for _ in range(draws):
        tokens = torch.multinomial(q, 8, replacement=True, generator=generator)[None]
        tree = shape.tree(tokens, p.expand(1, 9, 6), q.expand(1, 9, 6))
        for name, value in block_efficiency.controls_on(tree).items():
            found.setdefault(name, []).append(value)
    assert len(found) == 4
    for values in found.values():
        assert abs(np.mean(values)) < 5 * np.std(values) / len(values) ** 0.5 + 1e-12
    assert np.std(found["control SpeculativeSampling"]) > 0.01


def test_lengths_of_all_sizes_and_a_file_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_efficiency, "CLASSES", None)
    pair, out = tiny_pair(), tmp_path / "lengths.csv"
    decoding = DecodeOptions(max_tokens=3, laws=True, seed=4)
    whole = {"every": 1, "draws": 2}
    block_efficiency.write_texts(pair, PROMPTS[:2], out, 0, 1e9, decoding, **whole)
    block_efficiency.write_texts(pair, PROMPTS[:3], out, 2, 1e9, decoding, **whole)
    rows = read(out)
    assert [row["text"] for row in rows] == ["0", "1", "2"]
    assert rows[0]["Joint 8x8"] and not rows[1]["Joint 8x8"] and rows[1]["Joint 8x4"]
    for name, value in rows[0].items():
        if name.endswith(("x4", "x8")):
            assert 0 <= float(value) <= int(name[-1])


def test_a_control_variate_takes_noise_out_and_nothing_else() -> None:
    generator = np.random.default_rng(1)
    luck, weights = generator.normal(size=(200, 1)), generator.integers(1, 5, 200).astype(float)
    values = 2 + 3 * luck[:, 0] + 0.1 * generator.normal(size=200)
    plain, noise = controlled_mean(values, weights, np.empty((200, 0)))
    mean, error = controlled_mean(values, weights, luck)
    assert plain == pytest.approx(np.average(values, weights=weights)) and noise > 0.15
    assert error < 0.02 and abs(mean - 2) < 4 * error
    assert controlled_mean(values[:9], weights[:9], luck[:9])[0] == pytest.approx(
        np.average(values[:9], weights=weights[:9])
    )


def test_all_contenders_run_and_the_baseline_is_the_measure() -> None:
    pair, grid = tiny_pair(), ((1, 2), (3, 2))
    rows = bench(pair, PROMPTS[:2], 1, DecodeOptions(max_tokens=6, stop=()), grid)
    assert len(rows) == len(own_methods(grid)) + len(peers(pair, grid)) and len({tuple(row) for row in rows}) == 1
    plain = rows[0]
    assert (plain["rule"], float(plain["speed_up"]), float(plain["block_efficiency"])) == ("autoregressive", 1, 1)
    for row in rows:
        most, own = int(row["L"]) + 1 if row["K"] else 1, not row["rule"].startswith("transformers, ")
        assert 1 <= float(row["block_efficiency"]) <= most and row["step"] > 0
        assert bool(row["predicted"]) == bool(row["verify"]) == own
    assert {row["rule"] for row in rows} >= {
        "transformers, plain",
        "transformers, assisted",
        "joint",
        "kseq",
        "optimal",
    }


def test_a_batch_has_no_peers() -> None:
    rows = bench(tiny_pair(), PROMPTS, 2, DecodeOptions(max_tokens=3, stop=()), ((3, 2),))
    assert [row["rule"] for row in rows] == [method.rule for method in own_methods(((3, 2),))]
    assert rows[0]["steps"] == 12 and rows[0]["texts"] == 4


def test_latency_along_both_axes() -> None:
    rows = latency.latency(tiny_pair(), (1, 4), (1, 2), context=5, visits=1)
    assert [(row["axis"], row["positions"], row["rows"]) for row in rows] == [
        ("positions", 1, 1),
        ("positions", 4, 1),
        ("rows", 1, 1),
        ("rows", 1, 2),
        ("draft", 1, 1),
        ("draft", 4, 1),
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


@pytest.mark.parametrize("command", [auto.main, latency.main, block_efficiency.main])
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_no_cuda_is_one_clear_line(command: Any, tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["--device", "cuda", "--out", str(tmp_path / "x.csv")])
    assert done.exit_code == 2 and "requires CUDA" in done.output and "Traceback" not in done.output
