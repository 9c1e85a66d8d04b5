"""The law of examples/contributing, added as it says by one line in `laws.ALL`, works wherever laws do without another edit."""

from __future__ import annotations

import csv
import io
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from contributing import example
from random_problems import random_problems

import ot_draft as otd
from ot_draft import laws, trees
from ot_draft.cli import main
from ot_draft.data import Study, compare_rules
from ot_draft.data.pairs import as_pairs
from ot_draft.data.study import choose_rules
from ot_draft.trees.evaluation.simulate import simulate
from ot_draft.trees.model import SimulatedModel


@pytest.fixture
def law(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = example("sharpened", monkeypatch)
    monkeypatch.setattr(laws, "ALL", (*laws.ALL, module.Sharpened()))
    return module.Sharpened()


def run(*arguments: str) -> str:
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_it_goes_by_its_name(law: Any) -> None:
    assert laws.law_called("sharpened") == law and otd.Sharpened is type(law)
    assert law.name == "sharpened"
    with pytest.raises(otd.InvalidArgument, match=r"draft law must be one of iid, .*hub, sharpened.*, got 'other'"):
        laws.law_called("other")


def test_rules_the_optimum_and_the_linear_program_agree(law: Any) -> None:
    for n, k in ((2, 2), (3, 2), (3, 3)):
        for problem in random_problems(3, n, k, law, 4):
            best = otd.optimal_acceptance(problem.p, problem.q, k, law)
            assert otd.solve(problem, "flow").acceptance == best
            for rule in (otd.rules.FromCoupling(law), otd.rules.NaiveTarget(law)):
                result = otd.evaluate(rule, problem)
                assert (result.output == problem.p).all() and result.acceptance <= best
            assert otd.evaluate(otd.rules.FromCoupling(law), problem).acceptance == best


def test_compare(law: Any, tmp_path: Path) -> None:
    said = run("compare", "--p", "1/2,1/3,1/6", "--q", "1/4,1/4,1/2", "--k", "2", "--draft-law", "sharpened", "--csv")
    rows = {row["rule"]: row for row in csv.DictReader(io.StringIO(said))}
    assert {"optimum", "optimum by LP", "NaiveTarget", "FromCoupling"} == set(rows)
    assert {row["law"] for row in rows.values()} == {"sharpened"}
    assert rows["FromCoupling"]["accepted_exact"] == rows["optimum"]["accepted_exact"] != ""
    chosen = choose_rules((), ("sharpened",))
    pairs = as_pairs(dict(zip("pq", np.random.default_rng(0).dirichlet(np.ones(9), (2, 3)), strict=True)), "random")
    values = {(row.pair, row.rule): row.accepted for row in compare_rules(pairs, Study((2,), chosen))}
    assert all(values[pair, "NaiveTarget"] <= values[pair, "optimum"] + 1e-12 for pair in range(3))
    assert all(abs(values[pair, "FromCoupling"] - values[pair, "optimum"]) < 1e-9 for pair in range(3))


def test_check(law: Any) -> None:
    said = run("check", "FromCoupling(law=Sharpened())", "--max-examples", "5", "--property", "output_distribution")
    assert "FromCoupling" in said


def test_sweep(law: Any, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (extra 'sweep')")
    p, q = np.random.default_rng(1).dirichlet(np.ones(6), (2, 4))
    np.savez(tmp_path / "pairs.npz", p=p, q=q)
    shard, out = str(tmp_path / "pairs.npz"), str(tmp_path / "out")
    run(
        "sweep",
        shard,
        "--out",
        out,
        "--draft-law",
        "sharpened",
        "--rules",
        "NaiveTarget",
        "--k",
        "2",
        "--jobs",
        "1",
        "--json",
    )
    rows = parquet.read_table(out).to_pylist()
    assert [(row["rule"], row["law"], row["k"]) for row in rows] == [("NaiveTarget", "sharpened", 2)] * 4
    exact = otd.evaluate(otd.rules.NaiveTarget(law), otd.Problem(p, q, 2, law)).acceptance
    assert np.allclose([row["acceptance"] for row in rows], exact, atol=1e-12)


@pytest.mark.parametrize(
    "shape", [trees.TreeShape.by_level((2, 1)), trees.TreeShape((0, 0, 1))], ids=["even", "uneven"]
)
def test_trees(law: Any, shape: trees.TreeShape) -> None:
    for rule in (trees.Traversal(), trees.NaivePath(), trees.TokenWise(otd.rules.FromCoupling(law))):
        if trees.rules.fits(rule, shape, law):
            model = trees.MarkovModel.random(np.random.default_rng(5), 2)
            assert trees.evaluate(rule, model, shape, law).lossless
    with pytest.raises(otd.InvalidDrafts, match=r"take Traversal\(\) or NaivePath\(\)"):
        trees.Joint().check(shape, law)
    simulated = simulate(trees.Traversal(), SimulatedModel(n=20), shape, 50, law=law)
    assert 0 < simulated.expected_length < shape.length


def test_decode(law: Any) -> None:
    pytest.importorskip("transformers")
    from tiny_models import tiny_pair

    from ot_draft.decoding import DecodeOptions, decode
    from ot_draft.decoding.methods import method_called

    method = method_called("traversal", "sharpened", trees.TreeShape.chains(2, 2))
    assert method.law == "sharpened" and method.drafting.tree.law == law
    texts = decode(tiny_pair(n=4, layers=1), [[1, 2]] * 3, method.drafting, DecodeOptions(max_tokens=4)).tokens
    assert all(len(text) == 4 and set(text) <= set(range(4)) for text in texts)


def test_drawing_follows_it(law: Any) -> None:
    q = np.array([0.5, 0.3, 0.2])
    drafts = otd.draw(law, np.broadcast_to(q, (20_000, 3)), 2, np.random.default_rng(2))
    for tokens in product(range(3), repeat=2):
        wanted = law.probability(q, np.array(tokens))
        assert abs((drafts == tokens).all(-1).mean() - wanted) < 5 * np.sqrt(wanted / 20_000)
