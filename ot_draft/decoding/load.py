"""Load a target and a draft: any two causal language models of transformers with one vocabulary, or layers for the target's own."""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ..errors import CannotDecode, MissingPackage
from .cpu import group_heads, has_short_products, pack, pack_draft, pack_float16
from .draft_models import StateDraft, SubsetDraft
from .pair import Pair

HUB_SECONDS = 10.0
LOOKUP = "lookup"  # in the place of a draft model's name
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}


def load_pair(
    target: str,
    draft: str,
    dtype: str = "float32",
    device: str = "cpu",
    device_map: str | None = None,
    packed: bool = True,
    assistant: str | None = None,
    cache: bool = True,
    progress: Callable[[str], object] = lambda stage: None,
) -> Pair:
    """Load two models: each a directory, a GGUF file or the name of a hub model.

    draft: also a safetensors file of layers that share the target's embedding, as `load_draft` reads it; or `lookup`, for no draft model
    at all. device_map: how accelerate spreads the target over devices ("auto"), in the place of `device`. packed: bring the weights of
    float32 models on a CPU into the layout that its matrix products want (`pack`), and those of the draft to 8 and 16 bits
    (`pack_draft`, `pack_float16`: its law is what it computes so), but not where accelerate has spread the target. float16 on a CPU
    that has such products: weights of 16 bits (`pack_float16`), while all that is computed is float32. assistant: a safetensors file of
    layers, for transformers' own generation (`Pair`). cache: keep what a GGUF file was converted to, as `converted` does, and read it
    from there the next time. progress: is told every stage as it begins.
    """
    if dtype not in DTYPES:
        raise CannotDecode(f"dtype is {dtype!r}: give one of {', '.join(DTYPES)}")
    where = _device(device)
    packed = packed and device_map is None
    short = packed and dtype == "float16" and where.type == "cpu" and has_short_products()
    number = torch.float32 if short else DTYPES[dtype]
    _check_there(target, draft)
    progress("importing transformers")
    _import_transformers()
    progress(f"reading the target, {Path(target).name}")
    big, tokenizer = _model_and_tokenizer(target, "target", cache, number, where, device_map, progress)
    small: Any = None
    if draft != LOOKUP:
        progress(f"reading the draft, {Path(draft).name}")
    if Path(draft).suffix == ".safetensors":
        small = _own_draft(big, Path(draft))
    elif draft != LOOKUP:
        small, theirs = _model_and_tokenizer(draft, "draft", cache, number, where, None, progress)
        _check_one_vocabulary(tokenizer, theirs)
    other = None if assistant is None else _own_draft(big, Path(assistant))
    if packed:
        progress("laying out the weights")
        _pack(big, (small, other), short)
    return Pair(big, small, tokenizer, assistant=other)


def _check_there(target: str, draft: str) -> None:
    """CannotDecode for a name that is nothing, before anything is loaded."""
    sources = [_source(target, "target")]
    if Path(draft).suffix == ".safetensors":
        _check_file(Path(draft))
    elif draft != LOOKUP:
        sources.append(_source(draft, "draft"))
    if all(arguments for _, arguments in sources):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported: local files ask no hub


def _check_file(draft: Path) -> None:
    if not draft.is_file():
        raise CannotDecode(
            f"draft {str(draft)!r} is not there: give a directory, a .gguf file or the name of a hub model"
        )


def _import_transformers() -> Any:
    if importlib.util.find_spec("transformers") is None:
        raise CannotDecode(str(MissingPackage("transformers", "llm")))
    import transformers

    return transformers


def _check_one_vocabulary(tokenizer: Any, theirs: Any) -> None:
    if theirs.get_vocab() != tokenizer.get_vocab():
        raise CannotDecode(
            f"the tokenizers differ ({len(tokenizer)} tokens in the target's, {len(theirs)} in the draft's, or other ids):"
            " take two models of one family"
        )


