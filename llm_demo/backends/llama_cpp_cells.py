"""What stands in llama.cpp's cells of one text: its tokens in order, the trunk, and behind them the nodes of trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from llm_demo.backends.llama_cpp_context import SPARE, Context, TokenRow
from ot_draft.decoding import CannotDecode

TRUNK = 0  # its sequence


@dataclass
class Node:
    """A token off the trunk. way: its number among all ways from a text's beginning; its sequence has those above it and itself."""

    way: int
    position: int
    sequence: int = -1


@dataclass
class NewToken:
    """A token that this pass reads. above: the slot of the token before it in its text, -1 for none."""

    slot: int
    above: int
    row: TokenRow
    node: Node | None  # off the trunk
    leaves: list[int] = field(default_factory=list)  # sequences of what ends below it


class TextCells:
    """The slots of one text in a context.

    Slots 0, 1, ... hold the trunk: token i in slot i, all of them in sequence 0, their cells in order. What branches off is a node, in a
    sequence that has its ancestors and itself. What is read over is forgotten, and all behind it on the trunk, and every node with it: a
    token that sees what was forgotten is refused.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.trunk: list[int] = []  # ways
        self.nodes: dict[int, Node] = {}  # by slot
        self._ways: dict[tuple[int, int], int] = {}  # by the way above and a token
        self._above = [-1]  # of a way, the one above it; of the empty one none
        self._tips: dict[int, int] = {}  # slots of the last nodes, by sequence

    def read(
        self,
        tokens: Sequence[int],
        slots: Sequence[int],
        positions: Sequence[int],
        attention_mask: np.ndarray[Any, Any],
        wanted: Sequence[bool],
    ) -> list[np.ndarray[Any, Any] | None]:
        """Logits (n,) of each token that is wanted, None of others, and of absent ones.

        A token that stands where it is to be read, after the same ones, is read again only if its logits are wanted.
        """
        plan, asked = dict[int, NewToken](), set[int]()
        for place, (given, slot) in enumerate(zip(tokens, slots, strict=True)):
            if given < 0:
                continue
            token = min(given, self.context.n - 1)
            if wanted[place]:
                asked.add(place)
            if slot in plan and plan[slot].row.token == token:  # one token several times
                plan[slot].row.wanted |= wanted[place]
                continue
            above = self._checked(np.flatnonzero(attention_mask[place]), slot, positions[place])
            way = self._way(above, token)
            if not wanted[place] and self._way_in(slot) == way:
                continue
            self._forget(slot, plan)
            row = TokenRow(token, positions[place], (), wanted[place])
            plan[slot] = NewToken(slot, above, row, self._put(slot, above, way, positions[place]))
        found = self._decode(list(plan.values()))
        return [found[slots[place]] if place in asked else None for place in range(len(tokens))]

    def move(self, sources: Sequence[int], destinations: Sequence[int]) -> None:
        """Bring nodes to the front: slots of one way, which then is the trunk's end; nothing else stays behind it."""
        ways = dict(enumerate(self.trunk)) | {
            there: self._way_in(here) for here, there in zip(sources, destinations, strict=True)
        }
        end, above = 0, 0
        while ways.get(end, 0) and self._above[ways[end]] == above:
            above, end = ways[end], end + 1
        start = next((slot for slot in range(end) if self.trunk[slot : slot + 1] != [ways[slot]]), end)
        if start < end:
            tip = dict(zip(destinations, sources, strict=True))[end - 1]
            self.context.bring(self._sequence_of(tip), start, end)
        else:
            self._forget_nodes()
        self.nodes, self._tips = {}, {}
        self.trunk[start:] = [ways[slot] for slot in range(start, end)] or self.trunk[start:]

    def _checked(self, seen: np.ndarray[Any, Any], slot: int, position: int) -> int:
        """The slot of the token before one in this slot, that sees these; -1 for none. CannotDecode unless it sees one way, and itself."""
        before = seen[seen != slot]
        if len(before) == len(seen):
            raise CannotDecode(f"the token in slot {slot} does not see itself")
        if position != len(before):
            raise CannotDecode(
                f"the token in slot {slot} has position {position} and sees {len(before)} tokens before it: give it as many"
            )
        plain = int((before == np.arange(len(before))).sum()) if len(before) else 0
        known, above = min(plain, len(self.trunk)), 0
        if known:
            above = self.trunk[known - 1]
        for other in before[known:].tolist():
            way = self._way_in(other)
            if not way or self._above[way] != above:
                raise CannotDecode(f"the token in slot {slot} sees slot {other}, which holds no token of its text")
            above = way
        return int(before[-1]) if len(before) else -1

    def _way(self, above: int, token: int) -> int:
        """The number of the way that goes on from a slot by a token."""
        key = (self._way_in(above) if above >= 0 else 0), token
        if key not in self._ways:
            self._ways[key] = len(self._above)
            self._above.append(key[0])
        return self._ways[key]

    def _way_in(self, slot: int) -> int:
        """The number of the way to what stands in a slot, 0 for nothing."""
        if slot in self.nodes:
            return self.nodes[slot].way
        return self.trunk[slot] if 0 <= slot < len(self.trunk) else 0

    def _sequence_of(self, slot: int) -> int:
        return self.nodes[slot].sequence if slot in self.nodes else TRUNK

    def _put(self, slot: int, above: int, way: int, position: int) -> Node | None:
        """Note what is read into a slot: on the trunk where it follows its end, before any node; else a node."""
        if not self.nodes and slot == len(self.trunk) and above == slot - 1:
            self.trunk.append(way)
            return None
        self.nodes[slot] = Node(way, position)
        return self.nodes[slot]

    def _forget(self, slot: int, plan: dict[int, NewToken]) -> None:
        """Free what stands in a slot and what may hang on it."""
        on_trunk = slot < len(self.trunk) and slot not in self.nodes
        if not on_trunk and slot not in self.nodes:
            return
        lost = [other for other in plan if other in self.nodes or (on_trunk and other >= slot)]
        if lost:
            raise CannotDecode(
                f"a pass reads slot {slot} after slot {lost[0]}, which it would forget: give slots in the order of the text"
            )
        self._forget_nodes()
        if on_trunk:
            self.context.cut(TRUNK, slot)
            del self.trunk[slot:]

    def _forget_nodes(self) -> None:
        if self.nodes:
            self.context.keep(TRUNK)
        self.nodes, self._tips = {}, {}

    def _decode(self, plan: list[NewToken]) -> dict[int, np.ndarray[Any, Any]]:
        """Logits of what is wanted, by slot."""
        by_slot = {planned.slot: planned for planned in plan}
        inner = {planned.above for planned in plan}
        for planned in plan:
            if planned.node is not None and planned.slot not in inner:
                self._end_sequence(planned, by_slot)
        for planned in plan:
            own = [TRUNK] if planned.node is None else []
            planned.row.sequences = own + planned.leaves
            if planned.node is not None:
                planned.node.sequence = planned.leaves[0]
        try:
            logits = self.context.decode([planned.row for planned in plan])
        except CannotDecode:
            self.context.clear()
            self.trunk, self.nodes, self._tips = [], {}, {}
            raise
        return dict(zip((planned.slot for planned in plan if planned.row.wanted), logits, strict=True))

    def _end_sequence(self, leaf: NewToken, by_slot: dict[int, NewToken]) -> None:
        """Give a leaf of this pass, and all that it reads above it, a sequence that has what was read before."""
        way = [leaf]
        while way[-1].above in by_slot:
            way.append(by_slot[way[-1].above])
        known = way[-1].above
        sequence = self._sequence_of(known) if known in self.nodes else -1
        if sequence < 0 or self._tips.get(sequence) != known:
            sequence = next((s for s in range(1, SPARE) if s not in self._tips), -1)
            if sequence < 0:
                raise CannotDecode(
                    f"a tree has more than {SPARE - 1} ways, which is llama.cpp's limit here: take a narrower one"
                )
            if known >= 0:
                end = self.nodes[known].position + 1 if known in self.nodes else known + 1
                self.context.share(self._sequence_of(known), sequence, end)
        self._tips[sequence] = leaf.slot
        for planned in way:
            planned.leaves.append(sequence)
