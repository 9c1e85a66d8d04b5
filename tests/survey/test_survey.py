"""The survey: verdicts, counterexamples confirmed by another enumeration, injected errors, and its pages."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from csv import DictReader
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from contributing import example
from slow import slow, slow_except

import ot_draft as otd
from figures.survey_section import survey_section
from ot_draft.cli import main
from proofs_checks import branches
from proofs_checks.lossy import engine_rules
from proofs_checks.paths.path_cases import Told
from proofs_checks.survey import REGISTER, by_hand, evaluate_work, evaluation, pages, true_units, variants
from proofs_checks.survey.cases import Case, along_path, one_token, pairs
from proofs_checks.survey.evaluation import Evaluation, evaluate_form
from proofs_checks.survey.record import (
    BUG,
    BY_DESIGN,
    CONDITIONAL,
    LOSSLESS,
    MODES,
    NOT_LOSSLESS,
    TOP,
    UNDECIDED,
    Form,
    biased,
)  # fmt: skip
from proofs_checks.survey.rules import DrawnFrom, chain
from proofs_checks.survey.verifiers import AlongPath, OneToken
from proofs_checks.survey.works import cactus, eagle, hsd, races, rm_bv, sglang, sjd, vllm, watermarks

F = Fraction
QUICK = [name for name in [*REGISTER][:10] if name not in ("eagle", "flashinfer")]  # these two take 2 s each
FORMS = [(name, form) for name, (work, _) in REGISTER.items() for form in work.forms]
NOT = [form for _, form in FORMS if form.expects == NOT_LOSSLESS]
EXACT = OneToken(otd.rules.SpeculativeSampling(), (1,))


@pytest.fixture(scope="module", autouse=True)
def _registered_rules_are_judged_once() -> Iterator[None]:
    """Several tests need the evaluation of the same rule: compute it once."""
    registered, kept = {id(form) for _, form in FORMS}, dict[tuple[int, bool], Evaluation]()

    def once(form: Form, quick: bool = True) -> Evaluation:
        if id(form) not in registered:
            return evaluate_form(form, quick)
        if (key := (id(form), quick)) not in kept:
            kept[key] = evaluate_form(form, quick)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "evaluate_form", once)
        yield


def test_the_register_says_what_was_read() -> None:
    for work, reasoning in REGISTER.values():
        assert (work.forms or work.undecided) and reasoning and work.read and work.claim and work.cost
        assert work.paper or work.code or all(form.code for form in work.forms)
    for form in NOT:
        assert form.by_hand is not None and form.line and form.repair is not None and form.fix
    for _, form in FORMS:
        parts = vars(form.verifier)
        changes = form.through or parts.get("expected") or isinstance(parts.get("law"), DrawnFrom)
        assert form.sampling or not changes, form.name  # p and q of its cases are not what is sampled from


@pytest.mark.parametrize("name", slow_except(REGISTER, "hsd", "cactus", *QUICK))
def test_every_verdict_comes_out_with_every_control(name: str) -> None:
    work, reasoning = REGISTER[name]
    evaluated = evaluate_work(work)
    for one in evaluated:
        assert one.sound, (name, one.form.name, one.verdict, one.detected, one.confirmed, one.repair_holds)
        if one.example is None:
            assert one.detected and 0 < one.worst.share <= 1
            continue
        assert one.example.case.n <= 3 and one.confirmed and one.repair_holds
        assert all(isinstance(mass, Fraction) for mass in one.example.emitted.values())
        assert sum(one.example.emitted.values()) == 1
        note = pages.note(work, one)
        assert [line[:2] for line in note] == ["1.", "2.", "3.", "4.", "5."]
    assert work.claim in pages.record(work, reasoning, evaluated)


def test_the_work_of_contributing(monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("forgetful", monkeypatch)
    (one,) = evaluate_work(module.WORK)
    assert one.sound and one.confirmed and one.repair_holds and one.example.total_variation > 0
    monkeypatch.setattr(module, "usual_test", lambda p, q, x: 1)
    assert not evaluate_work(module.WORK)[0].confirmed  # the second program has another distribution


@pytest.mark.parametrize("one", [*NOT[:6], *map(slow, NOT[6:])], ids=lambda form: form.name)
def test_the_other_enumeration_finds_the_same_law_beyond_the_example(one: Form) -> None:
    make = one_token if one.verifier.length == 1 else along_path
    some = [case.through(one.through) for case in make(one.verifier.ks) if case.n <= 3][::7]
    for tried in one.verifier.results(some):
        case, length = tried.case, len(next(iter(tried.expected)))
        assert branches.emitted(one.by_hand, case.target, case.draft, case.k, length) == tried.emitted, case  # type: ignore[arg-type]


@pytest.mark.parametrize("module", [branches, by_hand])
def test_the_other_enumeration_shares_no_code(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = [("." * node.level + str(node.module)) for node in found]
    names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert set(names) <= {"__future__", "collections.abc", "fractions", "math", "typing", "..branches"}


def test_the_other_enumeration_itself() -> None:
    """Two uniform numbers and a draw, worked out by hand."""
    masses = (F(1, 4), F(3, 4))

    def program(chance: branches.Chance, p: Any, q: Any, k: int) -> tuple[int, ...]:
        if chance.flip(F(1, 3)):
            return (0,)
        return (1, chance.draw(q()))

    law = branches.emitted(program, lambda prefix=(): masses, lambda prefix=(): (F(1, 2), F(1, 2)), 1, 2)
    assert law == {(0, 0): F(1, 12), (0, 1): F(1, 4), (1, 0): F(1, 3), (1, 1): F(1, 3)}
    assert not branches.Chance([]).flip(0) and branches.Chance([]).flip(F(7, 5))


WRONG_RULES: tuple[tuple[str, Callable[[Any, Any, Any], Any]], ...] = (
    ("test against q alone", lambda p, q, x: q[x]),
    ("the ratio upside down", lambda p, q, x: by_hand.ratio(q[x], p[x])),
    ("always", lambda p, q, x: 1),
)


@pytest.mark.parametrize(("name", "test"), WRONG_RULES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_counterexample_that_the_other_enumeration_denies_is_not_confirmed(
    name: str, test: Callable[..., Any]
) -> None:
    llama = next(form for work, form in FORMS if work == "llama-cpp" and form.expects == NOT_LOSSLESS)
    wrong = replace(llama, by_hand=by_hand.single(test, by_hand.usual_residual, lambda q: q))
    one = evaluate_form(wrong)
    assert one.verdict == NOT_LOSSLESS and not one.confirmed and not one.sound
    assert not evaluate_form(replace(llama, by_hand=None)).sound


def test_a_verdict_other_than_the_recorded_one_is_not_sound() -> None:
    assert not evaluate_form(Form("claimed", OneToken(otd.rules.RecursiveRejection(), (1, 2), TOP), "nothing")).sound
    fine = by_hand.single(by_hand.usual_test, by_hand.usual_residual)
    one = evaluate_form(biased("mislabelled", EXACT, fine, "none", EXACT, "none"))
    assert one.verdict == LOSSLESS and not one.sound
    broken = biased("repair that repairs nothing", OneToken(otd.rules.SpeculativeSampling(), (1,), TOP),
                    by_hand.single(by_hand.usual_test, by_hand.usual_residual, by_hand.mode), "a line",
                    OneToken(engine_rules.LenientSampling(), (1,)), "a fix")  # fmt: skip
    assert not evaluate_form(broken).sound


def test_the_command_fails_where_a_verdict_is_not_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    work, said = REGISTER["leviathan"]
    wrong = replace(work, forms=(Form("claimed", OneToken(engine_rules.LenientSampling(), (1,)), "nothing"),))
    monkeypatch.setitem(REGISTER, "leviathan", (wrong, said))
    result = CliRunner().invoke(main, ["survey", "leviathan"])
    assert result.exit_code == 1 and "NOT AS RECORDED" in result.output


@pytest.mark.parametrize(
    ("p", "q", "length", "paper", "code", "distance"),
    [
        ((F(1, 3), F(2, 3)), (F(2, 3), F(1, 3)), 2, F(11, 9), F(4, 3), F(1, 9)),
        ((F(1, 3), F(2, 3)), (F(2, 3), F(1, 3)), 4, F(166, 81), F(62, 27), F(29, 243)),
        ((F(1, 2), F(1, 3), F(1, 6)), (F(1, 4), F(1, 4), F(1, 2)), 3, F(151, 96), F(373, 216), None),
    ],
)
def test_the_last_test_of_hsd_without_its_cap(
    p: Any, q: Any, length: int, paper: F, code: F, distance: F | None
) -> None:
    case = Case((p,), (q,), 1)
    rule = AlongPath(chain(lambda ratio, weight: min(1, ratio)), length=length)
    (result,) = rule.results([case])
    assert (result.most, result.accepted) == (paper, code)
    assert distance is None or result.total_variation == distance
    assert round(float(result.total_variation), 3) == {2: 0.111, 4: 0.119, 3: 0.101}[length]
    law = branches.emitted(lambda *given: hsd.code(*given, length=length), case.target, case.draft, 1, length + 1)
    assert law == result.emitted


def test_chain_with_the_weight_is_block_verification() -> None:
    for result in AlongPath(chain(lambda ratio, weight: weight)).results(along_path((1,))):
        assert result.lossless and result.accepted == result.most


@pytest.mark.parametrize("step", [4, slow(1)])
def test_no_lossless_rule_for_one_path_accepts_more_than_block_verification(step: int) -> None:
    cases = along_path((1,))[::step]
    for _, form in FORMS:
        if isinstance(form.verifier, AlongPath) and form.verifier.ks == (1,) and form.expects == LOSSLESS:
            assert all(result.accepted <= result.most for result in form.verifier.results(cases))


def test_cactus_exceeds_the_divergence_of_its_parameter() -> None:
    p, q = np.full(100, 0.01), np.where(np.arange(100) < 33, 1 / 33, 0.0)
    found = true_units.measure(cactus.Cactus(0.02), p[None], q[None])
    assert round(float(found.accepts[0]), 3) == 0.987 and round(float(found.kl[0]), 2) == 1.03
    assert round(cactus.promised(p, 0.02), 3) == 0.013


def test_noise_used_again_is_a_law_and_fresh_noise_is_lossless() -> None:
    for p, q in pairs():
        output, accepted = vllm.used_again(p, q, 1)
        assert sum(output) == 1 and accepted == sum(map(min, p, q))
    output, _ = vllm.used_again((F(1, 10), F(6, 10), F(3, 10)), (F(7, 10), F(1, 10), F(2, 10)), 1)
    assert output[0] == F(1, 10) and output[1] > F(6, 10)


def test_one_arrival_is_the_gumbel_coupling_and_more_arrivals_lose_nothing() -> None:
    for p, q in pairs()[::9]:
        output, accepted = races.coupling(p, q, 1)
        kept = [watermarks.arrivals(p, q, k)[1] for k in (1, 2, 3)]
        assert watermarks.arrivals(p, q, 1) == (output, accepted) and kept == sorted(kept)


@pytest.mark.parametrize("one_level", [races.alive, watermarks.alive], ids=["lists", "arrivals"])
def test_how_many_drafts_hold_the_output_is_what_many_races_count(one_level: Any) -> None:
    p, q = (F(1, 6), F(1, 3), F(1, 2)), (F(1, 2), F(1, 3), F(1, 6))
    generator, target, draft = np.random.default_rng(3), np.array(p, float), np.array(q, float)
    noise = generator.exponential(size=(2 * 10**5, 2, 3))
    if one_level is races.alive:
        output = (noise.min(1) / target).argmin(-1)
        drafts = (noise / draft).argmin(-1)
    else:
        output = (noise[:, 0] / target).argmin(-1)
        drafts = np.argsort((noise.cumsum(1) / draft).reshape(-1, 6), -1)[:, :2] % 3
    number = (drafts == output[:, None]).sum(-1)
    for count, masses in enumerate(one_level(p, q, 2)):
        for token, mass in enumerate(masses):
            assert abs(((number == count) & (output == token)).mean() - float(mass)) < 5e-3


def test_no_case_of_jacobi_decoding_lies_where_rounding_decides() -> None:
    for p, q in pairs():
        laws = sjd.nucleus(p), sjd.nucleus(q)
        for law in (p, q, by_hand.norm(by_hand.minus(*laws), laws[0])):
            assert sjd.PART not in accumulate(sorted(law, reverse=True)), (p, q)


@pytest.mark.parametrize(("after", "tokens"), [(((9, 1), (1, 9)), F(3)), (((9, 1), (9, 1)), F(13, 5))])
def test_rm_bv_emits_as_many_tokens_as_its_notes_count(after: Any, tokens: F) -> None:
    half = np.array([F(1, 2)] * 2, dtype=object)
    second = [np.array([F(mass, 10) for mass in row], dtype=object) for row in after]
    model = Told(lambda prefix: second[prefix[0]] if len(prefix) == 1 else half, lambda prefix: half)
    laws = [rm_bv.root_last(1)(model, SimpleNamespace(tokens=(token,))) for token in (0, 1)]
    assert sum(len(text) * mass for law in laws for text, mass in law.items()) / 2 == tokens


@pytest.mark.parametrize("k", [1, 2])
def test_a_coin_used_again_is_what_a_walk_over_all_coins_gives(k: int) -> None:
    """SGLang's kernel with one uniform number, walked for 720 evenly spaced uniform numbers."""
    for p, q in pairs()[::9]:
        counts = [0] * len(p)
        for number in range(720):
            uniform, reached, drafts = F(2 * number + 1, 1440), F(0), by_hand.most_probable(q, k)
            for x in drafts:
                reached += p[x]
                if uniform < reached:
                    break
            else:
                rest = [F(0) if y in drafts else mass for y, mass in enumerate(p)]
                place = uniform * sum(rest)
                x = next(y for y in range(len(p)) if sum(rest[: y + 1]) > place)
            counts[x] += 1
        drafts = by_hand.most_probable(q, k)
        taken, last = sglang.with_one_uniform(list(p), drafts)
        output = [mass + sum(t for x, t in zip(drafts, taken, strict=True) if x == y) for y, mass in enumerate(last)]
        assert sum(output) == 1 and taken == [p[x] for x in drafts]
        assert all(abs(F(count, 720) - mass) <= F(1, 360) for count, mass in zip(counts, output, strict=True))


