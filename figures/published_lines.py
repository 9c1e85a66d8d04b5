"""Published numbers with their place in the paper, and the same numbers of this project. None: we have no copy of the number."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import ot_draft as otd
from figures import style
from figures.about import Line
from figures.published_ours import acceptance, mean_ratio, ratio, same_everywhere, shares, tokens, with_error
from figures.trees import spectr_real, spectr_table_1

SIMULATED = spectr_table_1.STORED


def spectr() -> Iterator[Line]:
    """SpecTr's Table 1: block efficiency, speed-up, and what eight paths bring over one."""
    real = {(row["rule"], int(row["K"]), int(row["L"])): row for row in spectr_real.compute()}
    simulated = {(row["rule"], int(row["K"]), int(row["L"])): row for row in style.read(SIMULATED)}
    for (K, L), (efficiency, speed_up) in spectr_table_1.PUBLISHED.items():
        rule = spectr_real.KSEQ if K > 1 else spectr_real.ONE
        ours, model = real[rule, K, L], simulated[spectr_real.KSEQ, K, L]
        parts = f"{with_error(model)} simulated, {with_error(ours)} real"
        fitted = "simulation fitted here" if (K, L) == (1, 4) else ""
        yield Line("Table 1", f"tokens per target call, K = {K}, L = {L}", f"{efficiency}", parts, fitted)
        measured = f"{float(ours['speed_up']):.2f} ± {float(ours['speed_up_error']):.2f}"
        yield Line(
            "Table 1", f"speed-up, K = {K}, L = {L}", f"{speed_up}", measured, "at the cost that their pair implies"
        )
    for L in (4, 8):
        theirs = spectr_table_1.PUBLISHED[8, L][0] / spectr_table_1.PUBLISHED[1, L][0]
        gains = [
            float(rows[spectr_real.KSEQ, 8, L]["block_efficiency"]) / float(rows[one, 1, L]["block_efficiency"])
            for rows, one in ((simulated, spectr_real.KSEQ), (real, spectr_real.ONE))
        ]
        shown = f"{gains[0]:.2f} simulated, {gains[1]:.2f} real"
        yield Line(
            "Table 1",
            f"tokens per target call, K = 8 over K = 1, L = {L}",
            f"{theirs:.2f}",
            shown,
            "the ratio to compare",
        )
    by_k = [float(real[rule, K, 8]["speed_up"]) for rule, K in ((spectr_real.KSEQ, 8), (spectr_real.ONE, 1))]
    yield Line("abstract", "speed-up, K = 8 over K = 1, L = 8", "1.37", f"{by_k[0] / by_k[1]:.2f}", "at their costs")
    for k in (2, 4, 8):
        least = min(shares(k))
        bound = float(otd.kseq_bound(k))
        yield Line(
            "Theorem 1", f"K-SEQ over the optimum, k = {k}", f"≥ {bound:.4f}", f"≥ {least:.4f}", "320 real contexts"
        )
    yield Line("appendix", "time of a target call by positions and batch size", None, None, "ours: figure *Latency*")


def multi_candidate() -> Iterator[Line]:
    """MCSD: acceptance against k."""
    for k in (1, 2, 4, 8):
        kept = acceptance(otd.rules.RecursiveRejection(), k)
        shown = ", ".join(f"{value:.3f} at T = {temperature:g}" for temperature, value in kept.items())
        yield Line("acceptance against k", f"k = {k}, with replacement", None, shown)
    yield Line("speed-up tables", "with draft models of 68M and 160M parameters", None, None)
    yield Line(
        "2409.10644, abstract", "speed-up over MCSD by a better tree", "up to 27.5 %", None, "trees: other lines"
    )


def others() -> Iterator[tuple[str, Iterator[Line]]]:
    """The other works that have a coupling."""
    yield "Sequoia (2402.12374v3)", _sequoia()
    yield "SpecHub (2411.05289)", _spec_hub()
    yield "Khisti et al. (2410.18234)", _khisti()
    yield "Block verification (2403.10444)", _block_verification()
    yield "Traversal verification (2505.12398)", _traversal()
    yield "GLS, list-level coupling (2506.05632)", _list_level()
    yield "SpecDec++ (2405.19715)", _spec_dec()
    yield "EAGLE-2 (2406.16858)", _eagle()


