"""Pictures and tables for a paper: the width asked for, text as text of 8 to 9 points, no caption, LaTeX with the numbers."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from slow import slow

pytest.importorskip("matplotlib")
from figures import report, style, tables
from figures.__main__ import main
from figures.about import Number
from figures.scripts import script


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of two small figures, as a run leaves them."""
    folder = tmp_path_factory.mktemp("out")
    for name, options in (("khisti_figure_2", {"steps": 4}), ("acceptance_bernoulli", {"ks": (1, 2, 3)})):
        module = script(name)
        style.write(module.compute(**options), folder / f"{name}.csv")
    return folder


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command writes no page: for tests of pictures and tables."""
    monkeypatch.setattr(report, "write", lambda out: out)


def run(out: Path, *words: str) -> str:
    done = CliRunner().invoke(main, [*words, "--redraw", "--out", str(out)])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(("width", "inches"), [("column", 3.35), slow("page", 7.0)])
@pytest.mark.parametrize("name", [slow("khisti_figure_2"), "acceptance_bernoulli"])
@pytest.mark.usefixtures("no_page")
def test_pictures_have_the_width_and_letters_that_can_be_read(out: Path, name: str, width: str, inches: float) -> None:
    run(out, name, "--format", "pdf,svg,png", "--width", width)
    files = {file.suffix: file for file in (out / "paper").glob(f"{name}.*")}
    assert set(files) >= {".pdf", ".svg", ".png"}
    svg, pdf = files[".svg"].read_text(), files[".pdf"].read_bytes()
    assert float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1]) == pytest.approx(72 * inches)  # type: ignore[index]
    assert float(re.search(rb"/MediaBox \[ ?0 0 ([\d.]+)", pdf)[1]) == pytest.approx(72 * inches)  # type: ignore[index]
    assert (b"/Type3" not in pdf and b"/TrueType" in pdf) or b"/CIDFontType2" in pdf  # fonts, no outlines
    texts = re.findall(r"<text[^>]*style=\"([^\"]*)\"[^>]*>([^<]*)", svg)
    assert any("number of draft tokens" in text or text == "x" for _, text in texts)  # text as text
    sizes = [float(re.search(r"([\d.]+)px", look)[1]) for look, text in texts if text.strip()]  # type: ignore[index]
    assert sizes and min(sizes) >= 8 - 1e-6 and max(sizes) <= 9 + 1e-6


def test_the_caption_is_in_the_page_and_drawn_only_if_asked_for(out: Path) -> None:
    for words, drawn in (((), False), (("--no-caption",), False), (("--caption",), True)):
        run(out, "khisti_figure_2", "--format", "svg", *words)
        svg = (out / "paper" / "khisti_figure_2.svg").read_text()
        caption = style.caption_of(out / "paper" / "khisti_figure_2.svg")
        assert caption.startswith("Three tokens, uniform draft")
        shown = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg)) + " ".join(
            re.findall(r"<tspan[^>]*>([^<]*)", svg)
        )
        assert ("uniform draft distribution, two i.i.d." in shown) == drawn
    page = (out / "index.html").read_text()
    assert "<figcaption>Three tokens, uniform draft" in page
    screen = (out / "khisti_figure_2.svg").read_text()
    assert "viewBox" in screen and "legend" not in screen  # the page's own picture is as it was


@pytest.mark.usefixtures("no_page")
def test_tables_hold_the_numbers(out: Path) -> None:
    name = "acceptance_bernoulli"
    run(out, name, "--tables", "latex,csv,markdown")
    numbers = script(name).numbers(style.read(out / f"{name}.csv"))
    with (out / "paper" / f"{name}.csv").open() as stream:
        rows = list(csv.reader(stream))
    assert [row[0] for row in rows[1:]] == [number.what for number in numbers]
    assert [float(row[1]) for row in rows[1:]] == pytest.approx([number.ours for number in numbers], abs=1e-4)
    assert rows[0][1:] == ["ours", "published", "difference"]
    latex = (out / "paper" / f"{name}.tex").read_text()
    assert latex.startswith("\\begin{tabular}{lrrr}\n\\toprule\n") and latex.endswith("\\bottomrule\n\\end{tabular}\n")
    assert latex.count("\\\\\n") == len(rows) and "0.9375 & 0.9375 & 0.0 \\%" in latex
    assert tables.of_markdown((out / "paper" / f"{name}.md").read_text()) == rows


def test_latex_of_what_is_special_in_it() -> None:
    cells = [["a & b", "ours"], ["50 % of x_1 #2 {c} \\ ~ ^", "1.5 ± 0.2"], ["≥ α", "**3**"]]
    latex = tables.as_latex(cells)
    assert r"a \& b & ours \\" in latex and r"50 \% of x\_1 \#2 \{c\} \textbackslash{}" in latex
    assert r"1.5 $\pm$ 0.2" in latex and r"$\ge$ $\alpha$ & \textbf{3}" in latex
    assert all(row.count("&") - row.count(r"\&") == 1 for row in latex.splitlines() if row.endswith(r"\\"))
    assert [row[-1] for row in tables.of_numbers([Number("a", 0.5, 0.6, "≥"), Number("b", 2.0)])] == [
        "difference",
        "broken",
        "",
    ]


@pytest.mark.parametrize("words", [("--format", "jpg"), ("--tables", "word"), ("--width", "poster")])
def test_what_is_not_known_is_refused(out: Path, words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, ["khisti_figure_2", "--redraw", "--out", str(out), *words])
    assert done.exit_code == 2 and words[1] in done.output
