"""Every figure computes and draws at a tiny size; the numbers in it are those of the theory."""

from __future__ import annotations

import io
import operator
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import ot_draft as ot
from ot_draft.rules.optimal.levels import slopes_of

pytest.importorskip("matplotlib")
from figures import store, style
from figures.__main__ import main
from figures.about import About, Number
from figures.acceptance import acceptance_bernoulli, temperature
from figures.laws import draft_laws, hybrid, without_replacement
from figures.laws.ways_to_draft import CONSTANTS
from figures.scripts import MODULES, NAMES, script
from figures.selection import construction, division_factor, k_seq_share, khisti_figure_2, list_level, transport_plans
from ot_draft.compare import expected_acceptance, pyplot

TINY: dict[str, dict[str, Any]] = {
    "run_time": {"sizes": (3, 4), "ks": (1, 2), "n_of_rules": 5},
    "khisti_figure_2": {"steps": 4},
    "acceptance_bernoulli": {"ks": (1, 2, 3)},
    "acceptance_random": {"count": 2, "ks": (1, 8)},
    "acceptance_real": {"limit": 2, "ks": (1, 8)},
    "classes": {"n": 300, "ks": (2, 8), "classes": (16, 64)},
    "construction": {},
    "hybrid": {"limit": 2, "ks": (1, 2)},
    "without_replacement": {"count": 2, "ks": (1, 2)},
    "division_factor": {"points": 5, "count": 3, "ks": (1, 2)},
    "draft_laws": {"limit": 2, "ks": (2, 3)},
    "k_seq_share": {"count": 2, "searches": 1, "ks": (1, 2)},
    "list_level": {"count": 3, "ks": (1, 5)},
    "multi_candidate": {"limit": 2, "ks": (1, 2)},
    "real_kinds": {"limit": 4},
    "temperature": {"limit": 2, "ks": (2, 4)},
    "transport_plans": {},
    "truncation": {"limit": 2},
    "block_efficiency": {"n": 60, "iterations": 8, "budgets": (8,)},
    "spectr_table_1": {"n": 60, "iterations": 8},
    "spectr_real": {},
    "latency": {},
    "path_gap": {"count": 2},
    "decoding_tree": {},
}
HELPERS = {
    "__init__",
    "__main__",
    "about",
    "report",
    "report_tables",
    "scripts",
    "store",
    "style",
    "acceptance.__init__",
    "laws.__init__",
    "laws.ways_to_draft",
    "laws.ways_without_replacement",
    "paths.__init__",
    "paths.control_variates",
    "paths.path_rules",
    "paths.word_models",
    "selection.__init__",
    "selection.construction_panels",
    "selection.worst_cases",
    "speed.__init__",
    "speed.timing",
}


@pytest.mark.filterwarnings("default")  # solvers' libraries may warn about themselves
@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_made(tmp_path: Path, name: str) -> None:
    if name == "classes":
        pytest.importorskip("torch")
    module = script(name)
    style.write(module.compute(**TINY[name]), tmp_path / "data.csv")
    files = style.save(module.draw(style.read(tmp_path / "data.csv")), tmp_path, name)
    assert [file.suffix for file in files] == [".svg", ".png"] and all(file.stat().st_size > 5_000 for file in files)
    found = module.numbers(style.read(tmp_path / "data.csv"))
    assert found and all(np.isfinite(number.ours) and number.what for number in found)
    assert isinstance(module.ABOUT, About) and all((module.ABOUT.title, module.ABOUT.claim, module.ABOUT.source))
    assert (
        module.ABOUT.comparison
        or any(number.published is not None for number in found)
        or "this project" in module.ABOUT.source
    )
    if hasattr(module, "table"):
        lines = module.table(style.read(tmp_path / "data.csv")).split("\n\n")[-1].splitlines()
        assert len(lines) > 3 and len({line.count("|") for line in lines}) == 1
    again = io.BytesIO()
    figure = module.draw(style.read(tmp_path / "data.csv"))
    figure.savefig(again, format="svg", dpi=160, metadata={"Date": None})
    pyplot().close(figure)
    assert again.getvalue() == files[0].read_bytes()


