"""`ot-draft conform` on vLLM's engine: its own sampler and the plugin's rules keep every row; planted errors and real bugs are found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from engine_cases import HERE, RULES
from mutants.plugin import PLANTED

from ot_draft.verify.engine import suite
from ot_draft.verify.engine.kinds import KINDS, PLAIN
from ot_draft.verify.outcome import Status

DRAFTS = {
    "probabilistic": {},
    "ngram": {"drafts": "ngram"},
    "greedy": {
        "drafts": "greedy",
        "pieces": "100",
    },  # tokens a step: long prompts are read in pieces while others are drafted for
    "none": {"drafts": "none"},  # the yardstick itself, and min-p, which vLLM has only here
}
ERRORS = [f"{rule}, {error}" for rule in RULES for error in PLANTED]
BUGS = {  # by the name in planted_vllm, the rows of which one at least must be wrong
    "vLLM 54282: draft noise used again": {PLAIN},
    "SGLang 37134: verified as greedy": {PLAIN},
    "TensorRT-LLM 19487: one stream for all": {"requests are independent"},
    "SGLang 10617: penalties ignored": {"repetition penalty", "presence, frequency"},
    "llama.cpp 27972: log-probability 0": {"log-probabilities"},
    "vLLM 34497: log-probabilities of another row": {"log-probabilities"},
    "TensorRT-LLM 15098: wrong slice of logits": {PLAIN},
    "1Cat-vLLM 656: more than two requests": {"one to five at a time", "greedy", "temperature", "repeating prompt"},
    "openvino.genai 4190: one round late": {PLAIN},
    "transformers 47932: drafts not from the reported q": {PLAIN},
    "accepted at 1.15 p/q": {PLAIN},
    "replaced from p": {PLAIN},
    "apply not mended": {"min tokens"},
    "validate_tokens not mended": {"grammar"},
    "expand_batch_to_tokens not mended": {PLAIN, "temperature"},
}


def started(options: dict[str, str], folder: Path, requests: int) -> suite.EngineTrial:
    trial = suite.EngineTrial(
        str(HERE / "planted_vllm.py"), options, folder / "8", 8, requests, 1e-6, 3000.0, np.random.default_rng(0)
    )
    trial.start()
    return trial


@pytest.fixture(scope="module", params=DRAFTS)
def trial(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[suite.EngineTrial]:
    trial = started(DRAFTS[request.param], tmp_path_factory.mktemp(request.param), 4000)
    yield trial
    trial.close()


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[suite.EngineTrial]:
    trial = started({}, tmp_path_factory.mktemp("drawn"), 8000)
    yield trial
    trial.close()


@pytest.mark.parametrize("sampler", ["own", *RULES])
def test_a_right_sampler_keeps_every_row(sampler: str, trial: suite.EngineTrial) -> None:
    if trial.options.get("drafts") == "none" and sampler != "own":
        pytest.skip("without drafts the plugin has nothing to do")
    trial.engine.call("plant", sampler)  # type: ignore[union-attr]
    verdicts = {row.check: (row.status, row.evidence.reason) for row in trial.rows()}
    assert {name: said for name, said in verdicts.items() if said[0] not in (Status.PASSED, Status.SKIPPED)} == {}
    assert sum(verdict == Status.PASSED for verdict, _ in verdicts.values()) > 15


@pytest.mark.parametrize("name", [*ERRORS, *(f"own, {bug}" for bug in BUGS)])
def test_errors_and_real_bugs_are_found(name: str, drawn: suite.EngineTrial, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of the engine's own that is not found any more may have been mended there: then the plugin's mend can go."""
    rows = BUGS.get(name.partition(", ")[2], {PLAIN})
    monkeypatch.setattr(suite, "kinds_for", lambda n: {kind: KINDS[kind] for kind in {PLAIN, *rows} & KINDS.keys()})
    drawn.engine.call("plant", name)  # type: ignore[union-attr]
    wrong = {row.check.rpartition(",")[0] for row in drawn.rows() if row.status == Status.FAILED}
    drawn.engine.call("plant", "own")  # type: ignore[union-attr]
    assert wrong & rows
