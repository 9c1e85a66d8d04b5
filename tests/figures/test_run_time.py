"""POT's network simplex in the figure of run times: the same optimum, and left out, with a word, where it is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
import ot_draft as ot
from figures import style
from figures.speed import run_time

TINY = {"sizes": (3, 4), "ks": (1, 2), "n_of_rules": 5, "beside": ((4, 2),)}


@pytest.mark.parametrize(("n", "k"), [(2, 1), (3, 2), (6, 3), (20, 2), (5, 5)])
def test_network_simplex_finds_the_optimum(n: int, k: int) -> None:
    pytest.importorskip("ot", reason="the package POT is not installed")
    p, q = np.random.default_rng(n).dirichlet(np.ones(n), 2)
    assert run_time.by_network_simplex(p, q, k) == pytest.approx(ot.optimal_acceptance(p, q, k), abs=1e-9)


def test_where_pot_is_missing_the_figure_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_time, "find_spec", lambda name: None)
    style.write(run_time.compute(**TINY), tmp_path / "data.csv")
    rows = style.read(tmp_path / "data.csv")
    assert not [row for row in rows if row["method"] == run_time.POT]
    assert {row["method"] for row in rows if row["panel"] == "side by side"} >= {"highs", "flow"}
    style.save(run_time.draw(rows), tmp_path, "run_time")
    assert "POT is not installed" in style.caption_of(tmp_path / "run_time.svg")
