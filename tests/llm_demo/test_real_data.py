"""The committed real pairs are well formed, and the real models still give them."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ot_draft.data import merge

DATA = Path(__file__).parents[2] / "figures" / "data"
# float32 sums in another order move a mass: by 1e-5 at most, measured on 8 texts, between one pass over the text and
# token by token through the cache. Ten times that allows for another processor; a wrong model, position or temperature
# moves masses by far more.
SAME_MODEL = 1e-4
LEAST = 320  # contexts


KINDS = {
    "smollm2": ["code", "dialogue", "lists", "prose"],
    "qwen": ["chat", "code", "documentation", "editing"],
}


def stored_pairs(models: str) -> dict[str, Any]:
    with np.load(DATA / f"{models}_pairs.npz", allow_pickle=False) as stored:
        return dict(stored)


@pytest.fixture(scope="module", params=list(KINDS))
def pairs(request: pytest.FixtureRequest) -> dict[str, Any]:
    return stored_pairs(request.param)


@pytest.mark.parametrize("models", list(KINDS))
def test_there_are_enough_contexts_of_four_kinds_at_both_temperatures(models: str) -> None:
    pairs = stored_pairs(models)
    kinds, numbers = np.unique(pairs["kind"], return_counts=True)
    assert kinds.tolist() == KINDS[models]
    assert numbers.min() >= 0.6 * numbers.max() and numbers.sum() >= LEAST
    assert pairs["temperatures"].tolist() == [1.0, 0.6]
    assert pairs["p"].shape == pairs["q"].shape == (2, numbers.sum(), pairs["tokens"].shape[1])


@pytest.mark.parametrize("name", ["p", "q"])
def test_masses_are_laws_to_the_last_digit(pairs: dict[str, Any], name: str) -> None:
    masses = pairs[name]
    assert masses.dtype == np.float64
    assert masses.min() >= 0 and (masses.sum(-1) == 1).all() and (masses[..., ::-1].sum(-1) == 1).all()
    assert (masses * 2.0**50 % 1 == 0).all()
    assert sum(map(Fraction, masses[0, 0].tolist())) == 1


def test_the_last_slots_are_tail_classes_and_the_others_different_tokens(pairs: dict[str, Any]) -> None:
    tokens = pairs["tokens"]
    kept = tokens[:, : -merge.TAIL_CLASSES]
    assert (tokens[:, -merge.TAIL_CLASSES :] == merge.TAIL).all() and kept.min() >= 0 and kept.max() < 151_936
    assert all(len(set(row)) == len(row) for row in kept.tolist())


def test_merging_never_lowers_the_optimum(pairs: dict[str, Any]) -> None:
    """Upper bound on the whole vocabulary, and a close one: a single tail class would be 2e-2 off at temperature 1."""
    for column, k in enumerate(pairs["drafts"].tolist()):
        excess = merge.optimum(pairs["p"], pairs["q"], k) - pairs["full_optimum"][..., column]
        assert excess.min() >= -1e-12  # masses are rounded down to multiples of 2^-50
        assert excess.mean() < 1e-3


def test_merging_keeps_tokens_and_cuts_the_rest_by_ratio() -> None:
    p, q = np.array([0.5, 0.125, 0.25, 0.125, 0.0]), np.array([0.25, 0.25, 0.125, 0.125, 0.25])
    tokens = merge.top_tokens(p, q, 1)
    merged = merge.merge(p, q, tokens, 2)
    assert tokens.tolist() == [0]
    assert [law.tolist() for law in merged] == [[0.5, 0.125, 0.375], [0.25, 0.5, 0.25]]  # {4, 1} and {3, 2}


@pytest.mark.slow
def test_the_real_models_give_the_stored_rows() -> None:
    pairs = stored_pairs("smollm2")
    for package in ("torch", "safetensors"):
        pytest.importorskip(package)
    from llm_demo.data import capture
    from llm_demo.models import load

    if missing := load.missing_packages():
        pytest.skip(f"the real models need {', '.join(missing)}")
    entry = json.loads((DATA / "contexts.jsonl").read_text(encoding="utf-8").splitlines()[0])
    contexts = capture.capture_text(entry, 0, capture.load_models(), kept=pairs["tokens"].shape[1] - merge.TAIL_CLASSES)
    assert len(contexts) == 2
    for index, context in enumerate(contexts):
        assert context.position == pairs["position"][index]
        np.testing.assert_allclose(context.full_optimum, pairs["full_optimum"][:, index], atol=SAME_MODEL)
        kept = context.tokens != merge.TAIL
        assert len(set(context.tokens[kept].tolist()) & set(pairs["tokens"][index].tolist())) > 0.98 * kept.sum()
        for name in ("p", "q"):  # by token: where masses nearly tie, rounding decides on which slot a token stands
            again = dict(zip(context.tokens[kept].tolist(), getattr(context, name).T[kept], strict=True))
            for token, masses in zip(pairs["tokens"][index].tolist(), pairs[name][:, index].T, strict=True):
                # A token missing on the new run was as light as the lightest kept, and is in the tail.
                np.testing.assert_allclose(again.get(token, masses), masses, atol=SAME_MODEL)
