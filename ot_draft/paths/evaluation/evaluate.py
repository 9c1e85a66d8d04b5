"""What a path rule does, exactly: `evaluate` over all drafts, `survival` on one drafted tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ... import arrays as xp
from ...arrays import Array
from ...errors import InvalidArgument
from ...laws import DraftLaw
from ...problem import TOLERANCE
from ..drafting.enumeration import Drafted, paths_of, within_limit
from ..drafting.fixed import as_drafter, check_sizes
from ..model import Model, Nodes, Path
from ..rules.path_rule import PathLaw, PathRule, merge, read
from ..tree import DraftTree, Forest, TreeShape

State = tuple[float, list[int], list[int]]  # probability, tokens chosen so far, and the nodes that hold them


class Drafting(Protocol):
    """What can be drafted: a `TreeDrafter`, or `Stepwise`."""

    @property
    def length(self) -> int:
        """Depth of the deepest node that may be drafted."""

    def every_tree(self, nodes: Nodes) -> Iterator[Drafted]:
        """Every tree, in plain form, and its probability."""


@dataclass(frozen=True)
class PathEvaluation:
    """What a path rule does on a model, averaged over the drafts. In the laws, what is not there has probability 0.

    law: {L + 1 tokens: probability}, the tokens emitted in one iteration and then, up to L + 1, tokens of the target.
    target_law: the same of the target alone. expected_length: expected number of accepted drafted tokens.
    tolerance: how far a law may be from the target's and count as equal; 0 on Fractions.
    """

    law: PathLaw
    target_law: PathLaw
    expected_length: Any
    tolerance: float = 0

    @property
    def error(self) -> Any:
        """Total variation distance between the law and the target's."""
        emitted = self.law.keys() | self.target_law.keys()
        return sum(abs(self.law.get(tokens, 0) - self.target_law.get(tokens, 0)) for tokens in emitted) / 2

    @property
    def lossless(self) -> bool:
        """Whether the law of the first L + 1 tokens is the target's: with == on Fractions, within the tolerance on floats."""
        return self.law == self.target_law if self.tolerance == 0 else bool(self.error <= self.tolerance)

    @property
    def block_efficiency(self) -> Any:
        """Expected number of tokens emitted by one call of the target."""
        return self.expected_length + 1


def evaluate(
    path_rule: Callable[[Any, Any], PathLaw],
    model: Model,
    drafting: Drafting | TreeShape | tuple[int, int],
    law: DraftLaw | None = None,
) -> PathEvaluation:
    """Law of the first L + 1 tokens and expected accepted length of `path_rule(model, drafts)`, over all drafts of a drafting.

    drafting: a way to draft trees, of which every draw is made in every way; a shape, the children of every node drawn by the law (IID()
    unless given); or (K, L), i.i.d. paths, which the rule gets as K tuples of L tokens in drawing order. Trees come as a `PlainTree`.
    The judge, not the defendant: a token counts as accepted only where the drafts hold it and all before it. L = 0 is one token of the
    target. Exact if the model's distributions are Fractions. Raises InvalidArgument where there are more than a million drafts.
    """
    nodes = Nodes.of(model)
    ways: Drafting = Paths(*drafting) if isinstance(drafting, tuple) and law is None else as_drafter(drafting, law)
    L = ways.length
    within_limit(nodes.n ** (L + 1), f"{nodes.n}^{L + 1} sequences of L + 1 = {L + 1} tokens")
    emitted: PathLaw = {}
    expected_length = 0 * nodes.one
    for drafts, probability in ways.every_tree(nodes):
        given_drafts = path_rule(nodes, drafts)
        merge(emitted, probability, given_drafts)
        forest = read(nodes, drafts)[1].forest
        for tokens, mass in given_drafts.items():
            if not 1 <= len(tokens) <= L + 1:
                raise InvalidArgument(
                    f"the path rule emitted {tokens}: it must emit accepted tokens and one more, 1 to L + 1 = {L + 1} tokens"
                )
            expected_length += probability * mass * _held(forest, tokens[:-1])
    return _evaluation(nodes, emitted, expected_length, L)


@dataclass(frozen=True)
class Paths:
    """K i.i.d. paths of length L, as tuples of tokens."""

    K: int
    L: int

    def __post_init__(self) -> None:
        check_sizes(self.K, self.L)

    @property
    def length(self) -> int:
        return self.L

    def every_tree(self, nodes: Nodes) -> Iterator[Drafted]:
        return paths_of(nodes, self.K, self.L)


def _evaluation(nodes: Nodes, emitted: PathLaw, expected_length: Any, L: int) -> PathEvaluation:
    law: PathLaw = {}
    for tokens, mass in emitted.items():
        merge(law, mass, _continued(nodes, tokens, L + 1))
    law = {tokens: mass for tokens, mass in law.items() if mass != 0}
    root = nodes.target(())
    return PathEvaluation(
        law, _continued(nodes, (), L + 1), expected_length, 0 if xp.is_exact(root) else TOLERANCE[str(root.dtype)]
    )


def _held(forest: Forest, tokens: Path) -> int:
    """How many of the tokens a drafted tree holds, from the root down."""
    if not tokens:
        return 0
    return max((1 + _held(below, tokens[1:]) for token, below in forest if token == tokens[0]), default=0)


def _continued(nodes: Nodes, tokens: Path, length: int) -> PathLaw:
    """Law of the first `length` tokens when these are given and the target goes on."""
    law: PathLaw = {tokens: nodes.one}
    for _ in range(len(tokens), length):
        law = {
            (*prefix, token): probability * mass
            for prefix, probability in law.items()
            for token, mass in enumerate(nodes.target(prefix).tolist())
            if mass != 0
        }
    return law


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
    chosen = xp.integers([prefix for _, prefix, _ in states], tree.p).reshape(len(states), len(states[0][1]))
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