def test_scripts_are_short() -> None:
    lengths = {
        ".".join(file.relative_to(store.FOLDER).with_suffix("").parts): len(file.read_text().splitlines())
        for file in store.FOLDER.rglob("*.py")
    }
    assert set(lengths) == {*HELPERS, *MODULES.values()}
    assert [name for name in MODULES.values() if lengths[name] > 120] == []
    assert [name for name in HELPERS if lengths[name] > 200] == []


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
    assert len({way for _, way, _ in rows if way.startswith(hybrid.AUTO)}) == 1 + len(CONSTANTS)


def test_no_rule_beats_the_optimum_without_replacement() -> None:
    gaps = {(row["pairs"], row["way"]): row["gap"] for row in without_replacement.compute(count=2, ks=(2,))}
    for (pairs, way), gap in gaps.items():
        if way in without_replacement.ORDERS:
            assert gap > -1e-9
            assert gaps[pairs, "RandomOrder"] <= gap + 1e-6


def test_the_race_is_the_one_that_it_says() -> None:
    """Its acceptance by quadrature against the closed form for one draft, and against the race itself, run."""
    generator = np.random.default_rng(3)
    p, q = generator.dirichlet(np.ones(6), 2)
    one = sum(1 / np.maximum(p / p[j], q / q[j]).sum() for j in range(6))
    assert list_level.race_acceptance(p, q, 1) == pytest.approx((one, one), abs=1e-12)
    for k in (2, 6):
        clocks = generator.exponential(size=(40_000, k, 6))
        output, drafts = (clocks / p).min(1).argmin(-1), (clocks / q).argmin(-1)
        met = (drafts == output[:, None]).any(-1)
        accepted, bound = list_level.race_acceptance(p, q, k)
        assert abs(met.mean() - accepted) < 6 * met.std() / len(met) ** 0.5
        assert bound < accepted < ot.optimal_acceptance(p, q, k)


def test_the_linear_programs_of_the_list_level_figure_agree_with_the_dual() -> None:
    rows = [row for row in list_level.compute(count=2, ks=(1, 3)) if row["way"] == list_level.LP]
    assert len(rows) == 2 and all(row["off"] < 1e-9 for row in rows)


def test_the_best_factor_is_where_k_seq_becomes_valid() -> None:
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    for k in (2, 3):
        problem = ot.Problem(p, q, k)
        factor = division_factor.best_factor(p, q, k)
        assert ot.evaluate(ot.rules.KSeq(factor=factor), problem).lossless
        assert not ot.evaluate(ot.rules.KSeq(factor=factor * 0.99), problem).lossless
        accepted = 1 - (1 - division_factor.acceptance_of_one(p, q, factor)) ** k
        assert accepted == pytest.approx(expected_acceptance(ot.rules.KSeq(), problem).taken, abs=1e-9)


def test_transport_plans_are_couplings_that_accept_what_their_rules_do() -> None:
    rows = transport_plans.compute()
    problem = ot.Problem(list(transport_plans.P), list(transport_plans.Q), transport_plans.K)
    for name, rule in transport_plans.RULES.items():
        here = [row for row in rows if row["rule"] == name]
        for drafts in {row["drafts"] for row in here}:
            tokens = np.array([transport_plans.TOKENS.index(token) for token in drafts])
            mass = sum(row["mass"] for row in here if row["drafts"] == drafts)
            assert mass == problem.law.probability(problem.q, tokens)
        inside = sum(row["mass"] for row in here if row["output"] in row["drafts"])
        assert inside == ot.evaluate(rule, problem).acceptance
        assert (inside == ot.optimal_acceptance(problem.p, problem.q, problem.k)) == ("ptim" in name)


