"""The same decoding, slow and obvious: no cache, no mask, no batch; every text of a step is read from the first token on, by itself.

The engine must give the same tokens from the same uniforms.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ..errors import CannotDecode
from ..trees.drafting.drafter import as_trees, begin
from ..trees.drafting.growing import Grown
from .drafting import Drafting
from .language_model import target_context
from .loop import DecodeOptions
from .model import DecoderModel
from .pair import Pair
from .policy import PolicySettings
from .prompt_lookup import History
from .sampling import NodeLaws, uniforms


@torch.inference_mode()
def reference_decode(
    pair: Pair, prompt: Sequence[int], policy: PolicySettings, options: DecodeOptions | None = None, row: int = 0
) -> list[int]:
    """Continue one prompt without cache, mask and batch: every sequence of a step is read from its first token on.

    `decode` returns the same tokens from the same random numbers.

    Parameters
    ----------
    pair, policy, options
        As for `decode`. Choices of a policy must depend on this sequence alone; it is not told what a step did.
    prompt : sequence of int
        Token ids.
    row : int, default=0
        Row number of the prompt in the batch that it is compared with.

    Returns
    -------
    tokens : list of int
        New tokens.

    Examples
    --------
    >>> prompt = pair.encode("Hello")  # doctest: +SKIP
    >>> reference_decode(pair, prompt, drafting) == decode(pair, [prompt], drafting).tokens[0]  # doctest: +SKIP
    True
    """
    options = options or DecodeOptions()
    stop = pair.stop_tokens if options.stop is None else options.stop
    emitted: list[int] = []
    step = 0
    run = policy.begin(pair, 1)
    while True:
        text = [*prompt, *emitted]
        for token in one_step(pair, text, run.choose(History([text])), options, row, step, len(emitted)):
            emitted.append(token)
            if token in stop or len(emitted) == options.max_tokens:
                return emitted
        step += 1


def one_step(
    pair: Pair, text: list[int], drafting: Drafting, options: DecodeOptions, row: int, step: int, emitted: int = 0
) -> Iterator[int]:
    """The tokens of one step: those accepted, and one more. CannotDecode at one that the target has no law for."""
    n, (of_target, of_draft), tree = pair.n, options.of_both, drafting.tree
    target, draft = pair.target_model, pair.draft_model
    context = None
    if tree.counts.n_model_calls:  # of all tokens but the last, which the target has not read yet
        assert draft is not None
        context = target_context(draft, pair.target, text[:-1], len(text) + tree.bounds.length)
    number = torch.float64 if target.info.dtype == torch.float64 else torch.float32
    numbers = uniforms(options.seed, [row], step, drafting.uniforms, number)
    noise = None if drafting.noise is None else drafting.noise([row], [emitted], n, number)

    @cache  # many nodes have one text
    def draft_law(prefix: tuple[int, ...]) -> Tensor:
        assert draft is not None
        return uniform_if_lost(next_token(draft, prefix, of_draft, row, context)).to(number)

    @cache
    def target_law(prefix: tuple[int, ...]) -> Tensor:
        return next_token(target, prefix, of_target, row)

    grown = grow(drafting, text, numbers, noise, n, draft_law)
    ways = [root := tuple(text)]
    for token, parent in zip(grown.tokens[0].tolist(), grown.parents[0].tolist(), strict=True):
        ways.append((*ways[parent], max(token, 0)) if parent < len(ways) else root)
    p = torch.stack([target_law(way) for way in ways])[None]
    if tree.counts.n_model_calls:
        q = torch.stack([draft_law(way) for way in ways])[None]
    else:  # looked-up tokens have probability 1; absent ones (-1) are those of the last token
        q = torch.nn.functional.one_hot(grown.tokens % n, n).to(number)
    lost = p[0, :, 0].isnan()
    selection = drafting.select(as_trees(tree, grown, uniform_if_lost(p).to(number), q), numbers, noise)
    length = int(selection.length[0])
    nodes = [0, *selection.nodes[0, :length].tolist()]
    for place, (node, token) in enumerate(zip(nodes, selection.tokens[0].tolist(), strict=False)):
        if lost[node]:
            raise CannotDecode(f"sequence {row}, after {len(text) + place} tokens: the target gives no distribution")
        yield token


def uniform_if_lost(laws: Tensor) -> Tensor:
    """Return distributions (..., n), uniform where the first mass is NaN."""
    return laws.masked_fill(laws[..., :1].isnan(), 1 / laws.shape[-1])


def grow(drafting: Drafting, text: list[int], numbers: Tensor, noise: Tensor | None, n: int, draft_law: Any) -> Grown:
    """Return the tree after a text; every node that the drafting asks for is read separately."""
    given = torch.full((1, drafting.tree.counts.n_lookup_tokens), -1)
    found = drafting.lookup.find(text).tokens[: drafting.tree.counts.n_lookup_tokens] if drafting.lookup else ()
    given[0, : len(found)] = torch.tensor(found, dtype=torch.int64)
    growing = begin(drafting.tree, numbers[:, : drafting.tree.counts.n_uniforms], given, noise)
    prefixes: dict[int, tuple[int, ...]] = {0: tuple(text)}  # by slot
    while growing.levels:
        laws = torch.full((1, growing.slots.shape[1], n), 1 / n, dtype=numbers.dtype)
        for place, slot in enumerate(growing.slots[0].tolist()):
            if slot > 0:
                prefixes[slot] = (*prefixes[int(growing.above[0, place])], int(growing.read[0, place]))
            if slot >= 0:
                laws[0, place] = draft_law(prefixes[slot])
        growing.grow(laws)
    return growing.grown()


def next_token(
    model: DecoderModel, text: Sequence[int], sampling: NodeLaws, row: int = 0, context: Any = None
) -> Tensor:
    """Return the distribution (n,) of the token after a text, by a full pass. context: for a draft model that reads the target's."""
    logits = model.full_pass(text, [len(text)], context).logits[0]
    return sampling.law_after(row, torch.tensor([list(text)]), logits, model.info)
