"""Token-wise selection along K paths: a selection rule at every node, on the drafts that are still alive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..arrays import integers, one
from ..errors import InvalidDrafts
from ..laws import IID
from ..selection import SelectionRule
from .model import Model, Path
from .path_rule import Nodes, PathLaw, PathRule, add, merge, read


@dataclass(frozen=True)
class TokenWise(PathRule):
    """Apply a selection rule to the next tokens of the survivors; the survivors are the paths that hold its output.

    rule: any selection rule that is valid under i.i.d. drafts. The walk ends at the first output that no survivor holds;
    where all L positions pass, one more token comes from the target. Survivors were chosen by their tokens so far, hence
    their next tokens are i.i.d. from q again, only fewer.
    Every emitted token has the target's law given those before it.
    Source: Sun et al., SpecTr, NeurIPS 2023, Theorem 2.
    """

    rule: SelectionRule

    def __post_init__(self) -> None:
        if not isinstance(self.rule, SelectionRule):
            raise InvalidDrafts(f"TokenWise({self.rule!r}): give a selection rule, for example TokenWise(KSeq())")
        if not isinstance(self.rule.law, IID):
            raise InvalidDrafts(
                f"TokenWise({self.rule!r}): the rule is valid under {self.rule.law!r}, and the next tokens of drafted paths are"
                " i.i.d.: give a rule with law IID()"
            )

    def __call__(self, model: Model, drafts: Any) -> PathLaw:
        nodes, paths = read(model, drafts)
        return self._walk(nodes, (), paths)

    @property
    def name(self) -> str:
        return f"{type(self).__name__}({self.rule.name})"

    def _below(self, nodes: Nodes, prefix: Path, survivors: tuple[Path, ...]) -> PathLaw:
        return nodes.once(self, (prefix, survivors), lambda: self._walk(nodes, prefix, survivors))

    def _walk(self, nodes: Nodes, prefix: Path, survivors: tuple[Path, ...]) -> PathLaw:
        """Law of what is emitted, given that the prefix was accepted and these paths begin with it."""
        law: PathLaw = {}
        p, depth = nodes.target(prefix), len(prefix)
        if depth == len(survivors[0]):
            add(law, one(p), prefix, p)
            return law
        tokens = tuple(path[depth] for path in survivors)
        for token, probability in enumerate(self._output(nodes, prefix, tokens)):
            emitted = (*prefix, token)
            if probability == 0:
                continue
            if token in tokens:
                alive = tuple(path for path in survivors if path[depth] == token)
                merge(law, probability, self._below(nodes, emitted, alive))
            else:
                law[emitted] = law.get(emitted, 0) + probability
        return law

    def _output(self, nodes: Nodes, prefix: Path, tokens: Path) -> list[Any]:
        """Law of the rule's output at a node, given the survivors' next tokens."""

        def select() -> list[Any]:
            p, q = nodes.target(prefix), nodes.draft(prefix)
            drafts = integers(tokens, p)
            return self.rule(p, q, drafts).law(drafts).tolist()

        return nodes.once(self, (prefix, "output", tokens), select)
