"""The playground's numbers are the library's: its mathematics under node, and the page itself in a browser."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slow import slow

import ot_draft as otd

PAGE = Path(__file__).parents[1] / "docs" / "transport.html"
RULES = {
    "Optimal": otd.rules.Optimal(),
    "K-SEQ": otd.rules.KSeq(),
    "recursive rejection": otd.rules.RecursiveRejection(),
}
EXACT = 1e-11  # what is the same number in two orders of summing
ANSWER = """
const {{ optimum, plan, RULES }} = require({mathematics});
const problems = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(problems.map(({{ p, q, k }}) => ({{
  optimum: optimum(p, q, k),
  plans: Object.fromEntries(Object.entries(RULES).map(([name, rule]) => {{
    const {{ mass, output, accepted }} = plan(rule, p, q, k);
    return [name, {{ mass: [...mass], output, accepted }}];
  }})),
}}))));
"""


def problems(count: int) -> list[dict[str, Any]]:
    """Three to six tokens, one to four drafts: smooth, peaked, with zeros, with ties, equal, disjoint, in thousandths."""
    generator = np.random.default_rng(3)
    made = []
    for number in range(count):
        n, k, kind = int(generator.integers(3, 7)), 1 + number % 4, number % 7
        p, q = generator.dirichlet(np.full(n, (1, 0.2)[kind == 1]), 2)
        if kind == 2:  # one token that only the target has, and one that only the draft has
            p[0] = q[1] = 0
        elif kind == 3:
            p, q = generator.integers(0, 4, (2, n)) + np.eye(n)[generator.integers(n, size=2)]
        elif kind == 4:
            p = q
        elif kind == 5:
            p, q = np.arange(n) < n // 2, np.arange(n) >= n // 2
        elif kind == 6:
            p, q = generator.multinomial(1000, p), generator.multinomial(1000, q)
        made.append({"p": (p / p.sum()).tolist(), "q": (q / q.sum()).tolist(), "k": k})
    return made


def node() -> str:
    """A program that runs JavaScript: node, or the one that playwright brings."""
    found = shutil.which("node")
    if found is None and (playwright := importlib.util.find_spec("playwright")) and playwright.origin:
        found = shutil.which(str(Path(playwright.origin).parent / "driver" / "node"))
    if found is None:
        pytest.skip("no node and no playwright here, so the page's JavaScript cannot be run")
    return found


def answers(source: str, asked: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """What the page's block of mathematics says of these problems."""
    (folder / "mathematics.js").write_text(source)
    script = ANSWER.format(mathematics=json.dumps(str(folder / "mathematics.js")))
    done = subprocess.run(
        [node(), "-e", script], input=json.dumps(asked), capture_output=True, text=True, timeout=600, check=True
    )
    answered = json.loads(done.stdout)
    assert len(answered) == len(asked)
    return answered


def mathematics() -> str:
    found = re.search(r'<script id="mathematics">\n(.*?)</script>', PAGE.read_text(), re.DOTALL)
    assert found
    return found[1]


def plan_of(rule: otd.SelectionRule, problem: otd.Problem) -> dict[int, np.ndarray]:
    """Mass of every drafted set (a bit a token) with every output."""
    n, k = problem.n, problem.k
    tuples = np.array(np.meshgrid(*[np.arange(n)] * k, indexing="ij")).reshape(k, -1).T
    weight = problem.law.probability(problem.q, tuples)
    rows = weight[:, None] * rule(problem.p[None], problem.q[None], tuples).output(tuples)
    plan: dict[int, np.ndarray] = {}
    for drafts, row, mass in zip(tuples, rows, weight, strict=True):
        if mass > 0:
            key = sum({1 << int(x) for x in drafts})
            plan[key] = plan.get(key, 0) + row
    return plan


def has_ties(problem: otd.Problem) -> bool:
    """Whether tokens share a ratio p/q: which of them comes first is then the sort's choice, and there are several optimal plans."""
    ratios = np.sort(problem.p[problem.q > 0] / problem.q[problem.q > 0])
    return bool((np.diff(ratios) < 1e-9).any())


