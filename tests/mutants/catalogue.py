"""Every planted fault: its name, what it breaks, the parts exchanged, and by which property, check or bet each form of it is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import ot_draft as otd

from . import parts, tables
from .rules import RULES
from .runs import RUNS
from .step import Step
from .tables import Pair, Tables

CHECKED = ("sampler", "step", "path")
FORMS = (*CHECKED, "rule", "audit", "plugin")
LAW = ("output_distribution",)
ANY_LAW = ("output_distribution", "possible_tokens", "possible_step", "joint_law", "declared_draft_law", "given_drafts")
TIED = ("independent_steps", "output_distribution", "small_batches")
AUDIT = ("audit",)
PLUGIN = ("plugin",)


@dataclass(frozen=True)
class Mutant:
    """One fault.

    breaks: the part of a verifier that is wrong. step(): a new wrong step. audited: the tables of the wrong sampler on a pair,
    where they do not follow from the step, or its run where it has none. found: by its forms, what finds each of them.
    options: of the check that is to find it, by form.
    """

    name: str
    breaks: str
    step: Callable[[], Step] | None = None
    rule: Callable[[], otd.SelectionRule] | None = None
    audited: Callable[..., Any] | None = None
    found: dict[str, tuple[str, ...]] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def report(self, form: str, **options: Any) -> Any:
        """What check_sampler says of the step's verification, or check_step of the step, or of its path."""
        step = self.step()  # type: ignore[misc]
        called = {"sampler": lambda: step.sampler, "step": lambda: step, "path": lambda: step.path}[form]()
        check = otd.check_sampler if form == "sampler" else otd.check_step
        along = {"path": True} if form == "path" else {}
        return check(called, batched=True, **{"seconds": None, **along, **self.options.get(form, {}), **options})

    def tables(self, pair: Pair) -> Tables:
        """The token-wise sampler with this fault in it."""
        return self.audited(pair) if self.audited else tables.of_step(self.step(), pair)  # type: ignore[misc]


def wrong(breaks: str, name: str, found: dict[str, tuple[str, ...]], **exchanged: Any) -> Mutant:
    """A step with these parts exchanged."""
    return Mutant(name, breaks, lambda: Step(**exchanged), found=found)


def whole(
    breaks: str, name: str, found: dict[str, tuple[str, ...]], step: Callable[[], Step], **options: Any
) -> Mutant:
    """A step that is wrong as a whole, or has a memory: made anew for every use. options: of check_step."""
    return Mutant(name, breaks, step, found=found, options={"step": options})


def where(name: str, step: Callable[[], Step], here: Callable[[Any, Any], bool], by: tuple[str, ...]) -> Mutant:
    return whole("sizes", name, {"sampler": by}, lambda: parts.Where(step(), here))


def together(m: int) -> Callable[[Any, Any], bool]:
    return lambda p, drafts: p[0] == m


