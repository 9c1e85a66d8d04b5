"""`ot-draft conform`: a right engine keeps every row, each planted error is WRONG in a row that is about it, a crash is no verdict."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats
from slow import slow, slow_except

for package in ("torch", "transformers"):
    pytest.importorskip(package)

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

import simulated  # noqa: E402

from ot_draft.cli import main  # noqa: E402
from ot_draft.verify.engine import adapter, evidence, suite  # noqa: E402
from ot_draft.verify.engine.kinds import DEPTH, KINDS, Kind, ReferencePair, kinds_for  # noqa: E402
from ot_draft.verify.engine.tiny_pair import write  # noqa: E402
from ot_draft.verify.outcome import Status  # noqa: E402

ADAPTER = str(HERE / "simulated.py")
HELD = """
import socket, subprocess, sys, time

LATER = "import socket, sys, time; time.sleep(300); socket.socket(fileno=int(sys.argv[1])).send(b'outlived')"

def start(port):
    held = socket.create_connection(("127.0.0.1", port))
    subprocess.Popen([sys.executable, "-c", LATER, str(held.fileno())], pass_fds=[held.fileno()])
    held.send(b"begun")
    time.sleep(300)
    held.send(b"outlived")
"""  # an adapter whose start does not return, and a process of its own, which hold a connection as long as they are there


class Impatient(adapter.EngineProcess):
    """Waits long for a start, and a second for answers to requests."""

    def call(self, function: str, *given: Any, **options: Any) -> Any:
        self._timeout_s = 1.0 if function == "complete" else 600.0
        return super().call(function, *given, **options)


class InThisProcess:
    """The simulated engine without a process of its own: quick."""

    def __init__(self, name: str, log: Path, seconds: float) -> None:
        simulated.LACKS.clear()

    def call(self, function: str, *given: Any, **options: Any) -> Any:
        try:
            return adapter._call(simulated, function, given, options)
        except Exception as error:
            raise adapter.Crashed(str(error)) from error

    def close(self) -> None:
        """There is nothing to end."""


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pairs")


@pytest.fixture(scope="module", autouse=True)
def _once() -> Iterator[None]:
    """Load the pair of eight tokens once, and compute its logits once after every prefix that is judged, and after every longer text."""
    enumerated, laws = ReferencePair.enumerated, dict[tuple[ReferencePair, str], dict[Any, float]]()
    logits, tables = ReferencePair.logits, dict[tuple[Any, tuple[int, ...]], np.ndarray]()
    longer = dict[tuple[Any, ...], np.ndarray]()

    def table(pair: ReferencePair, model: Any, prompt: tuple[int, ...], texts: np.ndarray) -> np.ndarray:
        length = texts.shape[1]
        if pair.n != 8:
            return logits(pair, model, prompt, texts)
        if length >= DEPTH:
            if (text := (model, tuple(prompt), length, texts.tobytes())) not in longer:
                longer[text] = logits(pair, model, prompt, texts)
            return longer[text]
        if (key := (model, tuple(prompt))) not in tables:
            every = np.array([*itertools.product(range(8), repeat=DEPTH - 1)])
            tables[key] = logits(pair, model, prompt, every)
        rows = texts @ 8 ** np.arange(DEPTH - 2, DEPTH - 2 - length, -1)
        return tables[key][rows, : length + 1]

    def once(pair: ReferencePair, kind: Kind) -> dict[Any, float]:
        if (key := (pair, repr(kind))) not in laws:
            laws[key] = enumerated(pair, kind)
        return laws[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReferencePair, "load", cache(ReferencePair.load))
        patch.setattr(ReferencePair, "enumerated", once)
        patch.setattr(ReferencePair, "logits", table)
        yield


@pytest.fixture
def few_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite sends requests of eight kinds only: quicker, for tests that are not about the kinds."""
    sent = {
        name: KINDS[name]
        for name in ("plain", "temperature", "top-k", "top-p", "stop tokens", "seeded", "n = 3", "greedy")
    }
    monkeypatch.setattr(suite, "kinds_for", lambda n: sent)
    monkeypatch.setattr(suite, "SuiteSettings", partial(suite.SuiteSettings, logprob_requests=5))