def differences(asked: list[dict[str, Any]], answered: list[dict[str, Any]]) -> list[str]:
    """Where the page and the library do not agree, in words."""
    wrong = []
    for given, said in zip(asked, answered, strict=True):
        problem = otd.Problem(given["p"], given["q"], given["k"])
        best = otd.optimal_acceptance(problem.p, problem.q, problem.k)
        members = np.isin(np.arange(problem.n), said["optimum"]["best"]["tokens"])
        if max(abs(said["optimum"]["value"] - best), abs(otd.cut_value(problem, members) - best)) > EXACT:
            wrong.append(f"optimum of {given}")
        for name, rule in RULES.items():
            of_page = {key: np.array(row) for key, row in said["plans"][name]["mass"]}
            ours, law = plan_of(rule, problem), otd.evaluate(rule, problem)
            apart = [np.abs(of_page.get(key, 2) - row).max() for key, row in ours.items()]
            if (
                abs(said["plans"][name]["accepted"] - law.acceptance) > EXACT
                or np.abs(np.array(said["plans"][name]["output"]) - problem.p).max() > EXACT
                or of_page.keys() != ours.keys()
                or (max(apart) > 1e-9 and not (name == "Optimal" and has_ties(problem)))
            ):
                wrong.append(f"{name} of {given}")
    return wrong


def test_the_mathematics_are_the_librarys(tmp_path: Path) -> None:
    """Optimum, token set, and for three rules every entry of the transport plan, on 150 problems (Optimal's where it is one only)."""
    asked = problems(150)
    assert sum(has_ties(otd.Problem(each["p"], each["q"])) for each in asked) < 75
    assert differences(asked, answers(mathematics(), asked, tmp_path)) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("1 + cut.p - cut.q ** k", "1 + cut.p - k * cut.q"),
        ("targets.push(normalised(targets[i].map(", "targets.push(normalised(p.map("),
        slow("for (let b = rank[x], cut = 0;", "for (let b = rank[x] + 1, cut = 0;"),
        ("(1 - (1 - b) ** k) / b", "k"),
        slow("let low = 1, high = k;", "let low = 1, high = 1;"),
        slow("set >> y & 1) accepted += v", "set) accepted += v"),
        slow("Math.min(p[y], k * q[y])", "p[y] / 2"),
    ],
)
def test_errors_in_the_mathematics_are_found(right: str, wrong: str, tmp_path: Path) -> None:
    source, asked = mathematics(), problems(84)
    assert source.count(right) == 1
    assert differences(asked, answers(source.replace(right, wrong), asked, tmp_path))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser without a window: playwright's own, or chromium of the system."""
    api = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    own = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with api.sync_playwright() as running:
        try:
            started = running.chromium.launch(executable_path=own, args=["--no-sandbox"])
        except api.Error as error:
            pytest.skip(f"no browser can be started: {str(error).splitlines()[0]}")
        yield started
        started.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """The page at a phone's width; an error in it, or a look at the network, fails the test."""
    opened = browser.new_page(viewport={"width": 390, "height": 800})
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("request", lambda request: errors.append(request.url) if not request.url.startswith("file:") else None)
    opened.goto(PAGE.as_uri())
    yield opened
    assert errors == []
    opened.close()


