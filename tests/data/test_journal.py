"""A comparison that is stopped goes on where it was, to the same bytes; its memory is that of the pairs at work."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from slow import slow

import ot_draft as otd
from ot_draft.cli import main
from ot_draft.data import Study, Sweep, compare_rules, summarise
from ot_draft.data.journal import Journal
from ot_draft.data.pairs import open_pairs
from ot_draft.data.records import Loaded
from ot_draft.data.shards import Shard
from ot_draft.data.study import chunk_of, compare_parts
from ot_draft.data.summary import Means, total_variation

ROOT = Path(__file__).parents[2]
CHUNK = chunk_of(9)
ROWS = 3 * CHUNK + 3
FILES = ("pairs.csv", "summary.csv", "compare.json")
SETTINGS = (
    "--k",
    "1,3",
    "--rules",
    "KSeq,Optimal,RecursiveRejectionWithoutReplacement",
    "--samples",
    "8",
    "--jobs",
    "1",
    "--lp-limit",
    "0",
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    p, q = np.random.default_rng(2).dirichlet(np.full(9, 0.5), (2, ROWS))
    file = tmp_path_factory.mktemp("pairs") / "pairs.npz"
    np.savez(file, p=p, q=q, text=np.array([f'a "text",\nof {row // 2} lines' for row in range(ROWS)]))
    return file


def compare(file: Path, out: Path, *more: Any) -> Result:
    return CliRunner().invoke(main, ["compare", str(file), *SETTINGS, "--out", str(out), *map(str, more)])


def bytes_of(out: Path) -> list[bytes]:
    return [(out / name).read_bytes() for name in FILES]


def stop(out: Path, content: bytes) -> None:
    """As a kill leaves it: no result, and so much of the rows."""
    (out / "pairs.csv").write_bytes(content)
    for name in FILES[1:]:
        (out / name).unlink()


@pytest.fixture(scope="module")
def compared(file: Path) -> Path:
    """The folder of a comparison that was not stopped."""
    result = compare(file, file.parent / "whole")
    assert result.exit_code == 0, result.output
    return file.parent / "whole"


@pytest.fixture
def whole(compared: Path, tmp_path: Path) -> list[bytes]:
    """Its files, and a copy of them in the test's folder."""
    return bytes_of(Path(shutil.copytree(compared, tmp_path / "whole")))


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda rows: b"",
    "the header alone": lambda rows: rows[: rows.index(b"\n") + 1],
    "half of the header": lambda rows: rows[:9],
    "half": lambda rows: rows[: len(rows) // 2],
    "all but a byte": lambda rows: rows[:-1],
    "all": lambda rows: rows,
    "a number that is none": lambda rows: rows.replace(b"KSeq,iid,0.", b"KSeq,iid,x.", 1),
    "zeros": lambda rows: rows[: len(rows) // 2] + b"\0" * 99,
    "what is no text": lambda rows: rows[: len(rows) // 2] + b"\xff\n" + rows[len(rows) // 2 :],
    "two pairs swapped": lambda rows: rows.replace(b"\n1,", b"\n2,"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_stopped_comparison_ends_in_the_same_bytes(
    damage: str, file: Path, whole: list[bytes], tmp_path: Path
) -> None:
    out = tmp_path / "whole"
    stop(out, DAMAGE[damage](whole[0]))
    result = compare(file, out)
    assert result.exit_code == 0 and bytes_of(out) == whole, result.output
    assert ("resuming: " in result.stderr) == (damage in ("half", "all but a byte", "all", "zeros", "what is no text"))


@pytest.mark.parametrize("edited", [slow("own_rule.py"), "helper_of_rule.py"])
def test_an_edited_rule_is_computed_again(edited: str, tmp_path: Path) -> None:
    """Not an edited rule's old numbers; in processes of their own, since a module is imported once."""
    (tmp_path / "helper_of_rule.py").write_text("import ot_draft as otd\n\nrule = otd.rules.SpeculativeSampling()\n")
    (tmp_path / "own_rule.py").write_text(
        "import helper_of_rule\nimport ot_draft as otd\n\n\nclass R(otd.SelectionRule):\n    law = otd.IID()\n\n"
        "    def __call__(self, p, q, drafts):\n        return helper_of_rule.rule(p, q, drafts)  # SpeculativeSampling\n"
    )
    command = [sys.executable, "-m", "ot_draft", "compare", "--p", "1/2,1/2", "--q", "3/4,1/4", "--k", "2"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}

    def accepted() -> str:
        subprocess.run(
            [*command, "--rules", "own_rule.py:R", "--out", "out"], cwd=tmp_path, env=environment, check=True
        )
        summary = json.loads((tmp_path / "out" / "compare.json").read_text())["summary"]
        return next(str(line["accepted_exact"]) for line in summary if line["rule"] == "R")

    assert accepted() == accepted() == "13/16"
    text = (tmp_path / edited).read_text()
    (tmp_path / edited).write_text(
        text.replace("helper_of_rule.rule(", "otd.rules.Optimal()(").replace("SpeculativeSampling()", "Optimal()")
    )
    assert accepted() == "15/16"


def test_what_is_there_is_not_computed_again(
    file: Path, whole: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ot_draft.data.study as study

    done: list[int] = []
    block = study.block
    monkeypatch.setattr(study, "block", lambda of, p, *rest: done.append(len(p)) or block(of, p, *rest))
    stop(tmp_path / "whole", whole[0][:-1])
    assert compare(file, tmp_path / "whole").exit_code == 0
    assert done == [ROWS % CHUNK]  # all rows of the last chunk


def test_a_kill_and_another(file: Path, whole: list[bytes], tmp_path: Path) -> None:
    """Killed twice, wherever that is, each time after some rows more."""
    out, size = tmp_path / "killed", 0
    words = [sys.executable, "-m", "ot_draft", "compare", str(file), *SETTINGS, "--out", str(out)]
    for _ in range(2):
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as work:
            until = time.monotonic() + 120
            while work.poll() is None and time.monotonic() < until:
                if (out / "pairs.csv").exists() and (out / "pairs.csv").stat().st_size > size:
                    work.send_signal(signal.SIGKILL)
                    break
                time.sleep(0.001)
            work.wait()
        size = (out / "pairs.csv").stat().st_size
    assert compare(file, out).exit_code == 0 and bytes_of(out) == whole


def test_other_settings(file: Path, whole: list[bytes], tmp_path: Path) -> None:
    """Of a comparison that ended, anew; of one that was stopped, refused, with the rows as they were."""
    out = tmp_path / "whole"
    assert compare(file, out, "--seed", 1).exit_code == 0 and bytes_of(out) != whole
    assert compare(file, out).exit_code == 0 and bytes_of(out) == whole
    stop(out, whole[0][:-1])
    p = np.load(file)["p"]
    other = tmp_path / "other.npz"
    np.savez(other, p=p, q=p)
    for words, named in (
        ((file, "--seed", 1), "seed"),
        ((file, "--k", 2), "ks"),
        ((other,), "pairs"),
        ((file, "--limit", 9), "pairs"),
    ):
        result = compare(words[0], out, *words[1:])
        assert result.exit_code == 2 and f"with other settings ({named} differs)" in result.stderr, result.output
    assert (out / "pairs.csv").read_bytes() == whole[0][:-1]
    assert compare(file, out).exit_code == 0 and bytes_of(out) == whole


def test_one_pair_of_fractions(tmp_path: Path) -> None:
    """Exact values come back exact; a pair of which rows are missing is not there."""
    words = [
        "compare",
        "--p",
        "1/3,1/3,1/3",
        "--q",
        "1/2,1/2,0",
        "--k",
        "2",
        "--jobs",
        "1",
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    first = CliRunner().invoke(main, words)
    assert first.exit_code == 0 and json.loads(first.stdout)["summary"][0]["accepted_exact"] == "2/3"
    rows = (tmp_path / "out" / "pairs.csv").read_bytes()
    assert CliRunner().invoke(main, words).stdout == first.stdout
    (tmp_path / "out" / "pairs.csv").write_bytes(b"\n".join(rows.split(b"\n")[:-2]) + b"\n")
    again = CliRunner().invoke(main, words)
    assert again.stdout == first.stdout and (tmp_path / "out" / "pairs.csv").read_bytes() == rows


def test_a_file_read_in_parts_gives_the_rows_of_one_in_memory(file: Path, tmp_path: Path) -> None:
    study, pairs = Study((2,), samples=8, lp_limit=0), open_pairs(file)
    held = pairs.load()
    rows = compare_rules(held, study)
    assert compare_rules(pairs, study) == compare_rules(pairs, study, jobs=2) == rows
    assert str(summarise(rows, pairs, study)) == str(summarise(iter(rows), held, study))
    means, distances = Means(study), []
    for part in compare_parts(pairs, study):
        means.add(part.rows or [], part.pairs)
        distances += part.distances
    assert str(means.summaries()) == str(summarise(rows, held, study))
    assert distances == pytest.approx((abs(held.p - held.q).sum(-1) / 2).tolist())
    assert total_variation(pairs, distances)[""][0] == pytest.approx(np.mean(distances))
    assert {len(group) for group in (pairs.first(5), pairs.choose([7, 3]))} == {5, 2}
    np.testing.assert_array_equal(pairs.choose([7, 3]).load().p, held.p[[7, 3]])


@pytest.mark.parametrize("folder", [False, True])
def test_memory_does_not_grow_with_the_pairs(folder: bool, tmp_path: Path) -> None:
    """Of arrays and rows, by four times as many pairs: the few numbers that the means need."""
    n, peaks = 4_000, []
    for count in (64, 256):
        file = tmp_path / f"{count}.npz"
        np.savez(file, p=np.full((count, n), 1 / n), q=np.full((count, n), 1 / n))
        pairs, study = open_pairs(file), Study((2, 4), (otd.rules.KSeq(), otd.rules.SpeculativeSampling()), lp_limit=0)
        if folder:
            (tmp_path / str(count)).mkdir()
        journal = Journal(tmp_path / str(count), pairs, study) if folder else None
        tracemalloc.start()
        means = Means(study)
        for part in compare_parts(pairs, study):
            means.add(part.rows or [], part.pairs)
            if journal:
                journal.add(part.pairs, part.rows or [])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(means.summaries()) == 8
    assert peaks[1] - peaks[0] < 192 * 1000 < 64 * n  # a pair's laws alone are 64,000 bytes


def test_parts_of_a_sweep_are_small_where_n_is_large() -> None:
    wide, narrow = (Loaded(np.broadcast_to(0.0, (40, n))) for n in (2_000_000, 2))
    shards = [
        Shard(Path(name), ("p", "q"), {"p": each, "q": each}, name, "")
        for name, each in (("wide", wide), ("narrow", narrow))
    ]
    found = [(part.shard.label, part.stop - part.start) for part in Sweep(tuple(shards)).parts]
    assert found == [("wide", 33), ("wide", 7), ("narrow", 40)]
    assert [part.stop for part in Sweep((shards[0],), rows=30).parts] == [30, 40]
