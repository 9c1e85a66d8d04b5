"""The page of published numbers says what the data say, and every published number has its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("matplotlib")
from figures import about, published, published_lines, published_real


def test_the_page_is_what_the_data_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = CliRunner().invoke(published.main, ["--check"])
    assert run.exit_code == 0, run.output
    changed = tmp_path / "published.md"
    right = published.PAGE.read_text()
    monkeypatch.setattr(published, "PAGE", changed)
    for wrong, other in (("11/9 | 11/9", "11/9 | 12/9"), ("1.21 SmolLM2", "1.27 SmolLM2"), (" 1.67 |", " 1.76 |")):
        changed.write_text(right.replace(wrong.removeprefix("| "), other.removeprefix("| ")))
        assert changed.read_text() != right
        assert CliRunner().invoke(published.main, ["--check"]).exit_code != 0
    assert CliRunner().invoke(published.main, []).exit_code == 0 and changed.read_text() == right
    changed.write_text(right.replace("## GLS", "## Gumbel"))
    refused = CliRunner().invoke(published.main, [])
    assert refused.exit_code != 0 and "GLS" in refused.output


def test_every_line_has_a_place_and_says_what_is_missing() -> None:
    lines = [*published_real.spectr(), *published_real.multi_candidate()]
    lines += [line for _, of in published_lines.others() for line in of]
    assert lines
    for line in lines:
        assert line.where and line.what
        assert line.published or line.ours or line.cells()[2] == about.NONE
        assert line.ours or line.published is None or line.remark  # why there is nothing to set beside it
