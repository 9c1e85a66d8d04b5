"""The examples of check_sampler's documentation are run: transformers' rejection sampler, and one with fixed uniforms."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import ot_draft as otd
from ot_draft.verify.corners import corner_problems
from ot_draft.verify.sampler import check_sampler
from ot_draft.verify.sampler import samplers as sampler

SAMPLES = 500


def documented(name: str) -> Callable[..., Any]:
    """A function as it stands in the documentation."""
    blocks = inspect.getdoc(sampler) or ""
    code = "\n".join(line for line in blocks.splitlines() if line.startswith("    ") or not line.strip())
    parts = [part for part in dedent(code).split("print(") if f"def {name}(" in part]
    names: dict[str, Any] = {"otd": otd, "np": np}
    exec(parts[0][parts[0].find("import numpy") if "import numpy" in parts[0] else parts[0].find("def ") :], names)
    return names[name]


def some_corners(*names: str) -> list[otd.Problem]:
    corners = corner_problems(otd.IID(), k=1)
    return [corners[f"{name}, k = 1"] for name in names]


@pytest.fixture
def of_transformers() -> Any:
    """The sampler of the example; torch's global generator is put back."""
    pytest.importorskip("transformers", reason="transformers is not installed (extra 'llm')")
    torch = pytest.importorskip("torch")
    with torch.random.fork_rng(devices=[]):
        yield documented("transformers_sampler")


def test_speculative_sampling_of_transformers_has_the_targets_law(of_transformers: Any) -> None:
    problems = some_corners("plain", "zeros in p", "peaked draft")
    report = check_sampler(of_transformers, problems, samples=SAMPLES, seconds=None)
    report.raise_if_failed()
    assert report["output_distribution"].evidence.samples == SAMPLES and report["end_uniforms"].status == "skipped"


def test_it_emits_an_impossible_token_where_the_uniform_is_0(of_transformers: Any, monkeypatch: Any) -> None:
    """It accepts at u <= p/q. Found in transformers 5.23; where this fails, it has been mended: say so in the documentation."""
    import torch

    def at_the_ends(p: Any, q: Any, drafts: Any, generator: Any) -> Any:
        monkeypatch.setattr(torch, "rand_like", lambda x: torch.as_tensor(generator.random(tuple(x.shape))).to(x))
        return of_transformers(p, q, drafts, generator)

    report = check_sampler(at_the_ends, some_corners("disjoint supports", "one-hot p"), samples=250, seconds=None)
    assert [outcome.check for outcome in report.failures] == ["end_uniforms"]
    assert "of probability 0" in report["end_uniforms"].evidence.reason


def test_fixed_uniforms_are_rejected_at_the_first_look() -> None:
    report = check_sampler(documented("fixed_uniforms"), k=1)
    assert report["output_distribution"].status == "failed" and report["output_distribution"].evidence.samples == 250
