"""Arrays in files, read whole or some rows at a time; a broken file is one line.

The messages of NumPy about a broken file advise to load it with `allow_pickle`, which runs whatever code the file holds. Here the
message names the file and what it must hold.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from io import SEEK_CUR
from math import prod
from pathlib import Path
from struct import error as StructError
from struct import unpack
from tokenize import TokenError
from typing import IO, Any
from uuid import uuid4
from zipfile import ZIP_STORED, BadZipFile, ZipFile
from zlib import error as ZlibError

import numpy as np

from .errors import InvalidDistribution


@contextmanager
def reading(file: Path, holds: str) -> Iterator[None]:
    """Whatever goes wrong while the file is read is an InvalidDistribution. holds: what it should hold, "arrays p and q"."""
    try:
        yield
    except InvalidDistribution:
        raise
    # zipfile raises RuntimeErrors for an encrypted member and for an unknown compression, KeyError for a missing member. numpy raises
    # TypeError, IndexError and TokenError for some wrong headers.
    except (
        OSError, ValueError, EOFError, KeyError, IndexError, TypeError, TokenError, OverflowError, RuntimeError, MemoryError,
        BadZipFile, StructError, ZlibError,
    ) as error:  # fmt: skip
        raise InvalidDistribution(f"{file} cannot be read: {_reason(error)}; it should hold {holds}") from error


@contextmanager
def atomic_write(file: Path) -> Iterator[Path]:
    """A name beside the file to write to, which becomes the file at the end: whole, or not at all. Several writers write the same.

    A kill leaves the other file behind, which `remove_partial_files` removes.
    """
    temporary = file.with_name(f".{file.stem}.{uuid4().hex}{file.suffix}")
    try:
        yield temporary
        temporary.replace(file)
    except FileNotFoundError:  # another writer was there first, and has tidied up
        if not file.exists():
            raise
    finally:
        temporary.unlink(missing_ok=True)


def write_json(file: Path, content: Any) -> None:
    """JSON, whole or not at all."""
    with atomic_write(file) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def differences(manifest: Path, wanted: dict[str, Any]) -> str:
    """Names of the settings that differ from those in a folder's manifest; "" where none does."""
    try:
        there, asked = json.loads(manifest.read_text(encoding="utf-8")), json.loads(json.dumps(wanted))
        return ", ".join(sorted(name for name in asked if there.get(name) != asked[name]))
    except (ValueError, AttributeError, RecursionError):
        return "its form"


def remove_partial_files(folder: Path, name: str) -> None:
    """Half-written files of writers that were killed. name: how the files' names begin."""
    for file in folder.glob(f".{name}*"):
        file.unlink(missing_ok=True)


class Column(ABC):
    """An array of a file, (..., n), none of whose numbers need have been read. A single number counts as one row of one."""

    shape: tuple[int, ...]

    @abstractmethod
    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows start .. stop - 1, all leading axes taken together, (stop - start, n)."""

    @property
    def count(self) -> int:
        """Number of rows."""
        return prod(self.shape[:-1])

    @property
    def width(self) -> int:
        """n, the length of a row."""
        return self.shape[-1] if self.shape else 1

    def whole(self) -> np.ndarray:
        """All of it."""
        return self.rows(0, self.count).reshape(self.shape)

    def digest(self) -> str:
        """Hash of all its numbers, its shape and type; checksums that the file has are checked on the way."""
        numbers_at_once = 1 << 22
        step = max(1, numbers_at_once // max(1, self.width))
        blocks = (self.rows(start, min(start + step, self.count)) for start in range(0, self.count, step))
        return hash_of(str(self.shape), (piece for block in blocks for piece in _bytes_of(block)))


def _bytes_of(block: np.ndarray) -> tuple[Any, ...]:
    numbers = " ".join(map(str, block.ravel())).encode() if block.dtype.hasobject else np.ascontiguousarray(block).data
    return str(block.dtype).encode(), numbers


@dataclass(frozen=True)
class Stored(Column):
    """An array of an .npz file, or that of an .npy file (without a name), as its header describes it. holds: see `reading`.

    Rows are read, not mapped: the pages of a map count as memory of the process, and a file that is cut short ends it.
    """

    file: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    begin: int  # bytes of the header, before the numbers
    holds: str

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows start .. stop - 1, all leading axes taken together, (stop - start, n), without the checksum of `digest`.

        Only these are read, except from a compressed file, which is read to its last row, and one in Fortran order, which is read whole.
        """
        if self.fortran and len(self.shape) > 1:
            return self.whole().reshape(self.count, self.width)[start:stop]
        size = self.width * self.dtype.itemsize
        with self._numbers() as stream:
            stream.seek(start * size, SEEK_CUR)
            content = stream.read((stop - start) * size)
            return _native(np.frombuffer(content, self.dtype).reshape(stop - start, self.width))

    def whole(self) -> np.ndarray:
        """All of it."""
        with self._member() as stream:
            return _native(np.lib.format.read_array(stream, allow_pickle=False))

    def digest(self) -> str:
        """Hash of all its bytes, its shape and type. Raises InvalidDistribution where they are not those that were written (CRC-32)."""
        with self._member() as stream:
            return hash_of("", iter(lambda: stream.read(1 << 20), b""))

    @contextmanager
    def _member(self) -> Iterator[IO[bytes]]:
        """The array as NumPy wrote it, its header first."""
        with reading(self.file, self.holds):
            if not self.name:
                with self.file.open("rb") as stream:
                    yield stream
            else:
                with ZipFile(self.file) as archive, archive.open(f"{self.name}.npy") as member:
                    yield member

    @contextmanager
    def _numbers(self) -> Iterator[IO[bytes]]:
        """The file at the first number."""
        with reading(self.file, self.holds), ExitStack() as stack:
            begin = self.begin
            stream: IO[bytes] = stack.enter_context(self.file.open("rb"))
            if self.name:
                archive = stack.enter_context(ZipFile(self.file))
                member = archive.getinfo(f"{self.name}.npy")
                if member.compress_type == ZIP_STORED:  # seeking in the archive would read all that is before
                    stream.seek(member.header_offset)
                    header = stream.read(30)  # the local header before the member's name
                    lengths = unpack("<HH", header[-4:])  # of name and extra
                    begin += member.header_offset + len(header) + sum(lengths)
                else:
                    stream = stack.enter_context(archive.open(member))
            stream.seek(begin)
            yield stream


