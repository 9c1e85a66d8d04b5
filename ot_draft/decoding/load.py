"""Load a target and a draft: any two causal language models of transformers with one vocabulary, or layers for the target's own.

Torch computes the forward passes, by transformers' own models, unless a registered backend (`backends.py`) does.
"""

from __future__ import annotations

import copy
import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from .. import defaults
from ..draft_spec import Chain, DraftSpec, EarlyExit, NamedModel, OtherTokenizer, SkipLayers
from ..errors import CannotDecode, MissingPackage
from .backends import TORCH, LoadRequest, Progress, backend_called, resolve
from .converted import converted
from .draft_models import IntersectionDraft, StateDraft, SubsetDraft
from .gguf_files import check_read_whole, write_blocks
from .pair import Pair
from .self_draft import self_draft
from .text_draft import TextDraft
from .tokens import Tokenizer

__all__ = [
    "DTYPES",
    "by_transformers",
    "check_one_vocabulary",
    "draft_alone",
    "folder_of",
    "own_draft",
    "tokenizer_of",
]

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}


def load_pair(
    target: str,
    draft: str,
    dtype: str = defaults.DTYPE,
    device: str = defaults.DEVICE,
    device_map: str | None = None,
    assistant: str | None = None,
    cache: bool = True,
    progress: Progress = lambda stage: None,
    backend: str = defaults.BACKEND,
    tokens: int | None = None,
) -> Pair:
    """Load a target and a draft model.

    Parameters
    ----------
    target : str
        A directory, a GGUF file or the name of a hub model.
    draft : str
        As for `DraftSpec.parse`; also a .safetensors file of layers, as `load_draft` reads it.
    dtype : str, default="float32"
        Data type of weights and activations: float32, bfloat16, float16 or float64.
    device : str, default="cpu"
        Torch device of the models.
    device_map : str, optional
        device_map of accelerate for the target, instead of `device`.
    assistant : str, optional
        A .safetensors file of layers, for transformers' own generation.
    cache : bool, default=True
        Whether to keep converted GGUF files, and read them from there.
    progress : callable
        Called with the name of every stage as it begins.
    backend : str, default="auto"
        torch: the models are of transformers and torch. The name of a registered backend. auto: the first registered backend that takes the
        target with these settings, else torch.
    tokens : int, optional
        Number of tokens that will be decoded; a backend may prepare less for few.

    Returns
    -------
    pair : Pair
        Both models and the target's tokenizer.

    Raises
    ------
    CannotDecode
        If a model does not exist, is incomplete, or does not fit the other one or the settings.
    MissingPackage
        If a package that the backend needs is not installed.

    Examples
    --------
    >>> load_pair("HuggingFaceTB/SmolLM2-1.7B-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct")  # doctest: +SKIP
    >>> load_pair("my-target.gguf", "skip:12,20")  # doctest: +SKIP
    """
    spec = DraftSpec.parse(draft)
    named = spec.loaded_with_target
    if dtype not in DTYPES:
        raise CannotDecode(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}. Use one of them.")
    other = None if backend in ("auto", TORCH) else backend_called(backend)
    where = _device(device) if other is None else torch.device("cpu")
    request = LoadRequest(target, named, assistant, dtype, device, where, device_map, cache, progress, tokens)
    if other is not None:
        other.check(request)
    _check_there(target, named)
    why = ""
    if backend == "auto":
        fits = request.float32_on_cpu and not spec.needs_torch and Path(target).exists()
        backend, why = resolve(folder_of(Path(target), progress) if fits else None)
        other = None if backend == TORCH else backend_called(backend)
    progress(f"reading the target, {Path(target).name}")
    pair = torch_pair(request) if other is None else other.load(request)
    how = dtype, device, device_map, backend, pair.name
    name = repr([_as_it_is(target), _as_it_is(draft), *how]) if cache else ""
    pair = replace(pair, name=name, backend=backend, no_faster=why)
    return with_draft(pair, spec, request) if named is None else pair


