"""The recipes of examples/contributing as modules, so that the tests run what a newcomer copies."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).parents[2] / "examples" / "contributing"


def example(name: str, monkeypatch: Any) -> ModuleType:
    """Load a recipe under the module name that its first line states; it is forgotten again after the test."""
    file = FOLDER / f"{name}.py"
    code = file.read_text(encoding="utf-8")
    (place,) = re.findall(r"\bfor (\S+)\.py\.", code.partition("\n")[0], re.IGNORECASE)
    module = ModuleType(place.replace("/", "."))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, str(file), "exec"), module.__dict__)
    return module
