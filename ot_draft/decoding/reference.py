"""The same decoding, slow and obvious: no cache, no mask, no batch; every node is read from the first token on, by itself.

The engine must give the same tokens from the same uniforms.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor

import ot_draft as ot

from .draft_plan import Drafting, Dynamic
from .language_model import LanguageModel
from .loop import Options
from .node_laws import NodeLaws
from .pair import Pair
from .plans.chooser import Plan, Run
from .uniforms import uniforms


@torch.inference_mode()
def reference_decode(
    pair: Pair, prompt: Sequence[int], drafting: Plan, options: Options | None = None, row: int = 0
) -> list[int]:
    """Continue one prompt; row is its row number in the batch that it is compared with.

    Of a plan that chooses, the choices have to depend on this text alone: they are asked for, and never told what a step did.
    """
    options = options or Options()
    stop = pair.stop_tokens if options.stop is None else options.stop
    emitted: list[int] = []
    step = 0
    chooser = drafting.begin(Run(1, None, options.max_tokens, pair))
    while True:
        text = [*prompt, *emitted]
        for token in one_step(pair, text, chooser.choose([text]), options, row, step):
            emitted.append(token)
            if token in stop or len(emitted) == options.max_tokens:
                return emitted
        step += 1


def one_step(pair: Pair, text: list[int], drafting: Drafting, options: Options, row: int, step: int) -> list[int]:
    """The tokens of one step: those accepted, and one more."""
    n, of_target = pair.n, options.of_both[0]
    p = [next_token(pair.target, text, of_target, n, row)]
    numbers = uniforms(options.seed, [row], step, drafting.uniforms, p[0].dtype)
    if drafting.rule is None:
        return [int(ot.IID().draw(p[0], numbers[0]))]
    return _step(drafting, pair, text, options, row, numbers, p)


@singledispatch
def _step(
    drafting: Drafting, pair: Pair, text: list[int], options: Options, row: int, numbers: Tensor, p: list[Tensor]
) -> list[int]:
    """The step of this kind of drafting; p holds the target's law after the text."""
    n, size = pair.n, drafting.shape.size
    of_target, of_draft = options.of_both
    looked_up = drafting.lookup.find(text).tokens if drafting.lookup is not None else ()
    told = told_after(pair, text)
    q: list[Tensor] = []
    prefixes, tokens = [text], list[int]()
    for node in range(size + 1):
        if node:
            prefixes.append([*prefixes[drafting.shape.parents[node - 1]], max(tokens[node - 1], 0)])
            p.append(next_token(pair.target, prefixes[node], of_target, n, row))
        children = drafting.shape.children(node)
        if drafting.lookup is not None:
            token = looked_up[node] if node < len(looked_up) else -1
            tokens += [token] * len(children)
            q.append(torch.eye(n, dtype=p[0].dtype)[token])
            continue
        q.append(next_token(pair.draft, prefixes[node], of_draft, n, row, told).to(p[0].dtype))
        if children:
            drawn = drafting.law.draw(q[node], numbers[0, children.start - 1 : children.stop - 1])
            tokens += drawn.tolist()  # in order: the nodes are numbered breadth first
    tree = ot.paths.DraftTree(
        drafting.shape, torch.tensor([tokens]), torch.stack(p)[None], torch.stack(q)[None], drafting.law
    )
    selection = drafting.select(tree, numbers)
    return selection.tokens[0, : int(selection.length[0]) + 1].tolist()


@_step.register
def _(
    drafting: Dynamic, pair: Pair, text: list[int], options: Options, row: int, numbers: Tensor, p: list[Tensor]
) -> list[int]:
    """The same where the tree follows the draft model: every node that it asks about is read by itself."""
    n, (of_target, of_draft), told = pair.n, options.of_both, told_after(pair, text)

    def draft_law(prefix: list[int]) -> Tensor:
        return next_token(pair.draft, prefix, of_draft, n, row, told).to(numbers.dtype)

    given = torch.full((1, drafting.grower.takes), -1)
    if drafting.lookup is not None:
        found = drafting.lookup.find(text).tokens[: drafting.grower.takes]
        given[0, : len(found)] = torch.tensor(found, dtype=torch.int64)
    growing = drafting.grower.begin(numbers[:, : drafting.draws], given)
    prefixes: dict[int, list[int]] = {0: text}  # by slot
    while growing.levels:
        laws = torch.full((1, growing.slots.shape[1], n), 1 / n, dtype=numbers.dtype)
        for place, slot in enumerate(growing.slots[0].tolist()):
            if slot > 0:
                prefixes[slot] = [*prefixes[int(growing.above[0, place])], int(growing.read[0, place])]
            if slot >= 0:
                laws[0, place] = draft_law(prefixes[slot])
        growing.grow(laws)
    grown = growing.grown()
    ways = [text]
    for token, parent in zip(grown.tokens[0].tolist(), grown.parents[0].tolist(), strict=True):
        ways.append([*ways[parent], token] if token >= 0 else text)
    laws_p = torch.stack([next_token(pair.target, way, of_target, n, row) for way in ways])[None]
    laws_q = torch.stack([draft_law(way) for way in ways])[None]
    tree = drafting.tree(grown.tokens, laws_p, laws_q, grown.tops, grown.parents)
    selection = drafting.select(tree, numbers)
    return selection.tokens[0, : int(selection.length[0]) + 1].tolist()


def told_after(pair: Pair, text: list[int]) -> Tensor | None:
    """What a draft that reads the target's hidden states is told: those of all tokens but the last, which the target has not read yet."""
    reads = () if pair.draft is None else LanguageModel(pair.draft, pair.n).reads
    return LanguageModel(pair.target, pair.n, reads).features_along(text[:-1]) if reads else None


def next_token(
    model: Any, text: list[int], sampling: NodeLaws, n: int, row: int = 0, told: Tensor | None = None
) -> Tensor:
    """Law (n,) of the token after a text, from passes over the whole of it. told: to a draft that reads hidden states."""
    reader = LanguageModel(model, n)
    logits = reader.logits_along(text, [len(text)], told)[0]
    return sampling.law_after(row, torch.tensor([text]), logits, reader)
