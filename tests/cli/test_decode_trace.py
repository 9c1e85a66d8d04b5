"""Traces: steps and laws as recorded, read by compare and sweep, and replayed to the block efficiency that was measured."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tiny_models import tiny_pair

import ot_draft as ot

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.cli.decode.trace import TAIL_CLASSES, Trace, node_laws  # noqa: E402
from ot_draft.cli.replay import replay as main  # noqa: E402
from ot_draft.cli.replay_trace import recorded, recorded_trees, replay  # noqa: E402
from ot_draft.decoding import CannotDecode, DecodeOptions, decode_steps  # noqa: E402
from ot_draft.decoding.benchmark.methods import method_called, shape_of  # noqa: E402
from ot_draft.pairs import open_shards, read_pairs  # noqa: E402
from ot_draft.pairs.study import choose_rules  # noqa: E402

ROWS, TOKENS, ALL = 64, 32, 1_000_000
MULTI_PATH = ("recursiverejection", "kseq", "optimal", "joint", "traversal")


def record(
    folder: Path,
    rule: str,
    law: str | None = None,
    size: Any = (3, 3, None),
    n: int = 12,
    rows: int = ROWS,
    **more: Any,
) -> Path:
    """Decode a batch with a tiny pair and trace every text."""
    method, options = method_called(rule, law, shape_of(*size)), DecodeOptions(max_tokens=TOKENS, laws=True)
    trace = Trace(folder, method, options, **more)
    generator = np.random.default_rng(5)
    prompts = generator.integers(n, size=(rows, 3)).tolist()
    positions = [3] * rows
    for step in decode_steps(tiny_pair(6, n), prompts, method.drafting, options):
        for row in range(rows):
            if step.active[row]:
                trace.add(row, positions[row], step, row)
                positions[row] += int(step.length[row]) + 1
    trace.close()
    return folder


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The trace of a way to decode, recorded when it is first asked for."""
    base = tmp_path_factory.mktemp("traces")

    @cache
    def recorded_by(name: str) -> Path:
        whole: dict[str, Any] = {"kept": 0, "rows_stored": ALL}
        if name == "without":
            rule, tree = "recursiverejectionwithoutreplacement", (1, 1, (3, 2, 1))
            return record(base / name, rule, size=tree, **whole)
        if name == "auto":
            return record(base / name, "optimal", "hybrid:auto", **whole)
        return record(base / name, name, **whole)

    return recorded_by


@pytest.mark.few(1)
@pytest.mark.parametrize("name", [*MULTI_PATH, "without", "auto"])
def test_measured_block_efficiency_is_what_replay_predicts(traced: Callable[[str], Path], name: str) -> None:
    method, measured = recorded(traced(name))
    assert method.drafting.rule is not None
    again = replay(traced(name), method.drafting.rule, repeats=2)
    assert measured.steps == again.steps > 900
    assert abs(measured.block_efficiency / again.block_efficiency - 1) < 0.05
    assert abs(measured.block_efficiency - again.block_efficiency) < 5 * measured.error


@pytest.mark.parametrize("name", ["recursiverejection", "joint", "traversal"])
def test_trees_of_one_rule_predict_the_others(traced: Callable[[str], Path], name: str) -> None:
    method, measured = recorded(traced(name))
    assert method.drafting.rule is not None
    again = replay(traced("kseq"), method.drafting.rule, repeats=2)
    assert abs(measured.block_efficiency / again.block_efficiency - 1) < 0.05


def test_the_rules_are_told_apart(traced: Callable[[str], Path]) -> None:
    rules = [method_called(name, None, shape_of(3, 3, None)).drafting.rule for name in ("recursiverejection", "joint")]
    found = [replay(traced("kseq"), rule, repeats=2) for rule in rules if rule is not None]
    assert found[1].block_efficiency / found[0].block_efficiency > 1.05  # else five per cent would say nothing


def test_a_rule_that_does_not_fit_the_draws_is_refused(traced: Callable[[str], Path]) -> None:
    with pytest.raises(ot.InvalidDrafts, match="WithoutReplacement"):
        replay(traced("without"), ot.paths.TokenWise(ot.rules.KSeq()))


def test_steps_tell_the_texts(traced: Callable[[str], Path]) -> None:
    lines = [json.loads(line) for line in (traced("joint") / "steps.jsonl").read_text().splitlines()]
    for prompt in range(ROWS):
        steps = [line for line in lines if line["prompt"] == prompt]
        assert sum(len(step["emitted"]) for step in steps) == TOKENS and steps[-1]["finished"]
        for step, following in pairwise(steps):
            assert following["position"] == step["position"] + step["accepted"] + 1
            assert following["root"] == step["next"]
            assert [step["drafted"][node - 1] for node in step["nodes"]] + [step["next"]] == step["emitted"]
            assert set(step["seconds"]) == {"draft", "verify", "select", "cache"}


