"""Arrays by name in files of every format that pairs are read from.

.npz, .safetensors and files of torch.save (.pt, .pth, .bin) hold arrays under names. .npy holds p and q stacked, (2, ..., n), as one
tensor of torch may. .json is an object of nested lists, or a list of objects, .jsonl has one object per line; numbers are exact where
they are strings like "1/3". .csv and .tsv have columns p and q, one token per row, and a column `pair` where there are several pairs;
decimals may have commas. .parquet has columns of lists, one row per pair. Text may be compressed (.gz).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from ..array_files import Column, array_names, kept, reading, stored_array
from ..errors import InvalidDistribution
from .records import HOLDS, by_known_name
from .tensor_files import read_npy, read_parquet, read_torch, tensors
from .text_files import read_json, read_json_lines, read_table


def read_npz(file: Path) -> dict[str, Column]:
    """Its arrays by name."""
    return {name: stored_array(file, name, HOLDS) for name in array_names(file, HOLDS)}


TEXT: dict[str, Callable[[Path], dict[str, Column]]] = {
    ".json": partial(kept, read_json), ".jsonl": partial(kept, read_json_lines),
    ".csv": partial(kept, read_table), ".tsv": partial(kept, read_table),
}  # fmt: skip
TENSORS: dict[str, Callable[[Path], dict[str, Column]]] = {
    ".npz": read_npz, ".npy": read_npy, ".safetensors": tensors, ".parquet": partial(kept, read_parquet),
    ".pt": partial(kept, read_torch), ".pth": partial(kept, read_torch), ".bin": partial(kept, read_torch),
}  # fmt: skip


def columns(file: Path, draft: Path | None = None) -> dict[str, Column]:
    """The arrays that the file holds, by name, unread where the format allows it.

    draft: an .npy file of q, where `file` is one of p. Raises InvalidDistribution for a file that is broken or of another format.
    """
    if draft is not None:
        wrong = [str(each) for each in (file, draft) if _ending(each) != ".npy"]
        if wrong:
            raise InvalidDistribution(
                f"two files must be .npy, p first, got {wrong[0]}. Save both arrays in one .npz file."
            )
        return {"p": stored_array(file, "", HOLDS), "q": stored_array(draft, "", HOLDS)}
    kind, readers = _ending(file), TENSORS | TEXT | {f"{kind}.gz": read for kind, read in TEXT.items()}
    if kind not in readers:
        raise InvalidDistribution(
            f"{file} must end in {', '.join((*TENSORS, *TEXT))}, got {kind or 'no ending'!r}. Convert it as in examples/convert.md."
        )
    with reading(file, HOLDS), file.open("rb"):  # a file that cannot be opened is told by the system's reason
        return by_known_name(readers[kind](file), str(file))


def _ending(file: Path) -> str:
    """The kind of a file in small letters: .npz, .csv.gz."""
    kind = file.suffix.lower()
    return f"{Path(file.stem).suffix.lower()}.gz" if kind == ".gz" else kind


def is_known(file: Path, kinds: tuple[str, ...]) -> bool:
    """Whether its name ends in one of the kinds."""
    return _ending(file) in kinds