def block_kernel(chance: branches.Chance, p: Any, q: Any, k: int) -> tuple[int, ...]:
    """vLLM's block kernel for a chosen path of two tokens: independent uniform numbers, the last that passes decides."""
    (x,) = by_hand.most_probable(q(), 1)
    (y,) = by_hand.most_probable(q((x,)), 1)
    first, both = p()[x], p()[x] * p((x,))[y]
    rest = first * (1 - p((x,))[y])
    passes = chance.flip(rest / (rest + 1 - first) if rest + 1 - first else 1)
    if chance.flip(both):
        return (x, y, chance.draw(p((x, y))))
    return (x, chance.draw(by_hand.without(p((x,)), (y,)))) if passes else (chance.draw(by_hand.without(p(), (x,))),)


def test_block_verification_of_a_chosen_path_is_the_kernel() -> None:
    form = next(form for work, form in FORMS if work == "vllm" and form.name.startswith("V2 block, no distribution"))
    for result in form.verifier.results(along_path((1,))):
        case = result.case
        assert branches.emitted(block_kernel, case.target, case.draft, 1, 3) == result.emitted, case


def test_what_is_undecided_is_printed_with_its_reason() -> None:
    for name in ("hsd", "rheo", "univer"):
        work, _ = REGISTER[name]
        ((rule, why),) = work.undecided
        table = CliRunner().invoke(main, ["survey", name, "--format", "markdown"])
        assert table.exit_code == 0 and f"| {rule} | | | undecided: {why} |" in " ".join(table.output.split())
    assert "UniVer, its rule: undecided: abstract only" in CliRunner().invoke(main, ["survey", "univer"]).output
    assert "undecided: its rule: abstract only" in CliRunner().invoke(main, ["survey", "univer", "--details"]).output


