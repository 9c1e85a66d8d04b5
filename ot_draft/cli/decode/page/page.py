"""A self-contained page on which every token tells how it came about: `--html`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from ....decoding import Method, Pair, Step
from ..live import Speed
from .details import step_svg, token_records
from .origins import COLOURS, MEANING, origins

TEMPLATE = Path(__file__).with_name("page.html")


@dataclass
class PageText:
    """One continued prompt: its tokens and the tree of every step, gathered while it is decoded with `laws`."""

    prompt: str
    pair: Pair
    method: Method
    tokens: list[dict[str, Any]] = field(default_factory=list)
    trees: list[str] = field(default_factory=list)
    speed: Speed = field(default_factory=Speed)

    def add(self, step: Step) -> None:
        """Take in one step of a batch of one."""
        spell, drafting = self._spell, step.drafting
        self.tokens += token_records(step, 0, drafting, spell, len(self.trees))
        self.trees.append(step_svg(step, 0, drafting, spell) if drafting.tree.budget else "")
        self.speed.add(origins(step, 0, drafting), step)

    def _spell(self, token: int) -> str:
        return str(self.pair.tokenizer.decode([token]))


def page(texts: Sequence[PageText], settings: Sequence[tuple[str, str]]) -> str:
    """The whole page, as HTML without any reference to another file. settings: names and values, shown below the title."""
    used = dict.fromkeys(token["origin"] for text in texts for token in text.tokens)
    legend = "".join(
        f'<span class="key {name}">{name}</span> <small>{escape(MEANING[name])}</small> '
        for name in MEANING
        if name in used
    )
    sections = [_section(number, text) for number, text in enumerate(texts)]
    data = [{"tokens": text.tokens, "trees": text.trees} for text in texts]
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(": ".join(filter(None, (texts[0].method.label, texts[0].method.drafts)))),
        settings=" · ".join(f"{escape(name)} <b>{escape(value)}</b>" for name, value in settings),
        legend=legend,
        sections="\n".join(sections),
        data=json.dumps(data).replace("<", "\\u003c"),  # no token may end the script
        **COLOURS,
    )


def _section(number: int, text: PageText) -> str:
    spans = "".join(
        f'<span class="t {token["origin"]}" tabindex="0" role="button" data-text="{number}" data-token="{place}">'
        f"{_visible(token['text'])}</span>"
        for place, token in enumerate(text.tokens)
    )
    heading = f'<h2>{escape(text.prompt)}</h2><p class="numbers">{escape(text.speed.line)}</p>'
    return f'<section>{heading}<p class="text">{spans}</p></section>'


def _visible(piece: str) -> str:
    """A token's text; ends of lines are shown as well as obeyed."""
    return escape(piece).replace("\n", '<i class="end">↵</i>\n') or '<i class="end">∅</i>'