def only(**found: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return found


RECURSIVE = otd.rules.RecursiveRejection()
LAWS = [
    # The law of the target, or of the draft, that is verified with.
    wrong("target", "p tempered by 0.95", only(sampler=LAW), p_seen=parts.tempered(0.95)),
    wrong("target", "p tempered by 0.9", only(audit=AUDIT), p_seen=parts.tempered(0.9)),
    wrong("target", "p mixed with 1 % uniform: top-k lost", only(sampler=ANY_LAW), p_seen=parts.mixed(0.01)),
    wrong("target", "p of the row before", only(sampler=ANY_LAW, audit=AUDIT), p_seen=parts.before, last=parts.of_target),
    whole("target", "p of the call before", only(sampler=ANY_LAW), lambda: Step(p_seen=parts.Stale())),
    wrong("target", "p cut below 0.02 of the likeliest", only(audit=AUDIT), p_seen=parts.above(0.02)),
    wrong("target", "p rounded to 32nds", only(audit=AUDIT), p_seen=parts.rounded(32)),
    wrong("target", "a token of p banned", only(audit=AUDIT), p_seen=parts.without(3)),
    wrong("target", "odds of even tokens of p 20 % too large", only(audit=AUDIT), p_seen=parts.bent(1.2)),
    wrong("target", "logits of p in halves", only(audit=AUDIT), p_seen=parts.logits_in_halves),
    Mutant("a tenth of q in p", "target", audited=tables.q_mixed_in, found=only(audit=AUDIT)),
    Mutant("the last token's mass in p halved", "target", audited=tables.repetition_penalty, found=only(audit=AUDIT)),
    Mutant("odds bent by the context", "target", audited=tables.odds_bent_by_context, found=only(audit=AUDIT)),
    Mutant("the likeliest bent by the context", "target", audited=tables.likeliest_bent_by_context, found=only(audit=AUDIT)),
    wrong("draft's law", "q tempered by 0.9", only(sampler=LAW), q_seen=parts.tempered(0.9)),
    wrong("draft's law", "q squared", only(sampler=LAW), q_seen=parts.tempered(0.5)),
    wrong("draft's law", "q cubed", only(plugin=PLUGIN), q_seen=parts.tempered(1 / 3)),
    wrong("draft's law", "q one-hot", only(sampler=LAW, path=ANY_LAW), q_seen=parts.one_hot),
    wrong("draft's law", "q mixed with 2 % uniform", only(sampler=LAW), q_seen=parts.mixed(0.02)),
    wrong("draft's law", "q of the row before", only(sampler=LAW, audit=AUDIT, plugin=PLUGIN), q_seen=parts.before),
    whole("draft's law", "q of the call before", only(sampler=LAW), lambda: Step(q_seen=parts.Stale())),
    wrong("draft's law", "q of the place before", only(path=ANY_LAW), place_of_q=lambda t: max(t - 1, 0)),
    # Drafts that are drawn from another law than is told.
    wrong("drafts", "drafts at temperature 0.9", only(step=("declared_draft_law",), path=ANY_LAW), drafted=parts.tempered(0.9)),
    wrong("drafts", "drafts at temperature 0.7", only(audit=AUDIT), drafted=parts.tempered(0.7)),
    wrong("drafts", "greedy drafts", only(step=("declared_draft_law",), audit=AUDIT), drafted=parts.one_hot),
    wrong("drafts", "drafts mixed with 5 % uniform", only(step=("possible_step",)), drafted=parts.mixed(0.05)),
    whole("drafts", "one draft repeated", only(step=("declared_draft_law",)), lambda: parts.Drafting(changed=parts.first_repeated)),
    whole("drafts", "sorted drafts", only(step=("declared_draft_law",)), lambda: parts.Drafting(changed=parts.in_order)),
    whole("drafts", "drafts of the last row are those of the first", only(step=TIED + ANY_LAW),
          lambda: parts.Drafting(changed=parts.last_row_again)),
    Mutant("greedy drafts taken where both agree", "drafts", audited=tables.greedy_draft_always_taken, found=only(audit=AUDIT)),
    # The test of a draft.
    wrong("test", "odds x 1.05", only(sampler=LAW, path=ANY_LAW), odds=parts.times(1.05)),
    wrong("test", "odds x 1.15", only(sampler=LAW), odds=parts.times(1.15)),
    wrong("test", "odds / 0.7", only(audit=AUDIT), odds=parts.times(1 / 0.7)),
    wrong("test", "odds x 2", only(plugin=PLUGIN), odds=parts.times(2)),
    wrong("test", "odds x 0.95", only(sampler=LAW), odds=parts.times(0.95)),
    wrong("test", "odds at most 0.95", only(sampler=LAW), odds=parts.at_most(0.95)),
    wrong("test", "odds to the power 0.9", only(sampler=LAW), odds=parts.to_the_power(0.9)),
    wrong("test", "odds upside down", only(audit=AUDIT), odds=parts.upside_down),
    wrong("test", "odds p, not divided by q", only(audit=AUDIT), odds=parts.not_divided),
    wrong("test", "taken from odds 0.5 on", only(audit=AUDIT), odds=parts.from_threshold(0.5)),
    wrong("test", "5 % of the drafts forced", only(sampler=ANY_LAW), odds=parts.forced(0.05)),
    wrong("test", "every draft taken", only(audit=AUDIT), odds=parts.forced(1.0)),
    wrong("test", "typical acceptance", only(audit=AUDIT), odds=parts.typical, residual=parts.target),
    whole("test", "equal drafts tested once", only(sampler=LAW, step=LAW), parts.Deduplicated),
    whole("test", "ratio of the whole path, not capped", only(path=ANY_LAW), parts.Uncapped),
    # The law in a refused draft's place.
    wrong("residual", "residual is p", only(sampler=LAW, path=ANY_LAW, audit=AUDIT, plugin=PLUGIN), residual=parts.target),
    wrong("residual", "residual is p without the draft", only(audit=AUDIT, sampler=LAW), residual=parts.target, without_draft=True),
    wrong("residual", "residual |p - q|", only(sampler=ANY_LAW, audit=AUDIT), residual=parts.unclipped),
    wrong("residual", "residual p - q/2", only(sampler=LAW), residual=parts.half_taken),
    wrong("residual", "residual + 0.01", only(sampler=LAW, audit=AUDIT), residual=parts.floored),
    wrong("residual", "residual squared", only(sampler=LAW), residual=parts.squared),
    wrong("residual", "residual greedy", only(audit=AUDIT), residual=parts.greedy),
    wrong("residual", "residual not updated between drafts", only(sampler=LAW), updates=False),
    wrong("residual", "residual of the first place", only(path=ANY_LAW), place_of_residual=lambda t: 0),
    Mutant("residual of the place before", "residual", audited=tables.residual_of_the_row_before, found=only(audit=AUDIT)),
    Mutant("residual of the next row", "residual", found=only(plugin=PLUGIN)),
    wrong("residual", "residual mixed over the batch", only(sampler=LAW), residual=parts.over_the_batch),
    wrong("residual", "a second draft against a raw residual", only(audit=AUDIT), residual=parts.second_against_a_raw_residual),
    Mutant("residual and last token cut to the nucleus of 0.9", "residual", audited=tables.top_p_after_the_test,
           found=only(audit=AUDIT)),
    # The token after a whole path.
    wrong("last token", "last token of the place before", only(path=ANY_LAW, audit=AUDIT), last=parts.of_place_before),
    wrong("last token", "last token of the draft's law", only(audit=AUDIT), last=parts.of_draft),
    wrong("last token", "last token greedy", only(audit=AUDIT), last=parts.one_hot),
    wrong("last token", "last token at temperature 0.7", only(audit=AUDIT), last=parts.tempered(0.7)),
    wrong("last token", "last token of the four likeliest", only(audit=AUDIT), last=parts.truncated(4)),
    Mutant("last token is the last draft", "last token", found=only(plugin=PLUGIN)),
]  # fmt: skip
OTHERS = [
    # Random numbers.
    wrong("numbers", "one uniform for all drafts", only(sampler=LAW), tests=parts.one_for_all_drafts),
    Mutant("one uniform for test and recovery", "numbers", parts.with_shared, audited=tables.one_uniform_twice,
           found=only(sampler=LAW, audit=AUDIT)),
    Mutant("every uniform used twice", "numbers", found=only(plugin=PLUGIN)),
    wrong("numbers", "uniforms of 4 bits", only(sampler=LAW), tests=parts.of_bits(4)),
    wrong("numbers", "uniforms of 8 bits", only(sampler=LAW), tests=parts.of_bits(8)),
    wrong("numbers", "uniforms of 4 bits, 1 for 0", only(sampler=LAW), tests=parts.of_bits(4, 1)),
    wrong("numbers", "recovery with 4 bits", only(sampler=LAW), recovery=parts.of_bits(4)),
    wrong("numbers", "uniforms not below 0.01", only(sampler=LAW), tests=parts.at_least(0.01)),
    wrong("numbers", "one uniform for the batch", only(sampler=TIED), tests=parts.one_for_the_batch),
    wrong("numbers", "one uniform a place for all rows", only(sampler=TIED, path=TIED), tests=parts.one_a_place),
    wrong("numbers", "all rows recover from one uniform", only(sampler=TIED), recovery=parts.one_for_the_batch),
    wrong("numbers", "rows i and i + 4 share", only(sampler=TIED), tests=parts.shared_by(lambda m: np.arange(m) & ~4)),
    wrong("numbers", "rows 64 apart share", only(sampler=TIED), tests=parts.shared_by(lambda m: np.arange(m) % 64)),
    wrong("numbers", "rows i and m - 1 - i share", only(sampler=TIED),
          tests=parts.shared_by(lambda m: np.minimum(np.arange(m), m - 1 - np.arange(m)))),
    wrong("numbers", "two requests of one seed", only(step=TIED), generator=parts.TwoOfOneSeed),
    whole("numbers", "uniforms kept for 8 calls", only(sampler=(*TIED, "reproducible")),
          lambda: Step(tests=parts.Again(8), recovery=parts.Again(8))),
    whole("numbers", "uniforms used in two calls", only(sampler=(*TIED, "reproducible")), lambda: Step(tests=parts.Again(2))),
    wrong("numbers", "seeded anew in every call", only(sampler=TIED), generator=parts.seeded_anew),
    Mutant("the draft's noise again", "numbers", lambda: Step(race=True, shared=True), audited=tables.noise_of_the_draft_again,
           found=only(step=LAW, path=LAW, audit=AUDIT), options={"step": {"k": 1}}),
    whole("numbers", "the draft's noise again, rule named", only(step=("output_distribution", "given_drafts")),
          lambda: Step(race=True, shared=True), k=1, rule=RECURSIVE),
    whole("numbers", "one uniform for drafts, tests and places", only(step=ANY_LAW, path=ANY_LAW),
          lambda: Step(generator=parts.Repeating), k=1),
    # Outcomes, and the rows of a batch.
    wrong("outcome", "rows swapped", only(sampler=ANY_LAW), after=parts.swapped),
    wrong("outcome", "the last row has the first one's token", only(sampler=ANY_LAW + TIED), after=parts.last_from_first),
    whole("outcome", "tokens of the call before, now and then", only(sampler=(*ANY_LAW, *TIED, "reproducible")),
          lambda: Step(after=parts.TokenBefore())),
    wrong("outcome", "acceptance of another draft flagged", only(step=("possible_step",)), after=parts.other_draft_flagged),
    whole("outcome", "acceptance not flagged", only(step=("given_drafts",)), lambda: Step(after=parts.without_flags), rule=RECURSIVE),
    whole("outcome", "another equal draft flagged", only(step=("given_drafts",)), lambda: Step(after=parts.first_equal_flagged),
          rule=RECURSIVE),
    wrong("outcome", "the refused draft kept", only(path=ANY_LAW), after=parts.one_more_kept),
    wrong("outcome", "the last draft lost", only(path=ANY_LAW), after=parts.one_less_kept),
    wrong("outcome", "flags the other way round", only(path=ANY_LAW), after=parts.a_later_draft_kept),
    where("a batch of one takes every draft", lambda: Step(odds=parts.forced(1.0)), together(1), ANY_LAW + TIED),
    where("a batch of two: residual is p", lambda: Step(residual=parts.target), together(2), ("small_batches",)),
    where("five rows: residual is p", lambda: Step(residual=parts.target), together(5), ("small_batches",)),
    where("k > 4: residual is p", lambda: Step(residual=parts.target), lambda p, d: d[1] > 4, LAW),
    where("n > 64: the 64 likeliest only", lambda: Step(p_seen=parts.truncated(64)), lambda p, d: p[1] > 64, LAW),
    where("n > 64: residual is p", lambda: Step(residual=parts.target), lambda p, d: p[1] > 64, LAW),
    whole("sizes", "row 0 not verified", only(sampler=ANY_LAW + TIED), lambda: parts.FirstRows(parts.rows_of(0))),
    whole("sizes", "the last row not verified", only(sampler=ANY_LAW + TIED), lambda: parts.FirstRows(parts.rows_of(-1))),
    whole("sizes", "every seventh row not verified", only(sampler=ANY_LAW + TIED),
          lambda: parts.FirstRows(lambda m: np.arange(m) % 7 == 6)),
    whole("sizes", "rows from 64 on not verified", only(sampler=ANY_LAW + TIED),
          lambda: parts.FirstRows(lambda m: np.arange(m) >= 64)),
]  # fmt: skip
MUTANTS: list[Mutant] = [
    *LAWS,
    *OTHERS,
    *(Mutant(name, "numbers", audited=run, found=only(run=AUDIT)) for name, run in RUNS.items()),
    *(Mutant(name, "rule", rule=rule, found=only(rule=by)) for name, (rule, by) in RULES.items()),
]


def of(form: str) -> list[Mutant]:
    """The faults that have this form."""
    return [mutant for mutant in MUTANTS if form in mutant.found]


TABLES: dict[str, Callable[[Pair], Tables]] = {mutant.name: mutant.tables for mutant in of("audit")}