def test_pairs_are_the_laws_where_texts_stood(traced: Callable[[str], Path]) -> None:
    pairs = read_pairs(traced("joint") / "pairs-00000.npz")
    lines = [json.loads(line) for line in (traced("joint") / "steps.jsonl").read_text().splitlines()]
    shards = open_shards([traced("joint")])
    inner = sum(min(line["accepted"] + 1, 3) for line in lines)  # the last node of a whole path drafted nothing
    assert sum(shard.rows for shard in shards) == inner
    assert np.load(traced("joint") / "pairs-00000.npz")["p"].dtype == np.float32
    assert pairs.p.dtype == np.float64 and 1024 <= len(pairs) < 1027 and pairs.p.shape[1] == 12
    assert len(set(pairs.text)) > 10
    pair = tiny_pair(6, 12)
    prompt = np.random.default_rng(5).integers(12, size=(ROWS, 3)).tolist()[0]
    with torch.inference_mode():
        p = pair.target(torch.tensor([prompt])).logits[0, -1].softmax(-1)
    assert np.allclose(pairs.p[pairs.text.index(0)], p, atol=1e-6)


def test_compare_reads_a_trace(traced: Callable[[str], Path]) -> None:
    from ot_draft.cli import main as ot_draft

    words = ["compare", str(traced("kseq") / "pairs-00000.npz"), "--k", "2", "--rules", "KSeq", "--jobs", "1"]
    result = CliRunner().invoke(ot_draft, [*words, "--limit", "20"])
    assert result.exit_code == 0, result.output
    assert [rule.name for rule in choose_rules(["KSeq"])] == ["KSeq"] and "20 pairs, n = 12" in result.output


def test_merged_laws_keep_drafted_tokens_and_the_result(tmp_path: Path) -> None:
    small = record(tmp_path / "small", "kseq", n=400, rows=8, kept=40)
    whole = record(tmp_path / "whole", "kseq", n=400, rows=8, kept=0)
    for (tree, _), (full, _) in zip(recorded_trees(small), recorded_trees(whole), strict=True):
        assert tree.p.shape[-1] == 40 + TAIL_CLASSES and full.p.shape[-1] == 400
        for node, parent in enumerate(tree.shape(0).parents, 1):
            rows = np.arange(len(tree.tokens))
            for name in ("p", "q"):
                merged, laws = getattr(tree, name), getattr(full, name)
                mine, theirs = tree.tokens[:, node - 1], full.tokens[:, node - 1]
                assert np.allclose(merged[rows, parent, mine], laws[rows, parent, theirs], atol=1e-6)
    for rule in (ot.paths.TokenWise(ot.rules.KSeq()), ot.paths.Joint()):
        kept, all_tokens = (replay(folder, rule, repeats=2).block_efficiency for folder in (small, whole))
        assert kept == pytest.approx(all_tokens, rel=0.02)


def test_equal_contexts_have_equal_laws() -> None:
    """Also where rounding made the target's rows differ."""
    generator = np.random.default_rng(0)
    p, q = generator.dirichlet(np.ones(50), size=(2, 7))
    p[2], q[2] = p[1] * (1 + 1e-4 * generator.random(50)), q[1]
    stored = node_laws((0, 0, 0, 1, 2, 3), (0, 1, 2, 3), p, q, [4, 4, 5, 6, 7, 8], 10)
    for name in ("p", "q", "tokens"):
        assert (stored[name][1] == stored[name][2]).all() and not (stored[name][1] == stored[name][3]).all()
    assert all(token in stored["tokens"][node] for token in (4, 5, 6, 7, 8) for node in range(4))
    assert np.allclose(stored["p"].sum(-1), 1, atol=1e-6)


def test_laws_that_were_truncated_have_nothing_to_merge() -> None:
    p = np.zeros((1, 400))
    p[0, :5] = 0.2
    stored = node_laws((0,), (0,), p, p[:, ::-1].copy(), [399], 20)
    assert stored["p"].shape == (1, 20 + TAIL_CLASSES) and (stored["p"][0, 20:] == 0).all()
    assert np.allclose(stored["q"].sum(-1), 1)