@pytest.fixture
def few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite sends too few small batches to decide on these: quicker, for tests that are about other rows."""
    monkeypatch.setattr(suite, "SuiteSettings", partial(suite.SuiteSettings, min_small_batches=15, abort_calls=3))


@pytest.fixture
def run(models: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., suite.EngineReport]:
    monkeypatch.setattr(suite, "EngineProcess", InThisProcess)

    def run(
        error: str = "", requests: int = 600, sizes: tuple[int, ...] = (8,), seed: int = 0, **options: str
    ) -> suite.EngineReport:
        options = {"error": error, "seed": str(seed), **options}
        return suite.conform("simulated", options, sizes, requests, seed=seed, models=models)

    return run


def wrong(report: suite.EngineReport) -> list[str]:
    return [row.check.rpartition(",")[0] for row in report.outcomes if row.status == Status.FAILED]


@pytest.mark.parametrize(("seed", "requests"), [(0, 120), slow(0, 600), slow(1, 600)])
def test_a_right_engine_keeps_its_law(seed: int, requests: int, run: Any) -> None:
    report = run(seed=seed, requests=requests)
    assert (report.exit_status, wrong(report)) == (0, [])
    assert len(report.outcomes) > 20
    assert min(row.evidence.p for row in report.outcomes) > 1e-5


@pytest.mark.slow
def test_a_right_engine_keeps_its_law_on_many_tokens(run: Any) -> None:
    report = run(sizes=(2000,), requests=400)
    assert (report.exit_status, wrong(report)) == (0, [])


@pytest.mark.parametrize(
    ("error", "rows"),
    slow_except(
        [
            ("greedy", {"plain", "temperature"}),
            ("residual is p", {"plain"}),
            ("one uniform a batch", {"requests are independent"}),
            ("no seeds", {"same seed, same text"}),
            ("no penalties", {"repetition penalty", "presence, frequency"}),
            ("no min-p", {"min-p"}),
            ("no bias", {"logit bias"}),
            ("min-p before temperature", {"min-p"}),
            ("bias after temperature", {"logit bias"}),
            ("no min tokens", {"min tokens"}),
            ("no grammar", {"grammar"}),
            ("no top-k", {"top-k", "top-k and top-p"}),
            ("no top-p", {"top-p", "top-k and top-p"}),
            ("residual of |p - q|", {"plain"}),
            ("residual not clipped", {"plain"}),
            ("residual not normalised", {"plain"}),
            ("residual of the place before", {"plain"}),
            ("the draft's temperature for the target", {"plain"}),
            ("bonus twice", {"plain"}),
            ("one seed for all", {"requests are independent"}),
            ("copies alike", {"requests are independent"}),
            ("min-p of logits", {"min-p"}),
            ("stop token dropped", {"stop tokens", "min tokens"}),
            ("log-probabilities of the draft", {"log-probabilities"}),
            ("no stop", {"stop tokens", "min tokens"}),
            ("no allowed", {"allowed tokens"}),
            ("temperature ignored", {"temperature"}),
            *((error, {"log-probabilities"}) for error in simulated.LOGPROBS),
        ],
        "residual is p",
        name=itemgetter(0),
    ),
)
def test_a_planted_error_is_wrong_where_it_is(error: str, rows: set[str], run: Any) -> None:
    report = run(error, requests=1500)
    assert report.exit_status == 1
    assert rows <= set(wrong(report))
    if error.startswith("no ") or error in simulated.LOGPROBS:
        # Where the law is wrong, so is the chance of equal tokens that it gives.
        assert set(wrong(report)) <= rows | {"streams", "requests are independent"}


@pytest.mark.usefixtures("few_kinds")
def test_what_is_no_error_is_kept(run: Any) -> None:
    """u q <= p for u q < p: they differ where u q is p exactly."""
    report = run("accepted where it is equal", requests=400)
    assert (report.exit_status, wrong(report)) == (0, [])


@pytest.mark.parametrize(("declared", "status"), [("raw", 0), ("processed", 1), ("", 0), ("cooked", 2)])
def test_log_probabilities_are_those_that_are_declared(
    declared: str, status: int, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulated engine reports them before temperature and top-k."""
    monkeypatch.setattr(suite, "SuiteSettings", partial(suite.SuiteSettings, logprob_requests=5))
    sent = {name: KINDS[name] for name in ("plain", "temperature", "top-k")}
    monkeypatch.setattr(suite, "kinds_for", lambda n: sent)
    report = run(requests=400, declared=declared)
    assert (report.exit_status, wrong(report)) == (status, ["log-probabilities"] if status == 1 else [])
    said = {"processed": "processed: off by", "cooked": "REPORTS must be 'raw' or 'processed', got 'cooked'"}.get(
        declared, "raw: off by"
    )
    assert said in next(row.evidence.reason for row in report.outcomes if row.check.startswith("log-probabilities"))