def _sequoia() -> Iterator[Line]:
    table = {  # tokens a step: Sequoia's tree of 128 nodes, SpecInfer's 5 paths of 8
        0.0: {"C4": (5.08, 3.96), "OpenWebText": (3.86, 3.15), "CNN Daily": (4.05, 3.27), "MT Bench": (4.98, 4.01)},
        0.6: {"C4": (3.92, 2.97), "OpenWebText": (3.33, 2.54), "CNN Daily": (3.45, 2.58), "MT Bench": (3.96, 2.97)},
    }
    for temperature, of in table.items():
        ratios = [tree / paths for tree, paths in of.values()]
        what = f"tokens per step, tree over paths, T = {temperature:g}"
        ours = mean_ratio(("Sequoia", 64), ("chains, K-SEQ", 32), temperature)
        size = "128 over 40 nodes; ours 64 over 32"
        yield Line("Table 1", what, f"{min(ratios):.2f} to {max(ratios):.2f}", f"{ours:.2f}", size)
    same = mean_ratio(("Sequoia", 64), ("chains, K-SEQ", 64), 0.6)
    yield Line("Figure 4, left", "the same at equal nodes, T = 0.6", "up to 1.33", f"{same:.2f}", "512 nodes; ours 64")
    yield Line("Table 1", "speed-up, Llama2-7B, 68M draft, A100", "2.71 to 4.04", None, "needs its models and a GPU")


def _spec_hub() -> Iterator[Line]:
    hub, recursive = (acceptance(rule, 2) for rule in (otd.rules.SpecHub(), otd.rules.RecursiveRejection()))
    gains = ", ".join(f"{hub[temperature] - recursive[temperature]:.3f} (T = {temperature:g})" for temperature in hub)
    one = "ours per token: compare the sign only"
    yield Line("abstract", "tokens per step above recursive rejection, k = 2", "0.05 to 0.27", gains, one)
    yield Line(
        "abstract", "the same without replacement, k = 2", "0.02 to 0.16", None, "ours: figure *Draft laws at equal k*"
    )
    yield Line("tables", "batch efficiency by model and temperature", None, None)


def _khisti() -> Iterator[Line]:
    q = [Fraction(1, 3)] * 3
    low, high = Fraction(1, 9), Fraction(5, 9)
    grid = [[Fraction(1, 3), Fraction(i, 90), Fraction(60 - i, 90)] for i in range(61)]
    right = [(otd.optimal_acceptance(p, q, 2) == 1) == (low <= min(p) and max(p) <= high) for p in grid]
    ours = f"exact at {sum(right)} of {len(right)} targets"
    yield Line("Theorem, Figure 2", "acceptance 1, uniform q, k = 2", "iff p(H) ≥ q(H)²", ours, "p(1) = 1/3")
    yield Line("tables", "block efficiency and token rates, OPT models", None, None, "abstract and summaries read")


def _block_verification() -> Iterator[Line]:
    model = same_everywhere([Fraction(1, 3), Fraction(2, 3)], [Fraction(2, 3), Fraction(1, 3)])
    for name, rule, theirs in (
        ("token-wise", otd.trees.TokenWise(otd.rules.SpeculativeSampling()), "10/9"),
        ("block verification", otd.trees.BlockVerification(), "11/9"),
    ):
        accepted = otd.trees.evaluate(rule, model, (1, 2)).expected_length
        yield Line("Section 1, example", f"accepted of two draft tokens, {name}", theirs, str(accepted), "exact")
    trees = style.read(spectr_real.TREES)
    for L in (4, 8):
        block, token = (
            spectr_real.efficiency(trees, [(1, f"{rule} 1x{L}")], 1)["block_efficiency"]
            for rule in ("BlockVerification", spectr_real.ONE)
        )
        more = f"{100 * (block / token - 1):.1f} %"
        yield Line("tables", f"more tokens per target call, L = {L}", None, more, "real pair, T = 1")
    yield Line("abstract", "wall clock saved", "5 to 8 %", None, "on our CPU within the noise")


