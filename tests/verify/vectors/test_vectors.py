"""The corpus: made by one command, held by its schema, passed by the right rules, failed by each planted fault as it says."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from scipy import stats
from slow import slow, slow_except

import ot_draft as otd
from ot_draft import trees
from ot_draft.cli import main
from ot_draft.verify.vectors.files import CORPUS, read
from ot_draft.verify.vectors.readers import read as reader
from proofs_checks.vectors import functions
from proofs_checks.vectors.chance import Generated, Recorded, law_of, second_race
from proofs_checks.vectors.conventions import CONVENTIONS
from proofs_checks.vectors.corpus import schema, text_of_faults, text_of_rule
from proofs_checks.vectors.faults import DRAFTED, FAULTS, planted_in, right
from proofs_checks.vectors.make import hexadecimal, vectors_of
from proofs_checks.vectors.problems import Source, plain, rounded
from proofs_checks.vectors.rules import RULES, Case, chain
from proofs_checks.vectors.runs import runs_for

VECTORS = {vector["id"]: vector for vectors in read().values() for vector in vectors}
RULE_OF = {vector["id"]: rule for rule, vectors in read().items() for vector in vectors}
F = Fraction


def test_the_corpus_holds_what_it_should() -> None:
    assert len(VECTORS) >= 800
    assert {vector["level"] for vector in VECTORS.values()} == {"replay", "law", "joint"}
    assert len(read()) >= 12
    assert set(read()) == set(CONVENTIONS) == set(RULES)
    assert {len(vector["parents"]) for vector in VECTORS.values()} >= set(range(1, 9))
    assert {vector["tokens"] for vector in VECTORS.values()} >= {2, 3, 4, 1000, 32_000, 151_936}
    assert any(max(map(vector["parents"].count, vector["parents"])) > 1 for vector in VECTORS.values())  # trees
    assert sum(file.stat().st_size for file in CORPUS.glob("*.json")) < 2_000_000


def test_every_historic_fault_fails_three_vectors() -> None:
    shown = Counter(name for vector in VECTORS.values() for name in vector["kills"])
    assert [name for name in FAULTS if shown[name] < 3] == []
    assert sum(bool(fault.source) for fault in FAULTS.values()) >= 24
    assert set(shown) == set(FAULTS)
    recorded = json.loads((CORPUS / "faults.json").read_text())["faults"]
    assert {name: len(each["vectors"]) for name, each in recorded.items()} == dict(shown)


@pytest.mark.parametrize("rule", slow_except(RULES, "greedy", "llama.cpp-server"))
def test_made_anew_it_is_the_same_bytes(rule: str) -> None:
    assert text_of_rule(rule, vectors_of(rule)) == (CORPUS / f"{rule}.json").read_text()


def test_the_faults_and_the_schema_are_those_of_the_code() -> None:
    corpus = read()
    everything = [vector for rule in CONVENTIONS for vector in corpus[rule]]
    assert text_of_faults(everything) == (CORPUS / "faults.json").read_text()
    assert json.loads((CORPUS / "schema.json").read_text()) == json.loads(json.dumps(schema()))


@pytest.mark.parametrize("rule", RULES)
def test_every_file_keeps_the_schema(rule: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    corpus = json.loads((CORPUS / f"{rule}.json").read_text())
    jsonschema.validate(corpus, schema())
    for change in ({"kills": 3}, {"level": "other"}, {"p": ["0.5 0.5"]}, {"more": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(corpus | {"vectors": [corpus["vectors"][0] | change]}, schema())


@pytest.mark.parametrize("rule", RULES)
def test_the_right_rule_passes_everything(rule: str) -> None:
    outcomes = dict(reader.failures(functions.right, CORPUS, [rule]))
    assert len(outcomes) == len(read()[rule])
    assert {name: wrong for name, wrong in outcomes.items() if wrong} == {}


QUICK = ("vllm-41834", "vllm-44744", "transformers-28508", "flashinfer-424", "sglang-7207", "vllm-ascend-7603", "hsd",
         "transformers-30778", "factor-one", "refused-q-kept", "last-of-equals", "zero-passes")  # fmt: skip


@pytest.mark.parametrize("fault", slow_except(FAULTS, *QUICK))
def test_a_planted_fault_fails_the_vectors_that_name_it(fault: str) -> None:
    """Of replays exactly those; of laws all of those, and none whose law the fault leaves as it is."""
    outcomes = dict(reader.failures(functions.planted(fault), CORPUS, list(FAULTS[fault].programs)))
    failed = {name for name, wrong in outcomes.items() if wrong}
    named = {name for name, vector in VECTORS.items() if fault in vector["kills"]}
    replays = {name for name in outcomes if VECTORS[name]["level"] == "replay"}
    assert named & replays == failed & replays
    assert named <= failed
    assert [name for name in failed - named if law_is_kept(name, fault)] == []


def law_is_kept(name: str, fault: str) -> bool:
    """Whether the fault has the law of this vector."""
    vector, drafts = VECTORS[name], VECTORS[name]["level"] == "joint"
    program = planted_in(RULE_OF[name], drafts).get(fault)
    if program is None:
        return True
    try:
        law = law_of(lambda chance: program(fractions(vector), chance))
    except AttributeError:  # it looks at the numbers themselves
        return False
    return law == {tuple(outcome): F(mass) for outcome, mass in vector["law"]}


def fractions(vector: dict[str, Any]) -> Case:
    """The case of a vector, exact."""
    case = reader.case_of(vector)
    p, q = (
        None if rows is None else tuple([F(mass) for mass in row] for row in rows) for rows in (case["p"], case["q"])
    )
    assert p is not None
    return Case(p, q, tuple(case["drafts"]), tuple(case["parents"]))


def laws_of_rule(rule: str, level: str) -> list[dict[str, Any]]:
    return [vector for vector in read()[rule] if vector["level"] == level]


@pytest.mark.parametrize("rule", DRAFTED)
def test_what_is_emitted_has_the_target_s_law(rule: str) -> None:
    """Of the joint laws, which the rules themselves gave: the target's own law, of which they know nothing."""
    for vector in (vector for vector in read()[rule] if vector["level"] == "joint"):
        case, size = fractions(vector), len(vector["parents"])
        length = (
            size + 1 if case.parents == chain(*range(size)) else 1
        )  # rows are by place, behind each child of its own
        texts = list(product(range(case.n), repeat=length))
        due = {text: prod(case.p[node][token] for node, token in enumerate(text)) for text in texts}
        emitted = dict.fromkeys(texts, F(0))
        for outcome, mass in vector["law"]:
            told = tuple(outcome[size:][:length])
            for text in texts:
                if text[: len(told)] == told:
                    emitted[text] += F(mass) * due[text] / prod(case.p[node][token] for node, token in enumerate(told))
        assert emitted == due


