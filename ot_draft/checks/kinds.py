"""Properties across kinds of arrays: Fractions, numpy in float64 and float32, torch, torch's meta device."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from ..arrays import Array, to_host
from ..exact import Evaluation, evaluate
from ..problem import Problem
from ..selection import SelectionRule
from .calls import tuples_of
from .engine_sizes import large_problems_of
from .rule_property import IN_FLOATS, as_floats, rule_property, small_problems_of, without_torch
from .source import Counterexample, drafts_shown, numbers

# Largest distance of output laws, and of acceptances: parameters are rounded towards validity, which costs acceptance.
TOLERANCES = {"float64": (1e-9, 1e-5), "float32": (1e-4, 1e-3)}
ROWS = 8  # draft tuples of one call
IN_TORCH = IN_FLOATS.replace(
    "problem.p.astype(np.float64), problem.q.astype(np.float64)",
    "(torch.tensor(x.astype(np.float64)) for x in (problem.p, problem.q))",
)
ON_META = (
    'p, q = (torch.tensor(x.astype(np.float32), device="meta") for x in (problem.p, problem.q))\n'
    'selection = rule(p, q, torch.zeros(problem.k, dtype=torch.int64, device="meta"))\n'
    "print(selection.accept.device, selection.residual.device)"
)


@rule_property(cases=small_problems_of, shows=IN_FLOATS)
def floats_agree(rule: SelectionRule, problem: Problem) -> None:
    """Output law and acceptance in floats are the exact ones up to rounding, in float64 and in float32, which stay what they are."""
    exact = evaluate(rule, problem)
    for dtype in ("float64", "float32"):
        result = evaluate(rule, as_floats(problem, dtype))
        _compare(problem, result, exact, dtype, f"numpy {dtype}", IN_FLOATS.replace("float64", dtype))


@rule_property(cases=small_problems_of, reason_to_skip=without_torch, shows=IN_TORCH)
def torch_agrees(rule: SelectionRule, problem: Problem) -> None:
    """On torch tensors, too, output law and acceptance are the exact ones up to rounding, in float64 and in float32."""
    exact = evaluate(rule, problem)
    for dtype in ("float64", "float32"):
        case = as_floats(problem, dtype)
        tensors = Problem(_tensor(case.p), _tensor(case.q), problem.k, problem.law)
        shows = IN_TORCH.replace("float64", dtype)
        _compare(problem, evaluate(rule, tensors), exact, dtype, f"torch {dtype}", shows)


def _compare(problem: Problem, result: Evaluation, exact: Evaluation, dtype: str, kind: str, shows: str) -> None:
    for name, values in (("accept", result.accept), ("output", result.output)):
        returned = str(values.dtype).removeprefix("torch.")
        if returned != dtype:
            raise Counterexample(
                problem, f"{kind} in, {name} in {returned} out", shows + "\nprint(result.output.dtype)"
            )
    near_law, near_acceptance = TOLERANCES[dtype]
    output, wanted = (to_host(x).astype(np.float64) for x in (result.output, exact.output))
    if not abs(output - wanted).sum() <= 2 * near_law:
        raise Counterexample(problem, f"{kind}: output law {numbers(output)} instead of {numbers(wanted)}", shows)
    if not abs(float(result.acceptance) - float(exact.acceptance)) <= near_acceptance:
        seen = f"{kind}: acceptance {float(result.acceptance)} instead of {float(exact.acceptance)}"
        raise Counterexample(problem, seen, shows + '\nprint("acceptance:", result.acceptance)')


def _needs_values(rule: SelectionRule) -> str:
    return without_torch(rule) or ("solves a program on the host, which needs values" if rule.solves else "")


def shapes_of(rule: SelectionRule) -> list[Problem]:
    """One problem of each shape: what happens on the meta device cannot depend on values."""
    masses = np.array([Fraction(1, 3)] * 3, dtype=object)
    return [Problem(masses, masses, k, rule.law) for k in (1, 2, 3) if rule.law.is_defined(k)]


@rule_property(cases=shapes_of, reason_to_skip=_needs_values, shows=ON_META)
def no_host_sync(rule: SelectionRule, problem: Problem) -> None:
    """The rule asks for no value and makes no array on another device: it runs on torch's meta device."""
    import torch

    p, q = (_tensor(x.astype(np.float32)).to("meta") for x in (problem.p, problem.q))
    selection = rule(p, q, torch.zeros(problem.k, dtype=torch.int64, device="meta"))
    for name, values in (("accept", selection.accept), ("residual", selection.residual)):
        if values.device.type != "meta" or values.dtype != p.dtype:
            seen = f"{name} is {values.dtype} on {values.device}; p is {p.dtype} on {p.device}"
            raise Counterexample(problem, seen, ON_META)


@rule_property(cases=large_problems_of, most=60, category="arguments", large=True)
def inputs_unchanged(rule: SelectionRule, problem: Problem) -> None:
    """p, q and drafts are left as they were: Fractions, float64, and torch where it is installed."""
    tuples = tuples_of(problem)
    if tuples is None:
        return
    drafts, case = tuples[0][0][:ROWS], as_floats(problem)
    calls = [(problem.p, problem.q, drafts), (case.p, case.q, drafts)]
    if not without_torch(rule):
        calls.append((_tensor(case.p), _tensor(case.q), _tensor(drafts)))
    for arrays in calls:
        before = [np.array(to_host(x)) for x in arrays]
        rule(*arrays)
        for name, x, old in zip(("p", "q", "drafts"), arrays, before, strict=True):
            if not np.array_equal(to_host(x), old):
                raise Counterexample(problem, f"{name} was {numbers(old)} and is {numbers(to_host(x))}", _again(drafts))


def _again(drafts: Array) -> str:
    return drafts_shown(drafts) + '\nprint("p:", *problem.p, " q:", *problem.q, " drafts:", *drafts)'


def _tensor(x: Array) -> Any:
    import torch

    return torch.tensor(x)
