"""Tokens per target call of every rule on a pair of two sizes: `python -m llm_demo.bench.two_sizes --target FILE --draft FILE --out FILE`.

K-SEQ decodes every prompt on K x L i.i.d. paths. At every step all trees are drafted with the same random numbers, the target reads the
union of their nodes, and every rule gets its exact expected accepted length given its tree (`otd.trees.rules.lengths`), on tokens merged
by the ratio p/q (`token_classes`). The other rules are thus evaluated on the contexts that decoding with K-SEQ reaches. Trees without
replacement are evaluated at every few steps: their mean is that of K-SEQ over all steps, plus the mean difference at these steps.
The same command continues an interrupted run with the next prompt.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from torch import Tensor

import ot_draft as otd
from llm_demo.bench.trees.calibration import logits_at_places, texts_with_places
from llm_demo.bench.trees.draws import SharedDraws
from llm_demo.bench.trees.growth import Drafted, Prefix, draft_together
from llm_demo.bench.trees.lengths import merged_laws, plain
from llm_demo.bench.trees.measure import DraftLaws
from llm_demo.bench.trees.plans import WIDEST, WITHOUT, PairsAtPlaces, laws
from llm_demo.bench.trees.prefixes import PrefixLogits
from llm_demo.bench.trees.shapes import best_by_level
from llm_demo.bench.trees.token_classes import MergedLaws
from llm_demo.data.capture import KEPT, Context, as_arrays, at_temperatures, shrink
from llm_demo.machine import machine
from llm_demo.prompts import Prompt, read_prompts
from llm_demo.rows import Row, append, read
from ot_draft.decoding import CannotDecode, Pair, load_pair

PROMPTS = Path(__file__).with_name("two_sizes.jsonl")
K, L = 8, 8
PATHS, DEPTHS = (1, 2, 4, 8), (4, 8)
SEED = 77
ONE = otd.rules.SpeculativeSampling()
WALK = otd.trees.TokenWise(otd.rules.KSeq())
ON_PATHS = (
    otd.trees.TokenWise(otd.rules.RecursiveRejection()),
    WALK,
    otd.trees.TokenWise(otd.rules.Optimal()),
    otd.trees.Joint(),
)
ON_ONE = (otd.trees.TokenWise(ONE), otd.trees.BlockVerification())
EVEN, SEQUOIA = "even", "Sequoia"  # trees without replacement: equally many children per level, and any shape
ON_TREES = {
    EVEN: (otd.trees.TokenWise(WITHOUT), otd.trees.TokenWise(otd.rules.HeadAndTail())),
    SEQUOIA: (otd.trees.TokenWise(WITHOUT), otd.trees.Traversal()),
}
ROOM = 512  # number of cache slots after a prompt
HELD_OUT = 8  # last prompts, on which Sequoia's trees are planned
PER_TEXT = 4  # number of contexts per prompt whose distributions are stored
CHAINS = otd.trees.FixedTree.chains(K, L)
SIZES = tuple((k, length) for length in DEPTHS for k in PATHS)
COLUMNS = (
    *(f"{rule.name} 1x{length}" for length in DEPTHS for rule in ON_ONE),
    *(f"{rule.name} {k}x{length}" for k, length in SIZES if k > 1 for rule in ON_PATHS),
    *(f"{rule.name} {k}x{length} {form}" for form, rules in ON_TREES.items() for k, length in SIZES for rule in rules),
)
ABOUT = (
    "text",
    "kind",
    "temperature",
    "walk",
    "seed",
    "models",
    "tokens",
    "trees",
    "distinct_trees",
    "overlap",
    "decoded",
)


Shapes = Mapping[tuple[str, int, int], otd.trees.TreeShape]  # by form, K and L


@cache
def tree_shapes(by_child: tuple[float, ...]) -> Shapes:
    """Return the best trees of K L nodes and depth L, of both forms."""
    best = {EVEN: best_by_level, SEQUOIA: otd.trees.sequoia}
    return {(form, k, depth): best[form](by_child, k * depth, depth) for form in ON_TREES for k, depth in SIZES}


def union(shapes: Sequence[otd.trees.TreeShape]) -> otd.trees.TreeShape:
    """Return the smallest shape that contains all of them."""

    def below(nodes: Sequence[tuple[otd.trees.TreeShape, int]]) -> tuple[Any, ...]:
        most = max((len(shape.children(node)) for shape, node in nodes), default=0)
        children = ([(s, s.children(v)[i]) for s, v in nodes if i < len(s.children(v))] for i in range(most))
        return tuple(below(child) for child in children)

    return otd.trees.TreeShape.ordered(below([(shape, 0) for shape in shapes]))


def part(tree: Drafted, shape: otd.trees.TreeShape) -> Drafted:
    """Return the part of a drafted tree with this shape: the first children of every node."""
    whole = otd.trees.TreeShape(tree.parents)
    nodes = [0]
    for node in range(1, shape.size + 1):
        nodes.append(whole.children(nodes[shape.parents[node - 1]])[shape.place(node)])
    return Drafted(
        tree.law, tuple(tree.ways[v] for v in nodes), shape.parents, tuple(tree.fixed_count[v] for v in nodes)
    )


class Contexts:
    """Both models after one sequence, and the trees that are drafted there."""

    def __init__(self, pair: Pair, prompt: Sequence[int], temperature: float) -> None:
        self.target = PrefixLogits(pair.target, prompt, pair.n, room=ROOM)
        self.draft = PrefixLogits(pair.draft, prompt, pair.n, room=ROOM)
        self.temperature = temperature

    def trees(self, draftings: Sequence[otd.trees.TreeDrafter], seed: int) -> tuple[list[Drafted], MergedLaws]:
        """Return one tree per drafter, and the distributions at all their nodes."""
        laws = DraftLaws(self.draft, self.temperature)
        drafted = draft_together(draftings, laws, lambda: SharedDraws(seed))
        return drafted, merged_laws(self.target, self.draft, set(laws.known), drafted, self.temperature)

    def law(self, model: PrefixLogits, prefixes: Sequence[Prefix]) -> Tensor:
        """Return the distributions (rows, n) of a model after prefixes."""
        return (torch.stack(model.at(prefixes)).float() / self.temperature).softmax(-1)

    def context(self, position: int, prefix: Prefix) -> Context:
        """Return the context after a prefix, in the stored format; position: number of tokens before it."""
        p, q = (at_temperatures(model.at([prefix])[0][None]) for model in (self.target, self.draft))
        return shrink(position, p[:, 0], q[:, 0], KEPT)

    def overlap(self) -> float:
        """Return the acceptance of one draft token after the sequence, sum min(p, q)."""
        p, q = (self.law(model, [()]) for model in (self.target, self.draft))
        return float(torch.minimum(p, q).sum())

    def go_on(self, prefix: Prefix) -> None:
        """Append tokens to the sequence."""
        self.target.go_on(prefix)
        self.draft.go_on(prefix)


def uniforms(row: int, step: int, count: int) -> Tensor:
    """Return uniform random numbers (1, count) of a rule, in [0, 1): row and step are their key and counter."""
    stream = np.random.Philox(key=np.array([SEED, row], dtype=np.uint64), counter=[0, 0, 0, step])
    return torch.from_numpy(np.random.Generator(stream).random((1, count), dtype=np.float32))


def decoded(rule: otd.trees.PathRule, contexts: Contexts, tree: Drafted, numbers: Tensor) -> Prefix:
    """Return the tokens that a rule emits on a tree, with distributions on the full vocabulary; numbers: (1, rule.n_uniforms)."""
    shape = otd.trees.TreeShape(tree.parents)
    p, q = contexts.law(contexts.target, tree.ways), contexts.law(contexts.draft, tree.ways[: shape.inner])
    batch = shape.tree(torch.tensor([tree.tokens]), p[None], q[None], tree.law)
    return tuple(token for token in rule.select(batch, numbers).tokens[0].tolist() if token >= 0)


def on_paths(paths: Drafted, merged: MergedLaws) -> dict[str, float]:
    """Return expected accepted lengths of the rules on the first i.i.d. paths, by 'rule KxL'; token-wise rules do not look ahead."""
    found = {}
    for k in PATHS:
        for rule in ON_PATHS if k > 1 else ON_ONE:
            whole = lengths(rule, part(paths, otd.trees.TreeShape.chains(k, L)), merged)
            for depth in DEPTHS:
                looks_ahead = depth < L and not isinstance(rule, otd.trees.TokenWise)
                cut = lengths(rule, part(paths, otd.trees.TreeShape.chains(k, depth)), merged) if looks_ahead else whole
                found[f"{rule.name} {k}x{depth}"] = sum(min(length, depth) * chance for length, chance in cut.items())
    return found


def on_trees(tree: Drafted, shapes: Shapes, merged: MergedLaws) -> dict[str, float]:
    """Return expected accepted lengths of the rules on parts of one tree without replacement, by 'rule KxL form'."""
    found = {}
    for (form, k, depth), shape in shapes.items():
        cut = part(tree, shape)
        for rule in ON_TREES[form]:
            chances = lengths(rule, cut, merged)
            found[f"{rule.name} {k}x{depth} {form}"] = sum(length * chance for length, chance in chances.items())
    return found


def lengths(rule: otd.trees.PathRule, tree: Drafted, merged: MergedLaws) -> Mapping[int, float]:
    """Return the probability of each accepted length given the tree, by the rule's reference implementation."""
    model = merged.of(tree.tokens)
    return otd.trees.rules.lengths(rule, model, plain(tree, model))


