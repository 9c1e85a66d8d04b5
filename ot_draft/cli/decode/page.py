"""A self-contained page on which every token tells how it came about: `--html`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import count
from pathlib import Path
from string import Template
from typing import Any

from ...decoding import Drafting, Pair, Step
from ...decoding.methods import Method
from ...trees import TreeShape
from ...trees.rules.path_rule import output_distribution
from .live import ORIGIN_STYLES, Origin, Speed, TokenOrigin, living, origins


@dataclass
class PageText:
    """One continued prompt: its tokens and the tree of every step, gathered while it is decoded with `laws`."""

    prompt: str
    pair: Pair
    method: Method
    tokens: list[dict[str, Any]] = field(default_factory=list)
    trees: list[str] = field(default_factory=list)
    speed: Speed = field(default_factory=Speed)

    def add(self, step: Step) -> None:
        """Take in one step of a batch of one."""
        drafting = step.drafting

        def spell(token: int) -> str:
            return str(self.pair.tokenizer.decode([token]))

        self.tokens += token_records(step, 0, drafting, spell, len(self.trees))
        self.trees.append(step_svg(step, 0, drafting, spell) if drafting.tree.bounds.size else "")
        self.speed.add(origins(step, 0, drafting), step)


def page(texts: Sequence[PageText], settings: Sequence[tuple[str, str]]) -> str:
    """The whole page, as HTML without any reference to another file. settings: names and values, shown below the title."""
    used = dict.fromkeys(token["origin"] for text in texts for token in text.tokens)
    legend = "".join(
        f'<span class="key {origin}">{origin}</span> <small>{escape(style.meaning)}</small> '
        for origin, style in ORIGIN_STYLES.items()
        if origin in used
    )
    sections = [_section(number, text) for number, text in enumerate(texts)]
    data = [{"tokens": text.tokens, "trees": text.trees} for text in texts]
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        title=escape(": ".join(filter(None, (texts[0].method.label, texts[0].method.drafts)))),
        settings=" · ".join(f"{escape(name)} <b>{escape(value)}</b>" for name, value in settings),
        legend=legend,
        sections="\n".join(sections),
        data=json.dumps(data).replace("<", "\\u003c"),  # no token may end the script
        **{origin.value: style.colour for origin, style in ORIGIN_STYLES.items()},
    )


def _section(number: int, text: PageText) -> str:
    spans = ""
    for place, token in enumerate(text.tokens):  # ends of lines are shown as well as obeyed
        shown = escape(token["text"]).replace("\n", '<i class="end">↵</i>\n') or '<i class="end">∅</i>'
        about = f'class="t {token["origin"]}" tabindex="0" role="button" data-text="{number}" data-token="{place}"'
        spans += f"<span {about}>{shown}</span>"
    heading = f'<h2>{escape(text.prompt)}</h2><p class="numbers">{escape(text.speed.line)}</p>'
    return f'<section>{heading}<p class="text">{spans}</p></section>'


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


def chance(step: Step, row: int, drafting: Drafting, token: TokenOrigin, depth: int) -> float | None:
    """P(the rule chooses this token here | these drafts); None where it decides along whole paths."""
    assert step.p is not None and step.q is not None
    shape = step.shape(row)
    offered = any(len(shape.children(node)) > 0 for node in living(step, row, shape, depth))
    if not offered:
        return float(step.p[row, token.parent, token.token])
    law = output_distribution(drafting.rule, step.tree(row), step.chosen[row : row + 1, :depth])
    return None if law is None else min(1.0, float(law[0, token.token]))


def token_records(step: Step, row: int, drafting: Drafting, spell: Spell, number_of_step: int) -> list[dict[str, Any]]:
    """One dictionary a token, as the page's script reads it."""
    records = []
    drafted = step.drafted[row].tolist()
    for depth, token in enumerate(origins(step, row, drafting)):
        mass = mass_of(step, row, token.parent, token.token)
        refused = {drafted[node - 1]: node for node in token.refused}
        others = [(spell(other), str(mass_of(step, row, token.parent, other))) for other in refused]
        record = {"text": spell(token.token), "origin": token.origin, "step": number_of_step, "refused": others}
        record |= vars(mass) | {"chance": chance(step, row, drafting, token, depth)}
        records.append(record)
    return records


