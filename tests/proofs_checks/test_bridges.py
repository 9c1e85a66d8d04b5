"""Errors planted in the library and in the definitions for Coq: each changes what a rule does, and the numbers of a bridge show it."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from slow import slow

import ot_draft as otd
from ot_draft import optimum
from ot_draft.rules import coupling, recursive_rejection
from ot_draft.rules.k_seq import division_factor
from ot_draft.rules.k_seq.rule import KSeq
from ot_draft.rules.optimal import classes, host, levels
from ot_draft.rules.optimal.rule import Optimal
from ot_draft.trees import model
from ot_draft.trees.drafting import baselines, enumeration
from ot_draft.trees.evaluation import program
from ot_draft.trees.rules import block_verification, joint, token_wise, traversal
from proofs_checks import formal
from proofs_checks.formal import bridge, bridge_paths, compiling
from proofs_checks.formal.listed import THEOREMS, Planted, Theorem
from proofs_checks.formal.listed.definitions import (
    HYBRID_ERRORS,
    LEVEL_ERRORS,
    ONE_TOKEN_ERRORS,
    PATH_ERRORS,
    TREE_ERRORS,
)

ONE_TOKEN, HYBRID, PATHS, TREES, DRAFTING, LEVELS, OPTIMUM = (file.path.stem for file in bridge.FILES)
CHOSEN = "at_levels(xp.host_view(level), xp.host_view(xp.gather(rank, drafts)), xp.host_view(drafts >= 0))"
REVERSED = (
    "at_levels(xp.host_view(level), xp.host_view(xp.gather(rank, drafts))[..., ::-1], "
    "xp.host_view(drafts >= 0)[..., ::-1])[..., ::-1]"
)
LEFT = "xp.residual(p, selected, out=selected)"
IN_LIBRARY = [  # error; function; text in it, and what is put in its place; the file of numbers that shows it
    (PATH_ERRORS[0].error, block_verification.Walk.to, "self.weights[-1] * p[[token]]", "p[[token]]", PATHS),
    (PATH_ERRORS[1].error, block_verification.verify, "excess(weight * p, ", "excess(p, ", PATHS),
    (PATH_ERRORS[2].error, block_verification.verify, "rest + 1 - weight", "rest", PATHS),
    (PATH_ERRORS[3].error, traversal._refused, "xp.normalise(left, p)", "p", PATHS),
    (PATH_ERRORS[4].error, model.Nodes.target, "self.model.target(prefix)", "self.model.target(())", PATHS),
    (PATH_ERRORS[5].error, joint._selection_at, "walk.weights[-1] * p", "p", PATHS),
    (PATH_ERRORS[6].error, token_wise.TokenWise._further, "if drafted == token", "if drafted >= 0", PATHS),
    (ONE_TOKEN_ERRORS[0].error, classes.choose, CHOSEN, REVERSED, ONE_TOKEN),
    (ONE_TOKEN_ERRORS[1].error, coupling.couple, LEFT, "p", ONE_TOKEN),
    (ONE_TOKEN_ERRORS[2].error, host._curves, "min(highest, behind[i])", "max(highest, behind[i])", ONE_TOKEN),
    (ONE_TOKEN_ERRORS[3].error, recursive_rejection._scales, "scale = scale + mass * ", "scale = mass * ", ONE_TOKEN),
    (
        ONE_TOKEN_ERRORS[4].error,
        recursive_rejection.RecursiveRejectionWithoutReplacement.__call__,
        "outside(q, drafts[..., :i])",
        "q",
        ONE_TOKEN,
    ),
    (ONE_TOKEN_ERRORS[5].error, KSeq._selection, "factor * share, 1 - share", "factor, 0", ONE_TOKEN),
    (HYBRID_ERRORS[0].error, Optimal.__call__, "where(fixed >= 0, -1, drafts)", "drafts", HYBRID),
    (TREE_ERRORS[0].error, traversal._refused, "rest + 1 - weight", "rest", TREES),
    (f"{TREE_ERRORS[0].error}, paths", traversal._refused, "rest + 1 - weight", "rest", PATHS),
    (
        f"{TREE_ERRORS[1].error}, paths",
        traversal.Traversal._tested,
        "weight * xp.gather(p, child)",
        "xp.gather(p, child)",
        PATHS,
    ),
    (TREE_ERRORS[1].error, traversal.Traversal._tested, "weight * xp.gather(p, child)", "xp.gather(p, child)", TREES),
    (LEVEL_ERRORS[0].error, levels._sweep, "rest[j] -= rate[j] * (now - seen[j])", "rest[j] -= 0 * now", LEVELS),
    (LEVEL_ERRORS[1].error, levels._sweep, "rate[j] = (g[d]", "rate[j] = rate[j] if g[d] else (g[d]", LEVELS),
    (LEVEL_ERRORS[2].error, levels._sweep, "level[i] = one", "level[i] = 0 * one", LEVELS),
    (
        "of two neighbours that die at once the second lives on",
        levels._sweep,
        "if rate[j] > 0 and rest[j] < rate[j] * (one - now):\n                    heappush",
        "if rate[j] > 0 and rest[j] > 0:\n                    heappush",
        LEVELS,
    ),
    (
        "of two that die at once the second lives on",
        levels._sweep,
        "    level[i] = now\n",
        "    level[i] = now\n        while deaths[0][0] == now:\n            heappop(deaths)\n",
        LEVELS,
    ),
    ("elder siblings stay in a child's law", otd.WithoutReplacement.conditional, "index <= 0", "index <= 99", TREES),
    (
        "the correction of a path draws from p",
        block_verification.verify,
        "following = xp.normalise(left, p)",
        "following = p",
        PATHS,
    ),
    (
        "children are tested in reverse order",
        traversal.Traversal._tested,
        "token, below in children:",
        "token, below in children[::-1]:",
        PATHS,
    ),
    (
        "after two refusals the weight is that after one",
        traversal._refused,
        "xp.divide(rest, rest + 1 - weight, 1).tolist()[0]",
        "(weight if weight != 1 else xp.divide(rest, rest + 1 - weight, 1).tolist()[0])",
        PATHS,
    ),
    (
        "what hybrid drafts leave of q is not normalised",
        Optimal.__call__,
        "outside(q, fixed), draws",
        "xp.with_zeros_at(q, fixed), draws",
        HYBRID,
    ),
    (
        "the residual is normalised before it is capped",
        coupling.couple,
        LEFT,
        "xp.normalise(xp.maximum(xp.normalise(p - selected, p), 0), p)",
        ONE_TOKEN,
    ),
    ("levels of the class below", host.levels_of_rows, "level[row, used[:-1]]", "level[row, used[1:]]", ONE_TOKEN),
    (
        "a path's last token is never accepted",
        block_verification.verify,
        "passes, following = weight, p",
        "passes, following = weight * 0, p",
        PATHS,
    ),
    (
        "one accepted token more is counted",
        block_verification.verify,
        "yield walk.path[:length], ",
        "yield walk.path[: length + 1], ",
        PATHS,
    ),
    # The optimum, and K-SEQ's own factor.
    ("the best cut is the worst", optimum._least_cut, "cut.argmin(-1)", "cut.argmax(-1)", OPTIMUM),
    (
        "prefixes in the order of the vocabulary",
        optimum.cuts,
        "law.cut_order(p, q, k)",
        "0 * law.cut_order(p, q, k) + np.arange(p.shape[-1])",
        OPTIMUM,
    ),
    (
        "the optimum of one draft fewer",
        optimum.cuts,
        "law.prefix_probabilities(q, order, k)",
        "law.prefix_probabilities(q, order, max(k - 1, 1))",
        OPTIMUM,
    ),
    ("the 1 of the cut is left out", optimum._least_cut, "return 1 + ", "return ", OPTIMUM),
    ("K-SEQ's factor for one draft fewer", division_factor._is_valid, "count)", "count - 1)", OPTIMUM),
    ("K-SEQ's factor is k", division_factor.newton_in_rows, "high = factor", "high = high", OPTIMUM),
    (
        "K-SEQ's factor is rounded down and not tried",
        division_factor._rational_factor,
        "while not (valid := ",
        "factor = factor - unit\n    while False and not (valid := ",
        OPTIMUM,
    ),
    # Trees that follow what was drafted, and the caps.
    (
        "ways to draft count alike",
        enumeration.every_growth,
        "probability * mass)",
        "probability / len(masses))",
        DRAFTING,
    ),
    ("a cap leaves out the target", program.cap_bound, "min(chances[v], ", "max(chances[v], ", DRAFTING),
    ("a cap forgets the one above", program.cap_bound, "[v[-1]] * caps[v[:-1]]", "[v[-1]]", DRAFTING),
    ("a tree's prefixes are its leaves", program._prefixes, "{(*prefix, token)} | _prefixes", "_prefixes", DRAFTING),
    (
        "a draw is worth the same whatever was drawn before",
        baselines.SampledTree.offer,
        "value = value * (1 - mass)",
        "value = value * 1",
        DRAFTING,
    ),
    ("drawn tokens stay in the law", baselines.SampledTree.offer, "xp.add_at(left, token, -share)", "share", DRAFTING),
    (
        "a path stops by its last token",
        baselines.StoppedGrowth._decide,
        "1 - self._reached <=",
        "self._reached <=",
        DRAFTING,
    ),
    # What a model of order 1 cannot tell.
    (
        "blocks ask for the last token only",
        block_verification.Walk.to,
        "nodes.target(path)",
        "nodes.target(path[-1:])",
        PATHS,
    ),
    (
        "blocks ask the draft for the last token only",
        block_verification.Walk.along,
        "nodes.draft(path[:depth])",
        "nodes.draft(path[:depth][-1:])",
        PATHS,
    ),
    (
        "Joint asks for the last token only",
        joint._selection_at,
        "nodes.target(walk.path)",
        "nodes.target(walk.path[-1:])",
        PATHS,
    ),
    (
        "Joint asks the draft for the last token only",
        joint._selection_at,
        "nodes.draft(walk.path)",
        "nodes.draft(walk.path[-1:])",
        PATHS,
    ),
    (
        "Traversal asks for the last token only",
        traversal.Traversal._tested,
        "nodes.target(path)",
        "nodes.target(path[-1:])",
        PATHS,
    ),
    (
        "Traversal asks the draft for the last token only",
        traversal.Traversal._tested,
        "nodes.draft(path)",
        "nodes.draft(path[-1:])",
        PATHS,
    ),
    (
        "token-wise selection asks for the last token only",
        token_wise.TokenWise._output,
        "nodes.target(prefix)",
        "nodes.target(prefix[-1:])",
        PATHS,
    ),
    (
        "token-wise selection asks the draft for the last token only",
        token_wise.TokenWise._output,
        "nodes.draft(prefix)",
        "nodes.draft(prefix[-1:])",
        PATHS,
    ),
    # What is kept from one tree to the next, or from one rule to the other.
    ("Joint remembers without the number alive", joint.Joint._steps, "sum(token >= 0 for token in draws)", "0", PATHS),
    (
        "Joint remembers a selection by the last token",
        joint.Joint._steps,
        "(law, walk.path,",
        "(law, walk.path[-1:],",
        PATHS,
    ),
    (
        "Traversal remembers by the number of elder siblings",
        traversal.Traversal._tested,
        "len(earlier) if Fact.INDEPENDENT in law.facts else earlier",
        "len(earlier)",
        TREES,
    ),
    ("Traversal remembers without elder siblings", traversal.Traversal._tested, "(known, token)", "(0, token)", PATHS),
    (
        "token-wise selection remembers an output by the last token",
        token_wise.TokenWise._output,
        '(law, prefix, "output", tokens)',
        '(law, prefix[-1:], "output", tokens)',
        PATHS,
    ),
    ("all rules share one memory", model.Nodes.once, "id(owner)", "0", PATHS),
    (
        "only the first of equal paths lives on",
        joint.Joint._steps,
        "for drafted, below in children if drafted == token)",
        "for drafted, below in children if drafted == token)[:1]",
        PATHS,
    ),
]


@contextmanager
def planted(function: Any, old: str, new: str) -> Iterator[None]:
    """The function, a class's own too, with another text, for all who hold it."""
    function = inspect.unwrap(getattr(function, "__func__", function))  # rules check their arguments around the call
    text = textwrap.dedent(inspect.getsource(function))
    text = text[text.index("def ") :]  # without decorators, which name what their class holds
    assert old in text, f"{function.__qualname__} does not hold {old!r}"
    names: dict[str, Any] = {}
    exec(compile(text.replace(old, new), function.__code__.co_filename, "exec"), function.__globals__, names)
    before, function.__code__ = function.__code__, names[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = before


@pytest.mark.parametrize("file", [slow(ONE_TOKEN), HYBRID, PATHS, TREES, DRAFTING, LEVELS, OPTIMUM])
def test_the_committed_numbers_are_what_the_library_gives(file: str) -> None:
    assert bridge.difference(file) == ""


def test_a_third_of_the_cases_of_one_token_are_what_the_library_gives() -> None:
    committed = bridge.FILES[0].path.read_text(encoding="utf-8")
    assert all(bridge.case(index) in committed for index in range(0, bridge.CASES, 3))


@pytest.mark.parametrize(("error", "function", "old", "new", "file"), IN_LIBRARY, ids=[row[0] for row in IN_LIBRARY])
def test_an_error_planted_in_the_library_is_found(error: str, function: Any, old: str, new: str, file: str) -> None:
    with planted(function, old, new):
        found = bridge.difference(file)
    assert found.startswith(f"{file}.v"), error


def test_a_library_that_raises_makes_the_row_fail_and_no_traceback() -> None:
    row = next(theorem for theorem in THEOREMS if theorem.file == "bridge_paths")
    with planted(joint._selection_at, "walk.weights[-1] * p", "walk.weights[-1] / 0"):
        assert "raises ZeroDivisionError" in formal.difference(row)
    assert formal.difference(row) == ""


def test_a_file_that_was_changed_by_hand_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    file = bridge.FILES[3]  # the smallest
    text = file.path.read_text(encoding="utf-8")
    for wrong in (text[:-3], text + " ", text.replace("1#2", "1#3", 1)):
        other = tmp_path / file.path.name
        other.write_text(wrong, encoding="utf-8")
        monkeypatch.setattr(bridge, "FILES", (type(file)(other, file.about, file.definitions),))
        assert bridge.difference().startswith(file.path.name)


def test_the_cases_see_what_they_must() -> None:
    assert bridge.CASES == 210 and sum(1 for _ in bridge.hybrid_cases()) == 121
    for size, case in zip(bridge_paths.ROW_SIZES, map(bridge_paths.row_problem, range(6)), strict=True):
        (n, _, L), model = size, bridge_paths.markov(case)
        ratios = [model.target((y,) * i)[y] / model.draft((y,) * i)[y] for y, i in product(range(n), range(L))]
        assert all(ratio > 0 for ratio in ratios)
        assert any(0 < ratio < 1 for ratio in ratios), "every weight is 0 or 1"
    assert {L for _, _, L in bridge_paths.ROW_SIZES} >= {2, 3}


def test_in_the_scaled_case_selecting_for_p_is_another_selection() -> None:
    model = bridge_paths.markov(bridge_paths.SCALED)
    p, q = model.target((0,)), model.draft((0,))
    assert len(p) == 3
    w = min(Fraction(1), model.target(())[0] / model.draft(())[0])
    assert 0 < w < 1
    rule = otd.rules.Optimal()
    both = [otd.evaluate(rule, otd.Problem(target, q, 2)).acceptance for target in (p, q)]
    assert both[0] < both[1]
    with planted(joint._selection_at, "walk.weights[-1] * p", "p"):
        assert bridge.difference(PATHS)


BY_COQ = [
    pytest.param(theorem, error, id=error.error, marks=pytest.mark.slow)
    for theorem in THEOREMS
    for error in theorem.planted
]


@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: theorem.title)
def test_every_row_has_errors_that_can_be_planted(theorem: Theorem) -> None:
    assert theorem.planted and theorem.source
    for error in theorem.planted:
        assert error.why
        changed = formal.with_error(theorem, error)
        assert error.new in changed[error.file or theorem.file]
        assert all(text != compiling.source(file).read_text(encoding="utf-8") for file, text in changed.items())


@pytest.mark.parametrize(
    ("made", "is_refused"),
    [
        (compiling.CoqResult(True, compiling.CLOSED), False),
        (compiling.CoqResult(False, "coqc took more than 600 s", ended=False), False),
        (compiling.CoqResult(False, "Error: Syntax error"), False),
        (compiling.CoqResult(False, f"Error: {formal.FALSE}"), True),
        (compiling.CoqResult(False, f"Error:\nIn environment\np := [:: 1 # 2] : seq Q\n{formal.FALSE}"), True),
    ],
)
def test_only_a_false_value_refuses_a_computation(
    made: compiling.CoqResult, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    theorem = next(theorem for theorem in THEOREMS if theorem.file == "bridge")
    monkeypatch.setattr(compiling, "compile_changed", lambda *_: made)
    assert bool(formal.refused(theorem, theorem.planted[0])) is is_refused


@pytest.mark.skipif(not compiling.found(), reason="no coqc on this machine")
@pytest.mark.parametrize(("theorem", "error"), BY_COQ)
def test_coq_refuses_what_is_false(theorem: Theorem, error: Planted) -> None:
    assert formal.refused(theorem, error)
