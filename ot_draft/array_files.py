"""Reading .npz and .npy files: arrays of numbers and nothing else, and one line for a file that is broken.

What numpy says about a broken file advises to load it unsafely (`allow_pickle`), which runs whatever code the file holds.
Here the line names the file and what it should hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import error as StructError
from zipfile import BadZipFile, ZipFile
from zlib import error as ZlibError

import numpy as np

from .errors import InvalidDistribution

BROKEN = (OSError, ValueError, EOFError, KeyError, RuntimeError, BadZipFile, StructError, ZlibError)
# Of an encrypted member zipfile raises RuntimeError, of a member that is not there KeyError.


@contextmanager
def reading(file: Path, holds: str) -> Iterator[None]:
    """Whatever goes wrong while the file is read is an InvalidDistribution. holds: what it should hold, "arrays p and q"."""
    try:
        yield
    except InvalidDistribution:
        raise
    except BROKEN as error:
        raise InvalidDistribution(f"{file} cannot be read: {_reason(error)}; it should hold {holds}") from error


def array_names(file: Path, holds: str) -> list[str]:
    """The arrays of an .npz file, none of which is read."""
    with reading(file, holds), ZipFile(file) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def read_arrays(file: Path, names: Iterable[str], holds: str) -> dict[str, np.ndarray]:
    """These arrays of an .npz file, by name. Raises InvalidDistribution where one is missing, or the file is broken."""
    names, stored = list(names), array_names(file, holds)
    missing = [name for name in names if name not in stored]
    if missing:
        told = f"has no array {', '.join(missing)}: it holds {', '.join(stored) or 'nothing'}, and should hold {holds}"
        raise InvalidDistribution(f"{file} {told}")
    with reading(file, holds), np.load(file, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in names}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # numpy gives the bytes of a member that is no array
            raise InvalidDistribution(f"{file}: {name} is no array; the file should hold {holds}")
    return arrays


def read_array(file: Path, holds: str) -> np.ndarray:
    """The array of an .npy file."""
    with reading(file, holds), file.open("rb") as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def _reason(error: Exception) -> str:
    """What is wrong, without numpy's advice."""
    text = " ".join(str(error).split())
    if "pickle" in text:
        return "it holds Python objects, no numbers"
    return error.strerror or text if isinstance(error, OSError) else text or type(error).__name__
