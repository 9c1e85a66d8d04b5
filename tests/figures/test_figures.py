"""Every figure computes and draws at a tiny size; the command computes again only what has changed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from slow import slow_except

import ot_draft as otd

pytest.importorskip("matplotlib")
from figures import model_pairs, report, store, style
from figures.__main__ import main
from figures.about import About, Number
from figures.scripts import BY_GROUP, MODULES, NAMES, named, script
from figures.selection import transport_plans
from figures.trees import two_sizes
from ot_draft.cli import main as ot_draft
from ot_draft.data import Study, compare_rules, read_pairs, summarise
from ot_draft.data.tables import as_records

TINY: dict[str, dict[str, Any]] = {
    "run_time": {"sizes": (3, 4), "ks": (1, 2), "n_of_rules": 5, "beside": ((3, 2), (4, 2))},
    "khisti_figure_2": {"steps": 4},
    "acceptance_bernoulli": {"ks": (1, 2, 3)},
    "acceptance_random": {"count": 2, "ks": (1, 8)},
    "lossy": {"limit": 2},
    "acceptance_real": {"limit": 2, "ks": (1, 8)},
    "classes": {"n": 100, "ks": (2, 8), "classes": (16, 64)},
    "construction": {},
    "hybrid": {"limit": 2, "ks": (1, 2)},
    "without_replacement": {"count": 2, "ks": (1, 2)},
    "division_factor": {"points": 5, "count": 3, "ks": (1, 2)},
    "draft_laws": {"limit": 2, "ks": (2, 3)},
    "several_drafts": {"n": 20, "contexts": 3, "ks": (2, 3)},
    "k_seq_share": {"count": 2, "searches": 1, "ks": (1, 2)},
    "list_level": {"count": 3, "ks": (1, 5)},
    "watermarks": {"ks": (1, 2), "steps": 4, "contexts": 4, "n": 12},
    "multi_candidate": {"limit": 2, "ks": (1, 2)},
    "real_kinds": {"limit": 4},
    "temperature": {"limit": 2, "ks": (2, 4)},
    "transport_plans": {},
    "truncation": {"limit": 2},
    "block_efficiency": {"n": 60, "iterations": 8, "budgets": (8,)},
    "spectr_table_1": {"n": 60, "iterations": 8},
    "spectr_real": {},
    "real_trees": {},
    "real_quality": {},
    "latency": {},
    "path_gap": {"count": 2},
    "lossy_paths": {"limit": 4},
    "decoding_tree": {},
}


@pytest.mark.parametrize("name", slow_except(NAMES, "classes", "decoding_tree", "acceptance_real", "real_kinds"))
def test_every_figure_is_made(tmp_path: Path, name: str) -> None:
    if name == "classes":
        pytest.importorskip("torch")
    module = script(name)
    style.write(module.compute(**TINY[name]), tmp_path / "data.csv")
    files = style.save(module.draw(style.read(tmp_path / "data.csv")), tmp_path, name)
    assert [file.suffix for file in files] == [".svg", ".png"] and all(file.stat().st_size > 5_000 for file in files)
    numbers = module.numbers(style.read(tmp_path / "data.csv"))
    assert numbers and all(np.isfinite(number.ours) and number.what for number in numbers)
    assert isinstance(module.ABOUT, About) and all((module.ABOUT.title, module.ABOUT.claim, module.ABOUT.source))
    assert (
        module.ABOUT.comparison
        or any(number.published is not None for number in numbers)
        or "this project" in module.ABOUT.source
    )
    if hasattr(module, "table"):
        lines = module.table(style.read(tmp_path / "data.csv")).split("\n\n")[-1].splitlines()
        assert len(lines) > 3 and len({line.count("|") for line in lines}) == 1
    figure = module.draw(style.read(tmp_path / "data.csv"))
    for axes in (axes for axes in figure.axes if axes.axison):
        beside = axes.get_shared_y_axes().get_siblings(axes)
        assert axes.get_xlabel() and any(other.get_ylabel() for other in beside), "an axis without a title"
    assert style.caption_of(files[0]) == figure.caption
    again = tmp_path / "again"
    again.mkdir()
    assert style.save(figure, again, name, ["svg"])[0].read_bytes() == files[0].read_bytes()


def test_the_list_names_every_script_and_no_file_is_long() -> None:
    sources = {
        ".".join(file.relative_to(store.FOLDER).with_suffix("").parts): file.read_text()
        for file in store.FOLDER.rglob("*.py")
    }
    assert {name for name, source in sources.items() if "\ndef compute(" in source} == set(MODULES.values())
    assert [name for name, source in sources.items() if len(source.splitlines()) > 200] == []


def test_a_figure_is_computed_again_only_if_something_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_plans, "draw", lambda rows: style.canvas(1, "A figure that is soon drawn.")[0])
    monkeypatch.setattr(report, "write", lambda out: out)  # this test is not about the page

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
    assert store.modules("truncation") == {"acceptance.truncation", "acceptance.temperature", "style", "sheet", "about"}
    folder = tmp_path / "figures"
    shutil.copytree(store.FOLDER, folder, ignore=shutil.ignore_patterns("out", "__pycache__"))
    monkeypatch.setattr(store, "FOLDER", folder)
    keys = [store.key("truncation", False), store.key("truncation", True)]
    for file in ("acceptance/temperature.py", "data/smollm2_settings.npz", "laws/hybrid.py"):
        with (folder / file).open("ab") as stream:
            stream.write(b"#")
        keys.append(store.key("truncation", False))
    assert len(set(keys)) == 4 and keys[-1] == keys[-2]  # hybrid.py is none of its modules


@pytest.mark.parametrize("models", model_pairs.ALL, ids=lambda models: models.name)
def test_the_stored_comparison_is_what_the_rules_give(models: model_pairs.ModelPair) -> None:
    """By closed forms of rules and optima, on all contexts of a pair of models."""
    pairs = read_pairs(models.contexts)
    stored = {(row["group"], row["k"], row["rule"], row["law"]): row for row in style.read(models.compared)}
    study = Study((2, 8), (otd.rules.KSeq(), otd.rules.RecursiveRejection()), lp_limit=0)
    computed = [row for row in as_records(summarise(compare_rules(pairs, study), pairs)) if row["method"] != "lp"]
    for row in computed:
        if row["accepted"] not in ("", None):
            same = stored[row["group"], str(row["k"]), row["rule"], row["law"]]
            assert float(same["accepted"]) == pytest.approx(row["accepted"], abs=1e-9)
            assert float(same["error"]) == pytest.approx(row["error"], abs=1e-9)
    assert {row["pairs"] for row in stored.values()} == {str(len(pairs) // 2)}


def test_the_table_of_two_sizes_is_what_its_data_say() -> None:
    assert style.read(two_sizes.TABLE) == two_sizes.table()
    columns = set(style.read(two_sizes.FILE)[0])
    assert all(
        two_sizes.column(rule, k, depth, form) in columns
        for rule, form in two_sizes.LINES.values()
        for k in two_sizes.PATHS
        for depth in two_sizes.DEPTHS
    )


def test_texts_that_other_rules_decode_have_the_lengths_of_the_table() -> None:
    """Rules of qwen_decoded.csv decoded the first prompts themselves; the table has them on the contexts that K-SEQ reaches."""
    table = {(row["text"], row["temperature"]): row for row in style.read(two_sizes.FILE)}
    rows = style.read(style.DATA / "qwen_decoded.csv")
    assert len({row["walk"] for row in rows}) == 2
    gaps = np.array(
        [float(row["decoded"]) - float(table[row["text"], row["temperature"]][row["walk"]]) for row in rows]
    )
    assert len(gaps) >= 5 and abs(gaps.mean()) < 3 * gaps.std(ddof=1) / len(gaps) ** 0.5


def test_means_have_the_errors_of_texts_within_kinds() -> None:
    """Against simulation: base and difference of every text are known, and 40 of 120 texts have trees."""
    generator, name, base = np.random.default_rng(1), "Traversal 8x4 Sequoia", "TokenWise(KSeq) 8x4"
    found = []
    for _ in range(400):
        values = generator.normal([[3, 9]] * 60).ravel()  # two kinds, whose gap is no error
        texts = [
            {
                "text": str(i),
                "kind": "ab"[i % 2],
                "calls 8x4": str(10 - 5 * (i % 2)),
                "accepted 8x4": str((10 - 5 * (i % 2)) * value),
            }
            for i, value in enumerate(values)
        ]
        more = generator.normal(0.5, 0.2, 120)
        trees = [
            {"text": str(i), "trees": "10", base: "2.5", name: str(2.5 + more[i]) if i < 40 else ""} for i in range(60)
        ]
        both = (two_sizes.combined(trees, texts, [(1, column)], 1) for column in (base, name))
        gap = two_sizes.combined(trees, texts, [(1, name), (-1, base)], 0)
        found.append([value for each in (*both, gap) for value in each.values()])
    means, errors = np.reshape(found, (400, 3, 2)).transpose(2, 1, 0)
    assert means.mean(-1) == pytest.approx([1 + 5, 1 + 5 + 0.5, 0.5], abs=0.02)
    assert errors.mean(-1) == pytest.approx(means.std(-1), rel=0.15)


def test_both_measurements_of_k_seq_agree() -> None:
    """Drawn trees and the exact expectation given other completions of the same prompts, on the contexts of K = L = 8."""
    for temperature in (1.0, 0.6):
        trees, texts = two_sizes.of_temperature(temperature), two_sizes.of_temperature(temperature, two_sizes.ALONG)
        for K, L in ((1, 4), (8, 4), (1, 8), (8, 8)):
            calls = two_sizes.column_of(texts, "calls 8x8")
            parts = (
                (
                    two_sizes.column_of(trees, two_sizes.column(two_sizes.ON_PATHS[1], K, L)),
                    two_sizes.column_of(trees, "trees"),
                    trees,
                ),
                (two_sizes.column_of(texts, f"accepted {K}x{L} on 8x8") / calls, calls, texts),
            )
            means, errors = [], []
            for values, weights, rows in parts:
                mean, scores = two_sizes.mean_with_scores(values, weights)
                means.append(mean)
                errors.append(two_sizes.stratified_error(scores, [row["kind"] for row in rows]))
            assert abs(means[0] - means[1]) < 3 * np.hypot(*errors)


def test_numbers_say_what_needs_a_word() -> None:
    assert Number("", 1.2, 1.0).unexplained and not Number("", 1.2, 1.0, note="other texts").unexplained
    assert not Number("", 1.05, 1.0).unexplained and not Number("", 5.0).unexplained
    assert Number("", 0.5, 0.6, "≥").unexplained and not Number("", 0.9, 0.6, "≥").unexplained
    assert not Number("", 0.5, 0.6, "≥", note="why").holds and Number("", 0.5, 0.6, "≤").holds


def test_every_rule_has_a_look_of_its_own() -> None:
    looks = [style.look(rule.name) for rule in otd.rules.ALL]
    assert all(
        look.label != rule.name or rule.name in ("Optimal", "SpecHub")
        for look, rule in zip(looks, otd.rules.ALL, strict=True)
    )
    assert len({(look.colour, look.marker) for look in looks}) == len(looks)


def test_the_command_makes_and_redraws(tmp_path: Path) -> None:
    missing = CliRunner().invoke(main, ["khisti_figure_2", "--redraw", "--out", str(tmp_path)])
    assert missing.exit_code != 0 and "without --redraw" in missing.output
    for options in ((), ("--redraw",)):
        done = CliRunner().invoke(main, ["khisti_figure_2", "--out", str(tmp_path), *options])
        assert done.exit_code == 0, done.output
        assert {file.suffix for file in tmp_path.iterdir()} == {".csv", ".svg", ".png", ".json", ".html"}


def test_groups_are_names_of_their_figures() -> None:
    assert named([]) == NAMES
    assert set(named(["spectr", "Real models"])) == {*BY_GROUP["SpecTr"], *BY_GROUP["Real models"]}
    papers = named(["spectr", "mcsd"])
    assert papers[: len(BY_GROUP["SpecTr"]) - 1] == BY_GROUP["SpecTr"][:-1] and papers[-1] == "run_time"


def test_without_matplotlib_nothing_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: str) -> None:
        raise otd.MissingPackage("matplotlib", "figures")

    monkeypatch.setattr("ot_draft.data.plotting.load", missing)
    monkeypatch.setattr(transport_plans, "compute", lambda **_: 1 / 0)
    done = CliRunner().invoke(ot_draft, ["figures", "transport_plans", "--out", str(tmp_path)])
    assert done.exit_code == 2 and done.stderr.count("\n") == 1, done.output
    assert "Error: matplotlib is not installed. Run  pip install " in done.stderr


def test_a_folder_that_cannot_be_made_is_wrong_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(main, ["transport_plans", "--out", str(tmp_path / "file" / "out")])
    assert done.exit_code == 2 and "must be a writable folder" in done.output


def test_the_folders_that_a_figure_may_not_depend_on_exist() -> None:
    """Otherwise every change of the verifiers would compute all figures again."""
    assert [name for name in (*store.OTHER_TOOLS, "trees") if not (store.LIBRARY / name).is_dir()] == []
