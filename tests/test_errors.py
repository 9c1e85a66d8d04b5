"""Wrong input is refused, never repaired; the message says what was given, in which row, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

import ot_draft as otd
from ot_draft.laws import is_defined

GOOD = np.array([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]])
EXACT = np.array([[F(1, 2), F(1, 2), F(0)], [F(1, 4), F(1, 4), F(1, 2)]], dtype=object)


def spoiled(value: float, row: int = 1, token: int = 2, dtype: Any = np.float64) -> np.ndarray:
    x = GOOD.astype(dtype)
    x[row, token] = value
    return x


VALUES = {
    "NaN": (spoiled(np.nan), "row [1], token 2 must be finite, got nan. Correct the logits"),
    "inf": (spoiled(np.inf), "row [1], token 2 must be finite, got inf. Correct the logits"),
    "minus inf": (spoiled(-np.inf, row=0), "row [0], token 2 must be finite, got -inf."),
    "negative": (spoiled(-0.25), "row [1], token 2 must be >= 0, got -0.25."),
    "sum too small": (spoiled(0.25), "row [1] must sum to 1 (tolerance 1e-09), got 0.75. Divide the row by its sum."),
    "sum too large": (spoiled(0.5 + 2**-20), "must sum to 1 (tolerance 1e-09), got 1."),
    "float32 sum": (
        spoiled(0.501953125, dtype=np.float32),
        "row [1] must sum to 1 (tolerance 0.0001), got 1.001953125.",
    ),
    "all zero": (np.zeros((2, 3)), "row [0] must sum to 1 (tolerance 1e-09), got 0.0."),
    "Fraction negative": (np.array([F(3, 2), F(-1, 2)]), ", token 1 must be >= 0, got -1/2."),
    "Fraction sum": (np.array([F(1, 2), F(1, 3)]), "must sum to 1 (tolerance 0), got 5/6. Divide the row by its sum."),
    "integers": (
        np.array([1, 0]),
        "must have dtype float32, float64 or Fractions, got int64. Convert it: integers may be counts",
    ),
    "half precision": (
        np.array([1, 0], dtype=np.float16),
        "must have dtype float32, float64 or Fractions, got float16",
    ),
    "booleans": (np.array([True, False]), "must have dtype float32, float64 or Fractions, got bool"),
    "complex": (np.array([1, 0], dtype=complex), "must have dtype float32, float64 or Fractions, got complex128"),
    "strings": (["1", "0"], "must have dtype float32, float64 or Fractions, got <U1"),
    "empty vocabulary": (np.zeros((3, 0)), "must have shape (..., n) with n >= 1 tokens, got (3, 0)."),
    "empty list": ([], "must have shape (..., n) with n >= 1 tokens, got (0,)."),
    "single number": (np.array(1.0), "must have shape (..., n), got a single number. Pass n probabilities."),
    "ragged": ([[0.5, 0.5], [1.0]], "must have rows of equal length, got a ragged list"),
    "ragged Fractions": ([[F(1, 2), F(1, 2)], [F(1)]], "must have rows of equal length, got a ragged list"),
    "float among Fractions": ([F(1, 2), 0.5], ", token 1 must be a Fraction, got 0.5 (float) among Fractions."),
    "none": (
        [None, 0.5],
        ", token 0 must be a Fraction, got None (NoneType). Make every probability a Fraction, or every one a float.",
    ),
    "bool among Fractions": ([F(0), True], ", token 1 must be a Fraction, got True (bool) among Fractions."),
    "no array": ({0: 1.0}, "must be a list, a NumPy array or a torch tensor, got a dict."),
    "nothing": (None, "must be a list, a NumPy array or a torch tensor, got a NoneType."),
}


@pytest.mark.parametrize("case", VALUES)
@pytest.mark.parametrize("name", ["p", "q"])
def test_no_distribution(case: str, name: str) -> None:
    x, message = VALUES[case]
    good = GOOD if isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.ndim == 2 else x
    if isinstance(good, np.ndarray) and good.shape == GOOD.shape:
        good = GOOD.astype(x.dtype)
    pair = (x, good) if name == "p" else (good, x)
    with pytest.raises(otd.InvalidDistribution) as error:
        otd.Problem(*pair)
    first = name if good is not x else "p"  # where both are bad, p is named
    assert str(error.value).startswith(first) and message in str(error.value)
    assert isinstance(error.value, ValueError) and isinstance(error.value, otd.DraftSelectionError)
    with pytest.raises(otd.InvalidDistribution, match=re.escape(str(error.value))):
        otd.optimal_acceptance(*pair)


PAIRS = {
    "length": (
        [1.0],
        [0.5, 0.5],
        "p and q must have one shape, got (1,) and (2,). Pass both over one vocabulary",
    ),
    "batch": (
        GOOD,
        GOOD[0],
        "p and q must have one shape, got (2, 3) and (3,). Pass one row of q per row of p",
    ),
    "kinds": (EXACT, GOOD, "p and q must be arrays of one kind, got Fractions and numpy float64. Convert one of them."),
    "types": (
        GOOD.astype(np.float32),
        GOOD,
        "p and q must have one dtype and one device, got numpy float32 and numpy float64. Convert one of them.",
    ),
}


@pytest.mark.parametrize("case", PAIRS)
def test_no_pair(case: str) -> None:
    p, q, message = PAIRS[case]
    with pytest.raises(otd.InvalidDistribution, match="^" + re.escape(message)):
        otd.Problem(p, q)


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    good = torch.tensor(GOOD)
    for bad, message in (
        (good.to(torch.float16), "q must have dtype float32, float64 or Fractions, got float16"),
        (good.to(torch.bfloat16), "ratios in half precision are not lossless"),
        (good.to(torch.int64), "q must have dtype float32, float64 or Fractions, got int64"),
        (GOOD, "p and q must be arrays of one kind, got torch float64 on cpu and numpy float64. Convert one of them."),
        (EXACT, "p and q must be arrays of one kind, got torch float64 on cpu and Fractions. Convert one of them."),
        (
            good.to(torch.float32),
            "p and q must have one dtype and one device, got torch float64 on cpu and torch float32 on cpu. Convert one of them.",
        ),
        (
            good.to("meta"),
            "p and q must have one dtype and one device, got torch float64 on cpu and torch float64 on meta. Convert one of them.",
        ),
        (torch.tensor(spoiled(np.nan)), "q row [1], token 2 must be finite, got nan"),
        (torch.tensor(spoiled(-0.25)), "q row [1], token 2 must be >= 0, got -0.25"),
        (torch.tensor(spoiled(0.25)), "q row [1] must sum to 1 (tolerance 1e-09), got 0.75"),
    ):
        with pytest.raises(otd.InvalidDistribution, match=re.escape(message)):
            otd.Problem(good, bad)


def test_whole_numbers_among_fractions_are_exact() -> None:
    problem = otd.Problem([F(1, 2), F(1, 2), 0], [0, 1, F(0)])
    assert {type(v) for v in [*problem.p, *problem.q]} == {F}


@pytest.mark.parametrize("k", [-1, True, 2.0, "2", None, F(2)])
def test_no_number_of_drafts(k: Any) -> None:
    with pytest.raises(otd.InvalidDrafts, match=re.escape(f"k must be an integer of at least 0, got {k!r}")):
        otd.Problem(GOOD, GOOD, k)


def test_numpy_integers_are_numbers_of_drafts() -> None:
    assert type(otd.Problem(GOOD, GOOD, np.int64(3)).k) is int


@pytest.mark.parametrize("law", ["iid", otd.IID, 3, otd.rules.KSeq()])
def test_no_law(law: Any) -> None:
    with pytest.raises(otd.InvalidDrafts, match=r"law must be a draft law, got .*\. Pass for example otd.IID\(\)"):
        otd.Problem(GOOD, GOOD, 2, law)


@pytest.mark.parametrize("k", [0, 1, 3])
def test_the_hub_has_two_drafts(k: int) -> None:
    message = re.escape(f"the hub law has k = 2 drafts, not {k}: {'take Hybrid(top=2)' if k == 3 else 'give k = 2'}")
    with pytest.raises(otd.InvalidDrafts, match=message):
        otd.Problem(GOOD, GOOD, k, otd.SpecHubLaw())
    with pytest.raises(otd.InvalidDrafts, match=message):
        otd.draw(otd.SpecHubLaw(), GOOD, k, np.random.default_rng(0))


@pytest.mark.parametrize("top", [-2, True, 1.0, None])
def test_no_number_of_top_tokens(top: Any) -> None:
    with pytest.raises(otd.InvalidArgument, match=re.escape(f"top must be an integer of at least -1, got {top!r}")):
        otd.Hybrid(top)


@pytest.mark.parametrize("token", [3, -2, 151_936])
def test_ids_outside_the_vocabulary(token: int, valued: Any) -> None:
    p, drafts = valued.make(EXACT), [[0, 1], [2, token]]
    generator = _generator(valued)
    message = f"drafts row [1], position 1: token must be in 0 .. 2, or -1 for an absent draft token, got {token}."
    with pytest.raises(otd.InvalidDrafts, match=re.escape(message)):
        otd.sample(otd.rules.KSeq(), p, p, valued.tokens(drafts), generator)


@pytest.mark.parametrize("dtype", [np.float64, np.bool_])
def test_drafts_that_are_no_integers(dtype: Any) -> None:
    with pytest.raises(otd.InvalidDrafts, match=f"drafts must be integer token ids, got dtype {np.dtype(dtype)}"):
        otd.sample(otd.rules.KSeq(), GOOD, GOOD, np.zeros((2, 2), dtype=dtype), np.random.default_rng(0))


def test_enumeration_out_of_reach() -> None:
    p = np.full(151_936, 1 / 151_936)
    message = r"number of draft tuples must be at most 4,194,304, got 151936\^2\. Use rule\.closed_form\(problem\)"
    with pytest.raises(otd.InvalidArgument, match=message):
        otd.evaluate(otd.rules.KSeq(), otd.Problem(p, p, 2))


def test_arrays_with_rules_of_their_own() -> None:
    matrix = GOOD.view(np.matrix)
    for x in (matrix, np.ma.MaskedArray(GOOD, mask=GOOD == 0)):
        with pytest.raises(
            otd.InvalidDistribution, match=f"^p must be a plain numpy.ndarray, got a {type(x).__name__}"
        ):
            otd.Problem(x, GOOD)
    torch = pytest.importorskip("torch")
    for bad in (torch.tensor(GOOD, requires_grad=True), torch.tensor(GOOD).to_sparse()):
        with pytest.raises(
            otd.InvalidDistribution, match=r"^q must be dense and without gradient, .* Pass q.detach\(\)"
        ):
            otd.optimal_acceptance(torch.tensor(GOOD), bad)


@pytest.mark.parametrize("k", [0, -1, True, 2.5, None])
def test_no_number_of_drafts_for_the_guarantee(k: Any) -> None:
    with pytest.raises(otd.InvalidDrafts, match=re.escape(f"k must be an integer of at least 1, got {k!r}")):
        otd.kseq_bound(k)
    assert otd.kseq_bound(np.int64(3)) == F(19, 27)


@pytest.mark.parametrize("token_set", [None, "ab", [0, 2], [0.1, 0.0, 1.0], [True], [[True] * 4], [[True] * 3] * 5])
def test_no_token_set(token_set: Any) -> None:
    with pytest.raises(
        otd.InvalidArgument, match=r"token_set must be bool|token_set and p must have shapes that broadcast"
    ):
        otd.cut_value(otd.Problem(GOOD, GOOD), token_set)


def test_token_sets_of_another_kind(valued: Any) -> None:
    torch = pytest.importorskip("torch")
    problem = otd.Problem(valued.make(EXACT), valued.make(EXACT))
    for token_set in ([True, False, True], np.array([True, False, True]), torch.tensor([True, False, True])):
        assert otd.cut_value(problem, token_set).tolist() == [1.25, 1.1875]


@pytest.mark.parametrize("k", [-1, True, 2.0])
def test_no_number_of_drafts_to_draw(k: Any) -> None:
    with pytest.raises(otd.InvalidDrafts, match=re.escape(f"k must be an integer of at least 0, got {k!r}")):
        otd.draw(otd.IID(), GOOD, k, np.random.default_rng(0))
    with pytest.raises(otd.InvalidDrafts, match="law must be a draft law, got 'iid'"):
        otd.draw("iid", GOOD, 2, np.random.default_rng(0))  # type: ignore[arg-type]


def test_generators_of_another_kind(valued: Any) -> None:
    torch = pytest.importorskip("torch")
    q = valued.make(EXACT)
    for generator in (None, 3, np.random.default_rng(0) if valued.is_torch else torch.Generator()):
        with pytest.raises(
            otd.InvalidArgument, match=f"generator must be a .*Generator, .*got a {type(generator).__name__}"
        ):
            otd.draw(otd.IID(), q, 2, generator)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32"])
def test_drafts_in_narrow_integers(dtype: str, valued: Any) -> None:
    p, drafts = valued.make(EXACT), [[0, 1], [2, 0]]
    narrow = valued.tokens(drafts)
    narrow = narrow.to(getattr(__import__("torch"), dtype)) if valued.is_torch else narrow.astype(dtype)
    for rule in (otd.rules.Greedy(), otd.rules.KSeq(), otd.rules.NaiveTarget()):
        wide, found = (otd.sample(rule, p, p, x, _generator(valued)) for x in (valued.tokens(drafts), narrow))
        assert [x.tolist() for x in found] == [x.tolist() for x in wide]
        assert {str(x.dtype).removeprefix("torch.") for x in found} == {"int64"}


def test_a_sample_of_shapes_that_do_not_fit() -> None:
    rule, generator = otd.rules.KSeq(), np.random.default_rng(0)
    with pytest.raises(otd.InvalidDrafts, match="got the single number 1"):
        otd.sample(rule, GOOD, GOOD, np.array(1), generator)
    for p, q, drafts in ((GOOD, GOOD[:, :2], [[0, 1]]), (GOOD, GOOD, [[0, 1]] * 3)):
        with pytest.raises(otd.InvalidDrafts, match=r"must have shapes that broadcast, got p \(2, 3\), q .*, drafts"):
            otd.sample(rule, p, q, np.array(drafts), generator)
    with pytest.raises(
        otd.InvalidDistribution,
        match=r"p and q must be arrays of one kind, got numpy float64 and Fractions. Convert one of them.",
    ):
        otd.sample(rule, GOOD, EXACT, np.array([[0, 1]]), generator)


NO_SELECTIONS: dict[str, Any] = {
    "nothing": lambda given: None,
    "a tuple": lambda given: (given.accept, given.residual),
    "lists": lambda given: otd.Selection(given.accept.tolist(), given.residual.tolist()),
    "accept of one draft": lambda given: otd.Selection(given.accept[..., :1], given.residual),
    "accept without drafts": lambda given: otd.Selection(given.accept[..., 0], given.residual),
    "too many tokens": lambda given: otd.Selection(given.accept, np.concatenate([given.residual] * 2, -1)),
    "complex": lambda given: otd.Selection(given.accept.astype(complex), given.residual),
    "text": lambda given: otd.Selection(given.accept.astype(str), given.residual),
}


@pytest.mark.parametrize("case", NO_SELECTIONS)
def test_rules_that_give_no_selection(case: str) -> None:
    def rule(p: Any, q: Any, drafts: Any) -> Any:
        return NO_SELECTIONS[case](otd.rules.KSeq()(p, q, drafts))

    message = r"^the rule must return otd.Selection\(accept, residual\) of numeric .* arrays like p, \(..., 2\) and \(..., 3\), got"
    with pytest.raises(otd.InvalidArgument, match=message):
        otd.evaluate(rule, otd.Problem(GOOD, GOOD))
    with pytest.raises(otd.InvalidArgument, match=message):
        otd.sample(rule, GOOD[0], GOOD[0], np.array([[0, 1], [1, 2], [0, 0]]), np.random.default_rng(0))


def test_a_rule_that_writes_into_its_arguments_changes_nothing(valued: Any) -> None:
    def rule(p: Any, q: Any, drafts: Any) -> Any:
        given = otd.rules.KSeq()(p, q, drafts)
        p[...], drafts[...] = q + 0, 0
        return given

    p, q = valued.make(EXACT), valued.make(EXACT[::-1].copy())
    found, right = (otd.evaluate(each, otd.Problem(p, q)) for each in (rule, otd.rules.KSeq()))
    assert (p == valued.make(EXACT)).all()
    assert (found.output == right.output).all() and found.lossless


def _generator(kind: Any) -> Any:
    if kind.is_torch:
        import torch

        return torch.Generator().manual_seed(0)
    return np.random.default_rng(0)


def test_an_argument_is_no_draft() -> None:
    """Who catches the one does not catch the other; what asks for a name is told by the right one."""
    assert not issubclass(otd.InvalidArgument, otd.InvalidDrafts)
    import click

    from ot_draft.cli.plan import path_rule
    from ot_draft.data.tables import _title

    assert _title("no law") == "no law"
    with pytest.raises(click.UsageError, match=r"got 'unheard'\. Use one of"):
        path_rule("unheard")
    for k, known in ((1, False), (2, True), (3, False)):
        assert is_defined(otd.SpecHubLaw(), k) is known


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda problem: otd.evaluate(otd.rules.KSeq, problem),
            "rule must be an instance of a selection rule, got <class 'ot_draft.rules.k_seq",
        ),
        (
            lambda problem: otd.evaluate(None, problem),
            "rule must be an instance of a selection rule, got None. Pass for example otd.rules.KSeq().",
        ),
        (
            lambda problem: otd.evaluate(otd.rules.KSeq(), problem.p),
            "problem must be an otd.Problem, got a ndarray. Pass otd.Problem(p, q, k, law).",
        ),
        (
            lambda problem: otd.solve(problem.p),
            "problem must be an otd.Problem, got a ndarray. Pass otd.Problem(p, q, k, law).",
        ),
        (lambda problem: otd.solve(problem.p, "flow"), "problem must be an otd.Problem, got a ndarray"),
        (
            lambda problem: otd.sample(otd.rules.KSeq, problem.p, problem.q, np.array([0]), None),
            "rule must be an instance of a selection rule, got <class",
        ),
    ],
)
def test_what_is_no_rule_or_no_problem(call: Callable[[otd.Problem], object], message: str) -> None:
    with pytest.raises(otd.DraftSelectionError, match=re.escape(message)):
        call(otd.Problem([0.5, 0.5], [0.25, 0.75], 1))
