"""examples/tiny.py says what the library says, and its judge finds a wrong rule."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import ot_draft as otd

FILE = Path(__file__).parents[1] / "examples" / "tiny.py"


@pytest.fixture(scope="module")
def tiny() -> Any:
    spec = importlib.util.spec_from_file_location("tiny", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_says_what_the_library_says(tiny: Any) -> None:
    problem = otd.Problem(tiny.p, tiny.q, tiny.k, otd.IID())
    assert tiny.optimum() == otd.optimal_acceptance(tiny.p, tiny.q, tiny.k, otd.IID()) == Fraction(29, 36)
    law, kept = tiny.judge(tiny.recursive_rejection)
    assert (law == tiny.p).all() and kept == otd.evaluate(otd.rules.RecursiveRejection(), problem).acceptance
    law, kept = tiny.judge(tiny.k_seq)
    assert (law == tiny.p).all() and kept == pytest.approx(float(otd.evaluate(otd.rules.KSeq(), problem).acceptance))


def test_its_judge_finds_a_wrong_rule(tiny: Any) -> None:
    def residual_is_p(drafts: Any) -> Any:
        law, alive = 0 * tiny.p, Fraction(1)
        for x in drafts:
            taken = min(Fraction(1), tiny.p[x] / tiny.q[x])
            law[x] += alive * taken
            alive *= 1 - taken
        return law + alive * tiny.p

    law, _ = tiny.judge(residual_is_p)
    assert law.sum() == 1 and not (law == tiny.p).all()


def test_it_runs() -> None:
    done = subprocess.run([sys.executable, str(FILE)], capture_output=True, text=True, check=True)
    assert done.stdout.count("lossless: True") == 2 and "no rule keeps more" in done.stdout