@pytest.mark.parametrize(
    "error", ["noise used again", slow("uniform used twice"), slow("drafts at another temperature")]
)
def test_a_chance_used_again_is_found_by_the_number_of_requests_that_is_the_default(
    error: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "kinds_for", lambda n: {"plain": KINDS["plain"]})
    assert "plain" in wrong(run(error, requests=suite.SuiteSettings.requests))


@pytest.mark.slow
def test_the_last_of_a_batch_is_found(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among thousands of requests it is one text that is wrong."""
    sent = {name: KINDS[name] for name in ("plain", "temperature", "repeating prompt")}
    monkeypatch.setattr(suite, "kinds_for", lambda n: sent)
    found = set(wrong(run("last of a batch", requests=4000)))
    assert {"one to five at a time"} <= found <= {"one to five at a time", "with aborted requests"}


@pytest.fixture
def run_row(run: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., suite.EngineOutcome]:
    """One row alone, of some of the kinds."""

    def rows(trial: suite.EngineTrial) -> Any:
        trial.kinds = {name: KINDS[name] for name in names}
        trial.right = [*names]
        yield trial._small_batches("few") if row == "few" else trial._aborted("aborted")

    names, row = SOME, "few"

    def run_row(which: str, kinds: tuple[str, ...], **options: Any) -> suite.EngineOutcome:
        nonlocal names, row
        names, row = kinds, which
        monkeypatch.setattr(suite.EngineTrial, "rows", rows)
        (found,) = run(**options).outcomes
        return found

    return run_row


# Most texts have some mass in every law of the first three.
SOME = ("plain", "temperature", "repeating prompt", "greedy")


@pytest.mark.parametrize(
    ("error", "kinds"),
    slow_except(
        [*((error, SOME) for error in (*simulated.PLACES, "beside greedy")), ("middle of three", tuple(kinds_for(8)))],
        "second to last",
        "first of three",
        "longest",
        "beside greedy",
        name=lambda case: case[0] if case[1] == SOME else f"{case[0]}, all kinds",
    ),
)
def test_one_place_of_a_small_batch_is_found(error: str, kinds: tuple[str, ...], run_row: Any) -> None:
    """By the fewest requests that an adapter asks for; nothing else is wrong."""
    found = run_row("aborted" if "aborted" in error else "few", kinds, error=error, requests=1500)
    assert (found.status, found.evidence.p < 1e-8) == (Status.FAILED, True)


@pytest.mark.parametrize("row", ["few", "aborted"])
@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
def test_right_small_batches_are_kept(seed: int, row: str, run_row: Any) -> None:
    found = run_row(row, tuple(kinds_for(8)), requests=400, seed=seed)
    assert (found.status, found.evidence.p > 1e-4) == (Status.PASSED, True)


@pytest.mark.parametrize(
    ("error", "row", "said"),
    [
        slow("one text of three", "n = 3", "3 completions with ['tokens']"),
        slow("nothing at top-k", "top-k", "got []"),
        slow("no key", "streams", "with ['pieces', 'tokens']"),
        ("an answer missing", "plain", "must return 400 lists"),
        ("nothing returned", "plain", "must return a list of completions for each request, got None"),
        ("None for answers", "plain", "with ['tokens'], got None"),
        ("a word for an answer", "plain", "got ['a']"),
        slow("None for tokens", "plain", "got [{'tokens': None"),
        slow("a word for pieces", "streams", "'pieces': 'two'"),
        slow("a number for log-probabilities", "log-probabilities", "'logprobs': 0.5"),
        ("a word for a counter", "drafts are accepted", "'accepted drafts' of counters must be a number, got 'many'"),
        slow("no counters", "drafts are accepted", "counters must return a dict of facts, got None"),
    ],
)
@pytest.mark.usefixtures("few_kinds", "few_batches")
def test_what_was_not_answered_is_no_verdict(error: str, row: str, said: str, run: Any) -> None:
    report = run(error, requests=400)
    rows = {each.check.rpartition(",")[0] or each.check: each for each in report.outcomes}
    assert report.exit_status == 2
    assert rows[row].status == Status.CRASHED
    assert said in rows[row].evidence.reason


@pytest.mark.usefixtures("few_kinds")
def test_log_probabilities_may_be_of_numpy(run: Any) -> None:
    assert run("log-probabilities of numpy", requests=400).exit_status == 0


def test_a_start_without_facts_is_no_verdict(run: Any) -> None:
    (row,) = run("no facts", requests=400).outcomes
    assert row.status == Status.CRASHED
    assert "must return a dict of facts, got None" in row.evidence.reason


@pytest.mark.parametrize(
    ("error", "row", "said"),
    [
        ("too long", "plain", "400 of 400 completions continue after their end"),
        ("too short", "plain", "400 of 400 completions stop early"),
        slow("on after the end", "stop tokens", "continue after their end"),
        ("words for tokens", "plain", "have unknown tokens"),
        ("numbers with a point", "plain", "have unknown tokens"),
        ("unknown tokens", "plain", "have unknown tokens"),
    ],
)
@pytest.mark.usefixtures("few_kinds", "few_batches")
def test_texts_that_are_none_of_the_law_are_wrong(error: str, row: str, said: str, run: Any) -> None:
    report = run(error, requests=400)
    assert report.exit_status == 1
    (found,) = (each for each in report.outcomes if each.check == f"{row}, 8 tokens")
    assert (found.status, said in found.evidence.reason) == (Status.FAILED, True)


@pytest.mark.usefixtures("few_batches")
def test_too_few_texts_are_not_judged(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten texts nothing is said, unless one of them is none of the law: then it is WRONG."""

    def ten(trial: suite.EngineTrial, counts: dict[str, int]) -> dict[str, list[tuple[int, ...]]]:
        return {"plain": [tuple(text) for text in simulated._texts(trial.kinds["plain"], [None] * 10, 6)]}

    monkeypatch.setattr(suite, "kinds_for", lambda n: {"plain": KINDS["plain"]})
    monkeypatch.setattr(suite.EngineTrial, "_texts", ten)
    report = run(requests=400)
    (row,) = (each for each in report.outcomes if each.check == "plain, 8 tokens")
    assert (row.status, report.exit_status) == (Status.UNDECIDED, 2)
    assert "too few completions for a decision" in row.evidence.reason
    monkeypatch.setattr(suite.EngineTrial, "_texts", lambda trial, counts: {"plain": [(1, 2, 3)] * 10})
    assert "plain" in wrong(run(requests=400))


def test_an_adapter_without_a_required_function_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "no_start.py").write_text("def complete(requests): ...\n\n\ndef stop(): ...\n")
    done = CliRunner().invoke(main, ["conform", str(tmp_path / "no_start.py")])
    assert done.exit_code == 2 and "without start. Define them" in done.stderr, done.output


