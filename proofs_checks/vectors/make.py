"""Construction of the vectors: the output of each rule in Fractions, and the faults that it detects, by fault injection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import Any

from .chance import Law, Recorded, Row, law_of
from .faults import FAULTS, injected_in, right
from .problems import RandomNumbers, Source, Written, categories_of, filled, large, numbers_for, plain, shape
from .rules import GUMBEL, Case, Outcome, chain, checked
from .runs import runs_for

Vector = dict[str, Any]
NEAR, NEAR_LARGE = 2.0**-10, 2.0**-21  # min. margin of a decision, except for boundary categories
PER_CATEGORY, PER_FAULT = 3, 4  # vectors per category; min. number per fault, if found
TRIES, LARGE_TRIES, MORE_TRIES = 12, 3, 400
MOST_RUNS, MOST_OUTCOMES = 20_000, 60
LAWS = 40  # cases from which vectors of the levels distribution and joint are chosen


def hexadecimal(value: Any) -> str:
    """The shortest hexadecimal float: 0x1.8p-2."""
    number = float(value)
    if number != number:
        return "nan"
    digits, _, power = number.hex().partition("p")
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits}p{int(power)}"


def text_of(row: Row) -> str:
    """A row in the format of a vector."""
    return " ".join(map(hexadecimal, row))


def in_floats(case: Case) -> Case:
    """The case in float64, as in a reader."""
    p = tuple([float(mass) for mass in row] for row in case.p)
    q = None if case.q is None else tuple([float(mass) for mass in row] for row in case.q)
    return replace(case, p=p, q=q)


def outcome_of(program: Callable[[Case, Any], Outcome], case: Case, numbers: RandomNumbers, rule: str) -> Any:
    """A program's outcome in floats, or the name of its error."""
    floats = [float(u) for u in numbers.uniforms]
    noise = [[float(x) for x in row] for row in numbers.noise]
    try:
        return tuple(program(case, Recorded(floats, noise, rule in GUMBEL)))
    except (ArithmeticError, ValueError, LookupError) as error:
        return type(error).__name__


def replay(rule: str, source: Source, written: Written) -> Vector | None:
    """A vector of the level replay, or None if the margin of a decision is too small."""
    numbers, case = numbers_for(source, rule, written), written.case
    expected: tuple[Outcome, ...] = written.allowed
    if not expected:
        chance = Recorded(numbers.uniforms, numbers.noise, rule in GUMBEL, written.edge)
        expected = (tuple(right(rule, False)(checked(case), chance)),)
        if chance.margin < (NEAR_LARGE if written.texts else NEAR):
            return None
        if outcome_of(right(rule, False), in_floats(case), numbers, rule) != expected[0]:
            return None  # float64 rounding changes a decision
    floats = in_floats(case)
    detects = [name for name, program in injected_in(rule, False).items()
             if outcome_of(program, floats, numbers, rule) not in expected]  # fmt: skip
    p, q = written.texts or (tuple(map(text_of, case.p)), tuple(map(text_of, case.q or ())))
    return {
        "level": "replay", "category": written.category, "tokens": case.n, "p": list(p), "q": None if case.q is None else list(q),
        "drafts": list(case.drafts), "parents": list(case.parents), "uniforms": text_of(numbers.uniforms),
        "noise": list(numbers.texts or map(text_of, numbers.noise)), "expected": [list(each) for each in expected],
        "error_allowed": bool(written.allowed), "detects": detects,
    }  # fmt: skip


def replays(rule: str) -> list[Vector]:
    """Vectors of every category, preferring rarely detected faults; then more vectors for faults that few detect."""
    source, shown, kept = Source(f"replay {rule}"), Counter[str](), []
    for make in categories_of(rule):
        number = LARGE_TRIES if make is large else TRIES
        tries = [vector for _ in range(number) if (vector := replay(rule, source, make(source, rule)))]
        for _ in range(PER_CATEGORY):
            if tries:
                best = max(tries, key=lambda vector: sum(1 / (1 + shown[name]) ** 2 for name in vector["detects"]))
                tries.remove(best)
                shown.update(best["detects"])
                kept.append(best)
    for name in injected_in(rule, False):
        for vector in _showing(rule, source, name):
            if shown[name] >= PER_FAULT:
                break
            shown.update(vector["detects"])
            kept.append(vector)
    return kept