@dataclass(frozen=True)
class Walk:
    """The rule that decodes the prompts, and its trees."""

    rule: otd.trees.PathRule
    on_sequoia: bool = False

    @property
    def name(self) -> str:
        """Name in the columns."""
        return f"{self.rule.name} {K}x{L}" + " Sequoia" * self.on_sequoia


WALKS = {walk.name: walk for walk in (Walk(WALK), *map(Walk, ON_PATHS), Walk(otd.trees.Traversal(), on_sequoia=True))}


@dataclass(frozen=True)
class Run:
    """Settings of a run. by_child: acceptance by child of draws without replacement, by temperature; models: hashes."""

    pair: Pair
    by_child: Mapping[float, tuple[float, ...]]
    models: str
    walk: Walk = WALKS[Walk(WALK).name]
    tokens: int = 96
    every: int = 6
    evaluate: bool = True

    def text(self, number: int, prompt: Prompt, temperature: float) -> tuple[Row, list[Context]]:
        """Decode one prompt; return its row of the table, and its stored contexts."""
        shapes = tree_shapes(self.by_child[temperature])
        tree = otd.trees.FixedTree(union(list(shapes.values())), otd.WithoutReplacement())
        walked = (
            otd.trees.FixedTree(shapes[SEQUOIA, K, L], otd.WithoutReplacement()) if self.walk.on_sequoia else CHAINS
        )
        contexts = Contexts(self.pair, prompt.tokens, temperature)
        wanted, kept = kept_positions(number, temperature, self.tokens), list[Context]()
        sums, shares = Sums(), Sums()
        text: Prefix = ()
        steps, accepted, stops = 0, 0, set(self.pair.stop_tokens)
        while len(text) < self.tokens and not stops.intersection(text):
            seed = int.from_bytes(
                hashlib.blake2b(repr((SEED, number, temperature, steps)).encode(), digest_size=6).digest(), "little"
            )
            also = self.evaluate and (steps + number) % self.every == 0
            (paths, *others), merged = contexts.trees([walked, tree] if also else [walked], seed)
            numbers = uniforms(2 * number + (temperature == 1), steps, self.walk.rule.n_uniforms(walked.bounds))
            new = decoded(self.walk.rule, contexts, paths, numbers)
            if self.evaluate:
                found = on_paths(paths, merged)
                sums.add(found)
                for name, value in on_trees(others[0], shapes, merged).items() if also else ():
                    shares.add({name: value - found[like(name)]})
                at = [depth for depth in range(len(new)) if len(text) + depth in wanted]
                kept += [contexts.context(len(prompt.tokens) + len(text) + depth, new[:depth]) for depth in at]
            sums.add({"overlap": contexts.overlap()})
            contexts.go_on(new)
            steps, accepted, text = steps + 1, accepted + len(new) - 1, text + new
        means = sums.means()
        means |= {name: means[like(name)] + value for name, value in shares.means().items()}
        about = {"text": number, "kind": prompt.kind, "temperature": temperature, "walk": self.walk.name, "seed": SEED}
        about |= {"models": self.models, "tokens": len(text), "trees": steps, "distinct_trees": shares.count}
        return about | {"decoded": round(accepted / steps, 5)} | {
            name: round(value, 5) for name, value in means.items()
        }, kept


