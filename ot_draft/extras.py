"""What an extra of the package brings, read from the installed distribution, and the command that brings it where one stands.

No index has the package: `pip install 'ot_draft[llm]'` finds nothing, whatever the metadata say. The packages that the
extra names are on every index.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from shlex import quote

DISTRIBUTION = "ot_draft"
CLONE = Path(__file__).parents[1]  # the folder of the clone, where it is one
OF_EXTRA = re.compile(r"""^(?P<requirement>[^;]+?)\s*;.*\bextra\s*==\s*['"](?P<extra>[^'"]+)['"]""")
OWN = re.compile(r"^ot[-_.]draft\[(?P<extras>[^\]]*)\]$")  # an extra that names other extras


def how_to_install(package: str, extra: str) -> str:
    """The command that brings what the extra needs and the environment lacks, the missing package among it.

    In a clone also `make .venv`, where that brings it. Where no metadata are installed, the package by its name alone.
    """
    base, brought = requirements(""), requirements(extra)
    wanted = [each for each in base if _name(each) == _name(package)]
    wanted = wanted or [each for each in brought if not _is_installed(_name(each))]
    wanted = wanted or [each for each in brought if _name(each) == _name(package)] or [package]
    command = f"pip install {' '.join(map(quote, wanted))}"
    in_clone = (CLONE / "Makefile").is_file() and (CLONE / "pyproject.toml").is_file()
    by_make = {_name(each) for each in wanted} <= {_name(each) for each in (*base, *requirements("all"))}
    return f"{command}  or, in {CLONE},  make .venv" if in_clone and by_make else command


@cache
def requirements(extra: str) -> tuple[str, ...]:
    """What the extra requires, like "torch<3,>=2.6", extras that it names included; for "", what the package itself requires."""
    own: list[str] = []
    for line in _lines():
        found = OF_EXTRA.match(line)
        if (found["extra"] if found else "") != extra:
            continue
        requirement = found["requirement"] if found else line
        named = OWN.match(requirement)
        own += [each for name in named["extras"].split(",") for each in requirements(name)] if named else [requirement]
    return tuple(dict.fromkeys(own))


def _lines() -> list[str]:
    from importlib import metadata

    try:
        return metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []


def _is_installed(name: str) -> bool:
    from importlib import metadata

    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _name(requirement: str) -> str:
    """The package that a requirement names, as indexes write it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()