@pytest.mark.parametrize(("rule", "of_library"), [
    ("recursive-rejection", otd.rules.RecursiveRejection()),
    ("recursive-rejection-distinct", otd.rules.RecursiveRejectionWithoutReplacement()),
    ("k-seq", otd.rules.KSeq()), ("vllm-v1", otd.rules.SpeculativeSampling()), ("tensorrt-llm", otd.rules.SpeculativeSampling()),
])  # fmt: skip
def test_the_library_s_rule_keeps_as_many_drafts(rule: str, of_library: otd.SelectionRule) -> None:
    """K-SEQ at factor k keeps fewer than with the factor that the library finds."""
    compared = 0
    for vector in (vector for vector in read()[rule] if vector["level"] == "joint"):
        case, k = fractions(vector), len(vector["parents"])
        if case.parents != (-1,) * k:
            continue
        assert case.q is not None
        taken = otd.evaluate(of_library, otd.Problem(list(case.p[0]), list(case.q[0]), k, of_library.law)).accept.sum()
        kept = sum(F(mass) for outcome, mass in vector["law"] if len(outcome) == k + 2)
        assert kept <= taken if rule == "k-seq" else kept == taken
        compared += 1
    assert compared >= 2


def test_block_verification_keeps_what_the_library_s_keeps() -> None:
    for vector in (vector for vector in read()["vllm-v2-block"] if vector["level"] == "joint"):
        case, length = fractions(vector), len(vector["parents"])
        model = ByPlace(case)
        mine = trees.evaluate(trees.BlockVerification(), model, (1, length))
        assert F(vector["accepted"]) == mine.expected_length - 1 or F(vector["accepted"]) == mine.expected_length


