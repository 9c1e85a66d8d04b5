"""Rules that go wrong at some place only are refuted in the first lines of a report; right rules of every kind never are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import attrgetter
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from mutants.catalogue import Mutant, of
from mutants.rules import FIRST_LINES, Own
from slow import slow, slow_except

import ot_draft as otd
from ot_draft.arrays import is_torch, normalise
from ot_draft.verify.rule import SearchLimits, lossless
from ot_draft.verify.rule.child import Child
from ot_draft.verify.rule.properties import choose, of_category
from ot_draft.verify.rule.search import Search

# The limits are those of users: a tenth of them is used up before some of these rules go wrong, on a busy machine.
pytestmark = pytest.mark.usefixtures("loaded_once")

Array = Any


# Properties that find these mutants in less time than those of an engine's sizes.
SOONER = {"small p dropped": ["distribution_in_torch"], "n > 6: residual is p": ["drawn_tokens"]}


def refute(rule: otd.SelectionRule, *sooner: str) -> None:
    """Fail unless a property of the first lines refutes the rule: after `sooner` those of an engine's sizes, which find most."""
    first = [
        *sooner,
        "engine_sizes",
        "output_distribution_in_batches",
        "repeated_calls",
        "float_distribution",
        "inputs_unchanged",
    ]
    deciding = (*of_category("lossless"), *of_category("floats"))
    chosen = choose([*first, *(each.name for each in deciding if each.name not in first)])
    with Child(Search(rule, 100, 0), chosen) as child:
        assert any(child.outcome(each).refutes for each in chosen)


@pytest.mark.parametrize(
    "mutant",
    slow_except(
        [each for each in of("rule") if each.found["rule"] == FIRST_LINES],
        "n > 6: residual is p",
        "zero at the end: residual rolled",
        "small p dropped",
        name=attrgetter("name"),
    ),
)
@pytest.mark.usefixtures("as_found")
def test_a_wrong_rule_is_refuted_in_the_first_lines(mutant: Mutant) -> None:
    if mutant.name.startswith("torch"):
        pytest.importorskip("torch")
    refute(mutant.rule(), *SOONER.get(mutant.name, []))


class Right(Own):
    """A right rule of one function."""


def mixture(p: Array, q: Array, drafts: Array, rule: Any) -> otd.Selection:
    """A third of K-SEQ, two thirds of the naive rule: of laws given the drafts, so that the residual is a mixture, too."""
    left, right = rule(p, q, drafts), otd.rules.NaiveTarget()(p, q, drafts)
    accept = (left.accept + 2 * right.accept) / 3
    rest = (1 - left.accept.sum(-1)[..., None]) * left.residual + 2 * (
        1 - right.accept.sum(-1)[..., None]
    ) * right.residual
    return otd.Selection(accept, normalise(rest, p + 0 * rest))


def memoised() -> Callable[..., otd.Selection]:
    """By value, as it should be."""
    known: dict[Any, Any] = {}

    def remembers(p: Array, q: Array, drafts: Array, rule: Any) -> otd.Selection:
        if is_torch(p):
            return rule(p, q, drafts)
        key = (str(p.dtype), *(str((x.shape, x.tolist())) for x in (p, q, drafts)))
        if key not in known:
            known[key] = rule(p, q, drafts)
        return otd.Selection(known[key].accept.copy(), known[key].residual.copy())

    return remembers


def row_by_row(p: Array, q: Array, drafts: Array, rule: Any) -> otd.Selection:
    """A loop over the rows of the batch, on numpy."""
    if is_torch(p) or 0 in p.shape or 0 in drafts.shape:
        return rule(p, q, drafts)
    shape = np.broadcast_shapes(p.shape[:-1], q.shape[:-1], drafts.shape[:-1])
    arrays = [np.broadcast_to(x, (*shape, x.shape[-1])) for x in (p, q, drafts)]
    chosen = [rule(*(x[row] for x in arrays)) for row in np.ndindex(shape)]
    parts = [np.array([getattr(each, name) for each in chosen], dtype=p.dtype) for name in ("accept", "residual")]
    return otd.Selection(*(x.reshape(*shape, x.shape[-1]) for x in parts))


def never_accepts(p: Array, q: Array, drafts: Array, rule: Any) -> otd.Selection:
    return otd.Selection(0 * rule(p, q, drafts).accept, p)


def only_small(p: Array, q: Array, drafts: Array, rule: Any) -> otd.Selection:
    if p.shape[-1] > 5:
        raise NotImplementedError("five tokens at most")
    return rule(p, q, drafts)


RIGHT = {"mixture": lambda: mixture, "memoised": memoised, "row_by_row": lambda: row_by_row,
         "never_accepts": lambda: never_accepts, "only_small": lambda: only_small}  # fmt: skip


def refuted(rule: otd.SelectionRule, seed: int, share: float = 0.1) -> bool:
    """Whether a right rule is refuted by a check with this share of the usual time, by any property of the first lines."""
    chosen = [*of_category("lossless"), *of_category("floats"), *choose(["inputs_unchanged"])]
    limits = SearchLimits(large_property_seconds=share * SearchLimits.large_property_seconds)
    with patch.object(lossless, "UNSEEN_CALLS_SECONDS", share * lossless.UNSEEN_CALLS_SECONDS):
        report = otd.check_rule(rule, max_examples=3, properties=chosen, seed=seed, limits=limits)
    return report.answers.refuted or report.lossless != "yes"


def right_rules() -> list[otd.SelectionRule]:
    """All of the library, and five of other kinds."""
    return [*otd.rules.ALL, *(Right(make()) for make in RIGHT.values())]


@pytest.mark.parametrize("seed", [0, *map(slow, range(1, 4))])
def test_a_right_rule_is_never_refuted(seed: int) -> None:
    """Of all rules with three seeds, of two with seed 0; `python tests/verify/rule/test_wrong_rules.py` takes 63 seeds: 1,008 runs."""
    rules, share = ([right_rules()[i] for i in (0, 11)], 0.04) if seed == 0 else (right_rules(), 0.1)
    assert [rule.name for rule in rules if refuted(rule, seed, share)] == []


if __name__ == "__main__":
    for seed in range(*map(int, sys.argv[1:3] or (0, 63))):
        print(seed, [rule.name for rule in right_rules() if refuted(rule, seed)], flush=True)
