"""The examples of CONTRIBUTING.md as modules, so that the tests run what a newcomer reads."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
BLOCK = re.compile(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n# (\S+)\.py\n(.*?)^```", re.MULTILINE | re.DOTALL)


def example(section: str, monkeypatch: Any) -> ModuleType:
    """The code block of a section, under the module name that its first line gives it; forgotten again after the test."""
    places = {title: (place, code) for title, place, code in BLOCK.findall(TEXT)}
    place, code = places[section]
    module = ModuleType(place.replace("/", "."))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, f"CONTRIBUTING.md, {section}", "exec"), module.__dict__)
    return module
