"""The token page: what it says about every token is what happened, and it needs nothing but itself."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tiny_models import tiny_pair

import ot_draft as otd

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.cli.decode.live import Origin, origins  # noqa: E402
from ot_draft.cli.decode.page import PageText, chance, mass_of, number, page  # noqa: E402  # noqa: E402
from ot_draft.decoding import DecodeOptions, Pair, Step, decode_steps  # noqa: E402
from ot_draft.decoding.methods import method_called, shape_of  # noqa: E402

PIECES = [" a", "</script>", "<b>", "\n", "&", '"', " word", "é", "$x", "", " i", "\t"]
METHODS = [
    ("joint", None, (2, 3, None)),
    ("KSeq", None, (3, 2, None)),
    ("block", None, (1, 3, None)),
    ("Optimal", "hybrid:1", (1, 1, (3, 2))),
    ("RecursiveRejectionWithoutReplacement", None, (1, 1, (3, 2))),
    ("naive", None, (1, 1, (2, 2))),
    ("autoregressive", None, (1, 1, None)),
]
NAMES = [name for name, _, _ in METHODS]


class Spelling:
    """A tokenizer whose tokens are traps for a page."""

    def decode(self, tokens: Any, **_: Any) -> str:
        return "".join(PIECES[token] for token in tokens)


def decoded(rule: str, law: str | None, size: Any, max_tokens: int = 24) -> tuple[PageText, list[Step]]:
    pair = tiny_pair(2, len(PIECES))
    text = PageText("say <i>", Pair(pair.target, pair.draft, Spelling()), method_called(rule, law, shape_of(*size)))
    steps = list(decode_steps(pair, [[1, 2, 3]], text.method.drafting, DecodeOptions(max_tokens=max_tokens, laws=True)))
    for step in steps:
        text.add(step)
    return text, steps


def data_of(html: str) -> Any:
    """What the page's script reads."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])  # type: ignore[index]


@pytest.mark.parametrize(("rule", "law", "size"), METHODS, ids=NAMES)
def test_tokens_and_trees_are_those_of_the_steps(rule: str, law: str | None, size: Any) -> None:
    text, steps = decoded(rule, law, size)
    (found,) = data_of(page([text], [("seed", "0")]))
    emitted = [token for step in steps for token in step.tokens(0)]
    assert [token["text"] for token in found["tokens"]] == [PIECES[token] for token in emitted] and len(emitted) == 24
    assert len(found["trees"]) == len(steps)
    shape = steps[0].shape(0)
    for index, step in enumerate(steps):
        here = [token for token in found["tokens"] if token["step"] == index]
        length, made = int(step.length[0]), len(step.tokens(0))
        assert [token["origin"] == Origin.ACCEPTED for token in here] == [depth < length for depth in range(made)]
        if made == length + 1 and shape.size:
            assert here[-1]["origin"] == (Origin.BONUS if length == shape.length else Origin.CORRECTED)
        if shape.size:
            check_tree(found["trees"][index], step, shape, made)
        else:
            assert here[0]["origin"] == Origin.AUTOREGRESSIVE and found["trees"][index] == ""


def check_tree(svg: str, step: Step, shape: otd.trees.TreeShape, made: int) -> None:
    """Every present node once, as many accepted as were; one edge into every node but the root."""
    tree = ElementTree.fromstring(svg)
    space = {"s": "http://www.w3.org/2000/svg"}
    states = [group.attrib["class"].split()[1] for group in tree.findall("s:g", space)]
    assert len(states) == 1 + int((step.drafted[0] >= 0).sum()) + 1
    assert states.count("accepted") == min(int(step.length[0]), made)
    assert len(tree.findall("s:path", space)) == len(states) - 1
    boxes = {(box.attrib["x"], box.attrib["y"]) for box in tree.findall("s:g/s:rect", space)}
    assert len(boxes) == len(states)  # none hides another