class ByPlace:
    """A model whose laws depend on the place alone."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def target(self, prefix: tuple[int, ...]) -> Any:
        return np.array(self.case.p[len(prefix)], dtype=object)

    def draft(self, prefix: tuple[int, ...]) -> Any:
        assert self.case.q is not None
        return np.array(self.case.q[len(prefix)], dtype=object)


def test_noise_used_again_is_the_court_s_counterexample() -> None:
    """p = (1/3, 1/2, 1/6), q = (1/6, 1/3, 1/2): 1/42 away, as proofs_checks/survey works it out in another way."""
    p, q = (F(1, 3), F(1, 2), F(1, 6)), (F(1, 6), F(1, 3), F(1, 2))
    case = Case((p, p), (q,), (), (-1,))
    law = law_of(lambda chance: planted_in("vllm-v2", True)["vllm-54282"](case, chance))
    emitted = [sum(mass for outcome, mass in law.items() if outcome[1] == token) for token in range(3)]
    assert sum(max(F(0), a - b) for a, b in zip(emitted, p, strict=True)) == F(1, 42)


def test_a_second_race_is_what_a_simulation_gives() -> None:
    q, r = (F(1, 8), F(3, 8), F(0), F(1, 2)), (F(1, 2), F(0), F(1, 4), F(1, 4))
    generator = np.random.default_rng(0)
    noise = generator.exponential(size=(200_000, 4))
    with np.errstate(divide="ignore"):
        winners, second = ((noise / np.array(law, dtype=float)).argmin(1) for law in (q, r))
    for winner in (0, 1, 3):
        law = second_race(q, r, winner)
        assert sum(law) == 1
        seen = np.bincount(second[winners == winner], minlength=4) / (winners == winner).sum()
        assert np.abs(seen - np.array(law, dtype=float)).max() < 0.01


@pytest.mark.parametrize("rule", RULES)
def test_a_generator_follows_the_enumerated_law(rule: str) -> None:
    """Random numbers drawn, and the law of all of them: the same rule, by two kinds of chance."""
    source = Source("a test")
    case = plain(source, rule, 2).case
    law = law_of(lambda chance: right(rule, False)(case, chance))
    drawn = Counter(tuple(right(rule, False)(case, Generated(random.Random(seed)))) for seed in range(4000))
    assert set(drawn) <= set(law)
    assert max(abs(drawn[outcome] / 4000 - mass) for outcome, mass in law.items()) < 0.04


def test_so_many_runs_make_both_errors_small() -> None:
    """By exact sums over the binomial: at the number of runs a right law is refused, and a wrong one kept, once in a million at most."""
    right_law, wrong_law = {(0,): F(1, 2), (1,): F(1, 2)}, {(0,): F(3, 5), (1,): F(2, 5)}
    runs = runs_for(right_law, wrong_law)
    refused = [
        count for count in range(int(runs) + 1) if runs * reader.kl(count / runs, 0.5) > np.log(2 * 2 / reader.ALARM)
    ]
    chance = {p: stats.binom.pmf(np.arange(int(runs) + 1), int(runs), p) for p in (0.5, 0.6)}
    assert chance[0.5][refused].sum() < 1e-6
    assert 1 - chance[0.6][refused].sum() < 1e-6
    assert runs_for(right_law, right_law) == np.inf
    assert runs_for({(0,): F(1)}, {(0,): F(1, 2), (1,): F(1, 2)}) <= 25  # an outcome that cannot be
    assert runs_for({(0,): F(1, 2), (1,): F(1, 2)}, {(0,): F(1)}) <= 40  # one that never comes


def test_numbers_are_written_exactly() -> None:
    for text in ("0x1p-2", "0x1.8p-3", "0x0p0", "-0x1.4p0", "0x1.fffffep-1"):
        assert hexadecimal(float.fromhex(text)) == text
    assert hexadecimal(float("nan")) == "nan"
    assert rounded(1 / 3, False) == F(float(np.float32(1 / 3)))
    assert rounded(1 / 3, True) == F(171, 512)
    large = reader.row("masses:1:25", 151_936)
    assert sum(map(F, large)) == 1
    assert np.array(large, dtype=np.float32).cumsum(dtype=np.float32)[-1] == 1
    assert (np.array(large, dtype=np.float32) == np.array(large)).all()


def test_equal_numbers_of_a_record_count_as_one_decision_each() -> None:
    record = Recorded([F(1, 2), F(1)], [[F(1), F(2)]])
    assert not record.below(0, F(1, 2), 1, False)
    assert record.margin == 0
    assert record.below(0, F(1, 2), 1, True)
    assert not record.below(0, 0, 1, True)
    assert record.place(1, [F(1, 2), F(1, 2), F(0)]) == 1  # beyond all: the last with mass
    assert record.race(0, [F(1, 3), F(2, 3)]) == 0


def run(*words: str) -> Any:
    return CliRunner().invoke(main, ["vectors", *words])


def test_the_command_runs_a_function(tmp_path: Path) -> None:
    done = run("run", "proofs_checks.vectors.functions:right", "--rule", "greedy")
    assert done.exit_code == 0
    assert "33 vectors, 0 failed" in done.stdout.replace(str(len(read()["greedy"])), "33")
    wrong = tmp_path / "wrong_verifier.py"
    wrong.write_text("from proofs_checks.vectors.functions import planted\nfunction = planted('row-behind')\n")
    shown = run("run", f"{wrong}:function", "--rule", "greedy", "--json")
    assert shown.exit_code == 1
    told = json.loads(shown.stdout)
    named = {name for name, vector in VECTORS.items() if "row-behind" in vector["kills"] and RULE_OF[name] == "greedy"}
    assert {each["check"] for each in told["outcomes"] if each["status"] == "failed"} == named
    assert told["status"] == "failed" and told["suspected_bugs"] == ["row-behind"]
    (tmp_path / "crashing_verifier.py").write_text("def function(rule, case, numbers):\n    raise TypeError\n")
    crashed = run("run", f"{tmp_path / 'crashing_verifier.py'}:function", "--rule", "greedy", "--json")
    assert crashed.exit_code == 1 and json.loads(crashed.stdout)["suspected_bugs"] == []
    known = tmp_path / "known.txt"
    known.write_text("# as it is today\n" + "\n".join(sorted(named)))
    excused = run("run", f"{wrong}:function", "--rule", "greedy", "--known", str(known), "--json")
    assert excused.exit_code == 0
    failed = [each for each in json.loads(excused.stdout)["outcomes"] if each["status"] == "failed"]
    assert {each["check"] for each in failed} == named and not any(each["decides"] for each in failed)
    repaired = run("run", "proofs_checks.vectors.functions:right", "--rule", "greedy", "--known", str(known))
    assert repaired.exit_code == 1
    assert "passed, but is in --known" in repaired.stdout


@pytest.mark.parametrize("end", ["os._exit", slow("sys.exit")])
def test_a_function_that_ends_the_process_with_0_fails(end: str, tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(f"import os, sys\ndef function(rule, case, numbers):\n    {end}(0)\n")
    command = [sys.executable, "-m", "ot_draft", "vectors", "run", "ends.py:function", "--rule", "greedy"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    vectors = len(read()["greedy"])
    assert f"{vectors} vectors, 0 failed" not in done.stdout and "crashed" in done.stdout


def test_the_command_refuses_what_is_not_there(tmp_path: Path) -> None:
    for words, told in (
        (("run", "proofs_checks.vectors.functions:nothing"), "must define the function 'nothing'"),
        (("run", "nowhere"), "MODULE:FUNCTION must be"),
        (("run", "proofs_checks.vectors.functions:right", "--rule", "vllm"), "got 'vllm'"),
        (("run", "proofs_checks.vectors.functions:right", "--from", str(tmp_path)), "--rule must be one of (none)"),
        (
            ("run", "proofs_checks.vectors.functions:right", "--rule", "greedy", "--level", "joint"),
            "must select at least one vector",
        ),
        (("show", "vllm-v9"), "NAME must be a vector"),
    ):
        refused = run(*words)
        assert refused.exit_code == 2
        assert told in refused.stderr


def test_the_command_shows_what_there_is() -> None:
    assert "vllm-54282" in run("show").stdout
    assert json.loads(run("show", "greedy-001").stdout) == VECTORS["greedy-001"]
    assert "u q < p" in run("show", "flashinfer-chain").stdout
    assert "https://github.com/vllm-project/vllm/pull/54282" in run("show", "vllm-54282").stdout


def test_the_reader_stands_alone(tmp_path: Path) -> None:
    """Copied to where nothing of this package is, with the standard library alone."""
    text = Path(reader.__file__).read_text()
    assert len(text.splitlines()) <= 100
    (tmp_path / "read.py").write_text(text)
    (tmp_path / "mine.py").write_text(
        "def best(rule, case, numbers):\n"
        "    given = []\n"
        "    for node, row in enumerate(case['p']):\n"
        "        given.append(row.index(max(row)))\n"
        "        if node == len(case['drafts']) or given[-1] != case['drafts'][node]:\n"
        "            return given\n"
    )
    words = [sys.executable, "-S", "read.py", str(CORPUS), "mine:best"]
    done = subprocess.run([*words, "greedy"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(f"{len(read()['greedy'])} vectors, none failed")
    failed = subprocess.run([*words, "sglang-tree"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert failed.returncode == 1


def test_a_function_that_changes_its_rows_harms_no_other_vector() -> None:
    def careless(rule: str, case: dict[str, Any], numbers: Any) -> list[int]:
        given = functions.right(rule, case, numbers)
        for row in (*case["p"], *(case["q"] or ())):
            row[:] = [0.0] * len(row)
        case["drafts"].clear()
        return given

    assert [
        wrong for _, wrong in reader.failures(careless, CORPUS, ["flashinfer-chain"], ["replay", "law"]) if wrong
    ] == []


@pytest.mark.parametrize("level", ["replay", "law", "joint"])
def test_tokens_of_an_array_are_read_and_what_is_no_row_of_tokens_fails(level: str) -> None:
    """Tensors hash by identity: a right function that gave one failed every law, and nested lists ended the command."""

    def given(wrapped: Any) -> list[str | None]:
        def function(*case: Any) -> Any:
            return wrapped(functions.right(*case))

        return [wrong for _, wrong in reader.failures(function, CORPUS, ["flashinfer-chain"], [level])]

    for kind in (np.array, torch.tensor, tuple):
        assert set(given(kind)) == {None}, kind
    nested = (lambda row: (row, row), lambda row: np.array([row]), lambda row: [str(token) for token in row])
    for kind in (*nested, lambda row: None, lambda row: [token + 0.5 for token in row]):
        assert all(wrong and wrong.startswith("crashed, TypeError") for wrong in given(kind))


def test_equal_comparisons_part_engines() -> None:
    """A coin on the threshold: kept where the rule says <=, refused where it says <."""
    for name, vector in VECTORS.items():
        if vector["place"] == "coin on the threshold":
            closed = RULE_OF[name] in ("vllm-v1", "vllm-v1-chosen", "tensorrt-llm")
            assert (vector["expected"][0][0] == vector["drafts"][0] and len(vector["expected"][0]) > 1) == closed
