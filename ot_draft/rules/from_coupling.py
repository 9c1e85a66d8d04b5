"""The rule read off an optimal solution of the linear program."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from ..arrays import Array, batch_shape, from_host, full, is_meta, rows_of_batch, to_host
from ..errors import InvalidDistribution
from ..laws import IID, DraftLaw
from ..lp import Coupling, solve
from ..lp.program import as_fractions
from ..problem import Problem
from ..selection import Selection, SelectionRule

REMEMBERED = 64  # couplings of recently seen (p, q, number of drafts), so that a rule can be called draft by draft


@dataclass(frozen=True)
class FromCoupling(SelectionRule):
    """Given the draft set S, output y in S with probability pi(S, y) / Q(S); else draw from what is left of p.

    Optimal under every law, and slow: one linear program for each (p, q), small n and k only. The default solver is the
    exact flow: it needs no package, no tolerance, and is optimal with == on Fractions. Any other solver's coupling is
    brought inside the constraints in rationals first, so that the rule stays valid whatever the solver returned. A row
    where some drafts are absent is solved for the drafts that are there. Source: SpecTr (Sun et al. 2023).
    """

    solves: ClassVar[bool] = True
    law: DraftLaw = IID()
    solver: str = "flow"

    @property
    def claims(self) -> tuple[str, ...]:  # type: ignore[override]  # fixed by the fields
        return ("optimal",) if self.solver == "flow" else ()

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        if is_meta(p):
            raise InvalidDistribution("p is on torch's meta device, which holds no values: a linear program needs them")
        n, k, batch = p.shape[-1], drafts.shape[-1], batch_shape(p, q, drafts)
        pair_of, targets, proposals = rows_of_batch(to_host(p), to_host(q), batch)
        tokens = np.broadcast_to(to_host(drafts), (*batch, k)).reshape(len(pair_of), k)
        present = (tokens >= 0).sum(-1)
        accept, residual = full(tokens.shape, 0, targets), targets[pair_of]
        for pair, count in sorted(set(zip(pair_of.tolist(), present.tolist(), strict=True))):
            if count:  # a row with no draft left keeps residual p
                here = (pair_of == pair) & (present == count)
                drawn = k if count == self.law.count(n, k) else count
                masses = tuple(as_fractions(targets[pair])), tuple(as_fractions(proposals[pair]))
                coupling = _coupling(*masses, drawn, self.law, self.solver)
                accept[here] = _accept(coupling, tokens[here], targets)
                residual[here] = coupling.exact_residual.astype(targets.dtype)
        return Selection(from_host(accept.reshape(*batch, k), p), from_host(residual.reshape(*batch, n), p))


@lru_cache(maxsize=REMEMBERED)
def _coupling(p: tuple[Fraction, ...], q: tuple[Fraction, ...], k: int, law: DraftLaw, solver: str) -> Coupling:
    return solve(Problem(list(p), list(q), k, law), solver).coupling


def _accept(coupling: Coupling, tokens: np.ndarray, like: np.ndarray) -> np.ndarray:
    """pi(S, x_i) / Q(S) at the first position of a token, 0 at repeats and absent drafts: int (m, k) -> (m, k)."""
    order = np.argsort(tokens, axis=-1, kind="stable")
    ordered = np.take_along_axis(tokens, order, -1)
    fresh = ordered >= 0
    fresh[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    first = np.empty_like(fresh)
    np.put_along_axis(first, order, fresh, -1)  # the sort is stable: of equal tokens the first drawn comes first
    sets, row_of = np.unique(np.sort(np.where(fresh, ordered, -1), -1), axis=0, return_inverse=True)
    known = {members: row for row, members in enumerate(coupling.token_sets)}
    never = len(known)  # a set that the law never draws is not in the program: nothing of it is taken
    rows = np.array([known.get(tuple(token for token in members if token >= 0), never) for members in sets.tolist()])
    table = np.concatenate((coupling.exact_accept, 0 * coupling.exact_accept[:1])).astype(like.dtype)
    return np.where(first, table[rows[row_of.reshape(-1)][:, None], np.maximum(tokens, 0)], table[never, 0])
