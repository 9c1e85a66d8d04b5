"""EAGLE-1 and EAGLE-2: the walks along their trees, as released.

EAGLE-1 draws the children of a node without replacement and rejects recursively with the q they were drawn by: right at one node. Its
walks go wrong in the last token. On main, `adjustflag and accept_length != candidates.shape[1]` compares the length with the number of
paths, since candidates is (batch, paths, length) there. Where the last level is accepted after a rejected sibling, the next token is
drawn from what the sibling left of the parent's distribution. With one path, a rejection at the first position is followed by a draw from p
itself. On branch v1 an accepted leaf is followed by softmax(logits) without the logits processor: temperature, top-p and top-k are left
out. At temperature 1 without top-p, as in the paper, that changes nothing. EAGLE-2 takes the top tokens and sets q = 1: a child x is
taken with probability P(x), else P(x) becomes 0 and P is normalised. That is drawing from P, child by child. Its leaf had v1's fault from
its first commit, bfeb532, until 50fc246 (14 April 2025).
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft import arrays as xp
from ot_draft import trees

from ..by_hand import minus, most_probable, norm, ratio, rooted, squared, without
from ..record import RUN, TOP, TREE, AlongPath, Case, Form, Known, OneToken, Work, biased

WITHOUT, NAIVE = otd.rules.RecursiveRejectionWithoutReplacement(), otd.rules.NaiveTarget(law=TOP)
CHAIN, THREE, ONE = trees.TreeShape.chains(1, 2), trees.TreeShape.by_level((3,)), trees.TreeShape.chains(1, 1)
FIFTHS = (Fraction(1, 5), Fraction(4, 5))
HALF, THIRD, QUARTER = (Fraction(1, d) for d in (2, 3, 4))


def number_of_paths(shape: Any) -> int:
    return sum(not len(shape.children(node)) for node in range(1, shape.size + 1))


def length_of_a_path(shape: Any) -> int:
    return int(shape.length) + 1


def drawn(q: Any, taken: list[int], token: int) -> Any:
    """EAGLE-1's q: without the rejected siblings."""
    left = np.where(np.isin(np.arange(len(q)), taken), 0 * q, q)
    return xp.normalise(left, otherwise=0 * q)


def one(q: Any, taken: list[int], token: int) -> Any:
    """EAGLE-2's q: 1 on the child."""
    return np.where(np.arange(len(q)) == token, 1 + 0 * q, 0 * q)


def same(p: Any) -> Any:
    return p


def cold(p: Any) -> Any:
    """The distribution of the logits before the temperature 1/2 is applied."""
    return np.array(rooted(p.tolist()), dtype=object)


def evaluate_posterior(
    told: Callable[..., Any], compared: Callable[[Any], int], leaf: Callable[[Any], Any] = same
) -> Callable[[Any, Any], dict[tuple[int, ...], Any]]:
    """The walk: told(q, refused, x) is the q of the test, compared(shape) what the accepted length is compared with at the end."""

    def rule(model: Any, tree: Any) -> dict[tuple[int, ...], Any]:
        law: dict[tuple[int, ...], Any] = {}

        def end(prefix: tuple[int, ...], chance: Any, residual: Any) -> None:
            stays = residual is not None and len(prefix) + 1 != compared(tree.shape)
            following = residual if stays else leaf(model.target(prefix))
            for token, mass in enumerate(following.tolist()):
                if mass and chance:
                    law[*prefix, token] = law.get((*prefix, token), 0) + chance * mass

        def walk(prefix: tuple[int, ...], children: Any, chance: Any) -> None:
            target, residual, taken = model.target(prefix), None, list[int]()
            for token, below in children:
                q = told(model.draft(prefix), taken, token) if token >= 0 else 0 * target
                if token < 0 or not q[token]:
                    continue
                kept = chance * min(1, target[token] / q[token])
                if below:
                    walk((*prefix, token), below, kept)
                else:
                    deepest = len(prefix) + 1 == tree.shape.length
                    end((*prefix, token), kept, residual if deepest else None)
                chance -= kept
                target = residual = xp.normalise(np.maximum(target - q, 0 * q), otherwise=target)
                taken.append(token)
            end(prefix, chance, residual)

        walk((), tree.forest, Fraction(1))
        return law

    return rule


Nested = tuple[Any, ...]  # a node: its children
BINARY: Nested = (((), ()), ((), ()))


