"""Accepted lengths of all path rules on the same real trees: `python -m llm_demo.bench.block_efficiency`.

Trees of K x L i.i.d. paths are drafted along texts that the target writes, with the target's and the draft's law at every
node; then every rule selects on every tree. What is stored is the expected accepted length given the tree (Rao-Blackwell),
so that rules differ by what they do and not by their uniforms: exact for token-wise rules, the mean of DRAWS selections for
the others. Smaller K and L are the first paths, cut. Beside it stand control variates: a rule's chance to go on from the
root given the drafts, less the same over all drafts, which is known exactly; their mean is 0, and what correlates with them is
the luck of the drafts.
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
SHORT = SIZES[:2]  # twice as quick
DEEP = 4  # every so many texts have all sizes
CLASSES = 512  # of tokens, as Joint has them on large vocabularies: all tokens cost four times as much
DRAWS = 16
SEED = 4
ONE = otd.rules.SpeculativeSampling()
TOKEN_WISE = (otd.rules.RecursiveRejection(), otd.rules.KSeq(), otd.rules.Optimal(classes=CLASSES))
CONTROLS = ((ONE, 1), (TOKEN_WISE[0], K), (TOKEN_WISE[1], K), (otd.rules.Optimal(), K))
WALKS = (otd.trees.TokenWise(ONE), *map(otd.trees.TokenWise, TOKEN_WISE), otd.trees.Joint(CLASSES))


def mean_length(rule: otd.trees.PathRule, tree: otd.trees.DraftTree, draws: int, generator: torch.Generator) -> float:
    """Mean accepted length of so many independent selections on one tree."""
    uniforms = torch.rand(draws, rule.n_uniforms(tree.bounds), generator=generator, dtype=tree.p.dtype)
    return float(rule.select(tree.repeated(draws), uniforms).length.double().mean())


def survival(rule: otd.trees.PathRule, tree: otd.trees.DraftTree) -> np.ndarray:
    """(L,) P(accepted length >= d | the tree) for d = 1 .. L, of a batch of one tree, exactly."""
    shape, tokens = tree.shape(0), tree.tokens[0].tolist()
    ways = [tuple(tokens[node - 1] for node in shape.path(v)) for v in range(shape.size + 1)]
    targets, drafts = (
        {way: row / row.sum() for way, row in zip(ways, laws[0].double().cpu().numpy(), strict=False)}
        for laws in (tree.p, tree.q)
    )
    model = otd.trees.MarkovModel(targets, drafts, tree.bounds.length)
    found = otd.trees.rules.lengths(rule, model, PlainTree(shape, tuple(tokens), tree.law))
    return np.array([sum(p for length, p in found.items() if length >= d) for d in range(1, tree.bounds.length + 1)])


def controls_on(tree: otd.trees.DraftTree) -> dict[str, float]:
    """Variables of mean 0 over the drafts of one tree of K paths, by name."""
    p, q = (x[0, 0].double().cpu().numpy() for x in (tree.p, tree.q))
    seen = q > 0
    # Tokens that are never drafted are one to every rule: their ratio p/q is the same.
    p, q = (np.append(x[seen], x[~seen].sum()) for x in (p, q))
    controls = {}
    for rule, k in CONTROLS:
        mean = expected_acceptance(rule, otd.Problem(p / p.sum(), q / q.sum(), k)).value
        on_these = survival(otd.trees.TokenWise(rule), first_chains(tree, k, 1))[0]
        controls[f"control {rule.name}"] = on_these - float(mean)
    return controls


def lengths_on(tree: otd.trees.DraftTree, sizes: Sequence[tuple[int, int]], draws: int, seed: int) -> dict[str, float]:
    """Expected accepted lengths on one tree of K x L paths, by 'rule KxL'."""
    generator = torch.Generator().manual_seed(seed)
    lengths: dict[str, float] = {}
    for width in dict.fromkeys(paths for paths, _ in sizes):
        deepest = max(length for paths, length in sizes if paths == width)
        whole = first_chains(tree, width, deepest)
        for rule in (ONE,) if width == 1 else TOKEN_WISE:
            walk = otd.trees.TokenWise(rule)
            lives = survival(walk, whole)
            for length in (length for paths, length in sizes if paths == width):  # a walk does not look ahead
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
    """The trees of K x L paths behind one prompt, a step of decoding each; `walk` chooses how the text goes on."""
    drafting = Drafting.chains(*size, walk)
    for step in decode_steps(pair, [prompt], drafting, options):
        yield step.tree(0)


def replay_text(
    pair: Pair, number: int, prompt: Prompt, options: DecodeOptions, every: int, draws: int
) -> dict[str, object]:
    """Means over every `every`-th step of one text; `trees`: how many. Every DEEP-th text has all sizes."""
    walk = WALKS[(number // DEEP + number) % len(WALKS)]  # all walks on deep texts, and on texts of every kind
    sizes = SHORT if number % DEEP else SIZES
    sums: dict[str, float] = {}
    count = 0
    for place, tree in enumerate(trees(pair, prompt.tokens, walk, options, sizes[-1])):
        if place % every == number % every:
            values = lengths_on(tree, sizes, draws, SEED + 1000 * number + place) | controls_on(tree)
            for name, value in values.items():
                sums[name] = sums.get(name, 0.0) + value
            count += 1
    means = {name: round(value / count, 5) for name, value in sums.items()}
    about = {"text": number, "kind": prompt.kind, "walk": walk.name, "temperature": options.sampling.temperature}
    return about | {"trees": count} | means


def write_texts(
    pair: Pair, prompts: Sequence[Prompt], out: Path, first: int, seconds: float, decoding: DecodeOptions, **how: int
) -> None:
    """Append a line for every text from `first` on, and stop after the text during which so many seconds have passed."""
    start = time.perf_counter()
    if not first:
        out.unlink(missing_ok=True)
    for number, prompt in list(enumerate(prompts))[first:]:
        row = replay_text(pair, number, prompt, replace(decoding, rows=[number]), **how)
        append(row, out, _columns())  # what a short text lacks stays empty
        if time.perf_counter() - start > seconds:
            break


def _columns() -> list[str]:
    rules = {1: (WALKS[0].name, "BlockVerification"), K: (*(rule.name for rule in WALKS[1:]), "Traversal")}
    lengths = [f"{name} {paths}x{length}" for paths, length in SIZES for name in rules[paths]]
    return ["text", "kind", "walk", "temperature", "trees", *lengths, *(f"control {rule.name}" for rule, _ in CONTROLS)]


@click.command()
@click.option("--out", default=OUT, show_default=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--draft", default="states", show_default=True, type=click.Choice(list(DRAFTS)), help="Of the embedded ones."
)
@click.option("--texts", default=200, show_default=True, help="Prompts, of all kinds in turn.")
@click.option("--first", default=0, help="Go on behind an earlier run, which left so many texts in OUT.")
@click.option("--tokens", default=32, show_default=True, help="Of each text.")
@click.option("--every", default=1, show_default=True, help="Steps from one tree that is looked at to the next.")
@click.option("--draws", default=DRAWS, show_default=True, help="Selections a tree, of rules that are not exact here.")
@click.option("--temperature", default=1.0, show_default=True)
@click.option("--minutes", default=1e9, help="Stop after the text during which these have passed.")
@click.option("--threads", default=1, show_default=True, help="Of torch, on the CPU.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--dtype", default="float32", show_default=True, type=click.Choice(list(DTYPES)))
def main(out: Path, texts: int, first: int, tokens: int, temperature: float, minutes: float, **options: Any) -> None:
    """Write a line for every text to OUT."""
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
