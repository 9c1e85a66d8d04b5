"""Every figure computes and draws at a tiny size; the numbers in it are those of the theory."""

from __future__ import annotations

import importlib
import operator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import ot_draft as ot
from ot_draft.rules.levels import slopes_of

pytest.importorskip("matplotlib")
from figures import acceptance_bernoulli, construction, hybrid, khisti_figure_2, style, without_replacement
from figures.__main__ import NAMES, main

TINY: dict[str, dict[str, Any]] = {
    "run_time": {"sizes": (3, 4), "ks": (1, 2), "n_of_rules": 5},
    "khisti_figure_2": {"steps": 4},
    "acceptance_bernoulli": {"ks": (1, 2, 3)},
    "acceptance_random": {"count": 2, "ks": (1, 2)},
    "acceptance_real": {"limit": 2, "ks": (1, 2)},
    "classes": {"n": 300, "ks": (2, 8), "classes": (16, 64)},
    "construction": {},
    "hybrid": {"limit": 2, "ks": (1, 2)},
    "without_replacement": {"count": 2, "ks": (1, 2)},
}


@pytest.mark.filterwarnings("default")  # solvers' libraries may warn about themselves
@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_made(tmp_path: Path, name: str) -> None:
    if name == "classes":
        pytest.importorskip("torch")
    script = importlib.import_module(f"figures.{name}")
    style.write(script.compute(**TINY[name]), tmp_path / "data.csv")
    files = style.save(script.draw(style.read(tmp_path / "data.csv")), tmp_path, name)
    assert [file.suffix for file in files] == [".svg", ".png"] and all(file.stat().st_size > 5_000 for file in files)
    if hasattr(script, "table"):
        lines = script.table(style.read(tmp_path / "data.csv")).split("\n\n")[-1].splitlines()
        assert len(lines) > 3 and len({line.count("|") for line in lines}) == 1
    first = files[0].read_bytes()
    assert style.save(script.draw(style.read(tmp_path / "data.csv")), tmp_path, name)[0].read_bytes() == first


def test_scripts_are_short() -> None:
    folder = Path(__file__).parent.parent / "figures"
    assert {file.stem for file in folder.glob("*.py")} == {"__init__", "__main__", "style", *NAMES}
    assert all(len(file.read_text().splitlines()) <= 120 for file in folder.glob("*.py"))


def test_bernoulli_curves_pass_through_the_check_values() -> None:
    rows = acceptance_bernoulli.compute(ks=(2,))
    for draft, values in acceptance_bernoulli.CHECKS.items():
        here = {row["rule"]: row["acceptance"] for row in rows if str(row["draft"]) == draft}
        found = [here[name] for name in ("optimum", "KSeq", "RecursiveRejection")]
        assert [float(value) for value in found] == pytest.approx(values, abs=1e-4)
        assert isinstance(found[0], Fraction)


def test_khisti_curves_reach_one_exactly_where_they_should() -> None:
    """Acceptance 1 with k = 2 iff p(H) >= q(H)^2 for every H: every mass at least 1/9, every pair of masses at least 4/9."""
    rows = [row for row in khisti_figure_2.compute(steps=30) if row["rule"] == "optimum"]
    for row in rows:
        masses = (row["first"], row["x"], 1 - row["first"] - row["x"])
        possible = all(Fraction(1, 9) <= mass <= Fraction(5, 9) for mass in masses)
        assert (row["acceptance"] == 1) == possible


def test_the_construction_that_is_drawn_is_the_rules() -> None:
    rows = construction.compute()
    t, g, envelope, level = ([row[name] for row in rows] for name in ("t", "g", "G", "level"))
    p, q, m = ([row[name] for row in rows[1:]] for name in ("p", "q", "m"))
    found = ot.evaluate(ot.rules.Optimal(), ot.Problem(p, q, construction.K))
    assert found.lossless and found.acceptance == sum(map(min, p, m)) == ot.optimal_acceptance(p, q, construction.K)
    slopes = slopes_of(*(np.array(values, dtype=object) for values in (t, g, level)))
    assert [mass * slope for mass, slope in zip(q, slopes, strict=True)] == m
    assert any(a > b for a, b in zip(envelope, g, strict=True)) and any(map(operator.eq, p, m))


def test_hybrid_ways_are_in_order() -> None:
    rows = {(row["temperature"], row["way"], row["j"]): row["mean"] for row in hybrid.compute(limit=2, ks=(4,))}
    for group in ("1.0", "0.6"):
        for j in range(5):
            assert rows[group, hybrid.RULE, j] == pytest.approx(rows[group, hybrid.FIXED, j], abs=1e-9)
            assert rows[group, hybrid.FIXED, j] <= rows[group, hybrid.BEST, ""]
        assert rows[group, hybrid.AUTO, ""] <= rows[group, hybrid.BEST, ""]
    assert len({way for _, way, _ in rows if way.startswith(hybrid.AUTO)}) == 1 + len(hybrid.CONSTANTS)


def test_no_rule_beats_the_optimum_without_replacement() -> None:
    gaps = {(row["pairs"], row["way"]): row["gap"] for row in without_replacement.compute(count=2, ks=(2,))}
    for (pairs, way), gap in gaps.items():
        if way in without_replacement.ORDERS:
            assert gap > -1e-9
            assert gaps[pairs, "RandomOrder"] <= gap + 1e-6


def test_every_rule_has_a_look_of_its_own() -> None:
    looks = [style.look(rule.name) for rule in ot.rules.ALL]
    assert all(
        shown.label != rule.name or rule.name in ("Optimal", "SpecHub")
        for shown, rule in zip(looks, ot.rules.ALL, strict=True)
    )
    assert len({(shown.colour, shown.marker) for shown in looks}) == len(looks)


def test_the_command_makes_and_redraws(tmp_path: Path) -> None:
    missing = CliRunner().invoke(main, ["khisti_figure_2", "--redraw", "--out", str(tmp_path)])
    assert missing.exit_code != 0 and "without --redraw" in missing.output
    for options in ((), ("--redraw",)):
        made = CliRunner().invoke(main, ["khisti_figure_2", "--out", str(tmp_path), *options])
        assert made.exit_code == 0, made.output
        assert {file.suffix for file in tmp_path.iterdir()} == {".csv", ".svg", ".png"}
