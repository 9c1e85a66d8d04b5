"""Upper bounds on the accepted tokens of any lossless rule on each method's trees: `python -m llm_demo.bench.trees.bounds`.

The bound is the sum of the caps (`sampled_cap_bound`) of each method at the contexts of the table, with the embedded draft, 32 nodes and
temperature 1: a mean over continuations sampled from the target. A better rule on the same trees can gain at most the difference between
the accepted tokens and the caps. Only a better draft or other trees can gain the difference between the caps and the depth of the trees. On
EAGLE-2's tree and OPT-Tree, which are deterministic, naive target sampling attains the caps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from llm_demo.bench.trees.calibration import EMBEDDED, Calibration
from llm_demo.bench.trees.command import OUT as TABLE
from llm_demo.bench.trees.command import Loading, files_beside, group_count
from llm_demo.bench.trees.lookup_rates import IN_TREE
from llm_demo.bench.trees.measure import DraftLaws
from llm_demo.bench.trees.methods import NAIVE, WAYS
from llm_demo.bench.trees.plans import DEEPEST, DraftPlan
from llm_demo.bench.trees.prefixes import PrefixLogits
from llm_demo.bench.trees.texts import Context, contexts
from llm_demo.rows import append, read
from ot_draft.trees.evaluation.program import sampled_cap_bound

OUT = Path("figures/data/real_trees_caps.csv")
NODES, TEMPERATURE, RUNS, SEED = 32, 1.0, 16, 20
ONE = "one path, block"
SAME_TREES = {"chains, K-SEQ": "chains, Joint", "chains, Optimal": "chains, Joint", "Sequoia": "Sequoia, traversal"}
SAME_TREES |= {"adaptive, Joint": "adaptive, traversal", "counted": "counted, traversal"}
DRAFTED = [name for name, way in WAYS.items() if name not in SAME_TREES and way.rule != NAIVE]


def caps(pair: Any, context: Context, plan: DraftPlan, number: int) -> dict[str, float]:
    """Return the bound of every method after one context, along one continuation of the target: number 0 or 1."""
    generator = np.random.default_rng([SEED, context.text, number])
    target, draft = (
        DraftLaws(PrefixLogits(model, context.tokens, pair.n), TEMPERATURE) for model in (pair.target, pair.draft)
    )
    text, masses = _written(target, (np.random.default_rng([SEED, context.text]).random() + number / 2) % 1, generator)
    looked_up = IN_TREE.find(context.tokens).tokens
    # The draft's distributions on tokens of positive probability, the continuation and looked-up tokens: others are never drawn.
    tokens = np.union1d(np.flatnonzero(draft([()])[0]), np.array((*text, *looked_up), dtype=np.int64))

    def of_kept(prefixes: list[tuple[int, ...]]) -> list[np.ndarray]:
        return [law[tokens] for law in draft([tuple(tokens[list(prefix)].tolist()) for prefix in prefixes])]

    found, of_runs = {}, np.random.default_rng([SEED + 1, context.text, number])
    for way in DRAFTED:
        drafting = WAYS[way].drafts(plan, NODES, False)
        both = text[: drafting.bounds.length], looked_up[: drafting.counts.n_lookup_tokens]
        of_text, given = (tuple(np.searchsorted(tokens, some).tolist()) for some in both)
        how = masses[: drafting.bounds.length], of_runs, RUNS, given
        found[way] = round(float(sampled_cap_bound(drafting, of_kept, of_text, *how)), 4)
    return found


def _written(target: DraftLaws, first: float, generator: np.random.Generator) -> tuple[tuple[int, ...], np.ndarray]:
    """Sample DEEPEST tokens from the target, and return them with their probabilities.

    first: uniform random number of the first token; tokens are in the order of decreasing probability.
    """
    text: tuple[int, ...] = ()
    masses: list[float] = []
    for depth in range(DEEPEST):
        p = target([text])[0].astype(np.float64)
        order = np.argsort(-p, kind="stable")
        shares = p[order].cumsum()
        uniform = generator.random() if depth else first
        token = order[np.searchsorted(shares, uniform * shares[-1], side="right")]
        text, masses = (*text, int(token)), [*masses, float(p[token] / shares[-1])]
    return text, np.array(masses)


def compared(table: list[dict[str, str]], bounds: list[dict[str, str]]) -> dict[str, tuple[float, float, float]]:
    """Return accepted tokens, caps, and the standard error of their quotient for every method, at the contexts of the bounds."""
    caps_of: dict[str, list[dict[str, str]]] = {}
    for row in bounds:
        caps_of.setdefault(row["text"], []).append(row)
    about = {"draft": EMBEDDED, "nodes": str(NODES), "temperature": str(TEMPERATURE)}
    at_bounds = [row for row in table if about.items() <= row.items() and row["text"] in caps_of]
    accepted = {way: np.array([float(row[way]) for row in at_bounds]) for way in WAYS}
    above = {
        way: np.array([np.mean([float(of_text[way]) for of_text in caps_of[row["text"]]]) for row in at_bounds])
        for way in DRAFTED
    }
    luck = above[ONE] - accepted[ONE]  # control variate: for one path, block verification attains the caps
    above = {way: x - luck * np.cov(luck, x)[0, 1] / max(luck.var(ddof=1), 1e-12) for way, x in above.items()}
    found = {}
    for way, mine in accepted.items():
        caps = above.get(SAME_TREES.get(way, way), mine)
        error = (mine - caps * mine.mean() / caps.mean()).std(ddof=1) / len(at_bounds) ** 0.5 / caps.mean()
        found[way] = float(mine.mean()), float(caps.mean()), float(error)
    return found


def as_markdown(found: dict[str, tuple[float, float, float]], plan: DraftPlan) -> str:
    """Return a line for every method: accepted tokens, caps, depth of its trees, and the quotient with its standard error."""
    lines = ["| way | accepts | caps | depth | share |", "|---|---|---|---|---|"]
    for way, (mine, caps, error) in found.items():
        depth = WAYS[way].drafts(plan, NODES, False).bounds.length
        lines.append(f"| {way} | {mine:.2f} | {caps:.2f} | {depth} | {mine / caps:.2f} ± {error:.2f} |")
    return "\n".join(lines)


@click.command()
@click.option("--out", default=OUT, show_default=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--texts", default=60, show_default=True, help="Number of contexts of the table.")
@click.option("--rounds", default=2, show_default=True, help="Continuations of the target per context, at most 2.")
@click.option("--summary", is_flag=True, help="Print the table in OUT without new measurements.")
def main(out: Path, texts: int, rounds: int, summary: bool) -> None:
    """Append the caps of all methods at the contexts of the table to OUT. A stopped run resumes with the same command."""
    plan = Calibration.read(files_beside(TABLE)[0]).at(TEMPERATURE)[EMBEDDED]
    if not summary:
        pair, prompts, _ = Loading()()
        done = {(int(row["text"]), int(row["round"])) for row in (read(out) if out.exists() else [])}
        for number in range(rounds):
            for group in range(group_count(prompts[:texts])):
                for context in contexts(pair, prompts[:texts], group, TEMPERATURE):
                    if (context.text, number) not in done:
                        found = {"text": context.text, "round": number} | caps(pair, context, plan, number)
                        append(found, out, ["text", "round", *DRAFTED])
    click.echo(as_markdown(compared(read(TABLE), read(out)), plan))


if __name__ == "__main__":
    main()
