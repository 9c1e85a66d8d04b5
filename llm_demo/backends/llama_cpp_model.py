"""Target and draft in llama.cpp, from any GGUF file of a model with standard attention, by llama-cpp-python's low-level functions.

The tests use a stand-in for llama.cpp; runs with llama.cpp itself are manual (docs/backends.md).
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import finalize

import torch
from torch import Tensor

from llm_demo.backends.llama_cpp_cells import TextCells
from llm_demo.backends.llama_cpp_context import Context
from ot_draft.decoding import CannotDecode
from ot_draft.decoding.cache import Cache, causal_mask
from ot_draft.decoding.model import DecoderModel, ModelInfo, ModelOutput
from ot_draft.decoding.tokens import Tokenizer
from ot_draft.optional import load

FLOATS = ("F32", "F16", "BF16")  # last word of llama.cpp's description of a file with float weights
NO_STATES = "draft must not read hidden states with llama.cpp, which gives no hidden states of layers. Use a .gguf draft, or lookup."


def api() -> Any:
    """Return the low-level functions of llama-cpp-python.

    Raises MissingPackage if it is not installed, and CannotDecode if its version lacks functions.
    """
    functions = load("llama_cpp", "llamacpp", "llama-cpp-python")
    if not hasattr(functions, "llama_memory_seq_keep"):
        raise CannotDecode("llama-cpp-python is too old. Run  pip install -U llama-cpp-python")
    log = logging.getLogger("llama-cpp-python")
    if log.level == logging.NOTSET:  # otherwise it prints hundreds of lines per model
        log.setLevel(logging.ERROR)
    functions.llama_backend_init()
    return functions


class LlamaCppFile:
    """A model of a GGUF file, and its free contexts."""

    def __init__(self, file: Path, functions: Any = None, gpu: bool = False) -> None:
        """Load the file, with all layers on the GPU if `gpu`. functions: those of llama-cpp-python by default. Raises CannotDecode."""
        self.api = api() if functions is None else functions
        given = self.api.llama_model_default_params()
        given.n_gpu_layers = 1_000_000 if gpu else 0
        if gpu and not self.api.llama_supports_gpu_offload():
            raise CannotDecode(
                "this build of llama.cpp has no GPU support. Use --device cpu, or build llama-cpp-python for your GPU."
            )
        self._model = self.api.llama_model_load_from_file(str(file).encode(), given)
        if not self._model:
            raise CannotDecode(f"llama.cpp cannot load {file}. Use a .gguf file of a model that this version supports.")
        finalize(self, self.api.llama_model_free, self._model)
        self.file, self._gpu, self._free = file, gpu, list[Context]()
        self.bytes_read = int(self.api.llama_model_size(self._model))
        self.vocabulary = Vocabulary(self.api, self.api.llama_model_get_vocab(self._model))
        self.vocabulary_size = self.vocabulary.get_vocab_size()
        self.config = SimpleNamespace(max_position_embeddings=self.api.llama_model_n_ctx_train(self._model))
        ends = [token for token in range(self.vocabulary_size) if self.vocabulary.ends(token)]
        self.generation_config = SimpleNamespace(eos_token_id=ends)
        self.law = self._law(gpu)

    def beside(self, file: Path) -> LlamaCppFile:
        """Load another model on the same device."""
        return LlamaCppFile(file, self.api, self._gpu)

    def _law(self, gpu: bool) -> str:
        name = ctypes.create_string_buffer(256)
        self.api.llama_model_desc(self._model, name, len(name))
        called = name.value.decode().rpartition(" ")[2]
        rounded = not gpu and called not in FLOATS
        return f"the file's weights ({called}), {'8-bit activations, ' if rounded else ''}llama.cpp's"

    @property
    def unread(self) -> str:
        """Reason why trees are not supported with this model, empty if they are."""
        kinds = {
            "llama_model_has_encoder": "has an encoder",
            "llama_model_is_recurrent": "has recurrent layers, whose state cannot be rolled back after a rejected draft token",
            "llama_model_is_hybrid": "has recurrent layers, whose state cannot be rolled back after a rejected draft token",
            "llama_model_is_diffusion": "is not autoregressive",
        }
        return next(
            (why for kind, why in kinds.items() if hasattr(self.api, kind) and getattr(self.api, kind)(self._model)), ""
        )

    def get_input_embeddings(self) -> Any:
        """Return the number of embeddings, with the attribute that torch's embedding has."""
        return SimpleNamespace(num_embeddings=self.vocabulary_size)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer of the file."""
        template = self.api.llama_model_chat_template(self._model, None)
        return Tokenizer(self.vocabulary, template.decode() if template else None, self.vocabulary.special())

    def context(self, cells: int) -> Context:
        """Return an empty context of at least `cells` cells: the smallest free one, or a new one."""
        fit = sorted((context for context in self._free if context.cells >= cells), key=lambda context: context.cells)
        if fit:
            self._free.remove(fit[0])
        context = fit[0] if fit else Context(self.api, self._model, cells + -cells % 256, self.vocabulary_size)
        context.use_threads(torch.get_num_threads())
        return context

    def take_back(self, contexts: list[Context]) -> None:
        """Clear contexts that are no longer used, and add them to the free ones."""
        for context in contexts:
            context.clear()
        self._free += contexts

    def as_model(self, n: int, hidden_layers: Sequence[int] = ()) -> DecoderModel:
        """Return it as the decoding loop calls it. CannotDecode if hidden states are asked for."""
        if hidden_layers:
            raise CannotDecode(NO_STATES)
        return LlamaCppModel(self, n)


class LlamaCppCache(Cache):
    """One context per sequence of a batch, allocated at the first pass, which determines the batch size."""

    def __init__(self, slots_per_row: int, model: LlamaCppFile) -> None:
        super().__init__(slots_per_row)
        self._model, self.texts = model, list[TextCells]()
        self._contexts = list[Context]()
        finalize(self, model.take_back, self._contexts)

    def begin(self, texts: int) -> None:
        """Allocate a context for each sequence."""
        while len(self.texts) < texts:
            self._contexts.append(self._model.context(self.slots_per_row))
            self.texts.append(TextCells(self._contexts[-1]))

    def move(self, sources: Tensor, destinations: Tensor) -> None:
        for text, here, there in zip(self.texts, sources.tolist(), destinations.tolist(), strict=True):
            text.move(here, there)

    def keep_states(self, states: Tensor, slots: Tensor) -> None:
        raise CannotDecode(NO_STATES)

    def states_at(self, slots: Tensor) -> Tensor:
        raise CannotDecode(NO_STATES)


class LlamaCppModel(DecoderModel):
    """A `LlamaCppFile`. Sequences of a batch are read one after the other; a token in the cache is read again only if its logits are
    wanted."""

    def __init__(self, file: LlamaCppFile, n: int) -> None:
        width = file.vocabulary_size
        self.file = file
        self.info = ModelInfo(
            n=n,
            device=torch.device("cpu"),
            dtype=torch.float32,
            scored=torch.arange(width) if width < n else None,
            max_length=file.config.max_position_embeddings or None,
            unsupported=f"{file.file.name} {file.unread}. Use a model with standard attention" if file.unread else "",
        )

    def cache(self, slots: int) -> LlamaCppCache:
        return LlamaCppCache(slots, self.file)

    def forward(
        self,
        cache: LlamaCppCache,
        tokens: Tensor,
        slots: Tensor,
        positions: Tensor,
        attention_mask: Tensor,
        last: int = 0,
        hidden: Tensor | None = None,
    ) -> ModelOutput:
        cache.begin(len(tokens))
        length = tokens.shape[1]
        first = length - last if last else 0
        wanted = [index >= first for index in range(length)]
        logits = torch.zeros(len(tokens), length - first, self.file.vocabulary_size)
        seen = attention_mask.expand(len(tokens), -1, -1).numpy()
        given = (x.expand(len(tokens), -1).tolist() for x in (tokens, slots, positions))
        for row, (text, *asked) in enumerate(zip(cache.texts, *given, strict=True)):
            for index, found in enumerate(text.read(*asked, seen[row], wanted)[first:]):
                if found is not None:
                    logits[row, index] = torch.from_numpy(found)
        return ModelOutput(logits[..., : self.info.n])

    def full_pass(self, tokens: Sequence[int], positions: Sequence[int], context: Any = None) -> ModelOutput:
        length, cache = positions[-1], self.cache(positions[-1])
        slots, asked = list(range(length)), set(positions)
        cache.begin(1)
        wanted = [index + 1 in asked for index in range(length)]
        attention_mask = causal_mask(length, length, self.info.device)[0].numpy()
        found = cache.texts[0].read(list(tokens[:length]), slots, slots, attention_mask, wanted)
        rows = [torch.from_numpy(logits) for logits in found if logits is not None]
        return ModelOutput(torch.stack(rows)[:, : self.info.n])


class Vocabulary:
    """Vocabulary of a file, with the interface of the package tokenizers."""

    def __init__(self, functions: Any, vocabulary: Any) -> None:
        self._api, self._vocabulary = functions, vocabulary

    def get_vocab_size(self) -> int:
        """Return the number of tokens."""
        return int(self._api.llama_vocab_n_tokens(self._vocabulary))

    def ends(self, token: int) -> bool:
        """Return whether the token ends a sequence."""
        return bool(self._api.llama_vocab_is_eog(self._vocabulary, token))

    def named(self, token: int) -> str:
        """Return the string of a token in the file."""
        found: bytes = self._api.llama_vocab_get_text(self._vocabulary, token)
        return found.decode(errors="replace")

    def get_vocab(self) -> dict[str, int]:
        """Return token ids by string."""
        return {self.named(token): token for token in range(self.get_vocab_size())}

    def special(self) -> dict[str, str]:
        """Return the special tokens of chat templates."""
        asked = {"bos_token": self._api.llama_vocab_bos, "eos_token": self._api.llama_vocab_eos}
        found = {name: ask(self._vocabulary) for name, ask in asked.items()}
        return {name: self.named(token) for name, token in found.items() if token >= 0}

    def encode(self, text: str, add_special_tokens: bool = True) -> Any:
        """Return the tokens of a text, as attribute `ids`."""
        given, room = text.encode(), 8
        while True:
            room += len(given)
            ids = (self._api.llama_token * room)()
            found = self._api.llama_tokenize(self._vocabulary, given, len(given), ids, room, add_special_tokens, True)
            if found >= 0:
                return SimpleNamespace(ids=list(ids[:found]))

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Return the text of tokens."""
        given, room = (self._api.llama_token * len(ids))(*ids), 64
        while True:
            room += 32 * len(ids)
            text = ctypes.create_string_buffer(room)
            found = self._api.llama_detokenize(
                self._vocabulary, given, len(ids), text, room, skip_special_tokens, not skip_special_tokens
            )
            if found >= 0:
                return text.raw[:found].decode(errors="replace")