def test_the_limit_of_rows(tmp_path: Path) -> None:
    folder = record(tmp_path / "few", "joint", rows=2, kept=0, rows_stored=30)
    assert sum(len(prompt) for _, prompt in recorded_trees(folder)) == 30 // 7
    assert len((folder / "steps.jsonl").read_text().splitlines()) > 10


def test_what_is_no_trace_is_told(tmp_path: Path, traced: Callable[[str], Path]) -> None:
    with pytest.raises(CannotDecode, match="is no trace"):
        recorded(tmp_path)
    none = record(tmp_path / "none", "joint", rows=1, rows_stored=0)
    with pytest.raises(CannotDecode, match="holds no tree"):
        replay(none, ot.paths.Joint())
    merged = record(tmp_path / "auto", "optimal", "hybrid:auto", n=400, rows=1, kept=40)
    with pytest.raises(CannotDecode, match="--trace-keep 0"):
        replay(merged, ot.paths.Joint())
    with pytest.raises(FileExistsError):
        record(traced("joint"), "joint", rows=1)


def test_the_table_of_replays(traced: Callable[[str], Path]) -> None:
    result = CliRunner().invoke(main, [str(traced("joint")), str(traced("kseq")), "--repeats", "1"])
    assert result.exit_code == 0, result.output
    assert "Joint" in result.output and "K-SEQ" in result.output and "replayed" in result.output


def test_replays_as_csv_and_json_say_the_same(traced: Callable[[str], Path]) -> None:
    printed = CliRunner().invoke(main, [str(traced("joint")), "--repeats", "1", "--json"])
    (row,) = json.loads(printed.stdout)
    method, measured = recorded(traced("joint"))
    assert (row["method"], row["steps"], row["measured"]) == (method.label, measured.steps, measured.block_efficiency)
    lines = CliRunner().invoke(main, [str(traced("joint")), "--repeats", "1", "--csv"]).stdout.splitlines()
    assert lines[0].split(",") == list(row) and float(lines[1].split(",")[-1]) == row["ratio"]


def damaged(folder: Path, name: str) -> str:
    """A trace with one thing wrong in it; what is told of it."""
    steps, about, trees = folder / "steps.jsonl", folder / "trace.json", folder / "trees" / "trees-00000.npz"
    if name == "a line that was cut short":
        steps.write_text(steps.read_text()[:-30])
        return r"steps.jsonl, line \d+ is no step"
    if name == "a line of another kind":
        steps.write_text('{"accepted": null, "prompt": 0}\n')
        return "steps.jsonl, line 1 is no step"
    if name == "a manifest without parents":
        about.write_text(
            json.dumps({key: value for key, value in json.loads(about.read_text()).items() if key != "parents"})
        )
        return "is no trace"
    arrays = dict(np.load(trees))
    if name == "NaN":
        arrays["p"][0, 0, 0] = np.nan
    if name == "masses that are no law":
        arrays["q"] = arrays["q"] * 0.9
    if name == "tokens that were not drafted":
        arrays["tokens"] = np.where(arrays["tokens"] == arrays["drafted"][0, 0], -5, arrays["tokens"])
        np.savez(trees, **arrays)
        return "a drafted token has no slot"
    np.savez(trees, **arrays)
    return "holds rows that are no laws"


@pytest.mark.parametrize(
    "name",
    [
        "a line that was cut short",
        "a line of another kind",
        "a manifest without parents",
        "NaN",
        "masses that are no law",
        "tokens that were not drafted",
    ],
)
def test_a_damaged_trace_is_told(name: str, traced: Callable[[str], Path], tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    shutil.copytree(traced("joint"), folder)
    told = damaged(folder, name)
    read = (
        recorded if told.startswith("steps") or "trace" in told else lambda folder: replay(folder, ot.paths.Joint(), 1)
    )
    with pytest.raises(CannotDecode, match=told):
        read(folder)
    result = CliRunner().invoke(main, [str(folder), "--repeats", "1"])
    assert result.exit_code == 2 and result.stderr.count("\n") == 1


def test_options_of_the_other_kind_are_refused(traced: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "capture.json").write_text("{}")
    for words, told in (
        ([traced("joint"), "--paths", "2"], "--paths is for captures"),
        ([tmp_path, "--repeats", "2"], "--repeats is for traces"),
        ([tmp_path, traced("joint")], "one after the other"),
        ([traced("joint"), "--csv", "--json"], "give one of them"),
    ):
        result = CliRunner().invoke(main, [str(word) for word in words])
        assert result.exit_code == 2 and told in result.stderr
