"""`ot-draft capture`: run two models over texts once, keep their logits, study everything else without them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from ...array_files import put, remove_remains
from ...errors import DraftSelectionError, MissingPackage
from ...pairs import open_shards
from ..console import one_line, progress_bar
from ..options import can_write_into
from ..refused import Refused

MANIFEST, PACKAGES = "capture.json", ("torch", "transformers", "ot_draft")
LOOKED_AT = 1024  # numbers of a weight
EPILOG = """\b
ot-draft capture --text book.txt --out captured
ot-draft sweep captured --out swept --k 2,4,8
ot-draft capture --text prompts.jsonl --sample 128 --out written
ot-draft replay written --csv > traces.csv
ot-draft plan --costs costs.json --traces traces.csv"""


@click.command(epilog=EPILOG)
@click.option("--text", "files", multiple=True, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="A text, or .jsonl with one a line (`text`, and `messages` before it); may be given several times.")  # fmt: skip
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path),
              help="Folder of the shards, one a window; the same capture goes on where it was stopped.")  # fmt: skip
@click.option("--target", help="Directory, GGUF file or hub name [default: the embedded SmolLM2-135M-Instruct].")
@click.option(
    "--draft", help="The same, or safetensors of layers for the target's embedding [default: the embedded one]."
)
@click.option("--dtype", default="float32", show_default=True, help="Of both models' weights.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--device-map", help="How accelerate spreads the target over devices: auto, ...")
@click.option("--sample", type=click.IntRange(0), default=0, show_default=True,
              help="Tokens that the target writes behind each text, which are read in its place.")  # fmt: skip
@click.option("--context", type=click.IntRange(2), default=512, show_default=True, help="Tokens of a window.")
@click.option("--positions", type=click.IntRange(0), default=32, show_default=True,
              help="Contexts of a window, evenly spaced (0: all); of sampled tokens all are kept.")  # fmt: skip
@click.option("--skip", type=click.IntRange(1), default=8, show_default=True, help="Tokens before the first context.")
@click.option("--store", type=click.Choice(["logits", "laws"]), default="logits", show_default=True,
              help="Logits serve all temperatures; laws p and q are at --temperature.")  # fmt: skip
@click.option("--number", type=click.Choice(["float32", "float16"]), default="float32", show_default=True,
              help="Of stored logits; laws are in float64.")  # fmt: skip
@click.option("--top", type=click.IntRange(0), default=0, show_default=True,
              help="Laws on the heaviest tokens and 32 classes of the others (0: on all tokens).")  # fmt: skip
@click.option("--temperature", type=float, default=1.0, show_default=True, help="Of sampled tokens and stored laws.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of sampled tokens.")
@click.option("--format", "kind", type=click.Choice(["npz", "safetensors"]), default="npz", show_default=True)
def capture(
    files: tuple[Path, ...], out: Path, target: str | None, draft: str | None, dtype: str, device: str,
    device_map: str | None, kind: str, **wanted: Any
) -> None:  # fmt: skip
    """Write the logits of both models at the contexts of texts to shards that `ot-draft sweep` reads.

    Every row is the pair of laws of one token, given the text before it. That is all that the selection of one token depends
    on; along a text that the target wrote (--sample) it also gives the block efficiency of token-wise rules with K i.i.d.
    paths (ot-draft replay). Rules that judge a whole drafted path (Joint, Traversal, BlockVerification)
    need the laws behind refused drafts too: ot-draft decode --trace records these.
    """
    if wanted["top"] and wanted["store"] == "logits":
        raise Refused("--top merges tokens, which holds for one temperature only: add --store laws")
    try:
        from ...decoding import SamplingParams
        from ..embedded import load_models
        from .shards import Reading, capture_window, read_texts, windows
    except ModuleNotFoundError as error:
        raise Refused(str(MissingPackage(str(error.name), "llm"))) from error
    can_write_into("--out", out)
    out.mkdir(parents=True, exist_ok=True)
    reading = Reading(**wanted)
    models = {"target": target, "draft": draft, "dtype": dtype}
    with one_line((DraftSelectionError, ValueError, OSError)):
        SamplingParams(temperature=reading.temperature)
        entries = read_texts(files)
        settings = models | asdict(reading) | {"format": kind}
        check_folder(out, settings, files)
        pair = load_models(target, draft, dtype, device, device_map, packed=False)
        check_folder(out, settings | {"weights": [fingerprint(pair.target), fingerprint(pair.draft)]}, files)
        planned = windows(entries, pair, reading)
        if not planned:
            raise Refused(f"no text has more than --skip {reading.skip} tokens: give longer texts")
        rows, again = write_windows(out, kind, planned, lambda window: capture_window(pair, window, reading))
    size = sum(file.stat().st_size for file in out.glob(f"window-*.{kind}"))
    kept = f", {again} windows were there already" if again else ""
    click.echo(f"{rows} contexts of {len(planned) - again} windows to {out}{kept}; {size:,} bytes in all")


def check_folder(out: Path, settings: dict[str, Any], files: tuple[Path, ...]) -> None:
    """Refused where the folder holds another capture; in a new one write the manifest, once the weights are among the settings."""
    wanted = settings | {
        "texts": [[file.name, hashlib.sha256(file.read_bytes()).hexdigest()] for file in files],
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
    }
    manifest = out / MANIFEST
    if manifest.exists():
        stored = _stored(manifest)
        other = sorted(name for name in wanted if wanted[name] != stored.get(name))
        if other:
            raise Refused(
                f"{out} holds a capture with other {', '.join(other)}: name another folder, or empty this one"
            )
    elif any(file for file in out.iterdir() if not file.name.startswith(".")):
        raise Refused(f"{out} holds files and no {MANIFEST}: name an empty folder")
    elif "weights" in wanted:
        with put(manifest) as temporary:
            temporary.write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")


def _stored(manifest: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(manifest.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise Refused(f"{manifest} says nothing of a capture: name another folder, or empty this one") from error


def fingerprint(model: Any) -> str:
    """Hash of some numbers of every weight: another model has another, however it was trained, but for a few changed numbers."""
    hashed = hashlib.blake2b(digest_size=16)
    for name, weight in sorted(model.state_dict().items()):
        numbers = weight.detach().flatten()
        some = numbers[:: max(1, len(numbers) // LOOKED_AT)].cpu().double().numpy()
        hashed.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode() + some.tobytes())
    return hashed.hexdigest()


def write_windows(
    out: Path, kind: str, planned: Sequence[Any], read: Callable[[Any], dict[str, Any]]
) -> tuple[int, int]:
    """A shard for every window that has none yet: rows written, and windows that were there already."""
    rows = again = 0
    with progress_bar(len(planned), "windows") as advance:
        for number, window in enumerate(planned):
            file = out / f"window-{number:06}.{kind}"
            if _is_whole(file):
                again += 1
            else:
                arrays = read(window)
                write(file, arrays)
                rows += len(arrays["token"])
            advance()
    remove_remains(out, "window-")
    return rows, again


def _is_whole(file: Path) -> bool:
    """Whether the shard is there, and holds what was written."""
    try:
        return file.exists() and bool(open_shards([file]))
    except DraftSelectionError:
        return False


def write(file: Path, arrays: dict[str, Any]) -> None:
    """All of the file or nothing: a kill leaves no half shard behind."""
    with put(file) as temporary:
        if file.suffix == ".npz":
            np.savez(temporary, allow_pickle=False, **arrays)  # not compressed: rows are then read without the rest
        else:
            from safetensors.numpy import save_file

            save_file({name: np.ascontiguousarray(values) for name, values in arrays.items()}, temporary)


if __name__ == "__main__":
    capture()
