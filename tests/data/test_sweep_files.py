"""What may befall the files of a sweep: each time the right answer, or one line that says what is wrong."""

from __future__ import annotations

import json
import os
import shutil
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from joblib import parallel_config

import ot_draft as otd
from ot_draft.cli import main
from ot_draft.data import Study, Sweep, open_shards, run_sweep, summarise_sweep
from ot_draft.lossy.frontier import target_within

parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (extra 'sweep')")

N, ROWS = 6, 10
RULES = (otd.rules.KSeq(), otd.rules.Optimal())


def laws(seed: int, rows: int = ROWS, n: int = N) -> dict[str, Any]:
    p, q = np.random.default_rng(seed).dirichlet(np.ones(n), size=(2, rows))
    return {"p": p, "q": q}


def sweep_of(*shards: Path, rows: int = 16, **study: Any) -> Sweep:
    return Sweep(tuple(open_shards(shards)), Study(**{"rules": RULES, "ks": (2,)} | study), rows=rows)


def run(shards: Path, out: Path, rows: int = 4, **study: Any) -> dict[tuple[str, int], float]:
    """Mean acceptance by rule and k."""
    plan = sweep_of(shards, rows=rows, **study)
    with parallel_config("sequential"):
        assert run_sweep(plan, out) == ()
    return {(mean.rule, mean.k): mean.accepted for mean in summarise_sweep(out)}


def bytes_of(out: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(out.iterdir())}


def command(*words: Any) -> Result:
    with np.errstate(all="ignore"):
        return CliRunner().invoke(main, ["sweep", *map(str, words), "--engine", "sequential"])


def refused(result: Result, *told: str) -> None:
    assert result.exit_code == 2 and result.stderr.count("\n") == 1, (result.exit_code, result.output, result.exception)
    assert all(text in result.stderr for text in told), result.stderr


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    file = tmp_path / "in" / "shard.npz"
    file.parent.mkdir()
    np.savez(file, **laws(1))
    return file


