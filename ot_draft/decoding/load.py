"""Load a target and a draft: any two causal language models of transformers with one vocabulary, or layers for the target's own.

A Llama on the CPU is read by `Llama`, from a folder without any import of transformers; all else is transformers' own model.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from .. import defaults
from ..errors import CannotDecode, MissingPackage
from ..optional import require
from . import llama
from .backends import AUTO, EXACT, OPENVINO, TORCH, resolve
from .converted import converted
from .cpu import has_short_products, pack, pack_draft, pack_float16
from .draft_models import IntersectionDraft, StateDraft, SubsetDraft
from .file_weights import FileWeights, check_products, check_read_whole, write_blocks
from .pair import Pair
from .self_draft import self_draft
from .text_draft import TextDraft
from .tokens import Tokenizer

HUB_SECONDS = 10.0
LOOKUP = "lookup"  # in the place of a draft model's name
FILE = "file"  # the target's weights as a GGUF file has them, and all that is computed between them in float32
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
DTYPES |= {FILE: torch.float32}
EMBEDDING = "model.embed_tokens.weight"
BACKENDS = defaults.BACKENDS
Stages = Callable[[str], object]


def load_pair(
    target: str,
    draft: str,
    dtype: str = defaults.DTYPE,
    device: str = defaults.DEVICE,
    device_map: str | None = None,
    packed: bool = True,
    assistant: str | None = None,
    cache: bool = True,
    progress: Stages = lambda stage: None,
    backend: str = defaults.BACKEND,
) -> Pair:
    """Load two models: each a directory, a GGUF file or the name of a hub model.

    draft: also a safetensors file of layers that share the target's embedding, as `load_draft` reads it; or `lookup`, for no draft model
    at all; or `skip:12,20`, `exit:8`: the target without these layers, or its first so many; or `tli:NAME`, `slem:NAME`: a model with
    another tokenizer, by the tokens that both have or by its text; or `chain:Q,R`: a draft Q for which R drafts. device_map: how
    accelerate spreads the target over devices ("auto"), in the place of `device`. packed: bring the weights of float32 models on a CPU
    into the layout that its matrix products want (`pack`), and those of the draft to 8 and 16 bits (`pack_draft`, `pack_float16`: its law
    is what it computes so), but not where accelerate has spread the target; and read Llamas by `Llama`. float16 on a CPU that has such
    products: weights of 16 bits (`pack_float16`), while all that is computed is float32. file: the target's weights as its GGUF file has
    them (`FileWeights`). assistant: a safetensors file of layers, for transformers' own generation (`Pair`). cache: keep what a GGUF file
    was converted to, as `converted` does, and read it from there the next time. progress: called with the name of every stage as it begins.
    backend: torch, or openvino, where a target of the Llama family and a draft of layers run by the weights of the target's GGUF file, on a
    CPU, with rows rounded to 8 bits in their products; openvino-float: with rows as they are; auto: as `resolve` decides by target,
    settings and what is installed. `Pair.target` is a model of transformers, or one of this package that does the same, with torch alone.
    """
    asked, (kind, _, named) = draft, draft.partition(":")
    draft = LOOKUP if kind in OTHER_DRAFTS else draft
    if dtype not in DTYPES:
        raise CannotDecode(f"dtype is {dtype!r}: give one of {', '.join(DTYPES)}")
    if backend not in (AUTO, *BACKENDS):
        raise CannotDecode(f"backend is {backend!r}: give one of {', '.join((AUTO, *BACKENDS))}")
    where = _device(device)
    packed = packed and device_map is None and where.type == "cpu"
    if backend not in (AUTO, TORCH):
        _check_fast(target, dtype, packed and cache, backend)
    elif dtype == FILE:
        _check_file_weights(target, packed and cache)
    _check_there(target, draft)
    why = ""
    if backend == AUTO:
        on_cpu = packed and cache and dtype == defaults.DTYPE and kind not in OF_ITS_LAYERS
        folder = _as_folder(Path(target), progress) if on_cpu and target.endswith(".gguf") else None
        backend, why = resolve(folder)
    loader = _Loader(target, draft, assistant, dtype, where, device_map, packed, cache, progress, backend)
    pair = loader.pair()
    if cache:
        how = dtype, str(where), device_map, packed, backend
        pair = replace(pair, name=repr([_as_it_is(target), _as_it_is(asked), *how]))
    pair = replace(pair, backend=backend, no_faster=why)
    return OTHER_DRAFTS[kind](pair, named, partial(loader.draft_alone, pair)) if kind in OTHER_DRAFTS else pair


def _as_it_is(name: str) -> tuple[Any, ...]:
    """A name, and of a file or folder what tells that it was changed."""
    path = Path(name)
    return (str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) if name and path.exists() else (name,)


@dataclass(frozen=True)
class _Loader:
    """The arguments of `load_pair`, looked through."""

    target: str
    draft: str
    assistant: str | None
    dtype: str
    device: torch.device
    device_map: str | None
    packed: bool
    cache: bool
    progress: Stages
    backend: str = TORCH
    lean: bool = True  # a Llama as `Llama`, where weights are packed

    def pair(self) -> Pair:
        """Both models, packed."""
        self.progress(f"reading the target, {Path(self.target).name}")
        if self.backend != TORCH:
            return self._fast_pair()
        big, tokenizer = self._model_and_tokenizer(self.target, "target", self.device_map)
        small: Any = None
        if self.draft != LOOKUP:
            self.progress(f"reading the draft, {Path(self.draft).name}")
        if Path(self.draft).suffix == ".safetensors":
            small = _own_draft(big, Path(self.draft))
        elif self.draft != LOOKUP:
            small, theirs = self._model_and_tokenizer(self.draft, "draft", None)
            _check_one_vocabulary(tokenizer, theirs)
        own = isinstance(big, llama.Llama)
        other = None if self.assistant is None or own else _own_draft(big, Path(self.assistant))
        if self.packed:
            self.progress("laying out the weights")
            self._pack(big, (small, other))
        by_transformers = self._by_transformers if own else None
        return Pair(big, small, tokenizer, assistant=other, by_transformers=by_transformers, law=self._law)

    def _fast_pair(self) -> Pair:
        """The target in OpenVINO, with a draft of layers there, too; any other draft as it is without."""
        from .fast_models import FastTarget

        folder = _as_folder(Path(self.target), self.progress)
        if folder is None:
            raise CannotDecode(
                "backend openvino reads what a GGUF file was converted to: set OT_DRAFT_CACHE to a folder"
            )
        target = FastTarget(folder, self.backend == EXACT)
        tokenizer = Tokenizer.of(folder) or _tokenizer(str(folder), "target")
        draft: Any = None
        if Path(self.draft).suffix == ".safetensors":
            self.progress(f"reading the draft, {Path(self.draft).name}")
            draft = _own_draft(target, Path(self.draft))
        elif self.draft != LOOKUP:
            draft, theirs = replace(self, backend=TORCH).draft_alone(Pair(target), self.draft)
            _check_one_vocabulary(tokenizer, theirs)
        self.progress("compiling the graphs")
        target.compiled(getattr(draft, "reads", ()))
        return Pair(target, draft, tokenizer, by_transformers=self._by_transformers, law=target.law)

    @property
    def _law(self) -> str:
        """In words, by which numbers and products the target computes."""
        if self.dtype == FILE:
            return "the file's weights, products of 4 bits in bfloat16"
        return f"{self.dtype} weights" + (", the rest in float32" if self._short else "")

    def draft_alone(self, pair: Pair, name: str) -> tuple[Any, Any]:
        """A further draft model for this target, by transformers if it is none of our files of layers, and its tokenizer."""
        self.progress(f"reading the draft, {Path(name).name}")
        if Path(name).suffix == ".safetensors":
            return _own_draft(pair.target, Path(name)), pair.tokenizer
        dtype = "float32" if self.dtype == FILE else self.dtype
        model, tokenizer = replace(self, dtype=dtype, lean=False)._model_and_tokenizer(name, "draft", None)
        if self.packed:
            self._pack(model, (None, None))
        return model, tokenizer

    def _by_transformers(self) -> Pair:
        """The same target, and what its own generation can ask, as transformers loads them."""
        dtype = "float32" if self.dtype == FILE else self.dtype
        asked = self.draft if self.assistant is None else self.assistant
        found = replace(self, draft=asked, assistant=None, dtype=dtype, lean=False, backend=TORCH).pair()
        return found if found.assisting is not None else replace(found, draft=None)

    def _pack(self, target: Any, drafts: tuple[Any, Any]) -> None:
        for draft in filter(None, drafts):
            pack_draft(draft)
            pack_float16(draft)
        if self._short:
            pack_float16(target)
        for model in filter(None, (target, *drafts)):
            pack(model)

    @property
    def _short(self) -> bool:
        """Whether the target's weights have 16 bits, and all that is computed 32."""
        return self.packed and self.dtype == "float16" and has_short_products()

    @property
    def _number(self) -> torch.dtype:
        return torch.float32 if self._short else DTYPES[self.dtype]

    def _model_and_tokenizer(self, name: str, role: str, device_map: str | None) -> tuple[Any, Any]:
        if self.cache and name.endswith(".gguf") and Path(name).is_file():
            name = str(_as_folder(Path(name), self.progress) or name)
        lean = self.lean and self.packed and self._number == torch.float32
        if lean and Path(name).is_dir():
            from_file = self.dtype == FILE and role == "target"
            model = _llama_of(Path(name), from_file)
            tokenizer = None if model is None else Tokenizer.of(Path(name))
            if tokenizer is not None:
                return model, tokenizer
        self.progress("importing transformers")
        with _gguf_read_once(name):
            model, tokenizer = _model(name, role, self._number, self.device, device_map), _tokenizer(name, role)
        return (as_llama(model) if lean else model), tokenizer


