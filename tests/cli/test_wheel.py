"""`ot-draft decode` and `ot-draft capture` from an installed package alone: no clone on the path, two models in folders."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tiny_folders import save_tiny_pair  # noqa: E402

ROOT = Path(__file__).parents[2]
# Everything in one process: torch and transformers take seconds to load. Other folders of the clone are made impossible to import.
SCRIPT = """
import json, sys
from pathlib import Path
sys.modules |= dict.fromkeys(("llm_demo", "figures", "proofs_checks", "tests"))
import ot_draft
from click.testing import CliRunner
from ot_draft.cli import main
told = {"package": str(Path(ot_draft.__file__).parents[1])}
for name, words in json.loads(sys.argv[1]).items():
    done = CliRunner().invoke(main, words)
    loaded = sorted(each for each in sys.modules if each.startswith("ot_draft.decoding."))
    told[name] = {"status": done.exit_code, "output": done.stdout, "errors": done.stderr, "loaded": loaded}
print("TOLD" + json.dumps(told))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that pyproject.toml puts into the wheel: those of its packages that git does not ignore."""
    folder = tmp_path_factory.mktemp("installed")
    (package,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
        "packages"
    ]
    shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    return folder


@pytest.fixture(scope="module")
def told(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Exit status and output of every command."""
    work = tmp_path_factory.mktemp("work")
    models = save_tiny_pair(work)
    (work / "text.txt").write_text("a b c d e f g h i j k l a c e g i k")
    decode = ["decode", *models, "--prompt", "a b c", "--max-tokens", "6"]
    commands = {
        "live": decode,
        "page": [*decode, "--out", "page.html", "--trace", "trace", "--rule", "KSeq"],
        "compare": [*decode, "--compare", "json", "--rule", "KSeq"],
        "capture": ["capture", *models, "--text", "text.txt", "--out", "captured"],
        "no models": ["decode", "--prompt", "a"],
        "no backend": [*decode, "--backend", "openvino"],
        "no draft": ["capture", *models[:2], "--text", "text.txt", "--out", "other"],
    }
    environment = {
        "PATH": "",
        "PYTHONPATH": str(installed),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "HOME": str(work),
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, json.dumps(commands)],
        cwd=work, env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.rpartition("TOLD")[2])
    assert told.pop("package") == str(installed)
    return told, work


@pytest.mark.parametrize("name", ["live", "page", "compare", "capture"])
def test_a_command_runs(told: Any, name: str) -> None:
    found = told[0][name]
    assert found["status"] == 0, found


def test_one_text_is_decoded_without_the_benchmark(told: Any) -> None:
    """What times methods is loaded for a comparison alone. The modules are those after the first command."""
    loaded = told[0]["live"]["loaded"]
    assert "ot_draft.decoding.loop" in loaded and not [each for each in loaded if "benchmark" in each]
    assert [each for each in told[0]["compare"]["loaded"] if "benchmark" in each]


def test_what_the_commands_make(told: Any) -> None:
    commands, work = told
    assert len(commands["live"]["output"].split()) == 6
    assert "<title>" in (work / "page.html").read_text() and (work / "trace" / "pairs-00000.npz").is_file()
    rows = json.loads(commands["compare"]["output"])["methods"]
    assert [row["rule"] for row in rows] == ["autoregressive", "kseq"] and rows[1]["predicted"] > 0
    assert list((work / "captured").glob("window-*.npz"))


@pytest.mark.parametrize("name", ["no models", "no draft"])
def test_without_the_embedded_pair_both_models_are_asked_for(told: Any, name: str) -> None:
    found = told[0][name]
    assert (
        found["status"] == 2
        and "--target and --draft are required" in found["errors"]
        and "Traceback" not in found["errors"]
    )


def test_without_the_clone_its_backends_are_named(told: Any) -> None:
    found = told[0]["no backend"]
    assert found["status"] == 2 and "Traceback" not in found["errors"]
    assert "backend must be one of auto, torch, got 'openvino'" in found["errors"]
    assert "come with a clone of the repository" in found["errors"]
