"""Engines' own code on the vectors: it fails the vectors of the file of known failures, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from slow import slow

pytest.importorskip("transformers")

from click.testing import CliRunner

from ot_draft.cli import main
from ot_draft.verify.vectors.files import read

HERE = Path(__file__).parent


@pytest.mark.parametrize("levels", [("replay",), slow(("distribution", "joint"))], ids=["replay", "distributions"])
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


@pytest.mark.parametrize(("engine", "module", "rules"), [
    ("vllm", "vllm.v1.sample.rejection_sampler", ["vllm-v1", "vllm-v1-chosen"]),
    ("sglang", "sglang.kernels.ops.speculative.reject_sampling", ["sglang-chain"]),
])  # fmt: skip
def test_kernels_in_the_interpreter(engine: str, module: str, rules: list[str]) -> None:
    pytest.importorskip("triton")
    pytest.importorskip(module)
    if engine == "vllm" and not pytest.importorskip("vllm.triton_utils").HAS_TRITON:
        pytest.skip("this build of vLLM turns Triton off, and its kernels with it")
    words = ["vectors", "run", f"{HERE / f'engine_{engine}.py'}:verify", "--level", "replay"]
    words += ["--known", str(HERE / f"known_{engine}.txt"), *(word for rule in rules for word in ("--rule", rule))]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(("engine", "rules"), [("vllm", ["vllm-v1", "vllm-v1-chosen"]), ("sglang", ["sglang-chain"])])
def test_known_failures_are_replays_of_their_rules(engine: str, rules: list[str]) -> None:
    lines = (HERE / f"known_{engine}.txt").read_text().splitlines()
    known = {line.partition("#")[0].strip() for line in lines} - {""}
    assert known <= {vector["id"] for rule in rules for vector in read()[rule] if vector["level"] == "replay"}


def test_known_failures_are_of_two_categories() -> None:
    categories = {vector["id"]: vector["category"] for vector in read()["transformers"]}
    lines = (HERE / "known_transformers.txt").read_text().splitlines()
    known = [line.partition("#")[0].strip() for line in lines if not line.startswith("#")]
    assert {categories[name] for name in known} == {"empty residual", "uniform = 0, draft token with p = 0"}
    assert sorted(known) == sorted(
        name
        for name, category in categories.items()
        if category in ("empty residual", "uniform = 0, draft token with p = 0")
    )