@dataclass(frozen=True)
class Kept(Column):
    """An array of a file that is read as a whole, by `read`, and kept for the next rows."""

    read: Callable[[Path], dict[str, np.ndarray]]
    file: Path
    name: str
    shape: tuple[int, ...]

    def rows(self, start: int, stop: int) -> np.ndarray:
        array = _arrays(self.read, self.file, _stamp(self.file))[self.name]
        return array.reshape(self.count, self.width)[start:stop]


def kept(read: Callable[[Path], dict[str, np.ndarray]], file: Path) -> dict[str, Column]:
    """The arrays of a file that is read as a whole."""
    found = _arrays(read, file, _stamp(file))
    return {name: Kept(read, file, name, array.shape) for name, array in found.items()}


@lru_cache(maxsize=4)
def _arrays(read: Callable[[Path], dict[str, np.ndarray]], file: Path, stamp: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Kept as long as the file is not written to."""
    return read(file)


def _stamp(file: Path) -> tuple[int, ...]:
    found = file.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def hash_of(about: str, pieces: Iterable[Any]) -> str:
    """Of what is said about some numbers, and their bytes."""
    hashed = blake2b(about.encode(), digest_size=16)
    for piece in pieces:
        hashed.update(piece)
    return hashed.hexdigest()


def array_names(file: Path, holds: str) -> list[str]:
    """The arrays of an .npz file, none of which is read."""
    with reading(file, holds), ZipFile(file) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidDistribution(
            f"{file} must hold every array once, got {', '.join(twice)} twice. Save {holds} again."
        )
    return names


def stored_array(file: Path, name: str, holds: str) -> Stored:
    """An array of an .npz file, or (name "") of an .npy file, by its header.

    Raises InvalidDistribution if it is not an array of numbers, or if its length is not that of its header.
    """
    where = f"{file}: array {name}" if name else str(file)
    with reading(file, holds), ExitStack() as stack:
        if name:
            archive = stack.enter_context(ZipFile(file))
            stream: IO[bytes] = stack.enter_context(archive.open(f"{name}.npy"))
            size = archive.getinfo(f"{name}.npy").file_size
        else:
            stream, size = stack.enter_context(file.open("rb")), file.stat().st_size
        shape, fortran, dtype = _header(stream, where)
        begin = stream.tell()
    if dtype.hasobject:
        raise InvalidDistribution(f"{where} must hold numbers, got Python objects; it should hold {holds}")
    if size - begin != prod(shape) * dtype.itemsize:
        raise InvalidDistribution(
            f"{where} cannot be read: its shape {shape} and type {dtype} need {prod(shape) * dtype.itemsize:,} bytes, got"
            f" {size - begin:,}; it should hold {holds}"
        )
    return Stored(file, name, shape, dtype, fortran, begin, holds)


def _header(stream: IO[bytes], array: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    known = np.lib.format
    readers: dict[Any, Any] = {(1, 0): known.read_array_header_1_0, (2, 0): known.read_array_header_2_0}
    version = known.read_magic(stream)
    if version not in readers:
        raise InvalidDistribution(f"{array} has .npy version {version}; 1.0 and 2.0 are known")
    found: tuple[tuple[int, ...], bool, np.dtype[Any]] = readers[version](stream)
    if min(found[0], default=0) < 0:
        raise InvalidDistribution(f"{array} has shape {found[0]}: no axis has fewer than 0 entries")
    return found


def read_arrays(file: Path, names: Iterable[str], holds: str) -> dict[str, np.ndarray]:
    """These arrays of an .npz file, by name. Raises InvalidDistribution where one is missing, or the file is broken."""
    names, stored = list(names), array_names(file, holds)
    missing = [name for name in names if name not in stored]
    if missing:
        told = f"has no array {', '.join(missing)}: it holds {', '.join(stored) or 'nothing'}, and should hold {holds}"
        raise InvalidDistribution(f"{file} {told}")
    return {name: stored_array(file, name, holds).whole() for name in names}


def _native(array: np.ndarray) -> np.ndarray:
    """The same numbers in this machine's order of bytes."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _reason(error: BaseException) -> str:
    """The error's text, without numpy's advice."""
    text = " ".join(str(error).split())
    if "pickle" in text or "trusted" in text:
        return "it holds Python objects, no numbers" if "allow_pickle" in text else "an array's header is too long"
    if isinstance(error, MemoryError):
        return f"it does not fit into the memory ({text})"
    return error.strerror or text if isinstance(error, OSError) else text or type(error).__name__