def nested(places: list[tuple[int, ...]], at: tuple[int, ...] = ()) -> Any:
    """The tree whose nodes stand at these places, each as the tuple of its children."""
    return tuple(nested(places, place) for place in sorted(places) if place[:-1] == at and len(place) == len(at) + 1)


@pytest.mark.slow
def test_eagle_1_on_its_default_tree() -> None:
    """Six tokens of a four-token example: only the second child of the deepest node is followed by a wrong distribution."""
    first = ["0", "1", "2", "3", "00", "01", "02", "10", "11", "20", "21", "30"]
    deeper = ["000", "001", "002", "010", "011", "020", "021", "100", "0000", "0001", "0002", "00000", "00001"]
    tree = nested([tuple(map(int, place)) for place in first + deeper])
    p, q = (tuple(F(mass, 10) for mass in masses) for masses in ((1, 2, 3, 4), (2, 1, 4, 3)))
    wrong = branches.emitted(eagle.walked(tree, False, True), lambda prefix=(): p, lambda prefix=(): q, 1, 6)
    expected = branches.continued((), lambda prefix: p, 6)
    assert sum(abs(wrong.get(text, 0) - mass) for text, mass in expected.items()) / 2 == F(896, 46875)
    accepted = sum(map(min, p, q))
    rest = by_hand.norm(by_hand.minus(p, q))
    second = sum(
        (q[x] - min(p[x], q[x])) * sum(map(min, rest, by_hand.without(q, [x]))) for x in range(4)
    )  # the first child is refused, the second one taken
    assert accepted**4 * second * sum(map(max, by_hand.minus(rest, p), (0,) * 4)) == F(896, 46875)


