"""Examples in docstrings run, except those that are marked as needing a model's files."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = [
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for file in sorted((ROOT / "ot_draft").rglob("*.py"))
    if any(">>> " in line and "+SKIP" not in line for line in file.read_text(encoding="utf-8").splitlines())
]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_run(module: str) -> None:
    with_torch = ("ot_draft.lossy.losses", "ot_draft.verify.server.log_writer")
    if module in ("ot_draft.data.summary", "ot_draft.data.sweep"):
        pytest.importorskip("pyarrow")
    if module in with_torch or "decoding" in module or "integrations" in module:
        pytest.importorskip("torch")
    if "benchmark" in module:
        pytest.importorskip("transformers")
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted and not found.failed


def test_only_examples_that_need_a_model_are_skipped() -> None:
    skipped = [
        file for file in (ROOT / "ot_draft").rglob("*.py") if "doctest: +SKIP" in file.read_text(encoding="utf-8")
    ]
    assert {file.parent.name for file in skipped} <= {"decoding", "integrations"}
