"""Names of drafts, as `load_pair` and `ot-draft decode --draft` take them. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import CannotDecode


class DraftSpec:
    """Specification of a draft: one of the subclasses.

    Attributes
    ----------
    loaded_with_target : str or None
        Name of a model that is loaded with the target.
    looks_up, by_text, chained : bool
        Whether prompt lookup drafts, a model with another tokenizer drafts text, or a draft model has a draft model of its own.
    needs_torch : bool
        Whether only backend torch computes it.

    Examples
    --------
    >>> DraftSpec.parse("skip:12,20")
    SkipLayers(layers=(12, 20))
    >>> DraftSpec.parse("chain:small,smaller.gguf").draft
    NamedModel(name='small')
    """

    loaded_with_target: str | None = None
    looks_up: bool = False
    by_text: bool = False
    chained: bool = False
    needs_torch: bool = False

    @staticmethod
    def parse(text: str) -> DraftSpec:
        """Return the draft that a text names.

        Parameters
        ----------
        text : str
            `lookup`: prompt lookup, without a draft model. `skip:12,20`: the target without these layers. `exit:8`: its first 8
            layers. `tli:NAME`, `slem:NAME`: a model with another tokenizer, by common tokens or by its text. `chain:Q,R`: a draft
            model Q for which R drafts. Anything else: a directory, a file or the name of a hub model. A comma in a chain ends a draft,
            except between layers of skip. A name with a word before a colon starts with its folder, such as `./run:3`.

        Raises
        ------
        CannotDecode
            If layers are not numbers, a model has no name, a chain does not have two drafts, or another word stands before a colon.
        """
        kind, _, rest = text.partition(":")
        if text == "lookup":
            return Lookup()
        if kind == "skip":
            return SkipLayers(_numbers(text, rest))
        if kind == "exit":
            layers = _numbers(text, rest)
            if len(layers) != 1:
                raise _invalid(text, "Name one number of layers for exit, such as exit:8.")
            return EarlyExit(*layers)
        if kind == "chain":
            parts = _parts(rest)
            if len(parts) != 2 or not all(parts):
                raise _invalid(text, "Name two draft models, chain:Q,R, where R drafts for Q.")
            return Chain(*(_part(text, part) for part in parts))
        if kind in ("tli", "slem"):
            if not rest:
                raise _invalid(text, f"Name a model, {kind}:NAME.")
            return OtherTokenizer(rest, by_text=kind == "slem")
        if not text:
            raise _invalid(text, "Name one of these.")
        if kind != text and len(kind) > 1 and kind.isalpha():  # one letter is a drive
            raise _invalid(text, f"Name one of these, or write ./{text} for a file of this name.")
        return NamedModel(text)


@dataclass(frozen=True)
class NamedModel(DraftSpec):
    """A model in a directory, a file or on the hub; or a .safetensors file of layers for the target's embedding."""

    name: str

    @property
    def loaded_with_target(self) -> str:  # type: ignore[override]
        return self.name


@dataclass(frozen=True)
class Lookup(DraftSpec):
    """Prompt lookup, without a draft model."""

    looks_up = True


@dataclass(frozen=True)
class SkipLayers(DraftSpec):
    """The target without some layers, counted from 0."""

    layers: tuple[int, ...]
    needs_torch = True

    def skipped(self, layers: int) -> tuple[int, ...]:
        """Return the numbers of the skipped ones of a target's layers."""
        return self.layers


@dataclass(frozen=True)
class EarlyExit(DraftSpec):
    """The first layers of the target."""

    layers: int
    needs_torch = True

    def skipped(self, layers: int) -> tuple[int, ...]:
        """Return the numbers of the skipped ones of a target's layers."""
        return tuple(range(self.layers, layers))


@dataclass(frozen=True)
class OtherTokenizer(DraftSpec):
    """A model with another tokenizer. by_text: it drafts text (SLEM), else common tokens (TLI)."""

    name: str
    by_text: bool


@dataclass(frozen=True)
class Chain(DraftSpec):
    """A draft model, and the cascade: a smaller one that drafts for it."""

    draft: DraftSpec
    cascade: DraftSpec
    chained = True
    needs_torch = True


def _parts(text: str) -> list[str]:
    """The drafts of a chain: between commas, except those between layers of skip."""
    parts: list[str] = []
    for piece in text.split(","):
        if parts and parts[-1].startswith("skip:") and piece.strip().isdecimal():
            parts[-1] += f",{piece}"
        else:
            parts.append(piece)
    return parts


def _part(text: str, name: str) -> DraftSpec:
    part = DraftSpec.parse(name)
    if part.looks_up or part.by_text or part.chained:
        raise _invalid(text, "Name two draft models with the target's tokens, chain:Q,R.")
    return part


def _numbers(text: str, numbers: str) -> tuple[int, ...]:
    found = numbers.split(",")
    if not all(number.strip().isdecimal() for number in found):
        raise _invalid(text, "Give numbers of layers, such as skip:12,20 or exit:8.")
    return tuple(int(number) for number in found)


def _invalid(text: str, action: str) -> CannotDecode:
    forms = "a model, lookup, skip:12,20, exit:8, tli:NAME, slem:NAME or chain:Q,R"
    return CannotDecode(f"draft must be {forms}, got {text!r}. {action}")