DRAWN_TREES = [
    "spectr",
    "mcsd",
    "spechub",
    "khisti",
    "hu",
    "specinfer",
    "sequoia",
    "traversal",
    "eagle",
    "dyspec",
    "hipfire",
    "rheo",
]
CHOSEN_TREES = ["lookahead", "eagle-2", "sglang", "medusa", "redrafter", "specexec", "uno", "tensorrt"]


@pytest.mark.parametrize("name", DRAWN_TREES + CHOSEN_TREES)
def test_who_verifies_a_tree_is_judged_as_a_walk(name: str) -> None:
    shapes = [getattr(form.verifier, "shape", None) for form in REGISTER[name][0].forms]
    assert any(shape and shape.length > 1 and shape.max_children > 1 for shape in shapes)


@pytest.mark.parametrize("name", [slow("gls"), "mpfr"])
def test_who_races_along_several_paths_is_judged_as_a_walk(name: str) -> None:
    one_level = {"gls": races.alive, "mpfr": watermarks.alive}[name]

    def program(chance: branches.Chance, p: Any, q: Any, k: int) -> tuple[int, ...]:
        text: tuple[int, ...] = ()
        while k and len(text) < 3:
            flat = [mass for masses in one_level(p(), q(), k) for mass in masses]
            k, token = divmod(chance.draw(flat), len(p()))
            text = (*text, token)
        return text

    form = REGISTER[name][0].forms[-1]
    one = evaluation.evaluate_form(form)
    assert form.verifier.text == 3 and form.verifier.ks == (2,) and one.sound and len(one.detected) == 2  # type: ignore[union-attr]
    results = form.verifier.results([Case((p,), (q,), 2) for p, q in pairs()[:40:2]])
    assert (
        max(result.accepted for result in results) == 2 and min(result.accepted for result in results) < 1
    )  # p = q, and far from it


