"""Several draft paths in transformers: `model.generate(..., custom_generate=multi_draft(draft_model, ...))`. Needs the extra `llm`."""

# ruff: noqa: E402  a missing torch or transformers is reported before they are imported
from __future__ import annotations

from ..boundary import int_from
from ..optional import require

require("torch", "transformers", extra="llm")

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers.generation import (
    EosTokenCriteria,
    GenerateDecoderOnlyOutput,
    MaxLengthCriteria,
    StopStringCriteria,
)

from .. import defaults
from ..decoding import Auto, CannotDecode, DecodeOptions, Drafting, Pair, PromptLookup, Step, decode_steps
from ..decoding.language_model import split_between_processes, vocabulary_size
from ..decoding.policy import PolicySettings
from ..decoding.step import DecodeSummary
from ..laws import IID, DraftLaw
from ..selection import SelectionRule
from ..trees import Costs, FixedTree, Joint, PathRule, TokenWise, TreeShape
from .generate_request import check_request, hidden_from_callables, processed, prompts_of, sampling_of

__all__ = ["multi_draft"]


def multi_draft(
    draft_model: Any = None,
    rule: PathRule | SelectionRule | None = None,
    paths: int | None = None,
    length: int | None = None,
    law: DraftLaw | None = None,
    tree: TreeShape | None = None,
    seed: int | None = None,
    on_step: Callable[[Step], None] | None = None,
    stateless: Sequence[type] = (),
    shape: str | None = None,
    costs: Costs | None = None,
    prompt_lookup_num_tokens: int | None = None,
    max_matching_ngram_size: int | None = None,
    tokenizer: Any = None,
) -> MultiDraft:
    """Return a decoding loop for transformers' `generate`, which verifies several draft tokens in every target call.

    The output has the distribution of `generate` with the same settings. The four warpers, and every processor that is known to depend on
    input_ids and scores alone, are applied to both models at every node.

    Parameters
    ----------
    draft_model : transformers.PreTrainedModel, optional
        A causal language model. If its vocabulary has another size than the target's, equal ids must mean equal tokens. None: prompt lookup
        alone.
    rule : PathRule or SelectionRule, optional
        Verification rule; a selection rule is applied token by token. Default: `otd.trees.Joint()`.
    paths, length : int, optional
        Number of draft paths and their length, in tokens. Default: 4 and 4.
    law : DraftLaw, optional
        Draft law of the children of a node. Default: that of the rule.
    tree : TreeShape, optional
        Draft tree, instead of paths and length.
    seed : int, optional
        Random seed. Default: drawn from torch's generator, so that `torch.manual_seed` reproduces the output.
    on_step : callable, optional
        Called with every `ot_draft.decoding.Step`.
    stateless : sequence of type
        Types of your own logits processors that depend on input_ids and scores alone.
    shape : "auto", optional
        Choose the drafting with the most expected tokens per second in every step (`ot_draft.decoding.Auto`); the default unless rule,
        paths, length, law or tree is given.
    costs : Costs, optional
        Costs for `auto`, instead of measured times; a seed then determines the output, if the same prompts came before.
    prompt_lookup_num_tokens, max_matching_ngram_size : int, optional
        Settings of prompt lookup, as in `generate`. Default: 10 and 2; for `auto`, 16 and 3.
    tokenizer : transformers tokenizer, optional
        The target's, for `stop_strings`, which `generate` does not hand on to a callable.

    Returns
    -------
    loop : MultiDraft
        Pass it as `custom_generate`; `loop.summary` describes its last call.

    Raises
    ------
    CannotDecode
        If settings contradict each other or cannot be honoured.

    Examples
    --------
    >>> loop = multi_draft(draft_model, paths=4, length=4)  # doctest: +SKIP
    >>> model.generate(**inputs, custom_generate=loop)  # doctest: +SKIP
    >>> print(loop.summary)  # doctest: +SKIP
    24 target calls, 64 tokens: 2.67 tokens per target call
    accepted by depth: 0.71 0.62 0.55 0.50
    seconds: draft 0.31, verify 0.92, select 0.02, cache 0.01
    """
    if draft_model is not None:
        vocabulary_size(draft_model)
    if on_step is not None and not callable(on_step):
        raise CannotDecode(f"on_step must be a function of a Step, got {on_step!r}. Pass a callable.")
    if not isinstance(stateless, list | tuple) or not all(isinstance(each, type) for each in stateless):
        raise CannotDecode(
            f"stateless must be a list of types, got {stateless!r}. Pass the types of your processors, (MyProcessor,)."
        )
    if seed is not None:
        int_from("seed", seed, error=CannotDecode)
    named = {"num_tokens": prompt_lookup_num_tokens, "max_ngram": max_matching_ngram_size}
    settings = {name: value for name, value in named.items() if value is not None}
    lookup = PromptLookup(**settings) if settings else None
    one_shape = any(given is not None for given in (rule, paths, length, law, tree))
    if shape not in (None, "auto") or (shape == "auto" and one_shape):
        raise CannotDecode(
            f"shape must be 'auto' alone, got {shape!r}. Remove it, or rule, paths, length, law and tree."
        )
    if one_shape and not (lookup is None and costs is None):
        raise CannotDecode(
            "costs and prompt lookup require shape 'auto'. Remove them, or rule, paths, length, law and tree."
        )
    if one_shape:
        policy: PolicySettings = _one_shape(rule, paths, length, law, tree)
    elif draft_model is None and shape is None and costs is None:
        policy = Drafting.looked_up(lookup)
    else:
        policy = Auto(draft_model is not None, Auto().lookup if lookup is None else lookup, costs)
    return MultiDraft(draft_model, policy, seed, on_step, tuple(stateless), tokenizer)


