"""Speculative decoding: the loop."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from warnings import warn

import torch
from torch import Tensor

from .. import defaults
from ..boundary import int_from
from ..errors import CannotDecode
from ..laws.fixed_tokens import n_fixed_by_node
from .cache import SequenceBatch
from .drafting import Drafting
from .engine import DecodeState, Engine, Engines
from .model import ModelInfo
from .pair import Pair
from .policy import PolicySettings
from .sampling import NodeLaws, Processed, ProcessedTexts, SamplingParams
from .step import Seconds, Step, Stopwatch

AUTOREGRESSIVE = Drafting.autoregressive()
_warm_up = cache(Drafting.warm_up)


@dataclass(frozen=True)
class DecodeOptions:
    """Sampling, limits and random numbers of a run.

    Parameters
    ----------
    sampling : SamplingParams
        Sampling parameters of both models. Default: temperature 1.
    draft_sampling : SamplingParams, optional
        Sampling parameters of the draft model, if they differ. Every rule stays lossless, since draft tokens follow the q that it sees.
    processed : sequence of Processed, optional
        For each prompt the logits processors of both models, instead of sampling parameters.
    max_tokens : int, default=64
        Maximum number of new tokens per prompt.
    stop : sequence of int, optional
        Tokens that end a sequence. Default: the target's own.
    seed : int, default=0
        Random seed.
    rows : sequence of int, optional
        Row number of each prompt. Its random numbers depend on the seed and the row only. Default: its index in the batch.
    laws : bool, default=False
        Whether each step records p and q of all nodes.
    graphs : bool, default=True
        Whether to use CUDA graphs, on CUDA and if each model is on one device.

    Examples
    --------
    >>> from ot_draft.decoding import DecodeOptions, SamplingParams
    >>> DecodeOptions(sampling=SamplingParams(temperature=0.6), max_tokens=16).sampling.temperature
    0.6
    """

    sampling: SamplingParams = field(default_factory=SamplingParams)
    draft_sampling: SamplingParams | None = None
    processed: Sequence[Processed] | None = None
    max_tokens: int = defaults.MAX_TOKENS
    stop: Sequence[int] | None = None
    seed: int = defaults.SEED
    rows: Sequence[int] | None = None
    laws: bool = False
    graphs: bool = True

    @property
    def of_both(self) -> tuple[NodeLaws, NodeLaws]:
        """Sampling settings of target and draft model."""
        if self.processed is not None:
            return ProcessedTexts(self.processed), ProcessedTexts(self.processed)
        return self.sampling, self.draft_sampling or self.sampling


@torch.inference_mode()
def decode_steps(
    pair: Pair, prompts: Sequence[Sequence[int]], policy: PolicySettings, options: DecodeOptions | None = None
) -> Iterator[Step]:
    """Continue prompts, one target call per step, until every sequence has ended.

    Every sequence follows the target distribution under `options.sampling`, whatever the draft model, if the path rules are lossless.

    Parameters
    ----------
    pair : Pair
        Target and draft model.
    prompts : sequence of sequences of int
        Token ids of B prompts.
    policy : Drafting, Auto or Policy
        One drafting for all steps, or the choice of one before each step.
    options : DecodeOptions, optional
        Sampling, limits and random numbers.

    Yields
    ------
    step : Step
        The steps: what each drafted and emitted.

    Raises
    ------
    CannotDecode
        If the inputs do not fit the models, or the target's logits give no distribution at a position that is reached (NaN or inf).

    Warns
    -----
    RuntimeWarning
        If the draft model's logits give no distribution; its drafts there are uniform, see `Step.without_law`.

    Examples
    --------
    >>> for step in decode_steps(pair, [pair.encode("Hello")], Auto()):  # doctest: +SKIP
    ...     print(pair.text(step.tokens(0)), end="")
    """
    options = options or DecodeOptions()
    engines = begin(pair, prompts, policy, options)
    rows = range(len(prompts)) if options.rows is None else options.rows
    watch = Stopwatch(engines.state.texts.last.device)
    active, number, warned = torch.ones(len(prompts), dtype=torch.bool), 0, False
    while bool(active.any()):
        began = time.perf_counter()
        root = engines.state.texts.last.clone()
        with watch("draft"):
            engine = engines.next()  # of the drafting that the policy chooses
        parts = engine.parts
        engine.draw(options.seed, rows, number)  # new in every step: a number that is used twice violates losslessness
        with watch("draft"):
            parts.propose()  # a tree of draft tokens after every sequence
        with watch("verify"):
            parts.verify()  # target distributions at all nodes, in one pass
        with watch("select"):
            parts.select()  # a path of each tree and the token after it, which follow the target distribution
        with watch("cache"):
            parts.keep()  # accepted tokens, in the sequences and in both caches
        step = _record(engine, options, number, root, active, watch)
        engines.record(step, time.perf_counter() - began)
        warned = warned or _warned(step)
        yield step
        active, number = ~step.finished, number + 1


@dataclass(frozen=True)
class Decoded:
    """New tokens of every prompt, and the steps that emitted them.

    Attributes
    ----------
    tokens : list of lists of int
        New tokens by prompt.
    steps : list of Step
        All steps.
    """

    tokens: list[list[int]]
    steps: list[Step]

    @property
    def seconds(self) -> Seconds:
        """Time of all steps, without the prefill."""
        return sum((step.seconds for step in self.steps), Seconds())

    @property
    def block_efficiency(self) -> float:
        """Tokens per target call, over all calls of active sequences; tokens that a stop token cuts off count."""
        calls = sum(int(step.active.sum()) for step in self.steps)
        return sum(int((step.length + 1)[step.active].sum()) for step in self.steps) / calls


def decode(
    pair: Pair,
    prompts: Sequence[Sequence[int]],
    policy: PolicySettings = AUTOREGRESSIVE,
    options: DecodeOptions | None = None,
) -> Decoded:
    """Continue prompts and return all new tokens and steps.

    Parameters
    ----------
    pair : Pair
        Target and draft model.
    prompts : sequence of sequences of int
        Token ids of B prompts.
    policy : Drafting, Auto or Policy
        One drafting for all steps, or the choice of one before each step. Default: autoregressive decoding.
    options : DecodeOptions, optional
        Sampling, limits and random numbers.

    Returns
    -------
    decoded : Decoded
        New tokens by prompt, and the steps of `decode_steps`.

    Examples
    --------
    >>> decode(pair, [pair.encode("Hello")], Drafting.chains(4, 4, Joint())).block_efficiency  # doctest: +SKIP
    """
    steps = list(decode_steps(pair, prompts, policy, options))
    return Decoded([[token for step in steps for token in step.tokens(row)] for row in range(len(prompts))], steps)


def begin(pair: Pair, prompts: Sequence[Sequence[int]], policy: PolicySettings, options: DecodeOptions) -> Engines:
    """Return the engines of a run after the prefill. Raises CannotDecode if prompts, policy or options do not fit the models."""
    check_kinds(prompts, policy)
    if not isinstance(pair, Pair):
        raise CannotDecode(f"pair must be a Pair, got {pair!r}"[:200] + ". Use load_pair.")
    check_options(options, len(prompts))
    run = policy.begin(pair, len(prompts))
    candidates = run.candidates
    if not candidates:
        raise CannotDecode(
            f"candidates of {type(policy).__name__} must be draftings, got none. Give all draftings that it may choose."
        )
    depth = max(drafting.tree.bounds.length for drafting in candidates)
    by_model = [drafting for drafting in candidates if drafting.tree.counts.n_model_calls]
    models = pair.models(bool(by_model), any(drafting.tree.counts.n_cascade_tokens for drafting in by_model))
    stop = pair.stop_tokens if options.stop is None else options.stop
    target = models[0].info
    check_prompts(prompts, target, "target", options.max_tokens)
    for draft in models[1:2]:
        check_prompts(prompts, draft.info, "draft")
    if target.longrope_threshold is not None:
        check_one_side(prompts, target.longrope_threshold, options.max_tokens + depth)
    for drafting in {type(drafting.rule): drafting for drafting in by_model}.values():
        _warm_up(drafting, target.n)
    texts = SequenceBatch.after(prompts, stop, options.max_tokens, depth, target.device)
    state = DecodeState.of(models, prompts, candidates, options.of_both, texts)
    lengths = [model.info.max_length for model in models if model.info.max_length]
    return Engines(state, run, prompts, options.graphs, min(lengths, default=None))


def check_emitted(why: Tensor, engine: Engine, options: DecodeOptions) -> None:
    """Raise CannotDecode if a token was emitted without a target distribution. why: (B, L + 1), `Engine.without_law` on the CPU.

    Nodes that no sequence reached do not count, as in autoregressive decoding.
    """
    if not bool(why.ne(0).any()):
        return
    row, depth = why.nonzero()[0].tolist()
    # `SequenceBatch.advance` does not change ended sequences.
    grown = int(engine.length[row]) + 1 if bool(engine.texts.active[row]) else 0
    length = int(engine.texts.lengths[row]) + 1 - grown + depth
    largest, sampling = float(why[row, depth]), options.of_both[0]
    if largest != 1:
        found = "-inf at every token" if largest < 0 else "inf" if largest > 0 else "NaN or inf"
        reason = (
            f"target logits must give a distribution, got {found}. Load the target in a wider type (bfloat16 or float32), or search its"
            " weights for such numbers."
        )
    else:
        reason = sampling.undefined
    raise CannotDecode(f"sequence {row}, after {length} tokens: {reason}")


def _warned(step: Step) -> bool:
    """Warn if the draft model gives no distribution at some node of this step; return whether it does not."""
    assert step.without_law is not None
    count = int(step.without_law.sum())
    if count:
        warn(
            f"the draft model gives no distribution (NaN or inf among its logits) at {count} nodes of step {step.number}, perhaps at more"
            " later. Its draft tokens there are uniform; sequences keep the target distribution, and decoding is slower. Load it in a wider"
            " type, or fix it.",
            RuntimeWarning,
            stacklevel=3,
        )
    return bool(count)


def _record(
    engine: Engine, options: DecodeOptions, number: int, root: Tensor, active: Tensor, watch: Stopwatch
) -> Step:
    """The result of a step, on the CPU; raises like `check_emitted`."""
    drafter, fixed = engine.drafter, n_fixed_by_node(engine.drafting.tree.law)
    found = {
        "root": root,
        "drafted": drafter.tokens,
        "parents": drafter.parents,
        "length": engine.length,
        "nodes": engine.nodes,
        "chosen": engine.chosen,
        "emitted": engine.emitted,
        "finished": ~engine.texts.active,
        "without_law": drafter.without_law,
        "of_emitted": engine.without_law,
    }
    found |= {"p": engine.p, "q": engine.drafted_by()} if options.laws else {}
    found |= {"fixed_count": drafter.fixed_count} if fixed else {}
    copied = _on_host(found)
    check_emitted(copied.pop("of_emitted"), engine, options)
    seconds = Seconds(**watch.read())
    return Step(number=number, active=active, seconds=seconds, drafting=engine.drafting, **copied)


def _on_host(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies on the CPU, which the next step does not change, with one device sync for all tensors."""
    device = next(iter(tensors.values())).device
    if device.type == "cpu":
        return {name: tensor.clone() for name, tensor in tensors.items()}
    copied = {name: tensor.to("cpu", non_blocking=True) for name, tensor in tensors.items()}
    torch.accelerator.current_stream(device).synchronize()
    return copied


