"""Methods side by side: what their steps cost, how fast their texts come, and what was to be expected of it.

Every speed that this project prints comes from here: the table of `ot-draft decode --compare`, the repository's bench, and the
costs that `ot-draft plan` reads. Two numbers stand for speed:

speed-up: tokens a second of a text over the autoregressive method's, in runs that take turns; without the prefill.
predicted: the wall-clock model of `ot_draft.trees.plan`, block efficiency * (an autoregressive step) / (verify + draft + select), with
costs
from short runs before. Everything that a step does is in them: verify is the target call, draft all calls of the draft model, and
select what comes after both, choosing the path and keeping it in the caches and texts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise, repeat
from statistics import median
from typing import Any

import numpy as np

from ...data.summary import clustered_error
from ...trees import FixedTree
from ...trees.rules import short_name
from ..loop import DecodeOptions, decode_steps
from ..methods import Method
from ..pair import Pair
from ..step import Seconds
from .calls import Call, Watch, calls, nobody

__all__ = ["COSTS", "Comparison", "Measured", "MethodCosts", "calls", "compare_methods", "measure_costs", "peers"]

COSTS = ("verify", "draft", "select")
OFF = 0.15  # a prediction further off than this is explained
Tokens = Sequence[int]
Progress = Callable[[str], None]


@dataclass
class Measured:
    """Measurements of one method.

    Parameters
    ----------
    method : Method
        The method that was measured.
    groups : list of list of Call, optional
        One list of target calls per group of prompts that were continued together. Empty by default.
    """

    method: Method
    groups: list[list[Call]] = field(default_factory=list)

    @property
    def calls(self) -> list[Call]:
        """Calls of all groups."""
        return list(chain.from_iterable(self.groups))

    @property
    def block_efficiency(self) -> float:
        """Tokens chosen per target call; tokens after a stop or beyond the end count as chosen."""
        return float(np.mean([call.chosen for call in self.calls]))

    @property
    def error(self) -> float:
        """Standard error of `block_efficiency`: sequences are independent; for a single sequence, target calls are."""
        chosen, texts = [call.chosen for call in self.calls], [call.text for call in self.calls]
        several = len(set(texts)) > 1
        return 0.0 if set(chosen) == {1} else clustered_error(chosen, texts if several else list(range(len(texts))))

    @property
    def by_position(self) -> list[float]:
        """Share of the calls that accept a token at depth i + 1 among those that accept one at depth i; NaN where none."""
        length, accepted = self.method.drafting.tree.bounds.length, np.array([call.chosen - 1 for call in self.calls])
        reached = [int((accepted >= depth).sum()) for depth in range(length + 1)]
        return [b / a if a else float("nan") for a, b in pairwise(reached)]

    @property
    def step(self) -> float:
        """Seconds per target call, in total."""
        return float(np.mean([call.wall for call in self.calls]))

    def part(self, name: str) -> float:
        """Seconds per target call of one part of `Seconds`; NaN if the parts are not known."""
        return float(np.mean([getattr(call.seconds, name, float("nan")) for call in self.calls]))

    def cost(self, name: str) -> float:
        """Seconds per target call of one of COSTS."""
        return float(np.mean([_cost(call.seconds, name) for call in self.calls]))

    @property
    def tokens_a_second(self) -> float:
        """Tokens per second of one sequence."""
        return self.rate()

    def rate(self, without: int | None = None) -> float:
        """Tokens per second; without one of the groups, for the jackknife."""
        calls = list(chain.from_iterable(calls for number, calls in enumerate(self.groups) if number != without))
        return sum(call.chosen for call in calls) / sum(call.wall for call in calls)


@dataclass(frozen=True)
class MethodCosts:
    """Seconds of the parts of one step, measured before the runs.

    Parameters
    ----------
    verify : float
        Seconds of the target call. Median over all methods with the same number of nodes.
    draft : float
        Seconds of all forward passes of the draft model. Median over all methods with the same tree and draft law.
    select : float
        Seconds of the path rule and the update of cache and sequences.
    """

    verify: float
    draft: float
    select: float

    @property
    def step(self) -> float:
        """c_verify(N + 1) + the L draft calls + c_select: the wall-clock model."""
        return self.verify + self.draft + self.select


@dataclass(frozen=True)
class Comparison:
    """Result of `compare_methods`.

    Parameters
    ----------
    rows : list of Measured
        Measurements of every method, the autoregressive method first.
    costs : dict of Method to MethodCosts
        Costs that were measured before the runs. A method without costs has no prediction.
    """

    rows: list[Measured]
    costs: dict[Method, MethodCosts]

    @property
    def baseline_step(self) -> float:
        """Seconds of a step of the autoregressive method, as measured before the runs."""
        return self.costs[self.rows[0].method].step

    def speed_up(self, row: Measured) -> tuple[float, float]:
        """Tokens per second relative to the autoregressive method, and the jackknife's standard error over groups (NaN for one)."""
        baseline, groups = self.rows[0], len(row.groups)
        ratio = row.rate() / baseline.rate()
        if groups < 2:
            return ratio, float("nan")
        ratios = np.array([row.rate(group) / baseline.rate(group) for group in range(groups)])
        return ratio, float(np.sqrt((groups - 1) * np.mean((ratios - ratios.mean()) ** 2)))

    def cost(self, row: Measured) -> float:
        """The wall-clock model's cost of a step in autoregressive steps."""
        return self.costs[row.method].step / self.baseline_step

    def predicted(self, row: Measured) -> float | None:
        """Block efficiency over the cost of a step; None for a method without costs."""
        return row.block_efficiency / self.cost(row) if row.method in self.costs else None

    def reason(self, row: Measured, noise: float = 0.05) -> str:
        """Name of the cost that changed most between the costs' measurement and the run, where the prediction is off; else nothing.

        noise: share of a step by which a cost changes without a reason.
        """
        baseline, predicted = self.rows[0], self.predicted(row)
        if row is baseline or predicted is None:
            return ""
        off = self.speed_up(row)[0] / predicted - 1
        if abs(off) <= OFF:
            return ""
        expected = self.costs[row.method]
        before, now = {name: getattr(expected, name) for name in COSTS}, {name: row.cost(name) for name in COSTS}
        before["loop"], now["loop"] = 0.0, row.step - sum(now.values())
        changes = {name: (now[name] - before[name]) / expected.step for name in before}
        before["autoregressive step"], now["autoregressive step"] = self.baseline_step, baseline.step
        # A autoregressive step that became dearer raises the speed-up like a step that became cheaper.
        changes["autoregressive step"] = 1 - baseline.step / self.baseline_step
        name = (max if off < 0 else min)(changes, key=lambda part: changes[part])
        if abs(changes[name]) < noise:
            return "no cost by so much: noise of the runs"
        return f"{name} {1000 * before[name]:.1f} → {1000 * now[name]:.1f} ms"

    def plan_costs(self) -> dict[str, dict[Any, float]]:
        """The costs as `ot_draft.trees.Costs` takes them, in milliseconds; of draft calls, those of i.i.d. paths."""
        verify, draft, select = {1: 1000 * self.baseline_step}, dict[int, list[float]](), dict[str, float]()
        for method, costs in self.costs.items():
            tree = method.drafting.tree
            if not tree.bounds.size:
                continue
            verify[tree.bounds.size + 1] = 1000 * costs.verify
            if tree == FixedTree.chains(max(method.K, 1), method.L):
                draft.setdefault(method.K, []).append(1000 * costs.draft / method.L)
                select[short_name(method.drafting.rule)] = 1000 * costs.select
        calls = {rows: median(of_lengths) for rows, of_lengths in sorted(draft.items())}
        return {"verify": dict(sorted(verify.items())), "draft": calls, "select": dict(sorted(select.items()))}


