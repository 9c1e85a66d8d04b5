"""Target and draft in OpenVINO: the models of a `Pair`, their caches and forward passes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import RLock
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from llm_demo.backends import llama
from llm_demo.backends.fast_graph import (
    Compiled,
    Layers,
    Product,
    chosen,
    opset13,
    places_in,
    quantizes_activations,
    rows_in,
    unit,
)
from llm_demo.backends.fast_weights import ADAPTER, GROUP, WEIGHTS, DraftWeights, FolderWeights, in_8_bits
from ot_draft.decoding import CannotDecode
from ot_draft.decoding.cache import Cache, causal_mask
from ot_draft.decoding.model import CallSizes, DecoderModel, HiddenStateModel, ModelInfo, ModelOutput

DRAFT_GROUP = (
    64  # group size of a draft's activations, whose weights have one scale per output; groups of 32 take a tenth longer
)
DRAFT_ROWS = 2  # min. number of rows of a draft pass: that of the first pass of a step, with a separate graph
FITTED = 1, 2  # numbers of rows of a target pass with a separate graph: an autoregressive step, and one draft token
INT8, FLOAT = "the file's weights, activations: int8", "the file's weights, activations: float"
NO_INT8 = f"{FLOAT} (OpenVINO has no int8 activations on this CPU)"


class CellCache(Cache):
    """Keys and values of all layers, float32 (layers, B * S, groups, width), allocated at the first pass, which determines B."""

    def __init__(self, slots_per_row: int, layers: int, groups: int, width: int) -> None:
        super().__init__(slots_per_row)
        self._shape = layers, groups, width
        self.keys: Any = None
        self.values: Any = None
        self._states: Any = None

    def begin(self, texts: int) -> None:
        """Allocate the memory."""
        if self.keys is None:
            layers, groups, width = self._shape
            self.keys, self.values = np.zeros((2, layers, texts * self.slots_per_row, groups, width), np.float32)

    def keep_states(self, states: Tensor, slots: Tensor) -> None:
        """Write hidden states (B, T, width) to slots (B, T)."""
        if self._states is None:
            self._states = np.zeros((len(states), self.slots_per_row, states.shape[-1]), np.float32)
        self._states[self._texts(slots), slots.numpy()] = states.numpy()

    def states_at(self, slots: Tensor) -> Tensor:
        return torch.from_numpy(self._states[self._texts(slots), slots.numpy()])

    def move(self, sources: Tensor, destinations: Tensor) -> None:
        rows = self._texts(sources) * self.slots_per_row
        here, there = (rows + slots.numpy() for slots in (sources, destinations))
        for memory in (self.keys, self.values):
            memory[:, there] = memory[:, here]
        if self._states is not None:
            self.keep_states(self.states_at(sources), destinations)

    def _texts(self, slots: Tensor) -> Any:
        """Return the index of each sequence, broadcast against its slots."""
        return np.arange(len(slots))[:, None]


def table_of(folder: Path) -> Tensor:
    """Return the embedding (n, width) of a converted file, memory-mapped: only rows that are looked up are loaded."""
    from safetensors.torch import load_file

    table = load_file(folder / WEIGHTS).get("model.embed_tokens.weight")
    if table is None:
        raise CannotDecode(f"{folder.name} is incomplete: model.embed_tokens.weight is missing. Download it again.")
    return table


def _settings(file: Path) -> dict[str, Any]:
    """Return the settings in a file, empty if there is no file."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    return found