def test_another_shard_of_the_same_name_and_size_is_another_sweep(shard: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    before = run(shard, out)
    (out / "part-000002.parquet").unlink()
    size = shard.stat().st_size
    np.savez(shard, **laws(2))
    assert shard.stat().st_size == size
    with pytest.raises(otd.DraftSelectionError, match=r"another sweep \(shards differs\)"):
        run(shard, out)
    np.savez(shard, **laws(1))
    os.utime(shard, (0, 0))
    assert run(shard, out) == before  # of the same numbers, whenever they were written
    np.savez_compressed(shard, **laws(1))
    assert run(shard, out) == before


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_a_single_number_that_differs_is_another_shard(kind: str, tmp_path: Path) -> None:
    def digest(arrays: dict[str, Any]) -> str:
        file = tmp_path / f"shard.{kind}"
        if kind == "npz":
            np.savez(file, **arrays)
        else:
            pytest.importorskip("safetensors.numpy").save_file(arrays, file)
        return open_shards([file])[0].digest

    arrays = laws(3)
    first = digest(arrays)
    arrays["q"][7] = np.roll(arrays["q"][7], 1)
    assert digest(arrays) != first == digest(laws(3))
    assert digest({"p": arrays["p"], "q": arrays["p"]}) != digest({"p": arrays["q"], "q": arrays["p"]})


def test_shards_of_one_name_in_two_folders_are_told_apart(shard: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "shard.npz"
    other.parent.mkdir()
    plain = tmp_path / "in" / "plain.npz"
    for seed, file in enumerate((shard, other, plain), 1):
        np.savez(file, **laws(seed, n=40))
    rules = (otd.rules.RecursiveRejectionWithoutReplacement(),)
    shards = open_shards([shard, other, plain])
    assert [each.label for each in shards] == ["in/shard.npz", "other/shard.npz", "plain.npz"]
    run_sweep(Sweep(tuple(shards), Study((3,), rules, 4)), tmp_path / "out")
    table = parquet.read_table(tmp_path / "out").to_pylist()
    assert {(row["shard"], row["row"]) for row in table} == {(s.label, r) for s in shards for r in range(ROWS)}
    np.savez(other, **laws(1, n=40))  # the same pairs: the random drafts are others
    run_sweep(sweep_of(shard, other, rules=rules, ks=(3,), samples=4), tmp_path / "same")
    first, second = np.array([r["acceptance"] for r in parquet.read_table(tmp_path / "same").to_pylist()]).reshape(
        2, -1
    )
    assert not np.allclose(first, second) and np.allclose(first, second, atol=0.5)
    with pytest.raises(otd.DraftSelectionError, match=r"got shard\.npz twice"):
        Sweep((*open_shards([shard]), *open_shards([other])))


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    """One bit of the numbers, which stand before the footer."""
    place = 40
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


@pytest.mark.parametrize("damage", [cut, flipped, lambda content: b"", lambda content: b"PAR1" * 9])
def test_a_part_that_was_damaged_is_made_again(damage: Callable[[bytes], bytes], shard: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    before = run(shard, out)
    whole, part = bytes_of(out), out / "part-000001.parquet"
    part.write_bytes(damage(whole[part.name]))
    with pytest.raises(
        otd.DraftSelectionError, match=r"part-000001.parquet must be a readable part .* Run the same sweep again"
    ):
        summarise_sweep(out)
    assert run(shard, out) == before and bytes_of(out) == whole


def test_what_is_no_part_of_the_sweep_is_not_counted(shard: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(shard, out)
    shutil.copy(out / "part-000000.parquet", out / "part-000009.parquet")
    refused(
        command(shard, "--out", out, "--rules", "KSeq,Optimal", "--k", "2", "--rows", "4"),
        "part-000009.parquet",
        "parts of this sweep only",
    )


@pytest.mark.parametrize("content", ["", "{", "[1]", "null", "7" * 10_000, "[" * 100_000, "\0"])
def test_a_broken_manifest_is_another_sweep(content: str, shard: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(shard, out)
    (out / "_sweep.json").write_text(content)
    refused(command(shard, "--out", out), "another sweep (its form differs)")
    (out / "_sweep.json").write_bytes(b"\xff\xfe")
    refused(command(shard, "--out", out), "another sweep (its form differs)")


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"ks": (2, 3)}, "ks"),
        ({"rules": RULES[:1]}, "rules"),
        ({"rules": (otd.rules.KSeq(factor=2), RULES[1])}, "rules"),
        ({"seed": 1}, "seed"),
        ({"samples": 2}, "samples"),
        ({"rows": 5}, "rows"),
        ({"target": target_within("tv=0.1")}, "target"),
    ],
)
def test_other_settings_are_another_sweep(changed: dict[str, Any], name: str, shard: Path, tmp_path: Path) -> None:
    run(shard, tmp_path / "out")
    with pytest.raises(otd.DraftSelectionError, match=rf"another sweep \({name} differs\)"):
        run(shard, tmp_path / "out", **changed)


def test_another_version_of_the_library_is_another_sweep(
    shard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(shard, tmp_path / "out")
    monkeypatch.setattr("ot_draft.data.sweep.__version__", "0.0.7")
    with pytest.raises(otd.DraftSelectionError, match=r"another sweep \(made_by differs\)"):
        run(shard, tmp_path / "out")


def test_two_sweeps_at_once_in_one_folder(shard: Path, tmp_path: Path) -> None:
    run(shard, tmp_path / "alone", rows=1)
    trouble: list[Any] = []

    def go() -> None:
        try:
            trouble.extend(run_sweep(sweep_of(shard, rows=1), tmp_path / "both"))
        except Exception as error:
            trouble.append(error)

    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bytes_of(tmp_path / "both") == bytes_of(tmp_path / "alone") and not [t for t in trouble if "try 3" in str(t)]


def zipped(file: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    text = header.encode("latin1")
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 * version, "little") + text + data


def described(shape: str, kind: str = "'<f8'", order: str = "False") -> str:
    return f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


GOOD = laws(1)
HALF = np.full((2, 2), 0.5)
WRONG: dict[str, dict[str, Any]] = {
    "complex": {"p": HALF + 0j, "q": HALF},
    "texts": {"p": HALF.astype(str), "q": HALF},
    "truth values": {"p": np.eye(2, dtype=bool), "q": HALF},
    "dates": {"p": np.zeros((2, 2), "M8[s]"), "q": HALF},
    "records": {"p": np.zeros((2, 2), [("a", "f8")]), "q": HALF},
    "NaN": {"p": np.array([[0.5, 0.5], [np.nan, 1]]), "q": HALF},
    "inf": {"p": np.array([[0.5, 0.5], [np.inf, 1]]), "q": HALF},
    "less than nothing": {"p": np.array([[1.5, -0.5]]), "q": HALF[:1]},
    "no token": {"p": HALF[:, :0], "q": HALF[:, :0]},
    "a number": {"p": np.float64(1), "q": np.float64(1)},
}
HEADERS = {
    "more rows than there are": npy(described("(1000000000000, 2)"), HALF.tobytes()),
    "fewer": npy(described("(1, 2)"), HALF.tobytes()),
    "rows below zero": npy(described("(-2, -2)"), HALF.tobytes()),
    "a long header": npy(described("(2, 2)") + " " * 20_000, HALF.tobytes()),
    "a deep header": npy("(" * 9000, HALF.tobytes()),
    "no dictionary": npy("[1]\n", HALF.tobytes()),
    "keys of two kinds": npy("{1: 2, 'a': 3}\n", HALF.tobytes()),
    "no type": npy(described("(2, 2)", "()"), HALF.tobytes()),
    "an empty type": npy(described("(2, 2)", "[]"), b""),
    "a shape of texts": npy(described("('a',)"), HALF.tobytes()),
    "an unhashable key": npy("{[]: 1}\n", HALF.tobytes()),
    "version 3": npy(described("(2, 2)"), HALF.tobytes(), 3),
    "cut short": npy(described("(2, 2)"))[:20],
    "nothing": b"",
}


@pytest.mark.parametrize("reader", ["compare", "sweep"])
@pytest.mark.parametrize("case", [*WRONG, *HEADERS])
def test_arrays_that_are_no_laws_are_refused_by_name(case: str, reader: str, tmp_path: Path) -> None:
    file = tmp_path / "pairs.npz"
    if case in WRONG:
        np.savez(file, **WRONG[case])
    else:
        stream = npy(described("(2, 2)"), HALF.tobytes())
        zipped(file, {"p.npy": HEADERS[case], "q.npy": stream})
    words = [reader, str(file), "--k", "2", "--rules", "KSeq"]
    words += ["--out", str(tmp_path / "out"), "--engine", "sequential"] if reader == "sweep" else ["--jobs", "1"]
    result = CliRunner().invoke(main, words)
    refused(result, str(file))


@pytest.mark.parametrize("kind", [">f8", "<f4", ">f4"])
@pytest.mark.parametrize("compressed", [False, True])
def test_other_number_types_give_the_same_means(kind: str, compressed: bool, tmp_path: Path) -> None:
    file = tmp_path / "two words é.npz"
    weights = np.random.default_rng(3).integers(1, 9, size=(2, ROWS, N)).astype(float)
    weights[..., -1] = 64 - weights[..., :-1].sum(-1)  # 64ths are exact in all of them
    p, q = weights / 64
    (np.savez_compressed if compressed else np.savez)(file, p=p.astype(kind), q=q.astype(kind))
    wanted = otd.optimal_acceptance(p, q, 2).mean()
    assert run(file, tmp_path / "out ü")["Optimal", 2] == pytest.approx(wanted, abs=1e-12)
    result = CliRunner().invoke(main, ["compare", str(file), "--k", "2", "--rules", "Optimal", "--json", "--jobs", "1"])
    assert json.loads(result.stdout)["summary"][0]["accepted"] == pytest.approx(wanted, abs=1e-12)


def test_three_axes_and_what_lies_in_another_order(tmp_path: Path) -> None:
    p, q = (x.reshape(2, 5, N) for x in laws(1).values())
    np.savez(tmp_path / "a.npz", p=p, q=q)
    wanted = run(tmp_path / "a.npz", tmp_path / "out")
    np.savez(tmp_path / "f.npz", p=np.asfortranarray(p), q=q)
    assert run(tmp_path / "f.npz", tmp_path / "other") == wanted
    np.savez(tmp_path / "g.npz", p=np.asfortranarray(p), q=np.asfortranarray(q))
    result = CliRunner().invoke(main, ["compare", str(tmp_path / "g.npz"), "--k", "2", "--rules", "Optimal", "--json"])
    assert json.loads(result.stdout)["summary"][0]["accepted"] == pytest.approx(wanted["Optimal", 2])


def test_a_flipped_bit_is_refused_stored_or_compressed(tmp_path: Path) -> None:
    """Of a mass that still leaves a law, to the precision that is asked of one."""
    p = np.full((4, 2), 0.5)
    for save in (np.savez, np.savez_compressed):
        file = tmp_path / "pairs.npz"
        save(file, p=p, q=p)
        content = bytearray(file.read_bytes())
        place = content.find(np.float64(0.5).tobytes()) if save is np.savez else content.find(b"PK", 4) - 3
        content[place] ^= 1  # the last place of a mass: the sum is off by 1e-16
        file.write_bytes(bytes(content))
        for words in (["compare", file], ["sweep", file, "--out", tmp_path / "out", "--engine", "sequential"]):
            refused(CliRunner().invoke(main, [str(word) for word in words]), str(file), "cannot be read")


def test_two_arrays_of_one_name(tmp_path: Path) -> None:
    file, stream = tmp_path / "pairs.npz", npy(described("(2, 2)"), HALF.tobytes())
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("p.npy", stream)
        archive.writestr("q.npy", stream)
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("p.npy", stream)
    refused(command(file, "--out", tmp_path / "out"), "must hold every array once, got p twice")
    refused(CliRunner().invoke(main, ["compare", str(file)]), "must hold every array once, got p twice")


def test_folders_and_loops_where_files_are_expected(shard: Path, tmp_path: Path) -> None:
    folder = shard.parent
    (folder / "folder.npz").mkdir()
    refused(command(folder, "--out", tmp_path / "out"), "folder.npz")
    (folder / "folder.npz").rmdir()
    (folder / "loop.npz").symlink_to(folder / "loop.npz")
    refused(command(folder, "--out", tmp_path / "out"), "loop.npz")
    refused(command(folder / "loop.npz", "--out", tmp_path / "out"), "loop.npz must be a file or a folder")
    (folder / "loop.npz").unlink()
    (folder / "gone.npz").symlink_to(tmp_path / "nowhere.npz")
    refused(command(folder, "--out", tmp_path / "out"), "gone.npz")
    (folder / "gone.npz").unlink()
    (folder / "again.npz").symlink_to(shard)
    refused(command(folder, "--out", tmp_path / "out"), "must be distinct files")
    (folder / "again.npz").unlink()
    for out in (shard / "out", shard, tmp_path / ("x" * 300)):
        result = command(shard, "--out", out)
        assert result.exit_code == 2 and not isinstance(result.exception, (ValueError, OSError)), result.exception


def test_a_shard_that_vanishes_is_told(shard: Path, tmp_path: Path) -> None:
    plan = sweep_of(shard)
    shard.unlink()
    with pytest.raises(otd.InvalidDistribution, match=r"shard.npz cannot be read: No such file"):
        run_sweep(plan, tmp_path / "out")


def test_numbers_that_nobody_means(shard: Path, tmp_path: Path) -> None:
    for words in (
        ["--k", "1000000"],
        ["--k", "100000000000000000000000000"],
        ["--samples", "99999999999999"],
        ["--jobs", "1000000"],
        ["--temperature", "nan"],
        ["--rows", "0"],
    ):
        result = command(shard, "--out", tmp_path / "out", *words)
        assert result.exit_code == 2 and words[0].strip("-") in result.stderr, (words, result.output)
