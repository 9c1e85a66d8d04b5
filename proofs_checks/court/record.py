"""What the court knows about one work: where it was read, what it claims, and the rules that it describes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ot_draft as ot

from .defendants import AlongPath, Coupled, Defendant, OneToken
from .rules import TOP

__all__ = ["LOSSLESS", "NOT_LOSSLESS", "SPECULATIVE", "TARGET_SAMPLE", "TOP", "AlongPath", "Coupled", "Form", "OneToken", "Work",
           "biased"]  # fmt: skip

SPECULATIVE = OneToken(ot.rules.SpeculativeSampling(), (1,))
TARGET_SAMPLE = OneToken(ot.rules.NaiveTarget(law=TOP), (1,))  # for a draft that is chosen
LOSSLESS, NOT_LOSSLESS = "lossless", "not lossless"


@dataclass(frozen=True)
class Form:
    """One rule of a work, as its paper or its code has it; or one of the choices that a description leaves open.

    expects: the verdict that the exact checks must reproduce. rests_on: the theorem or the check behind it. by_hand: the rule
    once more, as a program of draws and coin flips, for the independent enumeration; needed where it is not lossless.
    line: the line of the algorithm or the code that decides. repair: the smallest change that makes it lossless, `fix` in words.
    on_purpose: this form is lossy by design, where the work as a whole is not.
    """

    name: str
    defendant: Defendant
    rests_on: str
    expects: str = LOSSLESS
    by_hand: Callable[..., Any] | None = None
    line: str = ""
    repair: Defendant | None = None
    fix: str = ""
    on_purpose: bool = False


def biased(
    name: str, defendant: Defendant, by_hand: Callable[..., Any], line: str, repair: Defendant, fix: str, **others: Any
) -> Form:
    """A form that is not lossless, by exact enumeration unless `rests_on` says more."""
    others = {"rests_on": "exact enumeration"} | others
    return Form(name, defendant, expects=NOT_LOSSLESS, by_hand=by_hand, line=line, repair=repair, fix=fix, **others)


@dataclass(frozen=True)
class Work:
    """One published verifier, or an engine's own sampler at a version.

    paper: source, with its version and section. code: repository, path and commit, "" where none was read. read: what of it was read.
    claim: what the work says of itself. on_purpose: it is lossy by design and says so, so that "not lossless" contradicts nothing.
    not_judged: what of it has no verdict, and why.
    """

    name: str
    title: str
    paper: str
    read: str
    claim: str
    cost: str
    forms: tuple[Form, ...]
    code: str = ""
    on_purpose: bool = False
    remarks: str = ""
    not_judged: str = ""