class FastModel:
    """A Llama's layers in a graph.

    lock: held during a pass, which has exclusive use of the graph and of its attention state; other threads wait.
    """

    def __init__(self, config: Any, embedding: Tensor, exact: bool) -> None:
        self.config, self.embedding, self.exact, self.lock = config, embedding, exact, RLock()
        self.vocabulary_size, self.bytes_read = len(embedding), 0

    layers: Layers

    def cache(self, slots: int) -> CellCache:
        """Return a cache for the layers' keys and values."""
        return CellCache(slots, self.layers.count, self.config.num_key_value_heads, self.layers.width)

    def get_input_embeddings(self) -> Any:
        """Return the embedding, with the attributes that torch's has."""
        return SimpleNamespace(num_embeddings=self.vocabulary_size, weight=self.embedding)

    def run(
        self,
        graph: Compiled,
        least: int,
        cache: CellCache,
        entered: Sequence[Tensor],
        slots: Tensor,
        positions: Tensor,
        attention_mask: Tensor,
        last: int,
    ) -> list[Tensor]:
        """Run one pass of B x T tokens with inputs (B, T, width); return logits of the last tokens, and other outputs of all.

        least: minimum number of rows of a pass; a single token is repeated, since a product of one row may sum in another order.
        """
        batch, length = slots.shape
        cache.begin(batch)
        cells = (slots + torch.arange(batch)[:, None] * cache.slots_per_row).flatten().numpy()
        rows = torch.arange(batch * length).view(batch, length)[:, -last:].flatten()
        given, at, seen = (
            [x.flatten(0, 1).numpy() for x in entered],
            positions.flatten().numpy(),
            attention_mask.numpy(),
        )
        if len(cells) == 1 < least:  # one token, repeated
            given, cells, at = (
                [np.repeat(x, least, 0) for x in given],
                np.repeat(cells, least),
                np.repeat(at, least),
            )
            seen = np.repeat(seen, least, 1)
        self.layers.now.begin(cache.keys, cache.values, cells, at, seen, cache.slots_per_row)
        return [found[: batch * length] for found in graph(*given, rows.numpy())]


class FastTarget(FastModel):
    """A target of the Llama family from a folder, possibly a converted GGUF file."""

    def __init__(self, folder: Path, exact: bool, fitted: tuple[int, ...] = FITTED) -> None:
        """Read the settings of a model folder; raises CannotDecode for another family.

        exact: compute with float activations. Otherwise activations are rounded to 8 bits where OpenVINO does so on this CPU.
        fitted: numbers of rows that get a separate graph, if its results are bitwise identical to those of the general graph.
        """
        config, ends = (_settings(folder / f"{name}config.json") for name in ("", "generation_"))
        if not llama.reads(config):
            raise CannotDecode(
                f"backend openvino requires a Llama with default RoPE, which {folder.name} is not. Use --backend torch."
            )
        if (folder / ADAPTER).is_file():
            raise CannotDecode(
                f"backend openvino does not support adapters, but {folder.name} has {ADAPTER}. Use --backend torch."
            )
        self.folder = folder
        rounds = not exact and quantizes_activations()
        if not FolderWeights(folder).of_file:
            self.law = "float32 weights"
        else:
            self.law = INT8 if rounds else FLOAT if exact else NO_INT8
        super().__init__(llama.settings(config), table_of(folder), not rounds)
        self.generation_config = SimpleNamespace(**ends)
        self._keeps: tuple[int, ...] | None = None
        self.asked = fitted

    def as_model(self, n: int, hidden_layers: Sequence[int] = ()) -> DecoderModel:
        """Return it as the decoding loop calls it."""
        return TargetModel(self, n, tuple(hidden_layers))

    def draft(self, file: Path) -> FastDraft:
        """Return the draft of a file of layers on this target's embedding."""
        from safetensors.torch import load_file

        return FastDraft(load_file(file), self)

    def compiled(self, keeps: tuple[int, ...]) -> tuple[Compiled, int]:
        """Return the graph, and the minimum number of rows of a pass.

        The graph returns logits of the chosen rows, and features of all rows if `keeps` names layers.
        """
        if self._keeps is None or (keeps and keeps != self._keeps):
            self._keeps = keeps
            self._make(keeps, self.asked)
            if not self.least:
                self._make(keeps, ())
        return self._compiled, self.least

    def _make(self, keeps: tuple[int, ...], fitted: tuple[int, ...]) -> None:
        self._compiled, self.fitted = self._made(keeps, fitted), fitted
        self.least = self._least()

    def _made(self, keeps: tuple[int, ...], fitted: tuple[int, ...]) -> Compiled:
        config = self.config
        weights = FolderWeights(self.folder)  # mapped until the graph is built
        self.layers = Layers(weights, config, config.num_hidden_layers)
        # A stored head takes precedence over a tied embedding, as in transformers.
        tied = getattr(config, "tie_word_embeddings", False) and "lm_head.weight" not in weights
        head = "model.embed_tokens" if tied else "lm_head"
        if f"{head}.weight" not in weights:
            raise CannotDecode(f"target {self.folder} is incomplete: {head}.weight is missing. Download it again.")

        def make(rows: int | None, x: Any, chosen_rows: Any) -> list[Any]:
            between = self.layers.through(x, rows)
            last = self.layers.normed(between[-1], "model.norm")
            outputs = [self.layers.part(chosen(last, chosen_rows), head)]
            if keeps:
                features = [unit(h, config.rms_norm_eps) for h in (*(between[k] for k in keeps), last)]
                outputs.append(opset13.concat(features, 1))
            return outputs

        inputs = partial(rows_in, config.hidden_size), places_in
        made = Compiled(make, inputs, 0 if self.exact else GROUP, fitted)
        self.bytes_read = self.layers.bytes_read
        self.layers.forget()
        return made

    def _least(self) -> int:
        """Return the minimum number of rows for which a row is bitwise identical in passes of different size.

        2 if a single row differs from the same row of two; 1 otherwise, or with float activations, where bits depend on the number of
        rows anyway; 0 if two rows in a separate graph differ from three rows in the dynamic graph.
        """
        if self.exact:
            return 1
        one = torch.zeros(1, 1, dtype=torch.int64)
        first = self.embedding[:64].float()
        entered = first[first.abs().sum(-1).argmax()][None, None]  # a row of zeros would be equal in all cases
        attention_mask = torch.ones(1, 1, 1, dtype=torch.bool)
        alone, two, three = (
            self.run(self._compiled, rows, self.cache(1), [entered], one, one, attention_mask, 1)[0]
            for rows in (1, 2, 3)
        )
        if self.fitted and not torch.equal(two, three):
            return 0
        return 1 if torch.equal(alone, two) else 2


