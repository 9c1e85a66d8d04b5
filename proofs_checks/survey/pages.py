"""Results of the survey, as rows, as a record with its whole reasoning, and in four formats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod
from operator import attrgetter
from textwrap import fill
from typing import Any

from .. import branches
from .evaluation import Evaluation, on_real
from .record import ENGINE, LOSSY, METHOD, NOT_LOSSLESS, Form, Work
from .verifiers import OPTIMUM

Evaluated = Sequence[tuple[Work, list[Evaluation]]]
ABOUT = attrgetter("paper", "code", "read", "claim", "cost", "remarks")
HEADS = ("work", "claim", "rule", "when", "verdict", "counterexample", "share of the optimum", "cost")
TABLES = {ENGINE: "Engines you may be running", METHOD: "Methods you may be citing", LOSSY: "Lossy by design"}


def rows(evaluated: Evaluated) -> list[tuple[str, ...]]:
    """One row a rule, in the order of HEADS, and one for what is undecided."""
    found: list[tuple[str, ...]] = []
    for work, every in evaluated:
        said = ((one.form.name, one.form.when, verdict(work, one), example(one), share(one)) for one in every)
        found += [(work.title, work.claim, *each, work.cost) for each in said]
        found += [
            (work.title, work.claim, rule, "", f"undecided: {why}", "", "", work.cost) for rule, why in work.undecided
        ]
    return found


def verdict(work: Work, one: Evaluation) -> str:
    if not one.sound:
        return f"NOT AS RECORDED: {one.verdict}"
    if one.verdict == NOT_LOSSLESS:
        return "not lossless, by design" if by_design(work, one) else NOT_LOSSLESS
    return one.verdict


def by_design(work: Work, one: Evaluation) -> bool:
    return work.on_purpose or one.form.on_purpose


def example(one: Evaluation) -> str:
    """The counterexample: the case and the total variation of the text."""
    return "" if one.example is None else f"{one.example.case}: total variation {one.example.total_variation}"


def share(one: Evaluation) -> str:
    """Worst share on small cases, mean on real pairs; of a rule that is not lossless, acceptance there and after its repair."""
    found, again = on_real(one.form.verifier), on_real(one.form.repair)
    real = "" if found is None else f"real pairs: {found[0]:.3f} of {found[1]:.3f}"
    if one.verdict == NOT_LOSSLESS:
        return real + (f", repaired {again[0]:.3f}" if real and again else "")
    beside = one.form.verifier.beside
    if not beside:
        return "nothing to compare with"
    worst = f"worst {float(one.worst.share):.3f}" + ("" if beside == OPTIMUM else f" of {beside}")
    return worst + (f"; {real}" if real else "")


MANY = 48  # texts that a record no longer lists
CASE = ("p", "q", "k", "total variation", "code")
SAID = {"lossless": "yes", NOT_LOSSLESS: "no", f"{NOT_LOSSLESS}, by design": "no, by design"}
SHORT = ("work", "rule", "when", "lossless")
ACCEPTS = ("worst", "real pairs", "repaired")


def case(one: Evaluation) -> tuple[str, ...]:
    """The counterexample in cells, those of CASE."""
    if one.example is None:
        return ("",) * len(CASE)
    laws = ("; ".join(", ".join(map(str, row)) for row in rows) for rows in (one.example.case.p, one.example.case.q))
    seen, _, _ = one.form.seen.replace(",", ":").partition(":")
    return (*laws, str(one.example.case.k), str(one.example.total_variation), seen)


def short_rows(evaluated: Evaluated) -> list[tuple[str, ...]]:
    """One row a rule, in the order of SHORT, ACCEPTS and CASE."""
    made = []
    for work, every in evaluated:
        for one in every:
            found, again = on_real(one.form.verifier), on_real(one.form.repair)
            beside, holds = one.form.verifier.beside, one.verdict != NOT_LOSSLESS
            worst = f"{float(one.worst.share):.3f}{'' if beside == OPTIMUM else ' †'}" if beside and holds else ""
            cells = [worst, f"{found[0]:.3f} of {found[1]:.3f}" if found and (beside or not holds) else ""]
            cells += [f"{again[0]:.3f}" if found and again and not holds else ""]
            said = SAID.get(verdict(work, one), verdict(work, one))
            made.append((work.title, one.form.name, one.form.when, said, *cells, *case(one)))
        for rule, _ in work.undecided:
            made.append((work.title, rule, "", "undecided", *("",) * len(ACCEPTS + CASE)))
    return made


def short(form: str, evaluated: Evaluated) -> str:
    """A table for engines, one for methods, one for what is lossy by design; what they accept; the counterexamples; what is undecided."""
    parts, every = [], list[tuple[str, ...]]()
    for kind, title in TABLES.items():
        table = short_rows([(work, forms) for work, forms in evaluated if work.kind == kind])
        every += table
        if table:
            parts += [heading(form, title), shown(form, SHORT, [row[: len(SHORT)] for row in table])]
    start, stop = len(SHORT), len(SHORT + ACCEPTS)
    accepts = [(*row[:2], *row[start:stop]) for row in every if any(row[start:stop])]
    against = [(*row[:2], *row[stop:]) for row in every if row[stop]]
    for title, heads, table in (
        ("What they accept", ACCEPTS, accepts),
        ("The smallest counterexamples", CASE, against),
    ):
        if table:
            parts += [heading(form, title), shown(form, (*SHORT[:2], *heads), table)]
    return "\n\n".join([*parts, *filter(None, [undecided(evaluated)])])


def heading(form: str, title: str) -> str:
    return {"markdown": f"### {title}", "latex": rf"\subsection*{{{title}}}"}.get(form, title)


def undecided(evaluated: Evaluated) -> str:
    """A line of a list for every rule that has no verdict, and why."""
    lines = (f"* {work.title}, {rule}: undecided: {why}" for work, _ in evaluated for rule, why in work.undecided)
    return "\n".join(fill(line, 116, subsequent_indent="  ") for line in lines)


def in_two(form: str, heads: Sequence[str], table: Sequence[Sequence[str]], named: int) -> str:
    """Verdicts, and then the counterexamples of what is not lossless: the last cells of the rows, without code.

    named: how many cells name a row.
    """
    verdicts = shown(form, heads, [row[: len(heads)] for row in table])
    against = [(*row[:named], *row[len(heads) : len(heads) + 4]) for row in table if row[len(heads)]]
    return f"{verdicts}\n\n{shown(form, (*heads[:named], *CASE[:4]), against)}"


def law(texts: Any) -> str:
    """A law of texts: 00: 1/2, 01: 1/3, ..; of many texts only how many."""
    if len(texts) > MANY:
        return f"{len(texts)} texts"
    return ", ".join(f"{''.join(map(str, text))}: {mass}" for text, mass in sorted(texts.items()))


def worked(one: Evaluation) -> str:
    """The example by hand: the text that gains most, with every way in which it comes out."""
    result, program = one.example, one.form.by_hand
    assert result is not None and program is not None
    gains = {text: mass - result.expected.get(text, 0) for text, mass in result.emitted.items()}
    text = max(gains, key=lambda each: (gains[each], each))
    ways = []
    for tokens, factors in branches.branches(program, result.case.target, result.case.draft, result.case.k):
        rest = branches.continued(tokens[: len(text)], result.case.target, len(text)).get(text, 0)
        parts = [factor for factor in (*factors, rest) if factor != 1]
        if prod(parts):
            ways.append("·".join(map(str, parts)) or "1")
    shown = "".join(map(str, text))
    return f"{shown} comes out with {' + '.join(sorted(ways))} = {result.emitted[text]}; the target gives it {result.expected.get(text, 0)}"


def note(work: Work, one: Evaluation) -> list[str]:
    """Five lines for the authors of a rule that is not lossless."""
    result, again = one.example, one.repaired
    assert result is not None
    before, after = on_real(one.form.verifier), on_real(one.form.repair)
    real = f"; on 32 real pairs {before[0]:.3f} -> {after[0]:.3f}" if before and after else ""
    what = f"{work.title}, {one.form.name} ({source(work, one.form)})"
    said = ", as the work itself says" if by_design(work, one) else ""
    cost = f"{result.accepted} -> {again.accepted} accepted in the example{real}" if again else "undecided"
    seen = f"; {one.form.seen}" if one.form.seen else ""
    mended = f"; its authors repaired it: {one.form.mended}" if one.form.mended else ""
    return [
        f"1. {what}: the text does not have the target's law{said}{seen}.",
        f"2. By hand, {result.case}: {worked(one)} (total variation {result.total_variation}).",
        f"3. The line: {one.form.line}.",
        f"4. The smallest repair: {one.form.fix}; the law is then exact in every case tried{mended}.",
        f"5. What it costs: {cost}.",
    ]


def source(work: Work, form: Form) -> str:
    """Where a form was read."""
    return form.code or work.code or work.paper


def record(work: Work, reasoning: str, every: list[Evaluation]) -> str:
    """Everything about one work, in words; reasoning: what its file says."""
    lines = [f"{work.title} ({work.name})", "", reasoning, ""]
    said = zip(("source", "code", "read", "claim", "cost", "note"), ABOUT(work), strict=True)
    lines += [f"{what}: {words}" for what, words in said if words]
    lines += [f"undecided: {rule}: {why}" for rule, why in work.undecided]
    for one in every:
        result, form = one.example, one.form
        lines += ["", f"{form.name}: {verdict(work, one).upper()}", f"  rests on: {form.rests_on}"]
        about = (
            ("when", form.when),
            ("code", form.code),
            ("seen", form.seen),
            ("repaired by its authors", form.mended),
        )
        lines += [f"  {what}: {words}" for what, words in about if words]
        lines += [f"  tried: {one.cases} cases: {one.tried}", f"  share of the optimum: {share(one) or '-'}"]
        lines += [
            f"  injected: {error}: {'detected' if found else 'NOT DETECTED'}" for error, found in one.detected.items()
        ]
        if result is None:
            lines += [f"  least share at {one.worst.case}"] if one.worst.share != 1 else []
            continue
        lines += [
            f"  example: {result.case}",
            f"  emitted {law(result.emitted)}",
            f"  expected     {law(result.expected)}",
        ]
        lines += [f"  independent enumeration: {'the same law' if one.confirmed else 'NOT CONFIRMED'}"]
        for known, (found, agrees) in zip(form.known, one.known, strict=True):
            which = f"{known.case}{f', {known.what}' if known.what else ''}"
            lines += [f"  also: {which}: total variation {found.total_variation}{'' if agrees else ' NOT AS RECORDED'}"]
        lines += ["  for the authors:", *(f"  {line}" for line in note(work, one))] if one.sound else []
    return "\n".join(lines)


def as_data(evaluated: Evaluated) -> list[dict[str, Any]]:
    """One entry a rule, its numbers in Fractions as texts."""
    found: list[dict[str, Any]] = []
    for work, every in evaluated:
        for one, row in zip(every, rows([(work, every)]), strict=False):
            entry: dict[str, Any] = {"rests on": one.form.rests_on, "real": on_real(one.form.verifier)}
            entry |= zip(HEADS, row, strict=True)
            entry |= {about: getattr(work, about) for about in ("name", "kind", "paper", "read", "undecided")}
            entry |= {"code": source(work, one.form), "seen": one.form.seen, "repaired by its authors": one.form.mended}
            entry["known"] = [(str(result.case), str(result.total_variation)) for result, _ in one.known]
            entry |= {about: getattr(one, about) for about in ("tried", "detected", "sound", "confirmed")}
            if one.example is not None and one.sound:
                entry |= {
                    "emitted": law(one.example.emitted),
                    "expected": law(one.example.expected),
                    "note": note(work, one),
                }
            found.append(entry)
    return found


def markdown(heads: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *table]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


SIGNS = {sign: f"\\{sign}" for sign in "&%$#_{}"} | {"\\": r"\textbackslash ", "<": "$<$", ">": "$>$", "·": r"$\cdot$"}
SIGNS["^"] = r"\textasciicircum "


def latex(heads: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    """A longtable, columns of one width."""
    body = [
        " & ".join("".join(SIGNS.get(sign, sign) for sign in cell) for cell in line) + r" \\"
        for line in (heads, *table)
    ]
    columns = f"p{{{0.94 / len(heads):.3f}\\linewidth}}" * len(heads)
    return "\n".join([rf"\begin{{longtable}}{{{columns}}}", body[0], r"\hline", *body[1:], r"\end{longtable}"])


def text(heads: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    """Each row as a few lines, for a terminal of any width."""
    blocks = [
        [row[0], *(f"{head}: {cell}" for head, cell in zip(heads[1:], row[1:], strict=True) if cell)] for row in table
    ]
    return "\n\n".join("\n".join(block) for block in blocks)


def shown(form: str, heads: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    """The table in one of the formats."""
    if form == "json":
        return json.dumps([dict(zip(heads, row, strict=True)) for row in table], indent=1, ensure_ascii=False)
    return {"text": text, "markdown": markdown, "latex": latex}[form](heads, table)
