"""Several draft models at one node: one draft from each, against as many drafts from one of them and from their mixture."""

from __future__ import annotations

from typing import Any

import numpy as np

import ot_draft as otd
from figures import style
from figures.about import About, Number

FROM_EACH, RECURSIVE = "one from each (optimum)", "one from each, recursive rejection"
ONE, MIXED = "one model, i.i.d. (optimum)", "their mixture, i.i.d. (optimum)"
MIXED_HYBRID = "their mixture, hybrid, j from q (optimum)"
COLOURS = {ONE: "#A0A0A0", MIXED: "#0072B2", MIXED_HYBRID: "#44AA99", FROM_EACH: "#000000", RECURSIVE: "#CC79A7"}
ABOUT = About(
    title="Several draft models at one node",
    claim="One draft from each of k models can be selected from almost no better than k i.i.d. drafts from their mixture, for which the"
    " optimum is reached in near-linear time; recursive rejection, the rule known for drafts of different laws, loses several points.",
    source="this project; the optimum of different laws by the least cut of a product of masses (otd.Several)",
    comparison="SpecInfer drafts by several models and verifies by recursive rejection; it publishes no acceptance at one node.",
)
CAPTION = """Mean optimum over {contexts} simulated contexts of n = {n} tokens, k draft models of equal quality (mean of sum min(p, q) =
{single}) whose errors are shared in part (0: independent; 1: the same model k times). Recursive rejection: the better of two orders."""


def compute(
    full: bool = False, jobs: int = 1, n: int = 300, contexts: int = 60, ks: tuple[int, ...] = (2, 4)
) -> list[dict[str, Any]]:
    """A row for each k, share of the errors in common and way to draft."""
    contexts = contexts * 5 if full else contexts
    rows = []
    for k in ks:
        for shared in (0.0, 0.5, 0.9):
            values = np.array([_acceptances(*_context(number, n, k, shared)) for number in range(contexts)])
            for name, found in zip(COLOURS, values.T, strict=False):
                gap = found - values[:, list(COLOURS).index(FROM_EACH)]
                row = {"k": k, "shared": shared, "way": name, "mean": found.mean(), "gap": gap.mean()}
                row |= {"gap_error": gap.std(ddof=1) / np.sqrt(contexts), "single": round(values[:, -1].mean(), 3)}
                rows.append(row | {"n": n, "contexts": contexts})
    return rows


def _context(number: int, n: int, k: int, shared: float) -> tuple[np.ndarray, list[np.ndarray]]:
    """A target, and k draft models that see it flattened and through noise, in part the same noise for all."""
    generator = np.random.default_rng([number, 16])
    logits = 1.9 * np.exp(0.4 * generator.standard_normal()) * generator.standard_exponential(n)
    scale, common = 1.6 * np.exp(0.5 * generator.standard_normal()), generator.standard_normal(n)
    own = generator.standard_normal((k, n))
    return _softmax(logits), [
        _softmax(0.85 * logits + scale * (np.sqrt(shared) * common + np.sqrt(1 - shared) * noise)) for noise in own
    ]


def _softmax(logits: np.ndarray) -> np.ndarray:
    masses = np.exp(logits - logits.max())
    return np.asarray(masses / masses.sum())


def _acceptances(p: np.ndarray, drafts: list[np.ndarray]) -> tuple[float, ...]:
    """What each way accepts, in the order of COLOURS, and last one draft of the first model."""
    k, mixture = len(drafts), np.mean(drafts, axis=0)

    def optimum(q: np.ndarray, law: otd.DraftLaw) -> float:
        return float(otd.optimal_acceptance(p, q, k, law))

    return (
        optimum(drafts[0], otd.IID()),
        optimum(mixture, otd.IID()),
        optimum(mixture, otd.Hybrid("auto")),
        optimum(drafts[0], otd.Several(drafts[1:])),
        max(_recursive(p, drafts), _recursive(p, drafts[::-1])),
        float(np.minimum(p, drafts[0]).sum()),
    )


def _recursive(p: np.ndarray, drafts: list[np.ndarray]) -> float:
    """Chance that one of the tests passes when each draft is tested against what those before left of the target."""
    refused = 1.0
    for q in drafts:
        rest = np.maximum(p - q, 0)
        refused *= rest.sum()
        p = rest / rest.sum() if rest.sum() else p
    return 1 - float(refused)


def numbers(rows: style.Rows) -> list[Number]:
    """Every way's distance to the optimum of one draft from each, for the most models."""
    most = max(int(row["k"]) for row in rows)
    return [
        Number(
            f"k = {most}, errors shared {row['shared']}: {row['way']}, less the optimum of one from each",
            float(row["gap"]),
            error=float(row["gap_error"]),
        )
        for row in rows
        if int(row["k"]) == most and row["way"] != FROM_EACH
    ]


def draw(rows: style.Rows) -> Any:
    """A panel a k: the ways against how much of the errors is shared."""
    parts = style.split(rows, "k")
    figure, panels = style.canvas(len(parts), CAPTION.format(**rows[0]))
    entries: list[list[style.Entry]] = []
    for axes, k_rows in zip(panels, parts, strict=True):
        entries.append([])
        for way_rows in style.split(k_rows, "way"):
            x, y = ([float(row[name]) for row in way_rows] for name in ("shared", "mean"))
            name = way_rows[0]["way"]
            axes.plot(x, y, marker="o", ms=4, lw=1.3, color=COLOURS[name])
            entries[-1].append((x[-1], y[-1], name, COLOURS[name]))
        axes.set(title=f"k = {k_rows[0]['k']}", xlabel="share of the errors in common", ylabel="acceptance")
    style.label(panels, entries)
    return figure