@pytest.mark.parametrize("name", ["sglang", "tensorrt"])
def test_a_walk_that_ends_at_its_first_token_is_not_confirmed(name: str) -> None:
    form = next(form for form in REGISTER[name][0].forms if form.name.endswith((" = 1/2: tree", " 0.9: tree")))
    assert evaluation.evaluate_form(form).sound
    assert not evaluate_form(replace(form, by_hand=lambda *given: form.by_hand(*given)[:1])).confirmed  # type: ignore[misc]


def test_a_recorded_case_that_comes_out_otherwise_is_not_sound() -> None:
    form = next(form for work, form in FORMS if work == "hsd" and form.known)
    (known,) = form.known
    assert evaluation.evaluate_form(form).sound
    assert not evaluate_form(replace(form, known=(known._replace(total_variation=F(1, 10)),))).sound
    another = by_hand.single(by_hand.usual_test, by_hand.usual_residual)
    assert not evaluate_form(replace(form, known=(known._replace(by_hand=another),))).sound


def test_laws_that_settings_have_changed() -> None:
    law = (F(1, 6), F(1, 3), F(1, 2))
    assert by_hand.rooted(by_hand.squared(law)) == law
    with pytest.raises(ValueError, match="not a square"):
        by_hand.rooted(law)
    assert Case((law,), (law,), 1).through(by_hand.squared).p == (by_hand.squared(law),)


@pytest.mark.parametrize("form", [form for _, form in FORMS if form.seen], ids=lambda form: form.name)
def test_a_no_about_released_code_says_how_it_was_seen(form: Form) -> None:
    assert form.expects == NOT_LOSSLESS and form.seen.startswith(("run: ", "read, not run", "not read: "))


def test_a_no_about_an_engine_says_when() -> None:
    for work, _ in REGISTER.values():
        for form in work.forms:
            if work.engine and form.expects == NOT_LOSSLESS:
                assert form.when and form.seen, (work.name, form.name)


