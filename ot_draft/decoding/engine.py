"""State of a decoding run, and the four parts of a step that work on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, NamedTuple
from warnings import warn

import torch
from torch import Tensor

from .. import arrays as xp
from ..errors import CannotDecode
from ..laws.fixed_tokens import n_fixed_by_node
from ..trees import DraftTree, TreeDrafter
from .cache import Cache, SequenceBatch
from .cascade import CascadeDrafter
from .drafters import Drafter, FixedTreeDrafter, LookupDrafter, ModelDrafter
from .drafting import Drafting
from .model import DecoderModel
from .model_runner import ModelRunner
from .policy import Policy
from .prompt_lookup import History
from .sampling import NodeLaws, uniforms
from .step import Step


@dataclass(frozen=True)
class DecodeState:
    """Sequences and caches of a run: a batch of B sequences, and for each model a cache of S slots per sequence.

    S is enough for prompt, new tokens and the largest tree. A draft model made of the target's layers uses the target's cache, unless it
    is the cascade. draft: None if no model drafts. cascade: a model that drafts for the draft model, or None.
    """

    texts: SequenceBatch
    target: ModelRunner
    draft: ModelRunner | None
    n: int
    number: torch.dtype
    cascade: ModelRunner | None = None

    @classmethod
    def of(
        cls,
        models: Sequence[DecoderModel | None],
        prompts: Sequence[Sequence[int]],
        draftings: Sequence[Drafting],
        sampling: tuple[NodeLaws, NodeLaws],
        texts: SequenceBatch,
    ) -> DecodeState:
        """Return the state after the prefill."""
        slots = max(len(prompt) for prompt in prompts) + texts.max_tokens
        # A sequence may end by the longest path, with the largest tree after it while others continue.
        slots += max(drafting.tree.bounds.length for drafting in draftings)
        slots += max(drafting.room for drafting in draftings)
        slots += -slots % 8  # fused attention kernels want a mask of such a width
        caches = [model.cache(slots) for model in models if model is not None]
        runners = [
            ModelRunner(model, cache, laws, texts, caches[0])
            for model, cache, laws in zip(filter(None, models), caches, (*sampling, sampling[-1]), strict=False)
        ]
        runners[1:2] = [runner.sharing() if runner.model.info.shares_cache else runner for runner in runners[1:2]]
        for runner in runners:
            runner.prefill(prompts)
        target, draft, cascade = (*runners, None, None)[:3]
        assert target is not None
        number = torch.float64 if target.model.info.dtype == torch.float64 else torch.float32
        return cls(texts, target, draft, target.model.info.n, number, cascade)

    def narrow(self, slots: int) -> None:
        """Let forward passes attend to this number of slots of every sequence."""
        for runner in (self.target, self.draft, self.cascade):
            if runner is not None:
                runner.cache.narrow(slots)

    def drafter(self, tree: TreeDrafter) -> Drafter:
        """Return a drafter of these trees."""
        if tree.counts.n_model_calls:
            assert self.draft is not None
            if tree.counts.n_cascade_tokens:
                assert self.cascade is not None
                return CascadeDrafter(tree, self.draft, self.cascade, self.n, self.number)
            if FixedTreeDrafter.takes(tree, self.draft, self.number):
                return FixedTreeDrafter(tree, self.draft, self.n, self.number)
            return ModelDrafter(tree, self.draft, self.n, self.number)
        return LookupDrafter(tree, self.texts, self.n, self.number)


class StepFunctions(NamedTuple):
    """The four parts of a step: methods of an engine, or their CUDA graphs."""

    propose: Callable[[], Any]
    verify: Callable[[], Any]
    select: Callable[[], Any]
    keep: Callable[[], Any]


class Engine:
    """Steps of one drafting on the state of a run: tensors are allocated once, and parts of a step change them in place.

    tokens, parents: of the trees, on the CPU cut after the last node, as in `bounds`. p: (B, N + 1, n) target distributions at their
    nodes. length, nodes, chosen: accepted tokens, see `Step`. emitted: tokens that the sequences got. without_law: (B, L + 1) nonzero
    where a token was emitted without a target distribution, see `NodeLaws.drawable`.
    """

    def __init__(self, state: DecodeState, drafting: Drafting) -> None:
        self.state, self.drafting, self.texts, self.target = state, drafting, state.texts, state.target
        self.drafter, self.bounds = state.drafter(drafting.tree), drafting.tree.bounds
        batch, device, depth = len(self.texts.tokens), self.texts.tokens.device, drafting.tree.bounds.length
        self.uniforms = torch.zeros(batch, drafting.uniforms, dtype=state.number, device=device)
        self.noise: Tensor | None = None
        self.tokens, self.parents = self.drafter.tokens, self.drafter.parents
        self.layout: Any = None
        self.p = torch.zeros(batch, drafting.tree.bounds.size + 1, 0, dtype=state.number, device=device)
        self.length = torch.zeros(batch, dtype=torch.int64, device=device)
        self.nodes = torch.full((batch, depth), -1, device=device)
        self.chosen = torch.zeros(batch, depth + 1, dtype=torch.int64, device=device)
        self.emitted = self.chosen.clone()
        self._lost = torch.zeros(self.p.shape[:2], device=device)  # (B, N + 1) the same of all nodes
        self.without_law = torch.zeros(batch, depth + 1, device=device)
        self._graphs: StepFunctions | None = None

    def draw(self, seed: int, rows: Sequence[int], step: int) -> None:
        """Draw the random numbers of one step."""
        numbers = uniforms(seed, rows, step, self.drafting.uniforms, self.state.number)
        pinned = numbers.pin_memory() if self.uniforms.is_cuda else numbers  # otherwise the copy waits for the device
        self.uniforms.copy_(pinned, non_blocking=True)
        if self.drafting.noise is not None:
            noise = self.drafting.noise(rows, self.texts.emitted.tolist(), self.state.n, self.state.number)
            self.noise = noise.to(self.uniforms.device)

    def propose(self) -> None:
        """Draft a tree after every sequence."""
        self.drafter.propose(self.uniforms[:, : self.drafting.tree.counts.n_uniforms], self.noise)

    def verify(self) -> None:
        """Compute p at root and tree by one pass of the target."""
        self.tokens, self.parents = self._trees()
        layout = self.bounds.layout(self.parents)
        if layout is not self.layout:  # the layout of a shape is one object
            self.layout = layout
            self._sees, self._depths = (
                xp.from_view(xp.copy(x), self.tokens) for x in (layout.attention_mask, layout.depths)
            )
        self.p, self._lost = self.target.read_tree(self.tokens, self.parents, self._sees, self._depths)

    def select(self) -> None:
        """Select the accepted path and the token after it: length, nodes, chosen."""
        selection = self.drafting.select(self.tree(), self.uniforms, self.noise)
        self.length.copy_(selection.length)
        self.nodes.copy_(selection.nodes)
        self.chosen.copy_(selection.tokens)

    def keep(self) -> None:
        """Move the accepted slots of both caches to the front, and append to the sequences: emitted."""
        if self.drafting.tree.bounds.max_children > 1:  # on one path node i has depth i
            depths = torch.arange(1, self.drafting.tree.bounds.length + 1, device=self.nodes.device)
            self._move(self.target.cache, self.nodes, depths)
            slots = self.drafter.slots(self.nodes)
            if slots is not None and self.state.draft is not None:
                self._move(self.state.draft.cache, slots, depths)
        self.emitted.copy_(self.texts.advance(self.length, self.chosen))
        nodes = torch.nn.functional.pad(self.nodes, (1, 0)).clamp(min=0)  # nodes after which the tokens were drawn
        self.without_law.copy_(self._lost.gather(1, nodes).masked_fill(self.emitted < 0, 0))

    def tree(self) -> DraftTree:
        """Return the drafted trees with p and q at their nodes."""
        law, q = self.drafting.tree.law, self.drafter.q[:, : self.bounds.size + 1]
        fixed_count = self.drafter.fixed_count[:, : q.shape[1]] if n_fixed_by_node(law) else None
        # Lazy attributes of a layout must be computed in the CUDA graph that uses them, again for every tree, unless the shape is fixed.
        layout = self.layout if self.bounds.is_fixed else copy(self.layout)
        return DraftTree(self.parents, self.tokens, self.p, q, self.bounds, law, fixed_count, layout)

    def drafted_by(self) -> Tensor:
        """Return q (B, M, n), 0 at nodes without children."""
        q, nodes = self.drafter.q, torch.arange(self.drafter.q.shape[1], device=self.p.device)
        return q * (self.drafter.parents[..., None] == nodes).any(1)[..., None]

    @property
    def parts(self) -> StepFunctions:
        """Functions that a step calls. Not stored: an engine that holds its own methods is freed late, with its caches."""
        return self._graphs or StepFunctions(self.propose, self.verify, self.select, self.keep)

    @property
    def recordable(self) -> bool:
        """Whether a step can be a CUDA graph."""
        return self.target.recordable and self.drafter.recordable and self.drafting.noise is None

    def capture_graphs(self) -> None:
        """Replace the parts by CUDA graphs, on CUDA."""
        device, drafter = self.texts.last.device, self.drafter
        if device.type != "cuda":
            return
        propose, verify = capture(self.propose, device), capture(self.verify, device)
        # `keep` may be repeated before `select`, with nothing accepted and no active sequence: it changes nothing.
        active = self.texts.active.clone()
        self.texts.active.fill_(False)
        keep = capture(self.keep, device)
        self.texts.active.copy_(active)
        try:
            select = capture(self.select, device)
        except CannotDecode as error:  # a rule that reads values on the host
            warn(f"the path rule is not recorded, its kernels are launched one by one: {error}", stacklevel=2)
            select = self.select
        # A graph reads a fixed number of tokens.
        self._graphs = StepFunctions(partial(_both, drafter.catch_up, propose), verify, select, keep)

    def _trees(self) -> tuple[Tensor, Tensor]:
        """Tokens and parents (B, N) of all nodes; on the CPU, up to the last node of the largest tree."""
        drafter = self.drafter
        self.bounds = self.drafting.tree.bounds.fit(drafter.tokens)
        used = self.bounds.size
        return drafter.tokens[:, :used], drafter.parents[:, :used].clamp(max=used)

    def _move(self, cache: Cache, slots: Tensor, depths: Tensor) -> None:
        """Move these slots of the trees (B, L) to the front, one per depth."""
        lengths = self.texts.lengths[:, None]
        # Slots of rejected nodes move to themselves, which keeps the shape fixed.
        cache.move(lengths + torch.where(slots >= 0, slots, depths), lengths + depths)


class Engines:
    """The engines of one run, one per drafting, on the same sequences and caches; the policy chooses one before every step.

    Sequences are also kept as lists of token ids, with the number of tokens that the draft model has read, to avoid device syncs.
    """

    def __init__(
        self,
        state: DecodeState,
        policy: Policy,
        prompts: Sequence[Sequence[int]],
        graphs: bool,
        context: int | None = None,
    ) -> None:
        """context: largest number of tokens in a sequence that every model reads, None for any number."""
        self.state, self._policy, self._graphs = state, policy, graphs
        self._context = inf if context is None else context
        self._texts = History(prompts)
        self._lengths = [
            len(prompt) for prompt in prompts
        ]  # up to the root, as in `SequenceBatch`; ended ones do not grow
        # CUDA graphs have a fixed width. On the CPU, passes over the used slots only are cheaper.
        self._narrows = state.texts.tokens.device.type == "cpu"
        self._read = [len(prompt) - 1 for prompt in prompts]
        self._known: dict[Drafting, Engine] = {}

    def next(self) -> Engine:
        """Return the engine of the next step."""
        drafting = self._policy.choose(self._texts)
        if not isinstance(drafting, Drafting) or (
            drafting not in self._known and drafting not in self._policy.candidates
        ):
            # Memory is allocated for the candidates.
            raise CannotDecode(
                f"{type(self._policy).__name__} chose {drafting!r}, which is not one of its candidates. Let `candidates` hold all"
                f" draftings that it may choose."
            )
        longest = max(self._lengths)
        if (
            longest + drafting.tree.bounds.length >= self._context
        ):  # a step emits up to one token more than the path has
            drafting = Drafting.autoregressive()
        if self._narrows:
            self.state.narrow(longest + drafting.room)
        if drafting not in self._known:
            self._known[drafting] = engine = Engine(self.state, drafting)
            if self._graphs and engine.recordable:
                engine.capture_graphs()
        engine = self._known[drafting]
        # The last tokens are read in every step; earlier ones may be from steps without the draft model.
        engine.drafter.note_unread(
            max(len(text) - 2 - read for text, read in zip(self._texts, self._read, strict=True))
        )
        if drafting.tree.counts.n_lookup_tokens:
            engine.drafter.look_up(self._texts.look_up(drafting.lookup))
        self._engine = engine
        return engine

    def record(self, step: Step, seconds: float) -> None:
        """Append the tokens of a step to the sequences, and let the policy learn."""
        lengths, chosen, active = step.length.tolist(), step.chosen.tolist(), step.active.tolist()
        roots = [len(text) - 1 for text in self._texts]
        new = [tokens[: length + 1] if on else [] for tokens, length, on in zip(chosen, lengths, active, strict=True)]
        self._texts.grow(new, (~step.finished).tolist())
        grown = zip(self._texts, self._texts.active, self._lengths, strict=True)
        self._lengths = [len(text) if goes_on else length for text, goes_on, length in grown]
        for row, text in enumerate(self._texts):
            self._read[row] = self._engine.drafter.commit(self._read[row], roots[row], len(text))
        self._policy.observe(step, seconds)


def capture(part: Callable[[], None], device: torch.device, warm_up: int = 3) -> Callable[[], Any]:
    """Return `part` as one CUDA graph, which launches all its kernels at once.

    Every part works on tensors of fixed shape at fixed addresses (sequences, uniforms, tokens, q, caches) and reads no value on the host. A
    replay therefore repeats the recorded work on the present contents of the tensors. `part` is called `warm_up` times before it is
    recorded, while libraries choose kernels and allocate memory: it must be repeatable.
    """
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(warm_up):
            part()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            part()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise CannotDecode(
            f"graphs must be False for this step, of which CUDA records no graph ({reason}). Use DecodeOptions(graphs=False)."
        ) from error
    graph.replay()  # recording computes nothing, and the next part may read results as indices
    return graph.replay


def _both(first: Callable[[], Any], second: Callable[[], Any]) -> None:
    first()
    second()