class OpenVinoModel(DecoderModel):
    """Base of target and draft model."""

    def __init__(self, model: Any, n: int, hidden_layers: tuple[int, ...] = ()) -> None:
        self.model = model
        self.info = ModelInfo(
            n=n,
            device=torch.device("cpu"),
            dtype=torch.float32,
            scored=self._scored(n),
            max_length=getattr(model.config, "max_position_embeddings", None),
            hidden_layers=hidden_layers,
            reads=getattr(model, "reads", ()),
        )

    def _scored(self, n: int) -> Tensor | None:
        width = self.model.vocabulary_size
        return torch.arange(width) if width < n else None

    def cache(self, slots: int) -> CellCache:
        made: CellCache = self.model.cache(slots)
        return made

    def _embedded(self, tokens: Tensor) -> Tensor:
        return self.model.embedding[tokens.clamp(0, len(self.model.embedding) - 1)].float()

    def full_pass(self, tokens: Sequence[int], positions: Sequence[int], context: Any = None) -> ModelOutput:
        cache, row, slots, attention_mask = self._from_start(tokens[: positions[-1]])
        output = self.forward(cache, row, slots, slots, attention_mask)
        hidden = None if output.hidden is None else output.hidden[0]
        return ModelOutput(output.logits[0, torch.tensor(positions) - 1], hidden)

    def _from_start(self, tokens: Sequence[int]) -> tuple[CellCache, Tensor, Tensor, Tensor]:
        """Return a cache for a sequence, its tokens (1, T), slots and attention mask."""
        length = len(tokens)
        cache, slots = self.cache(length), torch.arange(length)[None]
        return cache, torch.tensor([list(tokens)]), slots, causal_mask(length, length, self.info.device)


class TargetModel(OpenVinoModel):
    """A `FastTarget`."""

    @property
    def call_sizes(self) -> CallSizes:
        """Minimum number of rows of a pass, and the numbers of rows with a separate graph."""
        with self.model.lock:
            _, least = self.model.compiled(self.info.hidden_layers)
            return CallSizes(least, self.model.fitted)

    def cache(self, slots: int) -> CellCache:
        with self.model.lock:
            self.model.compiled(self.info.hidden_layers)
        return super().cache(slots)

    def forward(
        self,
        cache: Any,
        tokens: Tensor,
        slots: Tensor,
        positions: Tensor,
        attention_mask: Tensor,
        last: int = 0,
        hidden: Tensor | None = None,
    ) -> ModelOutput:
        entered = [self._embedded(tokens)]
        with self.model.lock:
            graph, least = self.model.compiled(self.info.hidden_layers)
            logits, *features = self.model.run(graph, least, cache, entered, slots, positions, attention_mask, last)
        wanted = features and self.info.hidden_layers
        states = features[0].view(*tokens.shape, -1) if wanted else None
        return ModelOutput(logits.view(len(tokens), -1, logits.shape[-1])[..., : self.info.n], states)