def step_svg(step: Step, row: int, drafting: Drafting, spell: Spell) -> str:
    """The picture of a step's tree; a step that ended its text within the accepted tokens shows no further token."""
    shape = step.shape(row)
    drafted = step.drafted[row, : shape.size].tolist()
    emitted = origins(step, row, drafting)
    taken = {token.node for token in emitted if token.node is not None}
    boxes: list[Box | None] = [Box(spell(int(step.root[row])), "root", "so far")]
    for node, (parent, token) in enumerate(zip(shape.parents, drafted, strict=True), 1):
        if token < 0:
            boxes.append(None)
            continue
        mass, state = mass_of(step, row, parent, token), "accepted" if node in taken else "refused"
        said = "rejected" if state == "refused" else state
        hint = f"{said}: {spell(token)!r}, {mass}, rank {mass.p_rank} of the target, {mass.q_rank} of the draft model"
        boxes.append(Box(spell(token), state, str(mass), hint))
    ending = emitted[-1]
    if ending.origin == Origin.ACCEPTED:
        return tree_svg(shape, boxes, Box("the text ends", "root"), ending.node or 0)
    mass = mass_of(step, row, ending.parent, ending.token)
    hint = f"{ending.origin}: {mass}, rank {mass.p_rank} of the target"
    box = Box(spell(ending.token), ending.origin, f"p {number(mass.p)}", hint)
    return tree_svg(shape, boxes, box, ending.parent)


@dataclass(frozen=True)
class Box:
    """One node. state: root, accepted, refused, corrected or bonus; note: small, under the label; hint: shown on hover."""

    label: str
    state: str
    note: str = ""
    hint: str = ""


def tree_svg(
    shape: TreeShape,
    boxes: Sequence[Box | None],
    ending: Box,
    after: int,
    width_px: int = 92,
    height_px: int = 36,
    gaps_px: tuple[int, int] = (26, 8),
) -> str:
    """The root on the left, every depth a column. boxes: of nodes 0 .. N, None where absent; ending: the token that was
    chosen at last, hung below node `after`. width_px, height_px: of a node; gaps_px: between columns and between rows.
    """
    last = len(boxes)
    parents = {node: parent for node, parent in enumerate(shape.parents, 1) if boxes[node] is not None} | {last: after}
    shown = {node: box for node, box in enumerate((*boxes, ending)) if box is not None}
    depths = {node: shape.depths[node] for node in shown if node != last} | {last: shape.depths[after] + 1}
    rows = _rows(parents, 0)
    places = {
        node: (2 + depths[node] * (width_px + gaps_px[0]), 2 + rows[node] * (height_px + gaps_px[1])) for node in shown
    }
    width = max(x for x, _ in places.values()) + width_px + 2
    height = max(y for _, y in places.values()) + height_px + 2
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="drafted tree">']
    for node, parent in parents.items():
        (x0, y0), (x1, y1) = places[parent], places[node]
        x0, y0, y1 = x0 + width_px, y0 + height_px / 2, y1 + height_px / 2
        middle = (x0 + x1) / 2
        curve = f"M{x0:.0f} {y0:.0f}C{middle:.0f} {y0:.0f} {middle:.0f} {y1:.0f} {x1:.0f} {y1:.0f}"
        parts.append(f'<path class="edge {shown[node].state}" d="{curve}"/>')
    parts += [_node(*places[node], box, width_px, height_px) for node, box in shown.items()]
    return "".join([*parts, "</svg>"])


def _rows(parents: dict[int, int], root: int) -> dict[int, float]:
    """Height of every node in rows: leaves one below the other, a parent level with its first child."""
    children: dict[int, list[int]] = {}
    for node, parent in parents.items():
        children.setdefault(parent, []).append(node)
    rows: dict[int, float] = {}
    leaves = count()

    def place(node: int) -> float:
        below = [place(child) for child in children.get(node, [])]
        rows[node] = below[0] if below else next(leaves)
        return rows[node]

    place(root)
    return rows


def _node(x: float, y: float, box: Box, width_px: int, height_px: int, max_letters: int = 11) -> str:
    label = box.label.replace("\n", "↵").replace("\t", "⇥").strip() or "␣"
    label = label if len(label) <= max_letters else label[: max_letters - 1] + "…"
    line = y + (15 if box.note else 22)
    note = (
        f'<text class="note" x="{x + width_px / 2:.0f}" y="{y + 29:.0f}">{escape(box.note)}</text>' if box.note else ""
    )
    return (
        f'<g class="node {box.state}"><title>{escape(box.hint or label)}</title>'
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{width_px}" height="{height_px}" rx="6"/>'
        f'<text x="{x + width_px / 2:.0f}" y="{line:.0f}">{escape(label)}</text>{note}</g>'
    )
