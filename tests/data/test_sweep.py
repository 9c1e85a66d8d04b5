"""Sweeps: the same files on every engine, after every kill, and the numbers that the rules have one pair at a time."""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from joblib import parallel_config
from slow import slow

import ot_draft as otd
from ot_draft.cli import main
from ot_draft.data import Study, Sweep, compare_rules, open_shards, read_pairs, run_sweep, summarise, summarise_sweep
from ot_draft.data.estimate import expected_acceptance
from ot_draft.data.study import QUICK_RULES, OptimumRow, prints_on_stderr
from ot_draft.data.sweep import Progress
from ot_draft.lossy.frontier import target_within

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'sweep')")
parquet = pytest.importorskip("pyarrow.parquet")

ROOT = Path(__file__).parents[2]
N, ROWS = 40, 90


def laws(seed: int, rows: int = ROWS, n: int = N) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    p, q = generator.dirichlet(np.full(n, 0.2), size=(2, rows))
    return p, q


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three shards of laws: stored, compressed, and in float32."""
    folder = tmp_path_factory.mktemp("shards")
    for number, (save, dtype) in enumerate(
        ((np.savez, np.float64), (np.savez_compressed, np.float64), (np.savez, np.float32))
    ):
        p, q = laws(number)
        save(folder / f"shard-{number}.npz", p=p.astype(dtype), q=q.astype(dtype))
    return folder


def sweep_of(folder: Path, temperature: float = 1.0, rows: int = 32, **study: Any) -> Sweep:
    return Sweep(tuple(open_shards([folder])), Study(**{"rules": QUICK_RULES, "ks": (2, 3)} | study), temperature, rows)


def files(out: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(out.iterdir())}


@pytest.fixture(scope="module")
def undisturbed(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("undisturbed")
    with parallel_config("sequential"):
        run_sweep(sweep_of(shards), out)
    return files(out)


def test_the_errors_of_a_sweep_are_those_of_the_same_pairs_in_memory(tmp_path: Path) -> None:
    p, q = laws(5, rows=6)
    np.savez(tmp_path / "six.npz", p=p, q=q)
    np.savez(tmp_path / "one.npz", p=p[:1], q=q[:1])
    for name in ("six", "one"):
        study, out = Study(rules=QUICK_RULES, ks=(2,)), tmp_path / name
        with parallel_config("sequential"):
            run_sweep(Sweep(tuple(open_shards([tmp_path / f"{name}.npz"])), study, 1.0, 4), out)
        pairs = read_pairs(tmp_path / f"{name}.npz")
        known = {line.rule: line.error for line in summarise(compare_rules(pairs, study), pairs)}
        for line in summarise_sweep(out):
            assert np.isclose(line.error, known[line.rule], rtol=1e-9, equal_nan=True)
            assert np.isnan(line.error) == (name == "one")


@contextmanager
def cluster(name: str) -> Iterator[None]:
    """What a user of joblib's engines dask and ray starts before; nothing for the others."""
    if name == "dask":
        distributed = pytest.importorskip("distributed", reason="distributed is not installed (extra 'dask')")
        with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=None):
            yield
        return
    if name == "ray":
        ray = pytest.importorskip("ray", reason="ray is not installed (extra 'ray')")
        importlib.import_module("ray.util.joblib").register_ray()
        ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    yield
    if name == "ray":
        ray.shutdown()


