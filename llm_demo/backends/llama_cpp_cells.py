"""Contents of llama.cpp's cells for one sequence: the tokens in order (the trunk), followed by the nodes of trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from llm_demo.backends.llama_cpp_context import SPARE, Context, TokenRow
from ot_draft.decoding import CannotDecode

TRUNK = 0  # llama.cpp's sequence number of the trunk


@dataclass
class Node:
    """A token off the trunk. prefix: number of its prefix. sequence: llama.cpp's sequence with its ancestors and itself."""

    prefix: int
    position: int
    sequence: int = -1


@dataclass
class NewToken:
    """A token that this pass reads. above: slot of the preceding token of its sequence, -1 for none."""

    slot: int
    above: int
    row: TokenRow
    node: Node | None  # None on the trunk
    leaves: list[int] = field(default_factory=list)  # sequences of the leaves below it


class TextCells:
    """The slots of one token sequence in a context.

    Slots 0, 1, ... hold the trunk: token i in slot i, all of them in llama.cpp's sequence 0, with cells in order. A token that branches
    off is a node, in a sequence that has its ancestors and itself. Overwriting a slot of the trunk removes all later tokens of the trunk
    and all nodes. A token that attends to a removed one raises CannotDecode. Every prefix has a number, 0 for the empty one.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.trunk: list[int] = []  # numbers of prefixes
        self.nodes: dict[int, Node] = {}  # by slot
        self._prefixes: dict[tuple[int, int], int] = {}  # by parent prefix and token
        self._above = [-1]  # parent of each prefix; none for the empty one
        self._tips: dict[int, int] = {}  # slots of the last nodes, by sequence

    def read(
        self,
        tokens: Sequence[int],
        slots: Sequence[int],
        positions: Sequence[int],
        attention_mask: np.ndarray[Any, Any],
        wanted: Sequence[bool],
    ) -> list[np.ndarray[Any, Any] | None]:
        """Return logits (n,) of each wanted token, and None for the others and for absent ones.

        A token that is already in its slot, with the same prefix, is read again only if its logits are wanted.
        """
        plan, asked = dict[int, NewToken](), set[int]()
        for index, (given, slot) in enumerate(zip(tokens, slots, strict=True)):
            if given < 0:
                continue
            token = min(given, self.context.n - 1)
            if wanted[index]:
                asked.add(index)
            if slot in plan and plan[slot].row.token == token:  # the same token repeated
                plan[slot].row.wanted |= wanted[index]
                continue
            above = self._checked(np.flatnonzero(attention_mask[index]), slot, positions[index])
            prefix = self._prefix(above, token)
            if not wanted[index] and self._prefix_in(slot) == prefix:
                continue
            self._forget(slot, plan)
            row = TokenRow(token, positions[index], (), wanted[index])
            plan[slot] = NewToken(slot, above, row, self._put(slot, above, prefix, positions[index]))
        found = self._decode(list(plan.values()))
        return [found[slots[index]] if index in asked else None for index in range(len(tokens))]

    def move(self, sources: Sequence[int], destinations: Sequence[int]) -> None:
        """Move the nodes of one path to the front, as the end of the trunk; all other nodes are removed."""
        prefixes = dict(enumerate(self.trunk)) | {
            there: self._prefix_in(here) for here, there in zip(sources, destinations, strict=True)
        }
        end, above = 0, 0
        while prefixes.get(end, 0) and self._above[prefixes[end]] == above:
            above, end = prefixes[end], end + 1
        start = next((slot for slot in range(end) if self.trunk[slot : slot + 1] != [prefixes[slot]]), end)
        if start < end:
            tip = dict(zip(destinations, sources, strict=True))[end - 1]
            self.context.bring(self._sequence_of(tip), start, end)
        else:
            self._forget_nodes()
        self.nodes, self._tips = {}, {}
        self.trunk[start:] = [prefixes[slot] for slot in range(start, end)] or self.trunk[start:]

    def _checked(self, seen: np.ndarray[Any, Any], slot: int, position: int) -> int:
        """Return the slot of the token before the one in `slot`, which attends to the slots `seen`; -1 for none.

        Raises CannotDecode unless it attends to one path and to itself.
        """
        before = seen[seen != slot]
        if len(before) == len(seen):
            raise CannotDecode(
                f"the token in slot {slot} must attend to itself. This is a bug in ot_draft; please report it."
            )
        if position != len(before):
            raise CannotDecode(
                f"the token in slot {slot} must have position {len(before)}, got {position}. This is a bug in ot_draft; please report it."
            )
        in_order = int((before == np.arange(len(before))).sum()) if len(before) else 0
        known, above = min(in_order, len(self.trunk)), 0
        if known:
            above = self.trunk[known - 1]
        for other in before[known:].tolist():
            prefix = self._prefix_in(other)
            if not prefix or self._above[prefix] != above:
                raise CannotDecode(
                    f"the token in slot {slot} must attend to tokens of its sequence, got slot {other}. This is a bug in ot_draft;"
                    " please report it."
                )
            above = prefix
        return int(before[-1]) if len(before) else -1

    def _prefix(self, above: int, token: int) -> int:
        """Return the number of the prefix that extends the one in a slot by a token."""
        key = (self._prefix_in(above) if above >= 0 else 0), token
        if key not in self._prefixes:
            self._prefixes[key] = len(self._above)
            self._above.append(key[0])
        return self._prefixes[key]

    def _prefix_in(self, slot: int) -> int:
        """Return the number of the prefix that ends in a slot, 0 for an empty slot."""
        if slot in self.nodes:
            return self.nodes[slot].prefix
        return self.trunk[slot] if 0 <= slot < len(self.trunk) else 0

    def _sequence_of(self, slot: int) -> int:
        return self.nodes[slot].sequence if slot in self.nodes else TRUNK

    def _put(self, slot: int, above: int, prefix: int, position: int) -> Node | None:
        """Record a token: on the trunk if it extends the trunk and there are no nodes, otherwise as a node."""
        if not self.nodes and slot == len(self.trunk) and above == slot - 1:
            self.trunk.append(prefix)
            return None
        self.nodes[slot] = Node(prefix, position)
        return self.nodes[slot]

    def _forget(self, slot: int, plan: dict[int, NewToken]) -> None:
        """Free a slot, and all slots that may depend on it."""
        on_trunk = slot < len(self.trunk) and slot not in self.nodes
        if not on_trunk and slot not in self.nodes:
            return
        lost = [other for other in plan if other in self.nodes or (on_trunk and other >= slot)]
        if lost:
            raise CannotDecode(
                f"slots must be in order, got slot {slot} after slot {lost[0]}. This is a bug in ot_draft; please report it."
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
        """Return the logits of wanted tokens, by slot."""
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
        """Assign a leaf of this pass, and its ancestors in this pass, a sequence that has their earlier ancestors."""
        path = [leaf]
        while path[-1].above in by_slot:
            path.append(by_slot[path[-1].above])
        known = path[-1].above
        sequence = self._sequence_of(known) if known in self.nodes else -1
        if sequence < 0 or self._tips.get(sequence) != known:
            sequence = next((s for s in range(1, SPARE) if s not in self._tips), -1)
            if sequence < 0:
                raise CannotDecode(f"a tree must have at most {SPARE - 1} leaves with llama.cpp. Use a narrower tree.")
            if known >= 0:
                end = self.nodes[known].position + 1 if known in self.nodes else known + 1
                self.context.share(self._sequence_of(known), sequence, end)
        self._tips[sequence] = leaf.slot
        for planned in path:
            planned.leaves.append(sequence)
