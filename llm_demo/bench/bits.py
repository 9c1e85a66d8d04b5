"""Numerical difference between tree verification and autoregressive decoding: `python -m llm_demo.bench.bits`.

Prompts are continued with draft trees. At every node, the target's distribution from the forward pass over all nodes is compared with that
of autoregressive decoding, a forward pass over the node's token after its context and ancestors. The table has the mean and the largest
total variation, and the number of bitwise identical distributions. It also counts the greedy completions with trees that equal those of
autoregressive decoding: of every prompt, and with --times of prompts extended by sampled tokens. If all sums are added in one order,
everything is identical; otherwise the difference is the numerical deviation from losslessness. `--against "torch float32"` adds the
distance of each backend's autoregressive distributions from those of float32 weights, at the same nodes.
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

SHAPE = TreeShape((0, 0, 1, 1, 3))  # two nodes at depth 1, two below the first of them, one at depth 3
BACKENDS = {  # arguments of `load_pair`, by name in the table
    "torch float32": {"dtype": "float32", "backend": "torch"},
    "torch bfloat16": {"dtype": "bfloat16"},
    "torch float16": {"dtype": "float16"},
    "openvino": {"backend": "openvino"},
    "openvino-float": {"backend": "openvino-float"},
    "llama.cpp": {"backend": "llama.cpp"},
}
SEED = 5


def loaded(name: str) -> Pair:
    """Load the embedded pair in this backend; in llama.cpp, which cannot read the embedded draft, the target is its own draft."""
    draft = str(target_directory() / TARGET_FILE) if name == "llama.cpp" else "states"
    return load_pair(None, draft, **BACKENDS[name])


class OneByOne:
    """Autoregressive decoding after a prompt, one token per forward pass; it can return to a position and read another token."""

    @torch.inference_mode()
    def __init__(self, pair: Pair, prompt: Sequence[int], room: int) -> None:
        self._model = pair.target_model
        self._cache = self._model.cache(room + -room % 8)
        self._sees = torch.ones(self._cache.live, self._cache.live, dtype=torch.bool).tril()[None]
        if len(prompt) > 1:
            self._read(0, prompt[:-1])

    def law(self, position: int, token: int) -> Tensor:
        """Return the distribution (n,) after this token, read at this position of the sequence."""
        logits = self._model.info.expand_to_vocab(self._read(position, [token]), float("-inf"))
        return SamplingParams().masses(logits[0])[0]

    def _read(self, position: int, tokens: Sequence[int]) -> Tensor:
        slots = torch.arange(position, position + len(tokens))[None]
        attention_mask = self._sees[:, position : position + len(tokens)]
        return self._model.forward(
            self._cache, torch.tensor([list(tokens)]), slots, slots, attention_mask, last=1
        ).logits


@torch.inference_mode()
def at_nodes(plain: OneByOne, step: Step, position: int) -> Tensor:
    """Return distributions (N + 1, n) at the nodes of a step's tree; position: of the root. The accepted path stays in the cache."""
    shape, accepted, tokens = step.shape(0), set(step.nodes[0].tolist()), [int(step.root[0]), *step.drafted[0].tolist()]
    laws, left = dict[int, Tensor](), [0]
    while left:  # depth first, so that the cache holds the ancestors of each node
        node = left.pop()
        laws[node] = plain.law(position + shape.depths[node], tokens[node])
        left += sorted(shape.children(node), key=lambda child: child not in accepted)
    return torch.stack([laws[node] for node in range(len(laws))])


def compared(pair: Pair, prompt: Sequence[int], tokens: int, seed: int, other: Pair | None = None) -> Tensor:
    """Return (rows, 3), with one row per node of the trees that continue a prompt.

    The columns are the total variation from autoregressive decoding, whether the distributions are bitwise identical, and the total
    variation between the autoregressive distributions of both pairs, 0 without another pair.
    """
    options = DecodeOptions(SamplingParams(), max_tokens=tokens, seed=seed, stop=(), laws=True)
    room, position = len(prompt) + tokens + 2 * SHAPE.length + 1, len(prompt) - 1
    plain, others = OneByOne(pair, prompt, room), None if other is None else OneByOne(other, prompt, room)
    found = []
    for step in decode_steps(pair, [prompt], Drafting.of(FixedTree(SHAPE)), options):
        assert step.p is not None
        laws = at_nodes(plain, step, position)
        far = torch.zeros(len(laws)) if others is None else distances(laws, at_nodes(others, step, position))
        found.append(torch.stack((distances(step.p[0], laws), (step.p[0] == laws).all(-1).double(), far), 1))
        position += int(step.length[0]) + 1
    return torch.cat(found)


def distances(one: Tensor, other: Tensor) -> Tensor:
    """Return the total variation of each row."""
    return (one - other).abs().sum(-1) / 2


def begun(pair: Pair, prompt: Sequence[int], tokens: int, seed: int) -> list[int]:
    """Return the prompt and `tokens` tokens sampled after it by autoregressive decoding."""
    options = DecodeOptions(SamplingParams(), max_tokens=tokens, seed=seed, stop=())
    return [*prompt, *decode(pair, [prompt], Drafting.autoregressive(), options).tokens[0]]


def same_greedy(pair: Pair, prompt: Sequence[int], tokens: int) -> bool:
    """Return whether greedy decoding with trees gives the completion of autoregressive decoding."""
    options = DecodeOptions(SamplingParams(0.0), max_tokens=tokens, stop=())
    policies: list[Any] = [Drafting.of(FixedTree(SHAPE)), Drafting.autoregressive()]
    drafted, plain = (decode(pair, [prompt], policy, options).tokens for policy in policies)
    return drafted == plain


@click.command()
@click.option(
    "--backend", "names", multiple=True, type=click.Choice(list(BACKENDS)), default=("openvino",), show_default=True
)
@click.option(
    "--texts", default=8, show_default=True, type=click.IntRange(1), help="Number of prompts; four kinds alternate."
)
@click.option(
    "--times",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Repetitions of every prompt, with other random numbers.",
)
@click.option(
    "--tokens", default=64, show_default=True, type=click.IntRange(2), help="Maximum number of new tokens per prompt."
)
@click.option("--against", type=click.Choice(list(BACKENDS)), help="Backend to compare distributions with.")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1))
def main(names: tuple[str, ...], texts: int, times: int, tokens: int, against: str | None, threads: int) -> None:
    """Measure and print one line per backend."""
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
            line = f"{name} ({pair.law}): {len(far)} nodes, total variation of trees from autoregressive passes {far.mean():.2g}, at most"
            line += f" {far.max():.2g}; {int(bits.sum())} bitwise identical; {equal} of {texts * times} greedy completions equal"
            if other is not None:
                line += f"; from {against} {from_other.mean():.2g}, at most {from_other.max():.2g}"
            click.echo(line)
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None


if __name__ == "__main__":
    main()
