"""Traces: steps and laws as recorded, read by compare and sweep."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tiny_models import tiny_pair

import ot_draft as otd

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.cli.decode.trace import TAIL_CLASSES, Trace, stored_laws  # noqa: E402
from ot_draft.cli.replay import replay as main  # noqa: E402
from ot_draft.data import open_shards, read_pairs  # noqa: E402
from ot_draft.data.study import choose_rules  # noqa: E402
from ot_draft.decoding import DecodeOptions, decode_steps  # noqa: E402
from ot_draft.decoding.methods import method_called, shape_of  # noqa: E402

ROWS, TOKENS, ALL = 64, 32, 1_000_000


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
        return record(base / name, name, kept=0, rows_stored=ALL)

    return recorded_by


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


def test_merged_laws_keep_the_heaviest_tokens_and_the_optimum(tmp_path: Path) -> None:
    small, whole = (
        read_pairs(record(tmp_path / f"{kept}", "kseq", n=400, rows=8, kept=kept) / "pairs-00000.npz")
        for kept in (40, 0)
    )
    tokens = np.load(tmp_path / "40" / "pairs-00000.npz")["tokens"]
    assert small.p.shape == (len(whole), 40 + TAIL_CLASSES) and (tokens[:, 40:] == -1).all()
    for name in ("p", "q"):
        laws = np.take_along_axis(getattr(whole, name), tokens[:, :40], -1)
        assert np.allclose(getattr(small, name)[:, :40], laws, atol=1e-6)
    for k in (1, 3):
        more = otd.optimal_acceptance(small.p, small.q, k) - otd.optimal_acceptance(whole.p, whole.q, k)
        assert (more > -1e-6).all() and more.mean() < 2e-3


def test_laws_that_were_truncated_have_nothing_to_merge() -> None:
    p = np.zeros(400)
    p[:5] = 0.2
    stored = stored_laws(p, p[::-1].copy(), 20)
    assert stored["p"].shape == (20 + TAIL_CLASSES,) and (stored["p"][20:] == 0).all()
    assert np.allclose(stored["q"].sum(-1), 1)


def test_the_limit_of_rows(tmp_path: Path) -> None:
    folder = record(tmp_path / "few", "joint", rows=2, kept=0, rows_stored=30)
    stored = sum(shard.rows for shard in open_shards([folder]))
    assert 30 - 3 < stored <= 30  # a step stores at most three
    assert len((folder / "steps.jsonl").read_text().splitlines()) > 10


def test_a_trace_is_written_once_and_no_capture(tmp_path: Path) -> None:
    folder = record(tmp_path / "trace", "joint", rows=1)
    with pytest.raises(FileExistsError):
        record(folder, "joint", rows=1)
    result = CliRunner().invoke(main, [str(folder)])
    assert result.exit_code == 2 and "must hold consecutive contexts of one text" in result.stderr
    result = CliRunner().invoke(main, [str(folder), "--csv", "--json"])
    assert result.exit_code == 2 and "Use one of them" in result.stderr
