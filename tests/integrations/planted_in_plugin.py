"""Errors to plant in the plugin for vLLM's first model runner; each is one that an implementation of these rules could have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from ot_draft.integrations import vllm
from ot_draft.integrations.chains import Chains

PLANTED = (
    "residual of the wrong row",
    "threshold scaled",
    "bonus is the last draft",
    "stale q",
    "q of another temperature",
    "no residual",
    "one uniform used twice",
)


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The plugin with one of PLANTED in it."""
    with PATCHES[name]():
        yield


def _in(owner: Any, name: str, value: Any) -> Any:
    return mock.patch.object(owner, name, value)


def _wrong_row() -> Any:
    node = Chains.node
    return _in(Chains, "node", lambda chains, accepted: (node(chains, accepted) + 1) % len(chains.p))


def _scaled() -> Any:
    ratios = Chains.ratios.func  # type: ignore[attr-defined]
    return _in(Chains, "ratios", property(lambda chains: 2 * ratios(chains)))


def _bonus() -> Any:
    sampled = vllm._Step.sampled

    def wrong(step: Any, rule: Any, uniforms: Any) -> Any:
        drafts = step.drafts
        last = (drafts.start + drafts.lengths - 1).clamp(min=0, max=len(drafts.tokens) - 1)
        bonus = drafts.tokens[last][:, None]
        return sampled(replace(step, bonus=bonus.where(drafts.lengths[:, None] > 0, step.bonus)), rule, uniforms)

    return _in(vllm._Step, "sampled", wrong)


def _with_q(change: Any) -> Any:
    sampled = vllm._Step.sampled

    def wrong(step: Any, rule: Any, uniforms: Any) -> Any:
        return sampled(replace(step, draft_probs=change(step.draft_probs)), rule, uniforms)

    return _in(vllm._Step, "sampled", wrong)


def _sharper(q: Any) -> Any:
    return q**3 / (q**3).sum(-1, keepdim=True)


def _no_residual() -> Any:
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
    "residual of the wrong row": _wrong_row,
    "threshold scaled": _scaled,
    "bonus is the last draft": _bonus,
    "stale q": lambda: _with_q(lambda q: q.roll(1, 0)),
    "q of another temperature": lambda: _with_q(_sharper),
    "no residual": _no_residual,
    "one uniform used twice": _twice,
}
