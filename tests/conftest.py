"""The `kind` fixture runs a test on every kind of array that the core knows; rules and laws come from the package itself."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from kinds_of_arrays import KINDS, Kind

TORCH = importlib.util.find_spec("torch") is not None
BENCH = Path(__file__).parent / "bench"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The benchmarks run with --benchmark-only alone (`make bench`)."""
    inside = collection_path == BENCH or BENCH in collection_path.parents
    return True if inside and not config.getoption("benchmark_only", default=False) else None


def _present(kind: Kind) -> Kind:
    if kind.is_torch and not TORCH:
        pytest.skip("torch is not installed (extra 'torch')")
    return kind


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Every kind of array, the meta device included."""
    return _present(request.param)


@pytest.fixture(params=[kind for kind in KINDS if not kind.meta], ids=lambda kind: kind.name)
def valued(request: pytest.FixtureRequest) -> Kind:
    """Every kind that holds values."""
    return _present(request.param)


@pytest.fixture(params=[kind for kind in KINDS if not kind.meta and not kind.exact], ids=lambda kind: kind.name)
def floats(request: pytest.FixtureRequest) -> Kind:
    """Every kind of floats that holds values."""
    return _present(request.param)