def compare_methods(
    pair: Pair,
    groups: Sequence[Sequence[Tokens]],
    methods: Sequence[Method],
    options: DecodeOptions,
    watch: Watch = nobody,
    progress: Progress = lambda done: None,
    peers: Sequence[Method] = (),
    on_row: Callable[[Measured], None] | None = None,
) -> Comparison:
    """Continue every group of prompts with every method and measure the speed.

    The methods are interleaved group by group, after a short run of each. The random numbers of a sequence depend on its number among
    all sequences.

    Parameters
    ----------
    pair : Pair
        Target and draft model.
    groups : sequence of sequence of prompts
        Groups of prompts that are continued together. A prompt is a sequence of token ids.
    methods : sequence of Method
        Methods whose costs are measured and predicted, the autoregressive method first.
    options : DecodeOptions
        Number of new tokens, sampling parameters and seed.
    watch : callable, optional
        Called with method, number of the sequence and step, outside the measured time.
    progress : callable, optional
        Called with a message after each run.
    peers : sequence of Method, optional
        Methods without predictions, because their steps differ or have no parts, for example transformers' own `generate`.
    on_row : callable, optional
        Called with the measurements of a method after each of its runs.

    Returns
    -------
    Comparison

    Examples
    --------
    The draft model is the target itself, so that the draft tokens of a path are accepted.

    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> from ot_draft.decoding.methods import method_called, shape_of
    >>> sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1}
    >>> model = LlamaForCausalLM(LlamaConfig(vocab_size=16, **sizes)).eval()
    >>> methods = [method_called(rule, None, shape_of(2, 3, None)) for rule in ("autoregressive", "joint")]
    >>> comparison = compare_methods(Pair(model, model), [[[1, 2, 3]]], methods, DecodeOptions(max_tokens=8))
    >>> [row.block_efficiency for row in comparison.rows]
    [1.0, 4.0]
    """
    costs = measure_costs(pair, groups[0], methods, options, progress)
    rows = [Measured(method) for method in (*methods, *peers)]
    first = 0
    for number, prompts in enumerate(groups):
        texts = range(first, first + len(prompts))
        for turn in range(len(rows)):
            row = rows[(turn + number) % len(rows)]  # so that no method always comes after the same other one
            row.groups.append(list(calls(row.method, pair, prompts, replace(options, rows=texts), watch)))
            progress(f"{row.method.label}, {number + 1} of {len(groups)}")
            if on_row is not None:
                on_row(row)
        first += len(prompts)
    return Comparison(rows, costs)


