"""A broken .npz or .npy file is refused by its name and with what it should hold; nobody is advised to load it unsafely."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import ot_draft as otd
from ot_draft.array_files import array_names, read_arrays, stored_array
from ot_draft.cli import main
from ot_draft.data import open_shards, read_pairs

LAW = np.full((3, 2), 0.5)


def saved(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def zipped(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


class Bomb:
    """What unpickling would run."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return (pytest.fail, ("the file was unpickled",))


GOOD = saved(p=LAW, q=LAW)
BROKEN = {
    "empty": b"",
    "text": b"these are no arrays",
    "pickle": pickle.dumps(Bomb()),
    "cut short": GOOD[: len(GOOD) // 2],
    "one byte wrong": GOOD.replace(np.float64(0.5).tobytes(), np.float64(0.25).tobytes(), 1),
    "Python objects": saved(p=np.array([[Bomb()], [Bomb()]], dtype=object), q=LAW),
    "members that are no arrays": zipped(p=b"text", q=b"text"),
    "empty members": zipped(p=b"", q=b""),
}


def told(error: Exception, file: Path) -> None:
    text = str(error)
    assert text.startswith(str(file)) and "p and q" in text and "\n" not in text
    assert "pickle" not in text and "unsafe" not in text and "trust" not in text


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_of_pairs(case: str, tmp_path: Path) -> None:
    file = tmp_path / "pairs.npz"
    file.write_bytes(BROKEN[case])
    with pytest.raises(otd.InvalidDistribution) as refused:
        read_pairs(file)
    told(refused.value, file)
    with pytest.raises(otd.InvalidDistribution) as refused:
        [shard.read(0, shard.rows) for shard in open_shards([file])]
    if case != "one byte wrong":  # read in place, without the checksum, it is a law that does not sum to 1
        told(refused.value, file)


@pytest.mark.parametrize("content", [b"", b"text", pickle.dumps(Bomb())])
def test_a_broken_npy(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "pairs.npy"
    file.write_bytes(content)
    with pytest.raises(otd.InvalidDistribution) as refused:
        read_pairs(file)
    told(refused.value, file)


@pytest.mark.parametrize("command", [["compare"], ["sweep", "--out", "out"]])
def test_the_command_says_it_in_one_line(command: list[str], tmp_path: Path) -> None:
    file = tmp_path / "pairs.npz"
    file.write_bytes(BROKEN["pickle"])
    command = [str(tmp_path / word) if word == "out" else word for word in command]
    result = CliRunner().invoke(main, [command[0], str(file), *command[1:]])
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert str(file) in result.stderr and "it should hold p and q" in result.stderr and "pickle" not in result.stderr


def test_arrays_of_a_sound_file_are_what_was_saved(tmp_path: Path) -> None:
    file = tmp_path / "file.npz"
    np.savez(file, first=LAW, second=np.array(["a", "b"]))
    assert array_names(file, "anything") == ["first", "second"]
    (second,) = read_arrays(file, ["second"], "anything").values()
    assert second.tolist() == ["a", "b"]
    with pytest.raises(
        otd.InvalidDistribution, match="has no array third: it holds first, second, and should hold two laws"
    ):
        read_arrays(file, ["first", "third"], "two laws")
    np.save(tmp_path / "file.npy", LAW)
    assert (stored_array(tmp_path / "file.npy", "", "a law").whole() == LAW).all()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        otd.InvalidDistribution, match=r"nothing\.npz cannot be read: No such file or directory; it should hold p"
    ):
        array_names(tmp_path / "nothing.npz", "p")
