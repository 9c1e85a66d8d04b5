"""Acceptance of looked-up tokens, by the draft's probability: counted on the target's completions of held-out prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from llm_demo.bench.trees.plans import DEEPEST, laws
from llm_demo.bench.trees.prefixes import behind_places
from llm_demo.bench.trees.texts import written
from llm_demo.prompts import Prompt
from ot_draft.decoding import Pair, PromptLookup
from ot_draft.trees.drafting.counted_acceptance import LookedUpAcceptance

IN_TREE = PromptLookup(DEEPEST).for_tree  # prompt lookup as used in a tree with draft tokens
BEFORE = 8  # max. number of accepted looked-up tokens before another one


class LookedUpToken(NamedTuple):
    """A looked-up token: the position for which it was proposed, after `behind` looked-up tokens that occurred."""

    place: int
    behind: int
    token: int


def seen_in(text: Sequence[int], first: int) -> list[LookedUpToken]:
    """Return all looked-up tokens for the positions of a sequence from `first` on, up to the first one that differs from the sequence."""
    found = []
    for start in range(first, len(text)):
        tokens = IN_TREE.find(text[:start]).tokens
        for behind, token in enumerate(tokens[:BEFORE]):
            if start + behind >= len(text):
                break
            found.append(LookedUpToken(start + behind, behind, token))
            if text[start + behind] != token:
                break
    return found


def counted(
    pair: Pair, drafts: Mapping[str, Any], prompts: Sequence[Prompt], temperature: float, n: int
) -> dict[str, dict[str, Any]]:
    """Return the fields of a `LookedUpAcceptance` for every draft."""
    masses: dict[str, list[tuple[float, float, int]]] = {name: [] for name in drafts}
    for prompt, answer in zip(prompts, written(pair, prompts, temperature, first=1000), strict=True):
        text = [*prompt.tokens, *answer]
        seen = seen_in(text, len(prompt.tokens) + 1)
        if not seen:
            continue
        places = sorted({one.place for one in seen})
        of_target, *of_drafts = (
            dict(zip(places, behind_places(model, text, places, n, pair.target), strict=True))
            for model in (pair.target, *drafts.values())
        )
        for name, of_draft in zip(drafts, of_drafts, strict=True):
            for place, behind, token in seen:
                p, q = laws(of_target[place], of_draft[place], temperature)
                masses[name].append((p[token], q[token], behind))
    return {name: asdict(_acceptance(rows)) for name, rows in masses.items()}


def _acceptance(rows: Sequence[tuple[float, float, int]]) -> LookedUpAcceptance:
    p, q, behind = np.array(rows, dtype=float).reshape(-1, 3).T
    return LookedUpAcceptance.counted(p, q, behind)
