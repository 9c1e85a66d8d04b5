"""vLLM's OpenAI server on the CPU, audited over HTTP: plain, drafting, with the plugin, and with a plugin that has an error in it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from engine_cases import environment, speculative
from servers import audited, vllm_server

TOKENS = 8_000
ASKED = [
    "--model",
    "tiny",
    "--tokens",
    str(TOKENS),
    "--length",
    "16",
    "--concurrency",
    "48",
    "--top-logprobs",
    "8",
    "--ignore-eos",
]


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("prompts") / "prompts.txt"
    file.write_text("\n".join(json.dumps([i, (3 * i + 1) % 7, (i * i) % 7, 6 - i]) for i in range(7)) + "\n")
    return file


def plugin_for_tests(folder: Path) -> str:
    """A folder on whose path vLLM finds entry_for_tests.py as one of its plugins."""
    (folder / "entry_for_tests-0.dist-info").mkdir()
    (folder / "entry_for_tests-0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: entry-for-tests\nVersion: 0\n"
    )
    (folder / "entry_for_tests-0.dist-info" / "entry_points.txt").write_text(
        "[vllm.general_plugins]\nentry_for_tests = entry_for_tests:plugin\n"
    )
    return str(folder)


@pytest.mark.parametrize("case", ["plain", "own sampler", "BlockVerification"])
def test_no_bias_is_found(case: str, pair: tuple[Path, Path], prompts: Path, tmp_path: Path) -> None:
    """The own sampler with the CPU build's defects mended; without, see below."""
    drafts = None if case == "plain" else speculative("probabilistic", pair[1])
    more = {"PLANTED_FOR_TESTS": "patch"} if case == "own sampler" else {}
    if case not in ("plain", "own sampler"):
        more = {"OT_DRAFT_VLLM": case}
    status, found, said = _audit(pair, prompts, tmp_path, drafts, more)
    assert status == 0, said
    assert found["status"] == "passed"
    if "OT_DRAFT_VLLM" in more:
        status, said = of_its_log(tmp_path)
        assert status == 0, said


@pytest.mark.parametrize("case", ["SpeculativeSampling, residual is p"])
def test_a_planted_error_is_found(case: str, pair: tuple[Path, Path], prompts: Path, tmp_path: Path) -> None:
    rule, error = case.split(", ")
    more = {"OT_DRAFT_VLLM": rule, "PLANTED_FOR_TESTS": error}
    status, found, said = _audit(pair, prompts, tmp_path, speculative("probabilistic", pair[1]), more)
    assert status == 1, said
    assert found["status"] == "failed"
    status, said = of_its_log(tmp_path)
    assert status == 1, said


def test_the_own_sampler_as_it_is_on_a_cpu_is_found(pair: tuple[Path, Path], prompts: Path, tmp_path: Path) -> None:
    """Its drafts are tested at temperatures from memory that nobody wrote; see ot_draft/integrations/vllm_patches.py."""
    status, found, said = _audit(pair, prompts, tmp_path, speculative("probabilistic", pair[1]), {})
    assert status == 1, said
    assert found["status"] == "failed"


def of_its_log(folder: Path) -> tuple[int, str]:
    """Exit status and what is printed by the audit of the log that the plugin wrote inside the server."""
    (log,) = (folder / "logs").iterdir()
    assert len(log.read_text().splitlines()) > 1_000
    command = [sys.executable, "-m", "ot_draft", "audit", str(log)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def _audit(pair: tuple[Path, Path], prompts: Path, folder: Path, drafts: Any, more: dict[str, str]) -> Any:
    logs = {"OT_DRAFT_AUDIT_LOG": str(folder / "logs")}
    with vllm_server(pair[0], drafts, folder, PLUGIN_FOR_TESTS=plugin_for_tests(folder), **more, **logs) as url:
        if rule := more.get("OT_DRAFT_VLLM"):
            assert f"ot_draft: {rule}" in (folder / "server.txt").read_text(), "the plugin did not load"
        return audited(url, folder, *ASKED, "--prompts", str(prompts))