def measure_costs(
    pair: Pair,
    prompts: Sequence[Tokens],
    methods: Sequence[Method],
    options: DecodeOptions,
    progress: Progress = lambda done: None,
    warm_up: int = 1,
    timed: int = 4,
    rounds: int = 2,
) -> dict[Method, MethodCosts]:
    """Measure the costs of a step of every method by short runs, which also warm up.

    Costs that methods have in common are pooled.

    Parameters
    ----------
    pair : Pair
        Target and draft model.
    prompts : sequence of sequence of int
        Token ids of the prompts that every run continues.
    methods : sequence of Method
        Methods, the autoregressive method first.
    options : DecodeOptions
        Sampling parameters and seed. Stop tokens are ignored.
    progress : callable, optional
        Called with a message after each run.
    warm_up : int, default=1
        Number of steps at the start of each run that are not measured.
    timed : int, default=4
        Number of measured steps per run. Autoregressive decoding has three times as many.
    rounds : int, default=2
        Number of runs per method.

    Returns
    -------
    dict of Method to MethodCosts
        Medians in seconds.

    Examples
    --------
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> from ot_draft.decoding.methods import method_called, shape_of
    >>> sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1}
    >>> model = LlamaForCausalLM(LlamaConfig(vocab_size=16, **sizes)).eval()
    >>> methods = [method_called(rule, None, shape_of(2, 3, None)) for rule in ("autoregressive", "joint")]
    >>> costs = measure_costs(Pair(model, model), [[1, 2, 3]], methods, DecodeOptions(max_tokens=8))
    >>> [costs[method].verify > 0 for method in methods]
    [True, True]
    """
    pools: dict[Any, list[float]] = {}
    bare = replace(options, laws=False, stop=(), rows=None)
    for method in chain.from_iterable(repeat(tuple(methods), rounds)):  # what else the machine does changes slowly
        # Plain steps are the measure of all, and there is one such method only: more of them.
        count = warm_up + timed * (1 if method.drafting.tree.bounds.size else 3)
        seconds = [step.seconds for step in islice(decode_steps(pair, prompts, method.drafting, bare), count)]
        for each in seconds[warm_up:] or seconds[-1:]:
            for name, key in _keys(method).items():
                pools.setdefault((name, key), []).append(_cost(each, name))
        progress(f"warm-up: {method.label}")
    return {
        method: MethodCosts(**{name: median(pools[name, key]) for name, key in _keys(method).items()})
        for method in methods
    }


def _cost(seconds: Seconds | None, name: str) -> float:
    """One of COSTS in the time of a step; NaN where its parts are not known."""
    if seconds is None:
        return float("nan")
    return seconds.select + seconds.cache if name == "select" else float(getattr(seconds, name))


def _keys(method: Method) -> dict[str, Any]:
    """On what each of COSTS depends."""
    drafting = method.drafting
    return {"verify": drafting.tree.bounds.size, "draft": drafting.tree, "select": method}
