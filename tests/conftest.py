"""The `kind` fixture runs a test on every kind of array that the core knows; rules and laws come from the package itself."""

from __future__ import annotations

import importlib
import importlib.util
import os
import random
from pathlib import Path

import pytest
from kinds_of_arrays import KINDS, Kind
from sizes import Sized

# Before torch is loaded: the threads of two workers would wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
TORCH = importlib.util.find_spec("torch") is not None
pytest_plugins = ["pytester", "foreign_warnings"]
BENCH = Path(__file__).parent / "bench"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The benchmarks run with --benchmark-only alone (`make bench`)."""
    inside = collection_path == BENCH or BENCH in collection_path.parents
    return True if inside and not config.getoption("benchmark_only", default=False) else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases", choices=("quick", "all"), default="quick", help="of the tests: `make test` asks for the quick ones"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Unless all cases are asked for, leave out those marked thorough, and of a test marked few(n) all but n of the others."""
    if config.getoption("cases") == "all":
        return
    thorough = {item.nodeid for item in items if item.get_closest_marker("thorough")}
    chosen, quick, left_out = _of_few([item for item in items if item.nodeid not in thorough]), [], []
    for item in items:
        wanted = item.nodeid not in thorough and (not _few(item) or item.nodeid in chosen)
        (quick if wanted else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = quick


def _few(item: pytest.Item) -> int:
    marker = item.get_closest_marker("few")
    return int(marker.args[0]) if marker else 0


def _of_few(items: list[pytest.Item]) -> set[str]:
    """The cases of tests marked few(n) that are quick ones: drawn by the name of the test, so that every worker has the same."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if _few(item):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    chosen: set[str] = set()
    for name, cases in tests.items():
        chosen.update(item.nodeid for item in random.Random(name).sample(cases, min(_few(cases[0]), len(cases))))
    return chosen


@pytest.fixture(scope="session")
def sized(request: pytest.FixtureRequest) -> Sized:
    """How many texts, draws or examples a test takes: the first number of the quick cases, the second of all."""
    every = request.config.getoption("cases") == "all"
    return lambda quick, thorough: thorough if every else quick


@pytest.fixture(scope="session", autouse=True)
def _no_lines_of_progress() -> None:
    """Tests run beside other work: a quick command may take longer than the second after which it would say what it does."""
    console = importlib.import_module("ot_draft.cli.console")
    console.FIRST = console.EVERY = 3600.0


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch, sized: Sized) -> None:
    """K-SEQ seeks its factor in three steps: for the meta device, where nothing is ever settled, and each step is as the last."""
    search = importlib.import_module("ot_draft.rules.k_seq.division_factor")
    monkeypatch.setattr(search, "STEPS", sized(3, search.STEPS))


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
