"""What a row of the formal proofs is: its theorems, their source, and a false statement that Coq must refuse."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Planted:
    """An error, as a change of one file: what is wrong, why the theorem is false with it, the text that is put in the place of another."""

    error: str
    why: str
    old: str
    new: str
    file: str = ""  # without .v; "": that of the theorem

    @classmethod
    def computed(cls, error: str, old: str, new: str, file: str = "") -> Planted:
        """An error in what a computation says or is about: Coq itself computes that it is false."""
        return cls(error, "so it is computed", old, new, file)


@dataclass(frozen=True)
class Theorem:
    """One row: its name in words, what it says, the file without .v, the names of the theorems in it, and who said it first.

    planted: errors in the statement of `names[0]`, or in a definition that it is about; with any of them it is false, and Coq must
    refuse the very proof: `why` says by which case, since a proof may also be refused for a statement that is true. computed: a finite
    computation, about the cases that it names and no others, which is refused where it comes out false, and only there.
    """

    title: str
    claim: str
    file: str
    names: tuple[str, ...]
    source: str
    planted: tuple[Planted, ...]
    computed: bool = False


OURS = "this project; proof in the file"
