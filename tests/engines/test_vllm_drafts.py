"""vLLM's engine with drafts chosen without chance, by n-gram lookup and by argmax, and without drafts: the law of the first tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engine_cases import EACH, PIECES, SAMPLERS, run_engine, runs, speculative
from requests_and_laws import FALSE_ALARM, KINDS, MIN_P, laws, p_value


@pytest.fixture(scope="module")
def law(pair: tuple[Path, Path]) -> dict[str, Any]:
    return laws(pair[0], KINDS | MIN_P)


@pytest.fixture(scope="module", params=["ngram", "greedy"])
def answer(request: pytest.FixtureRequest, pair: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """greedy: few tokens a step, so that long prompts are read in pieces while others are drafted for."""
    job = {"target": str(pair[0]), "speculative": speculative(request.param, pair[1]), "runs": runs(request.param)}
    if request.param == "greedy":
        job["batched_tokens"] = PIECES
    return run_engine(job, tmp_path_factory.mktemp(request.param))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_law_in_mixed_batches(sampler: str, answer: dict[str, Any], law: dict[str, Any]) -> None:
    texts = answer["texts"][sampler]
    assert set(texts) == set(KINDS)
    assert {kind: p for kind, found in texts.items() if (p := p_value(law[kind], found)) <= FALSE_ALARM} == {}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_drafts_were_accepted(sampler: str, answer: dict[str, Any]) -> None:
    assert answer["counters"][sampler]["spec_decode_num_accepted_tokens"] > 500


def test_the_laws_are_those_of_the_engine_without_drafts(
    pair: Any, law: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The yardstick itself, and min-p, which vLLM has only here."""
    job = {"target": str(pair[0]), "speculative": None, "runs": [("own", list(KINDS | MIN_P), EACH)]}
    texts = run_engine(job, tmp_path_factory.mktemp("plain"))["texts"]["own"]
    assert {kind: p for kind, found in texts.items() if (p := p_value(law[kind], found)) <= FALSE_ALARM} == {}
