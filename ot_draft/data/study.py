"""A study of pairs of laws: which rules with how many drafts, toward which target.

Its numbers on a block of pairs, and on pairs in memory (`compare_rules`).
"""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from hashlib import blake2b
from operator import truediv
from pathlib import Path
from threading import current_thread, main_thread
from types import ModuleType
from typing import Any

import numpy as np

from .. import rules
from ..arrays import Array, is_exact
from ..errors import InvalidArgument, InvalidDrafts
from ..laws import DraftLaw, Hybrid, is_defined, law_called
from ..lossy.base import Target
from ..lp.program import seconds as program_seconds
from ..lp.solution import solve_program
from ..names import lookup
from ..optimum import optimal_acceptance
from ..problem import Problem
from ..sampling import draw
from ..selection import SelectionRule, under, with_arguments
from .estimate import Place, evaluate_pairs
from .pairs import PairsFound

# Without those that take up to seconds a pair.
DEFAULT_RULES: tuple[SelectionRule, ...] = (
    *(rule for rule in rules.ALL if not rule.cost.slow),
    rules.Optimal(Hybrid("auto")),
)
# Rules that choose among several i.i.d. drafts by p and q.
SEVERAL_DRAFTS: tuple[SelectionRule, ...] = (rules.RecursiveRejection(), rules.KSeq(), rules.Optimal())
# Those whose acceptance has a formula that is quick on many pairs at a time.
QUICK_RULES: tuple[SelectionRule, ...] = (rules.SpeculativeSampling(), rules.NaiveTarget(), *SEVERAL_DRAFTS)


@dataclass(frozen=True)
class Study:
    """Settings of a comparison: every rule under its own draft law, with every number of drafts k for which the draft law is defined.

    Parameters
    ----------
    ks : tuple of int, default=(1, 2, 4, 8)
        Numbers of draft tokens.
    rules : tuple of SelectionRule, optional
        All rules of the library that take less than seconds per pair, by default.
    samples : int, default=256
        Number of random draft tuples per pair, for values that are not exact. The rules of a draft law share the tuples of a pair and k.
    seed : int, default=0
        Seed of the random numbers.
    lp_limit : float, default=5.0
        Maximum estimated time in seconds of the linear programs of one draft law and k on all pairs.
    target : Target, optional
        Target of `otd.lossy` that replaces p. The optimum is then the largest acceptance within its budget.

    Raises
    ------
    InvalidArgument
        If a number is below 1, or a rule or k is given twice.

    Examples
    --------
    >>> import ot_draft as otd
    >>> from ot_draft.data import Study
    >>> Study(ks=(2,), rules=(otd.rules.KSeq(),)).ks
    (2,)
    """

    ks: tuple[int, ...] = (1, 2, 4, 8)
    rules: tuple[SelectionRule, ...] = DEFAULT_RULES
    samples: int = 256
    seed: int = 0
    lp_limit: float = 5.0
    target: Target | None = None

    def __post_init__(self) -> None:
        if not self.ks or not self.rules:
            raise InvalidArgument(
                f"ks and rules must not be empty, got {self.ks} and {self.rules}. Give at least one of each."
            )
        largest = 32_767  # of a column of 16 bits
        if min(self.samples, *self.ks) < 1 or max(self.ks) > largest:
            raise InvalidArgument(
                f"samples and ks must be integers from 1, and ks at most {largest:,}, got {self.samples} and {self.ks}."
                " Change the one that is not."
            )
        for name, given in (("ks", self.ks), ("rules", self.rules)):
            twice = [one for number, one in enumerate(given) if one in given[:number]]
            if twice:
                raise InvalidArgument(f"{name} must differ, got {twice[0]} twice. Give it once.")

    def problem(self, p: Any, q: Any, k: int, law: DraftLaw) -> Problem:
        """Return the problem of the pairs (..., n) with k drafts of the draft law, for `target` instead of p if set."""
        return Problem(p if self.target is None else self.target(p, q, k, law), q, k, law)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that make two studies the same, but for lp_limit, for a file of JSON."""
        rules = [[re.sub(r" at 0x\w+", "", repr(rule)), rule.law.name, *_code_digest(rule)] for rule in self.rules]
        target = self.target and repr(self.target)
        return {"rules": rules, "ks": self.ks, "samples": self.samples, "seed": self.seed, "target": target}

    @property
    def rows_a_pair(self) -> int:
        """Number of rows that `compare_parts` makes per pair: optimum and linear program of every draft law, and all rules, for every k."""
        laws = sum(len({rule.law for rule in self.rules if is_defined(rule.law, k)}) for k in self.ks)
        return 2 * laws + len(self.ks) * len(self.rules)

    @property
    def target_name(self) -> str:
        """Name of the target that replaces p; "" for p itself."""
        return "" if self.target is None else self.target.name


def _code_digest(rule: SelectionRule) -> list[str]:
    """Digest of the files that define a rule and of the imported modules in the same folders; none for a rule of this package."""
    package = __name__.partition(".")[0]
    names = [
        type(rule).__module__,
        *(getattr(value, "__module__", None) for value in getattr(rule, "__dict__", {}).values() if callable(value)),
    ]
    files, waiting = dict[Path, bytes](), [sys.modules.get(str(name)) for name in names]
    while waiting:
        module = waiting.pop()
        place = getattr(module, "__file__", None)
        if (
            module is None
            or place is None
            or module.__name__.partition(".")[0] == package
            or (file := Path(place)) in files
        ):
            continue
        files[file] = file.read_bytes() if file.is_file() else b""
        used = [
            each if isinstance(each, ModuleType) else sys.modules.get(str(getattr(each, "__module__", "")))
            for each in vars(module).values()
        ]
        waiting += [each for each in used if Path(getattr(each, "__file__", None) or "").parent == file.parent]
    digest = blake2b(b"".join(blake2b(files[file]).digest() for file in sorted(files)), digest_size=16)
    return [digest.hexdigest()] if files else []


def choose_rules(names: Sequence[str] = (), laws: Sequence[str] = ()) -> tuple[SelectionRule, ...]:
    """Rules of these names (DEFAULT_RULES without any) under these laws (each its own without any).

    A law that is asked for also gets the rules that are valid under it though it is not their own (`SelectionRule.under`): naive
    target sampling and the rule read off the linear program under every law, the optimal rule under hybrid drafting.
    """
    chosen = tuple(dict.fromkeys(map(library_rule, names))) or DEFAULT_RULES
    return under_laws(chosen, laws)


def library_rule(name: str) -> SelectionRule:
    """Return the library's rule of this name or of this paper; raises InvalidArgument for another name."""
    known = {rule.name: rule for rule in rules.ALL}
    return lookup(name, known, "rule", {paper: known[own] for paper, own in rules.PAPERS.items()})


