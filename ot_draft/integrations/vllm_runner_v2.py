"""The rejection sampler of vLLM's V2 model runner, which runs on the device and uses seeds instead of generators."""

from ..arrays import Array, arange, namespace, where
from ..errors import NotLossless
from .chains import ChainRule, along_chains, along_greedy_chains, number_of_uniforms, one_hot, with_laws, with_rejected
from .host import StepLog


def rejection_sample(
    target_logits: Array,
    draft_logits: Array | None,
    draft_sampled: Array,
    cu_num_logits: Array,
    pos: Array,
    idx_mapping: Array,
    expanded_idx_mapping: Array,
    expanded_local_pos: Array,
    temperature: Array,
    seed: Array,
    num_speculative_steps: int,
    synthetic_conditional_rates: Array | None = None,
    use_fp64: bool = False,
    use_block_verification: bool = False,
    contexts: Array | None = None,
    watermarking: Array | None = None,
    watermarking_skip_mask: Array | None = None,
    watermark_key: int | None = None,
    fly_window_size: int = 0,
    fly_entropy_threshold: float = 0.3,
    fly_entropy_top_k: int = 3,
    *,
    rule: ChainRule,
    log: StepLog | None = None,
) -> tuple[Array, Array]:
    """Verify the draft tokens of a batch; vLLM's function of the same name.

    Uniform numbers are a hash of the seed, the root's position and a counter. The root moves in every step, so that none is used twice.
    Without a log, nothing waits for the device.

    Parameters
    ----------
    target_logits : float tensor of shape (T, n)
        Target logits at the T nodes of B requests, each request's root first, after temperature, top-k and top-p.
    draft_logits : float tensor of shape (requests, L, n), optional
        Draft logits before temperature; None if draft tokens were not sampled.
    draft_sampled : int tensor of shape (T,)
        Root and draft tokens of each request; -1 for a draft token that must be rejected.
    cu_num_logits : int tensor of shape (B + 1,)
        First node of each request.
    pos : int tensor of shape (T,)
        Positions of the nodes.
    idx_mapping : int tensor of shape (B,)
        Row of each request in temperature and seed; -1 for padding.
    temperature, seed : tensors of shape (requests,)
        Sampling temperature and random seed.
    num_speculative_steps : int
        L, the largest number of draft tokens.
    rule : ChainRule
        Speculative sampling or block verification.
    log : StepLog, optional
        Log for `ot-draft audit`.

    Returns
    -------
    emitted : int64 tensor of shape (B, L + 1)
        Emitted tokens, -1 beyond. They have the target distribution; greedy requests emit the argmax.
    count : int32 tensor of shape (B,)
        Number of emitted tokens.

    Raises
    ------
    NotLossless
        If watermarking or one of vLLM's lossy modes is set.
    """
    _check_lossless(synthetic_conditional_rates is not None or fly_window_size or contexts is not None)
    n = target_logits.shape[-1] if draft_logits is None else min(target_logits.shape[-1], draft_logits.shape[-1])
    request = idx_mapping.long().clamp(min=0)  # -1 in rows that only pad a batch
    node, present = _nodes(cu_num_logits, num_speculative_steps, target_logits)
    tokens, heat = where(present, draft_sampled.long()[node[:, 1:]], -1), temperature[request].float()[:, None]
    greedy = along_greedy_chains(target_logits[:, :n].argmax(-1)[node], tokens)
    p = target_logits[:, :n].float().softmax(-1)[node]
    tokens, q = _drafts(draft_logits, request, heat, tokens, present, p)
    count = number_of_uniforms(rule, num_speculative_steps)
    uniforms = seeded_uniforms(seed.long()[request], pos.long()[node[:, 0]], count)
    emitted = where(heat == 0, greedy, along_chains(rule, p, q, tokens, uniforms))
    if log is not None:
        log.add_padded(where(idx_mapping[:, None] < 0, -1, emitted), _cooled(target_logits[:, :n], node, heat, p), q)
    return emitted, (emitted >= 0).sum(-1).int()


def _cooled(logits: Array, node: Array, heat: Array, p: Array) -> Array:
    """Return p, and one-hot distributions at temperature 0."""
    return where(heat[..., None] == 0, one_hot(logits.argmax(-1)[node], p.shape[-1], p), p)


def _check_lossless(lossy: bool | int) -> None:
    if lossy:
        raise NotLossless(
            "watermarking and rejection_sample_method 'synthetic' and 'fly' are not lossless. Unset them, or OT_DRAFT_VLLM."
        )


def _nodes(cu_num_logits: Array, steps: int, logits: Array) -> tuple[Array, Array]:
    """Return the row of every node, repeated after the last one, and whether it has a draft token: int (B, L + 1), bool (B, L)."""
    start, lengths = cu_num_logits[:-1].long(), cu_num_logits.diff().long() - 1
    positions = arange(steps + 1, like=logits)
    node = (start[:, None] + positions.minimum(lengths[:, None])).clamp(0, len(logits) - 1)
    return node, positions[1:] <= lengths[:, None]


def _drafts(
    draft_logits: Array | None, request: Array, heat: Array, tokens: Array, present: Array, p: Array
) -> tuple[Array, Array]:
    """Return draft tokens and their distributions (B, L, n), zeros where there is no draft token."""
    if draft_logits is None:
        return tokens, one_hot(tokens, p.shape[-1], p)
    tokens = with_rejected(tokens, present, p)
    steps = draft_logits[request, : tokens.shape[1], : p.shape[-1]].float()
    q = with_laws((steps / where(heat == 0, 1, heat)[..., None]).softmax(-1), tokens)
    return tokens, q.masked_fill_((tokens < 0)[..., None], 0)


def seeded_uniforms(seed: Array, position: Array, count: int) -> Array:
    """Return uniform numbers in [0, 1) from seed and position: int64 (B,), int64 (B,) -> float64 (B, count).

    SplitMix64 of seed, then position, then a counter; a multiple of 2^-53. Source: Steele, Lea, Flood, 2014.
    """
    step = -0x61C8864680B583EB  # of SplitMix64's counter, as a signed integer
    state = _mix(_mix(seed + step) ^ position)[:, None]
    bits = _mix(state + step * (arange(count, like=seed) + 1))
    return _shifted(bits, 11).to(namespace(seed).float64) * 2.0**-53


def _mix(x: Array) -> Array:
    """SplitMix64's finalizer on signed integers."""
    x = (x ^ _shifted(x, 30)) * -0x40A7B892E31B1A47
    x = (x ^ _shifted(x, 27)) * -0x6B2FB644ECCEEE15
    return x ^ _shifted(x, 31)


def _shifted(x: Array, by: int) -> Array:
    """Shift to the right without repeating the sign, as torch does for signed integers."""
    return (x >> by) & ((1 << (64 - by)) - 1)
