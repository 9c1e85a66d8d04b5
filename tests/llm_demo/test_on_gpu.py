"""The script for a GPU, on the CPU and tiny: every part runs and writes what it should."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import ot_draft as otd  # noqa: E402
from llm_demo.gpu import checks as gpu_checks  # noqa: E402
from llm_demo.gpu import command as on_gpu  # noqa: E402
from llm_demo.gpu import large as gpu_large  # noqa: E402
from llm_demo.gpu import roofline as gpu_roofline  # noqa: E402
from llm_demo.rows import read  # noqa: E402
from ot_draft.decoding import DecodeOptions, Drafting, Pair, decode  # noqa: E402

CPU = torch.device("cpu")


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.slow
def test_a_dry_run_goes_through_every_part(tmp_path: Path) -> None:
    done = CliRunner().invoke(on_gpu.main, ["--dry-run", "--out", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    checks, times, bench = (rows(tmp_path / f"{name}.csv") for name in ("check", "roofline", "bench"))
    assert {row["passed"] for row in checks} == {"True"}
    assert {row["of"] for row in checks} >= {"KSeq", "Optimal", "Joint", "autoregressive"}
    assert {(row["rule"], row["way"]) for row in times} >= {("KSeq", "torch"), ("Optimal", "triton")}
    assert all(float(row["us"]) > 0 and float(row["softmaxes"]) > 0 and row["error"] == "" for row in times)
    assert {row["rule"] for row in bench} >= {"autoregressive", "joint", "kseq"}
    assert all(row["date"] and row["machine"] and "torch" in row["versions"] for row in checks + times + bench)
    assert (tmp_path / "draft-dry-run.safetensors").exists()
    trees = rows(tmp_path / "trees.csv")
    assert {(row["temperature"], row["draft"]) for row in trees} >= {("1.0", "1 layer fewer"), ("0.0", "lookup")}
    large = rows(tmp_path / "large.csv")
    assert {(row["way"], row["nodes"]) for row in large} >= {("autoregressive", "0"), ("one path, block", "1")}
    for row in large:
        plain = next(each for each in large if each["draft"] == row["draft"] and each["way"] == "autoregressive")
        gain = float(row["tokens_a_call"]) * float(plain["step_ms"]) / float(row["step_ms"])
        assert float(row["speed_up"]) == pytest.approx(gain, rel=2e-3)
    assert {row["acceptance_of"] for row in large} == {"", "embedded states", "8 layers fewer", "4 layers fewer"}
    assert f"checks: {len(checks)} of {len(checks)} passed" in done.output


def test_without_a_gpu_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = CliRunner().invoke(on_gpu.main, ["--out", str(tmp_path)])
    assert done.exit_code == 2 and "--dry-run" in done.output
    done = CliRunner().invoke(on_gpu.main, ["--dry-run", "--out", str(tmp_path), "--parts", "check,all"])
    assert done.exit_code == 2 and "'all' is no part" in done.output


class Swapped(otd.SelectionRule):
    """Not valid: p and q change places."""

    law = otd.IID()

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        return otd.rules.KSeq()(q, p, drafts)


def test_a_wrong_rule_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otd.rules, "ALL", (Swapped(),))
    found = list(gpu_checks.rule_checks(CPU, sizes=(), rows=2))
    assert found and not any(row["passed"] for row in found)


def test_a_part_that_hangs_costs_its_own_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(command: list[str], timeout: float, check: bool) -> Any:
        asked.append((command[command.index("--parts") + 1], timeout))
        if asked[-1][0] == "check":
            raise on_gpu.subprocess.TimeoutExpired(command, timeout)
        return on_gpu.subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(on_gpu.subprocess, "run", run)
    assert on_gpu._in_turn(tmp_path, ["check", "roofline"], 100) == ["check"]
    assert [name for name, _ in asked] == ["check", "roofline"] and asked[0][1] < 100


def test_layers_that_share_weights_are_layers() -> None:
    """Three layers from the weights of two: as three that hold them, through the cache too."""
    shape = gpu_large.DRY[0][0]
    torch.manual_seed(0)
    model = gpu_large.random_model(shape, CPU, torch.float64)
    whole = gpu_large.random_model(replace(shape, held=3), CPU, torch.float64)
    whole.load_state_dict(model.state_dict())
    assert len(model.model.layers) == 3 and [layer.self_attn.layer_idx for layer in model.model.layers] == [0, 1, 2]
    assert sum(weight.numel() for weight in model.parameters()) < sum(weight.numel() for weight in whole.parameters())
    drafting = Drafting.chains(2, 2, otd.trees.Joint())
    texts = [
        decode(Pair(each, each), [[1, 2, 3]], drafting, DecodeOptions(max_tokens=12)).tokens for each in (model, whole)
    ]
    assert texts[0] == texts[1]


def test_no_shape_is_begun_out_of_time() -> None:
    assert list(gpu_large.large_rows(CPU, -1.0, True)) == []


def test_tokens_a_call_are_those_of_the_tables() -> None:
    row = {"draft": "embedded", "temperature": "1.0", "nodes": "4"}
    given = [row | {"one path, block": length, "k-ary": ""} for length in ("1.5", "0.5")]
    assert gpu_large.tokens_a_call(given) == {("embedded", 1.0, "one path, block", 4): 2.0}


@pytest.mark.parametrize("draft", ["8 layers fewer", "4 layers fewer"])
@pytest.mark.parametrize("temperature", ["0.6", "1.0"])
def test_both_tables_are_of_the_same_places_and_draws(draft: str, temperature: str) -> None:
    """But for few, in which a draw turned at the last digit of a law."""
    cell = draft, temperature, "8"
    lengths = [
        {
            row["text"]: float(row[gpu_large.ONE_PATH])
            for row in read(file)
            if (row["draft"], row["temperature"], row["nodes"]) == cell
        }
        for file in gpu_large.TABLES[:2]
    ]
    assert len(lengths[0]) == 60 and lengths[0].keys() == lengths[1].keys()
    assert sum(abs(lengths[0][text] - lengths[1][text]) < 2e-3 for text in lengths[0]) >= 50


def test_a_shape_costs_what_it_costs_itself() -> None:
    """Paths are of other shapes for another acceptance: 4 x 8 where 8 x 4 is not best."""
    known = gpu_large.Acceptance.read()
    shapes = {known.drafting(draft, 1.0, "chains, Joint", 32).tree for draft in ("8 layers fewer", "4 layers fewer")}
    assert len(shapes) == 2


def test_ratios() -> None:
    row = {"rule": "KSeq", "rows": 64, "tokens": 151_936, "bytes": 1000, "us": "2", "softmax_us": "4", "copy_gb_s": "1"}
    done = gpu_roofline.with_ratios(row)
    assert (done["copy_share"], done["softmaxes"], done["target"]) == ("0.500", "0.5", 3)
