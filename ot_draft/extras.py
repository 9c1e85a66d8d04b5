"""The command that installs what an optional feature needs: the extra of the package.

ot_draft is not on PyPI. Where it is installed, `pip install 'ot_draft[llm]'` works, because pip reads the installed metadata.
"""

import re
from pathlib import Path

DISTRIBUTION = "ot_draft"
CLONE = Path(__file__).parents[1]  # the folder of the clone, if it is one
# Extras that `make .venv` does not install: one pins a version of torch, one compiles for minutes.
APART = ("vllm", "llamacpp")


def how_to_install(package: str, extra: str) -> str:
    """Return the command that installs the extra; without an installed ot_draft, that of the clone's folder or of the package alone."""
    in_clone = (CLONE / "Makefile").is_file() and (CLONE / "pyproject.toml").is_file()
    installed = installed_extras()
    if extra not in installed and (installed or not in_clone):
        return f"pip install {package}"
    command = f"pip install '{DISTRIBUTION if installed else CLONE}[{extra}]'"
    return f"{command}  or, in {CLONE},  make .venv" if in_clone and extra not in APART else command


def installed_extras() -> set[str]:
    """Return the extras of the installed distribution, or none if it is not installed."""
    from importlib import metadata  # 20 ms that `import ot_draft` does not need

    try:
        names = metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or ()
    except metadata.PackageNotFoundError:
        return set()
    return {re.sub(r"[-_.]+", "-", name) for name in names}
