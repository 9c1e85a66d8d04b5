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
from llm_demo.gpu import file_parts, training  # noqa: E402
from llm_demo.gpu import large as gpu_large  # noqa: E402
from llm_demo.gpu import roofline as gpu_roofline  # noqa: E402
from llm_demo.gpu.runs import RUNS, TOTAL, Abort, Phase, in_turn  # noqa: E402
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
    assert done.exit_code == 2 and "got 'all'" in done.output


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


def test_phases_that_abort_or_hang(tmp_path: Path) -> None:
    """Time that is left goes to later phases, whose own time is kept; a required phase that fails ends the run; why is in phases.csv."""
    clock, limits = [0.0], []
    phases = (Phase("a", 10), Phase("b", 20), Phase("c", 30, required=True), Phase("d", 40))

    def launch(part: str, seconds: float) -> tuple[str, str]:
        limits.append(seconds)
        clock[0] += {"a": 4, "b": seconds, "c": 1}[part]
        return {"a": ("done", ""), "b": ("out of time", ""), "c": ("aborted", "a reason")}[part]

    assert in_turn(phases, 100, tmp_path, launch, lambda: clock[0]) == ["b", "c", "d"]
    assert limits == [10, 26, 30]
    found = [(row["phase"], row["ended"], row["why"]) for row in rows(tmp_path / "phases.csv")]
    assert found[1:] == [
        ("b", "out of time", ""),
        ("c", "aborted", "a reason"),
        ("d", "not started", "a phase before it failed"),
    ]
    assert all(sum(phase.seconds for phase in RUNS[run]) <= TOTAL[run] for run in RUNS)


def test_the_second_run(tmp_path: Path) -> None:
    """Dry: parts of a file are joined, a draft is trained, saved and measured, and decoding is timed with it."""
    arguments = ["--dry-run", "--run", "2", "--out", str(tmp_path)]
    done = CliRunner().invoke(on_gpu.main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert [(row["phase"], row["ended"]) for row in rows(tmp_path / "phases.csv")] == [
        ("model", "done"),
        ("train", "done"),
        ("bench", "done"),
    ]
    trained = rows(tmp_path / "train.csv")
    assert {row["phase"] for row in trained} == {"write", "states", "train", "evaluate"}
    manifest = tmp_path / "parts" / f"{training.NAME}.safetensors.parts.json"
    joined = file_parts.join(manifest, tmp_path / "again")
    assert joined.read_bytes() == (tmp_path / f"{training.NAME}.safetensors").read_bytes()


def test_training_that_is_not_worth_its_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A self-check that finds another acceptance than on the CPU, and a held-out overlap that falls."""
    monkeypatch.setattr(training, "self_check", lambda pair: 0.3)
    found = training.train(gpu_checks.tiny_pair(), [], 1.0, tmp_path, training.Plan(expected=0.4))
    assert next(found)["value"] == "0.3"
    with pytest.raises(Abort, match=r"0\.3000, and 0\.4 on the CPU"):
        next(found)

    class Falling:
        steps = seen = 0
        draft = None

        def check(self, temperature: int) -> list[float]:
            return [0.5 - 0.02 * self.steps]

        def step(self, progress: float) -> None:
            self.steps += 1

    monkeypatch.setattr(training, "write_draft", lambda draft, file: file)
    plan = training.Plan(every=0.0)
    steps = training._steps(Falling(), training.time.monotonic(), 100.0, tmp_path, plan, lambda *row: row)  # type: ignore[arg-type]
    assert [next(steps)[2], next(steps)[2]] == [0.5, 0.48]
    with pytest.raises(StopIteration, match=r"fell from 0\.5000 to 0\.4800"):
        next(steps)


def test_wrong_parts_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(bytes(range(256)) * 10)
    manifest = file_parts.split(file, tmp_path / "parts", 1000)
    assert file_parts.join(manifest, tmp_path / "joined").read_bytes() == file.read_bytes()
    part = tmp_path / "parts" / "model.gguf.part01"
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(ValueError, match="Copy it again"):
        file_parts.join(manifest, tmp_path / "wrong")
    assert not (tmp_path / "wrong" / "model.gguf").exists()


def test_too_many_failed_comparisons_abort_a_part() -> None:
    failed = {"check": "c", "of": "o", "way": "w", "passed": False}
    found = on_gpu._until_wrong([failed | {"passed": True}, failed, failed], 2)
    assert [next(found)["passed"] for _ in range(3)] == [True, False, False]
    with pytest.raises(Abort, match="2 comparisons failed, the last: c, o, w"):
        next(found)


def test_kernels_are_compared_and_timed() -> None:
    found = list(gpu_checks.kernel_checks(CPU, n=20, trees=2, timed=20))
    found += gpu_checks.draft_checks(CPU, n=20)
    assert all(row["passed"] for row in found)
    assert len(found) == 2 * len(gpu_checks.TREE_RULES) + 2 * len(gpu_checks.DRAFT_LAWS)


def test_bytes_of_weights_that_a_step_reads() -> None:
    """Shared layers are read as often as they stand there; the embedding is not read whole."""
    model = gpu_large.random_model(gpu_large.DRY[0][0], CPU, torch.float32)
    weights = {name: weight.numel() for name, weight in model.named_parameters(remove_duplicate=False)}
    assert gpu_large.bytes_read(model) == 4 * (sum(weights.values()) - weights["model.embed_tokens.weight"])
    row = gpu_large.with_roofline({"step_ms": "9", "roofline_ms": "6"})
    assert row["of_roofline"] == "1.5"


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