@pytest.mark.filterwarnings("ignore")  # dask and ray warn about the machine and about each other
@pytest.mark.parametrize("name", ["loky", "threading", slow("dask"), slow("ray")])
def test_every_engine_writes_the_same_bytes(
    name: str, shards: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    seen: list[Progress] = []
    with cluster(name), parallel_config(name, n_jobs=2):
        assert run_sweep(sweep_of(shards), tmp_path, advance=seen.append) == ()
    assert files(tmp_path) == undisturbed
    assert len(undisturbed) == 1 + 9  # the manifest; 90 rows are parts of 32, 32 and 26
    assert seen[-1].rows == seen[-1].of == 3 * ROWS and seen[-1].parts_left == 0


def test_numbers_are_those_of_one_pair_at_a_time(tmp_path: Path) -> None:
    p, q = laws(7, rows=12)
    np.savez(tmp_path / "shard.npz", p=p, q=q)
    rules = (
        otd.rules.KSeq(),
        otd.rules.NaiveTarget(),
        otd.rules.RecursiveRejectionWithoutReplacement(),
        otd.rules.SpecHub(),
    )
    run_sweep(sweep_of(tmp_path, rules=rules, samples=200, rows=5), tmp_path / "out")
    rows = [
        row for file in sorted((tmp_path / "out").glob("*.parquet")) for row in parquet.read_table(file).to_pylist()
    ]
    assert len(rows) == 12 * (2 * 3 + 1)  # SpecHub has k = 2 only
    assert parquet.read_table(tmp_path / "out").num_rows == len(rows)  # the folder is what readers are given
    noise = []
    for row in rows:
        rule = next(rule for rule in rules if rule.name == row["rule"])
        problem = otd.Problem(p[row["row"]], q[row["row"]], row["k"], rule.law)
        assert row["optimum"] == pytest.approx(
            otd.optimal_acceptance(problem.p, problem.q, row["k"], rule.law), abs=1e-12
        )
        one = expected_acceptance(rule, problem, samples=400)
        if one.exact:
            assert row["acceptance"] == pytest.approx(float(one.value), abs=1e-12) and row["error"] == 0
        else:
            noise.append((row["acceptance"] - float(one.value)) / np.hypot(row["error"], float(one.error)))
    assert len(noise) == 12 and abs(np.mean(noise)) < 6 / np.sqrt(12)  # k = 3 without replacement is estimated


def test_a_budget_puts_its_best_target_in_the_place_of_p(tmp_path: Path) -> None:
    p, q = laws(6, rows=6, n=12)
    np.savez(tmp_path / "shard.npz", p=p, q=q)
    target, rules = target_within("kl=0.05"), (otd.rules.KSeq(), otd.rules.Optimal())
    run_sweep(sweep_of(tmp_path, rules=rules, ks=(2,), target=target), tmp_path / "out")
    toward = tuple(otd.lossy.Toward(target, rule) for rule in rules)
    run_sweep(sweep_of(tmp_path, rules=toward, ks=(2,)), tmp_path / "toward")
    replaced, named = (parquet.read_table(tmp_path / folder).to_pylist() for folder in ("out", "toward"))
    r = target(p, q, 2)
    for row, same in zip(replaced, named, strict=True):
        rule, place = next(rule for rule in rules if rule.name == row["rule"]), row["row"]
        problem = otd.Problem(r[place], q[place], 2)
        assert row["target"] == "KL(0.05)" and same["rule"] == f"Toward(KL(0.05), {rule.name})"
        assert row["acceptance"] == pytest.approx(float(expected_acceptance(rule, problem).value), abs=1e-12)
        assert row["optimum"] == pytest.approx(otd.optimal_acceptance(r[place], q[place], 2), abs=1e-12)
        assert same["acceptance"] == pytest.approx(row["acceptance"], abs=1e-12)
        assert same["optimum"] == pytest.approx(otd.optimal_acceptance(p[place], q[place], 2), abs=1e-12)  # p's own

    def call(*options: str) -> Any:
        given = ["sweep", str(tmp_path / "shard.npz"), "--k", "2", "--rules", "KSeq,Optimal", "--rows", "32"]
        return CliRunner().invoke(main, [*given, "--out", str(tmp_path / "out"), "--engine", "threading", *options])

    assert "NOT lossless" in " ".join(call("--budget", "kl=0.05").output.split())
    means = json.loads(call("--budget", "kl=0.05", "--json").stdout)
    assert [mean["target"] for mean in means] == ["KL(0.05)"] * 2
    other = call()
    assert other.exit_code == 2 and "another sweep (target differs)" in other.output
    assert call("--budget", "kl").exit_code == 2


def test_estimates_do_not_depend_on_the_parts(tmp_path: Path) -> None:
    p, q = laws(8, rows=20)
    np.savez(tmp_path / "shard.npz", p=p, q=q)

    def numbers(rows: int) -> list[Any]:
        rules = (otd.rules.RecursiveRejectionWithoutReplacement(),)
        run_sweep(sweep_of(tmp_path, rules=rules, ks=(3,), samples=4, rows=rows), tmp_path / str(rows))
        tables = [parquet.read_table(file) for file in sorted((tmp_path / str(rows)).glob("*.parquet"))]
        found = [row for table in tables for row in table.to_pylist()]
        return sorted((row["row"], row["acceptance"]) for row in found)

    assert numbers(20) == numbers(7)


SCRIPT = """
import sys
from ot_draft.data import Study, Sweep, open_shards, run_sweep
from joblib import parallel_config
from ot_draft.data.study import QUICK_RULES
if __name__ == "__main__":
    with parallel_config("loky", n_jobs=2):
        run_sweep(Sweep(tuple(open_shards([sys.argv[1]])), Study((2, 3), QUICK_RULES), rows=32), sys.argv[2])
"""


@pytest.mark.slow
def test_ten_kills_at_random_moments_lose_nothing(shards: Path, undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    out, script = tmp_path / "out", tmp_path / "script.py"
    script.write_text(SCRIPT)
    generator = np.random.default_rng()
    command = [sys.executable, str(script), str(shards), str(out)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for _ in range(10):
        work = subprocess.Popen(command, start_new_session=True, env=environment, stderr=subprocess.DEVNULL)
        time.sleep(generator.uniform(0.3, 1.8))
        os.killpg(work.pid, signal.SIGKILL)  # with all its workers
        work.wait()
    subprocess.run(command, check=True, env=environment)
    assert files(out) == undisturbed


@dataclass(frozen=True)
class Deadly(otd.rules.KSeq):
    """Kills the process it runs in, until the file is there."""

    flag: str = ""

    def __call__(self, p: Any, q: Any, drafts: Any) -> Any:
        if not Path(self.flag).exists():
            Path(self.flag).write_text("died")
            os._exit(1)
        return super().__call__(p, q, drafts)


def deadly_plan(folder: Path, flag: Path) -> Sweep:
    p, q = laws(9, rows=12, n=5)
    folder.mkdir()
    np.savez(folder / "shard.npz", p=p, q=q)
    return sweep_of(folder, rules=(Deadly(flag=str(flag)),), ks=(2,), rows=3)


def test_a_worker_that_dies_is_replaced_and_reported(tmp_path: Path) -> None:
    plan = deadly_plan(tmp_path / "shards", tmp_path / "flag")
    with parallel_config("loky", n_jobs=2):
        trouble = run_sweep(plan, tmp_path / "out")
    assert len(trouble) == 1 and "Terminated" in trouble[0]
    assert plan.missing(tmp_path / "out") == []


def test_workers_that_keep_dying_end_the_sweep(tmp_path: Path) -> None:
    plan = deadly_plan(tmp_path / "shards", tmp_path / "no" / "such" / "folder")
    with (
        parallel_config("loky", n_jobs=2),
        pytest.raises(otd.DraftSelectionError, match="4 of 4 parts are missing after 2 attempts"),
    ):
        run_sweep(plan, tmp_path / "out", tries=2)


@pytest.fixture
def logits(tmp_path: Path) -> tuple[Path, Any, Any]:
    generator = np.random.default_rng(5)
    target, draft = generator.normal(size=(2, 3, 7, N)).astype(np.float32)
    folder = tmp_path / "logits"
    folder.mkdir()
    np.savez(folder / "a.npz", target_logits=target, draft_logits=draft)
    return folder, target, draft


def test_shards_of_logits_at_a_temperature(logits: tuple[Path, Any, Any]) -> None:
    numpy_file = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed (extra 'sweep')")
    folder, target, draft = logits
    numpy_file.save_file({"target_logits": target, "draft_logits": draft}, folder / "b.safetensors")
    flat = target.reshape(-1, N)
    numpy_file.save_file({"target_logits": flat, "draft_logits": draft.reshape(-1, N)}, folder / "c.safetensors")
    wanted = np.exp(flat.astype(np.float64) / 0.5)
    wanted /= wanted.sum(-1, keepdims=True)
    for shard in open_shards([folder], 0.5):
        assert (shard.rows, shard.n, shard.holds_logits) == (21, N, True)
        p, q = shard.read(4, 9, 0.5)
        np.testing.assert_allclose(p, wanted[4:9], rtol=1e-12)
        assert q.shape == (5, N)


def test_compare_reads_a_shard_of_logits(logits: tuple[Path, Any, Any]) -> None:
    folder, _, _ = logits
    result = CliRunner().invoke(main, ["compare", str(folder / "a.npz"), "--rules", "Optimal", "--k", "3", "--csv"])
    assert result.exit_code == 0, result.output
    p, q = open_shards([folder])[0].read(0, 21)
    assert f"{otd.optimal_acceptance(p, q, 3).mean():.9f}"[:9] in result.output


def test_wrong_input_is_refused_with_its_place(shards: Path, logits: tuple[Path, Any, Any], tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    p, q = laws(0)
    p[70] *= 1.5
    np.savez(bad / "laws.npz", p=p, q=q)
    with pytest.raises(otd.InvalidDistribution, match=r"laws.npz, row 70: p must sum to 1 .*got 1.5"):
        run_sweep(sweep_of(bad), tmp_path / "out")
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 2  # the sound parts
    np.savez(bad / "laws.npz", p=p, q=q[:, :-1])
    with pytest.raises(
        otd.InvalidDistribution, match=r"one number of tokens, got \(90, 40\) and \(90, 39\) of p and q"
    ):
        open_shards([bad])
    np.savez(bad / "laws.npz", p=p)
    with pytest.raises(otd.InvalidDistribution, match=r"must hold p and q.*, got p\. "):
        open_shards([bad])
    with pytest.raises(otd.InvalidDistribution, match=r"temperature must be 1 for probabilities, .* got 0\.7"):
        open_shards([shards], 0.7)
    folder, target, draft = logits
    target[1, 2, 3] = np.nan
    np.savez(folder / "a.npz", target_logits=target, draft_logits=draft)
    with pytest.raises(
        otd.InvalidDistribution, match=r"a.npz, row 9, target_logits must be finite or -inf, .* got token 3: logit nan"
    ):
        run_sweep(sweep_of(folder), tmp_path / "nan")


def test_shards_without_numbers_or_named_twice_are_refused(shards: Path, tmp_path: Path) -> None:
    p, q = laws(0)
    file = tmp_path / "a.npz"
    for arrays, message in (
        ({"p": p[:0], "q": q[:0]}, "must hold at least one pair, got none in .*a.npz"),
        ({"p": p[:, :0], "q": q[:, :0]}, r"must hold arrays of one shape \(..., n\), n >= 1"),
        ({"p": p[0, 0], "q": q[0, 0]}, r"must hold arrays of one shape \(..., n\), n >= 1"),
    ):
        np.savez(file, **arrays)
        with pytest.raises(otd.InvalidDistribution, match=message):
            open_shards([file])
    inside = min(shards.glob("*.npz"))
    with pytest.raises(otd.InvalidDistribution, match=f"distinct files, got .*{inside.name} twice"):
        open_shards([shards, inside])
    with pytest.raises(otd.InvalidArgument, match="temperature must be finite and above 0, got inf"):
        sweep_of(shards, temperature=float("inf"))
    with pytest.raises(otd.InvalidArgument, match="the draft law of SpecHub is defined, got 3, 4"):
        sweep_of(shards, rules=(otd.rules.SpecHub(),), ks=(3, 4))
    np.savez(file, target_logits=np.array([["a", "b"]]), draft_logits=np.array([["a", "b"]]))
    with pytest.raises(otd.InvalidDistribution, match=r"a.npz: target_logits must be floating-point .* got dtype <U1"):
        run_sweep(sweep_of(tmp_path), tmp_path / "out")


def test_rules_in_threads_leave_stdout_alone() -> None:
    """A thread that redirected it could restore that of another thread, and the table would be lost."""
    seen: list[bool] = []

    def run() -> None:
        with prints_on_stderr():
            seen.append(sys.stdout is stdout)

    stdout = sys.stdout
    thread = Thread(target=run)
    thread.start()
    thread.join()
    run()
    assert seen == [True, False] and sys.stdout is stdout


def test_the_command_goes_on_and_refuses_another_sweep(shards: Path, tmp_path: Path) -> None:
    def call(*options: str) -> Any:
        return CliRunner().invoke(
            main, ["sweep", str(shards), "--out", str(tmp_path / "out"), "--engine", "threading", "--json", *options]
        )

    first, second = call("--k", "2"), call("--k", "2")
    assert first.exit_code == second.exit_code == 0
    assert json.loads(first.stdout) == json.loads(second.stdout)
    means = {mean["rule"]: mean for mean in json.loads(first.stdout)}
    assert means["Optimal"]["pairs"] == 3 * ROWS
    assert means["SpeculativeSampling"]["accepted"] < means["KSeq"]["accepted"] < means["Optimal"]["accepted"]
    assert [mean.rule for mean in summarise_sweep(tmp_path / "out")] == list(means)
    other = call("--k", "2,3")
    assert other.exit_code == 2 and "another sweep (ks differs)" in other.output
    assert call("--engine", "dask").exit_code == 2  # a cluster is joblib's, from Python


def test_compare_and_sweep_are_one_study(tmp_path: Path) -> None:
    """Rows in memory and parts in shards: the same numbers to the last bit, where nothing is drawn at random."""
    p, q = laws(4, rows=8)
    np.savez(tmp_path / "shard.npz", p=p, q=q)
    study = Study(ks=(2, 3), rules=(*QUICK_RULES, otd.rules.SpecHub()), lp_limit=0)
    run_sweep(Sweep(tuple(open_shards([tmp_path / "shard.npz"])), study), tmp_path / "out")
    swept = {
        (row["row"], row["k"], row["rule"]): (row["acceptance"], row["taken"], row["optimum"])
        for row in parquet.read_table(tmp_path / "out").to_pylist()
    }
    compared = {
        (row.pair, row.k, row.rule): (row.accepted, row.taken, row.optimum)
        for row in compare_rules(read_pairs(tmp_path / "shard.npz"), study)
        if row.rule not in tuple(OptimumRow) and row.accepted is not None
    }
    assert compared == swept and len(swept) == 8 * (2 * 5 + 1)


@pytest.mark.parametrize("rows", [3, slow(100)])
def test_pairs_recorded_at_several_temperatures_are_not_lumped_together(tmp_path: Path, rows: int) -> None:
    """A table each, as `compare` has; parts may begin in the middle of one. A second shard has no temperatures."""
    p, q = (law.reshape(2, 5, N) for law in laws(3, 10))
    np.savez(tmp_path / "a.npz", p=p, q=q, temperatures=[1.0, 0.6])
    study = Study((2, 3), (otd.rules.KSeq(), otd.rules.Optimal()), lp_limit=0)
    run_sweep(Sweep(tuple(open_shards([tmp_path / "a.npz"])), study, rows=rows), tmp_path / "out")
    found = {(line.group, line.rule, line.k): line for line in summarise_sweep(tmp_path / "out")}
    pairs = read_pairs(tmp_path / "a.npz")
    for line in summarise(compare_rules(pairs, study), pairs, study):
        if line.rule in ("KSeq", "Optimal"):
            mine = found.pop((line.group, line.rule, line.k))
            assert mine.pairs == 5 and abs(mine.accepted - line.accepted) < 1e-12
    assert not found
    table = parquet.read_table(tmp_path / "out").to_pylist()
    assert {(row["temperature"], row["row"] // 5) for row in table} == {("1.0", 0), ("0.6", 1)}
    given = [
        "sweep",
        str(tmp_path / "a.npz"),
        "--k",
        "2",
        "--rules",
        "KSeq",
        "--jobs",
        "1",
        "--out",
        str(tmp_path / "told"),
    ]
    done = CliRunner().invoke(main, given)
    assert (
        done.exit_code == 0 and "temperature 0.6: 5 pairs" in done.output and "temperature 1.0: 5 pairs" in done.output
    )
    np.savez(tmp_path / "a.npz", p=p, q=q, temperatures=[1.0, 0.7])
    other = CliRunner().invoke(main, given)
    assert other.exit_code == 2 and "temperatures differs" in other.output
    np.savez(tmp_path / "a.npz", p=p, q=q, temperatures=[1.0])
    assert "temperatures must be one number for each entry of the first axis" in CliRunner().invoke(main, given).output