def _traversal() -> Iterator[Line]:
    for temperature in (0.3, 0.6, 1.0):
        gain = ratio("Sequoia, traversal", "Sequoia", temperature)
        what = f"longer than token-wise on one tree, T = {temperature:g}"
        yield Line("results, summary", what, "2.2 to 5.7 %", f"{100 * (gain - 1):.1f} %", "Sequoia's, 8 to 64 nodes")
    yield Line("tables", "by task and by tree", None, None)


def _list_level() -> Iterator[Line]:
    table = {  # block efficiency at K = 8, L = 4: one draft, SpecInfer, SpecTr, GLS
        "GSM8K": (4.18, 4.75, 4.78, 4.78),
        "HumanEval": (3.75, 4.54, 4.56, 4.55),
        "NaturalReasoning": (3.43, 4.19, 4.22, 4.18),
    }
    trees = style.read(spectr_real.TREES)
    one, recursive, k_seq = (
        spectr_real.efficiency(trees, [(1, name)], 1)["block_efficiency"]
        for name in (f"{spectr_real.ONE} 1x4", "TokenWise(RecursiveRejection) 8x4", f"{spectr_real.KSEQ} 8x4")
    )

    def spread(above: int, below: int) -> str:
        ratios = [row[above] / row[below] for row in table.values()]
        return f"{min(ratios):.3f} to {max(ratios):.3f}"

    pair = "Qwen 2.5 7B and 0.5B; ours SmolLM2"
    yield Line("Table 1", "SpecTr over one draft, K = 8, L = 4", spread(2, 0), f"{k_seq / one:.3f}", pair)
    yield Line("Table 1", "SpecInfer over SpecTr", spread(1, 2), f"{recursive / k_seq:.3f}", pair)
    yield Line("Table 1", "GLS over SpecTr", spread(3, 2), None, "one token: figure *The list-level race*")
    yield Line("Table 2", "draft models at two temperatures, K = 2, L = 5", "GLS 3.94 to 4.83", None, "not run here")


def _spec_dec() -> Iterator[Line]:
    for data, speed_up, more in (("Alpaca", 2.04, 7.2), ("GSM8K", 2.26, 9.4), ("HumanEval", 2.23, 11.1)):
        published = f"{speed_up}x, {more} % over fixed L"
        yield Line("abstract", f"speed-up, {data}, Llama 2 7B for 70B", published, None, "needs its models")
    for temperature in (0.6, 1.0):
        gain = ratio("SpecDec++", "one path, block", temperature)
        what = f"tokens per target call over a fixed path, T = {temperature:g}"
        yield Line("tables", what, None, f"{gain:.2f}", "fewer draft tokens; threshold on q, no trained head")


def _eagle() -> Iterator[Line]:
    yield Line("abstract", "speed-up", "3.05 to 4.26", None, "needs its trained draft models")
    yield Line("abstract", "faster than EAGLE", "20 to 40 %", None, "needs its trained draft models")
    hot, cold = (tokens("EAGLE-2", 64, temperature) for temperature in (1.0, 0.0))
    note = "Vicuna 13B, from a summary"
    yield Line(
        "results",
        "accepted, T = 1 over T = 0, six tasks",
        f"{4.26 / 4.65:.2f} (4.26 / 4.65)",
        f"{hot / cold:.2f}",
        note,
    )
    for temperature in (0.0, 0.6, 1.0):
        gain = ratio("EAGLE-2", "Sequoia", temperature)
        yield Line(
            "no table known",
            f"tokens per target call over Sequoia's tree, T = {temperature:g}",
            None,
            f"{gain:.2f}",
            "equal nodes",
        )