def with_draft(pair: Pair, spec: DraftSpec, request: LoadRequest) -> Pair:
    """Return the pair with the draft of a specification, or of a named model that is not loaded with the target."""
    match spec:
        case SkipLayers() | EarlyExit():
            return replace(pair, draft=self_draft(pair.target, spec))
        case OtherTokenizer(name, by_text):
            model, tokenizer = draft_alone(request, pair, name)
            if by_text:
                return replace(pair, text_draft=TextDraft(model, tokenizer, pair.tokenizer))
            return replace(pair, draft=IntersectionDraft.of(model, tokenizer, pair.tokenizer, pair.n))
        case NamedModel(name):
            model, tokenizer = draft_alone(request, pair, name)
            if tokenizer is not pair.tokenizer:
                check_one_vocabulary(pair.tokenizer, tokenizer)
            return replace(pair, draft=model)
        case Chain(first, second):
            return replace(with_draft(pair, first, request), cascade=with_draft(pair, second, request).draft)
    return pair


def _as_it_is(name: str) -> tuple[Any, ...]:
    """A name, and of a file or folder what tells that it was changed."""
    path = Path(name)
    return (str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) if name and path.exists() else (name,)


def torch_pair(request: LoadRequest) -> Pair:
    """Both models by transformers."""
    big, tokenizer = _model_and_tokenizer(request, request.target, "target", request.device_map)
    small: Any = None
    if request.draft is not None:
        request.progress(f"reading the draft, {Path(request.draft).name}")
        if Path(request.draft).suffix == ".safetensors":
            small = own_draft(big, Path(request.draft))
        else:
            small, theirs = _model_and_tokenizer(request, request.draft, "draft", None)
            check_one_vocabulary(tokenizer, theirs)
    other = None if request.assistant is None else own_draft(big, Path(request.assistant))
    return Pair(big, small, tokenizer, assistant=other, law=f"{request.dtype} weights")


def draft_alone(request: LoadRequest, pair: Pair, name: str) -> tuple[Any, Any]:
    """A further draft model for this target and its tokenizer: by transformers if it is neither layers nor the target engine's own kind."""
    request.progress(f"reading the draft, {Path(name).name}")
    if Path(name).suffix == ".safetensors":
        return own_draft(pair.target, Path(name)), pair.tokenizer
    if hasattr(pair.target, "beside") and Path(name).suffix == ".gguf":
        model = pair.target.beside(Path(name))
        return model, model.tokenizer
    return _model_and_tokenizer(request, name, "draft", None)


def by_transformers(request: LoadRequest) -> Callable[[], Pair]:
    """The loader of the same target, and of what its own generation can ask, by transformers."""

    def load() -> Pair:
        draft = request.draft if request.assistant is None else request.assistant
        request.progress(f"reading the target, {Path(request.target).name}")
        found = torch_pair(replace(request, draft=draft, assistant=None))
        return found if found.assisting is not None else replace(found, draft=None)

    return load


def _model_and_tokenizer(request: LoadRequest, name: str, role: str, device_map: str | None) -> tuple[Any, Any]:
    if request.cache and name.endswith(".gguf") and Path(name).is_file():
        name = str(folder_of(Path(name), request.progress) or name)
    request.progress("importing transformers")
    with _gguf_read_once(name):
        model = _model(name, role, DTYPES[request.dtype], request.torch_device, device_map)
        return model, _tokenizer(name, role)


def _check_there(target: str, draft: str | None) -> None:
    """CannotDecode for a name that is nothing, before anything is loaded."""
    sources = [_source(target, "target")]
    if draft is not None and Path(draft).suffix == ".safetensors":
        _check_file(Path(draft))
    elif draft is not None:
        sources.append(_source(draft, "draft"))
    if all(arguments for _, arguments in sources):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported: local files ask no hub


def _check_file(draft: Path) -> None:
    if not draft.is_file():
        raise CannotDecode(
            f"draft must be an existing file, got {str(draft)!r}. Use a directory, a .gguf file or the name of a hub model."
        )


def _import_transformers() -> Any:
    if importlib.util.find_spec("transformers") is None:
        raise CannotDecode(str(MissingPackage("transformers", "llm")))
    import transformers

    return transformers


