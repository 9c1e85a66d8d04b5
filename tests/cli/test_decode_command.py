"""`ot-draft decode`: texts, the table of methods with its prediction, and one clear line for wrong input."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from slow import slow

import ot_draft as otd

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from measured import two_methods  # noqa: E402
from rich.console import Console  # noqa: E402
from tiny_folders import save_tiny_pair  # noqa: E402

from llm_demo.models.load import load_pair, missing_packages  # noqa: E402
from ot_draft.cli import main  # noqa: E402
from ot_draft.cli.decode import run  # noqa: E402
from ot_draft.cli.decode.command import decode as command  # noqa: E402
from ot_draft.cli.decode.live import (  # noqa: E402
    LiveView,
    Pieces,
    stream,
)
from ot_draft.cli.decode.table import why  # noqa: E402
from ot_draft.cli.plan import read_costs  # noqa: E402
from ot_draft.decoding import (  # noqa: E402
    Auto,
    DecodeOptions,
    Pair,
    PromptLookup,
    SamplingParams,
    decode,
    decode_steps,
    reference_decode,
)
from ot_draft.decoding.benchmark.peers import peers  # noqa: E402
from ot_draft.decoding.methods import auto_method, lookup_method, method_called, methods_to_compare, shape_of  # noqa: E402
from ot_draft.errors import CannotDecode, InvalidArgument  # noqa: E402
from ot_draft.trees.evaluation.wall_clock import Efficiency  # noqa: E402

PROMPTS = ["--prompt", "a b c", "--prompt", "d e"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return save_tiny_pair(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def pair(models: list[str]) -> Pair:
    return load_pair(models[1], models[3])


def call(*words: str) -> Result:
    return CliRunner().invoke(command, words)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("joint", ()),
        ("autoregressive", ()),
        ("block", ("--shape", "1x3")),
        ("KSeq", ("--shape", "2x3")),
        ("Optimal", ("--draft-law", "hybrid:1", "--shape", "3,2")),
        ("recursive-rejection-without-replacement", ("--shape", "3,2,1")),
        ("naive", ("--shape", "3,2")),
        ("NaiveTarget", ("--draft-law", "iid")),
        ("Optimal", ("--draft-law", "top", "--shape", "2,2")),
    ],
)
def test_texts_are_the_engines(models: list[str], pair: Pair, rule: str, words: tuple[str, ...]) -> None:
    sampling = ["--temperature", "0.8", "--top-k", "6", "--seed", "3", "--max-tokens", "9"]
    result = call(*models, *PROMPTS, *sampling, "--rule", rule, *words)
    assert result.exit_code == 0, result.output
    given = dict(zip(words[::2], words[1::2], strict=True))
    shape = given.get("--shape", "4x4")
    tree = tuple(map(int, shape.split(","))) if "," in shape else None
    paths, length = map(int, ["4", "4"] if tree else shape.split("x"))
    method = method_called(rule, given.get("--draft-law"), shape_of(paths, length, tree))
    options = DecodeOptions(SamplingParams(0.8, top_k=6), max_tokens=9, seed=3)
    expected = decode(pair, [pair.encode("a b c"), pair.encode("d e")], method.drafting, options).tokens
    assert [line.split() for line in result.stdout.splitlines()] == [pair.text(text).split() for text in expected]
    assert result.stderr.count("9 tokens in") == 2 and "tokens/s" in result.stderr
    (memory,) = re.findall(r"^peak memory: (.*) GB$", result.stderr, re.MULTILINE)
    assert 0.1 < float(memory) < 64


@pytest.mark.parametrize(("words", "tokens"), [((), 2 * 7), (("--compare", "--rule", "joint"), None)])
def test_models_are_loaded_for_so_many_tokens(
    words: tuple[str, ...], tokens: int | None, models: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comparison decodes every text many times."""
    given, load = dict[str, Any](), run.load_models
    monkeypatch.setattr(run, "load_models", lambda *names, **options: given.update(options) or load(*names, **options))
    assert call(*models, *PROMPTS, "--max-tokens", "7", *words).exit_code == 0
    assert given["tokens"] == tokens


