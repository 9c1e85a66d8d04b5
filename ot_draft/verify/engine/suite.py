"""The suite: an engine with the tiny pair in it is sent every kind of request, and its answers are judged, row by row of one table."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from ..outcome import EngineEvidence, Outcome, Status
from ..report import Report
from .adapter import Crashed, EngineProcess, engines
from .evidence import PValue, apart, malformed, p_value, together
from .kinds import PLAIN, Kind, ReferencePair, Text, kinds_for
from .tiny_pair import write

WORDS = {Status.PASSED: "kept", Status.FAILED: "WRONG", Status.SKIPPED: "not tried"}
REQUESTS = 4000  # of the first kind, where the adapter names no number
AGAIN = 40  # requests that are sent twice with one seed
COUNTED = {  # rows that are no more than a number above 0: of which counter, and of which kind of request
    "drafts are accepted": ("accepted drafts", PLAIN),
    "prompts come from a cache": ("cached tokens", "long prompt"),
}
ASKED = {"stream": "pieces", "logprobs": "logprobs"}  # by the request: what the answer must have
BATCHES = 150  # small ones at least: 30 of each size
ROUNDS = 30  # calls with an aborted request, each before one without
REPORTED = 25  # requests of a kind whose log-probabilities are read
OFF = 0.02  # a log-probability may be off by so much
ROWS = 60  # more than there are of judged rows for all pairs: the level is divided between them


EngineOutcome = Outcome[EngineEvidence]


@dataclass(frozen=True)
class EngineReport(Report[EngineEvidence]):
    """Outcomes of all rows of one engine. tried: the facts that the adapter states about the engine."""

    @property
    def exit_status(self) -> int:
        """1 if a row failed, 2 if a row crashed or is undecided or none was judged, else 0."""
        return {Status.FAILED: 1, Status.PASSED: 0}.get(self.status, 2)

    @property
    def sentence(self) -> str:
        """The table in one sentence."""
        counts = Counter(word(row) for row in self.outcomes)
        said = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
        return f"{said}. Probability that a right engine has a WRONG row: at most about {self.false_alarm:g}."


def word(row: EngineOutcome) -> str:
    """The status of a row in the words of the table."""
    return WORDS.get(row.status, row.status.value)


def line(row: EngineOutcome) -> str:
    """A row on one line."""
    return f"{row.check}: {word(row)}: {row.evidence.sent}: {row.evidence.reason}"


def conform(
    engine: str, options: dict[str, str] | None = None, sizes: Sequence[int] = (8, 2000), requests: int | None = None,
    level: float = 1e-6, seconds: float = 900.0, models: Path | None = None,
    on_row: Callable[[EngineOutcome], None] = lambda row: None, seed: int = 0,
) -> EngineReport:  # fmt: skip
    """Try everything with a pair of each size. engine: a name of `adapter.engines()`, a module or a file; options: for its `start`.

    requests: of the first kind. level: probability that a right engine has a wrong row. seconds: the longest call of the engine.
    models: the folder of the pairs, a temporary one by default. seed: of the order of requests.
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
                seconds,
                np.random.default_rng(seed),
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
    """One pair in one engine. kinds, kept: what was sent, and the texts that came; right: the kinds that are not WRONG."""

    name: str
    options: dict[str, str]
    folder: Path
    n: int
    asked: int | None
    level: float
    seconds: float
    generator: np.random.Generator
    engine: EngineProcess | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    kept: dict[str, list[Text]] = field(default_factory=dict)
    right: list[str] = field(default_factory=list)

    def start(self) -> None:
        """Write the pair and start the engine with it. Raises Crashed."""
        folders = write(self.folder, self.n)
        self._restart()
        self.reference = ReferencePair.load(*folders, self._described["presence of prompt"])

    def _restart(self) -> None:
        self.close()
        self.engine = EngineProcess(self.name, Path(tempfile.mkdtemp()) / "engine.txt", self.seconds)
        self._learn("start", str(self.folder / "target"), str(self.folder / "draft"), **self.options)
        self._described = self.call("describe")
        self.lacks = self._described["lacks"]
        self.requests = self.asked or self._described["requests"] or REQUESTS

    def call(self, function: str, *given: Any, **options: Any) -> Any:
        """A function of the adapter's. Raises Crashed."""
        assert self.engine is not None
        return self.engine.call(function, *given, **options)

    def _learn(self, function: str, *given: Any, **options: Any) -> dict[str, Any]:
        """What a function of the adapter says of the engine, which is printed. Raises Crashed where it is no dict."""
        facts: Any = self.call(function, *given, **options)
        if not isinstance(facts, dict):
            raise Crashed(f"{function}: a dict of facts was asked for, and came {facts!r}"[:300])
        self.facts |= facts
        return facts

    def close(self) -> None:
        """Stop the engine."""
        if self.engine is not None:
            self.engine.close()

    def rows(self) -> Iterator[EngineOutcome]:
        """One after the other, as they are judged."""
        if "mixed batches" in self.lacks:
            yield self._row("mixed batches", "", self.lacks["mixed batches"], Status.SKIPPED)
        self.kinds, always = {}, "ignore_eos" in self.lacks  # the last token always ends a text
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
            ("beside aborted requests", ("abort",), self._aborted),
            ("one to five at a time", ("mixed batches",), self._few),
            *((each, (), self._counted) for each in COUNTED),
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
        """The law of every kind in mixed batches; alone where the mixed batch crashed; and that requests share no chance."""
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
            if kind.temperature and row.evidence.p:  # texts that the law does not have have no places in it
                p, said = together(kind, texts, self.reference, self.generator)
                shared.append((p, f"{name}: {said}"))
        if shared:
            p, said = min(shared)
            yield self._judged(
                "requests share no chance", f"{len(shared)} kinds", PValue(min(1.0, len(shared) * p), said)
            )

    def _seeds(self, name: str) -> EngineOutcome:
        first, second = (self._texts({"seeded": AGAIN, PLAIN: mates})["seeded"] for mates in (0, 3 * AGAIN))
        differ = sum(a != b for a, b in zip(first, second, strict=True))
        verdict = (
            Status.PASSED if not differ else Status.FAILED if differ > AGAIN // 10 else Status.UNDECIDED
        )  # few: rounding may do that
        return self._row(name, f"{AGAIN} requests alone, then among others", f"{differ} texts differ", verdict)

    def _log_probabilities(self, name: str) -> EngineOutcome:
        """Held to the raw law and to the one that the settings make: an engine reports the one or the other, of every token.

        Where the adapter declares which, to that one.
        """
        declared = self._described["reports"]
        if declared not in ("", "raw", "processed"):
            raise Crashed(f"REPORTS is {declared!r}: give 'raw' or 'processed'")
        off = {"raw": (0.0, "no token"), "processed": (0.0, "no token")}
        asked = [each for each in (PLAIN, "temperature", "top-k of many", "top-k", "greedy") if each in self.kinds]
        tried = f"{REPORTED} requests of {len(asked)} kinds"
        for kind_name in asked:
            kind = self.kinds[kind_name]
            for (answer,) in self._complete([kind.request(logprobs=True)] * REPORTED):
                tokens, given = list(answer["tokens"]), answer["logprobs"]
                logs = [float(each) if isinstance(each, Real) else np.nan for each in ([] if given is None else given)]
                if not_a_text := malformed(kind, [tokens], self.n):
                    return self._row(name, tried, f"{kind_name}: {not_a_text}", Status.FAILED)
                if len(logs) not in (len(tokens), len(tokens) - len(kind.ends(self.n) & {*tokens[-1:]})):
                    return self._row(name, tried, f"{kind_name}: {len(logs)} for {len(tokens)} tokens", Status.FAILED)
                for which, law in (("raw", Kind(kind.prompt)), ("processed", kind)):
                    p, _, sure = self.reference.laws(law, np.array([tokens]))
                    for place in np.flatnonzero(sure[0, : len(logs)]):
                        mass, said = p[0, place, tokens[place]], logs[place]
                        right = float(np.log(mass)) if mass > 0 else -np.inf
                        wrong = abs(right - said) if np.isfinite(right - said) else np.inf
                        where = f"{kind_name}, place {place + 1}: {said:.3f} for {right:.3f}"
                        off[which] = max(off[which], (wrong, where))
        which = declared or min(off, key=lambda each: off[each][0])
        worst, where = off[which]
        return self._row(
            name, tried, f"{which}: off by {worst:.2g} ({where})", Status.PASSED if worst < OFF else Status.FAILED
        )

    def _streams(self, name: str) -> EngineOutcome:
        kind, count = self.kinds[PLAIN], max(100, self.requests // 10)
        answers = [answer for (answer,) in self._complete([kind.request(stream=True)] * count)]
        if max(answer["pieces"] for answer in answers) < 2:
            return self._row(name, f"{count} requests", "every text came in one piece", Status.UNDECIDED)
        texts = [tuple(answer["tokens"]) for answer in answers]
        return self._judged(name, f"{count} requests", p_value(kind, texts, self.reference, self.generator))

    def _aborted(self, name: str) -> EngineOutcome:
        """Beside aborted requests of a large batch and of small ones, and in the calls after them."""
        count, sent = self.requests // 5, list[tuple[str, Text, set[str]]]()
        order = self.generator.permutation([False] * count + [True] * (count // 3)).tolist()
        for call in (order, *[[False, True, False], [False, False]] * ROUNDS):
            where = "beside many" if call is order else "beside one" if any(call) else "in the call after one"
            requests = [self.kinds[PLAIN].request(**({"abort": True} if aborted else {})) for aborted in call]
            for place, texts in enumerate(self._answers(requests)):
                groups = {where} if call is order else {where, f"place {place + 1} {where}"}
                sent += [(PLAIN, text, groups) for text in texts]
        found = apart(sent, self.kinds, self.reference, self.generator)
        return self._judged(name, f"{count} requests, {count // 3} others aborted; {ROUNDS} calls after one", found)

    def _few(self, name: str) -> EngineOutcome:
        """Every place of small batches, and what is beside each kind: what goes wrong there hides among many others."""
        kinds, sent = self.right or [PLAIN], list[tuple[str, Text, set[str]]]()
        for wave in range(count := max(BATCHES, self.requests // 20)):
            batch = self.generator.choice(kinds, size := 1 + wave % 5).tolist()
            requests = [self._request(each, self.requests + 5 * wave + i) for i, each in enumerate(batch)]
            for place, texts in enumerate(self._answers(requests)):
                groups = {f"place {place + 1} of {size}"}
                groups |= {f"beside {other}" for i, other in enumerate(batch) if i != place}
                sent += [(batch[place], text, groups) for text in texts]
        return self._judged(name, f"{count} batches", apart(sent, self.kinds, self.reference, self.generator))

    def _counted(self, name: str) -> EngineOutcome:
        """Whether there was speculation, or a cache, at all: a law that is kept without it says nothing of it."""
        counted, needs = COUNTED[name]
        counters = self._learn("counters") if "counters" in self._described["functions"] else {}
        if counted not in counters or needs not in self.kinds:
            said = "its kind of request is not tried" if counted in counters else "the adapter does not count them"
            return self._row(name, "", said, Status.SKIPPED)
        if not isinstance(number := counters[counted], Real):
            raise Crashed(f"counters: {counted!r} has to be a number, and is {number!r}"[:300])
        return self._row(
            name, "", f"{(value := float(number)):g} {counted}", Status.PASSED if value > 0 else Status.UNDECIDED
        )

    def _step(self, name: str) -> EngineOutcome:
        if "step" not in self._described["functions"]:
            return self._row(name, "", "the adapter has no step", Status.SKIPPED)
        passed, rows, said, seen = self.call("check_step", samples=50_000, seconds=120.0, false_alarm=self.level / ROWS)
        if passed is None:
            return self._row(name, "", said, Status.SKIPPED)
        verdict = Status.PASSED if passed else Status.FAILED
        return self._row(name, f"otd.check_step, {rows} rows", said or "all checks pass", verdict, distance=seen)

    def _texts(self, counts: dict[str, int]) -> dict[str, list[Text]]:
        """The texts of so many requests of each kind, in one random order; in each kind's own order."""
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
        """One of a kind, whose seed has the number added, if it has one."""
        kind = self.kinds[name]
        return kind.request(**({"seed": kind.settings["seed"] + number} if "seed" in kind.settings else {}))

    def _answers(self, requests: list[dict[str, Any]]) -> list[list[Text]]:
        """The texts of each request, none of an aborted one."""
        pairs = zip(requests, self._complete(requests), strict=True)
        return [[] if "abort" in request else [tuple(each["tokens"]) for each in own] for request, own in pairs]

    def _complete(self, requests: list[dict[str, Any]]) -> list[Any]:
        """The adapter's answers. Raises Crashed where one is missing or none at all: nothing is said of what did not come."""
        answers: Any = self.call("complete", requests)
        if not isinstance(answers, list | tuple):
            raise Crashed(f"complete: a list of answers for each request was asked for, and came {answers!r}"[:300])
        if len(answers) != len(requests):
            raise Crashed(f"complete: {len(answers)} answers to {len(requests)} requests")
        for request, own in zip(requests, answers, strict=True):
            n, wanted = request.get("n", 1), {"tokens", *(ASKED[each] for each in ASKED.keys() & request.keys())}
            listed = isinstance(own, list | tuple) and len(own) == n
            if not request.get("abort") and not (listed and all(_is_answer(each, wanted) for each in own)):
                raise Crashed(f"complete: {n} answers with {sorted(wanted)} were asked for, and came {own}"[:300])
        return list(answers)

    def _judged(self, name: str, tried: str, found: PValue) -> EngineOutcome:
        level, p = self.level / ROWS, found.p
        verdict = Status.FAILED if p < level else Status.PASSED if found.enough else Status.UNDECIDED
        few = "" if found.enough else "; too few texts: not judged"
        seen = found.detectable_bias(level) if found.least else None
        return self._row(name, tried, f"p = {p:.2g} ({found.said}){few}", verdict, p, seen)

    def _row(
        self, name: str, sent: str, reason: str, status: Status, p: float = 1.0, distance: float | None = None
    ) -> EngineOutcome:
        evidence = EngineEvidence(reason=reason, sent=sent, p=p, distance=distance)
        return Outcome(check=f"{name}, {self.n} tokens", status=status, evidence=evidence)


def _is_answer(given: Any, wanted: set[str]) -> bool:
    """Whether it is an answer with all that is wanted, each of the kind that can be judged."""
    if not isinstance(given, dict) or not wanted <= given.keys():
        return False
    listed = (given[each] for each in wanted - {"pieces"} if given[each] is not None or each != "logprobs")
    return all(isinstance(each, Iterable) for each in listed) and isinstance(given.get("pieces", 0), Real)


def _settings(kind: Kind) -> str:
    return " ".join(f"{name}={value}" for name, value in kind.settings.items() if name != "grammar")