def test_masses_ranks_and_refused_drafts() -> None:
    text, steps = decoded("KSeq", None, (3, 2, None))
    tokens = iter(text.tokens)
    refusals = 0
    for step in steps:
        for depth, token in enumerate(step.tokens(0)):
            record = next(tokens)
            before = step.chosen[0, :depth].tolist()
            holders = [node for node in range(7) if [*path_tokens(step, node)] == before]
            p = step.p[0, holders[0]]  # type: ignore[index]
            assert record["p"] == pytest.approx(float(p[token]), abs=1e-12)
            assert record["p_rank"] == 1 + int((p > p[token]).sum())
            children = [node for node in range(1, 7) if (0, 0, 0, 1, 2, 3)[node - 1] in holders]
            others = {PIECES[int(step.drafted[0, node - 1])] for node in children} - {PIECES[token]}
            assert {name for name, _ in record["refused"]} == others
            refusals += len(others)
            assert (record["q"] is None) == (depth == 2)
    assert refusals > 5


def path_tokens(step: Step, node: int) -> list[int]:
    shape = otd.trees.TreeShape.chains(3, 2)
    return [int(step.drafted[0, each - 1]) for each in shape.path(node)]


@pytest.mark.parametrize("rule", ["KSeq", "RecursiveRejection", "Optimal", "naive"])
def test_the_chance_is_how_often_the_rule_takes_the_token(rule: str) -> None:
    text, steps = decoded(rule, "iid", (3, 2, None))
    drafting = text.method.drafting
    firsts = [
        (step, born, chance(step, 0, drafting, born, 0)) for step in steps for born in origins(step, 0, drafting)[:1]
    ]
    step, born, said = next(first for first in firsts if first[2] is not None and 0.2 < first[2] < 0.8)
    assert said is not None
    draws = 600
    tree = step.tree(0).repeated(draws)
    generator = torch.Generator().manual_seed(1)
    uniforms = torch.rand(draws, drafting.rule.n_uniforms(tree.bounds), generator=generator, dtype=torch.float64)
    taken = (drafting.rule.select(tree, uniforms).tokens[:, 0] == born.token).double().mean()
    assert abs(float(taken) - said) < 5 * (0.25 / draws) ** 0.5


def test_no_chance_where_the_whole_path_decides() -> None:
    text, steps = decoded("joint", None, (2, 3, None))
    assert all(token["chance"] is None for token in text.tokens if token["origin"] != Origin.BONUS)
    born = origins(steps[0], 0, text.method.drafting)[0]
    assert mass_of(steps[0], 0, 0, born.token).q is not None


def test_the_page_stands_alone_and_escapes_what_models_say() -> None:
    text, _ = decoded("joint", None, (2, 3, None), max_tokens=48)
    html = page([text], [("target", "<model>")])
    assert html.count("<script") == 2 and html.count("</script>") == 2 and html.count("<b>") == 1  # that of the setting
    assert "say &lt;i&gt;" in html and "&lt;model&gt;" in html
    bare = html.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|src=|<link|@import|url\(", bare)
    assert "prefers-color-scheme: dark" in html and "width=device-width" in html


def test_short_numbers() -> None:
    assert [number(mass) for mass in (0, 1e-9, 0.00123, 0.0994, 0.31, 0.999, 1)] == [
        "0", "<.001", ".001", ".099", ".31", "1.00", "1.00"
    ]  # fmt: skip


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_in_a_browser(tmp_path: Path) -> None:
    text, _ = decoded("KSeq", None, (3, 2, None))
    file = tmp_path / "page.html"
    file.write_text(page([text], [("seed", "0")]), encoding="utf-8")
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom")
    done = subprocess.run(["chromium", *flags, file.as_uri()], capture_output=True, text=True, timeout=600, check=True)
    panel = done.stdout[done.stdout.index('id="panel"') : done.stdout.index('<script type="application/json"')]
    assert "chance given the drafts" in panel and panel.count("<svg") == 1 and "refused here" in panel
    assert done.stdout.count("chosen") > html_count(file, "chosen")


def html_count(file: Path, word: str) -> int:
    return file.read_text(encoding="utf-8").count(word)