class FastDraft(FastModel):
    """A draft of layers on the target's embedding, which may read its hidden states; see `SubsetDraft` and `StateDraft`.

    fuse: graph from the target's features (R, f) to one vector (R, width), if the draft reads hidden states.
    """

    fuse: Compiled

    def __init__(self, tensors: Mapping[str, Tensor], target: FastTarget) -> None:
        """tensors: of the file of layers."""
        config = SimpleNamespace(**vars(target.config))
        config.num_hidden_layers = 1 + max(int(name.split(".")[2]) for name in tensors if ".layers." in name)
        config.intermediate_size = len(tensors["model.layers.0.mlp.gate_proj.weight"])
        super().__init__(config, target.embedding, False)
        self.vocabulary_subset = (
            tensors["vocabulary_subset"].long().clone()
        )  # a copy, so that the file is not kept mapped
        self.reads: tuple[int, ...] = tuple(tensors["reads"].tolist()) if "reads" in tensors else ()
        self._group = DRAFT_GROUP if quantizes_activations() else 0
        weights = DraftWeights(tensors)
        self.layers = Layers(weights, config, config.num_hidden_layers)
        if self.reads:
            features, fuse = (
                partial(rows_in, (len(self.reads) + 1) * config.hidden_size),
                Product([weights.layer("fuse")]),
            )
            self.fuse = Compiled(lambda _, x: [fuse(x)], [features], self._group, [DRAFT_ROWS])
        self.graph = self._made(in_8_bits(table_of(target.folder)[self.vocabulary_subset].float().numpy()))

    def _made(self, head: Any) -> Compiled:
        layers, reads, scores = self.layers, bool(self.reads), Product([head])

        def make(rows: int | None, x: Any, *others: Any) -> list[Any]:
            *before, chosen_rows = others
            if reads:
                x = opset13.add(x, layers.part(layers.normed(before[0], "norm_states"), "project"))
            states = layers.through(x, rows)[-1]
            logits = scores(layers.normed(chosen(states, chosen_rows), "model.norm"))
            return [logits, *([states] if reads else [])]

        entered = partial(rows_in, self.config.hidden_size)
        made = Compiled(make, [entered] * (1 + reads) + [places_in], self._group, [DRAFT_ROWS])
        self.bytes_read = layers.bytes_read + head.bytes_read
        layers.forget()
        return made

    def as_model(self, n: int, hidden_layers: Sequence[int] = ()) -> DecoderModel:
        """Return it as the decoding loop calls it."""
        return (StateDraftModel if self.reads else DraftModel)(self, n)


class DraftModel(OpenVinoModel):
    """A `FastDraft`."""

    def _scored(self, n: int) -> Tensor | None:
        subset: Tensor = self.model.vocabulary_subset
        return subset

    def forward(
        self,
        cache: Any,
        tokens: Tensor,
        slots: Tensor,
        positions: Tensor,
        attention_mask: Tensor,
        last: int = 0,
        hidden: Tensor | None = None,
    ) -> ModelOutput:
        entered = [self._embedded(tokens), *([] if hidden is None else [hidden])]
        with self.model.lock:
            logits, *states = self.model.run(
                self.model.graph, DRAFT_ROWS, cache, entered, slots, positions, attention_mask, last
            )
        kept = states[0].view(*tokens.shape, -1) if states else None
        return ModelOutput(logits.view(len(tokens), -1, logits.shape[-1]), kept)


class StateDraftModel(DraftModel, HiddenStateModel):
    """A `FastDraft` that reads the target's hidden states."""

    def prepare(self, hidden: Tensor) -> Tensor:
        with self.model.lock:
            return self.model.fuse(hidden.flatten(0, -2).numpy())[0].view(*hidden.shape[:-1], -1)

    def full_pass(self, tokens: Sequence[int], positions: Sequence[int], context: Any = None) -> ModelOutput:
        cache, row, slots, attention_mask = self._from_start(tokens[: positions[-1]])
        last = row.shape[1]
        known = min(len(context) + 1, last)
        hidden = torch.zeros(1, known, self.model.config.hidden_size)
        if known > 1:
            hidden[0, 1:] = self.prepare(context[: known - 1])
        found = []
        for start, end in ((0, known), *((position, position + 1) for position in range(known, last))):
            at = slice(start, end)
            if start:
                hidden = cache.states_at(slots[:, start - 1 : start])  # of the draft itself
            output = self.forward(cache, row[:, at], slots[:, at], slots[:, at], attention_mask[:, at], hidden=hidden)
            assert output.hidden is not None
            cache.keep_states(output.hidden, slots[:, at])
            found.append(output.logits)
        return ModelOutput(torch.cat(found, 1)[0, torch.tensor(positions) - 1])
