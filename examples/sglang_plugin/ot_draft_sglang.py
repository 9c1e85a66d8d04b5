"""Plugin for SGLang: naive target sampling on its draft trees, speculative sampling or block verification on its chains.

Written for the source of SGLang 0.5.23, and never run inside SGLang. `pip install . examples/sglang_plugin` in a clone installs it.
`OT_DRAFT_SGLANG` activates it in every process of SGLang, through the entry point `sglang.srt.plugins`; without the variable the plugin
does nothing. With `OT_DRAFT_AUDIT_LOG` it writes a log
for `ot-draft audit`; see `ot_draft.integrations.host`. Both functions are in sglang/kernels/ops/speculative/verify_sampling.py:

* `NaiveTarget` replaces `tree_speculative_sampling_target_only`, the verification of EAGLE's and DFlash's trees.
* `SpeculativeSampling` and `BlockVerification` replace `chain_speculative_sampling_triton`, which SGLang uses for chains with
  `--speculative-use-rejection-sampling`; only this function gets draft probabilities.

SGLang still applies penalties, grammar, temperature, top-k and top-p of the target, and draws the uniform numbers, from a request's seed
if it has one. A request of temperature 0 has top-k 1: its target distribution has one token.

On a tree the children of a node are the draft's top tokens, distinct and not sampled: no rule that divides by q is valid there. The
behaviour of SGLang's kernels, from their source, is in docs/engines.md and tests/integrations. Here thresholds below 1 raise an error,
equal siblings are allowed, and draft_probs of a tree is not used.
"""

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module

from ot_draft.arrays import Array, arange, inverse_cdf, namespace, where
from ot_draft.errors import NotLossless
from ot_draft.integrations.chains import CHAIN_RULES, ChainRule, along_chains, number_of_uniforms, with_laws
from ot_draft.integrations.host import StepLog, check_choice, check_parameters, check_version, step_log

VARIABLE = "OT_DRAFT_SGLANG"
MODULE = "sglang.kernels.ops.speculative.verify_sampling"


def plugin() -> None:
    """Entry point of `sglang.srt.plugins`: install the rule that the variable OT_DRAFT_SGLANG names, if any."""
    if name := os.environ.get(VARIABLE):
        install(name)


def install(rule: str) -> None:
    """Register the rule with SGLang's hooks, which replace a function by it.

    Raises UnsupportedHost for an SGLang of another version or with another interface.
    """
    check_choice(rule, ("NaiveTarget", *CHAIN_RULES), VARIABLE)
    check_version({"sglang": ("0.5.23",)}, VARIABLE)
    hooks, module = import_module("sglang.srt.plugins.hook_registry"), import_module(MODULE)
    hook: Callable[..., None]
    if rule == "NaiveTarget":
        name, hook = "tree_speculative_sampling_target_only", along_tree
    else:
        name, hook = "chain_speculative_sampling_triton", partial(along_chain, rule=CHAIN_RULES[rule])
    check_parameters(module, name, hook, ("rule", "log"))
    if log := step_log("sglang"):
        hook = partial(hook, log=log)
    hooks.HookRegistry.register(f"{MODULE}.{name}", hook, hooks.HookType.REPLACE)


def along_tree(
    predicts: Array,
    accept_index: Array,
    accept_token_num: Array,
    candidates: Array,
    retrive_index: Array,
    retrive_next_token: Array,
    retrive_next_sibling: Array,
    uniform_samples: Array,
    uniform_samples_for_final_sampling: Array,
    target_probs: Array,
    draft_probs: Array,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
    *,
    log: StepLog | None = None,
) -> None:
    """Verify the draft trees of B requests, N nodes each, the root first; SGLang's function writes its results to three arguments.

    Every emitted token has the target distribution given those before it. Without a log, nothing waits for the device.

    Parameters
    ----------
    predicts : int32 tensor of shape (B N,)
        Written: the token after each accepted node, at the node's index.
    accept_index : int32 tensor of shape (B, S)
        Written: indices of the accepted nodes, root included; entries beyond are kept.
    accept_token_num : int32 tensor of shape (B,)
        Written: number of accepted draft tokens.
    candidates : int tensor of shape (B, N)
        Tokens of the nodes.
    retrive_index : int tensor of shape (B, N)
        Index of each node in predicts.
    retrive_next_token, retrive_next_sibling : int tensors of shape (B, N)
        First child and next sibling of each node, -1 for none.
    uniform_samples : float tensor of shape (B, N)
        A uniform number for each node.
    uniform_samples_for_final_sampling, draft_probs, deterministic
        Not used.
    target_probs : float tensor of shape (B, N, n)
        Target distributions.
    threshold_single, threshold_acc : float
        SGLang's lossy thresholds, which must be 1.
    log : StepLog, optional
        Log for `ot-draft audit`.

    Raises
    ------
    NotLossless
        If a threshold is below 1.
    """
    _check_thresholds(threshold_single, threshold_acc)
    parents, rows = _parents(retrive_next_token, retrive_next_sibling), arange(len(candidates), like=candidates)
    here = 0 * candidates[:, :1]
    index, alive, accepted = retrive_index[:, :1], here == 0, here[:, 0]
    accept_index[:, :1] = index
    walked: list[tuple[Array, Array]] = []
    for depth in range(1, accept_index.shape[1] + 1):
        law = target_probs[rows, here[:, 0]]
        token = inverse_cdf(law, uniform_samples.gather(-1, here))
        _store(predicts, index, token, alive)
        walked += [] if log is None else [(where(alive, token, -1), law)]
        if depth == accept_index.shape[1]:
            break
        child = (parents == here) & (candidates == token) & alive
        alive = child.any(-1, keepdim=True)
        accepted = accepted + alive[:, 0]
        here = where(alive, child.int().argmax(-1, keepdim=True), here)
        index = where(alive, retrive_index.gather(-1, here), index)
        column = slice(depth, depth + 1)
        accept_index[:, column] = where(alive, index.to(accept_index.dtype), accept_index[:, column])
    accept_token_num.copy_(accepted)
    _write(log, walked)