def _one_shape(
    rule: PathRule | SelectionRule | None = None,
    paths: int | None = None,
    length: int | None = None,
    law: DraftLaw | None = None,
    tree: TreeShape | None = None,
) -> Drafting:
    if isinstance(rule, SelectionRule):  # applied token by token
        law = rule.law if law is None else law
        rule = TokenWise(rule)
    chosen = Joint() if rule is None else rule
    if isinstance(chosen, type) or not hasattr(chosen, "select"):
        raise CannotDecode(
            f"rule must be a path rule or a selection rule, got {rule!r}. Use one, such as otd.trees.Joint() or otd.rules.KSeq()."
        )
    law = IID() if law is None else law
    if tree is not None:
        if not isinstance(tree, TreeShape):
            raise CannotDecode(
                f"tree must be a TreeShape, got {tree!r}. Use one, such as otd.trees.TreeShape.by_level((4, 2, 1))."
            )
        if paths is not None or length is not None:
            raise CannotDecode("tree must not be given together with paths or length. Remove one of them.")
        return Drafting(FixedTree(tree, law), chosen)
    return Drafting.chains(
        defaults.PATHS if paths is None else paths, defaults.LENGTH if length is None else length, chosen, law
    )


@dataclass(frozen=True)
class MultiDraft:
    """The result of `multi_draft`.

    `generate` calls it, and passes its arguments `seed`, `rows`, `generator` and `stop_strings` on.

    Attributes
    ----------
    summary : DecodeSummary
        Target calls, tokens per target call, acceptance by depth and seconds of the last call.
    """

    draft_model: Any
    policy: PolicySettings
    seed: int | None = None
    on_step: Callable[[Step], None] | None = None
    stateless: tuple[type, ...] = ()
    tokenizer: Any = None
    summary: DecodeSummary = field(default_factory=DecodeSummary, init=False, compare=False, repr=False)

    def __call__(
        self,
        model: Any,
        input_ids: Tensor,
        logits_processor: Sequence[Any],
        stopping_criteria: Any,
        generation_config: Any,
        synced_gpus: bool | None = False,
        streamer: Any = None,
        seed: int | None = None,
        rows: Sequence[int] | None = None,
        generator: torch.Generator | None = None,
        stop_strings: str | Sequence[str] | None = None,
        **model_kwargs: Any,
    ) -> Any:
        """Return token ids (B, T + new), prompts (B, T) included, ended and padded as by `generate`; or its output object.

        A sequence depends on `seed` and its row number in `rows` only, by default its index in the batch: with `rows=[3]`, one prompt
        gets the completion of row 3 of a batch.
        """
        if hidden_from_callables("assistant_model") is not None:
            raise CannotDecode("assistant_model must be None with multi_draft. Remove it.")
        stopping_criteria = self._with_strings(stopping_criteria, stop_strings)
        check_request(model, generation_config, synced_gpus or hidden_from_callables("synced_gpus"))
        streamer = streamer or hidden_from_callables("streamer")
        ends = [each.eos_token_id.tolist() for each in stopping_criteria if type(each) is EosTokenCriteria]
        limits = [each.max_length for each in stopping_criteria if type(each) is MaxLengthCriteria]
        limit = min(limits, default=generation_config.max_length)
        prompts = prompts_of(model, input_ids, model_kwargs)
        options = DecodeOptions(
            **self._sampling(
                logits_processor, generation_config.do_sample, input_ids, model_kwargs.get("attention_mask")
            ),
            max_tokens=max(limit - input_ids.shape[1], 1),
            stop=[token for ids in ends for token in ids],
            seed=self._seed(model, seed, generator),
            rows=rows,
        )
        pads = any(hasattr(each, "eos_token_id") for each in stopping_criteria)  # as `generate` decides it
        pad = int(generation_config._pad_token_tensor) if pads else None
        texts = _by_columns(input_ids, self._steps(model, prompts, options), stopping_criteria, pad, streamer)
        if not generation_config.return_dict_in_generate:
            return texts
        return GenerateDecoderOnlyOutput(sequences=texts)

    def _with_strings(self, criteria: Any, strings: str | Sequence[str] | None) -> Any:
        """Return the criteria, with that of `generate` for stop strings."""
        if not strings:
            return criteria
        if self.tokenizer is None:
            raise CannotDecode(
                "stop_strings require the target's tokenizer, which `generate` does not pass on to a callable custom_generate. Pass it as"
                " multi_draft(..., tokenizer=...)."
            )
        words = [strings] if isinstance(strings, str) else list(strings)
        return type(criteria)([*criteria, StopStringCriteria(self.tokenizer, words)])

    def _sampling(
        self, processors: Sequence[Any], do_sample: bool, input_ids: Tensor, mask: Tensor | None
    ) -> dict[str, Any]:
        """Return the decoding options with the same distributions as these logits processors."""
        sampling = sampling_of(processors, do_sample)
        if sampling is not None:
            return {"sampling": sampling}
        return {"processed": processed(processors, self.stateless, do_sample, input_ids, mask)}

    def _steps(self, model: Any, prompts: Sequence[Sequence[int]], options: DecodeOptions) -> Iterator[Step]:
        """Yield the steps of the policy, without measured times if a model is split between processes: their clocks differ."""
        policy = self.policy
        if policy.uses_clock and split_between_processes(model):
            policy = _one_shape() if self.draft_model is not None else Drafting.looked_up()
        self.summary.clear()
        for step in decode_steps(Pair(model, self.draft_model, shared_prefix=True), prompts, policy, options):
            self.summary.add(step)
            if self.on_step is not None:
                self.on_step(step)
            yield step

    def _seed(self, model: Any, seed: int | None, generator: torch.Generator | None) -> int:
        wanted = self.seed if seed is None else seed
        if wanted is not None:
            int_from("seed", wanted, error=CannotDecode)
            return int(wanted)
        if generator is not None and not isinstance(generator, torch.Generator):
            raise CannotDecode(f"generator must be a torch.Generator, got {generator!r}. Pass one, or seed.")
        drawn = torch.randint(2**63 - 1, (), generator=generator, device=generator.device if generator else "cpu")
        if split_between_processes(model):  # all processes must sample the same tokens, or they would wait forever
            drawn = drawn.to(model.device)
            torch.distributed.broadcast(drawn, 0)
        return int(drawn)


