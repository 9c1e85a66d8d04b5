"""Exact expected accepted length of a method given its tree and the distributions at its nodes, over the rule's randomness."""

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
    """Return the expected accepted length of one tree, by the rule's reference implementation."""
    model = laws.of(tree.tokens)
    return sum(
        probability * length for length, probability in otd.trees.rules.lengths(rule, model, plain(tree, model)).items()
    )


def plain(tree: Drafted, model: TreeModel) -> PlainTree:
    """Return the tree with the token numbers of the model."""
    shape = otd.trees.TreeShape(tree.parents)
    tokens = tuple(model.number[token] for token in tree.tokens)
    law: otd.DraftLaw = tree.law
    nodes = []
    for node, prefix in enumerate(tree.ways):
        children = tuple(tokens[child - 1] for child in shape.children(node))
        nodes.append(
            (tuple(model.number[token] for token in prefix), children, tree.fixed_count[node] if children else 0)
        )
    if isinstance(law, FixedFirst):
        law = PerNodeFixedTokens().with_fixed_tokens(nodes)
    return PlainTree(shape, tokens, law)


def covered(ways: Sequence[Prefix], mass: Callable[[Prefix], float]) -> float:
    """Return the expected length of naive target sampling: the target's probability, summed over the prefixes in the tree.

    mass: probability of the last token of a prefix, given the tokens before it.
    """
    reached: dict[Prefix, float] = {(): 1.0}
    for prefix in sorted(set(ways) - {()}, key=len):
        reached[prefix] = reached[prefix[:-1]] * mass(prefix)
    return sum(reached.values()) - 1


def target_masses(target: PrefixLogits, temperature: float) -> Callable[[Prefix], float]:
    """Return the function `mass` of `covered`; temperature 0 is greedy."""

    known: dict[Prefix, torch.Tensor] = {}

    def mass(prefix: Prefix) -> float:
        above = prefix[:-1]
        if above not in known:
            (logits,) = target.at([above])
            known[above] = (logits.float() / temperature).softmax(-1) if temperature else logits.argmax()
        return float(known[above][prefix[-1]]) if temperature else float(known[above] == prefix[-1])

    return mass


def merged_laws(
    target: PrefixLogits, draft: PrefixLogits, read: set[Prefix], trees: Sequence[Drafted], temperature: float
) -> MergedLaws:
    """Return the distributions at all nodes of the trees; read: the prefixes that the draft model has read."""
    prefixes = sorted({prefix for tree in trees for prefix in tree.ways})
    drafted = np.unique([token for tree in trees for token in tree.tokens])
    rows = {}
    for prefix, p in zip(prefixes, target.at(prefixes), strict=True):
        q = draft.at([prefix])[0] if prefix in read else None
        rows[prefix] = merged_row(p, q, temperature, drafted)
    return MergedLaws(rows, drafted)