def _write(log: StepLog | None, walked: list[tuple[Array, Array]]) -> None:
    if log is not None:
        tokens, laws = zip(*walked, strict=True)
        log.add_padded(namespace(tokens[0]).cat(tokens, -1), namespace(tokens[0]).stack(laws, 1), None)


def along_chain(
    predicts: Array,
    accept_index: Array,
    accept_token_num: Array,
    candidates: Array,
    retrive_index: Array,
    retrive_next_token: Array,
    retrive_next_sibling: Array,
    uniform_samples: Array,
    uniform_samples_for_final_sampling: Array,
    target_probs: Array,
    draft_probs: Array,
    threshold_single: float,
    threshold_acc: float,
    deterministic: bool,
    *,
    block_verification: bool = False,
    rule: ChainRule,
    log: StepLog | None = None,
) -> None:
    """Verify chains of L = N - 1 draft tokens, node i + 1 below node i; arguments as in `along_tree`.

    A request's tokens, followed by samples from the target, have the distribution of samples from the target.

    Parameters
    ----------
    draft_probs : float tensor of shape (B, L or more, n)
        Draft distributions.
    block_verification : bool
        Not used: `rule` decides.
    rule : ChainRule
        Speculative sampling or block verification.
    """
    _check_thresholds(threshold_single, threshold_acc)
    length = candidates.shape[1] - 1
    final = uniform_samples_for_final_sampling[:, None]
    columns = number_of_uniforms(rule, length)
    tests = range(0, 2 * length, 2)  # columns of the numbers that test a draft token
    uniforms = [uniform_samples[:, i // 2 : i // 2 + 1] if i in tests else final for i in range(columns)]
    tokens = candidates[:, 1:].long()
    q = with_laws(draft_probs[:, :length], tokens)
    emitted = along_chains(rule, target_probs, q, tokens, namespace(final).cat(uniforms, -1))
    accepted = (emitted >= 0).sum(-1, keepdim=True) - 1
    for depth in range(length + 1):
        index, alive = retrive_index[:, depth : depth + 1], accepted >= depth
        _store(predicts, index, emitted[:, depth : depth + 1], alive)
        old = accept_index[:, depth : depth + 1]
        accept_index[:, depth : depth + 1] = where(alive, index.to(old.dtype), old)
    accept_token_num.copy_(accepted[:, 0])
    if log is not None:
        log.add_padded(emitted, target_probs[:, : length + 1], draft_probs[:, :length])


def _check_thresholds(single: float, accumulated: float) -> None:
    if single < 1 or accumulated < 1:
        raise NotLossless(
            f"speculative_accept_threshold_single and _acc must be 1, got {single} and {accumulated}: below 1 tokens are accepted more"
            f" often than the target emits them. Set both to 1, or unset {VARIABLE}."
        )


def _store(predicts: Array, index: Array, token: Array, alive: Array) -> None:
    index = index[:, 0].long()
    predicts[index] = where(alive[:, 0], token[:, 0].to(predicts.dtype), predicts[index])


def _parents(next_token: Array, next_sibling: Array) -> Array:
    """Return every node's parent, -1 for none: int (B, N). First siblings are found by pointer doubling."""
    count = next_token.shape[1]
    nodes = arange(count, like=next_token).expand_as(next_token)
    first_of, before = (_pointed_from(pointer, nodes) for pointer in (next_token, next_sibling))
    first = where(before >= 0, before, nodes)
    for _ in range((count - 1).bit_length()):
        first = first.gather(-1, first)
    return first_of.gather(-1, first)


def _pointed_from(pointer: Array, nodes: Array) -> Array:
    """Return the node that points to each node, -1 for none: the inverse of pointer."""
    back = namespace(nodes).nn.functional.pad(0 * nodes - 1, (0, 1))
    return back.scatter(-1, where(pointer >= 0, pointer, nodes.shape[1]).long(), nodes)[:, :-1]
