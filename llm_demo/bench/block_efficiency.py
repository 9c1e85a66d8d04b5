"""Accepted lengths of all path rules on the same real trees: `python -m llm_demo.bench.block_efficiency`.

Trees of K x L i.i.d. paths are drafted along completions by the target, with the distributions of target and draft at every node. Every
rule selects on every tree. The stored value is the expected accepted length given the tree (Rao-Blackwell), so that differences between
rules do not depend on their uniform random numbers. It is exact for token-wise rules, and the mean of DRAWS selections for the others.
Smaller trees are the first K paths, cut to L tokens. The table also has control variates: a rule's probability of accepting a token at the
root given the drafts, minus the same probability over all drafts, which is known exactly. Their mean is 0.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

import ot_draft as otd
from llm_demo.models.load import DRAFTS, load_pair
from llm_demo.prompts import Prompt, read_prompts
from llm_demo.rows import append
from ot_draft.data.estimate import expected_acceptance
from ot_draft.decoding import CannotDecode, DecodeOptions, Drafting, Pair, SamplingParams, decode_steps
from ot_draft.decoding.load import DTYPES
from ot_draft.trees.drafting.fixed import first_chains
from ot_draft.trees.tree import PlainTree

OUT = Path("figures/data/real_block_efficiency.csv")
K, L = 8, 8
SIZES = ((1, 4), (8, 4), (1, 8), (8, 8))
SHORT = SIZES[:2]  # half the time
DEEP = 4  # every DEEP-th prompt has all sizes
CLASSES = 512  # of tokens, as Joint has on large vocabularies; without classes the time is four times as long
DRAWS = 16
SEED = 4
ONE = otd.rules.SpeculativeSampling()
TOKEN_WISE = (otd.rules.RecursiveRejection(), otd.rules.KSeq(), otd.rules.Optimal(classes=CLASSES))
CONTROLS = ((ONE, 1), (TOKEN_WISE[0], K), (TOKEN_WISE[1], K), (otd.rules.Optimal(), K))
WALKS = (otd.trees.TokenWise(ONE), *map(otd.trees.TokenWise, TOKEN_WISE), otd.trees.Joint(CLASSES))


def mean_length(rule: otd.trees.PathRule, tree: otd.trees.DraftTree, draws: int, generator: torch.Generator) -> float:
    """Return the mean accepted length of `draws` independent selections on one tree."""
    uniforms = torch.rand(draws, rule.n_uniforms(tree.bounds), generator=generator, dtype=tree.p.dtype)
    return float(rule.select(tree.repeated(draws), uniforms).length.double().mean())


def survival(rule: otd.trees.PathRule, tree: otd.trees.DraftTree) -> np.ndarray:
    """Return P(accepted length >= d | the tree), exactly, for d = 1 .. L: (L,), of a batch of one tree."""
    shape, tokens = tree.shape(0), tree.tokens[0].tolist()
    prefixes = [tuple(tokens[node - 1] for node in shape.path(v)) for v in range(shape.size + 1)]
    targets, drafts = (
        {prefix: row / row.sum() for prefix, row in zip(prefixes, laws[0].double().cpu().numpy(), strict=False)}
        for laws in (tree.p, tree.q)
    )
    model = otd.trees.MarkovModel(targets, drafts, tree.bounds.length)
    found = otd.trees.rules.lengths(rule, model, PlainTree(shape, tuple(tokens), tree.law))
    return np.array([sum(p for length, p in found.items() if length >= d) for d in range(1, tree.bounds.length + 1)])


def controls_on(tree: otd.trees.DraftTree) -> dict[str, float]:
    """Return variables of mean 0 over the drafts of one tree of K paths, by name."""
    p, q = (x[0, 0].double().cpu().numpy() for x in (tree.p, tree.q))
    seen = q > 0
    # Tokens that are never drafted are equivalent for every rule, because they have the same ratio p/q.
    p, q = (np.append(x[seen], x[~seen].sum()) for x in (p, q))
    controls = {}
    for rule, k in CONTROLS:
        mean = expected_acceptance(rule, otd.Problem(p / p.sum(), q / q.sum(), k)).value
        on_these = survival(otd.trees.TokenWise(rule), first_chains(tree, k, 1))[0]
        controls[f"control {rule.name}"] = on_these - float(mean)
    return controls


def lengths_on(tree: otd.trees.DraftTree, sizes: Sequence[tuple[int, int]], draws: int, seed: int) -> dict[str, float]:
    """Return the expected accepted lengths on one tree of K x L paths, by 'rule KxL'."""
    generator = torch.Generator().manual_seed(seed)
    lengths: dict[str, float] = {}
    for width in dict.fromkeys(paths for paths, _ in sizes):
        deepest = max(length for paths, length in sizes if paths == width)
        whole = first_chains(tree, width, deepest)
        for rule in (ONE,) if width == 1 else TOKEN_WISE:
            walk = otd.trees.TokenWise(rule)
            lives = survival(walk, whole)
            for length in (
                length for paths, length in sizes if paths == width
            ):  # a token-wise rule does not look ahead
                lengths[f"{walk.name} {width}x{length}"] = sum(lives[:length])
    for width, length in sizes:
        cut = first_chains(tree, width, length)
        others = (otd.trees.BlockVerification(),) if width == 1 else (otd.trees.Traversal(), otd.trees.Joint(CLASSES))
        for path_rule in others:
            lengths[f"{path_rule.name} {width}x{length}"] = mean_length(path_rule, cut, draws, generator)
    return lengths


def trees(
    pair: Pair, prompt: Sequence[int], walk: otd.trees.PathRule, options: DecodeOptions, size: tuple[int, int] = (K, L)
) -> Iterator[otd.trees.DraftTree]:
    """Yield the trees of K x L paths after one prompt, one per decoding step; the rule `walk` selects the tokens."""
    drafting = Drafting.chains(*size, walk)
    for step in decode_steps(pair, [prompt], drafting, options):
        yield step.tree(0)


def replay_text(
    pair: Pair, number: int, prompt: Prompt, options: DecodeOptions, every: int, draws: int
) -> dict[str, object]:
    """Return means over every `every`-th step of one prompt, and their number `trees`. Every DEEP-th prompt has all sizes."""
    walk = WALKS[
        (number // DEEP + number) % len(WALKS)
    ]  # all walks occur on prompts with all sizes, and on all kinds of prompts
    sizes = SHORT if number % DEEP else SIZES
    sums: dict[str, float] = {}
    count = 0
    for step, tree in enumerate(trees(pair, prompt.tokens, walk, options, sizes[-1])):
        if step % every == number % every:
            values = lengths_on(tree, sizes, draws, SEED + 1000 * number + step) | controls_on(tree)
            for name, value in values.items():
                sums[name] = sums.get(name, 0.0) + value
            count += 1
    means = {name: round(value / count, 5) for name, value in sums.items()}
    about = {"text": number, "kind": prompt.kind, "walk": walk.name, "temperature": options.sampling.temperature}
    return about | {"trees": count} | means


def write_texts(
    pair: Pair, prompts: Sequence[Prompt], out: Path, first: int, seconds: float, decoding: DecodeOptions, **how: int
) -> None:
    """Append a row for every prompt from `first` on; the prompt during which the time limit in seconds passes is the last."""
    start = time.perf_counter()
    if not first:
        out.unlink(missing_ok=True)
    for number, prompt in list(enumerate(prompts))[first:]:
        row = replay_text(pair, number, prompt, replace(decoding, rows=[number]), **how)
        append(row, out, _columns())  # columns without trees stay empty
        if time.perf_counter() - start > seconds:
            break


def _columns() -> list[str]:
    rules = {1: (WALKS[0].name, "BlockVerification"), K: (*(rule.name for rule in WALKS[1:]), "Traversal")}
    lengths = [f"{name} {paths}x{length}" for paths, length in SIZES for name in rules[paths]]
    return ["text", "kind", "walk", "temperature", "trees", *lengths, *(f"control {rule.name}" for rule, _ in CONTROLS)]


@click.command()
@click.option("--out", default=OUT, show_default=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--draft", default="states", show_default=True, type=click.Choice(list(DRAFTS)), help="Embedded draft model."
)
@click.option("--texts", default=200, show_default=True, help="Number of prompts; kinds of prompts alternate.")
@click.option("--first", default=0, help="Number of prompts in OUT from an earlier run to continue.")
@click.option("--tokens", default=32, show_default=True, help="Maximum number of new tokens per prompt.")
@click.option("--every", default=1, show_default=True, help="Interval between evaluated trees, in steps.")
@click.option("--draws", default=DRAWS, show_default=True, help="Selections per tree of rules without an exact value.")
@click.option("--temperature", default=1.0, show_default=True)
@click.option("--minutes", default=1e9, help="Time limit in minutes; the current prompt is completed.")
@click.option("--threads", default=1, show_default=True, help="Number of torch threads on the CPU.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--dtype", default="float32", show_default=True, type=click.Choice(list(DTYPES)))
def main(out: Path, texts: int, first: int, tokens: int, temperature: float, minutes: float, **options: Any) -> None:
    """Write one row per prompt to OUT."""
    torch.set_num_threads(options["threads"])
    try:
        pair = load_pair(draft=options["draft"], dtype=options["dtype"], device=options["device"])
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None
    decoding = DecodeOptions(SamplingParams(temperature), max_tokens=tokens, seed=SEED, laws=True)
    prompts = read_prompts(pair.tokenizer, texts)
    write_texts(pair, prompts, out, first, 60 * minutes, decoding, every=options["every"], draws=options["draws"])


if __name__ == "__main__":
    main()