@pytest.mark.usefixtures("few_kinds")
def test_what_an_engine_lacks_is_not_tried(run: Any) -> None:
    report = run(lacks="top_k seed abort", requests=400)
    names = {row.check.rpartition(",")[0]: row for row in report.outcomes}
    for name in ("top-k", "seeded", "same seed, same text", "with aborted requests", "draft noise with verification"):
        assert names[name].status == Status.SKIPPED
    assert names["top-k"].evidence.reason == "it was asked not to"
    assert report.exit_status == 0


@pytest.mark.usefixtures("few_kinds")
def test_what_crashes_alone_leaves_the_other_rows_their_verdicts(run: Any) -> None:
    report = run("raises at top-p", requests=400)
    crashed = {row.check.rpartition(",")[0] for row in report.outcomes if row.status == Status.CRASHED}
    assert crashed == {"all kinds in mixed batches", "top-p"}
    assert report.exit_status == 2
    others = {row.check: row.status for row in report.outcomes if row.status not in (Status.CRASHED, Status.PASSED)}
    assert set(others.values()) <= {Status.SKIPPED}


@pytest.mark.parametrize("rows", [1, slow(None)])
@pytest.mark.parametrize(
    ("error", "said"),
    [("no start", "does not start"), ("death", "ended with exit status 3"), ("hang", "did not return within")],
)
def test_an_engine_that_dies_or_hangs_is_no_verdict(
    error: str, said: str, rows: int | None, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In processes of its own; only one kind is sent, and the first row alone, or every one, is asked for: each crash is a new start."""
    every = suite.EngineTrial.rows
    monkeypatch.setattr(suite.EngineTrial, "rows", lambda trial: itertools.islice(every(trial), rows))
    monkeypatch.setattr(suite, "kinds_for", lambda n: {"plain": KINDS["plain"]})
    if error == "hang":
        monkeypatch.setattr(suite, "EngineProcess", Impatient)
    report = suite.conform(ADAPTER, {"error": error}, (8,), 400, timeout_s=600.0, models=models)
    assert report.exit_status == 2
    assert not {row.status for row in report.outcomes} & {Status.PASSED, Status.FAILED}
    assert said in report.outcomes[0].evidence.reason


def test_an_engine_ends_in_the_middle_of_a_call_with_whoever_asked(tmp_path: Path) -> None:
    """And so does what it has started: then nobody holds the connection, and nothing comes."""
    held = tmp_path / "held.py"
    held.write_text(HELD)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(1.0)
        asked = f"adapter.EngineProcess({str(held)!r}, Path({str(tmp_path / 'log.txt')!r}), 1e6).call('start', {listener.getsockname()[1]})"
        said = f"from pathlib import Path\nfrom ot_draft.verify.engine import adapter\n{asked}"
        with subprocess.Popen([sys.executable, "-c", said]) as parent:
            while True:
                try:
                    connection, _ = listener.accept()
                    break
                except TimeoutError:
                    assert parent.poll() is None
            with connection:
                connection.settimeout(None)
                assert connection.recv(5) == b"begun"
                parent.kill()
                assert connection.recv(8) == b""


@pytest.mark.usefixtures("few_batches")
def test_the_command(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an adapter of one file, in its own process; of the kinds of requests, three are sent."""
    sent = {name: KINDS[name] for name in ("plain", "allowed tokens", "top-k")}
    monkeypatch.setattr(suite, "kinds_for", lambda n: sent)
    given = [
        "conform",
        ADAPTER,
        "--tokens",
        "8",
        "--requests",
        "400",
        "--models",
        str(models),
        "--json",
        str(tmp_path / "table.json"),
    ]
    done = CliRunner().invoke(main, [*given, "--set", "error=no allowed"])
    assert done.exit_code == 1, done.output
    table = json.loads((tmp_path / "table.json").read_text())
    assert [row["check"] for row in table["outcomes"] if row["status"] == "failed"] == ["allowed tokens, 8 tokens"]
    assert "accepted drafts" in done.output


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["nothing"], "ENGINE must be one of vllm"),
        (["no_such.py"], "ENGINE must be an existing file"),
        (["http://localhost:1"], "--models and a single --tokens are required"),
        (["vllm", "--set", "x"], "--set must be NAME=VALUE"),
        ([], "ENGINE or --models is required"),
    ],
)
def test_wrong_input_is_refused(given: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["conform", *given])
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