def test_worst_cases_of_k_seq_hold_the_guarantee() -> None:
    for k in (2, 5):
        worst = k_seq_share.worst_of_two(k)
        assert ot.kseq_bound(k) < worst <= k_seq_share.searched(k, 1, 2) + 1e-6
    assert k_seq_share.worst_of_two(2) == pytest.approx(8 / 9, abs=1e-6)


def test_laws_that_are_the_same_have_the_same_optimum() -> None:
    found = {(row["temperature"], row["law"]): row["mean"] for row in draft_laws.compute(limit=3, ks=(2,))}
    for group in ("1.0", "0.6"):
        assert found[group, draft_laws.HUB] == pytest.approx(found[group, "hybrid, j = 1, greedy"], abs=1e-12)
        assert found[group, draft_laws.AUTO] <= max(value for (own, _), value in found.items() if own == group)


def test_settings_are_the_same_contexts_as_the_pairs() -> None:
    """At temperatures that both files hold: the first position of every text, up to float32."""
    with np.load(hybrid.FILE) as first, np.load(temperature.FILE) as second:
        for group, value in enumerate(first["temperatures"].tolist()):
            row = int(np.flatnonzero((second["setting"] == "temperature") & (second["value"] == value))[0])
            assert np.allclose(second["full_optimum"][row], first["full_optimum"][group, ::2], atol=1e-4)
        drafts, full = second["drafts"].tolist(), second["full_optimum"]
    for kind in ("temperature", "top-k", "top-p"):
        pairs = temperature.settings_pairs(kind)
        rows = np.load(temperature.FILE)["setting"] == kind
        for column, k in enumerate(drafts):
            excess = ot.optimal_acceptance(pairs.p, pairs.q, k) - full[rows][..., column].ravel()
            assert excess.min() > -1e-6 and excess.max() < 0.012 and excess.mean() < 1e-3


def test_a_figure_is_computed_again_only_if_something_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*options: str) -> str:
        done = CliRunner().invoke(main, ["transport_plans", "--out", str(tmp_path), *options])
        assert done.exit_code == 0, done.output
        return done.output

    assert "cached" not in run() and "cached" in run()
    assert "cached" not in run("--full") and "cached" not in run()  # other options, other data
    assert "cached" not in run("--force")
    (tmp_path / "transport_plans.png").unlink()
    assert "cached" not in run() and "cached" in run()
    monkeypatch.setattr(transport_plans, "compute", lambda **_: 1 / 0)
    assert "cached" in run()
    assert CliRunner().invoke(main, ["transport_plans", "--force", "--out", str(tmp_path)]).exit_code != 0
    assert not store.is_current(tmp_path, "transport_plans", False)  # a run that failed left nothing that seems done


def test_the_key_follows_scripts_inputs_and_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.modules("truncation") == {"acceptance.truncation", "acceptance.temperature", "style", "about"}
    folder = tmp_path / "figures"
    shutil.copytree(store.FOLDER, folder, ignore=shutil.ignore_patterns("out", "__pycache__"))
    monkeypatch.setattr(store, "FOLDER", folder)
    keys = [store.key("truncation", False), store.key("truncation", True)]
    for file in ("acceptance/temperature.py", "data/smollm2_settings.npz", "laws/hybrid.py"):
        with (folder / file).open("ab") as stream:
            stream.write(b"#")
        keys.append(store.key("truncation", False))
    assert len(set(keys)) == 4 and keys[-1] == keys[-2]  # hybrid.py is none of its modules


def test_numbers_say_what_needs_a_word() -> None:
    assert Number("", 1.2, 1.0).unexplained and not Number("", 1.2, 1.0, note="other texts").unexplained
    assert not Number("", 1.05, 1.0).unexplained and not Number("", 5.0).unexplained
    assert Number("", 0.5, 0.6, "≥").unexplained and not Number("", 0.9, 0.6, "≥").unexplained
    assert not Number("", 0.5, 0.6, "≥", note="why").holds and Number("", 0.5, 0.6, "≤").holds


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
        assert {file.suffix for file in tmp_path.iterdir()} == {".csv", ".svg", ".png", ".json", ".html"}
