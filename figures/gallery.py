"""`python -m figures.gallery`: run the examples of docs/gallery.md and draw their figures again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from ot_draft.data.plotting import pyplot

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "gallery.md"
PART = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"^!\[(.+?)\]\((gallery/\w+\.svg)\)$", re.MULTILINE)
LOOK = {
    "figure.figsize": (5.6, 3.0),
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": "cycler('color', ['#000000', '#D55E00', '#0072B2', '#009E73'])",
    "legend.frameon": False,
    "svg.fonttype": "none",  # text as text: small files, and letters of the page
    "svg.hashsalt": "ot_draft",
}


def examples() -> list[tuple[str, str, str]]:
    """Return (title, code, file of its figure) of every example; the code before the first is part of the first."""
    text = PAGE.read_text(encoding="utf-8")
    parts = [
        (title, CODE.findall(body), PICTURE.findall(body)) for title, body in PART.findall(text) if "```python" in body
    ]
    if any(len(code) != 1 or len(pictures) != 1 for _, code, pictures in parts):
        raise click.ClickException(f"{PAGE}: every example has one block of Python and one picture")
    before = "\n".join(CODE.findall(text[: text.index("\n## ")]))
    return [
        (title, (before if number == 0 else "") + code[0], pictures[0][1])
        for number, (title, code, pictures) in enumerate(parts)
    ]


def draw(out: Path) -> list[Path]:
    """Run all examples in one namespace, in order; each image is the figure that its code leaves open."""
    plt = pyplot()
    names: dict[str, Any] = {"__name__": "gallery"}
    made = []
    with plt.rc_context():
        plt.rcdefaults()  # whatever was drawn before
        plt.rcParams.update(LOOK)
        for title, code, place in examples():
            plt.close("all")
            exec(compile(code, f"{PAGE.name}: {title}", "exec"), names)
            made.append(out / place)
            made[-1].parent.mkdir(parents=True, exist_ok=True)
            plt.gcf().savefig(made[-1], metadata={"Date": None}, facecolor="white")
        plt.close("all")
    return made


@click.command()
@click.option("--out", default=DOCS, show_default=True, type=click.Path(file_okay=False, path_type=Path))
def main(out: Path) -> None:
    """Draw the figures of docs/gallery.md from its code."""
    for file in draw(out):
        click.echo(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
