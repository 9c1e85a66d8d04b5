"""The figure of run times: what is timed finds the optimum, slow methods end early, and what is not installed is left out, with a word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
import ot_draft as otd
from figures import style
from figures.speed import methods, run_time
from ot_draft.lp.flow_plan import feasible

TINY = {"sizes": (3, 4), "ks": (1, 2), "n_of_rules": 5, "beside": ((4, 2),)}


@pytest.mark.parametrize("name", methods.NETWORK_SIMPLEX)
@pytest.mark.parametrize(("n", "k"), [(2, 1), (6, 3), (20, 2), (5, 5)])
def test_network_simplex_finds_the_optimum(name: str, n: int, k: int) -> None:
    pytest.importorskip("ot", reason="the package POT is not installed")
    p, q = methods.masses(n)
    value = feasible(methods.program_of(n, k), methods.call(name, n, k)()).value  # type: ignore[arg-type]
    assert value == pytest.approx(otd.optimal_acceptance(p, q, k), abs=1e-12)


def test_the_construction_is_certified_or_a_table() -> None:
    certificate = methods.call("certified", 7, 3)()
    table = methods.call("table", 7, 3)()
    best = otd.optimal_acceptance(*methods.masses(7), 3)
    assert certificate.lower == pytest.approx(best) and table.flow.sum() == pytest.approx(best)  # type: ignore[attr-defined]
    assert len(table.drafts) == run_time.draft_sets(7, 3)  # type: ignore[attr-defined]


def test_a_slow_method_is_not_tried_on_more_draft_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[str, int]] = []

    def call(name: str, n: int, k: int) -> object:
        tried.append((name, n))
        if (name, n) == ("refuses", 5):
            raise otd.InvalidArgument("too large")
        return lambda: None

    monkeypatch.setattr(run_time, "call", call)
    monkeypatch.setattr(run_time, "_timed", lambda call: 2.0 if tried[-1] == ("slow", 4) else 0.1)
    monkeypatch.setattr(run_time, "_is_ready", lambda name: name != "missing")
    rows = run_time.in_turns(["quick", "missing", "slow", "refuses"], ((5, 2), (3, 2), (4, 2)), limit=1.0)
    assert {(row["method"], row["n"]): row["seconds"] for row in rows} == {
        ("quick", 3): 0.1, ("slow", 3): 0.1, ("refuses", 3): 0.1,
        ("quick", 4): 0.1, ("slow", 4): 2.0, ("refuses", 4): 0.1,
        ("quick", 5): 0.1,
    }  # fmt: skip
    assert tried.count(("slow", 4)) == 1 and tried.count(("quick", 4)) == run_time.REPEATS + 1


def test_memory_is_that_of_a_process_of_its_own() -> None:
    assert 0 <= methods.megabytes("optimum", 10, 2) < 20 < methods.megabytes("optimum", 2_000_000, 2)


def test_the_table_has_a_line_a_size_and_a_column_a_method() -> None:
    rows = [
        {"panel": "side by side", "method": name, "n": n, "k": "2", "seconds": "0.0123", "megabytes": memory}
        for n, memory in (("20", "1"), ("1000", "2.5"))
        for name in ("construction", "flow")
        if (name, n) != ("flow", "1000")
    ]
    times, memory = run_time.table(rows).split("\n\n")
    assert times.splitlines()[2:] == ["| 20, 2 | 12.3 | 12.3 |", "| 1,000, 2 | 12.3 |  |"]
    assert memory.splitlines()[2:] == ["| 20, 2 | 1 | 1 |", "| 1,000, 2 | 2.5 |  |"]
    assert "ms" in times and "MB" not in run_time.table([row | {"megabytes": ""} for row in rows])


def test_what_is_missing_is_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_time, "find_spec", lambda name: name == "scipy" or None)
    style.write(run_time.compute(**TINY), tmp_path / "data.csv")
    rows = style.read(tmp_path / "data.csv")
    assert {row["method"] for row in rows if row["panel"] == "side by side"} == {"highs", "flow", *methods.OURS}
    style.save(run_time.draw(rows), tmp_path, "run_time")
    assert "Not installed here: cvxpy, ortools, POT, pulp." in style.caption_of(tmp_path / "run_time.svg")


def test_every_method_of_one_problem_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_time, "REPEATS", 1)
    rows = run_time.in_turns([*methods.OURS, "flow", "highs"], ((4, 2), (6_000, 2)), 60.0)
    assert {row["method"] for row in rows if row["n"] == 4} == {*methods.OURS, "flow", "highs"}
    assert {row["method"] for row in rows if row["n"] == 6_000} == {"optimum", "construction", "certified"}
    assert all(np.isfinite(row["seconds"]) for row in rows)