def under_laws(
    chosen: tuple[SelectionRule, ...], laws: Sequence[str], most: int | None = None
) -> tuple[SelectionRule, ...]:
    """The rules under the draft laws of these names, as in `choose_rules`. most: the largest k, as in `law_called`."""
    if not laws:
        return chosen
    found = [at for law in laws for rule in chosen if (at := under(rule, law_called(law, most))) is not None]
    if not found:
        raise InvalidArgument(
            f"rules must include a rule for {', '.join(laws)}, got {', '.join(r.name for r in chosen)}. Choose other rules or draft laws."
        )
    return tuple(
        rule for place, rule in enumerate(found) if rule not in found[:place]
    )  # Optimal is a default rule twice


OF_RULE = "raised by the rule "  # start of a note on an exception that a rule raised


class OptimumRow(StrEnum):
    """Name of a row that is not a rule: the optimum, by the dual or by a linear program."""

    DUAL = "optimum"
    LINEAR_PROGRAM = "optimum by LP"


class NoAcceptance(StrEnum):
    """Method of a row without an acceptance: why there is none."""

    TOO_LARGE = "- too many draft sets"
    UNDEFINED = "- no such k under this law"
    RAISED = "- raised "  # followed by the error


@dataclass(frozen=True)
class Row:
    """One rule (or optimum) with k drafts on one pair, Fractions or Python floats; or on the R pairs of a block, arrays (R,).

    pair: what the pair is called; None of a block. accepted, taken, error: see `estimate.Acceptance`; None where it was left
    out, and `method` says why. optimum: for the draft law. method: formula, enumerated, estimated, dual, lp, or a reason.
    """

    pair: Any
    k: int
    rule: str
    law: str
    accepted: Any
    taken: Any
    error: Any
    optimum: Any
    method: str

    def at(self, place: int, pair: int) -> Row:
        """Return the row of one pair of a block."""
        numbers = [x if x is None else x[place] for x in (self.accepted, self.taken, self.optimum)]
        accepted, taken, optimum = (x if x is None or isinstance(x, Fraction) else float(x) for x in numbers)
        error = 0.0 if self.error is None else float(self.error[place])
        return Row(pair, self.k, self.rule, self.law, accepted, taken, error, optimum, self.method)


