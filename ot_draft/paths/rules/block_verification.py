"""Block verification: one path, tested as a whole from its end upward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...arrays import unsmall, where, zero
from ...errors import InvalidDrafts
from ...laws import IID, DraftLaw
from ..model import Model
from ..tree import Bounds, DraftTree, PathSelection
from .fits import refuse, same_law
from .path_rule import PathLaw, PathRule, add, read
from .verification import PathVerifier, Walk, verify
from .walk import Draws, Survivors


@dataclass(frozen=True)
class BlockVerification(PathRule):
    """Give every beginning of the path a weight, and accept the longest one that passes its own test; one path only.

    w_0 = 1, w_i = min(1, w_{i-1} p(x_i) / q(x_i)); the tests are those of `verify` with m = q.
    Expected accepted length: the sum of E[w_i], at least that of token-wise speculative sampling.
    Source: Sun et al., Block verification accelerates speculative decoding, 2024.
    """

    one_path: ClassVar[bool] = True

    @property
    def command(self) -> str:
        return "block"

    @property
    def label(self) -> str:
        return "block verification"

    def check(self, bounds: Bounds, law: DraftLaw) -> None:
        if bounds.branching - {1}:
            number = max(bounds.branching)
            raise InvalidDrafts(f"BlockVerification takes one drafted path, not {number}: take Joint() for several")
        if not same_law(IID(), law, bounds):
            raise refuse("BlockVerification()", "IID()", law)

    def uniforms(self, bounds: Bounds) -> int:
        return 2

    def __call__(self, model: Model, drafts: Any) -> PathLaw:
        nodes, tree = read(model, drafts)
        self.check(tree.shape, tree.law)
        path = tree.tokens[: tree.tokens.index(-1)] if -1 in tree.tokens else tree.tokens
        law: PathLaw = {}
        for length, probability, following in verify(Walk.along(nodes, path)):
            add(law, probability, path[:length], following)
        return law

    def _select(self, tree: DraftTree, draws: Draws) -> PathSelection:
        survivors = Survivors(tree)
        verifier = PathVerifier(survivors)
        for depth in range(min(tree.bounds.length, tree.bounds.size)):
            p, q = survivors.laws()
            token = survivors.tokens[:, depth : depth + 1]
            verifier.add(verifier.scaled(p), where(unsmall(token, q) >= 0, q, zero(q)), token)
            survivors.go_on(token)
        verifier.end(survivors.target())
        return verifier.select(draws)
