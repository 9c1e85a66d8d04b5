"""A planted fault inside the plugin for vLLM's first model runner: a part of it exchanged while a test runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from ot_draft.integrations import vllm
from ot_draft.integrations.chains import Chains

from .catalogue import of


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The plugin with one of PLANTED in it."""
    with PATCHES[name]():
        yield


def _in(owner: Any, name: str, value: Any) -> Any:
    return mock.patch.object(owner, name, value)


def _next_row() -> Any:
    node = Chains.node
    return _in(Chains, "node", lambda chains, accepted: (node(chains, accepted) + 1) % len(chains.p))


def _odds(factor: float) -> Any:
    ratios = Chains.ratios.func  # type: ignore[attr-defined]
    return _in(Chains, "ratios", property(lambda chains: factor * ratios(chains)))


def _last_draft() -> Any:
    sampled = vllm._Step.sampled

    def wrong(step: Any, rule: Any, uniforms: Any) -> Any:
        drafts = step.drafts
        last = (drafts.start + drafts.lengths - 1).clamp(min=0, max=len(drafts.tokens) - 1)
        bonus = drafts.tokens[last][:, None]
        return sampled(replace(step, bonus=bonus.where(drafts.lengths[:, None] > 0, step.bonus)), rule, uniforms)

    return _in(vllm._Step, "sampled", wrong)


def _q_seen(change: Any) -> Any:
    sampled = vllm._Step.sampled

    def wrong(step: Any, rule: Any, uniforms: Any) -> Any:
        return sampled(replace(step, draft_probs=change(step.draft_probs)), rule, uniforms)

    return _in(vllm._Step, "sampled", wrong)


def _cubed(q: Any) -> Any:
    return q**3 / (q**3).sum(-1, keepdim=True)


def _residual_is_p() -> Any:
    def wrong(chains: Chains, accepted: Any, weight: Any, uniform: Any) -> Any:
        return chains.p[chains.node(accepted)].multinomial(1)

    return _in(Chains, "after", wrong)


def _twice() -> Any:
    uniforms = vllm._uniforms

    def wrong(*given: Any) -> Any:
        u = uniforms(*given)
        u[:, 1::2] = u[:, : u.shape[1] // 2 * 2 : 2]
        return u

    return _in(vllm, "_uniforms", wrong)


PATCHES = {
    "residual of the next row": _next_row,
    "odds x 2": lambda: _odds(2),
    "last token is the last draft": _last_draft,
    "q of the row before": lambda: _q_seen(lambda q: q.roll(1, 0)),
    "q cubed": lambda: _q_seen(_cubed),
    "residual is p": _residual_is_p,
    "every uniform used twice": _twice,
}
PLANTED = tuple(mutant.name for mutant in of("plugin"))
