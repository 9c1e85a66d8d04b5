"""SGLang: naive target sampling on its draft trees, speculative sampling or block verification on its chains.

Written against the released wheel of SGLang 0.5.23; its source was read, nothing here has run inside SGLang.
`OT_DRAFT_SGLANG` switches it on in every process of SGLang, through the entry point `sglang.srt.plugins`; without the
variable the plugin does nothing. `OT_DRAFT_AUDIT_LOG` makes it write a log for `ot-draft audit`; see `host`. Both functions
live in sglang/kernels/ops/speculative/verify_sampling.py:

* `NaiveTarget` replaces `tree_speculative_sampling_target_only`, the verification of EAGLE's and DFlash's trees.
* `SpeculativeSampling` and `BlockVerification` replace `chain_speculative_sampling_triton`, which SGLang takes for chains with
  `--speculative-use-rejection-sampling`; of the two only this one is given the draft's probabilities.

What the host does before, it goes on doing: penalties, grammar, temperature, top-k and top-p of the target, and the coins,
which come from a request's seed where it has one. A request of temperature 0 has top-k 1: its target is sure of one token.

On a tree the children of a node are the draft's top tokens, distinct and not drawn: no rule that divides by q is valid there. What the
host's kernels do, by their source, is in docs/engines.md and tests/integrations. Here thresholds below 1 are refused, equal
siblings do no harm, and a tree's draft_probs is not looked at.
"""

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module

from ..arrays import Array, arange, inverse_cdf, namespace, where
from ..errors import NotLossless
from .chains import CHAIN_RULES, ChainRule, along_chains, number_of_uniforms, with_laws
from .host import StepLog, check_choice, check_parameters, check_version, step_log

KNOWN_VERSIONS = {"sglang": ("0.5.23",)}
VARIABLE = "OT_DRAFT_SGLANG"
MODULE = "sglang.kernels.ops.speculative.verify_sampling"


def plugin() -> None:
    """Entry point of `sglang.srt.plugins`: install the rule that the variable OT_DRAFT_SGLANG names, if any."""
    if name := os.environ.get(VARIABLE):
        install(name)


def install(rule: str) -> None:
    """Register the rule with SGLang's hooks, which put it in the place of the function that it replaces.

    Raises UnsupportedHost for an SGLang of another version or with another interface.
    """
    check_choice(rule, ("NaiveTarget", *CHAIN_RULES), VARIABLE)
    check_version(KNOWN_VERSIONS, VARIABLE)
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
    """Walk down the trees of B requests, N nodes each, the root first; writes the first three arrays.

    predicts: int32 (B N,), at an accepted node's place the token that follows it. accept_index: int32 (B, S), the places of the
    accepted nodes, root included; what stands beyond is left. accept_token_num: int32 (B,), the drafts among them. candidates: (B, N)
    tokens. retrive_index: (B, N) a node's place in predicts. retrive_next_token, retrive_next_sibling: (B, N) a
    node's first child and next sibling, -1 for none. uniform_samples: (B, N), one a node. target_probs: (B, N, n).
    Law: every emitted token follows the target given those before it. Nothing is asked of the device without a log.
    """
    _refuse_thresholds(threshold_single, threshold_acc)
    parents, rows = _parents(retrive_next_token, retrive_next_sibling), arange(len(candidates), like=candidates)
    here = 0 * candidates[:, :1]
    place, alive, accepted = retrive_index[:, :1], here == 0, here[:, 0]
    accept_index[:, :1] = place
    walked: list[tuple[Array, Array]] = []
    for depth in range(1, accept_index.shape[1] + 1):
        law = target_probs[rows, here[:, 0]]
        token = inverse_cdf(law, uniform_samples.gather(-1, here))
        _store(predicts, place, token, alive)
        walked += [] if log is None else [(where(alive, token, -1), law)]
        if depth == accept_index.shape[1]:
            break
        child = (parents == here) & (candidates == token) & alive
        alive = child.any(-1, keepdim=True)
        accepted = accepted + alive[:, 0]
        here = where(alive, child.int().argmax(-1, keepdim=True), here)
        place = where(alive, retrive_index.gather(-1, here), place)
        column = slice(depth, depth + 1)
        accept_index[:, column] = where(alive, place.to(accept_index.dtype), accept_index[:, column])
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
    """The same for chains of L = N - 1 drafts, node i + 1 below node i; draft_probs: (B, L or more, n), by which they were drawn.

    block_verification is not looked at: `rule` says it. Law: a request's tokens, followed by draws from the target, are
    distributed as draws from the target.
    """
    _refuse_thresholds(threshold_single, threshold_acc)
    length = candidates.shape[1] - 1
    final = uniform_samples_for_final_sampling[:, None]
    columns = number_of_uniforms(rule, length)
    ours = range(0, 2 * length, 2)  # columns that are a draft's own coin
    coins = [uniform_samples[:, i // 2 : i // 2 + 1] if i in ours else final for i in range(columns)]
    tokens = candidates[:, 1:].long()
    q = with_laws(draft_probs[:, :length], tokens)
    emitted = along_chains(rule, target_probs, q, tokens, namespace(final).cat(coins, -1))
    accepted = (emitted >= 0).sum(-1, keepdim=True) - 1
    for depth in range(length + 1):
        place, alive = retrive_index[:, depth : depth + 1], accepted >= depth
        _store(predicts, place, emitted[:, depth : depth + 1], alive)
        old = accept_index[:, depth : depth + 1]
        accept_index[:, depth : depth + 1] = where(alive, place.to(old.dtype), old)
    accept_token_num.copy_(accepted[:, 0])
    if log is not None:
        log.add_padded(emitted, target_probs[:, : length + 1], draft_probs[:, :length])


def _refuse_thresholds(single: float, accumulated: float) -> None:
    if single < 1 or accumulated < 1:
        raise NotLossless(
            f"speculative_accept_threshold_single is {single}, _acc is {accumulated}: below 1 tokens are accepted more often"
            f" than the target emits them; take 1 for both, or unset {VARIABLE}"
        )


def _store(predicts: Array, place: Array, token: Array, alive: Array) -> None:
    place = place[:, 0].long()
    predicts[place] = where(alive[:, 0], token[:, 0].to(predicts.dtype), predicts[place])


def _parents(next_token: Array, next_sibling: Array) -> Array:
    """Every node's parent, -1 for none: int (B, N). The first of its siblings is found by doubling steps back."""
    count = next_token.shape[1]
    nodes = arange(count, like=next_token).expand_as(next_token)
    first_of, before = (_pointed_from(pointer, nodes) for pointer in (next_token, next_sibling))
    first = where(before >= 0, before, nodes)
    for _ in range((count - 1).bit_length()):
        first = first.gather(-1, first)
    return first_of.gather(-1, first)


def _pointed_from(pointer: Array, nodes: Array) -> Array:
    """The node that points to each: the inverse of pointer, -1 where none does."""
    back = namespace(nodes).nn.functional.pad(0 * nodes - 1, (0, 1))
    return back.scatter(-1, where(pointer >= 0, pointer, nodes.shape[1]).long(), nodes)[:, :-1]
