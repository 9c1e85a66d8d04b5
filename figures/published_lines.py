"""Published numbers with their section in the paper, and the same numbers of this project. None: no access to the number."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import ot_draft as otd
from figures.about import Line
from figures.published_ours import acceptance, mean_ratio, ratio, same_everywhere, tokens
from figures.published_real import NAMES
from figures.trees import spectr_real


def others() -> Iterator[tuple[str, Iterator[Line]]]:
    """Yield the lines of the other works that have a coupling."""
    yield "Sequoia (2402.12374v3)", _sequoia()
    yield "SpecHub (2411.05289)", _spec_hub()
    yield "Khisti et al. (2410.18234)", _khisti()
    yield "Block verification (2403.10444)", _block_verification()
    yield "Traversal verification (2505.12398)", _traversal()
    yield "GLS, list-level coupling (2506.05632)", _list_level()
    yield "SpecDec++ (2405.19715)", _spec_dec()
    yield "EAGLE-2 (2406.16858)", _eagle()


def _sequoia() -> Iterator[Line]:
    table = {  # tokens per step: Sequoia's tree of 128 nodes, SpecInfer's 5 paths of 8
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
    for L in (4, 8):
        gains = []
        for name, (texts, mean) in spectr_real.tables().items():
            block, token = (
                mean(texts, [(1, f"{rule} 1x{L}")], 1)["block_efficiency"]
                for rule in ("BlockVerification", spectr_real.ONE)
            )
            gains.append(f"{100 * (block / token - 1):.1f} % {NAMES[name]}")
        yield Line("tables", f"more tokens per target call, L = {L}", None, ", ".join(gains), "real pairs, T = 1")
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
    names = f"{spectr_real.ONE} 1x4", "TokenWise(RecursiveRejection) 8x4", f"{spectr_real.KSEQ} 8x4"
    above_one, above_k_seq = [], []
    for pair, (texts, mean) in spectr_real.tables().items():
        one, recursive, k_seq = (mean(texts, [(1, name)], 1)["block_efficiency"] for name in names)
        above_one.append(f"{k_seq / one:.3f} {NAMES[pair]}")
        above_k_seq.append(f"{recursive / k_seq:.3f} {NAMES[pair]}")

    def spread(above: int, below: int) -> str:
        ratios = [row[above] / row[below] for row in table.values()]
        return f"{min(ratios):.3f} to {max(ratios):.3f}"

    theirs = "Qwen 2.5 7B and 0.5B"
    yield Line("Table 1", "SpecTr over one draft, K = 8, L = 4", spread(2, 0), ", ".join(above_one), theirs)
    yield Line("Table 1", "SpecInfer over SpecTr", spread(1, 2), ", ".join(above_k_seq), theirs)
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
