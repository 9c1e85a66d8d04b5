"""The checks of a black box, one after another: repeated calls, a sequential test, uniforms at the ends."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np

from ...arrays import Array
from ...problem import Problem
from .black_box import NUMBERS, ROWS, BlackBox, Counts, Refused
from .corners import Case, in_groups
from .end_uniforms import EndUniforms
from .sampler_report import SamplerOutcome, SamplerReport, Status, call_source, name_of
from .statistics import chi_square, smallest_distance

ONE_BY_ONE, AT_ONCE = 250, 128  # calls, or rows of a call, for every case at a time
AT_THE_ENDS = 100  # calls for every case with uniforms at the ends
REPEATED = 8  # calls for every case that are made twice
FIRST = 2048  # calls for every case before the first look, in batches: a single batch does not tell a wrong law from dependence
LONGEST = 4096  # calls for every case between two looks at the evidence and the clock


def examine(
    box: BlackBox,
    problems: dict[str, Problem],
    samples: int,
    seconds: float | None,
    false_alarm: float,
    seed: int,
    options: dict[str, Any],
) -> SamplerReport:
    """Run every check and write the report; options are the arguments of the call that are the box's own."""
    if samples < 1 or not 0 < false_alarm < 1:
        raise ValueError(f"samples={samples}, false_alarm={false_alarm}: give samples >= 1 and 0 < false_alarm < 1")
    start = perf_counter()
    groups = in_groups([Case(label, problem, box.law(problem)) for label, problem in problems.items()])
    trial = Trial(box, groups, samples, false_alarm, seed)
    outcomes = trial.outcomes(seconds)
    made = samples if trial.stopped else trial.groups[0].counts.samples
    options |= {"batched": box.batched, "samples": made, "seconds": None, "false_alarm": false_alarm, "seed": seed}
    code = call_source(box.called, box.function, options)
    return SamplerReport(name_of(box.function), outcomes, false_alarm, perf_counter() - start, code)


class Group:
    """Cases of equal shape, their own generators and their counts."""

    def __init__(self, box: BlackBox, cases: list[Case], seed: np.random.SeedSequence, turns: int) -> None:
        self.box, self.cases = box, cases
        self.turns = turns  # calls for every case at a time
        of_drafts, of_outcomes, ends = (np.random.PCG64(child) for child in seed.spawn(3))
        self.of_drafts, self.generator = np.random.Generator(of_drafts), np.random.Generator(of_outcomes)
        self.ends = EndUniforms(ends)
        self.ends.batched = box.batched
        self.counts = Counts(cases, turns * len(cases), box.batched)
        self.changed = ""

    def arguments(self, turns: int) -> tuple[Array, tuple[Array, ...]]:
        """So many calls for every case: which case, (m,), and the arguments (m, ...)."""
        which = np.tile(np.arange(len(self.cases)), turns)
        return which, self.box.rows(self.cases, which, self.of_drafts)

    def run(self, which: Array, rows: tuple[Array, ...], generator: Any) -> Array:
        """Outcomes (m,); arguments that were changed are noted."""
        before = [x.copy() for x in rows]
        try:
            return self.box.run(self.cases, which, rows, generator)
        finally:
            for x, old in zip(rows, before, strict=True):
                if not self.changed and not np.array_equal(x, old):
                    i = int(np.flatnonzero((x != old).any(-1))[0])
                    self.changed = f"{old[i].tolist()} became {x[i].tolist()}"
                    self.changed_case = self.cases[which[i]]

    def step(self) -> None:
        """One call, or one run of calls, into the counts."""
        which, rows = self.arguments(self.turns)
        self.counts.add(self.run(which, rows, self.generator))


