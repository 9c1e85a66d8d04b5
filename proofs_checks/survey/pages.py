"""Results of the survey, as rows, as a record with its whole reasoning, and in four formats."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from csv import writer
from io import StringIO
from math import prod
from operator import attrgetter
from typing import Any

import ot_draft as otd

from .. import branches
from .evaluation import Evaluation, on_real
from .record import (
    BUG,
    BY_DESIGN,
    CONDITIONAL,
    ENGINE,
    GREEDY,
    LOSSLESS,
    LOSSY,
    METHOD,
    MODES,
    NOT_LOSSLESS,
    UNDECIDED,
    Argued,
    Form,
    Work,
)  # fmt: skip
from .rules import TOP
from .verifiers import OPTIMUM, Coupled, OneToken, Verifier

Evaluated = Sequence[tuple[Work, list[Evaluation]]]
ABOUT = attrgetter("paper", "code", "read", "claim", "cost", "remarks")
HEADS = (
    "work",
    "claim",
    "rule",
    "when",
    "sampling",
    "verdict",
    "condition",
    "decided over",
    "counterexample",
    "share of the optimum",
    "cost",
)
DATA = ("engine", "work", "kind", "mode", "rule", "settings", "sampling", "verdict", "condition", "fixed by", "drafts", "positions",
        "cycles", "p", "q", "k", "total variation", "evidence", "worst share", "accepts", "of", "repaired", "source")  # fmt: skip


ANY = "in p and q"  # a case's p and q are the distributions after temperature, top-p and top-k


def rows(evaluated: Evaluated) -> list[tuple[str, ...]]:
    """One row a rule, in the order of HEADS, and one for what is undecided."""
    found: list[tuple[str, ...]] = []
    for work, every in evaluated:
        said = (
            (
                one.form.name,
                one.form.when,
                one.form.sampling or ANY,
                verdict(work, one),
                one.form.condition,
                decided(one),
                example(one),
                share(one),
            )
            for one in every
        )
        found += [(work.title, work.claim, *each, work.cost) for each in said]
        found += [
            (work.title, work.claim, rule, "", "", f"{UNDECIDED}: {why}", "", "", "", "", work.cost)
            for rule, why in work.undecided
        ]
        found += [
            (
                work.title,
                work.claim,
                each.rule,
                each.when,
                ANY,
                each.verdict,
                each.why,
                "an argument",
                shown_case(each.example),
                "",
                work.cost,
            )
            for each in work.argued
        ]
    return found


def shown_case(example: Sequence[str]) -> str:
    """A counterexample that is given as text."""
    p, q, k, distance = example
    return f"p = ({p}), q = ({q}), k = {k}: total variation {distance}"


def verdict_lines(evaluated: Evaluated) -> list[str]:
    """One line per rule: work, rule, version or settings, verdict and condition; under them where the details are."""
    found = []
    for title, _, rule, when, _, said, condition, *_ in rows(evaluated):
        settings = f" ({when})" if when else ""
        found.append(f"{title}, {rule}{settings}: {said}{f'; condition: {condition}' if condition else ''}")
    return [*found, "--details: reasoning and counterexamples."]


def summary_lines(evaluated: Evaluated) -> list[str]:
    """One line per work: how many of its rules have which verdict; then the totals, and where the rows are."""
    by_work: dict[str, Counter[str]] = {work.title: Counter() for work, _ in evaluated}
    for title, *_, said in (row[:6] for row in rows(evaluated)):
        by_work[title][said.partition(": ")[0]] += 1
    counted = {**by_work, "all works": sum(by_work.values(), Counter())}
    width = max(map(len, counted))
    lines = [
        f"{title:{width}}  {', '.join(f'{number} {said}' for said, number in counts.items())}"
        for title, counts in counted.items()
    ]
    return [*lines, "One line per rule of a work: ot-draft survey NAME. Reasoning: --details. All rows: --format csv."]


def verdict(work: Work, one: Evaluation) -> str:
    if not one.sound:
        return f"NOT AS RECORDED: {one.verdict}"
    if one.verdict == NOT_LOSSLESS:
        return BY_DESIGN if by_design(work, one.form) else BUG
    return CONDITIONAL if one.form.condition else LOSSLESS


def by_design(work: Work, form: Form) -> bool:
    return work.on_purpose or form.on_purpose


def example(one: Evaluation) -> str:
    """The counterexample: the case and the total variation of the text."""
    return "" if one.example is None else f"{one.example.case}: total variation {one.example.total_variation}"


def accepted(form: Form) -> tuple[float, float] | None:
    """Mean acceptance on the real pairs, which are distributions at temperature 1, and what it is compared with."""
    return None if form.mode == GREEDY else on_real(form.verifier)


def share(one: Evaluation) -> str:
    """Worst share on small cases, mean on real pairs; of a rule that is not lossless, acceptance there and after its repair."""
    found, again = accepted(one.form), on_real(one.form.repair)
    real = "" if found is None else f"real pairs: {found[0]:.3f} of {found[1]:.3f}"
    if one.verdict == NOT_LOSSLESS:
        return real + (f", repaired {again[0]:.3f}" if real and again else "")
    baseline = one.form.verifier.baseline
    if not baseline:
        return "nothing to compare with"
    worst = f"worst {float(one.worst.share):.3f}" + ("" if baseline == OPTIMUM else f" of {baseline}")
    return worst + (f"; {real}" if real else "")


MANY = 48  # texts that a record no longer lists
CASE = ("p", "q", "k", "total variation", "code")


def decided(one: Evaluation) -> str:
    """The cases over which the verdict was decided."""
    cycles = f"{one.form.cycles} cycle{'s' if one.form.cycles > 1 else ''}"
    return f"{one.positions} position{'s' if one.positions > 1 else ''}, {cycles}; {one.cases} cases: {one.tried}"


def case(one: Evaluation) -> tuple[str, ...]:
    """The counterexample in cells, those of CASE."""
    if one.example is None:
        return ("",) * len(CASE)
    laws = ("; ".join(", ".join(map(str, row)) for row in rows) for rows in (one.example.case.p, one.example.case.q))
    return (*laws, str(one.example.case.k), str(one.example.total_variation), seen(one.form))


def seen(form: Form | Argued) -> str:
    """Whether the released code was run, or read, or neither."""
    return form.seen.replace(",", ":").partition(":")[0]


def evidence(work: Work, form: Form) -> str:
    """Whether the released code was run, or read, or described in a public thread; or only a paper was read."""
    origin = source(work, form)
    thread = seen(form) == "not read" or " pull " in origin or " issue " in origin
    return "thread" if thread and seen(form) != "run" else seen(form) or ("read" if form.code or work.code else "paper")


DRAWN = {TOP: "most probable", otd.IID(): "i.i.d.", otd.WithoutReplacement(): "without replacement"}


def drafts(verifier: Verifier) -> str:
    """The draft tokens, paths or tree on which a form is evaluated, and how they are chosen; "" for a sampler with its own drafts."""
    if isinstance(verifier, Coupled):
        return ""
    if isinstance(verifier, OneToken):
        return f"tokens, {DRAWN.get(verifier.drafted_by, 'by another distribution')}"
    how = DRAWN.get(verifier.law or otd.IID(), "by another distribution")
    parents = getattr(verifier.shape, "parents", None)
    if parents is None:
        return f"paths of {verifier.length}, {how}" if verifier.shape is None else "adaptive shape"
    depths = [0]
    for parent in parents:
        depths.append(depths[parent] + 1)
    widths = [depths.count(depth) for depth in range(1, max(depths) + 1)]
    shape = f"paths of {len(widths)}" if len({*widths}) == 1 else f"tree of {' and '.join(map(str, widths))} nodes"
    return f"{shape}, {how}"


def data(evaluated: Evaluated) -> list[tuple[str, ...]]:
    """One row a rule, in the order of DATA: engines first, by name and mode."""
    found = []
    for work, every in evaluated:
        for one in every:
            accepts, again = accepted(one.form), on_real(one.form.repair)
            baseline, holds, form = one.form.verifier.baseline, one.verdict != NOT_LOSSLESS, one.form
            compared = accepts and (baseline or not holds)
            numbers = [f"{float(one.worst.share):.3f}" if baseline and holds else "",
                       *(f"{number:.3f}" if compared else "" for number in accepts or ("", "")),
                       f"{again[0]:.3f}" if compared and again and not holds else ""]  # fmt: skip
            found.append((work.engine, work.title, work.kind, form.mode, form.name, form.when, form.sampling or ANY,
                          verdict(work, one), form.condition, form.fixed, drafts(form.verifier),
                          str(one.positions), str(form.cycles), *case(one)[:4],
                          evidence(work, form), *numbers, source(work, form)))  # fmt: skip
        for each in work.argued:
            row = dict.fromkeys(DATA, "") | {
                "engine": work.engine,
                "work": work.title,
                "kind": work.kind,
                "mode": each.mode,
            }
            row |= {
                "rule": each.rule,
                "settings": each.when,
                "sampling": ANY,
                "verdict": each.verdict,
                "condition": each.why,
                "fixed by": each.fixed,
            }
            row |= dict(zip(CASE[:4], each.example, strict=True)) | {"evidence": seen(each), "source": each.code}
            found.append(tuple(row.values()))
        for rule, why in work.undecided:
            row = dict.fromkeys(DATA, "") | {"engine": work.engine, "work": work.title, "kind": work.kind, "rule": rule}
            row |= {"verdict": UNDECIDED, "condition": why, "source": work.code or work.paper}
            found.append(tuple(row.values()))
    order = {kind: place for place, kind in enumerate((ENGINE, METHOD, LOSSY))}
    return sorted(found, key=lambda row: (order[row[2]], row[0].lower(), MODES.index(row[3]) if row[3] else len(MODES)))


def csv_file(heads: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    """The table as a CSV file."""
    stream = StringIO()
    writer(stream, lineterminator="\n").writerows([heads, *table])
    return stream.getvalue()


def law(texts: Any) -> str:
    """A distribution of texts: 00: 1/2, 01: 1/3, ..; of many texts only how many."""
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
    said = ", as the work itself says" if by_design(work, one.form) else ""
    cost = f"{result.accepted} -> {again.accepted} accepted in the example{real}" if again else "undecided"
    seen = f"; {one.form.seen}" if one.form.seen else ""
    fixed = f"; its authors repaired it: {one.form.fixed}" if one.form.fixed else ""
    return [
        f"1. {what}: the text does not have the target's distribution{said}{seen}.",
        f"2. By hand, {result.case}: {worked(one)} (total variation {result.total_variation}).",
        f"3. The line: {one.form.line}.",
        f"4. The smallest repair: {one.form.fix}; the distribution is then exact in every case tried{fixed}.",
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
    for each in work.argued:
        lines += ["", f"{each.rule}: {each.verdict.upper()}, by an argument: {each.why}", f"  when: {each.when}"]
        lines += [f"  code: {each.code}", f"  seen: {each.seen}", f"  example: {shown_case(each.example)}"]
    for one in every:
        result, form = one.example, one.form
        lines += ["", f"{form.name}: {verdict(work, one).upper()}", f"  rests on: {form.rests_on}"]
        about = (
            ("when", form.when),
            ("sampling", form.sampling),
            ("code", form.code),
            ("seen", form.seen),
            ("repaired by its authors", form.fixed),
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
        lines += [f"  independent enumeration: {'the same distribution' if one.confirmed else 'NOT CONFIRMED'}"]
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
            entry |= {"code": source(work, one.form), "seen": one.form.seen, "repaired by its authors": one.form.fixed}
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
    return {"text": text, "markdown": markdown, "latex": latex, "csv": csv_file}[form](heads, table)
