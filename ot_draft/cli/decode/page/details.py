"""What a page tells about a token: masses, ranks, its chance given the drafts, the refused drafts beside it; and its tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....decoding import Drafting, Step
from .origins import ACCEPTED, TokenOrigin, living, origins
from .tree_picture import Box, tree_svg

Spell = Callable[[int], str]  # a token as text, special tokens and lone bytes included


@dataclass(frozen=True)
class Mass:
    """Mass of a token under target and draft at its node, and its ranks, 1 the highest. q None: the draft was not asked."""

    p: float
    p_rank: int
    q: float | None
    q_rank: int | None

    def __str__(self) -> str:
        under_q = "" if self.q is None else f"  q {number(self.q)}"
        return f"p {number(self.p)}{under_q}"


def number(mass: float) -> str:
    """Short enough for a box: .31, .042, <.001."""
    if mass == 0:
        return "0"
    if mass < 0.001:
        return "<.001"
    return f"{mass:.2f}".removeprefix("0") if mass >= 0.0995 else f"{mass:.3f}".removeprefix("0")


def mass_of(step: Step, row: int, node: int, token: int) -> Mass:
    """Looked up in the whole laws of a step that was decoded with `laws`."""
    assert step.p is not None and step.q is not None
    p, drafted = step.p[row, node], node < step.q.shape[1] and bool(step.q[row, node].any())
    q = step.q[row, node] if drafted else None
    rank = [None if law is None else 1 + int((law > law[token]).sum()) for law in (p, q)]
    return Mass(float(p[token]), rank[0] or 1, None if q is None else float(q[token]), rank[1])


def chance(step: Step, row: int, drafting: Drafting, born: TokenOrigin, depth: int) -> float | None:
    """P(the rule chooses this token here | these drafts); None where it decides along whole paths."""
    assert step.p is not None and step.q is not None
    shape = step.shape(row)
    offered = any(len(shape.children(node)) > 0 for node in living(step, row, shape, depth))
    if not offered:
        return float(step.p[row, born.parent, born.token])
    law = drafting.rule.output_law(step.tree(row), step.chosen[row : row + 1, :depth])
    return None if law is None else min(1.0, float(law[0, born.token]))


def token_records(step: Step, row: int, drafting: Drafting, spell: Spell, number_of_step: int) -> list[dict[str, Any]]:
    """One dictionary a token, as the page's script reads it."""
    records = []
    drafted = step.drafted[row].tolist()
    for depth, born in enumerate(origins(step, row, drafting)):
        mass = mass_of(step, row, born.parent, born.token)
        refused = {drafted[node - 1]: node for node in born.refused}
        beside = [(spell(token), str(mass_of(step, row, born.parent, token))) for token in refused]
        record = {"text": spell(born.token), "origin": born.origin, "step": number_of_step, "refused": beside}
        record |= vars(mass) | {"chance": chance(step, row, drafting, born, depth)}
        records.append(record)
    return records


def step_svg(step: Step, row: int, drafting: Drafting, spell: Spell) -> str:
    """The picture of a step's tree; a step that ended its text within the accepted tokens shows no further token."""
    shape = step.shape(row)
    drafted = step.drafted[row, : shape.size].tolist()
    born = origins(step, row, drafting)
    taken = {token.node for token in born if token.node is not None}
    boxes: list[Box | None] = [Box(spell(int(step.root[row])), "root", "so far")]
    for node, (parent, token) in enumerate(zip(shape.parents, drafted, strict=True), 1):
        if token < 0:
            boxes.append(None)
            continue
        mass, state = mass_of(step, row, parent, token), "accepted" if node in taken else "refused"
        hint = f"{state}: {spell(token)!r}, {mass}, rank {mass.p_rank} of the target, {mass.q_rank} of the draft"
        boxes.append(Box(spell(token), state, str(mass), hint))
    ending = born[-1]
    if ending.origin == ACCEPTED:
        return tree_svg(shape, boxes, Box("the text ends", "root"), ending.node or 0)
    mass = mass_of(step, row, ending.parent, ending.token)
    box = Box(
        spell(ending.token),
        ending.origin,
        f"p {number(mass.p)}",
        f"{ending.origin}: {mass}, rank {mass.p_rank} of the target",
    )
    return tree_svg(shape, boxes, box, ending.parent)