def walked(tree: Nested, chosen: bool, by_paths: bool, hot: bool = True) -> Callable[..., Any]:
    """The same as a program: the tree's children are drawn when the walk comes to their node."""

    def leaves(node: Nested) -> int:
        return sum(map(leaves, node)) if node else 1

    def depth(node: Nested) -> int:
        return 1 + max(map(depth, node)) if node else 0

    last = leaves(tree) if by_paths else depth(tree) + 1

    def program(chance: Any, p: Any, q: Any, k: int) -> Any:
        prefix: tuple[int, ...] = ()
        node, refused, target = tree, False, p()
        while node:
            refused, target, places = False, p(prefix), list[int]()
            best = most_probable(q(prefix), len(node))
            following = None
            for place, below in enumerate(node):
                if place >= len(target) or (
                    not chosen and not sum(m for y, m in enumerate(q(prefix)) if y not in places)
                ):
                    break  # no token is left to draw
                left = without(q(prefix), places)
                x = best[place] if chosen else chance.draw(left)
                law = [Fraction(y == x) for y in range(len(left))] if chosen else left
                if chance.flip(ratio(target[x], law[x])):
                    following = (x, below)
                    break
                target, refused = norm(minus(target, law), target), True
                places.append(x)
            if following is None:
                break
            prefix, node = (*prefix, following[0]), following[1]
            if not node and len(prefix) < depth(tree):
                refused = False  # a leaf above the last level: the loop goes on without children
        from_rest = refused and len(prefix) + 1 != last
        whole = p(prefix) if hot else rooted(p(prefix))
        return (*prefix, chance.draw(target if from_rest else whole))

    return program


def tree_of(rule: Any, shape: Any = TREE, law: Any = WITHOUT.law) -> AlongPath:
    return AlongPath(rule, (2,), 2, shape, law)


def same_law(*masses: Fraction) -> Case:
    return Case((masses,), (masses,), 2)


FIRST, SECOND = (
    "SafeAILab/EAGLE eagle/modeling_eagle.py@cb7e084, evaluate_posterior",
    "SafeAILab/EAGLE eagle/model/utils.py",
)
BY_PATHS, BY_LENGTH = evaluate_posterior(drawn, number_of_paths), evaluate_posterior(drawn, length_of_a_path)
COLD, OLD, NEW = (
    evaluate_posterior(drawn, length_of_a_path, cold), evaluate_posterior(one, length_of_a_path, cold),
    evaluate_posterior(one, length_of_a_path),
)  # fmt: skip
LINE = "if adjustflag and accept_length != candidates.shape[1]"
WORKS = (
    Work("eagle", "EAGLE-1", "Li et al. 2024 (EAGLE)", "code", "lossless", "one pass a child",
         (Form("one node", OneToken(WITHOUT), "Coq: sampling.v"),
          Form("paper: recursive rejection down the tree", tree_of(BY_LENGTH), "recursive rejection at every node; Coq: joint.v"),
          biased("main: one path (use_tree_attn=False)", tree_of(BY_PATHS, CHAIN), walked((((),),), False, True), LINE,
                 tree_of(BY_LENGTH, CHAIN), "compare with candidates.shape[2]", when="temperature above 0", code=FIRST, seen=RUN,
                 known=(Known(Case(((HALF, HALF),), ((THIRD, 2 * THIRD),), 2), Fraction(1, 12)),)),
          biased("main: tree", tree_of(BY_PATHS), walked(BINARY, False, True), LINE, tree_of(BY_LENGTH), "compare with candidates.shape[2]",
                 when="temperature above 0", code=FIRST, seen=RUN,
                 known=(Known(Case(((HALF, QUARTER, QUARTER),), ((QUARTER, QUARTER, HALF),), 2), Fraction(1, 8),
                              "a root with three children", tree_of(BY_PATHS, THREE),
                              walked(((), (), ()), False, True)),)),
          biased("branch v1: leaf without processor", tree_of(COLD), walked(BINARY, False, False, hot=False),
                 "sample_p = torch.softmax(gt_logits) of logits that no processor has seen", tree_of(BY_LENGTH),
                 "logits_processor on the leaf's logits", when="temperature not 1, top-p, top-k",
                 code=f"{SECOND}@4a9cf3a (branch v1), evaluate_posterior", seen=RUN, through=squared,
                 sampling="temperature 1/2",
                 known=(Known(same_law(*FIFTHS), Fraction(2, 15)),)))),
    Work("eagle-2", "EAGLE-2", "Li et al. 2024 (EAGLE-2)", "code", "lossless", "none",
         (Form("one node, q set to 1", OneToken(NAIVE), "the output is a draw from p, whatever was chosen; Coq: sampling.v"),
          Form("tree, since 50fc246", tree_of(NEW, law=TOP), "q = 1 on a chosen child; exact checks", when="since 14 April 2025",
               code=f"{SECOND}@cb7e084, evaluate_posterior"),
          biased("before 50fc246: leaf without processor", tree_of(OLD, law=TOP),
                 walked(BINARY, True, False, hot=False), "sample_p = torch.softmax(gt_logits) of logits that no processor has seen",
                 tree_of(NEW, law=TOP), "logits_processor on the leaf's logits, as 50fc246 has it",
                 when="June 2024 to April 2025; temperature not 1, top-p, top-k",
                 code=f"{SECOND}@bfeb532, evaluate_posterior", seen=RUN, fixed="50fc246, 14 April 2025", through=squared,
                 sampling="temperature 1/2",
                 known=(Known(same_law(*FIFTHS), Fraction(8, 75), "one child", tree_of(OLD, ONE, TOP),
                              walked(((),), True, False, hot=False)),))),
         remarks="bf10ac5 (8 April 2025) repaired the line but kept one logit of it, 50fc246 keeps all; top-p failed until c892473."),
)  # fmt: skip
