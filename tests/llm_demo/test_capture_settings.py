"""Sampling settings of the captured pairs: temperature, top-k and top-p as decoders apply them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")
from llm_demo.data.capture_settings import KEPT, SETTINGS, law
from ot_draft.data import merge

LOGITS = np.log([0.1, 0.4, 0.2, 0.3])


def test_temperature_divides_logits() -> None:
    masses = np.array([0.1, 0.4, 0.2, 0.3])
    assert np.allclose(law(LOGITS, "temperature", 1.0), masses)
    assert np.allclose(law(LOGITS, "temperature", 0.5), masses**2 / (masses**2).sum())
    assert law(np.append(LOGITS, -np.inf), "temperature", 1.5)[-1] == 0


@pytest.mark.parametrize(("value", "kept"), [(1, [1]), (3, [1, 2, 3]), (9, [0, 1, 2, 3])])
def test_top_k_keeps_the_heaviest_tokens(value: int, kept: list[int]) -> None:
    masses = law(LOGITS, "top-k", value)
    assert np.flatnonzero(masses).tolist() == kept and masses.sum() == pytest.approx(1)


@pytest.mark.parametrize(("value", "kept"), [(0.39, [1]), (0.5, [1, 3]), (0.85, [1, 2, 3]), (1.0, [0, 1, 2, 3])])
def test_top_p_keeps_the_fewest_tokens_that_weigh_so_much(value: float, kept: list[int]) -> None:
    masses = law(LOGITS, "top-p", value)
    assert np.flatnonzero(masses).tolist() == kept and masses.sum() == pytest.approx(1)
    assert np.allclose(masses[kept] / masses[kept[0]], np.exp(LOGITS[kept] - LOGITS[kept[0]]))


def test_shrinking_keeps_the_mass_and_puts_no_truncated_token_into_the_tail() -> None:
    logits = np.random.default_rng(5).normal(scale=2, size=(2, 1000))
    for kind, value in SETTINGS:
        p, q = (law(row, kind, value) for row in logits)
        *merged, slots = merge.on_top_tokens(p, q, KEPT)
        assert (slots[KEPT:] == merge.TAIL).all() and len(set(slots[:KEPT])) == KEPT
        assert all(len(row) == KEPT + merge.TAIL_CLASSES and row.sum() == pytest.approx(1) for row in merged)
        if kind == "top-k" and value <= 50:
            assert not any(row[KEPT:].any() for row in merged)
        assert merge.optimum(*merged, 2) >= merge.optimum(p, q, 2) - 1e-9
