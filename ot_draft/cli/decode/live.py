"""Texts as they come: coloured by origin in a terminal, plain elsewhere, with the speed below."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ...decoding import Pair, Step
from .page.origins import ACCEPTED, COLOURS, MEANING, Pieces, TokenOrigin, origins


class Speed:
    """Tokens a second and tokens a call so far, in the time of the steps: without the prefill, and without what shows them."""

    def __init__(self) -> None:
        self.tokens = self.calls = self.accepted = 0
        self.seconds = 0.0

    def add(self, born: Sequence[TokenOrigin], step: Step) -> None:
        """One step and the tokens that it emitted."""
        self.tokens, self.calls = self.tokens + len(born), self.calls + 1
        self.accepted += sum(token.origin == ACCEPTED for token in born)
        self.seconds += step.seconds.total

    @property
    def line(self) -> str:
        """For the eye."""
        if not self.calls:
            return ""
        return (
            f"{self.tokens / self.seconds:.1f} tokens/s, {self.tokens} tokens in {self.calls} target calls:"
            f" {self.tokens / self.calls:.2f} a call, {self.accepted / self.tokens:.0%} from the draft"
        )


class View:
    """One text as it is shown: what was given, and every token in the colour of its origin."""

    def __init__(self, pair: Pair, prompt: str) -> None:
        self.text, self.speed = Text(f"{prompt}\n", style="dim"), Speed()
        self._pieces = Pieces(pair.text)

    def add(self, step: Step) -> str:
        """Take in one step of a batch of one; what it adds to the text."""
        born = origins(step, 0, step.drafting)
        pieces = [self._pieces.add(token.token) for token in born]
        for token, piece in zip(born, pieces, strict=True):
            self.text.append(piece, style=f"not dim {COLOURS[token.origin]}")
        self.speed.add(born, step)
        return "".join(pieces)

    @property
    def whole(self) -> Group:
        """The text and its speed."""
        return Group(self.text, Text(self.speed.line, style="bold"))


def stream(console: Console, view: View, steps: Iterable[Step]) -> Iterator[Step]:
    """Show a text while its steps pass through; plain text, piece by piece, where the console is no terminal."""
    if not console.is_terminal:
        for step in steps:
            click.echo(view.add(step), nl=False)
            yield step
        click.echo()
        click.echo(view.speed.line, err=True)
        return
    with Live(console=console, refresh_per_second=12, vertical_overflow="visible") as live:
        for step in steps:
            view.add(step)
            live.update(view.whole)
            yield step


def picture(views: Sequence[View], title: str, width: int = 100) -> str:
    """The live view of whole texts as an SVG picture, which names no font of the network."""
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(legend())
    for view in views:
        console.print()
        console.print(view.whole)
    return re.sub(r"@font-face\s*{.*?}", "", console.export_svg(title=title), flags=re.DOTALL)


def legend() -> Text:
    """What the colours mean."""
    line = Text()
    for name, meaning in MEANING.items():
        line.append("■ ", style=COLOURS[name])
        line.append(f"{name}: {meaning}   ", style="dim")
    return line