def shown_is_the_librarys(page: Any) -> otd.Problem:
    """The numbers that the page shows, against the library's for the problem that it shows."""
    problem = otd.Problem(
        *([value / 1000 for value in page.evaluate(f"state.{law}")] for law in "pq"), page.evaluate("state.k")
    )
    for law, masses in (("p", problem.p), ("q", problem.q)):
        assert [float(page.inner_text(f"#{law}{y}")) for y in range(problem.n)] == pytest.approx(
            masses.tolist(), abs=1e-12
        )

    def value(place: str) -> float:
        exact, text = page.locator(place).get_attribute("data-value"), page.inner_text(place)
        assert abs(float(exact) - float(text)) < 6e-5  # what is read is what was computed
        return float(exact)

    assert value("#optimum") == pytest.approx(otd.optimal_acceptance(problem.p, problem.q, problem.k), abs=EXACT)
    tokens = page.locator("#optimum").get_attribute("data-tokens")
    assert otd.cut_value(problem, np.array([name in tokens for name in "abcdef"[: problem.n]])) == pytest.approx(
        value("#optimum"), abs=EXACT
    )
    for name, rule in RULES.items():
        place = f"#accepted-{type(rule).__name__}"
        assert value(place) == pytest.approx(otd.evaluate(rule, problem).acceptance, abs=EXACT)
        for k in (1, 2, 3, 4):
            ours = otd.evaluate(rule, otd.Problem(problem.p, problem.q, k)).acceptance
            assert value(f'td[data-curve="{name}"][data-k="{k}"]') == pytest.approx(ours, abs=EXACT)
        area = page.evaluate(
            "(id) => [...document.querySelectorAll(`#${id} rect`)].filter((r) => !r.getAttribute('fill').startsWith('url'))"
            ".reduce((all, r) => all + r.getAttribute('width') * r.getAttribute('height'), 0)",
            f"box-{type(rule).__name__}",
        )
        whole = page.evaluate(f"(at('box-{type(rule).__name__}').clientWidth - GUTTER) * HIGH")
        assert area / whole == pytest.approx(otd.evaluate(rule, problem).acceptance, abs=0.01)  # the picture too
    return problem


def drag(page: Any, law: str, token: int, share: float) -> None:
    """Press at the bar's top and pull it to `share` of the full height, in steps as a hand does."""
    well = page.locator(f"#well-{law}{token}")
    well.scroll_into_view_if_needed()
    box, bar = well.bounding_box(), well.locator(".fill").bounding_box()
    middle = box["x"] + box["width"] / 2
    page.mouse.move(middle, bar["y"] + 1)
    page.mouse.down()
    page.mouse.move(middle, box["y"] + box["height"] * (1 - share), steps=6)
    page.mouse.up()


def test_what_is_dragged_is_followed_at_once(page: Any) -> None:
    before = shown_is_the_librarys(page)
    assert before.n == 4 and before.k == 2
    drag(page, "p", 0, 0.6)
    after = shown_is_the_librarys(page)
    assert after.p[0] == pytest.approx(0.6, abs=0.011) and after.q.tolist() == before.q.tolist()
    assert after.p[1:] / after.p[1:].sum() == pytest.approx(before.p[1:] / before.p[1:].sum(), abs=0.005)
    drag(page, "q", 3, 1)
    assert shown_is_the_librarys(page).q.tolist() == [0, 0, 0, 1]
    drag(page, "q", 3, 0.25)  # away from the corner: nothing is lost for good
    assert shown_is_the_librarys(page).q.tolist() == [0.25] * 4


def test_every_choice_shows_the_librarys_numbers(page: Any) -> None:
    for n in (3, 4, 5, 6):
        page.locator("#sizes button", has_text=str(n)).click()
        for k in (1, 4, 2, 3):
            page.locator("#counts button", has_text=str(k)).click()
            page.click("#random")
            problem = shown_is_the_librarys(page)
            assert (problem.n, problem.k) == (n, k)
    for example in page.evaluate("Object.keys(EXAMPLES)"):
        page.select_option("#examples", example)
        shown_is_the_librarys(page)
    page.locator("#well-p1").focus()
    before = page.evaluate("state.p[1]")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("state.p[1]") == before + 10
    shown_is_the_librarys(page)


def test_the_address_holds_the_problem_and_the_code_on_the_page_runs(
    page: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    page.goto(PAGE.as_uri() + "#p=50,100,150,200,250,250&q=300,250,200,100,100,50&k=4")
    page.reload()
    problem = shown_is_the_librarys(page)
    assert (problem.n, problem.k, problem.p[1]) == (6, 4, 0.1)
    exec(page.inner_text("#code"), {})
    printed = capsys.readouterr().out
    assert f"Optimal {otd.evaluate(otd.rules.Optimal(), problem).acceptance}" in printed
    assert page.evaluate("document.documentElement.scrollWidth") <= 390  # no sideways scrolling on a phone
    page.goto(PAGE.as_uri() + "#p=1,2&q=no&k=9")  # no problem at all: the page starts as if nothing was asked
    page.reload()
    assert shown_is_the_librarys(page).n == 4
