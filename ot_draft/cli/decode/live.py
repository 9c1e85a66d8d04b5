"""Texts as they come: coloured by origin in a terminal, plain elsewhere, with the speed below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ...decoding import Drafting, Pair, Step
from .page.origins import ACCEPTED, COLOURS, MEANING, Born, Pieces, origins


class Speed:
    """Tokens a second and tokens a call so far, in the time of the steps: without the prefill, and without what shows them."""

    def __init__(self) -> None:
        self.tokens = self.calls = self.accepted = 0
        self.seconds = 0.0

    def add(self, born: Sequence[Born], step: Step) -> None:
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


def stream(console: Console, pair: Pair, prompt: str, drafting: Drafting, steps: Iterable[Step]) -> Iterator[Step]:
    """Show a text while its steps pass through; plain text, piece by piece, where the console is no terminal."""
    speed, pieces = Speed(), Pieces(pair.text)
    if not console.is_terminal:
        for step in steps:
            born = origins(step, 0, drafting)
            click.echo("".join(pieces.add(token.token) for token in born), nl=False)
            speed.add(born, step)
            yield step
        click.echo()
        click.echo(speed.line, err=True)
        return
    shown = Text(f"{prompt}\n", style="dim")
    with Live(console=console, refresh_per_second=12, vertical_overflow="visible") as live:
        for step in steps:
            born = origins(step, 0, drafting)
            for token in born:
                shown.append(pieces.add(token.token), style=f"not dim {COLOURS[token.origin]}")
            speed.add(born, step)
            live.update(Group(shown, Text(speed.line, style="bold")))
            yield step


def legend(names: Sequence[str]) -> Text:
    """What the colours mean."""
    line = Text()
    for name in names:
        line.append("■ ", style=COLOURS[name])
        line.append(f"{name}: {MEANING[name]}   ", style="dim")
    return line
