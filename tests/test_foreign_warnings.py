"""A deprecation in another package fails one test at most, however many meet it; a warning of a line of ours fails its own test."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from foreign_warnings import NAME, Collector, Warned, package_of
from slow import slow

HELPERS = Path(__file__).parent / "helpers"
# `elsewhere` stands for another package, whose source has an escape that there is not; a file named test_arrays is one of ours.
ELSEWHERE = """
import warnings

def old(): warnings.warn("old() is going", DeprecationWarning, stacklevel=2)
def odd(): warnings.warn("odd: 3 of 4", UserWarning)

DIGIT = "\\d"
"""
MET = """
import elsewhere, pytest

@pytest.mark.parametrize("case", range(20))
def test_it(case):
    elsewhere.old()
    elsewhere.odd()
"""
OURS = """
import warnings

def test_it(): warnings.warn("of our own")
def test_division():
    import numpy
    numpy.array(1.0) / numpy.array(0.0)
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(HELPERS))
    pytester.makepyfile(elsewhere=ELSEWHERE, test_arrays=MET, test_boundaries=OURS)
    return pytester


@pytest.mark.parametrize("workers", [0, slow(2)])
def test_with_the_lock_it_is_printed_once(run: pytest.Pytester, workers: int) -> None:
    done = run.runpytest_subprocess(
        "-p", "foreign_warnings", f"-n{workers}", "-p", "no:cacheprovider", "--disable-warnings", "test_arrays.py"
    )
    done.assert_outcomes(passed=20)
    assert done.ret == 0
    said = done.stdout.str()
    assert said.count("DeprecationWarning: old() is going\n") == said.count("UserWarning: odd: 3 of 4\n") == 1
    assert "invalid escape" not in said


@pytest.mark.parametrize("workers", [slow(0), 2])
def test_without_the_lock_it_fails_one_test(run: pytest.Pytester, workers: int) -> None:
    done = run.runpytest_subprocess(
        "-p", "foreign_warnings", f"-n{workers}", "-p", "no:cacheprovider", "--newest", "test_arrays.py"
    )
    done.assert_outcomes(passed=20, failed=1)
    assert done.ret == 1
    done.stdout.fnmatch_lines(["*DeprecationWarning: old() is going", "*first at *test_arrays.py*", f"FAILED {NAME}*"])


def test_a_line_of_ours_that_warns_fails_its_own_test(run: pytest.Pytester) -> None:
    done = run.runpytest_subprocess("-p", "foreign_warnings", "-p", "no:cacheprovider", "test_boundaries.py")
    done.assert_outcomes(failed=2)


def test_files_are_told_by_their_package() -> None:
    assert package_of(__file__) == ("ot_draft", True)
    assert package_of(np.__file__) == (f"numpy {np.__version__}", False)
    assert package_of(sys.modules["random"].__file__ or "")[0].startswith("python 3.")


def test_a_deprecation_of_what_a_line_of_ours_uses_fails_one_test_with_the_lock() -> None:
    ours, theirs = (Warned("x 1", own, "FutureWarning", "going", "file:1") for own in (True, False))
    collector = Collector(strict=False)
    collector.seen = {("a", "", ""): ours, ("b", "", ""): theirs}
    assert collector.failing() == [ours]
