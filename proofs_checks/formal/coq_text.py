"""Files of numbers for Coq: written piece by piece, and compared with the current results of the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

HEAD = """From Coq Require Import QArith List.
Import ListNotations.
Local Open Scope Q_scope.
"""
SHOWN = 200  # characters of a difference


@dataclass(frozen=True)
class Definition:
    """A Coq list: its name, the type of its entries, and a generator of the entries."""

    name: str
    kind: str
    entries: Callable[[], Iterable[str]]

    def pieces(self) -> Iterator[str]:
        """Yield the text of the definition by entry."""
        yield f"\nDefinition {self.name} : list ({self.kind}) := ["
        for number, entry in enumerate(self.entries()):
            yield f"{';' if number else ''}\n  {entry}"
        yield "].\n"


@dataclass(frozen=True)
class NumbersFile:
    """A committed file of lists of numbers. about: the comment at its head."""

    path: Path
    about: str
    definitions: tuple[Definition, ...]

    def pieces(self) -> Iterator[str]:
        """Yield the text of the file by entry."""
        yield f"(* {self.about} *)\n\n{HEAD}"
        for definition in self.definitions:
            yield from definition.pieces()

    def write(self) -> None:
        """Write the file."""
        self.path.write_text("".join(self.pieces()), encoding="utf-8")

    def difference(self) -> str:
        """Return the first difference between the committed file and the current results of the library; "" if there is none.

        An error that the library raises is a difference.
        """
        committed, at = self.path.read_text(encoding="utf-8"), 0
        try:
            for piece in self.pieces():
                if not committed.startswith(piece, at):
                    line = committed.count("\n", 0, at) + 1
                    return f"{self.path.name}, from line {line}: the library gives {piece.strip()[:SHOWN]}"
                at += len(piece)
        except Exception as error:
            return f"{self.path.name}: the library raises {type(error).__name__}: {error}"
        return "" if at == len(committed) else f"{self.path.name}: more than the library gives"


def number(x: Fraction) -> str:
    """Return a rational in the scope of Q."""
    x = Fraction(x)
    return str(x.numerator) if x.denominator == 1 else f"{x.numerator}#{x.denominator}"


def numbers(xs: Iterable[Fraction]) -> str:
    """Return a list of rationals."""
    return f"[{'; '.join(map(number, xs))}]"


def entries(items: Iterable[str], indent: int = 0) -> str:
    """Return a list of entries; indent: number of spaces, with one entry per line."""
    between = ";\n" + " " * indent if indent else "; "
    return f"[{between.join(items)}]"
