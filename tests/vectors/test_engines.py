"""Engines' own code, held to the vectors: it fails what the file of known failures says, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from slow import slow

pytest.importorskip("transformers")

from click.testing import CliRunner

from ot_draft.cli import main
from ot_draft.vectors.files import read

HERE = Path(__file__).parent


@pytest.mark.parametrize("levels", [("replay",), slow(("law", "joint"))], ids=["replay", "laws"])
def test_transformers_own_function(levels: tuple[str, ...], tmp_path: Path) -> None:
    known = HERE / "known_transformers.txt"
    words = [
        "vectors",
        "run",
        f"{HERE / 'engine_transformers.py'}:verify",
        "--rule",
        "transformers",
        "--known",
        str(known),
    ]
    for level in levels:
        words += ["--level", level]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output


def test_known_failures_are_of_two_places() -> None:
    places = {vector["id"]: vector["place"] for vector in read()["transformers"]}
    lines = (HERE / "known_transformers.txt").read_text().splitlines()
    known = [line.partition("#")[0].strip() for line in lines if not line.startswith("#")]
    assert {places[name] for name in known} == {"empty residual", "coin 0, draft with p = 0"}
    assert sorted(known) == sorted(
        name for name, place in places.items() if place in ("empty residual", "coin 0, draft with p = 0")
    )