def _pack(target: Any, drafts: Sequence[Any], short: bool) -> None:
    """short: the target's weights in 16 bits too."""
    from .cpu_llama import make_lean  # which imports transformers

    there = [draft for draft in drafts if draft is not None]
    for draft in there:
        pack_draft(draft)
        pack_float16(draft)
    if short:
        pack_float16(target)
    for model in (target, *there):
        pack(model)
        group_heads(model)
        make_lean(model)


@contextmanager
def _gguf_read_once(name: str) -> Iterator[None]:
    """transformers parses a GGUF file for the configuration, for the tokenizer and for the weights: seconds each, all the same."""
    if Path(name).suffix != ".gguf" or importlib.util.find_spec("gguf") is None:
        yield
        return
    import gguf

    reader = gguf.GGUFReader
    gguf.GGUFReader = cache(reader)  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        gguf.GGUFReader = reader  # type: ignore[misc]


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise CannotDecode(f"device is {name!r}: give cpu or cuda") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise CannotDecode(f"device is {name!r}, and torch finds no CUDA device here: take --device cpu")
    return device


def _source(name: str, role: str) -> tuple[str, dict[str, Any]]:
    """First argument and options of `from_pretrained` for a model or a tokenizer."""
    path = Path(name)
    if path.is_dir():
        return str(path), {"local_files_only": True}
    if path.is_file() and path.suffix == ".gguf":
        return str(path.parent), {"gguf_file": path.name, "local_files_only": True}
    if path.exists():
        raise CannotDecode(f"{role} {name!r} is neither a directory nor a .gguf file")
    looks_local = path.is_absolute() or name.startswith((".", "~")) or path.suffix in (".gguf", ".safetensors")
    if looks_local or len(path.parts) > 2 or (len(path.parts) == 2 and Path(path.parts[0]).is_dir()):  # not owner/model
        raise CannotDecode(f"{role} {name!r} is not there: give a directory, a .gguf file or the name of a hub model")
    _ask_hub(name, role)
    return name, {}


@cache
def _ask_hub(name: str, role: str) -> None:
    """One question, before transformers asks five times: CannotDecode where the hub cannot be reached, or has no such model."""
    if importlib.util.find_spec("huggingface_hub") is None:
        return
    import huggingface_hub as hub

    if isinstance(hub.try_to_load_from_cache(name, "config.json"), str):
        return
    try:
        hub.HfApi().model_info(name, timeout=HUB_SECONDS)
    except Exception as error:  # of the hub's, of its HTTP client's, of the system's
        reason = " ".join(str(error).split())[:160]
        raise CannotDecode(
            f"{role} {name!r} is no directory or file here, and the hub has no such model or cannot be reached: give a directory, a"
            f" .gguf file or the name of a hub model ({type(error).__name__}: {reason})"
        ) from None


