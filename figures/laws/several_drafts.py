"""Several draft models at one node: one draft token from each, compared with as many from one model and from their mixture."""

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
    claim="One draft token from each of k models has almost the same optimum as k i.i.d. draft tokens from their mixture, for "
    "which a rule of near-linear time is optimal. Recursive rejection, the known rule for draft tokens of different "
    "distributions, is several percentage points below.",
    source="this project; the optimum for different distributions by the smallest cut of a product of probabilities (otd.Several)",
    comparison="SpecInfer drafts with several models and verifies by recursive rejection; it does not publish the acceptance at one "
    "node.",
)
CAPTION = """Mean optimum over {contexts} simulated contexts of n = {n} tokens, k draft models of equal quality (mean of sum min(p, q) =
{single}) whose errors are partly shared (0: independent; 1: the same model k times). Recursive rejection: the better of two
orders."""


def compute(
    full: bool = False, jobs: int = 1, n: int = 300, contexts: int = 60, ks: tuple[int, ...] = (2, 4)
) -> list[dict[str, Any]]:
    """Return a row per k, shared part of the errors and drafting method."""
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
    """Return a target, and k draft models: the target flattened, with noise that is partly shared by all."""
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
    """Return the acceptance of each method in the order of COLOURS, and of one draft token of the first model."""
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
    """Return the probability that a test passes when each draft token is tested against the remaining target."""
    refused = 1.0
    for q in drafts:
        rest = np.maximum(p - q, 0)
        refused *= rest.sum()
        p = rest / rest.sum() if rest.sum() else p
    return 1 - float(refused)


def numbers(rows: style.Rows) -> list[Number]:
    """Return each method's distance from the optimum of one draft token per model, for the largest number of models."""
    most = max(int(row["k"]) for row in rows)
    return [
        Number(
            f"k = {most}, errors shared {row['shared']}: {row['way']}, minus the optimum of one from each",
            float(row["gap"]),
            error=float(row["gap_error"]),
        )
        for row in rows
        if int(row["k"]) == most and row["way"] != FROM_EACH
    ]


def draw(rows: style.Rows) -> Any:
    """Draw a panel per k: the methods against the shared part of the errors."""
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
        axes.set(title=f"k = {k_rows[0]['k']}", xlabel="shared part of the errors", ylabel="acceptance probability")
    style.label(panels, entries)
    return figure