def _check_fast(target: str, dtype: str, kept: bool, backend: str) -> None:
    if not target.endswith(".gguf") or not kept or dtype not in ("float32", FILE):
        raise CannotDecode(
            f"backend {backend} takes the weights of a .gguf file as they are, on a CPU, with the cache: leave dtype, device and cache as"
            " they are, or take backend torch"
        )
    require(*OPENVINO, extra="openvino")


def _check_file_weights(target: str, packed: bool) -> None:
    if not target.endswith(".gguf") or not packed:
        raise CannotDecode(
            "dtype file takes the target's weights from a .gguf file, on a CPU, packed and with the cache: take float32 or float16"
        )
    check_products()


def _llama_of(folder: Path, from_file: bool) -> llama.Llama | None:
    """The Llama of a folder, from its files; None for another model. from_file: layers of a converted file's own blocks."""
    weights = folder / "model.safetensors"
    try:
        config, ends = (json.loads((folder / f"{name}config.json").read_text()) for name in ("", "generation_"))
    except (OSError, ValueError):
        return None
    if not llama.reads(config) or not weights.is_file():
        return None
    from safetensors.torch import load_file

    floats = llama.FloatTensors(load_file(weights))
    made_of = FileWeights(folder, floats) if from_file else floats
    model = llama.Llama(made_of, SimpleNamespace(**config), SimpleNamespace(**ends))
    # In a mapping of its own, of which the rows that are looked up come into memory; of the other nothing stays once layers are packed.
    model.model.embed_tokens.weight = nn.Parameter(load_file(weights)[EMBEDDING].float(), requires_grad=False)
    return model


