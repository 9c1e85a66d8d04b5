"""The plugins' log for `ot-draft audit`, on the engines' tensor shapes: right samplers pass, planted errors are found by what it has."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ot_draft_sglang as sglang  # noqa: E402
from host_models import Tables  # noqa: E402
from mutants.plugin import PLANTED, planted  # noqa: E402
from slow import slow_except  # noqa: E402
from test_integrations_sglang import NODES, SLOTS, TREES, on_chains, on_trees  # noqa: E402
from vllm_calls import LENGTH, Batch, N, run_v1, run_v2  # noqa: E402

import ot_draft as otd  # noqa: E402
from ot_draft import errors  # noqa: E402
from ot_draft.integrations import host, vllm, vllm_runner_v2  # noqa: E402
from ot_draft.integrations.chains import CHAIN_RULES  # noqa: E402
from ot_draft.verify.server import read_log  # noqa: E402

ROWS, STEPS = 200, 7
RULE = CHAIN_RULES["BlockVerification"]
NOT_IN_THE_LOG = "last token is the last draft"
IN_THE_LOG = [error for error in PLANTED if error != NOT_IN_THE_LOG]
LONGER = {"every uniform used twice": 70}  # steps, 16,568 tokens; not after 28
Run = Callable[[Any, np.random.Generator, bool], Any]


def on_vllm(module: Any, call: Any, log: Any, generator: np.random.Generator, wrong: bool, **options: Any) -> Any:
    """One step of 200 requests; wrong: the sampler is told of drafts at another temperature."""
    target, draft = (Tables.random(N, LENGTH, np.random.default_rng(seed)) for seed in (4, 5))
    batch = Batch.random(target, draft, ROWS, generator, **options)
    if wrong:
        batch.q = batch.q**3 / (batch.q**3).sum(-1, keepdims=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "rejection_sample", partial(module.rejection_sample, log=log))
        return call(batch, RULE, given=options.get("chance", True))


def on_sglang_chains(log: Any, generator: np.random.Generator, wrong: bool) -> Any:
    def call(**inputs: Any) -> None:
        q = inputs["draft_probs"] ** (3 if wrong else 1)
        sglang.along_chain(**inputs | {"draft_probs": q / q.sum(-1, keepdim=True), "log": log})

    target, draft = (Tables.random(N, SLOTS, np.random.default_rng(seed)) for seed in (4, 5))
    return on_chains(RULE, target, draft, ROWS, generator, call)


def on_sglang_trees(log: Any, generator: np.random.Generator, wrong: bool) -> Any:
    """wrong: coins that are too small."""
    target = Tables.random(N, SLOTS, np.random.default_rng(4))
    coins = torch.tensor(generator.random((ROWS, NODES)) ** (1.5 if wrong else 1.0), dtype=torch.float32)
    return on_trees(list(TREES), target, ROWS, coins, partial(sglang.along_tree, log=log))


HOSTS: dict[str, Run] = {
    "vllm": partial(on_vllm, vllm, run_v1),
    "vllm argmax": partial(on_vllm, vllm, run_v1, chance=False),
    "vllm v2": partial(on_vllm, vllm_runner_v2, run_v2),
    "sglang chains": on_sglang_chains,
    "sglang trees": on_sglang_trees,
}


def audited(run: Run, folder: Path, wrong: bool, steps: int = STEPS) -> tuple[otd.Audit, int]:
    """The audit of a log of some steps, and how many tokens they emitted in all."""
    generator, audit, emitted = np.random.default_rng(7), otd.Audit(), 0
    torch.manual_seed(7)
    with closing(host.StepLog(folder, "host")) as log:
        for _ in range(steps):
            emitted += int((np.asarray(run(log, generator, wrong)) >= 0).sum())
    (file,) = folder.iterdir()
    for token in read_log(file, audit.leave_out):
        audit.add(token)
    return audit, emitted


@pytest.mark.parametrize("name", HOSTS)
def test_right_samplers_pass(name: str, tmp_path: Path) -> None:
    audit, emitted = audited(HOSTS[name], tmp_path, wrong=False)
    assert not audit.biased
    if name.startswith("vllm") and "v2" not in name:  # the bonus tokens are drawn elsewhere
        assert ROWS * STEPS / 2 < audit.tokens < emitted
    else:
        assert audit.tokens == emitted


@pytest.mark.parametrize("name", [name for name in HOSTS if "argmax" not in name])
def test_wrong_samplers_are_found(name: str, tmp_path: Path) -> None:
    assert audited(HOSTS[name], tmp_path, wrong=True)[0].biased


@pytest.mark.parametrize("error", slow_except(IN_THE_LOG, "residual is p", "residual of the next row"))
def test_errors_in_the_plugin_are_found(error: str, tmp_path: Path) -> None:
    with planted(error):
        assert audited(HOSTS["vllm"], tmp_path, wrong=False, steps=LONGER.get(error, STEPS))[0].biased


def test_the_first_runner_logs_no_token_after_a_whole_path(tmp_path: Path) -> None:
    """The runner draws it before it calls the plugin and passes no law for it: an error there is not for this log to find."""
    with planted(NOT_IN_THE_LOG):
        audit, emitted = audited(HOSTS["vllm"], tmp_path, wrong=False)
    assert not audit.biased and audit.tokens < emitted


def test_greedy_requests_have_sure_laws(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    target, draft = (Tables.random(N, LENGTH, generator) for _ in range(2))
    batch, hot = Batch.random(target, draft, 20, generator), np.arange(20) % 2
    for module, call in ((vllm, run_v1), (vllm_runner_v2, run_v2)):
        with closing(host.StepLog(tmp_path, module.__name__)) as log, pytest.MonkeyPatch.context() as patched:
            patched.setattr(module, "rejection_sample", partial(module.rejection_sample, log=log))
            call(batch, RULE, temperature=hot.astype(float))
    for file in tmp_path.iterdir():
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        cold = [line["own"] for line in lines if int(line["request"].split(".")[1]) % 2 == 0]
        assert cold and set(cold) == {1.0}
        assert len(cold) < len(lines)


def test_a_log_is_asked_for_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(host.LOG_VARIABLE, raising=False)
    assert host.step_log("vllm") is None
    folder = tmp_path / "deep" / "logs"
    monkeypatch.setenv(host.LOG_VARIABLE, str(folder))
    row, law = torch.tensor([0]), torch.tensor([[0.5, 0.5]])
    for _ in range(2):  # a process with the number of an earlier one
        log = host.step_log("vllm")
        assert log is not None
        with closing(log):
            log.add(row, row, row, law, None)
    assert len(list(folder.iterdir())) == 2
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(host.LOG_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(errors.UnsupportedHost, match="must be a folder"):
        host.step_log("vllm")


def test_a_log_has_an_end(tmp_path: Path) -> None:
    tokens, laws = torch.tensor([[0, 1]]), torch.tensor([[[0.5, 0.5]] * 2])
    with closing(host.StepLog(tmp_path, "vllm", max_tokens=3)) as log:
        for _ in range(5):
            log.add_padded(tokens, laws, laws[:, :1])
    (file,) = tmp_path.iterdir()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["step_offset"] for line in lines] == [0, 1, 0, 1]
    assert ["draft_probs" in line for line in lines] == [True, False, True, False]
