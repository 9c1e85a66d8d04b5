"""Examples in the docstrings of public names give what they show."""

from __future__ import annotations

import doctest
import inspect
from types import ModuleType

import pytest

import ot_draft as otd


@pytest.mark.parametrize(
    "module", [otd, otd.arrays, otd.laws, otd.rules, otd.trees], ids=lambda module: module.__name__
)
def test_examples(module: ModuleType) -> None:
    public = {name: inspect.unwrap(getattr(module, name)) for name in module.__all__}
    own = {name: value for name, value in public.items() if inspect.isclass(value) or inspect.isfunction(value)}
    found = [test for name, value in own.items() for test in doctest.DocTestFinder(recurse=False).find(value, name)]
    examples = [test for test in found if test.examples]
    runner = doctest.DocTestRunner(verbose=False)
    assert len(examples) > 5
    assert [test.name for test in examples if runner.run(test).failed] == []