def _by_columns(input_ids: Tensor, steps: Iterator[Step], criteria: Any, pad: int | None, streamer: Any) -> Any:
    """Append the emitted tokens column by column: sequences grow at different speeds, but criteria and streamers need equal lengths.

    Both see the same as in `generate` without drafts. pad: padding token of an ended sequence; None: all sequences end together, as in
    `generate` without end-of-sequence tokens.
    """
    queues: list[deque[int]] = [deque() for _ in input_ids]
    going = [True] * len(queues)  # by the criteria, which are applied to a column when all rows have reached it
    unfinished = torch.ones(len(queues), dtype=torch.bool, device=input_ids.device)
    while any(going):
        wanted = [row for row, queue in enumerate(queues) if (going[row] or pad is None) and not queue]
        if wanted:
            step = next(steps)
            for row, queue in enumerate(queues):
                queue.extend(step.tokens(row))
            continue
        column = [queue.popleft() if going[row] or pad is None else pad for row, queue in enumerate(queues)]
        tokens = torch.tensor(column, dtype=input_ids.dtype, device=input_ids.device)
        input_ids = torch.cat((input_ids, tokens[:, None]), 1)
        unfinished &= ~criteria(input_ids, None)
        going = unfinished.tolist()
        if streamer is not None:
            streamer.put(tokens.cpu())
    if streamer is not None:
        streamer.end()
    return input_ids
