"""The `kind` fixture runs a test on every kind of array that the core knows; rules and laws come from the package itself."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
from functools import partial
from itertools import product
from pathlib import Path

import hypothesis
import pytest
from kinds_of_arrays import KINDS, Kind

# Before torch is loaded: the threads of two workers would wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Before Triton is, by transformers and torch's CUDA builds, too: it reads this at once, and the CPU cannot run compiled kernels.
os.environ["TRITON_INTERPRET"] = "1"
TORCH = importlib.util.find_spec("torch") is not None
pytest_plugins = ["pytester", "foreign_warnings"]
BENCH = Path(__file__).parent / "bench"

# Examples of tests with @given: other ones in every run (dev); the same ones everywhere (ci); other ones, and many (nightly).
hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None)
NIGHTLY = 1000
hypothesis.settings.register_profile("nightly", deadline=None, max_examples=NIGHTLY)
hypothesis.settings.load_profile("dev")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The benchmarks run with --benchmark-only alone (`make bench`)."""
    inside = collection_path == BENCH or BENCH in collection_path.parents
    return True if inside and not config.getoption("benchmark_only", default=False) else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected stays until the end; the garbage collector need not look through it, nor run as often."""
    gc.freeze()
    gc.set_threshold(50_000)


@pytest.fixture(scope="session", autouse=True)
def _no_lines_of_progress() -> None:
    """Tests run beside other work: a quick command may take longer than the second after which it would say what it does."""
    console = importlib.import_module("ot_draft.cli.console")
    console.FIRST = console.EVERY = 3600.0


@pytest.fixture(scope="session")
def loaded_once() -> None:
    """What a search loads and makes once is in this process: each child that is forked from it would do so again."""
    rules, checks = (importlib.import_module(f"ot_draft.{name}") for name in ("rules", "verify.rule"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ot_draft.verify.rule.child.can_fork", lambda: False)
        checks.check_rule(rules.KSeq(), 1, ["output_distribution", "sampled_frequencies", "no_host_sync"])
        for compiled in (rules.Optimal(), rules.HeadAndTail()):
            checks.check_rule(compiled, 5, ["floats_agree"])
    search, properties = (importlib.import_module(f"ot_draft.verify.rule.{name}") for name in ("search", "properties"))
    law = rules.KSeq().law
    for claim, examples in product(properties.ALL, (5, 20, 30)):
        if not isinstance(claim.cases(law), list) and (examples < 30 or not claim.large):
            number = min(examples * (search.SearchLimits().large_property_problems if claim.large else 1), claim.most)
            search.drawn_problems(claim.cases, law, (), number, 0, None)


def limit_searches(monkeypatch: pytest.MonkeyPatch, **limits: float) -> None:
    """Change limits of `check` for one test."""
    search = importlib.import_module("ot_draft.verify.rule.search")
    monkeypatch.setattr(search, "SearchLimits", partial(search.SearchLimits, **limits))


@pytest.fixture
def short_searches(monkeypatch: pytest.MonkeyPatch, loaded_once: None) -> None:
    """`check` searches for 4 % of the time that it has for its users, except in the nightly run."""
    if hypothesis.settings().max_examples < NIGHTLY:
        limit_searches(monkeypatch, large_property_seconds=0.2)
        lossless = importlib.import_module("ot_draft.verify.rule.lossless")
        monkeypatch.setattr(lossless, "UNSEEN_CALLS_SECONDS", 0.06)


@pytest.fixture
def unhurried_searches(monkeypatch: pytest.MonkeyPatch, short_searches: None) -> None:
    """`check` tries every problem that it drew, however slow the machine is: for what only a later problem shows."""
    limit_searches(monkeypatch, large_property_seconds=1e4, slow_problem_seconds=1e4)


@pytest.fixture
def as_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """`check` shows a counterexample as it was found, without a search for a smaller one: for tests that do not look at its size."""
    search = importlib.import_module("ot_draft.verify.rule.search")
    monkeypatch.setattr(search.Attempts, "shrink", lambda *given: None)


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """K-SEQ seeks its factor in three steps: for the meta device, where nothing is ever settled, and each step is as the last."""
    division_factor = importlib.import_module("ot_draft.rules.k_seq.division_factor")
    monkeypatch.setattr(division_factor, "FactorSearch", partial(division_factor.FactorSearch, max_steps=3))


def _present(kind: Kind) -> Kind:
    if kind.is_torch and not TORCH:
        pytest.skip("torch is not installed (extra 'torch')")
    return kind


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Every kind of array, the meta device included."""
    if request.param.meta:
        request.getfixturevalue("few_steps")
    return _present(request.param)


@pytest.fixture(params=[kind for kind in KINDS if not kind.meta], ids=lambda kind: kind.name)
def valued(request: pytest.FixtureRequest) -> Kind:
    """Every kind that holds values."""
    return _present(request.param)


@pytest.fixture(params=[kind for kind in KINDS if not kind.meta and not kind.exact], ids=lambda kind: kind.name)
def floats(request: pytest.FixtureRequest) -> Kind:
    """Every kind of floats that holds values."""
    return _present(request.param)