def as_llama(model: Any) -> Any:
    """A model of transformers as `Llama` where it is one, of the same weights; else itself."""
    config = model.config.to_dict()
    if not llama.reads(config):
        return model
    return llama.Llama(llama.FloatTensors(model.state_dict()), SimpleNamespace(**config), model.generation_config)


Loader = Callable[[str], tuple[Any, Any]]  # the name of a draft model -> the model and its tokenizer


def _of_layers(kind: str, pair: Pair, named: str, load: Loader) -> Pair:
    return replace(pair, draft=self_draft(pair.target, kind, named))


def _by_intersection(pair: Pair, named: str, load: Loader) -> Pair:
    model, tokenizer = load(named)
    return replace(pair, draft=IntersectionDraft.of(model, tokenizer, pair.tokenizer, pair.n))


def _by_text(pair: Pair, named: str, load: Loader) -> Pair:
    model, tokenizer = load(named)
    return replace(pair, text_draft=TextDraft(model, tokenizer, pair.tokenizer))


def _by_chain(pair: Pair, named: str, load: Loader) -> Pair:
    names = named.rpartition(",")[::2]
    found = []
    for name in names:
        kind, _, rest = name.partition(":")
        if kind in ("skip", "exit", "tli"):
            found.append(OTHER_DRAFTS[kind](pair, rest, load).draft)
            continue
        if not name:
            raise CannotDecode(
                f"draft chain:{named}: name two drafts, the second of which drafts for the first, chain:Q,R"
            )
        model, tokenizer = load(name)
        if tokenizer is not pair.tokenizer:
            _check_one_vocabulary(pair.tokenizer, tokenizer)
        found.append(model)
    return replace(pair, draft=found[0], third=found[1])