def check_one_vocabulary(tokenizer: Any, theirs: Any) -> None:
    """CannotDecode unless equal ids are equal tokens as far as both go: tokens added at the end of one do no harm."""
    few, many = sorted((tokenizer.get_vocab(), theirs.get_vocab()), key=len)
    behind = max(few.values(), default=-1)
    other = [token for token, number in few.items() if many.get(token) != number]
    other += [token for token, number in many.items() if token not in few and number <= behind]
    if other:
        raise CannotDecode(
            f"the tokenizers differ ({len(tokenizer)} tokens in the target's, {len(theirs)} in the draft's), first in {other[0]!r}. Use"
            " two models of one family, or the draft tli:NAME (common tokens) or slem:NAME (by text)."
        )


@contextmanager
def _gguf_read_once(name: str) -> Iterator[None]:
    """transformers parses a GGUF file for the configuration, for the tokenizer and for the weights: seconds each, all the same."""
    if Path(name).suffix != ".gguf" or importlib.util.find_spec("gguf") is None:
        yield
        return
    import gguf

    reader = gguf.GGUFReader
    gguf.GGUFReader = cache(reader)
    try:
        yield
    finally:
        gguf.GGUFReader = reader


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise CannotDecode(f"device must be a torch device, got {name!r}. Use cpu or cuda.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise CannotDecode(f"device {name!r} requires CUDA, which torch does not find. Use --device cpu.")
    return device


def _source(name: str, role: str) -> tuple[str, dict[str, Any]]:
    """First argument and options of `from_pretrained` for a model or a tokenizer."""
    path = Path(name)
    if path.is_dir():
        return str(path), {"local_files_only": True}
    if path.is_file() and path.suffix == ".gguf":
        return str(path.parent), {"gguf_file": path.name, "local_files_only": True}
    if path.exists():
        raise CannotDecode(f"{role} must be a directory or a .gguf file, got {name!r}. Use another path.")
    looks_local = path.is_absolute() or name.startswith((".", "~")) or path.suffix in (".gguf", ".safetensors")
    if looks_local or len(path.parts) > 2 or (len(path.parts) == 2 and Path(path.parts[0]).is_dir()):  # not owner/model
        raise CannotDecode(f"{role} {name!r} does not exist. Use a directory, a .gguf file or the name of a hub model.")
    _ask_hub(name, role)
    return name, {}


@cache
def _ask_hub(name: str, role: str, timeout: float = 10.0) -> None:
    """One question, before transformers asks five times: CannotDecode where the hub cannot be reached, or has no such model."""
    if importlib.util.find_spec("huggingface_hub") is None:
        return
    import huggingface_hub as hub

    if isinstance(hub.try_to_load_from_cache(name, "config.json"), str):
        return
    try:
        hub.HfApi().model_info(name, timeout=timeout)
    except Exception as error:  # of the hub's, of its HTTP client's, of the system's
        reason = " ".join(str(error).split())[:160]
        raise CannotDecode(
            f"{role} {name!r} is not a local directory or file, and the hub has no such model or cannot be reached"
            f" ({type(error).__name__}: {reason}). Use a directory, a .gguf file or the name of a hub model."
        ) from None


def _load(kind: str, name: str, role: str, **options: Any) -> Any:
    source, arguments = _source(name, role)
    transformers = _import_transformers()
    if "gguf_file" in arguments and kind == "AutoModelForCausalLM":
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    try:
        return getattr(transformers, kind).from_pretrained(source, **arguments, **options)
    except (
        Exception
    ) as error:  # of transformers', huggingface_hub's or tokenizers' own, whose kinds have no common base
        reason = " ".join(str(error).split())[:200]
        raise CannotDecode(f"{role} {name!r} cannot be loaded from this machine or the hub: {reason}") from None


def folder_of(file: Path, progress: Callable[[str], object] = lambda stage: None) -> Path | None:
    """Return the folder with a GGUF file converted to float32, now or earlier; None if no folder is writable.

    A folder is returned as it is.
    """
    if file.is_dir():
        return file

    def convert(folder: Path) -> None:
        progress(f"converting {file.name}, this once")
        with _gguf_read_once(str(file)):
            model = _model(str(file), "target", torch.float32, torch.device("cpu"), None)
            model.save_pretrained(folder)
            _tokenizer(str(file), "target").save_pretrained(folder)
            if model.config.model_type == "llama":
                import gguf

                write_blocks(gguf.GGUFReader(file.parent / file.name), folder, model.config)

    return converted(file, convert)


def _model(name: str, role: str, dtype: torch.dtype, device: torch.device, device_map: str | None) -> Any:
    spread = {"device_map": device_map} if device_map else {}
    if Path(name).suffix == ".gguf" and Path(name).is_file() and importlib.util.find_spec("gguf") is not None:
        check_read_whole(_opened(Path(name)), Path(name).name)
    options = {"dtype": dtype, "attn_implementation": "sdpa", "output_loading_info": True}
    model, info = _load("AutoModelForCausalLM", name, role, **options, **spread)
    if lacks := min(
        info["missing_keys"], default=""
    ):  # which transformers would fill with random numbers, and say so in a warning
        raise CannotDecode(f"{role} {name!r} is incomplete: {lacks} is missing. Download it again.")
    return (model if device_map else model.to(device)).eval().requires_grad_(False)


def _opened(file: Path) -> Any:
    """A GGUF file by gguf's reader. CannotDecode for one that was cut short, or is none."""
    import gguf

    try:
        return gguf.GGUFReader(str(file))
    except (ValueError, IndexError, KeyError) as error:  # of numpy's views of what is not there
        raise CannotDecode(f"{file.name} must be a complete GGUF file ({error}). Download it again.") from None


def tokenizer_of(folder: Path, role: str) -> Any:
    """The tokenizer of a folder, without transformers where that is enough."""
    return Tokenizer.of(folder) or _tokenizer(str(folder), role)


def _tokenizer(name: str, role: str) -> Any:
    return _load("AutoTokenizer", name, role)


def own_draft(target: Any, file: Path) -> Any:
    _check_file(file)
    try:
        return target.draft(file) if hasattr(target, "as_model") else load_draft(target, file)
    except (RuntimeError, KeyError, AttributeError, IndexError) as error:
        told = " ".join(str(error).split())
        raise CannotDecode(
            f"draft must be made for this target, got {file.name}, which cannot be loaded with it ({type(error).__name__}: {told:.200})."
            " Use the draft model that was trained on this target, or another backend."
        ) from None


def load_draft(target: Any, file: Path) -> SubsetDraft:
    """Return the draft model of a file of layers, on the target's embedding, data type and device.

    Parameters
    ----------
    target : transformers.LlamaForCausalLM
        Its embedding is shared, not copied.
    file : Path
        A .safetensors file with the tensors of a `LlamaModel` without its embedding, and `vocabulary_subset`, the token ids (s,) that the
        draft model scores. With `reads`, the numbers of layers after which it reads the target's hidden states, it also has `fuse`,
        `norm_states` and `project`.

    Returns
    -------
    draft : SubsetDraft
        A `StateDraft` if it reads hidden states.

    Examples
    --------
    >>> load_draft(target, Path("draft.safetensors"))  # doctest: +SKIP
    """
    from safetensors.torch import load_file

    tensors = load_file(file)
    vocabulary_subset, reads = tensors.pop("vocabulary_subset"), tensors.pop("reads", None)
    config = copy.deepcopy(target.config)
    config.num_hidden_layers = 1 + max(int(name.split(".")[2]) for name in tensors if ".layers." in name)
    config.intermediate_size = len(tensors["model.layers.0.mlp.gate_proj.weight"])
    embedding = target.get_input_embeddings()
    backbone = _body(tensors, config, embedding)
    draft = SubsetDraft(backbone, embedding, vocabulary_subset)
    if reads is not None:
        draft = StateDraft(backbone, embedding, vocabulary_subset, reads.tolist())
        others = {name: tensor for name, tensor in tensors.items() if not name.startswith("model.")}
        draft.load_state_dict({**draft.state_dict(), **others})
    return draft.to(embedding.weight.device, embedding.weight.dtype).eval().requires_grad_(False)


def _body(tensors: dict[str, torch.Tensor], config: Any, embedding: Any) -> Any:
    """The layers of a draft, float32, as transformers' LlamaModel on this embedding."""
    import transformers
    from transformers.initialization import no_init_weights

    with no_init_weights():  # all are read below
        backbone = transformers.LlamaModel(config)
    backbone.set_input_embeddings(embedding)
    own = {name.removeprefix("model."): x.float() for name, x in tensors.items() if name.startswith("model.")}
    backbone.load_state_dict({**own, "embed_tokens.weight": embedding.weight})
    return backbone