def test_a_prompt_file(models: list[str], tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("a b c\n\nd e\n")
    live = call(*models, *PROMPTS, "--max-tokens", "5", "--shape", "2x2")
    read = call(*models, "--prompt-file", str(file), "--max-tokens", "5", "--shape", "2x2")
    assert read.stdout == live.stdout and len(read.stdout.split()) == 10


@pytest.mark.parametrize("tokens", [4, slow(12)])
def test_comparison_as_json_feeds_plan(tokens: int, models: list[str], tmp_path: Path) -> None:
    size = ("--max-tokens", str(tokens), "--shape", "2x3")
    result = call(*models, *PROMPTS, "--compare", "json", *size)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    rows = {(row["rule"], row["law"]): row for row in found["methods"]}
    told = [(method.rule, method.law) for method in methods_to_compare(2, 3, None)]
    others = ["lookup", "auto", "transformers, plain", "transformers, assisted", "transformers, prompt lookup"]
    assert list(rows)[: len(told)] == told and [rule for rule, _ in list(rows)[len(told) :]] == others
    assert all(
        rows[name, ""]["tokens_a_second"] > 0 and rows[name, ""]["predicted"] is None for name in ("lookup", "auto")
    )
    assert rows["autoregressive", ""]["block_efficiency"] == 1 and rows["autoregressive", ""]["speed_up"] == 1
    assert rows["recursiverejectionwithoutreplacement", "without-replacement"]["drafts"].startswith("tree 2,2,1,")
    pair = load_pair(models[1], models[3])
    for name, law in (("joint", "iid"), ("naive", "top")):
        method = next(each for each in methods_to_compare(2, 3, None) if (each.rule, each.law) == (name, law))
        prompts = [pair.encode("a b c"), pair.encode("d e")]
        made = decode(pair, prompts, method.drafting, DecodeOptions(max_tokens=tokens))
        assert rows[name, law]["block_efficiency"] == pytest.approx(made.block_efficiency, rel=1e-12)
    costs = tmp_path / "costs.json"
    costs.write_text(json.dumps(found["costs"]))
    # The prediction of the table is that of `plan` from the same costs and the measured block efficiencies.
    read = read_costs(costs)
    for (name, law), row in rows.items():
        if law == "iid" and row["drafts"].startswith("2 × 3"):
            called = method_called(name, law, shape_of(2, 3, None)).drafting.rule
            measured = Efficiency(getattr(called, "rule", called).name, 2, 3, row["block_efficiency"])
            assert otd.trees.plan([measured], read)[0].speed_up == pytest.approx(row["predicted"], rel=1e-9)
    planned = CliRunner().invoke(main, ["plan", "--costs", str(costs), "--iterations", "4", "--vocabulary", "20"])
    assert planned.exit_code == 0, planned.output


def test_comparison_as_table_and_csv(models: list[str]) -> None:
    words = (*models, *PROMPTS, "--max-tokens", "6", "--shape", "2x2")
    table = call(*words, "--compare")
    shown = table.stdout
    assert "autoregressive (no draft), 1 of 2 prompts: 1.00 tokens per target call, " in table.stderr
    for method in (
        *methods_to_compare(2, 2, None),
        lookup_method(),
        auto_method(),
        *peers(load_pair(models[1], models[3]), 2),
    ):
        assert method.label.split()[0] in shown and method.drafts.split(",")[0] in shown
    assert "predicted" in shown and "A target call takes" in shown
    chosen = call(*words, "--compare", "csv", "--rule", "KSeq", "--rule", "joint").stdout.splitlines()
    assert [line.split(",")[0] for line in chosen] == ["rule", "autoregressive", "kseq", "joint"]


def test_the_footnote_says_why_time_is_lost_or_gained() -> None:
    assert "needs more than 4.00 tokens per target call: the target's time grows" in why(two_methods(3.25, 3.25))
    assert "saves time above 2.00 tokens per target call" in why(two_methods(1.25, 1.25))


def costs_file(folder: Path) -> Path:
    """Costs of a machine on which positions are free, so that something is drafted."""
    file = folder / "costs.json"
    file.write_text(json.dumps({"verify": {"1": 10, "64": 11}, "draft": {"1": 0.1, "8": 0.1}}))
    return file


def test_the_shape_chooses_itself_unless_told(models: list[str], tmp_path: Path) -> None:
    words = (*models, "--prompt", "a b a b a b", "--max-tokens", "30", "--costs", str(costs_file(tmp_path)))
    shown = call(*words)
    assert shown.exit_code == 0, shown.output
    assert call(*words, "--shape", "auto").stdout == shown.stdout  # by given costs, the seed says what comes
    pair, costs = load_pair(models[1], models[3]), read_costs(costs_file(tmp_path))
    made = decode(pair, [pair.encode("a b a b a b")], Auto(costs=costs), DecodeOptions(max_tokens=30))
    assert shown.stdout.split() == pair.text(made.tokens[0]).split()
    assert len({step.drafting for step in made.steps}) > 1
    by_clock = call(*models, "--prompt", "a b", "--max-tokens", "9")
    assert by_clock.exit_code == 0 and len(by_clock.stdout.split()) == 9


def test_a_text_of_many_shapes_is_audited_and_has_a_page(models: list[str], tmp_path: Path) -> None:
    page, log = tmp_path / "page.html", tmp_path / "log.jsonl"
    words = (*models, "--prompt", "a b a b a b", "--max-tokens", "30", "--costs", str(costs_file(tmp_path)))
    shown = call(*words, "--out", str(page), "--audit", str(log))
    assert shown.exit_code == 0 and "audit:" in shown.stderr, shown.output
    assert len(log.read_text().splitlines()) >= 30
    drawn = page.read_text()
    assert (
        drawn.count('class="t ') == 30
        and "accepted draft token" in drawn
        and "sampled after all draft tokens were rejected" in drawn
    )


def test_prompt_lookup_needs_no_draft_model(models: list[str], tmp_path: Path) -> None:
    words = (*models[:2], "--draft", "lookup", "--prompt", "a b a b a b", "--max-tokens", "20", "--seed", "4")
    shown = call(*words, "--prompt-lookup", "3,1")
    assert shown.exit_code == 0, shown.output
    pair = load_pair(models[1], "lookup")
    assert pair.draft is None
    prompt, drafting = pair.encode("a b a b a b"), lookup_method(PromptLookup(3, 1)).drafting
    expected = reference_decode(pair, prompt, drafting, DecodeOptions(max_tokens=20, seed=4))
    assert shown.stdout.split() == pair.text(expected).split()
    auto = call(*words, "--shape", "auto", "--costs", str(costs_file(tmp_path)))
    assert auto.exit_code == 0 and len(auto.stdout.split()) == 20, auto.output
    compared = call(*words, "--compare", "csv").stdout.splitlines()
    names = [line.split(",")[0] for line in compared[1:4]]
    assert names == ["autoregressive", "lookup", "auto"] and "assisted" not in str(compared)


def test_the_live_view_as_a_picture(models: list[str], tmp_path: Path) -> None:
    file = tmp_path / "view.svg"
    words = (*models, *PROMPTS, "--max-tokens", "9", "--rule", "joint", "--out", str(file))
    assert call(*words).exit_code == 0
    for drawn in (file.read_text(),):
        assert drawn.startswith("<svg") and "#009e73" in drawn.lower() and "tokens/s" in drawn.replace("&#160;", " ")
        assert "url(http" not in drawn  # no font of the network


def test_a_character_of_several_tokens_comes_whole() -> None:
    codes = "é—x".encode()
    pieces = Pieces(lambda tokens: bytes(tokens).decode(errors="replace"))
    assert [pieces.add(code) for code in codes] == ["", "é", "", "", "—", "x"]


def test_live_view_in_a_terminal(models: list[str]) -> None:
    pair = load_pair(models[1], models[3])
    method = method_called("joint", None, shape_of(2, 2, None))
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=200, color_system="truecolor")
    steps = decode_steps(pair, [pair.encode("a b")], method.drafting, DecodeOptions(max_tokens=12))
    passed = list(stream(console, LiveView(pair, "a b"), steps))
    text = pair.text([token for step in passed for token in step.tokens(0)])
    assert len(text.split()) == 12 and "tokens/s" in out.getvalue()
    assert "38;2;0;158;115m" in out.getvalue()  # the colour of accepted tokens


