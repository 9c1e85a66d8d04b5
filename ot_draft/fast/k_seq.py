"""K-SEQ: kernels for the whole selection, and a compiled loop for its division factor."""

# mypy: disable-error-code="no-untyped-def"

from ..arrays import Array
from ..rules.k_seq.division_factor import FactorSearch, found_in_rows, newton_in_rows
from ..rules.k_seq.rule import KSeq
from ..selection import Selection
from .kernels import wanted
from .loops import REORDERED, compiled, takes


def selection(rule: KSeq, p: Array, q: Array, drafts: Array) -> Selection:
    """The selection of `KSeq` with its smallest valid factor, by Triton kernels."""
    if rule.factor is not None or not wanted(p, drafts):
        return NotImplemented
    from .kernels.excess import k_seq

    return Selection(*k_seq(p, q, drafts))


def factor_and_mass(p: Array, q: Array, count: Array) -> tuple[Array, Array]:
    """A valid division factor g just above gamma*, and mass(g): (..., 1) each."""
    if not takes(p, q) or (newton := compiled(newton_in_rows, REORDERED)) is None:
        return NotImplemented
    found = found_in_rows(p, q, count, newton, FactorSearch())
    return found[..., :1], found[..., 1:]