@pytest.fixture(scope="module")
def reference(models: Path) -> ReferencePair:
    return ReferencePair.load(*write(models / "8", 8))


@pytest.mark.parametrize("name", kinds_for(8))
def test_every_enumerated_law_is_a_law(name: str, reference: ReferencePair) -> None:
    """Where a setting that cuts tokens off decides by little somewhere, there is none: an engine's rounding may decide otherwise."""
    law, ends = reference.enumerated(KINDS[name]), KINDS[name].ends(8)
    if not law:
        assert {"top_k", "top_p", "min_p"} & KINDS[name].settings.keys() or not KINDS[name].temperature
        return
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    assert all(len(text) == DEPTH or text[-1] in ends for text in law)


def test_what_rounding_may_decide_is_not_judged(reference: ReferencePair) -> None:
    """llama.cpp keeps a token at .1499 of the largest, where min_p is .15: at this text it is no evidence, elsewhere it is."""
    generator, kind = np.random.default_rng(0), Kind((2, 3), {"min_p": 0.15})
    laws, _, sure = reference.laws(kind, np.array([[5, 3, 6, 1]]))
    assert laws[0, 3, 1] == 0
    assert sure[0].tolist() == [True, True, True, False]
    assert evidence.uniform_ranks(kind, [(5, 3, 6, 1)], reference, generator) is not None
    assert evidence.uniform_ranks(kind, [(5, 3, 6, 2)] * 2 + [(5, 0, 6, 1)], reference, generator) is None


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("min-p", "min-p before temperature"),
        ("logit bias", "bias after temperature"),
        ("top-p", "top-p before temperature"),
    ],
)
def test_the_order_of_settings_shows_in_the_law(name: str, error: str, reference: ReferencePair) -> None:
    kind = KINDS[name]
    asked, by = kind.settings, kind.temperature

    def law(logits: np.ndarray, texts: np.ndarray) -> np.ndarray:
        if error in simulated.BEFORE:
            return Kind(kind.prompt, asked | simulated.BEFORE[error](asked, by)).masses(logits, texts)[0]
        left, _ = Kind(kind.prompt, asked | {"temperature": 1.0}).masses(logits, texts)
        masses = np.where(left > 0, np.exp(logits / by), 0)
        return masses / masses.sum(-1, keepdims=True)

    assert reference.enumerated(kind)
    texts = drawn(kind, reference, int(kind.share * suite.SuiteSettings.requests), law)
    assert evidence.p_value(kind, texts, reference, np.random.default_rng(1)).p < 1e-9