def test_the_question_of_tree_verification_is_answered() -> None:
    sound, table = variants.rows()
    assert sound and {row[1] for row in table} == {LOSSLESS, NOT_LOSSLESS}
    assert all(bool(row[3]) == (row[1] == NOT_LOSSLESS) for row in table)
    worded = {form.name: form.expects for form in variants.VARIANTS}
    assert worded["top-k children, tested with q as it is"] == NOT_LOSSLESS
    assert worded["top-k children, q set to 1, a rejected child's p set to 0"] == LOSSLESS


@pytest.mark.slow
def test_recalibrated_parameters_have_the_given_distance() -> None:
    plane, again = true_units.rows()
    for row in again:
        if row[3]:
            asked = float(row[1].split()[1])
            assert abs(float(row[3]) - asked) <= 0.011 * asked
    for row in plane:
        accepts, by_kl, by_tv = float(row[2]), float(row[7]), float(row[8])
        assert accepts <= by_kl + 2e-3 and accepts <= by_tv + 2e-3, row


def test_the_section_of_the_report(tmp_path: Path) -> None:
    file = tmp_path / "survey.json"
    assert survey_section(file) == ""
    assert CliRunner().invoke(main, ["survey", "mtad", "--format", "json", "--out", str(file)]).exit_code == 0
    section = survey_section(file)
    assert (
        section.startswith('<section id="survey">')
        and '<span class="">lossy by design</span>' in section
        and '<th class="">authors&#x27; claim</th>' in section.replace("authors' claim", "authors&#x27; claim")
        and "1 works, 1 rules" in section
    )
    row = json.loads(file.read_text())[0]
    colours = {"lossless": "good", BUG: "bad", "NOT AS RECORDED: lossless": "bad"}
    for verdict, colour in colours.items():
        file.write_text(json.dumps([{**row, "verdict": verdict}]))
        assert f'<span class="{colour}">{verdict}</span>' in survey_section(file)
    (tmp_path / "broken.json").write_text('[{"work": 1}]')
    assert survey_section(tmp_path / "broken.json") == ""


def test_the_formats(tmp_path: Path) -> None:
    run = CliRunner().invoke
    found = json.loads(run(main, ["survey", "leviathan", "llama-cpp", "--format", "json"]).output)
    assert [row["verdict"] for row in found[:4]] == ["lossless", "lossless", "lossless", BUG]
    assert found[3]["confirmed"] and len(found[3]["note"]) == 5 and found[3]["known"]
    markdown = run(main, ["survey", "leviathan", "--format", "markdown"]).output.splitlines()
    assert markdown[0].count("|") == len(pages.HEADS) + 1 and len(markdown) == 4
    latex = run(main, ["survey", "tensorrt", "--format", "latex"]).output
    assert latex.startswith(r"\begin{longtable}") and r"\&" not in latex and r"\_" not in latex.split(r"\hline")[0]
    file = tmp_path / "survey.txt"
    assert run(main, ["survey", "hsd", "--details", "--out", str(file)]).exit_code == 0
    assert (
        "total variation 1/" in file.read_text()
        and "independent enumeration: the same distribution" in file.read_text()
    )
    assert pages.latex(["a_b"], [["50 % & <1>"]]).count(r"\%") == 1


def test_without_names_every_work_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: REGISTER[name] for name in ("leviathan", "univer")}
    monkeypatch.setattr("proofs_checks.survey.command.REGISTER", few)
    done = CliRunner().invoke(main, ["survey"])
    works = [work.title for work, _ in few.values()]
    lines = done.output.splitlines()
    assert done.exit_code == 0 and len(lines) == len(works) + 2 and lines[-1].startswith("One line per rule of a work")
    assert all(line.startswith(title) for line, title in zip(lines, [*works, "all works"], strict=False))
    assert " lossless" in lines[0] and "undecided" in lines[1] and "undecided" in lines[2]


def test_an_engine_is_one_line_per_rule_and_an_unknown_one_gets_a_suggestion() -> None:
    for name in ("llama.cpp", "llama-cpp"):
        done = CliRunner().invoke(main, ["survey", name])
        lines = done.output.splitlines()
        forms = REGISTER["llama-cpp"][0].forms
        assert done.exit_code == 0 and len(lines) == len(forms) + 1
        assert all(line.startswith(f"llama.cpp, {form.name}") for line, form in zip(lines, forms, strict=False))
        assert any(line.endswith(": lossless") for line in lines) and any(BUG in line for line in lines)
    unknown = CliRunner().invoke(main, ["survey", "MLC"])
    assert unknown.exit_code == 2 and "Did you mean MLC-LLM?" in unknown.output


