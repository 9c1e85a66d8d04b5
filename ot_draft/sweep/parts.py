"""The parquet files of a sweep: written whole or not at all, with checksums, and read with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..array_files import put
from ..errors import InvalidArgument
from ..optional import load


def parquet_module() -> Any:
    """pyarrow.parquet."""
    return load("pyarrow.parquet", "sweep")


def write_whole(table: Any, file: Path) -> None:
    """Put an arrow table into the folder under the file's name in one step."""
    with put(file) as temporary:
        parquet_module().write_table(table, temporary, compression="zstd", write_page_checksum=True)


def read_whole(file: Path) -> Any:
    """The arrow table of a file that `write_whole` wrote. Raises InvalidArgument where it is another, or was changed."""
    try:
        return parquet_module().read_table(file, page_checksum_verification=True)
    except (OSError, ValueError) as error:  # pyarrow's own are one of these
        reason = " ".join(str(error).split())[:200]
        raise InvalidArgument(f"{file} cannot be read: {reason}; the same sweep makes it again") from error


def is_whole(file: Path) -> bool:
    """Whether the file is there and can be read to its end."""
    try:
        return file.exists() and read_whole(file) is not None
    except InvalidArgument:
        return False
