"""The checks of a black box, one after another: repeated calls, a sequential test, uniforms at the ends."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from numbers import Real
from time import perf_counter
from typing import Any

import numpy as np

from ...arrays import Array
from ...boundary import int_from
from ...errors import InvalidArgument
from ...laws import IID, DraftLaw
from ...problem import Problem, check_is_law
from ..corners import LabelledProblem, corner_problems, in_groups, is_used_up, labelled
from ..e_values import chi_square, smallest_distance
from ..outcome import Outcome, SamplerEvidence, Status
from ..source import problem_record
from .black_box import BlackBox, EndUniforms, Impossible, numbers_shown
from .sampler_report import SamplerOutcome, SamplerReport, call_source, name_of
from .views import Dependence, View


@dataclass(frozen=True)
class TrialSettings:
    """Numbers of calls of a trial, each per case unless it says otherwise.

    samples, batched_samples: calls, and rows in batches, by default. calls, rows: made at a time, one by one and in batches.
    end_calls: with uniforms at the ends of [0, 1). repeated_calls: made twice. first_look: rows before the first look at the evidence,
    since a single batch does not tell a wrong distribution from dependence. between_looks: calls between two looks at most.
    small_batches: rows of small batches. array_numbers, batch_rows: maximum size of an array of p, and of a batch. suspicious: probability
    of an e-value of a correct sampler, from which the check makes more calls and does not pass. growth: maximum factor of the number of
    calls then.
    """

    samples: int = 10_000
    batched_samples: int = 100_000
    calls: int = 250
    rows: int = 128
    end_calls: int = 100
    repeated_calls: int = 8
    first_look: int = 2_048
    between_looks: int = 4_096
    small_batches: tuple[int, ...] = (1, 2, 5, 33)
    array_numbers: int = 1 << 21
    batch_rows: int = 1_024
    suspicious: float = 1e-3
    growth: int = 8


def examine(
    box: BlackBox,
    problems: Iterable[Problem] | None,
    law: DraftLaw | None,
    k: int | None,
    calls: tuple[int | None, float | None, float, int],
    **options: Any,
) -> SamplerReport:
    """Run every check and make the report. calls: samples, seconds, false_alarm, seed; options: other arguments of the call."""
    samples, seconds, false_alarm, seed = calls
    settings = TrialSettings()
    if samples is None:
        samples = settings.batched_samples if box.batched else settings.samples
    default_law = IID() if law is None else law
    check_is_law(default_law)
    int_from("samples", samples, 1)
    int_from("seed", seed, 0)
    if not (isinstance(false_alarm, Real) and 0 < false_alarm < 1):
        raise InvalidArgument(f"false_alarm must be above 0 and below 1, got {false_alarm!r}. Pass a probability.")
    if not (seconds is None or (isinstance(seconds, Real) and seconds >= 0)):
        raise InvalidArgument(f"seconds must be a number >= 0 or None, got {seconds!r}. Pass None for no limit.")
    if not (problems is None or isinstance(problems, Iterable)):
        raise InvalidArgument(
            f"problems must be an iterable of otd.Problem, got {problems!r}. Pass [otd.Problem(p, q, k, law)]."
        )
    asked = None if problems is None else list(problems)
    tried = corner_problems(default_law, k, used_up=box.fills) if asked is None else labelled(asked)
    _check_asked(box, list(tried.values()), law, k)
    start = perf_counter()
    groups = in_groups([LabelledProblem(*each) for each in tried.items()])
    trial = Trial(box, groups, samples, false_alarm, seed, settings)
    outcomes = trial.outcomes(seconds)
    made = samples if trial.stopped else trial.main[0].samples
    given: dict[str, Any] = {"law": default_law, "k": k} if asked is None else {"problems": asked}
    given |= options | {"batched": box.batched, "samples": made, "seconds": None}
    given |= {"false_alarm": false_alarm, "seed": seed}
    code = call_source(box.called, box.function, given)
    tried_with = trial.tried() | {"seconds": perf_counter() - start, "code": code}
    return SamplerReport(name_of(box.function), outcomes, tried_with, false_alarm)


def _check_asked(box: BlackBox, problems: list[Problem], law: DraftLaw | None, k: int | None) -> None:
    """Raise InvalidArgument if a problem has another draft law or k than the arguments, or too few drafts."""
    for problem in problems:
        for name, given, own in (("law", law, problem.law), ("k", k, problem.k)):
            if given is not None and given != own:
                raise InvalidArgument(
                    f"{name} must be {own!r} as in problems, got {given!r}. Omit {name}: each problem has its own."
                )
        if problem.k < box.least_k:
            raise InvalidArgument(
                f"k must be at least {box.least_k} for {box.called}, got {problem.k}. Use the number of drafts of your engine."
            )


class Group:
    """Cases of equal shape with their generators and counts. rows: size of a small batch, None for all cases in turn."""

    def __init__(
        self,
        box: BlackBox,
        cases: list[LabelledProblem],
        seed: np.random.SeedSequence,
        turns: int,
        rows: int | None = None,
    ) -> None:
        self.box, self.cases, self.small = box, cases, rows is not None
        self.size = turns * len(cases) if rows is None else rows  # calls at a time
        of_drafts, of_outcomes, ends, of_views = (np.random.PCG64(child) for child in seed.spawn(4))
        self.of_drafts, self.generator = np.random.Generator(of_drafts), np.random.Generator(of_outcomes)
        self.of_views = np.random.Generator(of_views)
        self.ends = EndUniforms(ends)
        self.ends.batched = box.batched
        self.views = box.views(cases)
        self.dependence = Dependence(self.views, self.size, box.batched)
        self.calls = 0
        self.changed = ""

    @property
    def samples(self) -> int:
        """Calls for every case, on average."""
        return self.calls // len(self.cases)

    @property
    def tests(self) -> int:
        return len(self.cases) * len(self.views) + self.dependence.tests

    def arguments(self, size: int) -> tuple[Array, tuple[Array, ...]]:
        """Calls of this number: the case of each (m,), and the arguments (m, ...). The order is random: the case of a row changes."""
        which = np.arange(size) if not self.small else self.of_drafts.integers(0, len(self.cases), size)
        which = self.of_drafts.permutation(which % len(self.cases))
        return which, self.box.rows(self.cases, which, self.of_drafts)

    def run(self, which: Array, rows: tuple[Array, ...], generator: Any) -> tuple[Array, list[tuple[Array, Array]]]:
        """Outcomes (m, width), and the cells that the views read. Raises Impossible. Notes changed arguments."""
        before = [x.copy() for x in rows]
        try:
            outcomes = self.box.outcomes(self.cases, which, rows, generator)
        finally:
            for x, old in zip(rows, before, strict=True):
                if not self.changed and not np.array_equal(x, old):
                    i = int(np.flatnonzero((x != old).any(-1))[0])
                    self.changed = f"{numbers_shown(old[i])} became {numbers_shown(x[i])}"
                    self.changed_case = self.cases[which[i]]
        seen = [view.read(which, outcomes, self.of_views) for view in self.views]
        for view, each in zip(self.views, seen, strict=True):
            for i in view.impossible(which, each)[:1]:
                case, row = self.cases[which[i]], tuple(x[i] for x in before)
                shown = self.box.outcome_shown(outcomes[i], case.problem), self.box.shown(row, case.problem)
                raise Impossible(case, f"gave {shown[0]}, of probability 0; {shown[1]}{_filled(case)}")
        return outcomes, seen

    def step(self) -> None:
        """Make one round of calls and count its outcomes."""
        which, rows = self.arguments(self.size)
        _, seen = self.run(which, rows, self.generator)
        for view, each in zip(self.views, seen, strict=True):
            view.add(which, each)
        cells = [each[1][:, 0] for view, each in zip(self.views, seen, strict=True) if view.main]
        self.dependence.add(which, cells)
        self.calls += len(which)

    def evidence(self) -> tuple[Array, Array]:
        """Log e-values of every view against its distributions, (views, cases), and against independence, (cases,).

        The second is the evidence beyond what the first explains, which keeps its error probability.
        """
        laws = np.stack([view.evidence() for view in self.views])
        return laws, self.dependence.evidence(np.maximum(laws.max(0), 0))

    @property
    def largest(self) -> float:
        """The largest log e-value of all."""
        laws, dependence = self.evidence()
        return float(max(laws.max(), dependence.max()))


class Trial:
    """All checks of one black box. `outcomes` runs them."""

    def __init__(
        self,
        box: BlackBox,
        groups: list[list[LabelledProblem]],
        samples: int,
        false_alarm: float,
        seed: int,
        settings: TrialSettings | None = None,
    ) -> None:
        self.box, self.samples = box, samples
        self.settings = settings = settings or TrialSettings()
        sizes = settings.small_batches if box.batched else ()
        seeds = iter(np.random.SeedSequence(seed).spawn(len(groups) + len(sizes)))
        most = settings.batch_rows if box.batched else settings.array_numbers
        room = [min(most, settings.array_numbers // cases[0].problem.n) // len(cases) for cases in groups]
        turns = min(settings.rows if box.batched else settings.calls, max(1, min(room)), samples)
        self.main = [Group(box, cases, next(seeds), turns) for cases in groups]
        self.small = [Group(box, groups[0][:2], next(seeds), 1, rows) for rows in sizes]
        self.groups, self.turns = [*self.main, *self.small], turns
        tests = sum(group.tests for group in self.groups)
        self.limit, self.suspicious = tests / false_alarm, tests / max(false_alarm, settings.suspicious)
        self.stopped = ""  # why the sequential test ended before its time
        self.undecided = ""  # that the time was over before all calls were made

    def outcomes(self, seconds: float | None) -> tuple[SamplerOutcome, ...]:
        """Outcomes of every check. Checks that could not run after a failed one are skipped."""
        end = np.inf if seconds is None else perf_counter() + seconds
        repeated: list[SamplerOutcome] = []
        failed = None
        try:
            repeated = list(self._repeated())
            self._sequential(end)
        except Impossible as impossible:
            self.stopped, failed = f"stopped: {self.box.possible} failed", (impossible.case, str(impossible))
        ends = _verdict("end_uniforms", skipped=self.stopped) if failed else self._ends()
        changed = [(group.changed_case, group.changed) for group in self.groups if group.changed]
        unchanged = _verdict("inputs_unchanged", changed[0] if changed else None)
        return (_verdict(self.box.possible, failed), *self._statistics(), ends, *repeated, unchanged)

    def tried(self) -> dict[str, Any]:
        """Vocabulary sizes, numbers of drafts, both together; rows of batches (none where calls had one row), and with which sizes."""
        sizes = sorted((group.cases[0].problem.n, group.cases[0].problem.k) for group in self.main)
        n, k = (sorted({size[i] for size in sizes}) for i in (0, 1))
        of_batch: dict[int, set[tuple[int, int]]] = {}
        for group in self.groups if self.box.batched else ():
            of_batch.setdefault(group.size, set()).add((group.cases[0].problem.n, group.cases[0].problem.k))
        batches = {rows: sorted(of_batch[rows]) for rows in sorted(of_batch)}
        rows = sum(group.calls for group in self.groups)
        return {"n": n, "k": k, "sizes": sizes, "batches": list(batches), "sizes_by_batch": batches, "rows": rows}

    def _repeated(self) -> Iterator[SamplerOutcome]:
        """Two calls from one state of the generator: equal tokens, and another state afterwards."""
        failed, still, fixed = None, None, False
        for group in self.groups:
            which, rows = group.arguments(
                group.size if group.small else self.settings.repeated_calls * len(group.cases)
            )
            first, second = (copy.deepcopy(group.generator) for _ in range(2))
            one, two = (group.run(which, tuple(x.copy() for x in rows), each)[0] for each in (first, second))
            if (one != two).any() and failed is None:
                i = int(np.flatnonzero((one != two).any(-1))[0])
                case = group.cases[which[i]]
                shown = [self.box.outcome_shown(each[i], case.problem) for each in (one, two)]
                failed = case, f"{shown[0]} and {shown[1]} from one state of the generator"
            random = (group.views[0].laws > 0).sum((1, 2)) > group.views[0].laws.shape[1]
            needing = [case for case, is_random in zip(group.cases, random, strict=True)
                       if is_random and self.box.needs_randomness(case)]  # fmt: skip
            fixed = fixed or bool(needing)
            if needing and still is None and first.bit_generator.state == group.generator.bit_generator.state:
                still = needing[0], "the state of the generator is the same before and after all calls"
        yield _verdict("reproducible", failed)
        skipped = "" if fixed else "no problem leaves all randomness to the function"
        yield _verdict("generator_advances", still, skipped)

    def _sequential(self, end: float) -> None:
        """Calls in growing rounds, with a look at the evidence after each."""
        calls, done, most = (
            max(1, self.settings.first_look // self.turns) if self.box.batched else 1,
            0,
            self.samples // self.turns,
        )
        while done < most:
            start = perf_counter()
            before = calls = min(calls, most - done)
            for _ in range(calls):
                for group in self.groups:  # in turn, so that a state kept for one shape meets another
                    group.step()
            done += calls
            largest = max(group.largest for group in self.groups)
            if largest >= np.log(self.limit):
                self.stopped = "stopped: the sampler is rejected"
                return
            if (
                done >= most
                and largest >= np.log(self.suspicious)
                and most < self.settings.growth * (self.samples // self.turns)
            ):
                most *= 2  # an e-value stays valid however many calls follow
            for group in self.groups:
                group.dependence.choose_pairs()
            grown, now = max(calls, min(2 * calls, self.settings.between_looks // self.turns)), perf_counter()
            calls = min(grown, most - done)
            if calls and now + (now - start) * calls / before > end:
                made = f"{self.main[0].samples:,} of {self.samples:,} calls"
                self.undecided = f"the time limit ended the test after {made}. Pass a larger seconds, or None"
                return

    def _statistics(self) -> Iterator[SamplerOutcome]:
        """Outcomes of all views, then of independence, then one per small batch."""
        depends = "the outcome depends on that of an earlier call, on another row, or on the position of the row"
        evidence = [group.evidence() for group in self.main]
        for group, (logs, _) in zip(self.main, evidence, strict=True):
            for view, of_cases in zip(group.views, logs, strict=True):
                for place in range(len(group.cases)):
                    yield self._law(group, view, place, float(of_cases[place]))
        for group, (_, logs) in zip(self.main, evidence, strict=True):
            for case, log_e in zip(group.cases, logs.tolist(), strict=True):
                yield self._outcome("independent_steps", group, case, log_e, if_failed=depends)
        for group in self.small:
            log_e = group.largest if group.calls else 0.0
            yield self._outcome("small_batches", group, group.cases[0], log_e, f"batches of {group.size}: ")

    def _law(self, group: Group, view: View, place: int, log_e: float) -> SamplerOutcome:
        counts, laws = view.counts[place], view.laws[place]
        p_value = chi_square(counts[0], laws[0]) if counts[0].any() and len(counts) == 1 else None
        cells, events = int((laws > 0).sum(-1).max()), counts.sum(-1)
        each = int(events[events > 0].mean()) if group.calls else 0
        cell, share, law = view.worst(place)
        worst = (
            f"{view.shown(place, cell)} in {share:.2%} of the calls instead of {law:.2%}{_filled(group.cases[place])}"
        )
        distance = smallest_distance(each, cells, 1 / self.limit, len(laws))
        about = {"p_value": 1.0 if p_value is None else p_value, "distance": distance}
        more = "" if p_value is None else f", chi-square p-value {p_value:.1g}"
        # One event of probability 1 needs no statistics, since any other outcome is impossible.
        powerless = view.main and cells > 1 and distance >= 1
        return self._outcome(view.name, group, group.cases[place], log_e, "", more, worst, powerless, **about)

    def _outcome(
        self,
        name: str,
        group: Group,
        case: LabelledProblem,
        log_e: float,
        before: str = "",
        after: str = "",
        if_failed: str = "",
        powerless: bool = False,
        **about: float,
    ) -> SamplerOutcome:
        """Return the outcome of a sequential test. before, after: text around its e-value; if_failed: text after that.

        powerless: whether so few calls detect no bias, however large.
        """
        failed, suspicious, ten = log_e >= np.log(self.limit), log_e >= np.log(self.suspicious), np.log(10)
        status = (
            Status.FAILED if failed
            else Status.SKIPPED if self.stopped
            else Status.UNDECIDED if self.undecided or suspicious or powerless
            else Status.PASSED
        )  # fmt: skip
        seen = f"{group.samples:,} calls, e-value 10^{log_e / ten:.1f} (limit 10^{np.log(self.limit) / ten:.1f})"
        seen = before + seen + after + (f"; {if_failed}" if failed and if_failed else "")
        doubt = f"{seen}: a correct sampler has such an e-value with probability at most {self.settings.suspicious}. Pass more samples"
        few = f"{group.samples:,} calls detect no bias, however large, with probability 1 - 1e-6. Pass more samples"
        undecided = self.undecided or (doubt if suspicious else few)
        reason = {Status.SKIPPED: self.stopped, Status.UNDECIDED: undecided}.get(status, seen)
        e_value = float(np.exp(min(log_e, 709.0)))
        evidence = SamplerEvidence(
            reason=reason, label=case.label, samples=group.samples, e_value=e_value, limit=self.limit, **about
        )
        shown = problem_record(case.problem) if failed else None
        return Outcome(check=name, status=status, evidence=evidence, counterexample=shown)

    def _ends(self) -> SamplerOutcome:
        """Uniforms at the ends of [0, 1): no impossible outcome, no error. Says nothing about frequencies."""
        try:
            for group in self.groups:
                group.run(
                    *group.arguments(group.size if group.small else self.settings.end_calls * len(group.cases)),
                    group.ends,
                )
        except Impossible as impossible:
            return _verdict("end_uniforms", (impossible.case, str(impossible)))
        asked = any(group.ends.asked for group in self.groups)
        return _verdict(
            "end_uniforms", None, "" if asked else "generator.random and generator.uniform are never called"
        )


def _filled(case: LabelledProblem) -> str:
    """Remark for q with fewer tokens of positive probability than draft tokens, or empty."""
    said = "no probability is left in q: the draft law then samples uniformly from the tokens not drafted yet (Sequoia's rule)"
    return f"; {said}" if is_used_up(case.problem) else ""


def _verdict(name: str, failed: tuple[LabelledProblem, str] | None = None, skipped: str = "") -> SamplerOutcome:
    if skipped or failed is None:
        status = Status.SKIPPED if skipped else Status.PASSED
        return Outcome(check=name, status=status, evidence=SamplerEvidence(reason=skipped))
    case, seen = failed
    evidence = SamplerEvidence(reason=seen, label=case.label)
    return Outcome(check=name, status=Status.FAILED, evidence=evidence, counterexample=problem_record(case.problem))
