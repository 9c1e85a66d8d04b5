"""Texts as they come: coloured by origin in a terminal, plain elsewhere, with the speed below."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from io import StringIO

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text
from rich.theme import Theme

from ...decoding import Drafting, Pair, Step
from ...trees import TreeShape


class Origin(StrEnum):
    """How a token came about."""

    ACCEPTED = "accepted"
    CORRECTED = "corrected"
    BONUS = "bonus"
    AUTOREGRESSIVE = "autoregressive"


@dataclass(frozen=True)
class OriginStyle:
    """How tokens of one origin are shown.

    colour: by Okabe and Ito. of_sixteen: a colour of any terminal; the nearest ones to `colour` are not four distinct ones.
    """

    meaning: str
    colour: str
    of_sixteen: str


ORIGIN_STYLES = {
    Origin.ACCEPTED: OriginStyle("accepted draft token", "#009E73", "green"),
    Origin.CORRECTED: OriginStyle("sampled after all draft tokens were rejected", "#D55E00", "yellow"),
    Origin.BONUS: OriginStyle("sampled after a fully accepted path", "#0072B2", "blue"),
    Origin.AUTOREGRESSIVE: OriginStyle("sampled from the target without a draft", "#7F7F7F", "bright_black"),
}


@dataclass(frozen=True)
class TokenOrigin:
    """One emitted token. parent: the node after which it stands; node: its own, None if it was not drafted.

    refused: the other drafted nodes that stood there, and whose token is another.
    """

    token: int
    origin: Origin
    parent: int
    node: int | None
    refused: tuple[int, ...]


def origins(step: Step, row: int, drafting: Drafting) -> list[TokenOrigin]:
    """The tokens that a step adds to a text, in order."""
    shape, drafted = step.shape(row), step.drafted[row].tolist()
    length, nodes = int(step.length[row]), step.nodes[row].tolist()
    tokens = []
    for depth, token in enumerate(step.tokens(row)):
        parent = nodes[depth - 1] if depth else 0
        offered = [child for alive in living(step, row, shape, depth) for child in shape.children(alive)]
        offered = [child for child in offered if drafted[child - 1] >= 0]
        refused = tuple(child for child in offered if drafted[child - 1] != token)
        taken = nodes[depth] if depth < length else None
        kind = (
            Origin.ACCEPTED
            if taken is not None
            else Origin.AUTOREGRESSIVE
            if not drafting.tree.bounds.size
            else Origin.CORRECTED
            if offered
            else Origin.BONUS
        )
        tokens.append(TokenOrigin(token, kind, parent, taken, refused))
    return tokens


def living(step: Step, row: int, shape: TreeShape, depth: int) -> list[int]:
    """The nodes of a depth that hold the tokens chosen so far: equal drafts live together."""
    chosen, drafted = step.chosen[row].tolist(), step.drafted[row].tolist()
    alive = [0]
    for level in range(depth):
        alive = [child for node in alive for child in shape.children(node) if drafted[child - 1] == chosen[level]]
    return alive


class Pieces:
    """The text that each token adds to those before it; a token that ends within a character adds nothing."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._said = 0

    def add(self, token: int) -> str:
        self._tokens.append(token)
        whole = self._decode(self._tokens)
        if whole.endswith("\ufffd"):  # the sign for an unfinished character
            return ""
        piece = whole[self._said :]
        self._said = len(whole)
        return piece


class Speed:
    """Tokens per second and per target call so far, in the time of the steps, without prefill and display."""

    def __init__(self) -> None:
        self.tokens = self.calls = self.accepted = 0
        self.seconds = 0.0

    def add(self, emitted: Sequence[TokenOrigin], step: Step) -> None:
        """One step and the tokens that it emitted."""
        self.tokens, self.calls = self.tokens + len(emitted), self.calls + 1
        self.accepted += sum(token.origin == Origin.ACCEPTED for token in emitted)
        self.seconds += step.seconds.total

    @property
    def line(self) -> str:
        """For the eye."""
        if not self.calls:
            return ""
        return (
            f"{self.tokens / self.seconds:.1f} tokens/s, {self.tokens} tokens in {self.calls} target calls:"
            f" {self.tokens / self.calls:.2f} per target call, {self.accepted / self.tokens:.0%} of the tokens were accepted draft tokens"
        )


class LiveView:
    """One text as it is shown: what was given, and every token in the colour of its origin."""

    def __init__(self, pair: Pair, prompt: str) -> None:
        self.text, self.speed = Text(f"{prompt}\n", style="dim"), Speed()
        self._pieces = Pieces(pair.text)

    def add(self, step: Step) -> str:
        """Take in one step of a batch of one; what it adds to the text."""
        emitted = origins(step, 0, step.drafting)
        pieces = [self._pieces.add(token.token) for token in emitted]
        for token, piece in zip(emitted, pieces, strict=True):
            self.text.append(piece, style=token.origin)
        self.speed.add(emitted, step)
        return "".join(pieces)

    @property
    def whole(self) -> Group:
        """The text and its speed."""
        return Group(self.text, Text(self.speed.line, style="bold"))


def stream(console: Console, view: LiveView, steps: Iterable[Step]) -> Iterator[Step]:
    """Show a text while its steps pass through; without a terminal, print the tokens as they come."""
    if not console.is_terminal:
        for step in steps:
            click.echo(view.add(step), nl=False)
            yield step
        click.echo()
        click.echo(view.speed.line, err=True)
        return
    with coloured(console), Live(console=console, refresh_per_second=12, vertical_overflow="visible") as live:
        for step in steps:
            view.add(step)
            live.update(view.whole)
            yield step


def coloured(console: Console) -> AbstractContextManager[object]:
    """The styles named by origins, in colours that the console can tell apart."""
    many = console.color_system in ("truecolor", "256")
    styles = {
        origin.value: f"not dim {style.colour if many else style.of_sixteen}" for origin, style in ORIGIN_STYLES.items()
    }
    return console.use_theme(Theme(styles))


def picture(views: Sequence[LiveView], title: str, width: int = 100) -> str:
    """The live view of whole texts as an SVG picture, which names no font of the network."""
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True, color_system="truecolor")
    with coloured(console):
        console.print(legend())
        for view in views:
            console.print()
            console.print(view.whole)
    return re.sub(r"@font-face\s*{.*?}", "", console.export_svg(title=title), flags=re.DOTALL)


def legend() -> Text:
    """The colours with their meaning."""
    line = Text()
    for origin, style in ORIGIN_STYLES.items():
        line.append("■ ", style=origin)
        line.append(f"{origin}: {style.meaning}   ", style="dim")
    return line
