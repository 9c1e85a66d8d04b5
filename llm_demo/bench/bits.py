"""Trees against plain decoding, number by number: `python -m llm_demo.bench.bits`.

Texts are continued by trees. At every node of every tree the target's law, one row of a pass over all nodes, is compared with that of plain
decoding: of a pass over the node's token alone, behind its text and the tokens above it. The table says how far the two are apart in total
variation, mean and largest, and how many laws are equal in every bit; then how many greedy texts by trees are those of plain decoding: of
every prompt, and with --times behind other beginnings, which are drawn.
Where sums are added in one order everywhere, all are; elsewhere this is what losslessness is short of. --against float32
says how far each backend's plain law, at the same nodes, is from that of float32 weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import torch
from torch import Tensor

from llm_demo.bench.auto import KINDS
from llm_demo.machine import machine
from llm_demo.models.load import TARGET_FILE, load_pair, target_directory
from llm_demo.prompts import read_prompts
from ot_draft.cli import progress_bar
from ot_draft.decoding import CannotDecode, DecodeOptions, Drafting, Pair, SamplingParams, Step, decode, decode_steps
from ot_draft.trees import FixedTree, TreeShape

SHAPE = TreeShape((0, 0, 1, 1, 3))  # two at the first level, two below the first of them, one more
BACKENDS = {  # arguments of `load_pair`, by how the table calls them
    "torch float32": {"dtype": "float32", "backend": "torch"},
    "torch bfloat16": {"dtype": "bfloat16"},
    "torch float16": {"dtype": "float16"},
    "openvino": {"backend": "openvino"},
    "openvino-float": {"backend": "openvino-float"},
    "llama.cpp": {"backend": "llama.cpp"},
}
SEED = 5


def loaded(name: str) -> Pair:
    """The embedded model by this backend, with the embedded draft; in llama.cpp, which cannot read that, it is its own draft."""
    draft = str(target_directory() / TARGET_FILE) if name == "llama.cpp" else "states"
    return load_pair(None, draft, **BACKENDS[name])


class OneByOne:
    """Plain decoding behind a prompt, one token a pass, which can go back and read another token."""

    @torch.inference_mode()
    def __init__(self, pair: Pair, prompt: Sequence[int], room: int) -> None:
        self._model = pair.target_model
        self._cache = self._model.cache(room + -room % 8)
        self._sees = torch.ones(self._cache.live, self._cache.live, dtype=torch.bool).tril()[None]
        if len(prompt) > 1:
            self._read(0, prompt[:-1])

    def law(self, place: int, token: int) -> Tensor:
        """The law (n,) behind this token, read at this place of the text."""
        logits = self._model.info.expand_to_vocab(self._read(place, [token]), float("-inf"))
        return SamplingParams().masses(logits[0])[0]

    def _read(self, place: int, tokens: Sequence[int]) -> Tensor:
        slots = torch.arange(place, place + len(tokens))[None]
        attention_mask = self._sees[:, place : place + len(tokens)]
        return self._model.forward(
            self._cache, torch.tensor([list(tokens)]), slots, slots, attention_mask, last=1
        ).logits


@torch.inference_mode()
def at_nodes(plain: OneByOne, step: Step, place: int) -> Tensor:
    """Laws (N + 1, n) at the nodes of a step's tree, whose root stands at this place; of what was read, the accepted path is left."""
    shape, accepted, tokens = step.shape(0), set(step.nodes[0].tolist()), [int(step.root[0]), *step.drafted[0].tolist()]
    laws, left = dict[int, Tensor](), [0]
    while left:  # depth first, so that above a node stand the tokens of its own path
        node = left.pop()
        laws[node] = plain.law(place + shape.depths[node], tokens[node])
        left += sorted(shape.children(node), key=lambda child: child not in accepted)
    return torch.stack([laws[node] for node in range(len(laws))])


