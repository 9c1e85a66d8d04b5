"""Arrays by name in files of every kind that pairs come in: whole, or so many rows of them.

.npz, .safetensors and files of torch.save (.pt, .pth, .bin) hold arrays under names. .npy holds two stacked, (2, ..., n), as one tensor
of torch may: p and q. .json is an object of nested lists, or a list of objects, .jsonl has one a line; numbers are exact where they are
texts like "1/3". .csv and .tsv have columns p and q, one token a row, and a column `pair` where there are several pairs; decimals may
have commas. .parquet has columns of lists, one row a pair. Text may be compressed (gzip). Endings and names are read in either case.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from stat import S_ISDIR

from ..array_files import Column, reading
from ..arrays import Array
from ..errors import InvalidDistribution
from .records import HOLDS, Loaded, by_known_name
from .tensor_files import npy_column, read_npy, read_npz, read_parquet, read_safetensors, read_torch
from .text_files import read_json, read_json_lines, read_table

TEXT: dict[str, Callable[[Path], dict[str, Array]]] = {
    ".json": read_json, ".jsonl": read_json_lines, ".ndjson": read_json_lines, ".csv": read_table, ".tsv": read_table,
}  # fmt: skip
TENSORS: dict[str, Callable[[Path], dict[str, Column]]] = {
    ".npz": read_npz, ".npy": read_npy, ".safetensors": read_safetensors, ".parquet": read_parquet,
    ".pt": read_torch, ".pth": read_torch, ".bin": read_torch,
}  # fmt: skip
READERS = (*TENSORS, *TEXT)
# What a file begins with whose content is not what its ending says.
BEGINS = {
    b"version https://git-lfs": "a pointer of Git LFS, in the place of the file: fetch it (git lfs pull)",
    b"\x1f\x8b": "compressed (gzip): unpack it",
    b"\x28\xb5\x2f\xfd": "compressed (zstd): unpack it",
    b"BZh": "compressed (bzip2): unpack it",
    b"\xfd7zXZ": "compressed (xz): unpack it",
    b"\x93NUMPY": "an array of numpy: let its name end in .npy",
    b"PAR1": "parquet: let its name end in .parquet",
    b"PK": "a zip file, as .npz, .pt and spreadsheets are: let its name end in what it is",
    b"\x89HDF": "HDF5: save the arrays as .npz",
    b"<": "a page of HTML or XML: fetch the file itself",
    b"{": "JSON: let its name end in .json or .jsonl",
}  # fmt: skip


def columns(file: Path, draft: Path | None = None) -> dict[str, Column]:
    """The arrays that the file holds, by name. Raises InvalidDistribution where it is broken, or of no kind that is known.

    draft: an .npy file of q, where `file` is one of p.
    """
    if draft is not None:
        wrong = [str(each) for each in (file, draft) if _ending(each) != (".npy", False)]
        if wrong:
            raise InvalidDistribution(
                f"two files must be .npy, p first, got {wrong[0]}. Save both arrays in one .npz file."
            )
        return {"p": npy_column(file), "q": npy_column(draft)}
    kind, packed = _ending(file)
    if kind not in READERS:
        raise InvalidDistribution(f"{file}: give a file that ends in {', '.join(READERS)}")
    try:
        found = file.stat()
    except OSError as error:
        raise InvalidDistribution(f"{file} cannot be read: {error.strerror}; it should hold {HOLDS}") from error
    if S_ISDIR(found.st_mode):
        raise InvalidDistribution(f"{file} is a directory: give a file")
    if packed and kind not in TEXT:
        raise InvalidDistribution(f"{file} is compressed: unpack it; as they are, {', '.join(TEXT)} are read (.gz)")
    return _columns(file, (found.st_mtime_ns, found.st_size, found.st_ino))


def _ending(file: Path) -> tuple[str, bool]:
    """The kind of a file in small letters, and whether .gz stands behind it."""
    kind = file.suffix.lower()
    return (Path(file.stem).suffix.lower(), True) if kind == ".gz" else (kind, False)


def is_known(file: Path, kinds: tuple[str, ...]) -> bool:
    """Whether its name ends in one of the kinds."""
    return _ending(file)[0] in kinds


@lru_cache(maxsize=4)
def _columns(file: Path, as_it_is: tuple[int, ...]) -> dict[str, Column]:
    """Kept for the next rows of the same file, as long as that is not written to."""
    kind, _ = _ending(file)
    try:
        with reading(file, HOLDS):
            if kind in TENSORS:
                return by_known_name(TENSORS[kind](file), str(file))
            return {name: Loaded(array) for name, array in TEXT[kind](file).items()}
    except InvalidDistribution as error:
        if seen := _content(file, kind):
            raise InvalidDistribution(f"{error}. It is {seen}") from error
        raise


def _content(file: Path, kind: str) -> str:
    """A guess at what a file that cannot be read is, where that is not what its name says."""
    own = {".npz": b"PK", ".pt": b"PK", ".pth": b"PK", ".bin": b"PK", ".npy": b"\x93NUMPY", ".parquet": b"PAR1"}.get(
        kind, b"{"
    )
    try:
        with file.open("rb") as stream:
            head = stream.read(32)
    except OSError:
        return ""
    read = (own, b"\x1f\x8b") if kind in TEXT else (own,)
    return next((seen for begin, seen in BEGINS.items() if head.startswith(begin) and begin not in read), "")
