"""Expected accepted length of a way given its tree and the laws at its nodes: exact, over the rule's own randomness."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

import ot_draft as otd
from llm_demo.bench.trees.growth import Drafted, Prefix
from llm_demo.bench.trees.prefixes import PrefixLogits
from llm_demo.bench.trees.token_classes import MergedLaws, TreeModel, merged_row
from ot_draft.laws import FixedFirst, PerNodeFixedTokens
from ot_draft.trees.tree import PlainTree


def expected_length(rule: otd.trees.PathRule, tree: Drafted, laws: MergedLaws) -> float:
    """Of one tree, by the rule's plain form."""
    model = laws.of(tree.tokens)
    return sum(
        probability * length for length, probability in otd.trees.rules.lengths(rule, model, plain(tree, model)).items()
    )


def plain(tree: Drafted, model: TreeModel) -> PlainTree:
    """The tree with its tokens as the model numbers them."""
    shape = otd.trees.TreeShape(tree.parents)
    tokens = tuple(model.number[token] for token in tree.tokens)
    law: otd.DraftLaw = tree.law
    nodes = []
    for node, way in enumerate(tree.ways):
        children = tuple(tokens[child - 1] for child in shape.children(node))
        nodes.append((tuple(model.number[token] for token in way), children, tree.fixed_count[node] if children else 0))
    if isinstance(law, FixedFirst):
        law = PerNodeFixedTokens().with_fixed_tokens(nodes)
    return PlainTree(shape, tokens, law)


def covered(ways: Sequence[Prefix], mass: Callable[[Prefix], float]) -> float:
    """Expected length of naive target sampling: the sum over the prefixes in the tree of the target's probability of them.

    mass: of the last token of a prefix, given those before it.
    """
    reached: dict[Prefix, float] = {(): 1.0}
    for way in sorted(set(ways) - {()}, key=len):
        reached[way] = reached[way[:-1]] * mass(way)
    return sum(reached.values()) - 1


def target_masses(target: PrefixLogits, temperature: float) -> Callable[[Prefix], float]:
    """For `covered`; a temperature of 0 is greedy."""

    known: dict[Prefix, torch.Tensor] = {}

    def mass(way: Prefix) -> float:
        above = way[:-1]
        if above not in known:
            (logits,) = target.at([above])
            known[above] = (logits.float() / temperature).softmax(-1) if temperature else logits.argmax()
        return float(known[above][way[-1]]) if temperature else float(known[above] == way[-1])

    return mass


def merged_laws(
    target: PrefixLogits, draft: PrefixLogits, read: set[Prefix], trees: Sequence[Drafted], temperature: float
) -> MergedLaws:
    """The laws at all nodes of the trees; read: the prefixes at which the draft model was asked."""
    ways = sorted({way for tree in trees for way in tree.ways})
    drafted = np.unique([token for tree in trees for token in tree.tokens])
    rows = {}
    for way, p in zip(ways, target.at(ways), strict=True):
        q = draft.at([way])[0] if way in read else None
        rows[way] = merged_row(p, q, temperature, drafted)
    return MergedLaws(rows, drafted)
