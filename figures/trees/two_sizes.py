"""Tokens per target call on Qwen2.5-Coder-Instruct of 1.5B and 0.5B: means over prompts, with standard errors within kinds of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from figures import style
from figures.trees.path_rules import look

FILE = style.DATA / "qwen_block_efficiency.csv"
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


def of_temperature(temperature: float) -> style.Rows:
    """Return the prompts of one temperature."""
    return [row for row in style.read(FILE) if float(row["temperature"]) == temperature]


def column(rule: str, K: int, L: int, form: str = "") -> str:
    """Return the name of a column; for one path all token-wise rules are equal, and Joint is block verification."""
    one = ONE.get(rule, ONE[ON_PATHS[0]]) if K == 1 and not form else rule
    return f"{one} {K}x{L}{form}"


def efficiency(texts: style.Rows, terms: Sequence[tuple[int, str]], start: float) -> dict[str, float]:
    """Return start plus a sum of columns, per target call, with its standard error over texts."""
    rows = [row for row in texts if all(row[name] for _, name in terms)]
    values = start + sum(sign * column_of(rows, name) for sign, name in terms)
    mean, error = stratified_mean(np.asarray(values), column_of(rows, "trees"), [row["kind"] for row in rows])
    return {"block_efficiency": mean, "error": error}


def efficiency_on_trees(texts: style.Rows, name: str) -> dict[str, float]:
    """Return the same for a column that only some texts have.

    The mean is that of the same number of i.i.d. tokens over all texts, plus the mean difference over the texts that have the column.
    """
    K, _, L = name.split()[-2].partition("x")
    base = column(ON_PATHS[1], int(K), int(L))
    have = np.array([row[name] != "" for row in texts])
    rows = [row for row in texts if row[name]]
    mean, scores = mean_with_scores(1 + column_of(texts, base), column_of(texts, "trees"))
    more, scores_of_part = mean_with_scores(column_of(rows, name) - column_of(rows, base), column_of(rows, "trees"))
    scores[have] += scores_of_part
    return {"block_efficiency": mean + more, "error": stratified_error(scores, [row["kind"] for row in texts])}


def column_of(rows: style.Rows, name: str) -> Values:
    """Return a column as float array (rows,)."""
    return np.array([float(row[name]) for row in rows])


def stratified_mean(values: Values, weights: Values, strata: Sequence[str]) -> tuple[float, float]:
    """Return the weighted mean over texts and its standard error (linearised ratio, texts drawn within each stratum)."""
    mean, scores = mean_with_scores(values, weights)
    return mean, stratified_error(scores, strata)


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
        texts = of_temperature(temperature)
        for depth in DEPTHS:
            for name, (rule, form) in LINES.items():
                names = [column(rule, k, depth, form) for k in PATHS]
                found = [efficiency_on_trees(texts, n) if form else efficiency(texts, [(1, n)], 1) for n in names]
                cells = [f"{each['block_efficiency']:.2f} ± {each['error']:.2f}" for each in found]
                about = {"temperature": f"{temperature:g}", "L": str(depth), "trees and rule": name}
                rows.append(about | {f"K = {k}": cell for k, cell in zip(PATHS, cells, strict=True)})
    return rows


@click.command()
def main() -> None:
    """Write docs/data/two_sizes.csv from the data."""
    style.write(table(), TABLE)


if __name__ == "__main__":
    main()