class Trial:
    """All checks of one black box. `outcomes` runs them."""

    def __init__(self, box: BlackBox, groups: list[list[Case]], samples: int, false_alarm: float, seed: int):
        seeds = np.random.SeedSequence(seed).spawn(len(groups))
        self.box, self.samples = box, samples
        most = min(min(ROWS, NUMBERS // cases[0].problem.n) // len(cases) for cases in groups)
        turns = min(AT_ONCE if box.batched else ONE_BY_ONE, max(1, most), samples)
        self.groups = [Group(box, cases, child, turns) for cases, child in zip(groups, seeds, strict=True)]
        tests = sum(len(group.cases) * (1 + len(group.counts.lags)) for group in self.groups)
        self.limit = tests / false_alarm
        self.stopped = ""  # why the sequential test ended before its time

    def outcomes(self, seconds: float | None) -> tuple[SamplerOutcome, ...]:
        """Every check; what a check that failed left undone is skipped."""
        end = np.inf if seconds is None else perf_counter() + seconds
        repeated: list[SamplerOutcome] = []
        try:
            repeated = list(self._repeated())
            self._sequential(end)
            possible = SamplerOutcome(self.box.possible, "passed")
        except Refused as refused:
            self.stopped = f"stopped: {self.box.possible} failed"
            possible = SamplerOutcome(
                self.box.possible, "failed", str(refused), refused.case.label, refused.case.problem
            )
        ends = self._ends(skip=possible.status == "failed")
        return (possible, *self._laws(), *self._independence(), ends, *repeated, self._unchanged())

    def _repeated(self) -> Iterator[SamplerOutcome]:
        """The same state of the generator twice: the same tokens, the same state after."""
        failed, still, fixed = None, None, False
        for group in self.groups:
            which, rows = group.arguments(REPEATED)
            first, second = (copy.deepcopy(group.generator) for _ in range(2))
            one, two = (group.run(which, tuple(x.copy() for x in rows), each) for each in (first, second))
            if (one != two).any() and failed is None:
                i = int(np.flatnonzero(one != two)[0])
                failed = group.cases[which[i]], f"outcomes {one[i]} and {two[i]} from one state of the generator"
            needing = [case for case in group.cases if self.box.needs_randomness(case)]
            fixed = fixed or bool(needing)
            if needing and still is None and first.bit_generator.state == group.generator.bit_generator.state:
                still = needing[0], "the state of the generator is the same before and after all calls"
        yield _verdict("reproducible", failed)
        if fixed:
            yield _verdict("generator_advances", still)
        else:
            yield SamplerOutcome("generator_advances", "skipped", "no problem leaves all randomness to the function")

    def _sequential(self, end: float) -> None:
        """Calls in growing rounds, a look at the evidence after each."""
        turns = self.groups[0].turns
        calls, done, most = max(1, FIRST // turns) if self.box.batched else 1, 0, self.samples // turns
        while done < most:
            start = perf_counter()
            calls = min(calls, most - done)
            for group in self.groups:
                for _ in range(calls):
                    group.step()
            done += calls
            if any((np.stack(group.counts.evidence()) >= np.log(self.limit)).any() for group in self.groups):
                self.stopped = "stopped: the sampler is rejected"
                return
            grown, now = max(calls, min(2 * calls, LONGEST // turns)), perf_counter()
            if now + (now - start) * grown / calls > end:
                return
            calls = grown

    def _laws(self) -> Iterator[SamplerOutcome]:
        for group in self.groups:
            for place, case in enumerate(group.cases):
                counts, law = group.counts.counts[place], group.counts.laws[place]
                log_e, samples = float(group.counts.evidence()[0][place]), int(counts.sum())
                p_value = chi_square(counts, law) if samples else 1.0
                distance = smallest_distance(samples, case.cells, 1 / self.limit)
                seen = _readout(samples, log_e, self.limit, p_value)
                if log_e >= np.log(self.limit):
                    cell = int(np.argmax(abs(counts - samples * law) / np.sqrt(np.maximum(samples * law, 1e-300))))
                    shown = self.box.outcome_shown(cell, case)
                    seen += f"; {shown} in {counts[cell] / samples:.2%} of the calls instead of {law[cell]:.2%}"
                yield self._statistical(self.box.right_law, case, samples, log_e, seen, p_value, distance)

    def _independence(self) -> Iterator[SamplerOutcome]:
        for group in self.groups:
            for place, case in enumerate(group.cases):
                log_e, samples = float(group.counts.evidence()[1][place]), int(group.counts.counts[place].sum())
                seen = _readout(samples, log_e, self.limit)
                if log_e >= np.log(self.limit):
                    seen += "; what comes out depends on what came out of an earlier call"
                yield self._statistical("independent_steps", case, samples, log_e, seen)

    def _statistical(
        self, name: str, case: Case, samples: int, log_e: float, seen: str, p_value: float = 1.0, distance: float = 1.0
    ) -> SamplerOutcome:
        status: Status = "failed" if log_e >= np.log(self.limit) else "skipped" if self.stopped else "passed"
        reason = self.stopped if status == "skipped" else seen
        e_value = float(np.exp(min(log_e, 709.0)))
        return SamplerOutcome(
            name, status, reason, case.label, case.problem, samples, e_value, self.limit, p_value, distance
        )

    def _ends(self, skip: bool) -> SamplerOutcome:
        """Uniforms at the ends of [0, 1): no impossible outcome, no error. Says nothing about frequencies."""
        if skip:
            return SamplerOutcome("end_uniforms", "skipped", self.stopped)
        try:
            for group in self.groups:
                group.run(*group.arguments(AT_THE_ENDS), group.ends)
        except Refused as refused:
            return _verdict("end_uniforms", (refused.case, str(refused)))
        if not any(group.ends.asked for group in self.groups):
            return SamplerOutcome("end_uniforms", "skipped", "generator.random and generator.uniform are never called")
        return _verdict("end_uniforms", None)

    def _unchanged(self) -> SamplerOutcome:
        changed = [(group.changed_case, group.changed) for group in self.groups if group.changed]
        return _verdict("inputs_unchanged", changed[0] if changed else None)


def _verdict(name: str, failed: tuple[Case, str] | None) -> SamplerOutcome:
    if failed is None:
        return SamplerOutcome(name, "passed")
    case, seen = failed
    return SamplerOutcome(name, "failed", seen, case.label, case.problem)


def _readout(samples: int, log_e: float, limit: float, p_value: float | None = None) -> str:
    text = f"{samples:,} calls, e-value 10^{log_e / np.log(10):.1f} (limit 10^{np.log10(limit):.1f})"
    return text if p_value is None else text + f", chi-square p-value {p_value:.1g}"
