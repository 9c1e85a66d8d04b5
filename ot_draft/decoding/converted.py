"""Cache of converted GGUF files, by the hash of their content."""

import hashlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

SIZES = "sizes.json"  # of the other files of a folder: what was cut short is not read


def cache_folder() -> Path:
    """Folder of converted files: OT_DRAFT_CACHE, or ot_draft in the user's cache folder. OSError for a user without a home."""
    own = os.environ.get("OT_DRAFT_CACHE")
    if own:
        return Path(own)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ot_draft"
    except RuntimeError as error:  # as in a container whose user has no name
        raise FileNotFoundError(str(error)) from None


def converted(file: Path, convert: Callable[[Path], None], cache: Path | None = None) -> Path | None:
    """The folder of a GGUF file, named by a hash of its content and transformers' version; `convert` fills it the first time.

    cache: the folder that holds such folders. None comes back where nothing can be written there, with a warning.
    """
    try:
        cache = cache or cache_folder()
        folder = cache / _name(file)
        if _whole(folder):
            return folder
        cache.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(dir=cache, prefix=".making-"))
        try:
            convert(making)
            (making / SIZES).write_text(json.dumps(_files(making)), encoding="utf-8")
            _move(making, folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    except OSError as error:
        warnings.warn(
            f"{file.name} is read again every time, since {cache or 'the cache folder'} cannot be written ({error}): "
            "set OT_DRAFT_CACHE to a folder that can",
            stacklevel=2,
        )
        return None
    return folder


def _move(making: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # of a conversion that was cut short
    try:
        making.rename(folder)
    except OSError:
        if not _whole(folder):  # no other process was first
            raise


def _name(file: Path) -> str:
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    layout = 4  # version of what a folder holds
    return f"{file.stem}-{digest}-transformers-{version('transformers')}-{layout}"


def _files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.name != SIZES}


def _whole(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / SIZES).read_text(encoding="utf-8")) == _files(folder))
    except (OSError, ValueError):
        return False