def check_kinds(prompts: Any, policy: Any) -> None:
    """Raise CannotDecode unless prompts are lists and the policy chooses draftings."""
    _check_list("prompts", prompts, "lists of token ids", "Pass one list per prompt.")
    for row, prompt in enumerate(prompts):
        _check_list(f"prompt {row}", prompt, "token ids", "Use pair.encode(text).")
    if isinstance(policy, type) or not hasattr(policy, "begin"):
        raise CannotDecode(
            f"policy must be a Drafting, Auto or Policy, got {policy!r}. Use Drafting.chains(4, 4, otd.trees.Joint())."
        )


def check_options(options: DecodeOptions, texts: int) -> None:
    """Raise CannotDecode for options of a wrong type, or not one per prompt where there must be."""
    if not isinstance(options, DecodeOptions):
        raise CannotDecode(f"options must be DecodeOptions, got {options!r}. Use DecodeOptions(max_tokens=64, seed=1).")
    for name, sampling in (("sampling", options.sampling), ("draft_sampling", options.draft_sampling)):
        if not isinstance(sampling, NodeLaws) and (sampling is not None or name == "sampling"):
            raise CannotDecode(f"{name} must be SamplingParams, got {sampling!r}. Use SamplingParams(temperature=0.8).")
    int_from("max-tokens", options.max_tokens, 1, error=CannotDecode)
    int_from("seed", options.seed, error=CannotDecode)
    for name, numbers in (("stop", options.stop), ("rows", options.rows)):
        if numbers is not None:
            _check_integers(name, numbers)
    if options.processed is not None:
        _check_list("processed", options.processed, "Processed", "Pass one per prompt.", Processed)
    for name, given in (("rows", options.rows), ("processed", options.processed)):
        if given is not None and len(given) != texts:
            raise CannotDecode(f"{name} must hold one entry per prompt ({texts}), got {len(given)}. Pass as many.")