def compared(pair: Pair, prompt: Sequence[int], tokens: int, seed: int, other: Pair | None = None) -> Tensor:
    """(rows, 3), a row for every node of the trees that a text is continued by: how far its law is from plain decoding's, whether it is
    equal in every bit, and how far plain decoding's is from the other pair's, 0 without one."""
    options = DecodeOptions(SamplingParams(), max_tokens=tokens, seed=seed, stop=(), laws=True)
    room, place = len(prompt) + tokens + 2 * SHAPE.length + 1, len(prompt) - 1
    plain, others = OneByOne(pair, prompt, room), None if other is None else OneByOne(other, prompt, room)
    found = []
    for step in decode_steps(pair, [prompt], Drafting.of(FixedTree(SHAPE)), options):
        assert step.p is not None
        laws = at_nodes(plain, step, place)
        far = torch.zeros(len(laws)) if others is None else distances(laws, at_nodes(others, step, place))
        found.append(torch.stack((distances(step.p[0], laws), (step.p[0] == laws).all(-1).double(), far), 1))
        place += int(step.length[0]) + 1
    return torch.cat(found)


def distances(one: Tensor, other: Tensor) -> Tensor:
    """Total variation, row by row."""
    return (one - other).abs().sum(-1) / 2


def begun(pair: Pair, prompt: Sequence[int], tokens: int, seed: int) -> list[int]:
    """The prompt and so many tokens of a text that is drawn behind it, by plain decoding."""
    options = DecodeOptions(SamplingParams(), max_tokens=tokens, seed=seed, stop=())
    return [*prompt, *decode(pair, [prompt], Drafting.autoregressive(), options).tokens[0]]


def same_greedy(pair: Pair, prompt: Sequence[int], tokens: int) -> bool:
    """Whether the greedy text by trees is that of plain decoding."""
    options = DecodeOptions(SamplingParams(0.0), max_tokens=tokens, stop=())
    policies: list[Any] = [Drafting.of(FixedTree(SHAPE)), Drafting.autoregressive()]
    drafted, plain = (decode(pair, [prompt], policy, options).tokens for policy in policies)
    return drafted == plain


@click.command()
@click.option(
    "--backend", "names", multiple=True, type=click.Choice(list(BACKENDS)), default=("openvino",), show_default=True
)
@click.option("--texts", default=8, show_default=True, type=click.IntRange(1), help="Of four kinds in turn.")
@click.option("--times", default=1, show_default=True, type=click.IntRange(1), help="Every text, by other numbers.")
@click.option("--tokens", default=64, show_default=True, type=click.IntRange(2), help="Of every text.")
@click.option("--against", type=click.Choice(list(BACKENDS)), help="Say how far laws are from those of this one.")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1))
def main(names: tuple[str, ...], texts: int, times: int, tokens: int, against: str | None, threads: int) -> None:
    """Measure, and print a line a backend."""
    torch.set_num_threads(threads)
    click.echo(", ".join(f"{name}: {value}" for name, value in machine().items()))
    try:
        other = None if against is None else loaded(against)
        for name in names:
            pair = loaded(name)
            prompts = [prompt.tokens for prompt in read_prompts(pair.tokenizer, texts, KINDS)]
            rows, equal = list[Tensor](), 0
            with progress_bar(texts * times, name) as advance:
                for number in range(texts * times):
                    prompt = prompts[number % texts]
                    rows.append(compared(pair, prompt, tokens, SEED + number, other))
                    if number >= texts:
                        prompt = begun(pair, prompt, tokens // 2, SEED + number)
                    equal += same_greedy(pair, prompt, tokens)
                    advance()
            far, bits, from_other = torch.cat(rows).T
            line = f"{name} ({pair.law}): {len(far)} rows, total variation between trees and plain passes {far.mean():.2g}, at most"
            line += (
                f" {far.max():.2g}; {int(bits.sum())} equal in every bit; {equal} of {texts * times} greedy texts equal"
            )
            if other is not None:
                line += f"; from {against} {from_other.mean():.2g}, at most {from_other.max():.2g}"
            click.echo(line)
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None


if __name__ == "__main__":
    main()
