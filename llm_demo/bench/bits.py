"""Trees against plain decoding, number by number: `python -m llm_demo.bench.bits`.

Texts are continued by trees, and read again one token a pass. Of the target's law at every emitted token the table says how far the two
are apart in total variation, mean and largest, and how many laws are equal in every bit; then how many greedy texts by trees are those of
plain decoding. Where sums are added in one order everywhere, all are; elsewhere this is what losslessness is short of. --against float32
says how far each backend's law, along the same texts, is from that of float32 weights.
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
from ot_draft.decoding import CannotDecode, DecodeOptions, Drafting, Pair, SamplingParams, decode, decode_steps
from ot_draft.decoding.language_model import language_model
from ot_draft.paths import FixedTree, TreeShape

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


def by_trees(pair: Pair, prompt: Sequence[int], tokens: int, seed: int) -> tuple[list[int], Tensor]:
    """A text continued by trees, and the target's law (rows, n) at every token that came."""
    options = DecodeOptions(SamplingParams(), max_tokens=tokens, seed=seed, stop=(), laws=True)
    text, laws = list(prompt), list[Tensor]()
    for step in decode_steps(pair, [prompt], Drafting.of(FixedTree(SHAPE)), options):
        born = step.tokens(0)
        nodes = [0, *step.nodes[0].tolist()]
        assert step.p is not None
        laws += [step.p[0, node] for node in nodes[: len(born)]]
        text += born
    return text, torch.stack(laws)


@torch.inference_mode()
def one_by_one(pair: Pair, text: Sequence[int], first: int) -> Tensor:
    """The target's laws at the tokens of a text from place `first` on, each of a pass of one token."""
    reader = language_model(pair.target, pair.n)
    cache = reader.cache(len(text) + -len(text) % 8)
    sees = torch.ones(cache.live, cache.live, dtype=torch.bool).tril()[None]
    tokens, laws = torch.tensor([list(text)]), list[Tensor]()
    for start, end in ((0, first - 1), *((place, place + 1) for place in range(first - 1, len(text) - 1))):
        if end > start:
            slots = torch.arange(start, end)[None]
            logits = reader.logits(cache, tokens[:, start:end], slots, slots, sees[:, start:end], last=1)
            laws += [reader.spread_logits(logits)[0, -1].float().softmax(-1)] if end >= first else []
    return torch.stack(laws)


def distances(one: Tensor, other: Tensor) -> Tensor:
    """Total variation, row by row."""
    return (one - other).abs().sum(-1) / 2


def same_greedy(pair: Pair, prompt: Sequence[int], tokens: int) -> bool:
    """Whether the greedy text by trees is that of plain decoding."""
    options = DecodeOptions(SamplingParams(0.0), max_tokens=tokens, stop=())
    policies: list[Any] = [Drafting.of(FixedTree(SHAPE)), Drafting.plain()]
    drafted, plain = (decode(pair, [prompt], policy, options).tokens for policy in policies)
    return drafted == plain


@click.command()
@click.option(
    "--backend", "names", multiple=True, type=click.Choice(list(BACKENDS)), default=("openvino",), show_default=True
)
@click.option("--texts", default=8, show_default=True, type=click.IntRange(1), help="Of four kinds in turn.")
@click.option("--tokens", default=64, show_default=True, type=click.IntRange(2), help="Of every text.")
@click.option("--against", type=click.Choice(list(BACKENDS)), help="Say how far laws are from those of this one.")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1))
def main(names: tuple[str, ...], texts: int, tokens: int, against: str | None, threads: int) -> None:
    """Measure, and print a line a backend."""
    torch.set_num_threads(threads)
    click.echo(", ".join(f"{name}: {value}" for name, value in machine().items()))
    try:
        other = None if against is None else loaded(against)
        for name in names:
            pair = loaded(name)
            prompts = [prompt.tokens for prompt in read_prompts(pair.tokenizer, texts, KINDS)]
            apart, from_other, equal = list[Tensor](), list[Tensor](), 0
            with progress_bar(texts, name) as advance:
                for number, prompt in enumerate(prompts):
                    text, laws = by_trees(pair, prompt, tokens, SEED + number)
                    plain = one_by_one(pair, text, len(prompt))
                    apart.append(torch.stack((distances(laws, plain), (laws == plain).all(-1).double())))
                    if other is not None:
                        from_other.append(distances(plain, one_by_one(other, text, len(prompt))))
                    equal += same_greedy(pair, prompt, tokens)
                    advance()
            far, bits = torch.cat(apart, 1)
            line = f"{name} ({pair.law}): {len(far)} tokens, total variation between trees and plain passes {far.mean():.2g}, at most"
            line += (
                f" {far.max():.2g}; {bits.mean():.2%} of laws equal in every bit; {equal} of {texts} greedy texts equal"
            )
            if other is not None:
                whole = torch.cat(from_other)
                line += f"; from {against} {whole.mean():.2g}, at most {whole.max():.2g}"
            click.echo(line)
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None


if __name__ == "__main__":
    main()