def block(
    study: Study, p: Array, q: Array, place_of: Callable[[int], Place], lp_seconds: float | None = None
) -> Iterator[Row]:
    """For each k the optima of all laws, then all rules in the study's order; p, q: (R, n), floats or Fractions.

    place_of: place of a row, which seeds its random drafts. lp_seconds: that a linear program may take, of which each optimum then
    has one beside it; without it there are none, and rules that solve one always do.
    """
    for k in study.ks:
        laws = dict.fromkeys(rule.law for rule in study.rules if is_defined(rule.law, k))
        problems = {law: study.problem(p, q, k, law) for law in laws}
        optima = {law: optimal_acceptance(problem.p, q, k, law) for law, problem in problems.items()}
        for law, best in optima.items():
            yield Row(None, k, OptimumRow.DUAL, law.name, best, best, 0 * best, best, "dual")
            if lp_seconds is not None:
                yield _linear_program(problems[law], best, lp_seconds)
        for rule in study.rules:
            problem = problems.get(rule.law)
            if problem is None:
                yield Row(None, k, with_arguments(rule), rule.law.name, None, None, None, None, NoAcceptance.UNDEFINED)
            else:
                yield _rule(study, rule, problem, optima[rule.law], place_of, lp_seconds)


def _linear_program(problem: Problem, best: Array, seconds: float) -> Row:
    about = (None, problem.k, OptimumRow.LINEAR_PROGRAM, problem.law.name)
    if max(program_seconds(problem.law, q, problem.k) for q in problem.q) > seconds:
        return Row(*about, None, None, None, best, NoAcceptance.TOO_LARGE)
    solver = "flow" if is_exact(problem.p) else "highs"
    alone = (Problem(p, q, problem.k, problem.law) for p, q in zip(problem.p, problem.q, strict=True))
    values = np.array([solve_program(each, solver).acceptance for each in alone])
    return Row(*about, values, values, 0 * values, best, "lp")


def _rule(
    study: Study, rule: SelectionRule, problem: Problem, best: Array, place_of: Callable[[int], Place], seconds: float | None
) -> Row:  # fmt: skip
    about = (None, problem.k, with_arguments(rule), rule.law.name)
    if seconds is not None and max(rule.cost.seconds(q, problem.k) for q in problem.q) > seconds:
        return Row(*about, None, None, None, best, NoAcceptance.TOO_LARGE)
    try:
        with prints_on_stderr():  # prints of a rule are not part of the table
            found = evaluate_pairs(rule, problem, study.samples, study.seed, place_of, best)
    except (InvalidArgument, InvalidDrafts, NotImplementedError) as error:
        said = " ".join(str(error).split()) or type(error).__name__
        told = f"{NoAcceptance.RAISED}{type(error).__name__}: {said}" if _takes(rule, problem) else f"- {said}"
        return Row(*about, None, None, None, best, told)
    except (Exception, SystemExit) as error:
        error.add_note(f"{OF_RULE}{with_arguments(rule)}")
        raise
    return Row(*about, found.value, found.taken, found.error, best, found.method)


def prints_on_stderr() -> AbstractContextManager[object]:
    """Redirect what is printed to stderr, in the main thread alone: all threads share sys.stdout, and one could restore another's."""
    return redirect_stdout(sys.stderr) if current_thread() is main_thread() else nullcontext()


