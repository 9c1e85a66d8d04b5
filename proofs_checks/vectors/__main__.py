"""Write all test vectors into a folder."""

from __future__ import annotations

from pathlib import Path

import click

from ot_draft.cli import progress_bar

from .conventions import CONVENTIONS
from .corpus import write


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Write all test vectors into FOLDER. The bytes are the same on every machine."""
    with progress_bar(len(CONVENTIONS), "rules") as advance:
        written = write(folder, advance)
    click.echo(f"written: {len(written)} files in {folder}")


if __name__ == "__main__":
    main()
