"""The gallery's pictures are those of its code, which runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from figures import gallery

NUMBER = re.compile(r"-?\d+\.\d+")


def test_every_picture_is_what_its_code_draws(tmp_path: Path) -> None:
    made = gallery.draw(tmp_path)
    committed = sorted((gallery.DOCS / "gallery").iterdir())
    assert made and sorted(file.name for file in made) == [file.name for file in committed]
    for file in made:
        ours, theirs = file.read_text(), (gallery.DOCS / "gallery" / file.name).read_text()
        if re.findall("Matplotlib v[0-9.]+", ours) != re.findall("Matplotlib v[0-9.]+", theirs):
            continue  # another version draws in another way
        assert re.findall(r"<text[^>]*>([^<]*)<", ours) == re.findall(r"<text[^>]*>([^<]*)<", theirs), file.name
        drawn, kept = ([float(x) for x in NUMBER.findall(text)] for text in (ours, theirs))
        assert len(drawn) == len(kept) and np.allclose(drawn, kept, atol=0.5), file.name  # points of a picture
    assert sum(file.stat().st_size for file in committed) < 1_000_000
