"""The tokens of a decoding step (`ot_draft.decoding.Step`) with their laws, for an audit or its log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..arrays import Array
from ..errors import CannotAudit


def emitted_with_laws(step: Any, row: int) -> Iterator[tuple[int, Array, Array | None]]:
    """Token, target's law (n,) and draft model's law (n,) for every token that a step added to one text.

    The law of a token is that at the node it follows: the root, or the accepted draft before it. The draft model's law is None
    behind the last drafted token. No place in the step is given: with a rule that decides on whole paths, a token that is known to
    be the third of its step does not follow the target's law, though the text does. CannotAudit for a step without laws.
    """
    if step.p is None or step.q is None:
        raise CannotAudit(f"step {step.number} has no laws: decode with DecodeOptions(laws=True)")
    p, q = step.p[row].double().cpu().numpy(), step.q[row].double().cpu().numpy()
    nodes = [0, *step.nodes[row].tolist()]
    for token, node in zip(step.tokens(row), nodes, strict=False):
        drafted = q[node] if node < len(q) and abs(q[node].sum() - 1) < 1e-3 else None
        yield token, p[node], drafted
