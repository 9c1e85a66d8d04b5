"""The tree of one step as inline SVG: accepted, refused and corrected nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import ot_draft as ot

WIDE, HIGH, GAP_X, GAP_Y = 92, 36, 26, 8  # pixels of a node, and between nodes
LETTERS = 11  # of a label; what is longer is cut


@dataclass(frozen=True)
class Box:
    """One node. state: root, accepted, refused, corrected or bonus; note: small, under the label; hint: shown on hover."""

    label: str
    state: str
    note: str = ""
    hint: str = ""


def tree_svg(shape: ot.paths.TreeShape, boxes: Sequence[Box | None], ending: Box, after: int) -> str:
    """The root on the left, every depth a column. boxes: of nodes 0 .. N, None where absent; ending: the token that was
    chosen at last, hung below node `after`.
    """
    last = len(boxes)
    parents = {node: parent for node, parent in enumerate(shape.parents, 1) if boxes[node] is not None} | {last: after}
    shown = {node: box for node, box in enumerate((*boxes, ending)) if box is not None}
    depths = {node: shape.depths[node] for node in shown if node != last} | {last: shape.depths[after] + 1}
    rows = _rows(parents, 0)
    places = {node: (2 + depths[node] * (WIDE + GAP_X), 2 + rows[node] * (HIGH + GAP_Y)) for node in shown}
    width = max(x for x, _ in places.values()) + WIDE + 2
    height = max(y for _, y in places.values()) + HIGH + 2
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="drafted tree">']
    parts += [_edge(places[parent], places[node], shown[node].state) for node, parent in parents.items()]
    parts += [_node(*places[node], box) for node, box in shown.items()]
    return "".join([*parts, "</svg>"])


def _rows(parents: dict[int, int], root: int) -> dict[int, float]:
    """Height of every node in rows: leaves one below the other, a parent level with its first child."""
    children: dict[int, list[int]] = {}
    for node, parent in parents.items():
        children.setdefault(parent, []).append(node)
    rows: dict[int, float] = {}
    leaves = 0

    def place(node: int) -> float:
        nonlocal leaves
        below = [place(child) for child in children.get(node, [])]
        if not below:
            leaves += 1
        rows[node] = below[0] if below else leaves - 1
        return rows[node]

    place(root)
    return rows


def _edge(start: tuple[float, float], end: tuple[float, float], state: str) -> str:
    x0, y0, x1, y1 = start[0] + WIDE, start[1] + HIGH / 2, end[0], end[1] + HIGH / 2
    middle = (x0 + x1) / 2
    return f'<path class="edge {state}" d="M{x0:.0f} {y0:.0f}C{middle:.0f} {y0:.0f} {middle:.0f} {y1:.0f} {x1:.0f} {y1:.0f}"/>'


def _node(x: float, y: float, box: Box) -> str:
    label = box.label.replace("\n", "↵").replace("\t", "⇥").strip() or "␣"
    label = label if len(label) <= LETTERS else label[: LETTERS - 1] + "…"
    line = y + (15 if box.note else 22)
    note = f'<text class="note" x="{x + WIDE / 2:.0f}" y="{y + 29:.0f}">{escape(box.note)}</text>' if box.note else ""
    return (
        f'<g class="node {box.state}"><title>{escape(box.hint or label)}</title>'
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{WIDE}" height="{HIGH}" rx="6"/>'
        f'<text x="{x + WIDE / 2:.0f}" y="{line:.0f}">{escape(label)}</text>{note}</g>'
    )