@pytest.mark.parametrize("fewer", [0, 1])
def test_one_token_too_many_is_cut_off(fewer: int, reference: ReferencePair) -> None:
    """As many texts as the suite sends of them."""
    kind = KINDS["top-k"]
    law = Kind(kind.prompt, kind.settings | {"top_k": 4 - fewer})
    texts = drawn(kind, reference, int(kind.share * suite.SuiteSettings.requests), lambda *given: law.masses(*given)[0])
    p = evidence.p_value(kind, texts, reference, np.random.default_rng(1)).p
    assert p < 1e-12 if fewer else p > 1e-3


def drawn(
    kind: Kind, reference: ReferencePair, count: int, law: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> list[tuple[int, ...]]:
    """Texts to the kind's prompt by a law of the next token, law(logits, texts), without drafts."""
    generator = np.random.default_rng(0)
    texts = np.zeros((count, 0), dtype=np.int64)
    for _ in range(kind.request()["max_tokens"]):
        masses = law(reference.logits(reference.target, kind.prompt, texts)[:, -1], texts)
        following = [generator.choice(reference.n, p=row) for row in masses]
        texts = np.concatenate((texts, np.array(following)[:, None]), axis=1)
    return [tuple(text) for text in texts.tolist()]


def test_settings_are_those_of_transformers(reference: ReferencePair) -> None:
    """The laws by `generate`'s own processors, one call a text."""
    import torch

    for name in (
        "temperature",
        "top-k",
        "top-p",
        "top-k and top-p",
        "min-p",
        "repetition penalty",
        "logit bias",
        "allowed tokens",
    ):
        kind = KINDS[name]
        from ot_draft.verify.engine.engines import transformers

        request = {key: value for key, value in kind.request().items() if key != "prompt"}
        settings = transformers.settings(request, 8, len(kind.prompt)) | {
            "max_new_tokens": 1,
            "output_scores": True,
            "return_dict_in_generate": True,
        }
        out = reference.target.generate(torch.tensor([kind.prompt]), **settings)
        theirs = out.scores[0].double().softmax(-1)[0].numpy()
        nothing = np.zeros((1, 0), dtype=np.int64)
        ours, _ = kind.masses(reference.logits(reference.target, kind.prompt, nothing)[:, -1], nothing)
        assert np.abs(ours[0] - theirs).max() < 1e-5, name


def test_bets_are_fair() -> None:
    generator = np.random.default_rng(0)
    alarms = 0
    for _ in range(2000):
        chance = generator.uniform(0.05, 0.6, 60)
        alarms += evidence.by_bets(generator.random(60) < chance, chance) < 0.05
    assert alarms < stats.binom.isf(1e-9, 2000, 0.05)
    assert evidence.by_bets(np.ones(60, dtype=bool), np.full(60, 0.3)) < 1e-9


@pytest.mark.parametrize("masses", [(0.5, 0.5), (0.9, 0.1), (0.97, 0.02, 0.01), (0.4, 0.3, 0.2, 0.1)])
def test_counts_have_no_smaller_p_value_than_they_may(masses: tuple[float, ...]) -> None:
    """All counts of n draws, with their exact probabilities: the tail of the p-value is below it, everywhere."""
    law, n = np.array(masses), 30 if len(masses) < 4 else 20
    counts = np.array([each for each in np.ndindex(*[n + 1] * (len(law) - 1)) if sum(each) <= n])
    counts = np.column_stack((counts, n - counts.sum(-1)))
    chances = stats.multinomial.pmf(counts, n, law)
    values = np.array([evidence.by_counts(each, law) for each in counts])
    order = np.argsort(values)
    assert chances.sum() == pytest.approx(1)
    assert (chances[order].cumsum() <= values[order] * (1 + 1e-9)).all()
    assert values.min() < 1e-6


def test_a_small_cell_is_not_surer_than_the_exact_tail() -> None:
    """Eight expected: chi-square says 1e-10 where the exact tail is 3e-8. And large cells lose little against chi-square."""
    law, n = np.array([8 / 4000, 1 - 8 / 4000]), 4000
    for many in range(9, 60):
        assert evidence.by_counts(np.array([many, n - many]), law) > stats.binom.sf(many - 1, n, law[0])
    many = np.array([26, n - 26])
    assert stats.chisquare(many, n * law).pvalue < stats.binom.sf(25, n, law[0]) / 50
    assert evidence.by_counts(np.array([50, n - 50]), law) < 1e-12
    counts = np.array([410, 390, 340, 460, 470, 330, 320, 480]) * 5
    exact = stats.chisquare(counts).pvalue
    assert exact < evidence.by_counts(counts, np.full(8, 1 / 8)) < exact**0.9


def test_a_text_that_stops_early_or_has_no_mass_is_wrong(reference: ReferencePair) -> None:
    generator, kind = np.random.default_rng(0), Kind((1, 2), {"ignore_eos": False})
    assert evidence.p_value(kind, [(1, 2)], reference, generator).p == 0
    assert evidence.p_value(kind, [(7,)], reference, generator).p > 0
    assert evidence.p_value(KINDS["top-k"], [(0, 0, 0, 0), (7, 7, 7, 7)] * 50, reference, generator).p == 0


def test_the_plugin_of_pytest_has_a_test_for_each_engine(pytester: pytest.Pytester) -> None:
    """With an adapter that does not start: a failing test that says so, not a crash of pytest."""
    pytester.makepyfile(
        engine="def start(target, draft):\n    raise RuntimeError('out of order')\n"
        "def complete(requests):\n    pass\ndef stop():\n    pass\n"
    )
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--ot-conform", str(pytester.path / "engine.py"))
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*start, 8 tokens: crashed: *out of order*"])


@pytest.mark.parametrize("name", ["end of text", "stop tokens", "min tokens", "top-p"])
def test_texts_that_end_leave_every_view_uniform(name: str, reference: ReferencePair) -> None:
    """Drawn from the law itself. Pairs of places once left those out that ended between them: p = 4.5e-57 in 2,500 right texts."""
    generator, kind = np.random.default_rng(5), KINDS[name]
    simulated.STATE.update(models=reference, error="", rng=generator, memo={}, accepted=0)
    texts = [tuple(text) for text in simulated._texts(kind, [None] * 2500, DEPTH)]
    places = evidence.uniform_ranks(kind, texts, reference, generator)
    assert places is not None
    views = evidence.by_ranks(*places, generator)
    assert len(views) == 6
    assert min(views.values()) > 1e-4


@pytest.mark.parametrize("count", [400, 4000])
def test_the_bias_that_a_row_says_it_would_have_seen_is_seen(count: int, reference: ReferencePair) -> None:
    """Right texts of which every token behind the first is off by so much, half of the places in its law up and half of them down."""
    level, generator = 1e-6 / suite.SuiteSettings.max_rows, np.random.default_rng(0)
    right = generator.random((count, DEPTH))
    stated = evidence.PValue(1.0, "", views=11, min_tokens=count).detectable_bias(level)
    for _ in range(20):
        biased = generator.random((count, DEPTH))
        up = generator.random((count, DEPTH - 1)) < 0.5 + stated
        biased[:, 1:] = (np.floor(4 * biased[:, 1:]) + np.where(up, 0, 0.5) + generator.random(up.shape) / 2) / 4
        views = evidence.by_ranks(biased, np.ones_like(biased), generator)
        del views["towards the draft"]  # this direction is one that it does not see
        assert len(views) * min(views.values()) < level
    views = evidence.by_ranks(right, np.ones_like(right), generator)
    assert len(views) * min(views.values()) > 1e-3


@pytest.mark.parametrize(
    ("counters", "verdicts"),
    [
        ({"accepted drafts": 5, "cached tokens": 64}, [Status.PASSED, Status.PASSED]),
        ({"accepted drafts": 0, "cached tokens": 0}, [Status.UNDECIDED, Status.UNDECIDED]),
        ({}, [Status.SKIPPED, Status.SKIPPED]),
    ],
)
def test_a_law_without_drafts_or_a_cache_says_nothing_of_them(counters: dict[str, int], verdicts: list[str]) -> None:
    trial = suite.EngineTrial("", {}, Path(), 8, None, 1e-6, 1.0, np.random.default_rng(0), kinds=kinds_for(8))
    trial._described, trial.call = {"functions": ["counters"]}, lambda function: counters  # type: ignore[method-assign]
    drafts, cache = trial._drafts_accepted("drafts are accepted"), trial._prompts_cached("prompts come from a cache")
    assert [drafts.status, cache.status] == verdicts
    trial.kinds = kinds_for(2000)  # of them none is long enough for a block of a cache
    assert trial._prompts_cached("prompts come from a cache").status == Status.SKIPPED
