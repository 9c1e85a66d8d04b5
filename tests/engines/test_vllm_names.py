"""vLLM's CPU build under the name of another release: it is mended by platform, and rows of `conform` are wrong where nobody mends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ot_draft.verify.engine import suite
from ot_draft.verify.engine.kinds import KINDS, PLAIN
from ot_draft.verify.outcome import Status

TRIED = (PLAIN, "temperature", "top-k", "min tokens", "greedy")
PLUS_CPU = "0.33.0+cpu"


@contextmanager
def engine_of(release: str, rule: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[suite.EngineTrial]:
    """The engine, started, whose metadata say vllm and this release. rule: "" for none of the plugin's."""
    (metadata := folder / f"vllm-{release}.dist-info").mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {release}\n")
    monkeypatch.syspath_prepend(folder)  # the engine's process has the path of this one
    if rule:
        monkeypatch.setenv("OT_DRAFT_VLLM", rule)
    else:
        monkeypatch.delenv("OT_DRAFT_VLLM", raising=False)
    monkeypatch.setattr(suite, "kinds_for", lambda n: {name: KINDS[name] for name in TRIED})
    trial = suite.EngineTrial("vllm", {}, folder / "8", 8, 1200, 1e-6, 900.0, np.random.default_rng(0))
    try:
        trial.start()
        assert trial.facts["distribution"] == f"vllm {release}"
        yield trial
    finally:
        trial.close()


@pytest.mark.parametrize("release", [PLUS_CPU, "0.99.0+cpu"])
def test_it_is_mended_whatever_it_is_called(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is a release that was read, the second is not, and is taken for its parameters."""
    with engine_of(release, "SpeculativeSampling", tmp_path, monkeypatch) as trial:
        assert trial.facts["vLLM's bugs"] == "patched by ot_draft"
        rows = {row.check.rpartition(",")[0]: row for row in trial.rows()}
    assert {name: suite.line(rows[name]) for name in TRIED if rows[name].status != Status.PASSED} == {}


def test_what_nobody_mends_is_said_and_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine_of(PLUS_CPU, "", tmp_path, monkeypatch) as trial:
        assert trial.facts["vLLM's bugs"] == "not patched"
        assert any(row.status == Status.FAILED for row in trial.rows())