def like(name: str) -> str:
    """Return the column of K-SEQ (speculative sampling for one path) with as many i.i.d. draft tokens as the tree of another column."""
    size = name.split()[-2]
    return f"{(ON_ONE[0] if size.startswith('1x') else WALK).name} {size}"


class Sums:
    """Sums and numbers of values by name."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def add(self, values: Mapping[str, float]) -> None:
        """Add one value for each of these names."""
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + float(value)
            self._counts[name] = self._counts.get(name, 0) + 1

    @property
    def count(self) -> int:
        """Return the largest number of values of a name."""
        return max(self._counts.values(), default=0)

    def means(self) -> dict[str, float]:
        """Return the means by name."""
        return {name: value / self._counts[name] for name, value in self._sums.items()}


def kept_positions(number: int, temperature: float, tokens: int) -> set[int]:
    """Return the numbers of new tokens before the stored contexts: one uniform draw from each of PER_TEXT equal parts of a completion."""
    draws = np.random.default_rng([SEED, number, int(10 * temperature)]).random(PER_TEXT)
    return {int(tokens * (i + draw) / PER_TEXT) for i, draw in enumerate(draws)}


def by_child(pair: Pair, held_out: Sequence[Prompt], temperature: float) -> tuple[float, ...]:
    """Return P(child i is accepted | earlier children rejected), for draws without replacement after held-out prompts."""
    texts = texts_with_places(pair, held_out, temperature)
    target, draft = (logits_at_places(model, texts, pair.n, pair.target) for model in (pair.target, pair.draft))
    pairs = PairsAtPlaces([laws(p, q, temperature) for p, q in zip(target, draft, strict=True)])
    return otd.trees.acceptance_by_child(WITHOUT, pairs, WIDEST, len(pairs.rows))


def hash_of(model: str) -> str:
    """Return the SHA-256 of a file, or the name if there is no such file."""
    if not Path(model).is_file():
        return model
    with Path(model).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_contexts(file: Path, contexts: Sequence[Context]) -> None:
    """Write the contexts of one prompt."""
    columns = {
        field.name: np.array([getattr(context, field.name) for context in contexts]) for field in fields(Context)
    }
    file.parent.mkdir(exist_ok=True)
    np.savez_compressed(file, allow_pickle=False, **columns)


def read_contexts(file: Path) -> list[Context]:
    """Read a file of `write_contexts`."""
    with np.load(file, allow_pickle=False) as stored:
        columns = [stored[field.name] for field in fields(Context)]
    return [Context(int(position), *rest) for position, *rest in zip(*columns, strict=True)]


def gather(rows: Sequence[Mapping[str, str]], folder: Path, out: Path, about: str) -> int:
    """Write the contexts of all rows of a table to one file, as `llm_demo.data.capture` does; return their number."""
    captured = [read_contexts(context_file(folder, int(row["text"]), float(row["temperature"]))) for row in rows]
    entries = [{"kind": row["kind"], "origin": f"target, temperature {row['temperature']}"} for row in rows]
    np.savez_compressed(out, allow_pickle=False, **as_arrays(entries, captured, about))
    return sum(map(len, captured))


def context_file(folder: Path, number: int, temperature: float) -> Path:
    """Return the path of the contexts of one prompt."""
    return folder / f"{number}_{temperature:g}.npz"


def plans(
    file: Path, pair: Pair, held_out: Sequence[Prompt], temperatures: Sequence[float]
) -> dict[float, tuple[float, ...]]:
    """Return the acceptance by child for each temperature, read from a file or measured and written there."""
    stored = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for temperature in temperatures:
        if str(temperature) not in stored:
            stored[str(temperature)] = by_child(pair, held_out, temperature)
            file.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    return {temperature: tuple(stored[str(temperature)]) for temperature in temperatures}


def table(run: Run, prompts: Sequence[Prompt], temperatures: Sequence[float], out: Path, seconds: float = 1e9) -> int:
    """Append a row for every prompt that OUT lacks, up to a time limit in seconds, and return the number of new rows.

    Raises CannotDecode if OUT has rows of other models.
    """
    start, count = time.monotonic(), 0
    there = read(out) if out.exists() else []
    if any(row["models"] != run.models for row in there):
        raise CannotDecode(
            f"--out must be a file of the same models, got {out}, which has rows of others. Use a new file."
        )
    done = {(int(row["text"]), float(row["temperature"])) for row in there}
    for number, prompt in enumerate(prompts):
        for temperature in temperatures:
            if (number, temperature) in done:
                continue
            if count and time.monotonic() - start > seconds:
                return count
            row, contexts = run.text(number, prompt, temperature)
            if run.evaluate:
                write_contexts(context_file(out.with_suffix(".contexts"), number, temperature), contexts)
            append(row, out, [*ABOUT, *COLUMNS])
            count += 1
    return count


def provenance(models: str, target: str, draft: str, pair: Pair) -> str:
    """Return the provenance of the numbers as JSON: hashes, file names, arithmetic, command, commit, versions."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    sha = dict(zip(("target_sha256", "draft_sha256"), models.split(), strict=True))
    names = {
        "target": Path(target).name,
        "draft": Path(draft).name,
        "arithmetic": pair.law,
        "seed": str(SEED),
        "commit": commit,
    }
    command = "python -m llm_demo.bench.two_sizes --target TARGET --draft DRAFT --out OUT"
    return json.dumps(sha | names | {"command": command} | machine())


