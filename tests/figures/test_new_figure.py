"""The figure of examples/contributing, added by one line in the list of scripts, is made by its name and stands in the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from contributing import example

pytest.importorskip("matplotlib")
from figures import report, scripts, style
from figures.__main__ import main


def test_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("second_draft", monkeypatch)
    monkeypatch.setitem(scripts.MODULES, "second_draft", "acceptance.second_draft")
    monkeypatch.setattr(scripts, "NAMES", (*scripts.NAMES, "second_draft"))
    monkeypatch.setitem(report.BY_GROUP, "Theory", (*report.BY_GROUP["Theory"], "second_draft"))
    done = CliRunner().invoke(main, ["second draft", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    rows = style.read(tmp_path / "second_draft.csv")
    assert len(rows) == 80 and all(0 <= float(row["one"]) <= float(row["two"]) <= 1 for row in rows)
    assert module.ABOUT.claim in (tmp_path / "index.html").read_text()
    assert style.caption_of(tmp_path / "second_draft.svg").endswith("80 real pairs (figures/data).")
