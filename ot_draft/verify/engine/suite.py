"""The suite of `ot-draft conform`: requests of every kind to an engine with the tiny pair, and a row of the table for each test."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InvalidArgument
from ..outcome import EngineEvidence, Outcome, Status
from ..report import Report
from .adapter import REQUIRED, Crashed, EngineProcess, engines
from .evidence import PValue, malformed, p_value, p_value_of_groups, p_value_of_pairs
from .kinds import PLAIN, Kind, ReferencePair, Text, kinds_for
from .tiny_pair import write

EngineOutcome = Outcome[EngineEvidence]


@dataclass(frozen=True)
class SuiteSettings:
    """Numbers of requests, and tolerances."""

    requests: int = 4000  # of the first kind, unless the adapter states a number
    seeded_requests: int = 40  # sent twice with the same seeds
    min_small_batches: int = 150  # of one to five requests: 30 of each size
    abort_calls: int = 30  # with an aborted request, each before a call without
    logprob_requests: int = 25  # of a kind
    logprob_tolerance: float = 0.02  # nats
    max_rows: int = 60  # bound on the number of tests in the table, by which the level is divided


@dataclass(frozen=True)
class EngineReport(Report[EngineEvidence]):
    """Outcomes of all rows of one engine. tried: facts that the adapter states about the engine."""

    @property
    def exit_status(self) -> int:
        """1 if a row failed, 2 if a row crashed or is undecided or none was judged, else 0."""
        return {Status.FAILED: 1, Status.PASSED: 0}.get(self.status, 2)

    @property
    def sentence(self) -> str:
        """The table in one sentence."""
        counts = Counter(word(row) for row in self.outcomes)
        words = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
        return f"{words}. Probability that a correct engine has a WRONG row: at most about {self.false_alarm:g}."


def word(row: EngineOutcome) -> str:
    """Return the status of a row in the words of the table."""
    words = {Status.PASSED: "kept", Status.FAILED: "WRONG", Status.SKIPPED: "not tried"}
    return words.get(row.status, row.status.value)


def line(row: EngineOutcome) -> str:
    """Return a row on one line."""
    return f"{row.check}: {word(row)}: {row.evidence.sent}: {row.evidence.reason}"


def conform(
    engine: str, options: dict[str, str] | None = None, sizes: Sequence[int] = (8, 2000), requests: int | None = None,
    level: float = 1e-6, timeout_s: float = 900.0, models: Path | None = None,
    on_row: Callable[[EngineOutcome], None] = lambda row: None, seed: int = 0,
) -> EngineReport:  # fmt: skip
    """Test an engine with a pair of each vocabulary size.

    Parameters
    ----------
    engine : str
        A name of `adapter.engines()`, a module or a file.
    options : dict, optional
        Options for its `start`.
    sizes : sequence of int
        Vocabulary sizes.
    requests : int, optional
        Number of requests of the first kind.
    level : float, default=1e-6
        False-positive rate of the whole table.
    timeout_s : float, default=900
        Timeout per call of the engine.
    models : Path, optional
        Folder of the pairs; a temporary one by default.
    on_row : callable, optional
        Called with every row.
    seed : int, default=0
        Random seed of the order of requests.

    Returns
    -------
    report : EngineReport
        The table.
    """
    rows, facts = list[EngineOutcome](), dict[str, Any]()
    given = engines().get(engine, (engine, {}))[1] | (options or {})
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            trial = EngineTrial(
                engine,
                given,
                (models or Path(folder)) / str(n),
                n,
                requests,
                level,
                timeout_s,
                np.random.default_rng(seed),
                settings=SuiteSettings(),
            )
            try:
                trial.start()
                for row in trial.rows():
                    rows.append(row)
                    on_row(row)
            except Crashed as error:
                rows.append(
                    Outcome(
                        check=f"start, {n} tokens", status=Status.CRASHED, evidence=EngineEvidence(reason=str(error))
                    )
                )
            finally:
                facts |= trial.facts
                trial.close()
    return EngineReport(engine, tuple(rows), facts, level)


@dataclass
class EngineTrial:
    """One pair in one engine. kinds, kept: the requests, and the completions; right: the kinds that are not WRONG."""

    name: str
    options: dict[str, str]
    folder: Path
    n: int
    asked: int | None
    level: float
    timeout_s: float
    generator: np.random.Generator
    engine: EngineProcess | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    kept: dict[str, list[Text]] = field(default_factory=dict)
    right: list[str] = field(default_factory=list)
    settings: SuiteSettings = field(default_factory=SuiteSettings)

    def start(self) -> None:
        """Write the pair and start the engine with it. Raises Crashed, and InvalidArgument for an adapter without a required function."""
        self._begin()
        if missing := self.call("load"):
            raise InvalidArgument(
                f"ENGINE must be an adapter with the functions {', '.join(REQUIRED)}, got {self.name!r} without {', '.join(missing)}."
                " Define them (docs/conform.md)."
            )
        folders = write(self.folder, self.n)
        self._start()
        self.reference = ReferencePair.load(*folders, self._described["presence of prompt"])

    def _restart(self) -> None:
        self.close()
        self._begin()
        self._start()

    def _begin(self) -> None:
        self.engine = EngineProcess(self.name, Path(tempfile.mkdtemp()) / "engine.txt", self.timeout_s)

    def _start(self) -> None:
        self._facts_of("start", str(self.folder / "target"), str(self.folder / "draft"), **self.options)
        self._described = self.call("describe")
        self.lacks = self._described["lacks"]
        self.requests = self.asked or self._described["requests"] or self.settings.requests

    def call(self, function: str, *given: Any, **options: Any) -> Any:
        """Call a function of the adapter. Raises Crashed."""
        assert self.engine is not None
        return self.engine.call(function, *given, **options)

    def _facts_of(self, function: str, *given: Any, **options: Any) -> dict[str, Any]:
        """Return and keep the facts that a function of the adapter states. Raises Crashed if they are not a dict."""
        facts: Any = self.call(function, *given, **options)
        if not isinstance(facts, dict):
            raise Crashed(f"{function} must return a dict of facts, got {facts!r}"[:300])
        self.facts |= facts
        return facts

    def close(self) -> None:
        """Stop the engine."""
        if self.engine is not None:
            self.engine.close()

    def rows(self) -> Iterator[EngineOutcome]:
        """Run the tests and yield a row for each."""
        if "mixed batches" in self.lacks:
            yield self._row("mixed batches", "", self.lacks["mixed batches"], Status.SKIPPED)
        self.kinds, always = {}, "ignore_eos" in self.lacks  # the last token always ends a completion
        for name, kind in kinds_for(self.n).items():
            missing = [self.lacks[each] for each in kind.settings if each in self.lacks and each != "ignore_eos"]
            if missing:
                yield self._row(name, _settings(kind), missing[0], Status.SKIPPED)
            else:
                self.kinds[name] = (
                    Kind(kind.prompt, kind.settings | {"ignore_eos": False}, kind.share) if always else kind
                )
        yield from self._laws()
        for name, needs, tried in (
            ("same seed, same text", ("seed", "same seed"), self._seeds),
            ("log-probabilities", ("logprobs",), self._log_probabilities),
            ("streams", ("stream",), self._streams),
            ("with aborted requests", ("abort",), self._aborted),
            ("one to five at a time", ("mixed batches",), self._small_batches),
            ("drafts are accepted", (), self._drafts_accepted),
            ("prompts come from a cache", (), self._prompts_cached),
            ("draft noise with verification", (), self._step),
        ):
            lacking = [self.lacks[each] for each in needs if each in self.lacks]
            if lacking or PLAIN not in self.kinds or ("seed" in needs and "seeded" not in self.kinds):
                yield self._row(name, "", (lacking or ["its kind of request is not tried"])[0], Status.SKIPPED)
                continue
            try:
                yield tried(name)
            except Crashed as error:
                yield self._row(name, "", str(error), Status.CRASHED)
                self._restart()

    def _laws(self) -> Iterator[EngineOutcome]:
        """Distributions of every kind in mixed batches, or alone if the mixed batch crashed; and independence of the requests."""
        counts = {
            name: max(40, int(kind.share * self.requests / kind.settings.get("n", 1)))
            for name, kind in self.kinds.items()
        }
        self.kept, self.right, shared = {}, [], list[tuple[float, str]]()
        try:
            self.kept = self._texts(counts)
        except Crashed as error:
            yield self._row(
                "all kinds in mixed batches", f"{sum(counts.values())} requests", str(error), Status.CRASHED
            )
            self._restart()
        for name, kind in self.kinds.items():
            asked = f"{counts[name]} requests {_settings(kind)}".strip()
            try:
                texts = self.kept[name] = self.kept.get(name) or self._texts({name: counts[name]})[name]
            except Crashed as error:
                yield self._row(name, asked, str(error), Status.CRASHED)
                self._restart()
                continue
            row = self._judged(name, asked, p_value(kind, texts, self.reference, self.generator))
            yield row
            if row.status != Status.FAILED:
                self.right.append(name)
            if kind.temperature and row.evidence.p:  # completions of probability 0 have no ranks
                p, reason = p_value_of_pairs(kind, texts, self.reference, self.generator)
                shared.append((p, f"{name}: {reason}"))
        if shared:
            p, reason = min(shared)
            yield self._judged(
                "requests are independent", f"{len(shared)} kinds", PValue(min(1.0, len(shared) * p), reason)
            )

    def _seeds(self, name: str) -> EngineOutcome:
        count = self.settings.seeded_requests
        first, second = (self._texts({"seeded": count, PLAIN: others})["seeded"] for others in (0, 3 * count))
        differ = sum(a != b for a, b in zip(first, second, strict=True))
        few = differ <= count // 10  # possibly by rounding
        status = Status.PASSED if not differ else Status.UNDECIDED if few else Status.FAILED
        return self._row(name, f"{count} requests alone, then among others", f"{differ} completions differ", status)

    def _log_probabilities(self, name: str) -> EngineOutcome:
        """Compare with those of the model and of the processed distribution: an engine reports either, for every token.

        If the adapter declares which, those are required.
        """
        declared = self._described["reports"]
        if declared not in ("", "raw", "processed"):
            raise Crashed(f"REPORTS must be 'raw' or 'processed', got {declared!r}")
        off = {"raw": (0.0, "no token"), "processed": (0.0, "no token")}
        asked = [each for each in (PLAIN, "temperature", "top-k of many", "top-k", "greedy") if each in self.kinds]
        count = self.settings.logprob_requests
        tried = f"{count} requests of {len(asked)} kinds"
        for kind_name in asked:
            kind = self.kinds[kind_name]
            for (answer,) in self._complete([kind.request(logprobs=True)] * count):
                tokens, given = list(answer["tokens"]), answer["logprobs"]
                logs = [float(each) if isinstance(each, Real) else np.nan for each in ([] if given is None else given)]
                if error := malformed(kind, [tokens], self.n):
                    return self._row(name, tried, f"{kind_name}: {error}", Status.FAILED)
                if len(logs) not in (len(tokens), len(tokens) - len(kind.ends(self.n) & {*tokens[-1:]})):
                    return self._row(name, tried, f"{kind_name}: {len(logs)} for {len(tokens)} tokens", Status.FAILED)
                for which, law in (("raw", Kind(kind.prompt)), ("processed", kind)):
                    p, _, sure = self.reference.laws(law, np.array([tokens]))
                    for position in np.flatnonzero(sure[0, : len(logs)]):
                        mass, reported = p[0, position, tokens[position]], logs[position]
                        right = float(np.log(mass)) if mass > 0 else -np.inf
                        error_of_log = abs(right - reported) if np.isfinite(right - reported) else np.inf
                        where = f"{kind_name}, position {position + 1}: {reported:.3f}, correct: {right:.3f}"
                        off[which] = max(off[which], (error_of_log, where))
        which = declared or min(off, key=lambda each: off[each][0])
        worst, where = off[which]
        status = Status.PASSED if worst < self.settings.logprob_tolerance else Status.FAILED
        return self._row(name, tried, f"{which}: off by {worst:.2g} ({where})", status)

    def _streams(self, name: str) -> EngineOutcome:
        kind, count = self.kinds[PLAIN], max(100, self.requests // 10)
        answers = [answer for (answer,) in self._complete([kind.request(stream=True)] * count)]
        if max(answer["pieces"] for answer in answers) < 2:
            return self._row(name, f"{count} requests", "every completion came in one piece", Status.UNDECIDED)
        texts = [tuple(answer["tokens"]) for answer in answers]
        return self._judged(name, f"{count} requests", p_value(kind, texts, self.reference, self.generator))

    def _aborted(self, name: str) -> EngineOutcome:
        """Test requests together with aborted ones, in a large batch and in small ones, and in the calls after them."""
        count, sent = self.requests // 5, list[tuple[str, Text, set[str]]]()
        order = self.generator.permutation([False] * count + [True] * (count // 3)).tolist()
        calls = self.settings.abort_calls
        for call in (order, *[[False, True, False], [False, False]] * calls):
            where = "with many" if call is order else "with one" if any(call) else "in the call after one"
            requests = [self.kinds[PLAIN].request(**({"abort": True} if aborted else {})) for aborted in call]
            for i, texts in enumerate(self._answers(requests)):
                groups = {where} if call is order else {where, f"position {i + 1} {where}"}
                sent += [(PLAIN, text, groups) for text in texts]
        found = p_value_of_groups(sent, self.kinds, self.reference, self.generator)
        return self._judged(name, f"{count} requests, {count // 3} others aborted; {calls} calls after one", found)

    def _small_batches(self, name: str) -> EngineOutcome:
        """Test every position of small batches, and every pair of kinds in a batch: their errors are rare in large batches."""
        kinds, sent = self.right or [PLAIN], list[tuple[str, Text, set[str]]]()
        for number in range(count := max(self.settings.min_small_batches, self.requests // 20)):
            batch = self.generator.choice(kinds, size := 1 + number % 5).tolist()
            requests = [self._request(each, self.requests + 5 * number + i) for i, each in enumerate(batch)]
            for i, texts in enumerate(self._answers(requests)):
                groups = {f"position {i + 1} of {size}"}
                groups |= {f"with {other}" for j, other in enumerate(batch) if j != i}
                sent += [(batch[i], text, groups) for text in texts]
        found = p_value_of_groups(sent, self.kinds, self.reference, self.generator)
        return self._judged(name, f"{count} batches", found)

    def _drafts_accepted(self, name: str) -> EngineOutcome:
        return self._counted(name, "accepted drafts", PLAIN)

    def _prompts_cached(self, name: str) -> EngineOutcome:
        return self._counted(name, "cached tokens", "long prompt")

    def _counted(self, name: str, counted: str, needs: str) -> EngineOutcome:
        """Test whether there was speculation, or a cache, at all: without it, the other rows do not test it.

        counted: counter that must be above 0. needs: kind of request without which it is not tested.
        """
        counters = self._facts_of("counters") if "counters" in self._described["functions"] else {}
        if counted not in counters or needs not in self.kinds:
            reason = "its kind of request is not tried" if counted in counters else "the adapter does not count them"
            return self._row(name, "", reason, Status.SKIPPED)
        if not isinstance(number := counters[counted], Real):
            raise Crashed(f"{counted!r} of counters must be a number, got {number!r}"[:300])
        status = Status.PASSED if float(number) > 0 else Status.UNDECIDED
        return self._row(name, "", f"{float(number):g} {counted}", status)

    def _step(self, name: str) -> EngineOutcome:
        if "step" not in self._described["functions"]:
            return self._row(name, "", "the adapter has no step", Status.SKIPPED)
        passed, rows, reason, seen = self.call("check_step", samples=50_000, seconds=120.0, false_alarm=self._row_level)
        if passed is None:
            return self._row(name, "", reason, Status.SKIPPED)
        status = Status.PASSED if passed else Status.FAILED
        return self._row(name, f"otd.check_step, {rows} rows", reason or "all checks pass", status, distance=seen)

    def _texts(self, counts: dict[str, int]) -> dict[str, list[Text]]:
        """Send this number of requests of each kind in random order. Return completions by kind, in the order of its requests."""
        order = self.generator.permutation(np.repeat(list(counts), list(counts.values()))).tolist()
        found: dict[str, list[Text]] = {name: [] for name in counts}
        requests, seen = [], Counter[str]()
        for name in order:
            requests.append(self._request(name, seen[name]))
            seen[name] += 1
        for name, texts in zip(order, self._answers(requests), strict=True):
            found[name] += texts
        return found

    def _request(self, name: str, number: int) -> dict[str, Any]:
        """Return a request of a kind, with the number added to its seed."""
        kind = self.kinds[name]
        return kind.request(**({"seed": kind.settings["seed"] + number} if "seed" in kind.settings else {}))

    def _answers(self, requests: list[dict[str, Any]]) -> list[list[Text]]:
        """Return the completions of each request, none of an aborted one."""
        pairs = zip(requests, self._complete(requests), strict=True)
        return [[] if "abort" in request else [tuple(each["tokens"]) for each in own] for request, own in pairs]

    def _complete(self, requests: list[dict[str, Any]]) -> list[Any]:
        """Return the adapter's completions. Raises Crashed if one is missing or invalid: missing data decide nothing."""
        answers: Any = self.call("complete", requests)
        if not isinstance(answers, list | tuple):
            raise Crashed(f"complete must return a list of completions for each request, got {answers!r}"[:300])
        if len(answers) != len(requests):
            raise Crashed(f"complete must return {len(requests)} lists, one for each request, got {len(answers)}")
        names = {"stream": "pieces", "logprobs": "logprobs"}  # of the request -> required in the completion
        for request, own in zip(requests, answers, strict=True):
            n, wanted = request.get("n", 1), {"tokens", *(names[each] for each in names.keys() & request.keys())}
            listed = isinstance(own, list | tuple) and len(own) == n
            if not request.get("abort") and not (listed and all(_is_answer(each, wanted) for each in own)):
                raise Crashed(f"complete must return {n} completions with {sorted(wanted)}, got {own}"[:300])
        return list(answers)

    @property
    def _row_level(self) -> float:
        """False-positive rate of a row."""
        return self.level / self.settings.max_rows

    def _judged(self, name: str, tried: str, found: PValue) -> EngineOutcome:
        level, p = self._row_level, found.p
        status = Status.FAILED if p < level else Status.PASSED if found.enough else Status.UNDECIDED
        few = "" if found.enough else "; too few completions for a decision"
        seen = found.detectable_bias(level) if found.min_tokens else None
        return self._row(name, tried, f"p = {p:.2g} ({found.reason}){few}", status, p, seen)

    def _row(
        self, name: str, sent: str, reason: str, status: Status, p: float = 1.0, distance: float | None = None
    ) -> EngineOutcome:
        evidence = EngineEvidence(reason=reason, sent=sent, p=p, distance=distance)
        return Outcome(check=f"{name}, {self.n} tokens", status=status, evidence=evidence)


def _is_answer(given: Any, wanted: set[str]) -> bool:
    """Whether it is a completion with all wanted entries, of the right types."""
    if not isinstance(given, dict) or not wanted <= given.keys():
        return False
    listed = (given[each] for each in wanted - {"pieces"} if given[each] is not None or each != "logprobs")
    return all(isinstance(each, Iterable) for each in listed) and isinstance(given.get("pieces", 0), Real)


def _settings(kind: Kind) -> str:
    return " ".join(f"{name}={value}" for name, value in kind.settings.items() if name != "grammar")
