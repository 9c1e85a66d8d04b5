"""The bridge between the formal proofs and the library: results of the rules in Fractions, written as files for Coq.

`python -m proofs_checks.formal.bridge` writes the files of cases in computed/ again; bridge.v, bridge_hybrid.v, bridge_paths.v,
bridge_trees.v, bridge_drafting.v, bridge_levels.v and bridge_optimum.v compute the same over Coq's rationals and show that all numbers
are equal: averages, and the decision of a rule for every tuple of drafts.
`difference` compares the committed files with the current library.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np

import ot_draft as otd

from . import bridge_drafting, bridge_levels, bridge_optimum, bridge_paths, bridge_trees
from .bridge_optimum import CASES, problem
from .coq_text import Definition, NumbersFile, entries, number, numbers

FOLDER = Path(__file__).parent / "computed"


def rules(factor: Fraction) -> tuple[otd.SelectionRule, ...]:
    """Return the rules that are formalised, in the order of bridge.v; each is evaluated under its own draft law."""
    return (
        otd.rules.NaiveTarget(),
        otd.rules.SpeculativeSampling(),
        otd.rules.RecursiveRejection(),
        otd.rules.RecursiveRejectionWithoutReplacement(),
        otd.rules.KSeq(factor=factor),
        otd.rules.Optimal(),
    )


def judged(rule: otd.SelectionRule, p: list[Fraction], q: list[Fraction], k: int) -> str:
    """Return output distribution and acceptance, and for every draft tuple that can occur its probability, accept_i and the whole row."""
    found = otd.evaluate(rule, otd.Problem(p, q, k, law=rule.law))
    rows = [f"({numbers(found.output.tolist())}, {numbers([found.acceptance])})"]
    target, draft = (np.array(masses, dtype=object) for masses in (p, q))
    for drafts in product(range(len(p)), repeat=k):
        tokens = np.array(drafts)
        probability = Fraction(np.ravel(rule.law.probability(draft, tokens))[0])
        if probability:
            selection = rule(target, draft, tokens)
            decided = [probability, *selection.accept.tolist()]
            rows.append(f"({numbers(decided)}, {numbers(selection.output(tokens).tolist())})")
    return entries(rows)


def case(index: int) -> str:
    """Return one case in Coq's notation, one rule per line."""
    p, q, k, factor = problem(index)
    given = entries((judged(rule, p, q, k) for rule in rules(factor)), indent=4)
    return f"({numbers(p)}, {numbers(q)}, {k}%nat, {number(factor)},\n   {given})"


def hybrid_cases() -> Iterator[str]:
    """Yield optimal selection of hybrid drafts on the same problems: every number of top tokens that leaves a draw with mass."""
    for index in range(CASES):
        p, q, k, _ = problem(index)
        for top in range(1, k):
            law = otd.Hybrid(top=top)
            tops = [token for token in law.fixed_drafts(np.array(q, dtype=object), k).tolist() if token >= 0]
            if len(tops) == top and sum(q) > sum(q[token] for token in tops):
                rule = otd.rules.Optimal(law=law)
                fixed = f"{entries(map(str, tops))}%nat"
                yield f"({numbers(p)}, {numbers(q)}, {fixed}, {k - top}%nat,\n   {judged(rule, p, q, k)})"


ROWS = "list (list Q * list Q)"
ABOUT = """Written by `python -m proofs_checks.formal.bridge`: small problems, and what the rules do on them in Fractions.

   A case is ({}, and for {}: (output law, [acceptance]) as otd.evaluate gives them, and then
   for every tuple of drafts that can occur, in lexicographic order, (its probability and accept_i, the law of what is emitted))."""
FILES = (
    NumbersFile(
        FOLDER / "bridge_cases.v",
        ABOUT.format("p, q, k, factor of K-SEQ", "each rule, in the order of bridge.v"),
        (Definition("cases", f"list Q * list Q * nat * Q * list ({ROWS})", lambda: map(case, range(CASES))),),
    ),
    NumbersFile(
        FOLDER / "bridge_hybrid_cases.v",
        ABOUT.format("p, q, the given tokens, the number of draws", "optimal selection"),
        (Definition("hybrid_cases", f"list Q * list Q * list nat * nat * {ROWS}", hybrid_cases),),
    ),
    bridge_paths.FILE,
    bridge_trees.FILE,
    bridge_drafting.FILE,
    bridge_levels.FILE,
    bridge_optimum.FILE,
)


NAMES = tuple(file.path.stem for file in FILES)


def difference(*names: str) -> str:
    """Return the first difference between the committed files, or those of these names, and the library; "" if there is none."""
    chosen = (file for file in FILES if not names or file.path.stem in names)
    return next(filter(None, (file.difference() for file in chosen)), "")


if __name__ == "__main__":
    for file in FILES:
        file.write()
