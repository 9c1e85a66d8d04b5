"""`python -m proofs_checks.formal` (make formal): compile every file, print the assumptions of every theorem."""

from __future__ import annotations

import sys
from time import perf_counter

from . import compiling


def main() -> int:
    """0 if every file compiles and every theorem is closed under the global context, 1 if not, 2 without coqc."""
    if not compiling.found():
        print(f"coqc is not on this machine; nothing was checked. On Debian, as root:\n  {compiling.APT}")
        return 2
    bad = 0
    for file in sorted(compiling.sources().values(), key=_depth):
        start = perf_counter()
        made = compiling.compile_file(file.stem)
        printed = "Print Assumptions" in file.read_text(encoding="utf-8")
        passed = made.closed if printed else made.ok
        bad += not passed
        print(f"{'ok  ' if passed else 'FAIL'} {file.name:18} {perf_counter() - start:6.1f} s", flush=True)
        print("".join(f"       {line}\n" for line in made.output.splitlines()), end="", flush=True)
    print("all files compile, no theorem assumes anything" if not bad else f"{bad} files failed")
    return bool(bad)


def _depth(file: object) -> int:
    name = getattr(file, "stem", "")
    text = compiling.source(name).read_text(encoding="utf-8")
    return 1 + max((_depth(compiling.source(other)) for other in compiling.imports(text)), default=0)


if __name__ == "__main__":
    sys.exit(main())
