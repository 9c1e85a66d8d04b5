"""`python -m proofs_checks.formal` (make formal): compile all files, print the assumptions of each theorem, and compare the library."""

from __future__ import annotations

import os
import sys

from . import compiling


def main() -> int:
    """Return 0 if every file compiles, every theorem is closed and the library gives the bridges' numbers; 1 if not.

    2 without coqc. 3 where Coq read all, and the library cannot be imported: its numbers were not compared.
    """
    if not compiling.found():
        print(f"coqc is not on this machine; nothing was checked. On Debian, as root:\n  {compiling.APT}")
        return 2
    print(f"Coq {compiling.version()}; closed: closed under the global context, no axiom is assumed")
    bad, theorems = 0, 0
    for stem, made, seconds in compiling.compile_all(os.cpu_count() or 1):
        file = compiling.source(stem)
        assumed = compiling.assumptions(file.read_text(encoding="utf-8"), made)
        passed = made.closed if assumed else made.ok
        bad += not passed
        theorems += len(assumed)
        print(f"{'ok  ' if passed else 'FAIL'} {file.name:22} {seconds:6.1f} s", flush=True)
        for name, said in assumed.items():
            print(f"       {name}: {said}", flush=True)
        if not made.ok:
            print("".join(f"       {line}\n" for line in made.output.splitlines()), end="", flush=True)
    print(f"all files compile, none of {theorems} theorems assumes anything" if not bad else f"{bad} files failed")
    said, status = _library()
    print(said)
    return 1 if bad else status


NOT_COMPARED = 3


def _library() -> tuple[str, int]:
    """Return the differences of the library from the bridges' numbers, and the exit status."""
    try:
        from . import bridge
    except ImportError as error:
        return f"the library was not compared with the bridges: {error}", NOT_COMPARED
    differs = bridge.difference()
    if differs:
        return f"the library differs from the bridges: {differs}", 1
    return "the library gives the numbers of the bridges", 0


if __name__ == "__main__":
    sys.exit(main())
