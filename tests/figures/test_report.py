"""The report holds every figure, loads nothing, and can be read on a phone; in Chromium, where there is one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
from figures import report, store, style
from figures.about import Number
from figures.acceptance import acceptance_bernoulli
from figures.report_tables import from_markdown, numbers_table
from figures.scripts import BY_GROUP, NAMES, PAPERS, named
from figures.selection import division_factor, k_seq_share, khisti_figure_2, transport_plans
from figures.trees import spectr_real, spectr_table_1

MADE = {
    "khisti_figure_2": (khisti_figure_2, {"steps": 6}),
    "transport_plans": (transport_plans, {}),
    "acceptance_bernoulli": (acceptance_bernoulli, {"ks": (1, 2)}),
    "division_factor": (division_factor, {"points": 5, "count": 3, "ks": (1, 2)}),
    "k_seq_share": (k_seq_share, {"count": 2, "searches": 1, "ks": (1, 8)}),
}
PHONE, DESKTOP = 390, 1280
PROOFS = {
    "statements": [
        {
            "name": "a < b",
            "claim": "c",
            "source": "s",
            "method": "m",
            "outcome": "proved",
            "verdict": "v",
            "passed": True,
        }
    ]
}
SUMMARY = {"group": "1.0", "k": 2, "rule": "KSeq", "law": "iid", "pairs": 3, "accepted": 0.25, "accepted_exact": ""}
SUMMARY |= {"error": 0.1, "sampling_error": 0, "taken": 0.25, "taken_exact": "", "optimum": 0.5, "optimum_exact": ""}
SUMMARY |= {"share": 0.5, "least_share": 0.5, "method": "formula"}


class Page(HTMLParser):
    """Sections with their pictures, texts and commands; everything that a browser would load; links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sections: dict[str, dict[str, list[str]]] = {}
        self.loads: list[str] = []
        self.links: list[str] = []
        self.section: dict[str, list[str]] = {}
        self.kind = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag == "section":
            self.section = self.sections.setdefault(str(values["id"]), {})
        if tag in ("p", "code", "h2"):
            self.kind = str(values.get("class") or tag)
        if tag == "img":
            self.section.setdefault("img", []).append(str(values["src"]))
        self.loads += [
            str(value) for name, value in attributes if name in ("src", "srcset", "data", "action", "poster")
        ]
        (self.links if tag == "a" else self.loads).extend(str(value) for name, value in attributes if name == "href")

    def handle_data(self, text: str) -> None:
        if text.strip():
            self.section.setdefault(self.kind, []).append(text.strip())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a few small figures, of a comparison and of a proof check."""
    out = tmp_path_factory.mktemp("report")
    for name, (script, options) in MADE.items():
        style.write(script.compute(**options), out / f"{name}.csv")
        style.save(script.draw(style.read(out / f"{name}.csv")), out, name)
        store.write_record(out, name, full=False, seconds=1.23)
    style.write([SUMMARY], out / "summary.csv")
    (out / "proofs.json").write_text(json.dumps(PROOFS))
    return report.write(out)


def test_every_figure_is_in_it_with_claim_source_and_command(page: Path) -> None:
    sections = Page(page.read_text()).sections
    in_order = [name for group in BY_GROUP.values() for name in group]
    assert sorted(in_order) == sorted(NAMES) and next(iter(BY_GROUP)) == "SpecTr"
    of_papers = [name for title in PAPERS for name in BY_GROUP[title] if name in MADE]
    others = [name for name in in_order if name in MADE and name not in of_papers]
    assert list(sections) == [*of_papers, "comparison", "published", *others, "proofs"]
    for name in MADE:
        section, description = sections[name], report.about(name)
        assert len(section["img"]) == 1 and section["img"][0].startswith("data:image/svg+xml;base64,")
        assert description.claim in section["claim"] and f"Source: {description.source}" in section["source"]
        assert any(f"ot-draft figures {name}" in text for text in section["code"])
        assert any("1.2 s" in text and "numpy" in text for text in section["made"])


def test_it_loads_nothing(page: Path) -> None:
    text = page.read_text()
    parsed = Page(text)
    assert parsed.loads and all(address.startswith("data:") for address in parsed.loads)
    assert parsed.links and all(
        address.startswith(("data:", "#")) or address == "proofs.html" for address in parsed.links
    )
    assert "@import" not in text and not re.search(r"url\((?!data:)", text) and "<script" not in text


def test_what_was_not_run_is_named_with_its_command(page: Path) -> None:
    text = page.read_text()
    commands = re.findall(r"<code>ot-draft figures ([^<]*)</code></li>", text)
    assert sorted(named(" ".join(commands).split())) == sorted({*NAMES} - {*MADE})
    assert "<code>make reproduce-all</code>" in text and "<code>ot-draft survey</code>" in text
    assert "<li>Proof checks: " not in text  # they were run


def test_the_first_screen_has_numbers_beside_the_published_ones(page: Path) -> None:
    """Six where all of SpecTr's figures are made."""
    header = page.read_text().split("</header>")[0]
    assert header.index('href="#k_seq_share"') < header.index("≥ 0.6564<") < header.index("<nav>")
    of_table_1 = spectr_table_1.compute(n=60, iterations=8), spectr_table_1.numbers
    numbers = [
        number
        for rows, numbers_of in (of_table_1, (spectr_real.compute(), spectr_real.numbers))
        for number in numbers_of([{name: str(value) for name, value in row.items()} for row in rows])
    ]
    assert sum(number.headline for number in numbers) == 5
    assert all(number.published and number.note for number in numbers if number.headline)