OF_ITS_LAYERS = "skip", "exit", "chain"  # drafts that are, or may be, the target's own layers, which only torch gives
OTHER_DRAFTS: dict[str, Callable[[Pair, str, Loader], Pair]] = {  # by what stands before a colon in the draft's name
    "skip": partial(_of_layers, "skip"),
    "exit": partial(_of_layers, "exit"),
    "tli": _by_intersection,
    "slem": _by_text,
    "chain": _by_chain,
}


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
    """CannotDecode unless equal ids are equal tokens as far as both go: tokens added at the end of one do no harm."""
    few, many = sorted((tokenizer.get_vocab(), theirs.get_vocab()), key=len)
    behind = max(few.values(), default=-1)
    other = [token for token, number in few.items() if many.get(token) != number]
    other += [token for token, number in many.items() if token not in few and number <= behind]
    if other:
        raise CannotDecode(
            f"the tokenizers differ ({len(tokenizer)} tokens in the target's, {len(theirs)} in the draft's), by {other[0]!r} first: take"
            " two models of one family, or name the draft tli:NAME (common tokens) or slem:NAME (by text)"
        )


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


def _as_folder(file: Path, progress: Callable[[str], object] = lambda stage: None) -> Path | None:
    """The folder that a GGUF file was converted to, in float32, now or at an earlier time; None where there is no place for it."""

    def convert(folder: Path) -> None:
        progress(f"converting {file.name}, this once")
        with _gguf_read_once(str(file)):
            model = _model(str(file), "target", torch.float32, torch.device("cpu"), None)
            model.save_pretrained(folder)
            _tokenizer(str(file), "target").save_pretrained(folder)
            if llama.reads(model.config.to_dict()):
                import gguf

                write_blocks(gguf.GGUFReader(file.parent / file.name), folder, model.config)

    return converted(file, convert)


def _model(name: str, role: str, dtype: torch.dtype, device: torch.device, device_map: str | None) -> Any:
    spread = {"device_map": device_map} if device_map else {}
    if Path(name).suffix == ".gguf" and Path(name).is_file() and importlib.util.find_spec("gguf") is not None:
        import gguf

        check_read_whole(gguf.GGUFReader(str(Path(name))), Path(name).name)
    model = _load("AutoModelForCausalLM", name, role, dtype=dtype, attn_implementation="sdpa", **spread)
    return (model if device_map else model.to(device)).eval().requires_grad_(False)


def _tokenizer(name: str, role: str) -> Any:
    return _load("AutoTokenizer", name, role)


def _own_draft(target: Any, file: Path) -> Any:
    _check_file(file)
    try:
        return target.draft(file) if hasattr(target, "passes") else load_draft(target, file)
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
    from safetensors.torch import load_file

    tensors = load_file(file)
    vocabulary_subset, reads = tensors.pop("vocabulary_subset"), tensors.pop("reads", None)
    config = copy.deepcopy(target.config)
    config.num_hidden_layers = 1 + max(int(name.split(".")[2]) for name in tensors if ".layers." in name)
    config.intermediate_size = len(tensors["model.layers.0.mlp.gate_proj.weight"])
    embedding = target.get_input_embeddings()
    of_llama = isinstance(target, llama.Llama)
    backbone = (llama.LlamaBody if of_llama else _body)(llama.FloatTensors(tensors), config, embedding)
    draft = SubsetDraft(backbone, embedding, vocabulary_subset)
    if reads is not None:
        draft = StateDraft(backbone, embedding, vocabulary_subset, reads.tolist())
        if of_llama:
            weight = tensors.pop("norm_states.weight").float()
            draft.norm_states = llama.Norm(len(weight), config.rms_norm_eps, weight)
        others = {name: tensor for name, tensor in tensors.items() if not name.startswith("model.")}
        draft.load_state_dict({**draft.state_dict(), **others})
    return draft.to(embedding.weight.device, embedding.weight.dtype).eval().requires_grad_(False)


def _body(weights: llama.FloatTensors, config: Any, embedding: Any) -> Any:
    """The same by transformers."""
    import transformers
    from transformers.initialization import no_init_weights

    with no_init_weights():  # all are read below
        backbone = transformers.LlamaModel(config)
    backbone.set_input_embeddings(embedding)
    own = {name.removeprefix("model."): weights[name] for name in weights.names if name.startswith("model.")}
    backbone.load_state_dict({**own, "embed_tokens.weight": embedding.weight})
    return backbone
