"""A target that does not fit one device: spread by accelerate, or split between processes, it decodes to the same tokens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from decode_in_parallel import decoded, generated, parallel_pair  # noqa: E402

from ot_draft.decoding.language_model import LanguageModel  # noqa: E402

HERE = Path(__file__).parent
PROCESSES = 2
# One layer and the head on the disk, brought in for each pass: what accelerate does with every layer that no device has room for.
PARTS = dict.fromkeys(("model.embed_tokens", "model.rotary_emb", "model.layers.0", "model.norm"), "cpu")
PARTS |= {"model.layers.1": "disk", "lm_head": "disk"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The saved target."""
    folder: Path = tmp_path_factory.mktemp("target")
    parallel_pair().target.save_pretrained(folder)
    return folder


def test_a_target_in_two_parts(directory: Path, tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    spread = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float64, device_map=PARTS, offload_folder=tmp_path
    )
    whole = parallel_pair()
    assert LanguageModel(spread, 32).info.sharded
    assert not LanguageModel(whole.target, 32).info.sharded
    assert decoded(spread, whole.draft) == decoded(whole.target, whole.draft)
    assert generated(spread, whole.draft, 5) == generated(whole.target, whole.draft, 5)


@pytest.mark.slow
def test_a_target_split_between_two_processes(directory: Path) -> None:
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("this torch has no gloo, by which processes on a CPU talk to each other")
    command = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={PROCESSES}"]
    run = subprocess.run(
        [sys.executable, *command, str(HERE / "decode_in_parallel.py"), str(directory)],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    made: list[dict[str, Any]] = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert len(made) == PROCESSES
    whole = parallel_pair()
    weights = whole.target.model.layers[0].self_attn.q_proj.weight.numel()
    for process in made:
        assert process["held"] == weights // PROCESSES
        assert process["spread"]
        assert process["decoded"] == decoded(whole.target, whole.draft)
        assert process["generated"] == generated(whole.target, whole.draft, 5)
        assert process["unseeded"] == made[0]["unseeded"]
