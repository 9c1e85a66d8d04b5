"""Tokens per target call on Qwen2.5-Coder-Instruct of 1.5B and 0.5B: means over prompts, with standard errors within kinds of prompts.

The mean of K-SEQ (of speculative sampling for K = 1) is that of its own decoding of given texts (`llm_demo.bench.along_text`). Every other
rule adds its mean difference from K-SEQ on i.i.d. paths of the same K and L, on the trees that were drawn for fewer texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from figures import style
from figures.trees.path_rules import look

FILE = style.DATA / "qwen_block_efficiency.csv"
ALONG = style.DATA / "qwen_along_text.csv"
TABLE = style.DATA.parents[1] / "docs" / "data" / "two_sizes.csv"
ON_PATHS = ("TokenWise(RecursiveRejection)", "TokenWise(KSeq)", "TokenWise(Optimal)", "Joint")
WITHOUT = "TokenWise(RecursiveRejectionWithoutReplacement)"
LINES = {  # of the table: rule, and form of its trees
    **{f"paths: {look(rule).label}": (rule, "") for rule in ON_PATHS},
    "even trees: recursive rejection": (WITHOUT, " even"),
    "even trees: head and tail": ("TokenWise(HeadAndTail)", " even"),
    "Sequoia's trees: recursive rejection": (WITHOUT, " Sequoia"),
    "Sequoia's trees: traversal": ("Traversal", " Sequoia"),
}
ONE = {"TokenWise(RecursiveRejection)": "TokenWise(SpeculativeSampling)", "Joint": "BlockVerification"}  # for one path
PATHS, DEPTHS = (1, 2, 4, 8), (4, 8)
Values = np.ndarray[Any, Any]


def of_temperature(temperature: float, file: Path = FILE) -> style.Rows:
    """Return the prompts of one temperature."""
    return [row for row in style.read(file) if float(row["temperature"]) == temperature]


def column(rule: str, K: int, L: int, form: str = "") -> str:
    """Return the name of a column; for one path all token-wise rules are equal, and Joint is block verification."""
    one = ONE.get(rule, ONE[ON_PATHS[0]]) if K == 1 and not form else rule
    return f"{one} {K}x{L}{form}"


def efficiency(trees: style.Rows, terms: Sequence[tuple[int, str]], start: float) -> dict[str, float]:
    """Return start plus a sum of columns, per target call, with its standard error over texts, at the temperature of the drawn trees."""
    return combined(trees, of_temperature(float(trees[0]["temperature"]), ALONG), terms, start)


def combined(trees: style.Rows, texts: style.Rows, terms: Sequence[tuple[int, str]], start: float) -> dict[str, float]:
    """Return the same for given rows: of drawn trees, some without some columns, and of texts, some of the same prompt."""
    prompts = {row["text"]: row["kind"] for row in texts}
    place = {text: i for i, text in enumerate(prompts)}
    total, scores = start, np.zeros(len(prompts))
    number = Counter(row["text"] for row in texts)
    completions = np.array([number[row["text"]] for row in texts])  # every prompt has the same weight
    for sign, name in terms:
        size = next(part for part in name.split() if "x" in part and part[0].isdigit())
        K, _, L = size.partition("x")
        base, calls = column(ON_PATHS[1], int(K), int(L)), column_of(texts, f"calls {size}")
        parts = [(column_of(texts, f"accepted {size}") / calls, calls / completions, texts)]
        if name != base:
            rows = [row for row in trees if row[name]]
            parts.append((column_of(rows, name) - column_of(rows, base), column_of(rows, "trees"), rows))
        for values, weights, rows in parts:
            mean, of_texts = mean_with_scores(values, weights)
            total += sign * mean
            np.add.at(scores, [place[row["text"]] for row in rows], sign * of_texts)
    return {"block_efficiency": total, "error": stratified_error(scores, list(prompts.values()))}


def column_of(rows: style.Rows, name: str) -> Values:
    """Return a column as float array (rows,)."""
    return np.array([float(row[name]) for row in rows])


def mean_with_scores(values: Values, weights: Values) -> tuple[float, Values]:
    """Return the weighted mean and the contribution of each text to its error, (texts,)."""
    mean = float((weights * values).sum() / weights.sum())
    return mean, weights * (values - mean) / weights.sum()


def stratified_error(scores: Values, strata: Sequence[str]) -> float:
    """Return the standard error of a sum of scores over texts drawn within each stratum."""
    groups = [scores[[other == stratum for other in strata]] for stratum in dict.fromkeys(strata)]
    return float(np.sqrt(sum(len(own) * float(own.var(ddof=1)) if len(own) > 1 else np.nan for own in groups)))


def table() -> list[dict[str, str]]:
    """Return the rows of docs/data/two_sizes.csv: tokens per target call by rule, temperature and L, a column for each K."""
    rows = []
    for temperature in (1.0, 0.6):
        trees = of_temperature(temperature)
        for depth in DEPTHS:
            for line, (rule, form) in LINES.items():
                names = [column(rule, k, depth, form) for k in PATHS]
                found = [efficiency(trees, [(1, name)], 1) for name in names]
                cells = [f"{each['block_efficiency']:.2f} ± {each['error']:.2f}" for each in found]
                about = {"temperature": f"{temperature:g}", "L": str(depth), "trees and rule": line}
                rows.append(about | {f"K = {k}": cell for k, cell in zip(PATHS, cells, strict=True)})
    return rows


@click.command()
def main() -> None:
    """Write docs/data/two_sizes.csv from the data."""
    style.write(table(), TABLE)


if __name__ == "__main__":
    main()
