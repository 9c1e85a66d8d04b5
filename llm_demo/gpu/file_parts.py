"""Files in parts, for machines with a limit on file sizes: `python -m llm_demo.gpu.file_parts split FILE FOLDER`.

FOLDER/NAME.parts.json has the SHA-256 of the file and of every part. `join` writes a file only if all of them match.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import click

MIB = 1 << 20


def split(file: Path, folder: Path, size: int) -> Path:
    """Write a file as parts of at most `size` bytes.

    Parameters
    ----------
    file : Path
        File to split.
    folder : Path
        Folder of the parts, which is made.
    size : int
        Largest number of bytes of a part.

    Returns
    -------
    manifest : Path
        JSON file with names, sizes and SHA-256.
    """
    folder.mkdir(parents=True, exist_ok=True)
    whole, parts = hashlib.sha256(), list[dict[str, object]]()
    with file.open("rb") as stream:
        while data := stream.read(size):
            whole.update(data)
            part = folder / f"{file.name}.part{len(parts):02d}"
            part.write_bytes(data)
            parts.append({"name": part.name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})
    manifest = folder / f"{file.name}.parts.json"
    fields = {"name": file.name, "bytes": file.stat().st_size, "sha256": whole.hexdigest(), "parts": parts}
    manifest.write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")
    return manifest


def join(manifest: Path, out: Path) -> Path:
    """Write the file whose parts are in the folder of their manifest into the folder `out`.

    Parameters
    ----------
    manifest : Path
        File that `split` wrote.
    out : Path
        Folder of the joined file, which is made.

    Returns
    -------
    file : Path
        The joined file.

    Raises
    ------
    ValueError
        If a part is missing, or a SHA-256 differs.
    """
    fields = json.loads(manifest.read_text(encoding="utf-8"))
    file, whole = out / fields["name"], hashlib.sha256()
    out.mkdir(parents=True, exist_ok=True)
    unchecked = file.with_name(file.name + ".joining")
    with unchecked.open("wb") as stream:
        for part in fields["parts"]:
            path = manifest.with_name(part["name"])
            data = path.read_bytes() if path.is_file() else b""
            if hashlib.sha256(data).hexdigest() != part["sha256"]:
                raise ValueError(
                    f"{path} must be a part with SHA-256 {part['sha256']}, got {len(data)} bytes. Copy it again."
                )
            whole.update(data)
            stream.write(data)
    if whole.hexdigest() != fields["sha256"]:
        raise ValueError(
            f"{manifest} must list the parts of a file with SHA-256 {fields['sha256']}. Split the file again."
        )
    return unchecked.replace(file)


@click.group()
def main() -> None:
    """Split a file into parts, and join them."""


@main.command("split")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--mib", default=50, show_default=True, type=click.IntRange(1), help="Largest size of a part in MiB.")
def split_command(file: Path, folder: Path, mib: int) -> None:
    """Write FILE as parts into FOLDER."""
    click.echo(split(file, folder, mib * MIB))


@main.command("join")
@click.argument("manifest", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def join_command(manifest: Path, folder: Path) -> None:
    """Write the file of MANIFEST into FOLDER."""
    try:
        click.echo(join(manifest, folder))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


if __name__ == "__main__":
    main()
