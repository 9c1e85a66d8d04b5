"""`ot-draft capture`: run two models over texts once, keep their logits, study everything else without them."""

from __future__ import annotations

import hashlib
import importlib.metadata
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from ...array_files import atomic_write, differences, remove_partial_files, write_json
from ...data import open_shards
from ...errors import DraftSelectionError
from ..console import one_line, progress_bar
from ..options import DEFAULTS, Place, can_write_into
from ..refused import Refused
from ..replay import MANIFEST

PACKAGES = ("torch", "transformers", "ot_draft")
LOOKED_AT = 1024  # numbers of a weight
EPILOG = """\b
ot-draft capture --text book.txt --out captured
ot-draft sweep captured --out swept --k 2,4,8
ot-draft capture --text prompts.jsonl --sample 128 --out written
ot-draft replay written --csv > traces.csv
ot-draft plan --costs costs.json --traces traces.csv"""


@click.command(context_settings=DEFAULTS, epilog=EPILOG)
@click.option("--text", "files", multiple=True, required=True, type=Place(exists=True, dir_okay=False),
              help="A text, or .jsonl with one a line (`text`, and `messages` before it); may be given several times.")  # fmt: skip
@click.option("--out", required=True, type=Place(file_okay=False),
              help="Folder of the shards, one a window; the same capture goes on where it was stopped.")  # fmt: skip
@click.option("--target", help="Directory, GGUF file or hub name [default: the embedded SmolLM2-135M-Instruct].")
@click.option("--draft", help="The same, or safetensors of layers for the target's embedding [default: embedded].")
@click.option("--dtype", default="float32", help="Of both models' weights.")
@click.option("--device", default="cpu")
@click.option("--device-map", help="How accelerate spreads the target over devices: auto, ...")
@click.option("--sample", type=click.IntRange(0), default=0,
              help="Tokens that the target writes behind each text, which are read in its place.")  # fmt: skip
@click.option("--context", type=click.IntRange(2), default=512, help="Tokens of a window.")
@click.option("--positions", type=click.IntRange(0), default=32,
              help="Contexts of a window, evenly spaced (0: all); of sampled tokens all are kept.")  # fmt: skip
@click.option("--skip", type=click.IntRange(1), default=8, help="Tokens before the first context.")
@click.option("--store", type=click.Choice(["logits", "laws"]), default="logits",
              help="Logits serve all temperatures; laws p and q are at --temperature.")  # fmt: skip
@click.option("--number", type=click.Choice(["float32", "float16"]), default="float32",
              help="Of stored logits; laws are in float64.")  # fmt: skip
@click.option("--top", type=click.IntRange(0), default=0,
              help="Laws on the heaviest tokens and 32 classes of the others (0: on all tokens).")  # fmt: skip
@click.option("--temperature", type=float, default=1.0, help="Of sampled tokens and stored laws.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Of sampled tokens.")
@click.option("--format", "kind", type=click.Choice(["npz", "safetensors"]), default="npz")
def capture(
    files: tuple[Path, ...], out: Path, target: str | None, draft: str | None, dtype: str, device: str,
    device_map: str | None, kind: str, **wanted: Any
) -> None:  # fmt: skip
    """Write the logits of both models at the contexts of texts to shards that `ot-draft sweep` reads.

    Every row is the pair of laws of one token, given the text before it. That is all that the selection of one token depends
    on; along a text that the target wrote (--sample) it also gives the block efficiency of token-wise rules with K i.i.d.
    paths (ot-draft replay). Rules that judge a whole drafted path (Joint, Traversal, BlockVerification)
    need the laws behind refused drafts too: they are measured by ot-draft decode --compare.
    """
    if wanted["top"] and wanted["store"] == "logits":
        raise Refused("--top merges tokens, which holds for one temperature only: add --store laws")
    from ...decoding import SamplingParams
    from ..embedded import load_models
    from .shards import Reading, capture_window, read_texts, windows

    can_write_into("--out", out)
    out.mkdir(parents=True, exist_ok=True)
    reading = Reading(**wanted)
    models = {"target": target, "draft": draft, "dtype": dtype}
    with one_line((DraftSelectionError, ValueError, OSError)):
        SamplingParams(temperature=reading.temperature)
        entries = read_texts(files)
        settings = models | asdict(reading) | {"format": kind}
        check_folder(out, settings, files)
        pair = load_models(target, draft, dtype, device, device_map, backend="torch")
        check_folder(out, settings | {"weights": [fingerprint(pair.target), fingerprint(pair.draft)]}, files)
        planned = windows(entries, pair, reading)
        if not planned:
            raise Refused(f"no text has more than --skip {reading.skip} tokens: give longer texts")
        rows = again = 0  # written, and windows that were there already
        with progress_bar(len(planned), "windows") as advance:
            for number, window in enumerate(planned):
                file = out / f"window-{number:06}.{kind}"
                if _is_whole(file):
                    again += 1
                else:
                    arrays = capture_window(pair, window, reading)
                    write(file, arrays)
                    rows += len(arrays["token"])
                advance()
        remove_partial_files(out, "window-")
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
        if other := differences(manifest, wanted):
            raise Refused(f"{out} holds a capture with other {other}: name another folder, or empty this one")
    elif any(file for file in out.iterdir() if not file.name.startswith(".")):
        raise Refused(f"{out} holds files and no {MANIFEST}: name an empty folder")
    elif "weights" in wanted:
        write_json(manifest, wanted)


def fingerprint(model: Any) -> str:
    """Hash of some numbers of every weight: another model has another, however it was trained, but for a few changed numbers."""
    hashed = hashlib.blake2b(digest_size=16)
    for name, weight in sorted(model.state_dict().items()):
        numbers = weight.detach().flatten()
        some = numbers[:: max(1, len(numbers) // LOOKED_AT)].cpu().double().numpy()
        hashed.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode() + some.tobytes())
    return hashed.hexdigest()


def _is_whole(file: Path) -> bool:
    """Whether the shard is there, and holds what was written."""
    try:
        return file.exists() and bool(open_shards([file]))
    except DraftSelectionError:
        return False


def write(file: Path, arrays: dict[str, Any]) -> None:
    """All of the file or nothing: a kill leaves no half shard behind."""
    with atomic_write(file) as temporary:
        if file.suffix == ".npz":
            np.savez(temporary, allow_pickle=False, **arrays)  # not compressed: rows are then read without the rest
        else:
            from safetensors.numpy import save_file

            save_file({name: np.ascontiguousarray(values) for name, values in arrays.items()}, temporary)
