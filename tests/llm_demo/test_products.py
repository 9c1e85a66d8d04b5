"""The bench of products: every installed library computes the same ones, and what is said of its bits is so."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("torch")

from llm_demo.bench import products
from llm_demo.bench.backends import size_of

SMALL = products.Shapes(layers=2, width=64, keys=96, inner=128, n=192)


@pytest.mark.parametrize("name", products.LIBRARIES)
def test_they_are_those_of_the_codes(name: str) -> None:
    """To rounding with float rows, near it with rows of 8 bits or in bfloat16; not those of other weights."""
    library = products.LIBRARIES[name]
    if not library.installed:
        pytest.skip(f"needs {', '.join(library.needs)}")
    weights, other = (products.random_weights(SMALL, seed) for seed in (1, 2))
    row = np.random.default_rng(0).standard_normal((1, SMALL.width), np.float32)
    found = library.make(weights)(row)[0]
    assert found.shape == (SMALL.n,)
    distance = products.off(found, weights, row)
    rounded = "8-bit" in name or "bfloat16" in name
    if name == "OpenVINO, 8-bit rows":
        from llm_demo.backends.fast_graph import quantizes_activations

        rounded = quantizes_activations()
    assert distance < (0.1 if rounded else 1e-4) and (distance > 1e-4) == rounded
    assert products.off(found, other, row) > 0.5


def test_a_pass_reads_all_layers_of_the_model() -> None:
    """Of SmolLM2-135M: 30 layers of 3,538,944 weights and the head."""
    shapes = list(products.SMOLLM2_135M.all())
    assert sum(outputs * inputs for outputs, inputs in shapes) == 30 * 3_538_944 + 49_152 * 576
    assert all(before >= inputs for (before, _), (_, inputs) in pairwise(shapes))


def test_from_which_number_of_rows_on_bits_are_equal() -> None:
    one, other = np.array([1.0, 2.0], np.float32), np.array([1.0, np.nextafter(np.float32(2), 3)], np.float32)
    assert products.equal_from({1: one, 2: one, 4: one}) == 1
    assert products.equal_from({1: other, 2: one, 4: one}) == 2
    assert products.equal_from({1: one, 2: other, 4: one}) == 4


def test_one_process_measures_all_numbers_of_rows() -> None:
    found, equal, distance = products.measured("torch, float32 weights", 1, 2, SMALL)
    assert {f"ms_{rows}" for rows in products.ROWS} | {"made_s", "changed_ms"} <= set(found)
    assert all(len(found[f"ms_{rows}"]) == 2 for rows in products.ROWS) and len(found["changed_ms"]) == 2 * len(
        products.ROWS
    )
    assert equal in products.ROWS and distance < 1e-5


def test_packages_have_a_size() -> None:
    assert size_of(("numpy",)) > 1 and size_of(()) == 0
