"""How far a rule that decides token by token gets along one drafted tree: exact given the drafts, over the rule's own randomness."""

from __future__ import annotations

from collections.abc import Sequence

from ...arrays import Array, integers
from ...errors import InvalidArgument
from ..rules.path_rule import PathRule
from ..tree import DraftTree, TreeShape

State = tuple[float, list[int], list[int]]  # probability, tokens chosen so far, and the nodes that hold them


def survival(rule: PathRule, tree: DraftTree) -> list[float]:
    """P(accepted length >= d | the tree) for d = 1 .. L, of a batch of one tree.

    Equal siblings are one state; a level's states are one batch. The probability that the walk goes on with a token is that
    of the rule's output, whether it was accepted or drawn from the residual. InvalidDrafts for a rule that decides along whole
    paths, and for several trees.
    """
    if len(tree.tokens) != 1:
        raise InvalidArgument(f"{len(tree.tokens)} trees were given: give one")
    shape, tokens = tree.shape(0), [-1, *tree.tokens[0].tolist()]
    states: list[State] = [(1.0, [], [0])]
    lives = []
    for _ in range(tree.bounds.length):
        states = [below for state, law in _with_laws(rule, tree, states) for below in _below(shape, tokens, state, law)]
        lives.append(sum(probability for probability, _, _ in states))
    return lives


def _with_laws(rule: PathRule, tree: DraftTree, states: Sequence[State]) -> list[tuple[State, Array]]:
    """The states that something is left of, each with the law (n,) of the token that comes next."""
    states = [state for state in states if state[0] > 0]
    if not states:
        return []
    chosen = integers([prefix for _, prefix, _ in states], tree.p).reshape(len(states), len(states[0][1]))
    laws = rule.output_law(tree.repeated(len(states)), chosen)
    if laws is None:
        raise InvalidArgument(f"{rule.name} decides along whole paths: give a rule that decides token by token")
    return list(zip(states, laws, strict=True))


def _below(shape: TreeShape, tokens: Sequence[int], state: State, law: Array) -> list[State]:
    """The states one level down."""
    probability, prefix, nodes = state
    children = [child for node in nodes for child in shape.children(node) if tokens[child] >= 0]
    below = []
    for token in dict.fromkeys(tokens[child] for child in children):
        holders = [child for child in children if tokens[child] == token]
        below.append((probability * float(law[token]), [*prefix, token], holders))
    return below
