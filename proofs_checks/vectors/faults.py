"""Faults to inject into rules: bugs found in engines, and mistakes that an implementation could make.

A bug of an engine has a source, and `description` states how it is modelled. Faults are injected into the rules of this package, not
into the engine: only a run of the engine shows whether it has the bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from .chance import Chance, Row
from .problems import ZERO_TRIED
from .rules import (
    CHOSEN,
    FLASHINFER,
    MULTINOMIAL,
    RULES,
    V1,
    V2,
    Case,
    Chain,
    Outcome,
    at,
    block_pass,
    block_weights,
    excess,
    first_best,
    or_else,
    standard_rest,
    standard_test,
)

Program = Callable[[Case, Any], Outcome]
CHAINS = ("vllm-v1", "vllm-v2", "sglang-chain", "flashinfer-chain", "tensorrt-llm", "transformers")
ALL_CHAINS = (*CHAINS, "vllm-v1-chosen", "vllm-v2-chosen")
BLOCKS = ("vllm-v2-block", "vllm-v2-block-chosen")
RECURSIVE = ("recursive-rejection", "recursive-rejection-distinct")
GITHUB = "https://github.com/"


@dataclass(frozen=True)
class Fault:
    """programs: faulty rules, by rule name. source: address of the bug, empty if no engine is known to have it.

    drafts: the fault is in the sampling of draft tokens, so that only vectors of the level joint can detect it.
    """

    name: str
    description: str
    programs: dict[str, Program]
    source: str = ""
    drafts: bool = False


def changed(names: Iterable[str], **parts: Any) -> dict[str, Program]:
    """The rules of these names, with these fields replaced."""
    return {name: replace(RULES[name], **parts) for name in names}  # type: ignore[type-var]


def squared(row: Row) -> list[Any]:
    """The row at half its temperature."""
    whole = sum(mass * mass for mass in row)
    return [mass * mass / whole for mass in row] if whole else list(row)


def with_rows(p: Any = None, q: Any = None) -> dict[str, Any]:
    """Fields `test` and `rest` of a chain that read the rows p(case, node) and q(case, node)."""

    def seen(case: Case, node: int) -> Case:
        rows = [list(row) for row in case.p]
        drafted = [list(case.draft_row(index)) for index in range(len(case.drafts))]
        if p is not None:
            rows[node] = p(case, node)
        if q is not None:
            drafted[node] = q(case, node)
        return replace(case, p=tuple(rows), q=tuple(drafted))

    return {
        "test": lambda case, node: standard_test(seen(case, node), node),
        "rest": lambda case, node: standard_rest(seen(case, node), node),
    }


def scaled(case: Case, node: int) -> tuple[Any, Any]:
    part, whole = standard_test(case, node)
    return part * Fraction(23, 20), whole


def always(case: Case, node: int) -> tuple[Any, Any]:
    return 1, 0


def inverted(case: Case, node: int) -> tuple[Any, Any]:
    return standard_test(case, node)[::-1]


def or_same_sample(case: Case, node: int) -> tuple[Any, Any]:
    part, whole = standard_test(case, node)
    ratio = min(1, part / whole) if whole else int(part > 0)
    return 1 - (1 - part) * (1 - ratio), 1


def before_the_row(case: Case, node: int) -> tuple[Any, Any]:
    """For draft token -1: the probability stored before its row."""
    if case.drafts[node] != -1 or node == 0 or case.q is None:
        return standard_test(case, node)
    return case.p[node - 1][-1], case.q[node - 1][-1]


def of_nothing(case: Case, node: int) -> tuple[Any, Any]:
    part, whole = standard_test(case, node)
    return (1, 0) if part == whole == 0 else (part, whole)


def above_one(case: Case, node: int) -> tuple[Any, Any]:
    part, whole = standard_test(case, node)
    return (0 if whole > 1 else part), whole


def as_chosen(case: Case, node: int) -> tuple[Any, Any]:
    return at(case.p[node], case.drafts[node]), 1


def rest_as_chosen(case: Case, node: int) -> Row:
    row = case.p[node]
    return or_else([0 if token == case.drafts[node] else mass for token, mass in enumerate(row)], row)


def next_row(case: Case, node: int) -> Row:
    """p of the next position."""
    return case.p[min(node + 1, len(case.p) - 1)]


@dataclass(frozen=True)
class Wrapped:
    """A rule whose random numbers are replaced by `chance(random numbers)`."""

    rule: Any
    chance: Callable[[Any], Any]

    def __call__(self, case: Case, chance: Chance) -> Outcome:
        answer: Outcome = self.rule(case, self.chance(chance))
        return answer


@dataclass(frozen=True)
class ZeroPasses:
    """Random numbers that accept a token with p = 0 if u = 0: the test is u <= p / q alone."""

    under: Any

    def below(self, number: int, part: Any, whole: Any, closed: bool) -> bool:
        """See Chance."""
        if part == 0 and hasattr(self.under, "uniforms"):
            return bool(self.under.uniforms[number] * whole <= 0)
        return bool(self.under.below(number, part, whole, closed))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.under, name)


@dataclass(frozen=True)
class LastToken:
    """Random numbers that sample the last token of the vocabulary if u is not below 1."""

    under: Any

    def cumulative(self, number: int, weights: Row) -> int:
        """See Chance."""
        if hasattr(self.under, "uniforms") and not self.under.uniforms[number] < 1:
            return len(weights) - 1
        return int(self.under.cumulative(number, weights))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.under, name)


@dataclass(frozen=True)
class AtOrAbove:
    """Random numbers that sample the first token at u = 0, even if its weight is 0."""

    under: Any

    def cumulative(self, number: int, weights: Row) -> int:
        """See Chance."""
        if hasattr(self.under, "uniforms") and self.under.uniforms[number] <= 0:
            return 0
        return int(self.under.cumulative(number, weights))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.under, name)


@dataclass(frozen=True)
class NanToken:
    """A chain that emits `token(n)` at the first row of p, or of q, with a NaN."""

    rule: Chain
    of_q: bool
    token: Callable[[int], int]

    def __call__(self, case: Case, chance: Chance) -> Outcome:
        rows = case.q if self.of_q else case.p
        for node, row in enumerate(rows or ()):
            if any(mass != mass for mass in row):
                return (*case.drafts[:node], self.token(case.n))
        return self.rule(case, chance)


@dataclass(frozen=True)
class EmptyRest:
    """A chain that emits `token(n)` if (p - q)+ is 0."""

    rule: Any
    token: Callable[[int], int]

    def __call__(self, case: Case, chance: Chance) -> Outcome:
        kept = 0
        while kept < len(case.drafts) and self.rule.passes(case, chance, kept):
            kept += 1
        if kept < len(case.drafts) and not sum(excess(case.p[kept], case.draft_row(kept))) > 0:
            return (*case.drafts[:kept], self.token(case.n))
        row = self.rule.rest(case, kept) if kept < len(case.drafts) else self.rule.bonus(case)
        return (*case.drafts[:kept], getattr(chance, self.rule.by)(self.rule.last(kept, len(case.drafts)), row))


def greedy_tree(case: Case, chance: Chance) -> Outcome:
    """The most probable token at every node, for any random numbers."""
    node, emitted = 0, []
    while True:
        emitted.append(first_best(case.p[node]))
        onward = [index for index in case.children(node) if case.drafts[index] == emitted[-1]]
        if not onward:
            return tuple(emitted)
        node = onward[0] + 1


def running_products(case: Case, chance: Any) -> Outcome:
    """Test of the capped product of p/q against the product of the uniform numbers; token-wise residual. Reads `chance.uniforms`."""
    ratio, product, kept = 1.0, 1.0, 0
    for node in range(len(case.drafts)):
        part, whole = standard_test(case, node)
        ratio = min(1.0, ratio * part / whole) if whole else float(part > 0)
        product *= chance.uniforms[node]
        if part > 0 and ratio >= product:
            kept = node + 1
    row = case.p[kept] if kept == len(case.drafts) else standard_rest(case, kept)
    return (*case.drafts[:kept], chance.race(kept, row))


def uncapped(case: Case) -> list[Any]:
    weights = [1]
    for node in range(len(case.drafts)):
        part, whole = standard_test(case, node)
        weights.append(weights[-1] * part / whole if whole else int(part > 0))
    return weights


def uncapped_at_the_end(case: Case, weights: Row, node: int) -> Any:
    return min(1, uncapped(case)[-1]) if node == len(case.drafts) - 1 else block_pass(case, weights, node)


def token_wise_rest(case: Case, weights: Row, node: int) -> Row:
    return standard_rest(case, node)


def token_wise_weights(case: Case) -> list[Any]:
    return [1, *(block_weights(replace(case, p=case.p[i:], q=case.q and case.q[i:], drafts=case.drafts[i:]))[1]
                 for i in range(len(case.drafts)))]  # fmt: skip


def dropped_only(q: Row, token: int) -> Row:
    return [0 if y == token else mass for y, mass in enumerate(q)]


HISTORIC_CHAINS = (
    Fault(
        "openvino-4190",
        "after a rejection the token is sampled from p of the next position",
        changed(ALL_CHAINS, rest=next_row),
        GITHUB + "openvinotoolkit/openvino.genai/issues/4190",
    ),
    Fault(
        "vllm-40149",
        "q is not passed on: the draft token counts as deterministic (the output distribution stays right, acceptance is lost)",
        changed(("vllm-v1", "vllm-v2"), test=as_chosen, rest=rest_as_chosen),
        GITHUB + "vllm-project/vllm/issues/40149",
    ),
    Fault(
        "vllm-45060",
        "V1 model runner: a NaN in p gives the token id n, outside the vocabulary",
        {name: NanToken(V1, False, lambda n: n) for name in ("vllm-v1", "vllm-v1-chosen")},
        GITHUB + "vllm-project/vllm/pull/45060",
    ),
    Fault(
        "vllm-50183",
        "V2 model runner: a NaN in p gives the token id n, outside the vocabulary",
        {name: NanToken(V2, False, lambda n: n) for name in ("vllm-v2", "vllm-v2-chosen")},
        GITHUB + "vllm-project/vllm/pull/50183",
    ),
    Fault(
        "vllm-41834",
        "a NaN in q gives token 0, the rejected draft token",
        {"vllm-v1": NanToken(V1, True, lambda n: 0)},
        GITHUB + "vllm-project/vllm/pull/41834",
    ),
    Fault(
        "vllm-44744",
        "an empty residual (p - q)+ gives the token id n, outside the vocabulary",
        {"vllm-v1": EmptyRest(V1, lambda n: n)},
        GITHUB + "vllm-project/vllm/pull/44744",
    ),
    Fault(
        "vllm-ascend-13730",
        "the uniform random number is always 0: every draft token is accepted",
        changed(("vllm-v2",), test=always),
        GITHUB + "vllm-project/vllm-ascend/issues/13730",
    ),
    Fault(
        "transformers-28508",
        "the number of matches is wrong: every draft token is accepted",
        changed(("transformers",), test=always),
        GITHUB + "huggingface/transformers/pull/28508",
    ),
    Fault(
        "transformers-28166",
        "an index is wrong: p is read one position late",
        changed(("transformers",), **with_rows(p=next_row)),
        GITHUB + "huggingface/transformers/pull/28166",
    ),
    Fault(
        "transformers-zero",
        "u <= p / q alone: u = 0 accepts a token with p = 0 (code of 5.24, as read)",
        {"transformers": Wrapped(MULTINOMIAL, ZeroPasses)},
        GITHUB + "huggingface/transformers/blob/v5.24.0/src/transformers/generation/utils.py",
    ),
    Fault(
        "tensorrt-llm-15098",
        "the wrong slice of logits: p is read one position late",
        changed(("tensorrt-llm",), **with_rows(p=next_row)) | changed(("sglang-tree",), row=next_row),
        GITHUB + "NVIDIA/TensorRT-LLM/pull/15098",
    ),
    Fault(
        "tensorrt-llm-nan",
        "rejected where u > min(1, p/q): 0/0 rejects nothing (code as read)",
        changed(("tensorrt-llm",), test=of_nothing),
        GITHUB + "NVIDIA/TensorRT-LLM/blob/main/tensorrt_llm/_torch/pyexecutor/sampling_utils.py",
    ),
    Fault(
        "flashinfer-424",
        "the uniform random number that rejected the draft token also samples the final token",
        changed(("flashinfer-chain",), last=lambda kept, length: kept),
        GITHUB + "flashinfer-ai/flashinfer/pull/424",
    ),
    Fault(
        "flashinfer-879",
        "a padded draft token, -1, reads the probability stored before its row",
        changed(("flashinfer-chain",), test=before_the_row),
        GITHUB + "flashinfer-ai/flashinfer/issues/879",
    ),
    Fault(
        "sglang-42568",
        "a draft token whose q rounds to more than 1 is rejected",
        changed(("sglang-chain",), test=above_one),
        GITHUB + "sgl-project/sglang/issues/42568",
    ),
    Fault(
        "rtp-llm-1295",
        "accepted by the test of p/q, or if the target's own sample is the same token; here one uniform random number serves both",
        changed(("flashinfer-chain",), test=or_same_sample),
        GITHUB + "alibaba/rtp-llm/pull/1295",
    ),
)
HISTORIC_OTHERS = (
    Fault(
        "sglang-37134",
        "verification is greedy, whatever the temperature",
        {"sglang-tree": greedy_tree, "sglang-chain": RULES["greedy"]},
        GITHUB + "sgl-project/sglang/pull/37134",
    ),
    Fault(
        "sglang-7207",
        "the uniform random number of the children also samples the final token",
        changed(("sglang-tree",), final=lambda case, node: node),
        GITHUB + "sgl-project/sglang/pull/7207",
    ),
    Fault(
        "sglang-35771",
        "u = 0 accepts a token with p = 0",
        {"sglang-tree": Wrapped(RULES["sglang-tree"], ZeroPasses)},
        GITHUB + "sgl-project/sglang/issues/35771",
    ),
    Fault(
        "sglang-22643",
        "u above the sum of all probabilities gives the last token of the vocabulary",
        {"sglang-tree": Wrapped(RULES["sglang-tree"], LastToken)},
        GITHUB + "sgl-project/sglang/pull/22643",
    ),
    Fault(
        "vllm-ascend-7807",
        "products of p/q and of uniform random numbers replace the test, and the residual is that of one token",
        {"vllm-v2-block": running_products},
        GITHUB + "vllm-project/vllm-ascend/issues/7807",
    ),
    Fault(
        "vllm-ascend-7603",
        "the same for deterministic draft tokens",
        {"vllm-v2-block-chosen": running_products},
        GITHUB + "vllm-project/vllm-ascend/pull/7603",
    ),
    Fault(
        "vllm-ascend-15673",
        "block verification is requested, and token-wise verification is done",
        {name: replace(V2, closed=True) for name in BLOCKS},
        GITHUB + "vllm-project/vllm-ascend/pull/15673",
    ),
    Fault(
        "hsd",
        "the last test uses the ratio of the whole chain without a cap at 1",
        changed(("vllm-v2-block",), test=uncapped_at_the_end),
        "https://arxiv.org/abs/2601.05724",
    ),
)
INVENTED = (
    Fault(
        "first-token-at-zero-uniform",
        "u = 0 samples the first token even if its probability is 0: the first running sum at or above u",
        {name: Wrapped(RULES[name], AtOrAbove) for name in ZERO_TRIED},
    ),
    Fault(
        "threshold-scaled",
        "acceptance at 1.15 p/q",
        changed(ALL_CHAINS, test=scaled)
        | changed(RECURSIVE, scale=Fraction(23, 20))
        | changed(("k-seq",), factor=lambda k: k * Fraction(20, 23))
        | changed(("sglang-tree",), grow=Fraction(23, 20)),
    ),
    Fault(
        "residual-is-p",
        "after a rejection the token is sampled from p",
        changed(ALL_CHAINS, rest=lambda case, node: case.p[node])
        | changed(BLOCKS, rest=lambda case, weights, node: case.p[node])
        | changed(RECURSIVE, update=lambda p, q: p)
        | changed(("k-seq",), repeat=lambda k: 0)
        | changed(("sglang-tree",), without=False),
    ),
    Fault(
        "residual-reversed",
        "after a rejection the token is sampled from (q - p)+",
        changed(CHAINS, rest=lambda case, node: or_else(excess(case.draft_row(node), case.p[node]), case.p[node]))
        | changed(RECURSIVE, update=lambda p, q: excess(q, p)),
    ),
    Fault("ratio-inverted", "acceptance at q/p", changed(CHAINS, test=inverted)),
    Fault(
        "bonus-from-previous-p",
        "the token after the last draft token is sampled from p of the position before",
        changed((*ALL_CHAINS, *BLOCKS), bonus=lambda case: case.p[len(case.drafts) - 1]),
    ),
    Fault(
        "q-of-previous-position",
        "q is that of the position before",
        changed(CHAINS, **with_rows(q=lambda case, node: case.draft_row(max(node - 1, 0)))),
    ),
    Fault(
        "q-at-half-temperature",
        "q squared and normalised",
        changed(CHAINS, **with_rows(q=lambda case, node: squared(case.draft_row(node)))),
    ),
    Fault(
        "p-at-half-temperature",
        "p squared and normalised",
        changed(ALL_CHAINS, **with_rows(p=lambda case, node: squared(case.p[node]))),
    ),
    Fault(
        "one-uniform-for-all",
        "one uniform random number for all positions",
        changed((*ALL_CHAINS, *BLOCKS, "sglang-tree", "llama.cpp-server", *RECURSIVE, "k-seq"), uniform=lambda node: 0),
    ),
    Fault("p-of-next-position", "p is read one position late", changed(("llama.cpp-server", "greedy"), row=next_row)),
    Fault(
        "last-of-ties",
        "of equal probabilities the last",
        changed(("greedy",), best=lambda row: max(range(len(row)), key=lambda y: (row[y], y))),
    ),
    Fault(
        "target-at-half-temperature",
        "the target distribution at half its temperature",
        changed(("llama.cpp-server", "sglang-tree"), row=lambda case, node: squared(case.p[node])),
    ),
    Fault(
        "equal-siblings-twice",
        "a token that occurs twice among the children counts twice",
        changed(("sglang-tree",), children=lambda case, node: case.children(node)),
    ),
    Fault(
        "empty-residual",
        "an empty residual (p - q)+ gives token 0",
        {name: EmptyRest(RULES[name], lambda n: 0) for name in CHAINS if not name.startswith("vllm-v2")},
    ),
    Fault(
        "rejected-token-kept-in-q",
        "q keeps the rejected token",
        changed(("recursive-rejection-distinct",), drop=lambda q, token: q),
    ),
    Fault(
        "q-not-renormalised",
        "q loses the rejected token and is not normalised",
        changed(("recursive-rejection-distinct",), drop=dropped_only),
    ),
    Fault("factor-one", "K-SEQ with division factor 1", changed(("k-seq",), factor=lambda k: 1)),
    Fault(
        "residual-of-one-draft-token",
        "the residual is that of one draft token",
        changed(("k-seq",), repeat=lambda k: 1),
    ),
    Fault("uncapped-weights", "the weights of a block exceed 1", changed(("vllm-v2-block",), weights=uncapped)),
    Fault(
        "block-residual-of-one-token",
        "the residual of one token after a block",
        changed(("vllm-v2-block",), rest=token_wise_rest),
    ),
    Fault(
        "block-of-single-ratios",
        "weights of a block from the last ratio alone",
        changed(BLOCKS, weights=token_wise_weights),
    ),
    Fault(
        "comparison-at-equality",
        "u q < p instead of u q <= p, or the reverse",
        {
            name: replace(RULES[name], closed=not RULES[name].closed)  # type: ignore[type-var,attr-defined]
            for name in ("vllm-v1", "vllm-v1-chosen", "sglang-chain", "flashinfer-chain", "tensorrt-llm")
        },
    ),
    Fault(
        "accepted-at-zero-uniform",
        "u = 0 accepts a token with p = 0",
        {name: Wrapped(RULES[name], ZeroPasses) for name in ("vllm-v1", "vllm-v1-chosen", "tensorrt-llm")},
    ),
)


FRESH = 64  # first number of the random numbers that sample draft tokens; rules use smaller ones


@dataclass(frozen=True)
class Drafted:
    """A rule that samples its draft tokens first: (draft tokens, emitted tokens). seen: distribution from which they are sampled."""

    rule: Any
    seen: Callable[[Case, int], Row] = lambda case, node: case.draft_row(node)
    number: Callable[[int], int] = lambda index: FRESH + index
    by: str = "race"
    distinct: bool = False

    def __call__(self, case: Case, chance: Chance) -> Outcome:
        drafts: list[int] = []
        for index, parent in enumerate(case.parents):
            row = self.seen(case, parent + 1)
            if self.distinct:
                row = [0 if token in drafts else mass for token, mass in enumerate(row)]
            drafts.append(getattr(chance, self.by)(self.number(index), row))
        return (*drafts, *self.rule(replace(case, drafts=tuple(drafts)), chance))


DRAFTED: dict[str, Program] = {
    name: Drafted(RULES[name], distinct=name.endswith("distinct"))
    for name in (*CHAINS, "vllm-v2-block", *RECURSIVE, "k-seq")
}


def most_probable(case: Case, node: int) -> Row:
    row = case.draft_row(node)
    return [int(token == first_best(row)) for token in range(len(row))]


def top_two(case: Case, node: int) -> Row:
    row = case.draft_row(node)
    kept = sorted(range(len(row)), key=lambda token: (-row[token], token))[:2]
    return [mass if token in kept else 0 for token, mass in enumerate(row)]


def rounded(case: Case, node: int) -> Row:
    """q after rounding of logits: tokens of neighbouring rank have equal probability."""
    row = list(case.draft_row(node))
    order = sorted((token for token in range(len(row)) if row[token]), key=lambda token: (-row[token], token))
    for a, b in zip(order[::2], order[1::2], strict=False):
        row[a] = row[b] = (row[a] + row[b]) / 2
    return row


def top_of_all(case: Case, chance: Any) -> Outcome:
    """The most probable tokens as children, tested with q as if they were sampled from it."""
    row = case.draft_row(0)
    best = sorted(range(len(row)), key=lambda token: (-row[token], token))[: len(case.parents)]
    drafts = tuple(best)
    return (*drafts, *RULES["recursive-rejection"](replace(case, drafts=drafts), chance))


def drawn(names: Iterable[str], **parts: Any) -> dict[str, Program]:
    """The rules of these names with other sampling of draft tokens."""
    return {name: replace(DRAFTED[name], **parts) for name in names}  # type: ignore[type-var]


_IN_DRAFTS = (
    Fault(
        "vllm-54282",
        "the recovered token uses the noise that sampled the draft token",
        drawn(("vllm-v2", "vllm-v2-block"), number=lambda index: index),
        GITHUB + "vllm-project/vllm/pull/54282",
    ),
    Fault(
        "transformers-30778",
        "draft tokens are the most probable ones, tested with q as if they were sampled from it (reverted by 33534)",
        drawn(("transformers",), seen=most_probable),
        GITHUB + "huggingface/transformers/pull/33534",
    ),
    Fault(
        "transformers-47932",
        "draft tokens are sampled from the top tokens of q, and the full q is reported",
        drawn(("transformers",), seen=top_two),
        GITHUB + "huggingface/transformers/issues/47932",
    ),
    Fault(
        "deepspec-31",
        "draft tokens are sampled from logits rounded to bfloat16 and tested with q in float32; here neighbours become equal",
        drawn(CHAINS, seen=rounded),
        GITHUB + "deepseek-ai/DeepSpec/issues/31",
    ),
    Fault(
        "llama.cpp-example",
        "one sequence: the most probable candidate is tested with p/q as if it were sampled from q",
        drawn(("recursive-rejection",), seen=most_probable),
        GITHUB + "ggml-org/llama.cpp/blob/master/examples/speculative/speculative.cpp",
    ),
    Fault(
        "redrafter",
        "beams of a deterministic search are tested with p/q; here the first beam",
        drawn(("tensorrt-llm",), seen=most_probable),
        GITHUB + "apple/ml-recurrent-drafter",
    ),
    Fault(
        "top-children",
        "the most probable tokens as children, tested with q as if they were sampled from it",
        {"recursive-rejection": top_of_all},
    ),
    Fault(
        "drafts-at-half-temperature",
        "draft tokens are sampled at half the reported temperature",
        drawn(DRAFTED, seen=lambda case, node: squared(case.draft_row(node))),
    ),
    Fault(
        "drafts-from-previous-q",
        "draft tokens are sampled from q of the position before",
        drawn((*CHAINS, "vllm-v2-block"), seen=lambda case, node: case.draft_row(max(node - 1, 0))),
    ),
    Fault(
        "uniform-reused-from-drafting",
        "the uniform random number of the test also sampled the draft token",
        drawn((*CHAINS, *RECURSIVE, "k-seq"), by="cumulative", number=lambda index: index),
    ),
    Fault(
        "drawn-with-replacement",
        "draft tokens sampled with replacement instead of without",
        drawn(("recursive-rejection-distinct",), distinct=False),
    ),
    Fault(
        "drawn-without-replacement",
        "draft tokens sampled without replacement instead of with",
        drawn(("recursive-rejection", "k-seq"), distinct=True),
    ),
)
IN_DRAFTS = tuple(replace(fault, drafts=True) for fault in _IN_DRAFTS)
FAULTS: dict[str, Fault] = {fault.name: fault for fault in (*HISTORIC_CHAINS, *HISTORIC_OTHERS, *IN_DRAFTS, *INVENTED)}


def injected_in(rule: str, drafts: bool) -> dict[str, Program]:
    """The rule with each of its faults, by name of the fault."""
    return {
        name: each.programs[rule] for name, each in FAULTS.items() if rule in each.programs and each.drafts == drafts
    }


def right(rule: str, drafts: bool) -> Program:
    """The rule without a fault. drafts: whether it samples its draft tokens, too."""
    return DRAFTED[rule] if drafts else RULES[rule]


__all__ = ["CHOSEN", "FAULTS", "FLASHINFER", "injected_in", "right"]
