"""The same decoding, slow and obvious: no cache, no mask, no batch; every node is read from the first token on, by itself.

The engine must give the same tokens from the same uniforms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import ot_draft as ot

from .draft import Draft
from .drafting import Drafting
from .loop import Options
from .network import vocabulary_size
from .pair import Pair
from .processed import Processed, drawable
from .sampling import Sampling
from .uniforms import uniforms


@torch.inference_mode()
def reference_decode(
    pair: Pair, prompt: Sequence[int], drafting: Drafting, options: Options | None = None, row: int = 0
) -> list[int]:
    """Continue one prompt; row is its row number in the batch that it is compared with."""
    options = options or Options()
    stop = pair.stop_tokens if options.stop is None else options.stop
    emitted: list[int] = []
    step = 0
    while True:
        for token in one_step(pair, [*prompt, *emitted], drafting, options, row, step):
            emitted.append(token)
            if token in stop or len(emitted) == options.max_tokens:
                return emitted
        step += 1


def one_step(pair: Pair, text: list[int], drafting: Drafting, options: Options, row: int, step: int) -> list[int]:
    """The tokens of one step: those accepted, and one more."""
    n, size = vocabulary_size(pair.target), drafting.shape.size
    of_target, of_draft = (x if isinstance(x, Sampling) else x[row] for x in options.of_both)
    p = [next_token(pair.target, text, of_target, n)]
    numbers = uniforms(options.seed, [row], step, drafting.uniforms, p[0].dtype)
    if drafting.rule is None:
        return [int(ot.IID().draw(p[0], numbers[0]))]
    q: list[Tensor] = []
    prefixes, tokens = [text], list[int]()
    for node in range(size + 1):
        if node:
            prefixes.append([*prefixes[drafting.shape.parents[node - 1]], max(tokens[node - 1], 0)])
            p.append(next_token(pair.target, prefixes[node], of_target, n))
        q.append(next_token(pair.draft, prefixes[node], of_draft, n).to(p[0].dtype))
        children = drafting.shape.children(node)
        if children:
            drawn = drafting.law.draw(q[node], numbers[0, children.start - 1 : children.stop - 1])
            tokens += drawn.tolist()  # in order: the nodes are numbered breadth first
    tree = ot.paths.DraftTree(
        drafting.shape, torch.tensor([tokens]), torch.stack(p)[None], torch.stack(q)[None], drafting.law
    )
    selection = drafting.rule.select(tree, numbers[:, size:])
    return selection.tokens[0, : int(selection.length[0]) + 1].tolist()


def next_token(model: Any, text: list[int], sampling: Sampling | Processed, n: int) -> Tensor:
    """Law (n,) of the token after a text, from one pass over the whole of it."""
    whole: Any = model.backbone if isinstance(model, Draft) else model
    embedded = whole.get_input_embeddings()
    tokens = torch.tensor([text])
    read = tokens.clamp(max=embedded.num_embeddings - 1)
    if isinstance(model, Draft):
        logits, scored = model(read)[0, -1], model.vocabulary_subset
    else:
        logits = model(read).logits[0, -1, :n]
        scored = torch.arange(len(logits))
    if isinstance(sampling, Processed):
        scores = logits.new_full((1, n), float("-inf")).index_copy_(1, scored, logits[None])
        return drawable(sampling.law(tokens, scores)[0])
    masses = sampling.masses(logits)
    return masses.new_zeros(n).index_copy_(0, scored, masses)
