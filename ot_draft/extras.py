"""The command that brings what an optional feature needs: the extra of the package that names it.

No index has ot_draft. Where it is installed, `pip install 'ot_draft[llm]'` still works: pip reads the installed metadata.
"""

import re
from pathlib import Path

DISTRIBUTION = "ot_draft"
CLONE = Path(__file__).parents[1]  # the folder of the clone, where it is one
# Extras that `make .venv` does not bring: two exclude each other, one is compiled for minutes.
APART = ("vllm", "sglang", "llamacpp")


def how_to_install(package: str, extra: str) -> str:
    """The command that brings the extra. Where ot_draft is not installed: the clone's folder by its extra, else the package alone."""
    in_clone = (CLONE / "Makefile").is_file() and (CLONE / "pyproject.toml").is_file()
    installed = installed_extras()
    if extra not in installed and (installed or not in_clone):
        return f"pip install {package}"
    command = f"pip install '{DISTRIBUTION if installed else CLONE}[{extra}]'"
    return f"{command}  or, in {CLONE},  make .venv" if in_clone and extra not in APART else command


def installed_extras() -> set[str]:
    """The extras of the distribution as it is installed; none where it is not."""
    from importlib import metadata  # 20 ms, which `import ot_draft` does without

    try:
        names = metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or ()
    except metadata.PackageNotFoundError:
        return set()
    return {re.sub(r"[-_.]+", "-", name) for name in names}