DOCS = Path(__file__).parents[2] / "docs"
FILES = ("survey", "survey_variants", "survey_lossy", "survey_recalibrated")
ENGINES = ["FastDeploy", "FlashInfer", "LMDeploy", "MLC-LLM", "OpenVINO GenAI", "SGLang", "TensorRT-LLM", "llama.cpp", "rtp-llm",
           "transformers", "vLLM", "vLLM Ascend", "xLLM"]  # fmt: skip


@pytest.mark.slow
def test_the_data_of_the_page_is_what_the_command_writes(tmp_path: Path) -> None:
    assert CliRunner().invoke(main, ["survey", "--data", str(tmp_path)]).exit_code == 0
    for name in FILES:
        assert (tmp_path / f"{name}.csv").read_text() == (DOCS / "data" / f"{name}.csv").read_text(), (
            f"{name}: run ot-draft survey --data docs/data"
        )


def test_the_data_of_the_page() -> None:
    with (DOCS / "data" / "survey.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(DictReader(stream))
    assert tuple(rows[0]) == pages.DATA and not any("|" in cell for row in rows for cell in row.values())
    named = {(work.title, form.name): (work, form) for work, _ in REGISTER.values() for form in work.forms}
    argued = {(work.title, each.rule): (work, each) for work, _ in REGISTER.values() for each in work.argued}
    decided = [row for row in rows if row["verdict"] != UNDECIDED]
    assert len(decided) == len(named) + len(argued)
    assert {(row["work"], row["rule"]) for row in decided} == {*named, *argued}
    assert all(row["condition"] for row in rows if row["verdict"] == UNDECIDED)
    for row in decided:
        name = (row["work"], row["rule"])
        if name in argued:
            work, each = argued[name]
            found = (row["verdict"], row["engine"], row["mode"], row["condition"], row["evidence"])
            assert found == (each.verdict, work.engine, each.mode, each.why, pages.seen(each))
            assert each.verdict in {BUG, BY_DESIGN} and pages.seen(each) in {"run", "read"}
            assert (row["p"], row["q"], row["k"], row["total variation"]) == each.example and not row["positions"]
            continue
        work, form = named[name]
        expected = CONDITIONAL if form.condition else LOSSLESS
        if form.expects == NOT_LOSSLESS:
            expected = BY_DESIGN if pages.by_design(work, form) else BUG
        assert (row["verdict"], row["engine"], row["mode"]) == (expected, work.engine, form.mode), row
        assert int(row["positions"]) >= 1 and int(row["cycles"]) >= 1
        assert bool(row["p"]) == bool(row["q"]) == bool(row["total variation"]) == (form.expects == NOT_LOSSLESS)


def test_the_index_by_engine() -> None:
    found = {work.engine: {form.mode for form in work.forms} for work, _ in REGISTER.values() if work.engine}
    assert set(ENGINES) <= set(found)
    assert set.union(*found.values()) == set(MODES)
    for work, _ in REGISTER.values():
        for form in work.forms:
            assert not form.condition or form.expects == LOSSLESS, (work.name, form.name)


def most_probable(q: Any, k: int, generator: Any) -> Any:
    return np.argsort(-q, kind="stable")[:k]


def of_changed(change: Callable[[Any], Any]) -> Callable[..., Any]:
    """Drafts drawn from a distribution other than q."""

    def draft(q: Any, k: int, generator: Any) -> Any:
        law = change(q)
        return generator.choice(len(q), k, p=law / law.sum())

    return draft


@pytest.mark.parametrize(
    ("draft", "k", "right"),
    [
        (of_changed(np.square), 1, False),  # transformers, issue 47932, and mlx-node, pull 65: through the temperature
        (of_changed(lambda q: np.where(q == q.max(), q, 0)), 1, False),  # MLC-LLM, chain: through top-p
        (most_probable, 1, False),  # rtp-llm, pull 1295
        (most_probable, 2, False),  # MLC-LLM, trees
        (of_changed(np.positive), 1, True),
    ],
)
def test_check_draws_finds_the_public_bugs_of_the_page(draft: Callable[..., Any], k: int, right: bool) -> None:
    q = np.array([0.5, 0.25, 0.25])
    assert otd.check_draws(draft, problems=[otd.Problem(q, q, k)], samples=3000).passed == right
