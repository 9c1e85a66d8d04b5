"""vLLM's engine with a model drafting by chance: the law of the first tokens, with its own sampler and with the plugin's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engine_cases import DEFECTS, ERRORS, RULES, SAMPLERS, run_engine, runs, speculative
from requests_and_laws import FALSE_ALARM, KINDS, laws, p_value

DRAFTS = "probabilistic"


@pytest.fixture(scope="module")
def law(pair: tuple[Path, Path]) -> dict[str, Any]:
    return laws(pair[0], KINDS)


@pytest.fixture(scope="module")
def answer(pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    job = {"target": str(pair[0]), "speculative": speculative(DRAFTS, pair[1]), "runs": runs(DRAFTS)}
    return run_engine(job, tmp_path_factory.mktemp(DRAFTS))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_law_in_mixed_batches(sampler: str, kind: str, answer: dict[str, Any], law: dict[str, Any]) -> None:
    assert p_value(law[kind], answer["texts"][sampler][kind]) > FALSE_ALARM


@pytest.mark.parametrize("rule", RULES)
def test_drafts_are_accepted_about_as_often_as_by_the_engine_itself(rule: str, answer: dict[str, Any]) -> None:
    own, ours = (answer["counters"][name]["spec_decode_num_accepted_tokens"] for name in ("own", rule))
    drafted = [answer["counters"][name]["spec_decode_num_draft_tokens"] for name in ("own", rule)]
    assert min(drafted) > 8_000
    assert ours / drafted[1] > own / drafted[0] - 0.02  # more than four standard deviations of either


@pytest.mark.parametrize("name", ERRORS)
def test_planted_errors_are_found(name: str, answer: dict[str, Any], law: dict[str, Any]) -> None:
    assert p_value(law["sampled"], answer["texts"][name]["sampled"]) < FALSE_ALARM


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_of_the_engine_are_as_the_documentation_has_them(
    name: str, answer: dict[str, Any], law: dict[str, Any]
) -> None:
    """If this fails, vLLM may have mended it: then the plugin's mend can go."""
    texts = answer["texts"][name]
    if isinstance(texts, str):  # the engine could not go on
        assert texts
    else:
        assert min(p_value(law[kind], found) for kind, found in texts.items()) < FALSE_ALARM


def test_min_p_beside_drafts_is_refused_by_the_engine(answer: dict[str, Any]) -> None:
    assert "min_p" in answer["min-p"]