def _load(kind: str, name: str, role: str, **options: Any) -> Any:
    source, arguments = _source(name, role)
    transformers = _import_transformers()
    if "gguf_file" in arguments and kind == "AutoModelForCausalLM":
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    try:
        return getattr(transformers, kind).from_pretrained(source, **arguments, **options)
    except (OSError, ValueError, ImportError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CannotDecode(
            f"{role} {name!r} cannot be loaded, neither from this machine nor from the hub: {reason}"
        ) from None


def _model_and_tokenizer(
    name: str, role: str, cache: bool, dtype: torch.dtype, device: torch.device, device_map: str | None, progress: Any
) -> tuple[Any, Any]:
    if cache and name.endswith(".gguf") and Path(name).is_file():
        name = str(_as_folder(Path(name), progress) or name)
    with _gguf_read_once(name):
        return _model(name, role, dtype, device, device_map), _tokenizer(name, role)


def _as_folder(file: Path, progress: Callable[[str], object] = lambda stage: None) -> Path | None:
    """The folder that a GGUF file was converted to, in float32, now or at an earlier time; None where there is no place for it."""

    def convert(folder: Path) -> None:
        progress(f"converting {file.name}, this once")
        with _gguf_read_once(str(file)):
            _model(str(file), "target", torch.float32, torch.device("cpu"), None).save_pretrained(folder)
            _tokenizer(str(file), "target").save_pretrained(folder)

    return converted(file, convert)


def _model(name: str, role: str, dtype: torch.dtype, device: torch.device, device_map: str | None) -> Any:
    spread = {"device_map": device_map} if device_map else {}
    model = _load("AutoModelForCausalLM", name, role, dtype=dtype, attn_implementation="sdpa", **spread)
    return (model if device_map else model.to(device)).eval().requires_grad_(False)


def _tokenizer(name: str, role: str) -> Any:
    return _load("AutoTokenizer", name, role)


def _own_draft(target: Any, file: Path) -> Any:
    _check_file(file)
    try:
        return load_draft(target, file)
    except (RuntimeError, KeyError, AttributeError, IndexError) as error:
        raise CannotDecode(
            f"draft {file.name} does not fit the target: it belongs to another target, name a draft for this one "
            f"({type(error).__name__})"
        ) from None


def load_draft(target: Any, file: Path) -> SubsetDraft:
    """A draft of a file of layers, in the number type of the given target and on its device, with its embedding (shared, not copied).

    The file holds the tensors of a `LlamaModel` without its embedding, and `vocabulary_subset`: the ids (s,) of the tokens that the
    draft scores. If it holds `reads`, too, the numbers of layers after which the draft reads the target's hidden states, it is a
    `StateDraft`, and holds its `fuse`, `norm_states` and `project`.
    """
    import transformers
    from safetensors.torch import load_file
    from transformers.initialization import no_init_weights

    tensors = load_file(file)
    vocabulary_subset, reads = tensors.pop("vocabulary_subset"), tensors.pop("reads", None)
    config = copy.deepcopy(target.config)
    config.num_hidden_layers = 1 + max(int(name.split(".")[2]) for name in tensors if ".layers." in name)
    config.intermediate_size = len(tensors["model.layers.0.mlp.gate_proj.weight"])
    with no_init_weights():  # all are read below
        backbone = transformers.LlamaModel(config)
    embedding = target.get_input_embeddings()
    backbone.set_input_embeddings(embedding)
    own = {name.removeprefix("model."): tensor for name, tensor in tensors.items() if name.startswith("model.")}
    backbone.load_state_dict({**own, "embed_tokens.weight": embedding.weight})
    draft = SubsetDraft(backbone, embedding, vocabulary_subset)
    if reads is not None:
        draft = StateDraft(backbone, embedding, vocabulary_subset, reads.tolist())
        others = {name: tensor for name, tensor in tensors.items() if not name.startswith("model.")}
        draft.load_state_dict({**draft.state_dict(), **others})
    return draft.to(embedding.weight.device, embedding.weight.dtype).eval().requires_grad_(False)


SIZES = "sizes.json"  # of the other files of a folder: what was cut short is not read


def cache_folder() -> Path:
    """Where converted files are kept: OT_DRAFT_CACHE, or ot_draft in the user's cache folder."""
    own = os.environ.get("OT_DRAFT_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ot_draft"


def converted(file: Path, convert: Callable[[Path], None], cache: Path | None = None) -> Path | None:
    """The folder of a GGUF file, named by a hash of its content and transformers' version; `convert` fills it the first time.

    cache: the folder that holds such folders. None comes back where nothing can be written there, with a warning.
    """
    cache = cache or cache_folder()
    folder = cache / _name(file)
    if _whole(folder):
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(dir=cache, prefix=".making-"))
        try:
            convert(making)
            _write_sizes(making)
            _move(making, folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    except OSError as error:
        warnings.warn(
            f"{file.name} is read anew every time, since {cache} cannot be written ({error}): "
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
    import transformers

    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    return f"{file.stem}-{digest}-transformers-{transformers.__version__}"


def _files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.name != SIZES}


def _write_sizes(folder: Path) -> None:
    (folder / SIZES).write_text(json.dumps(_files(folder)), encoding="utf-8")


def _whole(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / SIZES).read_text(encoding="utf-8")) == _files(folder))
    except (OSError, ValueError):
        return False