@click.command()
@click.option("--target", required=True, help="GGUF file, folder or hub model.")
@click.option("--draft", required=True, help="GGUF file, folder or hub model with the target's vocabulary.")
@click.option("--backend", default="llama.cpp", show_default=True, help="Backend that computes the forward passes.")
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="CSV file of the table.")
@click.option("--texts", default=96, show_default=True, help="Number of prompts; kinds of prompts alternate.")
@click.option("--tokens", default=96, show_default=True, help="Maximum number of new tokens per text.")
@click.option("--temperatures", default="1,0.6", show_default=True, help="Temperatures, separated by commas.")
@click.option(
    "--walk", default=Walk(WALK).name, show_default=True, type=click.Choice(list(WALKS)), help="Rule that decodes."
)
@click.option(
    "--every", default=6, show_default=True, help="Steps from one evaluation of trees without replacement to the next."
)
@click.option("--decode-only", is_flag=True, help="Decode only; evaluate no other rule.")
@click.option("--minutes", default=1e9, help="Time limit in minutes; the current prompt is completed.")
@click.option("--threads", default=1, show_default=True, help="Number of threads.")
@click.option(
    "--pairs", type=click.Path(dir_okay=False, path_type=Path), help="File of the contexts of all texts in OUT."
)
def main(out: Path, target: str, draft: str, backend: str, texts: int, temperatures: str, **options: Any) -> None:
    """Append a row for every text and temperature to OUT."""
    torch.set_num_threads(options["threads"])
    degrees, models = [float(part) for part in temperatures.split(",")], f"{hash_of(target)} {hash_of(draft)}"
    try:
        pair = load_pair(target, draft, backend=backend)
        prompts = read_prompts(pair.tokenizer, file=PROMPTS)
        known = plans(out.with_suffix(".json"), pair, prompts[-HELD_OUT:], degrees)
        run = Run(
            pair, known, models, WALKS[options["walk"]], options["tokens"], options["every"], not options["decode_only"]
        )
        table(run, prompts[:-HELD_OUT][:texts], degrees, out, 60 * options["minutes"])
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None
    if options["pairs"] is not None:
        found = gather(
            read(out), out.with_suffix(".contexts"), options["pairs"], provenance(models, target, draft, pair)
        )
        click.echo(f"{found} contexts, {options['pairs'].stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
