"""Test a verifier with test vectors: python read.py FOLDER module:function [RULE ...]. Standard library only; copy this file.

function(rule, case, numbers) returns the emitted tokens. case: {"p": rows, "q": rows or None, "drafts": tokens, "parents": indices}.
numbers: at the level replay {"uniforms": [..], "noise": rows}; at distribution and joint an integer, the seed of one run. At joint,
drafts is empty: sample a token for each entry of parents from the row of q at its parent; return draft tokens, then emitted tokens.
An exception fails the vector, unless `error_allowed`. `convention` of a file states which number its rule uses where.
"""

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from math import inf, log
from operator import index
from pathlib import Path
from typing import Any

__all__ = ["ALARM", "kl", "row"]

LEVELS = ("replay", "distribution", "joint")
ALARM = 1e-6  # max. probability that a right function fails one vector of the levels distribution and joint


@lru_cache(maxsize=64)
def row(text: str, n: int) -> list[float]:
    """Numbers of a row: hexadecimal floats, or `masses:SEED:SHIFT` and `noise:SEED` from a linear congruential generator."""
    kind, *given = text.split(":")
    if not given:
        return [float.fromhex(each) for each in text.split()]
    states, x = [], int(given[0])
    for _ in range(n):
        x = (1664525 * x + 1013904223) % 2**32
        states.append(x)
    if kind == "noise":
        return [((x >> 8) + 1) / 2**24 for x in states]
    masses = [x >> int(given[1]) for x in states]
    masses[int(given[0]) % n] += 2**24 - sum(masses)  # the sum is exactly 1; partial sums are exact in float32
    return [mass / 2**24 for mass in masses]


def case_of(vector: dict[str, Any]) -> dict[str, Any]:
    """The argument `case` of the function."""
    p, q = (vector[name] and [list(row(each, vector["tokens"])) for each in vector[name]] for name in "pq")
    return {"p": p, "q": q, "drafts": list(vector["drafts"]), "parents": list(vector["parents"])}


def kl(a: float, b: float) -> float:
    """Kullback-Leibler divergence of Bernoulli distributions with probabilities a and b."""
    return sum(x * log(x / y) if y else inf for x, y in ((a, b), (1 - a, 1 - b)) if x)


def replayed(function: Callable[..., Any], rule: str, vector: dict[str, Any]) -> str | None:
    """Description of the failure of one replay, or None."""
    uniforms, *noise = (list(row(each, vector["tokens"])) for each in (vector["uniforms"], *vector["noise"]))
    try:
        given = list(map(index, function(rule, case_of(vector), {"uniforms": uniforms, "noise": noise})))
    except (Exception, SystemExit) as error:
        return None if vector["error_allowed"] else f"crashed, {type(error).__name__}: {error}"
    wanted = " or ".join(map(str, vector["expected"]))
    return None if given in vector["expected"] else f"gave {given}, expected {wanted}"


def counted(function: Callable[..., Any], rule: str, vector: dict[str, Any]) -> str | None:
    """Description of the failure in `runs` runs, or None. Chernoff's bound compares frequency and probability of each outcome."""
    expected = {tuple(tokens): float(Fraction(mass)) for tokens, mass in vector["distribution"]}
    seen, runs = dict.fromkeys(expected, 0), vector["runs"]
    for number in range(runs):
        try:
            given = tuple(map(index, function(rule, case_of(vector), number)))
        except (Exception, SystemExit) as error:
            return f"crashed, {type(error).__name__}: {error}"
        if given not in seen:
            return f"gave {list(given)} in run {number}, which has probability 0"
        seen[given] += 1
    for tokens, mass in expected.items():
        if runs * kl(seen[tokens] / runs, mass) > log(2 * len(expected) / ALARM):
            return f"gave {list(tokens)} in {seen[tokens]} of {runs} runs, expected {mass:.4f} of them"
    return None


def failures(
    function: Callable[..., Any], folder: str | Path, rules: Sequence[str] = (), levels: Sequence[str] = LEVELS
) -> Iterator[tuple[str, str | None]]:
    """Yield (id, failure or None) of every vector of these rules, or of all rules if none is given."""
    for file in sorted(Path(folder).glob("*.json")):
        corpus = json.loads(file.read_text())
        for vector in corpus.get("vectors", ()):
            if (not rules or corpus["rule"] in rules) and vector["level"] in levels:
                check = replayed if vector["level"] == "replay" else counted
                yield vector["id"], check(function, corpus["rule"], vector)


if __name__ == "__main__":
    module, _, name = sys.argv[2].partition(":")
    sys.path.insert(0, ".")
    outcomes = list(failures(getattr(importlib.import_module(module), name), sys.argv[1], sys.argv[3:]))
    bad = [f"{vector}: {wrong}" for vector, wrong in outcomes if wrong]
    sys.exit("\n".join(bad) or not outcomes or print(f"{len(outcomes)} vectors, none failed"))