def test_comparison_and_proofs_are_in_it(page: Path) -> None:
    text = page.read_text()
    assert "0.250" in text and "K-SEQ" in text
    assert "1 proved" in text and "a &lt; b" not in text  # the statements are on a page of their own


def test_a_table_beside_a_picture_can_be_unfolded() -> None:
    table = from_markdown("Said.\n\n| rule | T |\n|---|---|\n| a < b | 0.5 |\n")
    assert "<p>Said.</p>" in table and table.count("<tr>") == 2
    assert "a &lt; b" in table and "---" not in table
    assert from_markdown("No table.") == ""


def test_without_them_it_has_neither(tmp_path: Path) -> None:
    (tmp_path / "proofs.json").write_text("not json")
    text = report.write(tmp_path).read_text()
    assert list(Page(text).sections) == ["comparison", "published"]
    assert "Stored in figures/data" in text and all(
        f"ot-draft figures {group}<" in text for group in ("spectr", "mcsd", "real-models")
    )


def test_numbers_stand_beside_the_published_ones() -> None:
    table = numbers_table([Number("exact", 0.9375, 0.9375), Number("bound", 0.5, 0.6, "≥"), Number("alone", 3.0)])
    assert ">0.0 %" in table and "≥ 0.6" in table and "broken" in table and ">3<" in table
    assert "published" not in numbers_table([Number("alone", 3.0, error=0.125)])
    assert "3.0 ± 0.1" in numbers_table([Number("alone", 3.0, error=0.125)])
    assert "0.523 ± 0.002" in numbers_table([Number("alone", 0.52345, error=0.0021)])
    assert 'class="bad">+20.0 %' in numbers_table([Number("silent", 1.2, 1.0)])
    assert 'class="bad"' not in numbers_table([Number("said", 1.2, 1.0, note="other texts")])
    beside = numbers_table([Number("K = 8", 3.27, 3.1, "~", error=0.11, others=(("joint", 3.43, 0.12),))])
    assert "~ 3.1<" in beside and "+5.5 %" in beside
    assert beside.index("other rule: joint") > beside.index("difference") and "3.4 ± 0.1<" in beside


# Runs in the page: a picture that was decoded has a width; a page that is too wide scrolls sideways.
MEASURE = """<script>addEventListener("load", () => {
  const root = document.documentElement;
  const drawn = [...document.images].map(image => [image.closest("section").id, image.naturalWidth]);
  parent.postMessage(JSON.stringify([drawn, root.clientWidth, root.scrollWidth]), "*");
});</script>"""
# A window of Chromium is never narrower than 500 pixels; a frame in it may be.
FRAME = """<!doctype html><meta charset="utf-8"><body style="margin: 0">
<iframe id="page" width="WIDTH" height="3000" style="border: 0"></iframe>
<script>addEventListener("message", ({data}) => document.body.setAttribute("data-found", data));
document.getElementById("page").srcdoc = PAGE;</script></body>"""


@pytest.fixture(scope="module")
def chromium() -> str:
    """The browser; asked for before the report is made."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no chromium, chromium-browser or google-chrome on the path")
    return found


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_chromium_draws_every_figure(chromium: str, page: Path, tmp_path: Path, width: int) -> None:
    whole, shot = tmp_path / "frame.html", tmp_path / "page.png"
    text = json.dumps(page.read_text().replace("</body>", f"{MEASURE}</body>")).replace("</", "<\\/")
    whole.write_text(FRAME.replace("WIDTH", str(width)).replace("PAGE", text))
    command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += [f"--window-size={max(width, 600)},3000", "--virtual-time-budget=10000", f"--screenshot={shot}"]
    done = subprocess.run(
        [*command, "--dump-dom", whole.as_uri()], capture_output=True, text=True, timeout=600, check=True
    )
    measured = re.search(r'data-found="([^"]*)"', done.stdout)
    assert measured, done.stderr[-2000:]
    drawn, seen, needed = json.loads(unescape(measured[1]))
    assert [name for name, _ in drawn] == [name for name in NAMES if name in MADE]
    assert min(pixels for _, pixels in drawn) > 100
    assert needed <= seen <= width < seen + 30  # a scroll bar at most
    assert shot.stat().st_size > 20_000
