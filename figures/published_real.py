"""Numbers of SpecTr and MCSD with their section in the paper, and those of two real pairs. None: no access to the number."""

from __future__ import annotations

from collections.abc import Iterator

import ot_draft as otd
from figures import model_pairs, style
from figures.about import Line
from figures.published_ours import acceptance, shares, with_error
from figures.trees import spectr_real, spectr_table_1

SIMULATED = spectr_table_1.STORED
NAMES = {model_pairs.SMOLLM2.name: "SmolLM2", model_pairs.QWEN.name: "Qwen"}  # short


def spectr() -> Iterator[Line]:
    """Yield SpecTr's Table 1: block efficiency, speed-up, and the gain of eight paths over one."""
    real = {(row["pair"], row["rule"], int(row["K"]), int(row["L"])): row for row in spectr_real.compute()}
    simulated = {(row["rule"], int(row["K"]), int(row["L"])): row for row in style.read(SIMULATED)}
    for (K, L), (efficiency, speed_up) in spectr_table_1.PUBLISHED.items():
        rule = spectr_real.KSEQ if K > 1 else spectr_real.ONE
        model, pairs = simulated[spectr_real.KSEQ, K, L], {of: real[of, rule, K, L] for of in NAMES}
        parts = ", ".join(
            [f"{with_error(model)} simulated", *(f"{with_error(row)} {NAMES[of]}" for of, row in pairs.items())]
        )
        fitted = "simulation fitted here" if (K, L) == (1, 4) else ""
        yield Line("Table 1", f"tokens per target call, K = {K}, L = {L}", f"{efficiency}", parts, fitted)
        measured = ", ".join(
            f"{float(row['speed_up']):.2f} ± {float(row['speed_up_error']):.2f} {NAMES[of]}"
            for of, row in pairs.items()
        )
        yield Line(
            "Table 1", f"speed-up, K = {K}, L = {L}", f"{speed_up}", measured, "at the cost that their pair implies"
        )
    for L in (4, 8):
        theirs = spectr_table_1.PUBLISHED[8, L][0] / spectr_table_1.PUBLISHED[1, L][0]
        by_model = simulated[spectr_real.KSEQ, 8, L], simulated[spectr_real.KSEQ, 1, L]
        both = {"simulated": by_model} | {
            short: (real[of, spectr_real.KSEQ, 8, L], real[of, spectr_real.ONE, 1, L]) for of, short in NAMES.items()
        }
        shown = ", ".join(
            f"{float(eight['block_efficiency']) / float(one['block_efficiency']):.2f} {name}"
            for name, (eight, one) in both.items()
        )
        yield Line(
            "Table 1",
            f"tokens per target call, K = 8 over K = 1, L = {L}",
            f"{theirs:.2f}",
            shown,
            "the ratio to compare",
        )
    ratios = {
        short: float(real[of, spectr_real.KSEQ, 8, 8]["speed_up"]) / float(real[of, spectr_real.ONE, 1, 8]["speed_up"])
        for of, short in NAMES.items()
    }
    shown = ", ".join(f"{ratio:.2f} {short}" for short, ratio in ratios.items())
    yield Line("abstract", "speed-up, K = 8 over K = 1, L = 8", "1.37", shown, "at their costs")
    for k in (2, 4, 8):
        bound = float(otd.kseq_bound(k))
        least = ", ".join(f"≥ {min(shares(k, of)):.4f} {NAMES[of.name]}" for of in model_pairs.ALL)
        yield Line("Theorem 1", f"K-SEQ over the optimum, k = {k}", f"≥ {bound:.4f}", least, "real contexts")
    yield Line("appendix", "time of a target call by positions and batch size", None, None, "ours: figure *Latency*")


def multi_candidate() -> Iterator[Line]:
    """Yield MCSD's acceptance against k."""
    for k in (1, 2, 4, 8):
        shown = "; ".join(
            f"{NAMES[of.name]} "
            + ", ".join(
                f"{value:.3f} at T = {temperature:g}"
                for temperature, value in acceptance(otd.rules.RecursiveRejection(), k, of).items()
            )
            for of in model_pairs.ALL
        )
        yield Line("acceptance against k", f"k = {k}, with replacement", None, shown)
    yield Line("speed-up tables", "with draft models of 68M and 160M parameters", None, None)
    yield Line(
        "2409.10644, abstract", "speed-up over MCSD by a better tree", "up to 27.5 %", None, "trees: other lines"
    )
