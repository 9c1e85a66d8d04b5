"""Checks of samplers: `check_sampler` for emitted tokens, `check_draws` for draft tokens, `check_step` for whole steps.

A step drafts and verifies in one function, as in an engine. `check_step` tests the joint distribution of its outcomes.

An engine's sampler is called through a short wrapper. This one calls the sampler of transformers, with one draft token:

    import numpy as np
    import torch
    from transformers.generation.utils import _speculative_sampling

    def transformers_sampler(p, q, drafts, generator):
        torch.manual_seed(int(generator.integers(2**63)))  # its uniforms come from torch's global generator
        target, draft = torch.tensor(np.stack([p, p])).log()[None], torch.tensor(q).log()[None, None]
        tokens, _ = _speculative_sampling(torch.tensor(drafts)[None], draft, 1, target)
        return tokens[0, 0]

    print(otd.check_sampler(transformers_sampler, k=1))

It passes `output_distribution` and `independent_steps` (transformers 5.23). If `generator.random` feeds its `torch.rand_like`, it
fails `end_uniforms`: it accepts at u <= p/q, and emits a token of target probability 0 if u is 0, once in 2^24 float32 uniforms.

This sampler draws its uniforms once. `output_distribution` rejects it after 250 calls per problem:

    def fixed_uniforms(p, q, drafts, generator, u=(0.3, 0.6)):
        if u[0] < p[drafts[0]] / q[drafts[0]]:
            return int(drafts[0])
        left = np.maximum(p - q, 0)
        return int((left.cumsum() <= u[1] * left.sum()).sum())

    print(otd.check_sampler(fixed_uniforms, k=1))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...arrays import Array, to_host
from ...errors import InvalidArgument
from ...laws import IID, DraftLaw
from ...problem import Problem
from ...sampling import draw
from ...selection import SelectionRule, check_callable
from ..corners import LabelledProblem
from .black_box import BlackBox, Impossible, NoOutcome, token_ids
from .sampler_report import SamplerReport
from .trial import examine
from .views import CLASSES, PARTS, View, draft_views, joint_view, part, pooled, stacked, token_views


def check_draws(
    draft: Callable[..., Any],
    law: DraftLaw | None = None,
    problems: Iterable[Problem] | None = None,
    *,
    k: int | None = None,
    batched: bool = False,
    samples: int | None = None,
    seconds: float | None = 60.0,
    false_alarm: float = 1e-9,
    seed: int = 0,
) -> SamplerReport:
    """Check that a function draws k drafts jointly by a draft law, in their order.

    A selection rule is lossless only under the draft law that it declares. Greedy drafts that are declared as sampled, or
    drafts of a temperature other than that of q, bias the output.

    Parameters
    ----------
    draft : callable
        Function `draft(q, k, generator) -> drafts`. It gets q as a float64 array of shape (n,), the integer k and a
        `numpy.random.Generator`. It returns int drafts of shape (k,), with -1 for an absent draft.
    law : DraftLaw, optional
        Draft law of the default problems. None is IID(), or with `problems` their own draft laws.
    problems : iterable of Problem, optional
        Problems whose q, k and draft law are used; p is not. Default: corner cases under `law`.
    k : int, optional
        Number of drafts in the default problems. None uses numbers from 1 to 8 that the draft law allows.
    batched : bool, default=False
        Whether the function takes q of shape (m, n) and returns drafts of shape (m, k).
    samples : int, optional
        Maximum number of calls per problem, or of rows with `batched`. Default: 10,000, or 100,000 with `batched`.
        A sampler that is rejected earlier gets fewer calls.
        Tests with so few samples that they detect no bias, however large, are "not decided".
    seconds : float or None, default=60.0
        Time limit of the statistical tests in seconds. Tests that it cuts short are "not decided". None sets no limit.
    false_alarm : float, default=1e-9
        Bound on the probability that a correct sampler fails, over all problems, tests and interim looks together.
    seed : int, default=0
        Seed. The same seed and number of samples make the same calls.

    Returns
    -------
    report : SamplerReport
        Outcomes possible_drafts, declared_draft_law, independent_steps, end_uniforms, reproducible, generator_advances and
        inputs_unchanged, and small_batches with `batched`. `check_sampler` explains them.

    Raises
    ------
    InvalidArgument
        If the function is not callable or is a selection rule, if `problems` is not a non-empty iterable of unbatched problems, or if
        `samples`, `seconds`, `false_alarm` or `seed` is outside its range. Also if `law` or `k` differs from that of a problem
        in `problems`.
    InvalidDrafts
        If `law` is not a DraftLaw, or `k` is not a number of drafts.

    See Also
    --------
    check_sampler : Check a function that emits tokens.
    ot_draft.verify.rule.check_rule : Check a selection rule; `draft_sampler` adds this check.

    Notes
    -----
    If fewer than k tokens of q have positive mass, `WithoutReplacement` draws the remaining drafts uniformly from the other tokens
    (the rule of Sequoia). Under this draft law, the default problems include such a q, unless k is 1.

    References
    ----------
    .. [1] Ville, "Étude critique de la notion de collectif", 1939.
    .. [2] Shafer, "Testing by betting", Journal of the Royal Statistical Society A, 2021.

    Examples
    --------
    >>> import ot_draft as otd
    >>> def draft(q, k, generator):
    ...     return generator.choice(len(q), size=k, p=q)
    >>> problem = otd.Problem([0.5, 0.5], [0.75, 0.25], k=2)
    >>> otd.check_draws(draft, problems=[problem], samples=500).passed
    True
    >>> def greedy(q, k, generator):
    ...     return [q.argmax()] * k
    >>> otd.check_draws(greedy, problems=[problem])["declared_draft_law"].status.value
    'failed'
    """
    calls = (samples, seconds, false_alarm, seed)
    return examine(DraftSampler(draft, batched), problems, law, k, calls)


class DraftSampler(BlackBox):
    """fn(q, k, generator) -> drafts; the outcome is the drafts."""

    possible, called, names, fills, least_k = "possible_drafts", "check_draws", ("q",), True, 1
    takes = "draft(q, k, generator) -> drafts"

    def views(self, cases: list[LabelledProblem]) -> list[View]:
        return draft_views("declared_draft_law", cases)

    def read(self, returned: Any, problem: Problem) -> Any:
        return token_ids(returned, problem, self.batched, drafts=True)

    def outcome_shown(self, outcome: Array, problem: Problem) -> str:
        return f"drafts {outcome.tolist()}"


def check_sampler(
    sampler: Callable[..., Any],
    problems: Iterable[Problem] | None = None,
    *,
    law: DraftLaw | None = None,
    k: int | None = None,
    draft: Callable[..., Any] | None = None,
    batched: bool = False,
    samples: int | None = None,
    seconds: float | None = 60.0,
    false_alarm: float = 1e-9,
    seed: int = 0,
) -> SamplerReport:
    """Check that a sampler emits tokens of the target distribution, by sequential statistical tests.

    Parameters
    ----------
    sampler : callable
        Function `sampler(p, q, drafts, generator) -> token`. It gets p and q as float64 arrays of shape (n,), int drafts of
        shape (k,) and a `numpy.random.Generator`, and returns one token id. The generator must be its only source of
        randomness. Seed other generators at every call by `int(generator.integers(2**63))`.
    problems : iterable of Problem, optional
        Problems with their distributions p and q, numbers of drafts and draft laws. Default: corner cases under `law`.
    law : DraftLaw, optional
        Draft law of the default problems. None is IID(), or with `problems` their own draft laws.
    k : int, optional
        Number of drafts in the default problems. None uses numbers from 1 to 8 that the draft law allows.
    draft : callable, optional
        Function `draft(q, k, generator) -> drafts` that draws the drafts instead of the draft law. It is batched if `batched`.
    batched : bool, default=False
        Whether the sampler takes p and q of shape (m, n) and drafts of shape (m, k), and returns m tokens. Neighbouring rows
        may be different problems.
    samples : int, optional
        Maximum number of calls per problem, or of rows with `batched`. Default: 10,000, or 100,000 with `batched`.
        A sampler that is rejected earlier gets fewer calls.
        Tests with so few samples that they detect no bias, however large, are "not decided".
    seconds : float or None, default=60.0
        Time limit of the statistical tests in seconds. Tests that it cuts short are "not decided". None sets no limit.
    false_alarm : float, default=1e-9
        Bound on the probability that a correct sampler fails, over all problems, tests and interim looks together.
    seed : int, default=0
        Seed. The same seed and number of samples make the same calls.

    Returns
    -------
    report : SamplerReport
        Outcomes of the checks in the Notes.

    Raises
    ------
    InvalidArgument
        If the function is not callable or is a selection rule, if `problems` is not a non-empty iterable of unbatched problems, or if
        `samples`, `seconds`, `false_alarm` or `seed` is outside its range. Also if `law` or `k` differs from that of a problem
        in `problems`.
    InvalidDrafts
        If `law` is not a DraftLaw, or `k` is not a number of drafts.

    See Also
    --------
    check_draws : Check the function that draws the drafts.
    check_step : Check code that drafts and verifies in one function.
    required_samples : Number of samples that detect a given distance.

    Notes
    -----
    Each check fails by itself:

    * possible_tokens: tokens are integers in the vocabulary and have positive target mass, and the sampler raises no error.
    * output_distribution: tokens follow p. The test is an e-value against a Dirichlet mixture around p. Vocabularies of
      more than 64 tokens are counted in classes of tokens. A chi-square p-value is given for display.
    * independent_steps: a token does not depend on an earlier call, on another row or on the position of its row.
    * small_batches: with `batched`, the same two tests hold in batches of 1, 2, 5 and 33 rows.
    * end_uniforms: no token of probability 0 and no error if `generator.random()` is 0.0 or the largest float below 1.
    * reproducible: equal states of the generator give equal tokens.
    * generator_advances: the sampler changes the state of the generator.
    * inputs_unchanged: p, q and drafts keep their values.

    The bound `false_alarm` follows from Ville's inequality [1]_ for each e-value [2]_, and from a Bonferroni correction over
    the tests. `report.detectable_bias` gives the total variation distance that each passed test misses with probability 1e-6
    at most.

    References
    ----------
    .. [1] Ville, "Étude critique de la notion de collectif", 1939.
    .. [2] Shafer, "Testing by betting", Journal of the Royal Statistical Society A, 2021.

    Examples
    --------
    >>> import ot_draft as otd
    >>> problem = otd.Problem([0.5, 0.5], [0.75, 0.25], k=1)
    >>> def target_sampler(p, q, drafts, generator):
    ...     return generator.choice(len(p), p=p)
    >>> otd.check_sampler(target_sampler, [problem], samples=500).passed
    True
    >>> def draft_sampler(p, q, drafts, generator):
    ...     return drafts[0]
    >>> otd.check_sampler(draft_sampler, [problem])["output_distribution"].status.value
    'failed'
    """
    calls = (samples, seconds, false_alarm, seed)
    return examine(TokenSampler(sampler, batched, draft), problems, law, k, calls, draft=draft)


class TokenSampler(BlackBox):
    """fn(p, q, drafts, generator) -> token; the outcome is the token."""

    possible, called, names = "possible_tokens", "check_sampler", ("p", "q", "drafts")
    takes = "sampler(p, q, drafts, generator) -> token"

    def __init__(self, function: Callable[..., Any], batched: bool, draft: Callable[..., Any] | None) -> None:
        super().__init__(function, batched)
        self.drafter = None if draft is None else DraftSampler(draft, batched)

    def views(self, cases: list[LabelledProblem]) -> list[View]:
        return token_views("output_distribution", cases, lambda which, outcomes, generator: outcomes, 1)

    def rows(self, group: list[LabelledProblem], which: Array, generator: np.random.Generator) -> tuple[Array, ...]:
        p, q = super().rows(group, which, generator)
        problem = group[0].problem
        if self.drafter is not None:
            try:
                return p, q, self.drafter.outcomes(group, which, (q,), generator)
            except Impossible as impossible:
                raise Impossible(impossible.case, f"the draft sampler {impossible}") from impossible
        drafts = np.empty((len(which), problem.k), dtype=np.int64)
        for place, case in enumerate(group):
            mine = which == place
            drafts[mine] = draw(case.problem.law, q[mine], problem.k, generator)
        return p, q, drafts

    def read(self, returned: Any, problem: Problem) -> Any:
        return token_ids(returned, problem, self.batched)[..., None]

    def outcome_shown(self, outcome: Array, problem: Problem) -> str:
        return f"token {outcome[0]}"

    def call(self, row: tuple[Array, ...], problem: Problem, generator: Any) -> Any:
        return self.function(*row, generator)

    def needs_randomness(self, case: LabelledProblem) -> bool:
        """Whether only one draft tuple can be drawn."""
        q, k, law = case.problem.q, case.problem.k, case.problem.law
        return k == 0 or bool(law.probability(q, np.full(k, np.argmax(q))) == 1)


def check_step(
    step: Callable[..., Any],
    problems: Iterable[Problem] | None = None,
    *,
    law: DraftLaw | None = None,
    k: int | None = None,
    path: bool = False,
    rule: SelectionRule | None = None,
    batched: bool = False,
    samples: int | None = None,
    seconds: float | None = 60.0,
    false_alarm: float = 1e-9,
    seed: int = 0,
) -> SamplerReport:
    """Check one step that drafts and verifies, by sequential statistical tests.

    Parameters
    ----------
    step : callable
        Function `step(p, q, k, generator) -> drafts, accepted, token`. Without `path`, it gets p and q as float64 arrays of
        shape (n,). It returns k alternative drafts of one position, int of shape (k,); flags, bool of shape (k,), true at
        the accepted draft, if any; and the emitted token. With `path`, p and q are functions, see the Notes.
        NumPy arrays and torch tensors may be returned. Randomness: as in `check_sampler`.
    problems : iterable of Problem, optional
        Problems with their distributions p and q, numbers of drafts and draft laws. Default: corner cases under `law`.
    law : DraftLaw, default=IID()
        Draft law of the default problems. With `path`, it must be IID().
    k : int, optional
        Number of drafts in the default problems; with `path`, the length of the draft path. None uses numbers from 1 to 8
        that the draft law allows.
    path : bool, default=False
        Whether the step drafts k tokens one after another, instead of k alternatives for one position.
    rule : SelectionRule, optional
        Selection rule that the step follows, at every position of a path. The check `given_drafts` then compares the accepted
        and emitted tokens with the decisions of the rule given the drafts.
    batched : bool, default=False
        Whether the step takes p and q of shape (m, n) and returns drafts and flags of shape (m, k) and tokens of shape (m,).
        With `path`, p and q take tokens of shape (m, t).
    samples : int, optional
        Maximum number of calls per problem, or of rows with `batched`. Default: 10,000, or 100,000 with `batched`.
        A sampler that is rejected earlier gets fewer calls.
        Tests with so few samples that they detect no bias, however large, are "not decided".
    seconds : float or None, default=60.0
        Time limit of the statistical tests in seconds. Tests that it cuts short are "not decided". None sets no limit.
    false_alarm : float, default=1e-9
        Bound on the probability that a correct sampler fails, over all problems, tests and interim looks together.
    seed : int, default=0
        Seed. The same seed and number of samples make the same calls.

    Returns
    -------
    report : SamplerReport
        Outcomes of the checks in the Notes.

    Raises
    ------
    InvalidArgument
        If the function is not callable or is a selection rule, if `problems` is not a non-empty iterable of unbatched problems, or if
        `samples`, `seconds`, `false_alarm` or `seed` is outside its range. Also if `law` or `k` differs from that of a problem
        in `problems`, if `rule` is a class or not callable, or if `law` is not IID() with `path`.
    InvalidDrafts
        If `law` is not a DraftLaw, or `k` is not a number of drafts.

    See Also
    --------
    check_sampler : Check a function that gets the drafts; explains the other checks.

    Notes
    -----
    With `path`, `p(tokens)` is the target distribution, of shape (n,), of the token after the int tokens of shape (t,), for t from
    0 to k. `p()` is that of the first token. The function q gives draft distributions in the same way. The flags are true at
    the first drafts, those that are kept. The emitted token follows the kept drafts.

    The checks are those of `check_sampler`, with possible_step instead of possible_tokens, and in addition:

    * possible_step: q can draw the drafts, and flags and token agree.
    * output_distribution: with `path`, every token of a sequence follows the target. The sequence is continued by draws from p.
    * declared_draft_law: the drafts follow the draft law given q.
    * joint_law: with `path`, the whole sequence follows the target. Tokens are counted in classes.
    * given_drafts: with `rule`, the accepted and emitted tokens follow the rule given the drafts.

    Limitations: the tests see one step and the step before it. They do not test a real model, its cache or its batching.

    References
    ----------
    .. [1] Ville, "Étude critique de la notion de collectif", 1939.
    .. [2] Shafer, "Testing by betting", Journal of the Royal Statistical Society A, 2021.

    Examples
    --------
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> problem = otd.Problem([0.5, 0.5], [0.75, 0.25], k=1)
    >>> def step(p, q, k, generator):
    ...     drafts = generator.choice(len(q), size=k, p=q)
    ...     return drafts, np.zeros(k, dtype=bool), generator.choice(len(p), p=p)
    >>> otd.check_step(step, [problem], samples=500).passed
    True
    >>> otd.check_step(step, [problem], rule=otd.rules.KSeq()).failures[0].check  # it never accepts a draft
    'given_drafts'
    """
    if path and law not in (None, IID()):
        raise InvalidArgument(
            f"law must be otd.IID() if path=True, got {law!r}. Remove law: a path has one draft token per position."
        )
    calls = (samples, seconds, false_alarm, seed)
    return examine(
        (PathStepSampler if path else StepSampler)(step, batched, rule), problems, law, k, calls, path=path, rule=rule
    )


class StepSampler(BlackBox):
    """One position; the outcome is k drafts, k flags and the token."""

    possible, called, least_k = "possible_step", "check_step", 1
    takes = "step(p, q, k, generator) -> drafts, accepted, token"

    def __init__(self, function: Callable[..., Any], batched: bool, rule: SelectionRule | None) -> None:
        super().__init__(function, batched)
        if rule is not None:
            check_callable(rule)
        self.rule = rule

    def views(self, cases: list[LabelledProblem]) -> list[View]:
        views = token_views("output_distribution", cases, lambda which, outcomes, generator: outcomes[:, -1:], 1)
        return [*views, *draft_views("declared_draft_law", cases), *self._given(cases, 1)]

    def read(self, returned: Any, problem: Problem) -> Any:
        try:
            drafts, accepted, token = returned
        except (TypeError, ValueError):
            raise NoOutcome(f"gave {type(returned).__name__}, not drafts, accepted, token") from None
        drafts, token = token_ids(drafts, problem, self.batched, drafts=True), token_ids(token, problem, self.batched)
        flags = to_host(accepted)
        if flags.dtype != bool or flags.shape != drafts.shape:
            raise NoOutcome(f"gave accepted of {flags.dtype} {flags.shape}, not of bool {drafts.shape}")
        if self.batched and len(drafts) != len(token):
            raise NoOutcome(f"gave {len(drafts)} rows of drafts and {len(token)} tokens")
        self.agree(drafts, flags, token[..., None])
        return np.concatenate((drafts, flags, token[..., None]), axis=-1)

    def agree(self, drafts: Array, flags: Array, token: Array) -> None:
        """Raise NoOutcome where flags and token contradict each other: (..., k), (..., k), (..., 1)."""
        if (flags.sum(-1) > 1).any() or (flags & (drafts != token)).any():
            wanted = "one at most is true, at a draft that is the token"
            raise NoOutcome(f"gave accepted flags that disagree with the token: {wanted}")

    def outcome_shown(self, outcome: Array, problem: Problem) -> str:
        drafts, flags = outcome[: problem.k].tolist(), outcome[problem.k : -1].astype(bool)
        return f"drafts {drafts}, accepted {flags.tolist()}, token {outcome[-1]}"

    def _given(self, cases: list[LabelledProblem], places: int) -> list[View]:
        """Views of the decision at every position, in parts of its distribution given the drafts and the tokens before."""
        if self.rule is None:
            return []
        rule, (p, q), k = self.rule, (stacked(cases, name) for name in "pq"), cases[0].problem.k
        classes, _ = pooled(q, p, CLASSES - 1)  # and the tokens of mass 0
        laws = np.full((len(cases), places * CLASSES, PARTS), 1 / PARTS)

        def read(which: Array, outcomes: Array, generator: np.random.Generator) -> tuple[Array, Array]:
            conditions, cells = [], []
            for place, (drafts, taken, token, reached) in enumerate(self.decisions(outcomes, p.shape[-1], k)):
                accept, left, first = np.zeros(drafts.shape), p[which], 0 * which
                if drafts.shape[-1]:
                    selection = rule(p[which], q[which], drafts)
                    accept, first = np.maximum(selection.accept, 0), classes[which, drafts[:, 0]]
                    left = np.maximum(1 - accept.sum(-1, keepdims=True), 0) * selection.residual
                outcome = np.where(taken >= 0, taken, drafts.shape[-1] + token)
                cells.append(np.where(reached, part(np.concatenate((accept, left), -1), outcome, generator), -1))
                conditions.append(place * CLASSES + first)
            return np.stack(conditions, -1), np.stack(cells, -1)

        def shown(case: int, cell: int) -> str:
            return f"the decision, in the {cell + 1}. of {PARTS} parts of equal mass given the drafts (the most probable first),"

        return [View("given_drafts", laws, read, shown)]

    def decisions(self, outcomes: Array, n: int, k: int) -> list[tuple[Array, Array, Array, Array]]:
        """For every position: drafts (m, j), index of the accepted one or -1, token, whether the position was reached: (m,)."""
        flags = outcomes[:, k:-1]
        taken = np.where(flags.any(-1), flags.argmax(-1), -1)
        return [(outcomes[:, :k], taken, outcomes[:, -1], np.ones(len(outcomes), dtype=bool))]


class PathStepSampler(StepSampler):
    """k drafts one after another. p and q after a sequence are those of the case, with ids shifted by its length and last token.

    So every position has the case's distributions up to the shift, and those of another position or sequence are wrong. Views get the
    tokens with their ids in the case.
    """

    def views(self, cases: list[LabelledProblem]) -> list[View]:
        p, k = stacked(cases, "p"), cases[0].problem.k

        def texts(which: Array, outcomes: Array, generator: np.random.Generator) -> Array:
            """Emitted tokens, followed by draws from p: (m, k + 1)."""
            sums, text = p.cumsum(-1)[which], numbered_back(written(outcomes, k), p.shape[-1])
            length = outcomes[:, k:-1].sum(-1)
            for place in range(1, k + 1):
                drawn = (sums <= generator.random((len(which), 1)) * sums[:, -1:]).sum(-1)
                text[:, place] = np.where(place > length, drawn, text[:, place])
            return text

        def renamed(view: View) -> View:
            of_drafts = view.read

            def read(which: Array, outcomes: Array, generator: np.random.Generator) -> tuple[Array, Array]:
                return of_drafts(which, numbered_back(outcomes[:, :k], p.shape[-1]), generator)

            view.read = read
            return view

        views = [*token_views("output_distribution", cases, texts, k + 1), joint_view("joint_law", cases, texts, k + 1)]
        return [*views, *map(renamed, draft_views("declared_draft_law", cases)), *self._given(cases, k + 1)]

    def call(self, row: tuple[Array, ...], problem: Problem, generator: Any) -> Any:
        p, q = (renumbered(law, self.batched) for law in row)
        return self.function(p, q, problem.k, generator)

    def agree(self, drafts: Array, flags: Array, token: Array) -> None:
        if (flags[..., 1:] & ~flags[..., :-1]).any():
            raise NoOutcome("gave a true accepted flag after a false one. Accept a prefix of the draft tokens.")

    def decisions(self, outcomes: Array, n: int, k: int) -> list[tuple[Array, Array, Array, Array]]:
        length = outcomes[:, k:-1].sum(-1)
        text = numbered_back(written(outcomes, k), n)
        drafts = numbered_back(outcomes[:, :k], n)
        of_drafts = [(drafts[:, i : i + 1], np.where(length > i, 0, -1), text[:, i], length >= i) for i in range(k)]
        return [*of_drafts, (drafts[:, :0], 0 * length - 1, text[:, k], length == k)]


def renumbered(law: Array, batched: bool) -> Callable[[Any], Array]:
    """A model that shifts a distribution (n,) by the sequence: tokens (t,) -> (n,). If batched, all have a leading axis of rows."""
    n = law.shape[-1]

    def model(tokens: Any = None) -> Array:
        text = np.empty((*law.shape[:-1], 0), dtype=np.int64) if tokens is None else to_host(tokens)
        numbers = text.dtype.kind in "iu" or not text.size
        if not numbers or text.ndim != 1 + batched or (batched and len(text) != len(law)):
            wanted = f"integers of shape {'(m, t)' if batched else '(t,)'}"
            raise InvalidArgument(f"tokens must be {wanted}, got {text.dtype} {text.shape}. Pass token ids.")
        if not text.shape[-1]:
            return law.copy()
        by = (text[..., -1:] + text.shape[-1]) % n
        return np.take_along_axis(law, (np.arange(n) - by) % n, -1)

    return model


def numbered_back(text: Array, n: int) -> Array:
    """Tokens of sequences (m, t), with their ids in the case."""
    before = np.concatenate((0 * text[:, :1], text[:, :-1]), axis=-1)
    return (text - before - np.arange(text.shape[-1])) % n


def written(outcomes: Array, k: int) -> Array:
    """The emitted tokens of a path, (m, k + 1), followed by arbitrary tokens."""
    text = np.concatenate((outcomes[:, :k], outcomes[:, -1:]), axis=-1)
    np.put_along_axis(text, outcomes[:, k:-1].sum(-1, keepdims=True), outcomes[:, -1:], -1)
    return text