def test_a_prompt_file_is_text_in_utf_8(tmp_path: Path) -> None:
    """With or without the mark that some editors begin a file with; what is no UTF-8 is told by its line."""
    file = tmp_path / "prompts.txt"
    for mark in (b"", b"\xef\xbb\xbf"):
        file.write_bytes(mark + "né\n\n  \nb c\n".encode())
        assert run.read_prompts(["a"], file) == ["a", "né", "b c"]
        file.write_bytes(mark + b"a\nb\nn\xe9\n")
        with pytest.raises(CannotDecode, match=r"got byte 0xe9 in .*, line 3\. Save it as UTF-8"):
            run.read_prompts([], file)


BAD: dict[str, tuple[list[str], str]] = {
    "no paths": (["--shape", "0x4"], "paths must be an integer of at least 1, got 0"),
    "no length": (["--shape", "4x0"], "length must be an integer of at least 1, got 0"),
    "not there": (["--target", "./nowhere"], "'./nowhere' does not exist"),
    "device": (["--device", "abacus"], "got 'abacus'. Use cpu or cuda"),
    "no rule": (["--rule", "Fastest"], "got 'Fastest'"),
    "no law": (["--draft-law", "best"], "draft law must be one of iid"),
    "rule and draws": (["--rule", "KSeq", "--draft-law", "without-replacement"], "drawn by WithoutReplacement()"),
    "block and paths": (["--rule", "block", "--shape", "2x4"], "BlockVerification requires one draft path"),
    "tree": (["--shape", "4,x"], "got '4,x'"),
    "temperature": (["--temperature", "-1"], "temperature must be 0 (greedy) or more, got -1"),
    "tokens": (["--max-tokens", "0"], "--max-tokens must be from 1 to 1,000,000, got 0"),
    "too long": (["--max-tokens", "300"], "the target's context is 256 tokens"),
    "no chat": (["--chat"], "--chat requires a target with a chat template"),
    "prompt file": (["--prompt-file", "nowhere.txt"], "got 'nowhere.txt' (No such file"),
    "two rules": (["--rule", "joint", "--rule", "KSeq"], "several --rule"),
    "other table": (["--compare", "xml"], "'xml' is not one of"),
    "page of a comparison": (["--compare", "--out", "x.html"], "--out and --audit require a single rule"),
    "page nowhere": (["--out", "nowhere/x.html"], "must be in an existing folder"),
    "other kind of file": (["--out", "x.pdf"], "one .html and one .svg file at most, got 'x.pdf'"),
    "no shape": (
        ["--shape", "wide"],
        "--shape must be auto, KxL, numbers of children per level, or dynamic:NODES, got 'wide'",
    ),
    "shape and rule": (["--shape", "auto", "--rule", "joint"], "Remove --rule and --draft-law"),
    "trace of auto": (["--shape", "auto", "--trace", "new"], "--trace requires a draft model and trees of one shape"),
    "costs of one shape": (["--rule", "joint", "--costs", "x.json"], "--costs requires --shape auto"),
    "costs of named methods": (
        ["--compare", "--rule", "joint", "--costs", "x.json"],
        "--costs requires --shape auto",
    ),
    "costs nowhere": (["--costs", "nowhere.json"], "nowhere.json"),
    "lookup of one shape": (
        ["--shape", "2x2", "--prompt-lookup", "10,3"],
        "this shape does not use prompt lookup",
    ),
    "shape and lookup": (["--draft", "lookup", "--shape", "4x4"], "draft one path by their own rule"),
    "rule and lookup": (["--draft", "lookup", "--rule", "joint"], "draft one path by their own rule"),
    "trace of lookup": (["--draft", "lookup", "--trace", "new"], "--trace requires a draft model"),
    "nothing looked up": (
        ["--draft", "lookup", "--prompt-lookup", "0"],
        "must be one or two positive integers, got '0'",
    ),
    "picture nowhere": (["--out", "nowhere/x.svg"], "must be in an existing folder"),
    "trace in use": (["--trace", "."], "--trace must be a new or empty folder"),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_input_is_told_in_one_line(
    models: list[str], name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "something").touch()
    words, told = BAD[name]
    result = call(*models, "--prompt", "a b", *words)
    assert result.exit_code == 2
    # Above it may stand bars of transformers, where the tests had loaded it before.
    said = result.stderr.splitlines()[-1]
    assert said.startswith("Error: ") and told in said and result.stderr.count("Error") == 1


def test_vocabularies_that_differ(models: list[str], tmp_path: Path) -> None:
    from tiny_folders import tokenizer
    from tiny_models import tiny_llama

    tiny_llama(1, 9, dtype=torch.float32).save_pretrained(tmp_path)
    tokenizer("abcdefghx").save_pretrained(tmp_path)
    result = call(*models[:2], "--draft", str(tmp_path), "--prompt", "a")
    assert result.exit_code == 2 and "the tokenizers differ" in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(("words", "size"), [("abcdefghijklxy", 14), ("abcdefghij", 10)])
def test_tokens_added_at_the_end_of_one_vocabulary(models: list[str], tmp_path: Path, words: str, size: int) -> None:
    from tiny_folders import tokenizer
    from tiny_models import tiny_llama

    tiny_llama(1, size, dtype=torch.float32).save_pretrained(tmp_path)
    tokenizer(words).save_pretrained(tmp_path)
    words = "--prompt", "a b l", "--temperature", "0", "--max-tokens", "9"
    plain = call(*models, *words, "--rule", "autoregressive")
    assert call(*models[:2], "--draft", str(tmp_path), *words, "--shape", "2x2").stdout == plain.stdout


def test_a_method_of_its_own_law_and_label() -> None:
    method = method_called("Optimal", "hybrid:auto", shape_of(4, 3, None))
    assert method.drafting.tree.law == otd.Hybrid("auto") and method.label == "Optimal"
    assert method.drafts == "4 × 3, hybrid, j from q" and method.slug == "optimal-hybrid-auto-4-x-3"
    assert replace(method).drafting == method.drafting


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_packages()), reason="the real models are not installed")
def test_the_embedded_pair(tmp_path: Path) -> None:
    page, trace = tmp_path / "page.html", tmp_path / "trace"
    words = ("--prompt", "The capital of France is", "--no-chat", "--temperature", "0", "--max-tokens", "6")
    result = call(*words, "--rule", "KSeq", "--out", str(page), "--trace", str(trace))
    assert result.exit_code == 0, result.output
    assert "Paris" in result.stdout
    assert page.stat().st_size > 10_000 and (trace / "pairs-00000.npz").is_file()


def test_more_top_tokens_than_paths_are_an_error() -> None:
    with pytest.raises(InvalidArgument, match="at most k top tokens, hybrid:3, got 'hybrid:99'"):
        method_called("Optimal", "hybrid:99", shape_of(3, 2, None))