def _check_list(name: str, given: Any, content: str, remedy: str, kind: type = object) -> None:
    if not isinstance(given, list | tuple | range) or not all(isinstance(each, kind) for each in given):
        shown = " ".join(repr(given).split())
        raise CannotDecode(f"{name} must be a list of {content}, got {shown:.150}. {remedy}")


def _check_integers(name: str, given: Any) -> None:
    try:
        values = None if isinstance(given, str | bytes) else list(given)
    except TypeError:
        values = None
    if values is None:
        raise CannotDecode(f"{name} must be a list of integers, got {given!r}. Pass a list, such as [2].")
    for value in values:
        int_from(f"each of {name}", value, error=CannotDecode)


def check_one_side(prompts: Sequence[Sequence[int]], longrope_threshold: int, more: int) -> None:
    """Raise CannotDecode unless all sequences end below the target's LongRoPE threshold, or all prompts exceed it."""
    lengths = [len(prompt) for prompt in prompts]
    if max(lengths) + more > longrope_threshold and min(lengths) <= longrope_threshold + 1:
        row = lengths.index(min(lengths))
        raise CannotDecode(
            f"prompt {row} must have at least {longrope_threshold + 2} tokens, or all sequences with their drafts at most"
            f" {longrope_threshold},"
            f" where the target changes its RoPE factors (LongRoPE), got {lengths[row]} tokens and sequences of up to"
            f" {max(lengths) + more}. Reduce max-tokens, or decode short and long prompts separately."
        )


def check_prompts(prompts: Sequence[Sequence[int]], info: ModelInfo, name: str, max_tokens: int = 0) -> None:
    context, called, n = info.max_length, info.max_length_source, info.n
    if not prompts:
        raise CannotDecode("prompts must hold at least one prompt, got none. Pass one.")
    for row, prompt in enumerate(prompts):
        if len(prompt) == 0:
            raise CannotDecode(
                f"prompt {row} must have at least one token, got none. Pass, for example, the beginning-of-sequence token."
            )
        held = f"each token of prompt {row}"
        for token in prompt:
            int_from(held, token, 0, n, CannotDecode, "Use the tokenizer of the target.")
        if context is not None and len(prompt) >= context:
            raise CannotDecode(
                f"prompt {row} must be shorter than the {name}'s {called} of {context} tokens, got {len(prompt)}. Shorten it."
            )
        if context is not None and len(prompt) + max_tokens > context:
            raise CannotDecode(
                f"max-tokens must be at most {context - len(prompt)} for prompt {row} of {len(prompt)} tokens, since the {name}'s"
                f" {called} is"
                f" {context} tokens, got {max_tokens}. Use a smaller number."
            )
