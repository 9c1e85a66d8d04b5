"""Whether there is an engine, where its models lie, and how one is run; `make engines` brings all that is needed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integrations")]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("vllm") is None:
        for item in items:
            if HERE in item.path.parents and "llama" not in item.path.name:
                item.add_marker(pytest.mark.skip(reason="vLLM is not installed here: run  make engines"))


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of the tiny target and draft."""
    from ot_draft.verify.engine.tiny_pair import write

    return write(tmp_path_factory.mktemp("models"))