def _takes(rule: SelectionRule, problem: Problem) -> bool:
    """Whether the rule supports k draft tokens for some simple p and q of 2, 3 or n tokens, among them p = q."""
    share: Callable[[int, int], Fraction | float] = Fraction if is_exact(problem.p) else truediv
    for n in (2, 3, problem.n):
        ramp = np.array([[share(token, n * (n + 1) // 2) for token in range(1, n + 1)]])
        uniform = np.full((1, n), share(1, n))
        for p, q in ((uniform, uniform), (ramp, uniform), (ramp, ramp[:, ::-1])):
            try:
                rule(p.copy(), q.copy(), draw(problem.law, q.astype(float), problem.k, np.random.default_rng(0)))
            except (InvalidArgument, InvalidDrafts, NotImplementedError):
                continue
            except (Exception, SystemExit):  # an error that is not about k
                return True
            return True
    return False


def chunk_of(n: int, pairs: int = 8, cells: int = 1 << 15) -> int:
    """Number of pairs per task of joblib, for n tokens: up to `pairs` pairs and `cells` probabilities, at least one pair."""
    return max(1, min(pairs, cells // n))


@dataclass(frozen=True)
class Compared:
    """Some pairs, all their rows in order of pairs, ks and rules, and TV(p, q) of each. rows: None where they were not asked for."""

    pairs: PairsFound
    rows: list[Row] | None
    distances: list[Any]


def compare_parts(
    pairs: PairsFound,
    study: Study | None = None,
    jobs: int = 1,
    known: int = 0,
    on_rule: Callable[[int], object] | None = None,
) -> Iterator[Compared]:
    """Chunk after chunk of pairs (`chunk_of`), bitwise identical for any number of jobs; no more in memory than is at work.

    known: number of first chunks that are known and get no rows. on_rule: called with the number of pairs after each rule and k, if all
    pairs are one chunk.
    """
    study, size = study or Study(), chunk_of(pairs.n)
    seconds, chunks = study.lp_limit / len(pairs), -(-len(pairs) // size)
    tasks = ((part, study if number >= known else None, seconds) for number, part in enumerate(pairs.parts(size)))
    if jobs == 1 or chunks == 1:
        work = (_compare_chunk(*task, on_rule if chunks == 1 else None) for task in tasks)
    else:
        from joblib import Parallel, delayed

        parallel = Parallel(n_jobs=min(jobs, chunks), return_as="generator", batch_size=1)
        work = parallel(delayed(_compare_in_worker)(*task) for task in tasks)
    for part, done in zip(pairs.parts(size), work, strict=True):
        yield Compared(part, *done)


def compare_rules(
    pairs: PairsFound, study: Study | None = None, jobs: int = 1, advance: Callable[[int], object] | None = None
) -> list[Row]:
    """Return the acceptance of every rule and the optimum of every draft law on all pairs.

    Parameters
    ----------
    pairs : Pairs or PairFile
        m pairs of target and draft distributions.
    study : Study, optional
        Rules, numbers of draft tokens and settings.
    jobs : int, default=1
        Number of processes. The result does not depend on it.
    advance : callable, optional
        Called with the number of pairs that were just done.

    Returns
    -------
    list of Row
        In order of pairs, numbers of draft tokens and rules.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import rules
    >>> from ot_draft.data import summarise
    >>> from ot_draft.data.pairs import as_pairs
    >>> pairs = as_pairs({"p": np.array([[0.5, 0.5]]), "q": np.array([[0.75, 0.25]])}, "example")
    >>> rows = compare_rules(pairs, Study(ks=(1, 2), rules=(rules.KSeq(),), lp_limit=0))
    >>> [(str(line.rule), line.k, round(line.accepted, 4)) for line in summarise(rows, pairs) if line.accepted is not None]
    [('optimum', 1, 0.75), ('KSeq', 1, 0.75), ('optimum', 2, 0.9375), ('KSeq', 2, 0.8476)]
    """
    rows: list[Row] = []
    for done in compare_parts(pairs, study, jobs):
        rows += done.rows or []
        if advance:
            advance(len(done.pairs))
    return rows


class ErrorOfRule(Exception):
    """An exception of a rule that cannot be sent between processes: its type and message."""


def _compare_in_worker(part: PairsFound, study: Study | None, seconds: float) -> tuple[list[Row] | None, list[Any]]:
    try:
        return _compare_chunk(part, study, seconds)
    except (Exception, SystemExit) as error:
        if _can_be_sent(error):
            raise
        sent = ErrorOfRule(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            sent.add_note(note)
        raise sent from None


def _can_be_sent(error: BaseException) -> bool:
    """Whether the exception survives the way to another process, which also imports the modules of its type."""
    try:
        return type(error) is not SystemExit and type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:
        return False


def _compare_chunk(
    part: PairsFound, study: Study | None, seconds: float, on_rule: Callable[[int], object] | None = None
) -> tuple[list[Row] | None, list[Any]]:
    pairs = part.load()
    distances = [value / 2 for value in abs(pairs.p - pairs.q).sum(-1).tolist()]
    if study is None:
        return None, distances
    found, optima = list[Row](), set[str](OptimumRow)
    for each in block(study, pairs.p, pairs.q, lambda row: (pairs.index[row],), seconds):
        found.append(each)
        if on_rule and each.rule not in optima:
            on_rule(len(pairs))
    return [row.at(place, pair) for place, pair in enumerate(pairs.index) for row in found], distances
