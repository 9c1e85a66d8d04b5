"""Names that were public are found under their old name too, with a warning that says the new one and where it was asked for."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from ot_draft.deprecated import RenamedAttribute, renamed
from ot_draft.errors import InvalidDrafts

NAMES = {"BadDrafts": "ot_draft.errors.InvalidDrafts"}


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("renaming")
    module.__getattr__ = renamed("renaming", NAMES)  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "renaming", module)
    return module


def test_the_old_name_is_the_new_one_and_warns_where_it_is_used(package: ModuleType) -> None:
    with pytest.warns(
        DeprecationWarning, match=r"renaming\.BadDrafts is called ot_draft\.errors\.InvalidDrafts now"
    ) as seen:
        assert package.BadDrafts is InvalidDrafts
    assert seen[0].filename == __file__


def test_the_old_name_can_be_imported(package: ModuleType) -> None:
    with pytest.warns(DeprecationWarning, match="BadDrafts") as seen:
        from renaming import BadDrafts  # type: ignore[import-not-found]
    assert BadDrafts is InvalidDrafts
    assert {each.filename for each in seen} == {__file__}


def test_a_name_that_never_was_is_an_error(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match="module 'renaming' has no attribute 'WorseDrafts'"):
        _ = package.WorseDrafts


def test_other_names_are_asked_of_the_modules_own_getattr() -> None:
    ask = renamed("renaming", NAMES, lazily=lambda name: name.upper())
    assert ask("later") == "LATER"


class Selected:
    """With a method that had another name."""

    def output(self, shift: int) -> int:
        return 41 + shift

    law = RenamedAttribute("output")


def test_an_old_method_is_the_new_one_on_the_object_and_on_the_class() -> None:
    with pytest.warns(DeprecationWarning, match=r"Selected\.law is called Selected\.output now") as seen:
        assert Selected().law(1) == 42
    assert seen[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"Selected\.law"):
        assert Selected.law is Selected.output
