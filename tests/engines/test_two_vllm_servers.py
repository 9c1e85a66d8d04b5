"""`ot-draft audit servers` on real servers of vLLM: drafting beside plain, right and with an error planted in the drafting one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_cases import speculative
from servers import audited, changed, vllm_server
from test_vllm_server import plugin_for_tests

SETTINGS = "plain,temperature 0.6,top-k 5,presence penalty 1,seeds,two answers"


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("prompts") / "prompts.txt"
    file.write_text("\n".join(json.dumps([i, (3 * i + 1) % 7, (i * i) % 7, 6 - i]) for i in range(7)) + "\n")
    return file


@pytest.fixture(scope="module")
def plain(pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with vllm_server(pair[0], None, tmp_path_factory.mktemp("plain")) as url:
        yield url


def compared(
    pair: Any, plain: str, prompts: Path, folder: Path, drafts: str, more: dict[str, str], *options: str
) -> Any:
    with vllm_server(
        pair[0], speculative(drafts, pair[1]), folder, PLUGIN_FOR_TESTS=plugin_for_tests(folder), **more
    ) as url:
        asked = ("--model", "tiny", "--prompts", str(prompts), "--timeout", "300", *options)
        return audited("servers", folder, url, plain, *asked)


@pytest.mark.parametrize("drafts", ["probabilistic", "ngram"])
@pytest.mark.parametrize("rule", ["own sampler", "BlockVerification"])
def test_right_servers_agree(rule: str, drafts: str, pair: Any, plain: str, prompts: Path, tmp_path: Path) -> None:
    more = {"PLANTED_FOR_TESTS": "patch"} if rule == "own sampler" else {"OT_DRAFT_VLLM": rule}
    options = ("--tokens", "4000", "--settings", SETTINGS)
    status, found, said = compared(pair, plain, prompts, tmp_path, drafts, more, *options)
    assert status == 0, said
    assert "token ids" in said
    assert not found["unreadable"]
    assert not found["skipped"]


@pytest.mark.parametrize("error", ["residual is p", "odds x 2", "q cubed"])
def test_a_planted_error_is_found(error: str, pair: Any, plain: str, prompts: Path, tmp_path: Path) -> None:
    more = {"OT_DRAFT_VLLM": "SpeculativeSampling", "PLANTED_FOR_TESTS": error}
    status, found, said = compared(pair, plain, prompts, tmp_path, "probabilistic", more, "--tokens", "30000")
    assert status == 1, said
    assert found["decided_at"] < 30_000


def test_the_cpu_build_as_it_is_differs(pair: Any, plain: str, prompts: Path, tmp_path: Path) -> None:
    status, _, said = compared(pair, plain, prompts, tmp_path, "probabilistic", {}, "--tokens", "10000")
    assert status == 1, said


def hotter(fields: dict[str, Any]) -> dict[str, Any]:
    return fields | ({"temperature": 0.8} if fields.get("temperature") == 1 else {})


def test_another_temperature_is_found(plain: str, prompts: Path, tmp_path: Path) -> None:
    """The same server behind a proxy."""
    with changed(plain, hotter) as url:
        asked = ("--model", "tiny", "--engine", "vllm", "--prompts", str(prompts), "--tokens", "20000")
        status, _, said = audited("servers", tmp_path, url, plain, *asked)
    assert status == 1, said