def _showing(rule: str, source: Source, fault: str) -> Iterator[Vector]:
    """Vectors that detect a fault."""
    makes = [make for make in categories_of(rule) if make is not large]
    for number in range(MORE_TRIES):
        vector = replay(rule, source, makes[number % len(makes)](source, rule))
        if vector and fault in vector["detects"]:
            yield vector


def lawful(rule: str, source: Source, drafts: bool) -> Written:
    """A case small enough to enumerate: few tokens, at most two draft tokens."""
    if not drafts:
        return plain(source, rule, 2)
    parents = (
        shape(source, rule, 2)
        if rule in ("k-seq", "recursive-rejection", "recursive-rejection-distinct")
        else chain(*range(1 + source.below(2)))
    )
    if len(parents) == 2 and rule not in ("vllm-v2-block", "k-seq") and "rejection" in rule:
        parents = (-1, -1)
    n = 3 + source.below(2)
    row: Callable[[], list[Fraction]] = (lambda: source.law(n)) if source.below(2) else (lambda: _steep(source, n))
    case = filled(source, rule, parents, n, lambda node: (row(), row()))
    return Written("plain", replace(case, drafts=()))


def _steep(source: Source, n: int) -> list[Fraction]:
    """A distribution with one very probable token."""
    heavy = source.below(n)
    return [Fraction(64 - 2 * (n - 1), 64) if token == heavy else Fraction(2, 64) for token in range(n)]


def laws_of(rule: str, case: Case, drafts: bool) -> tuple[Law, dict[str, Law]]:
    """The output distribution of the rule, and that with each fault that can be enumerated."""
    law = law_of(lambda chance: right(rule, drafts)(case, chance))
    wrong = {}
    for name, program in injected_in(rule, drafts).items():
        try:
            wrong[name] = law_of(lambda chance, program=program: program(case, chance))  # type: ignore[misc]
        except (
            AttributeError,
            ArithmeticError,
            LookupError,
        ):  # it reads the random numbers themselves, or divides by 0
            continue
    return law, wrong


def laws(rule: str, drafts: bool) -> list[Vector]:
    """Vectors of the levels distribution and joint: for each fault, the cases that detect it in the fewest runs."""
    source = Source(f"{'joint' if drafts else 'law'} {rule}")  # seeds; another text changes all vectors
    tried: list[tuple[Case, Law, dict[str, float]]] = []
    for _ in range(LAWS):
        case = lawful(rule, source, drafts).case
        law, wrong = laws_of(rule, case, drafts)
        if len(law) <= MOST_OUTCOMES:
            tried.append((case, law, {name: runs_for(law, other) for name, other in wrong.items()}))
    chosen: dict[int, int] = {}
    for name in injected_in(rule, drafts):
        order = sorted(range(len(tried)), key=lambda index: (tried[index][2].get(name, inf), index))
        for index in order[:PER_CATEGORY]:
            runs = tried[index][2].get(name, inf)
            if runs <= MOST_RUNS:
                chosen[index] = max(chosen.get(index, 0), int(runs))
    return [law_vector(*tried[index], runs, drafts) for index, runs in sorted(chosen.items())]


def law_vector(case: Case, law: Law, needed: dict[str, float], runs: int, drafts: bool) -> Vector:
    """A vector of the level distribution or joint, with all faults that it detects in `runs` runs."""
    size = len(case.parents)
    kept = sum(mass * (len(outcome) - drafts * size - 1) for outcome, mass in law.items())
    return {
        "level": "joint" if drafts else "distribution", "category": "plain", "tokens": case.n, "p": list(map(text_of, case.p)),
        "q": None if case.q is None else list(map(text_of, case.q)), "drafts": list(case.drafts), "parents": list(case.parents),
        "distribution": [[list(outcome), f"{mass.numerator}/{mass.denominator}"] for outcome, mass in law.items()],
        "accepted": f"{Fraction(kept).numerator}/{Fraction(kept).denominator}", "runs": runs,
        "detects": [name for name, each in needed.items() if each <= runs],
    }  # fmt: skip


def vectors_of(rule: str) -> list[Vector]:
    """All vectors of a rule, with their ids."""
    found = replays(rule)
    found += laws(rule, False) if rule != "greedy" else []
    found += laws(rule, True) if any(rule in each.programs and each.drafts for each in FAULTS.values()) else []
    return [{"id": f"{rule}-{number:03}", **vector} for number, vector in enumerate(found, 1)]
