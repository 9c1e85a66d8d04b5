"""What `ot-draft capture` writes is what the models say, and the numbers that are studied from it are those of the models."""

from __future__ import annotations

import json
import math
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tiny_models import tiny_llama, tiny_pair

import ot_draft as otd
from ot_draft.cli.compare import compare
from ot_draft.cli.sweep import sweep
from ot_draft.data import open_shards

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from ot_draft.cli import replay as capture_replay  # noqa: E402
from ot_draft.cli.capture import shards as capture_shards  # noqa: E402
from ot_draft.cli.capture.command import capture  # noqa: E402
from ot_draft.cli.replay import replay as replay_command  # noqa: E402
from ot_draft.decoding import DecodeOptions, Drafting, Pair, decode  # noqa: E402

N = 16
TEXTS = ("w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12", "w3 w1 w4 w1 w5 w9 w2 w6 w5 w3 w5")
IDS = [[int(word[1:]) for word in text.split()] for text in TEXTS]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Pair]:
    """A folder with target/, draft/ and small/, and the pair that was saved there."""
    folder = tmp_path_factory.mktemp("models")
    pair = tiny_pair(5, n=N, dtype=torch.float32)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{i}": i for i in range(N)}, unk_token="w0"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words)
    for name, model in (("target", pair.target), ("draft", pair.draft), ("small", tiny_llama(2, 12))):
        model.float().save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return folder, pair


def run(models: tuple[Path, Pair], out: Path, *options: str, draft: str = "draft") -> Result:
    folder = models[0]
    given = ["--target", str(folder / "target"), "--draft", str(folder / draft), "--text", str(folder / "texts.jsonl")]
    return CliRunner().invoke(capture, [*given, "--out", str(out), *options])


def laws_of(model: Any, ids: list[int], first: int, temperature: float = 1.0) -> np.ndarray:
    logits = model(torch.tensor([ids])).logits[0, first - 1 : -1].double() / temperature
    return np.asarray(logits.softmax(-1))


def stored(out: Path, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    parts = [shard.read(0, shard.rows, temperature) for shard in open_shards([out], temperature)]
    p, q = (np.concatenate(laws) for laws in zip(*parts, strict=True))
    return p, q


@pytest.mark.parametrize("options", [("--number", "float32"), ("--number", "float16"), ("--format", "safetensors")])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_the_laws_are_those_of_the_models(
    models: Any, tmp_path: Path, options: tuple[str, ...], temperature: float
) -> None:
    assert run(models, tmp_path / "out", *options, "--positions", "0", "--skip", "2").exit_code == 0
    pair, tolerance = models[1], 2e-3 if "float16" in options else 3e-6  # of float32 logits, divided by the temperature
    for law, model in zip(stored(tmp_path / "out", temperature), (pair.target, pair.draft), strict=True):
        assert np.abs(law - np.concatenate([laws_of(model, ids, 2, temperature) for ids in IDS])).max() < tolerance


def test_a_draft_with_fewer_tokens_has_no_mass_beyond_them(models: Any, tmp_path: Path) -> None:
    # Pairs of one tokenizer, whose models pad their embeddings differently.
    assert run(models, tmp_path / "out", "--positions", "0", draft="small").exit_code == 0
    _, q = stored(tmp_path / "out")
    assert (q[:, 12:] == 0).all()
    assert (q[:, :12] > 0).all()


def test_windows_and_positions(models: Any, tmp_path: Path) -> None:
    assert run(models, tmp_path / "out", "--context", "6", "--skip", "1", "--positions", "3").exit_code == 0
    found = []
    for file in sorted((tmp_path / "out").glob("*.npz")):
        with np.load(file) as shard:
            found.append({name: shard[name] for name in ("position", "token", "text")})
    assert [shard["position"].tolist() for shard in found] == [[1, 2, 4], [7, 8, 10], [1, 2, 4], [7, 8, 9]]
    for shard in found:
        assert shard["token"].tolist() == [IDS[shard["text"][0]][place] for place in shard["position"]]


def test_sweep_of_a_capture_is_direct_computation(models: Any, tmp_path: Path) -> None:
    assert run(models, tmp_path / "out", "--positions", "0").exit_code == 0
    options = ["--rules", "KSeq,Optimal", "--k", "2,4", "--jobs", "1", "--engine", "threading", "--json"]
    made = CliRunner().invoke(sweep, [str(tmp_path / "out"), "--out", str(tmp_path / "swept"), *options])
    assert made.exit_code == 0, made.output
    pair = models[1]
    p, q = (np.concatenate([laws_of(model, ids, 8) for ids in IDS]) for model in (pair.target, pair.draft))
    for mean in json.loads(made.stdout):
        assert mean["pairs"] == len(p)
        assert mean["optimum"] == pytest.approx(otd.optimal_acceptance(p, q, mean["k"]).mean(), abs=1e-5)
        if mean["rule"] == "Optimal":
            assert mean["accepted"] == pytest.approx(mean["optimum"], abs=1e-5)


def test_laws_of_the_heaviest_tokens(models: Any, tmp_path: Path) -> None:
    assert run(models, tmp_path / "whole", "--store", "laws", "--temperature", "0.7").exit_code == 0
    assert run(models, tmp_path / "top", "--store", "laws", "--temperature", "0.7", "--top", "5").exit_code == 0
    (p, q), (merged_p, merged_q) = stored(tmp_path / "whole"), stored(tmp_path / "top")
    assert merged_p.shape[-1] == 5 + 32
    kept = otd.optimal_acceptance(merged_p, merged_q, 3)
    whole = otd.optimal_acceptance(p, q, 3)
    assert (kept >= whole - 1e-12).all()
    assert (kept - whole).max() < 1e-2
    assert np.abs(p[: len(IDS[0]) - 8] - laws_of(models[1].target, IDS[0], 8, 0.7)).max() < 1e-6


def test_compare_reads_captured_laws(models: Any, tmp_path: Path) -> None:
    assert run(models, tmp_path / "out", "--store", "laws", "--positions", "0").exit_code == 0
    file = tmp_path / "out" / "window-000000.npz"
    options = ["--rules", "KSeq", "--k", "2", "--lp-limit", "0", "--jobs", "1", "--json"]
    made = CliRunner().invoke(compare, [str(file), *options])
    assert made.exit_code == 0, made.output
    p, q = (laws_of(model, IDS[0], 8) for model in (models[1].target, models[1].draft))
    row = next(row for row in json.loads(made.stdout)["summary"] if row["rule"] == "KSeq")
    assert row["optimum"] == pytest.approx(otd.optimal_acceptance(p, q, 2).mean(), abs=1e-6)


def test_a_stopped_capture_goes_on(models: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(models, tmp_path / "whole", "--sample", "5").exit_code == 0
    made, calls = capture_shards.capture_window, list[int]()

    def dies(pair: Any, window: Any, reading: Any) -> Any:
        calls.append(window.text)
        if window.text == 1 and len(calls) == 2:
            raise KeyboardInterrupt
        return made(pair, window, reading)

    monkeypatch.setattr(capture_shards, "capture_window", dies)
    assert run(models, tmp_path / "out", "--sample", "5").exit_code != 0
    again = run(models, tmp_path / "out", "--sample", "5")
    assert "1 windows reused" in again.output
    assert calls == [0, 1, 1]
    files = [sorted(folder.glob("*")) for folder in (tmp_path / "whole", tmp_path / "out")]
    assert [file.name for file in files[0]] == [file.name for file in files[1]]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(*files, strict=True) if a.suffix == ".npz")


def test_another_model_under_the_same_name_is_another_capture(models: Any, tmp_path: Path) -> None:
    folder, out = tmp_path / "models", tmp_path / "out"
    shutil.copytree(models[0], folder)
    assert run((folder, models[1]), out).exit_code == 0
    other = tiny_llama(8, N, 2, torch.float32)
    other.save_pretrained(folder / "draft")
    (out / "window-000001.npz").unlink()
    again = run((folder, models[1]), out)
    assert again.exit_code == 2 and "got other weights in" in again.output


def test_texts_of_one_name_are_told_apart(models: Any, tmp_path: Path) -> None:
    texts = [tmp_path / name / "text.txt" for name in "ab"]
    for file, text in zip(texts, TEXTS, strict=True):
        file.parent.mkdir()
        file.write_text(text)
    more = [word for file in texts for word in ("--text", str(file))]
    assert run(models, tmp_path / "out", *more).exit_code == 0
    texts[0].write_text(TEXTS[1])
    assert "got other texts" in run(models, tmp_path / "out", *more).output


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_a_damaged_shard_is_captured_again(kind: str, models: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(models, out, "--format", kind).exit_code == 0
    file = out / f"window-000001.{kind}"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    (out / f".window-000000.0123.{kind}").write_bytes(whole[:9])  # what a kill leaves behind
    assert len(open_shards([out / f"window-000000.{kind}"])) == 1
    again = run(models, out, "--format", kind)
    assert "1 windows reused" in again.output and file.read_bytes() == whole
    assert len(open_shards([out])) == 2 and not list(out.glob(".*"))
    if kind == "npz":
        file.write_bytes(whole.replace(file.read_bytes()[200:204], b"\0\1\2\3", 1))
        assert "1 windows reused" in run(models, out).output and file.read_bytes() == whole


@pytest.mark.parametrize("content", ["", "[]", "[1]", "{", "\xff"])
def test_a_broken_manifest_of_a_capture(content: str, models: Any, tmp_path: Path) -> None:
    assert run(models, tmp_path / "out").exit_code == 0
    (tmp_path / "out" / "capture.json").write_bytes(content.encode("latin1"))
    refused = run(models, tmp_path / "out")
    assert (refused.exit_code == 2 and "capture.json" in refused.output) or "got other" in refused.output


def test_refusals(models: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(models, out).exit_code == 0
    for options, says in (
        (("--skip", "3"), "got other skip in"),
        (("--top", "5"), "Add --store laws"),
        (("--target", str(tmp_path / "nowhere")), "got other target in"),
    ):
        refused = run(models, out, *options)
        assert refused.exit_code == 2
        assert says in refused.output
        assert "Traceback" not in refused.output
    short = run(models, tmp_path / "short", "--skip", "50")
    assert short.exit_code == 2
    assert "Use longer texts" in short.output
    thinned = CliRunner().invoke(replay_command, [str(out / "nothing")])
    assert thinned.exit_code == 2


def test_survivors_against_enumeration() -> None:
    """All drafts of three living paths, for a rule that goes through them in order."""
    generator = np.random.default_rng(1)
    p, q = generator.dirichlet(np.ones(4), 2)
    for rule, token in product((otd.rules.KSeq(), otd.rules.RecursiveRejection()), range(4)):
        drafts = np.array(list(product(range(4), repeat=3)))
        shape = (len(drafts), 4)
        rows = rule(np.broadcast_to(p, shape), np.broadcast_to(q, shape), drafts).output(drafts)[:, token]
        weights = np.bincount((drafts == token).sum(-1), q[drafts].prod(-1) * rows, 4)
        assert weights.sum() == pytest.approx(p[token])
        found = capture_replay.survivors(rule, p, q, token, 3, 1000, generator)
        assert found == pytest.approx(weights / p[token], abs=0.03)


def test_one_path_is_exact() -> None:
    generator = np.random.default_rng(2)
    p, q = generator.dirichlet(np.ones(6), 2)
    for token in range(6):
        found = capture_replay.survivors(otd.rules.KSeq(), p, q, token, 1, 1, generator)
        assert found[1] == pytest.approx(min(1, q[token] / p[token]))


def test_block_efficiency_is_that_of_the_engine(models: Any, tmp_path: Path) -> None:
    """Within four standard errors of what decoding measures, at K = 3, L = 2, from texts that the target wrote."""
    pair, prompts = models[1], 16
    lines = "".join(json.dumps({"text": f"w{number} w{number // 3}"}) + "\n" for number in range(prompts))
    (models[0] / "prompts.jsonl").write_text(lines)
    given = ["--text", str(models[0] / "prompts.jsonl"), "--sample", "24", "--out", str(tmp_path / "out")]
    names = ["--target", str(models[0] / "target"), "--draft", str(models[0] / "draft")]
    assert CliRunner().invoke(capture, [*given, *names]).exit_code == 0
    options = ["--rules", "KSeq", "--paths", "1,3", "--length", "2", "--draws", "2", "--csv"]
    made = CliRunner().invoke(replay_command, [str(tmp_path / "out"), *options])
    assert made.exit_code == 0, made.output
    rows = [line.split(",") for line in made.stdout.splitlines()[1:]]
    assert [row[:3] for row in rows] == [["KSeq", "1", "2"], ["KSeq", "3", "2"]]
    for _, K, L, efficiency, error in rows:
        drafting = Drafting.chains(int(K), int(L), otd.trees.TokenWise(otd.rules.KSeq()))
        ids = [[number, number // 3] for number in range(prompts)] * 4
        decoded = decode(pair, ids, drafting, DecodeOptions(max_tokens=24, stop=()))
        lengths = np.concatenate([(step.length + 1)[step.active].numpy() for step in decoded.steps])
        measured = lengths.std() / math.sqrt(len(lengths))
        assert abs(float(efficiency) - decoded.block_efficiency) < 4 * math.hypot(float(error), measured)
        assert float(error) < 0.1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"one\ntwo\xff", "a.txt, line 2 must be UTF-8, got byte 0xff. Save the text as UTF-8."),
        ("a.jsonl", b'{"text": "w1"}\n{"text": "w\xe4"}\n', "a.jsonl, line 2 must be UTF-8, got byte 0xe4"),
        ("a.jsonl", b'{"text": "w1"}\n\n{"text": \n', "a.jsonl, line 3 must be a JSON object (Expecting value"),
        ("a.jsonl", b'{"text": "w1"}\n{"text": 5}\n', "a.jsonl, line 2 must be a JSON object with a string `text`"),
    ],
)
def test_a_text_that_cannot_be_read_is_named_with_its_line(
    name: str, content: bytes, said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    refused = CliRunner().invoke(capture, ["--text", str(tmp_path / name), "--out", str(tmp_path / "out")])
    assert refused.exit_code == 2 and said in " ".join(refused.output.split())


def test_what_ends_a_line_elsewhere_may_stand_in_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"text": "one\u2028two\\u000cthree"}\n\n{"text": "four"}\n', encoding="utf-8-sig"
    )
    assert [entry["text"] for entry in capture_shards.read_texts([tmp_path / "a.jsonl"])] == [
        "one\u2028two\x0cthree",
        "four",
    ]


def replayed(*words: object) -> Result:
    return CliRunner().invoke(replay_command, [*map(str, words), "--rules", "KSeq", "--paths", "1", "--length", "2"])


def test_laws_on_classes_are_not_replayed(models: tuple[Path, Pair], tmp_path: Path) -> None:
    """A token's id is no column of theirs: 1.51 tokens a call were said of texts with 1.83."""
    assert run(models, tmp_path / "top", "--sample", "8", "--store", "laws", "--top", "4").exit_code == 0
    assert run(models, tmp_path / "all", "--sample", "8", "--store", "laws").exit_code == 0
    assert replayed(tmp_path / "all").exit_code == 0
    assert "Capture without --top" in replayed(tmp_path / "top").output
    (tmp_path / "top" / "capture.json").unlink()
    refused = replayed(tmp_path / "top")
    assert refused.exit_code == 2 and "Capture without --top" in refused.output


@pytest.mark.parametrize(("token", "said"), [(99, "got 99."), (-1, "got -1."), (0.5, "got 0.5.")])
def test_a_token_that_is_none_is_named(token: float, said: str, models: tuple[Path, Pair], tmp_path: Path) -> None:
    assert run(models, tmp_path / "out", "--sample", "8").exit_code == 0
    file = tmp_path / "out" / "window-000001.npz"
    arrays = dict(np.load(file))
    arrays["token"] = arrays["token"].astype(type(token))
    arrays["token"][1:2] = token
    np.savez(file, **arrays)
    refused = replayed(tmp_path / "out")
    assert refused.exit_code == 2 and "window-000001.npz, row " in refused.output
    assert said in refused.output or token == 0.5


def test_texts_that_the_target_did_not_write_so_are_said(models: tuple[Path, Pair], tmp_path: Path) -> None:
    assert run(models, tmp_path / "read", "--positions", "0", "--skip", "1").exit_code == 0
    assert run(models, tmp_path / "written", "--sample", "8").exit_code == 0
    assert "the target did not generate these texts" in replayed(tmp_path / "read").output
    assert (
        "generated at temperature 1, and --temperature is 0.5"
        in replayed(tmp_path / "written", "--temperature", "0.5").output
    )
    assert "number of tokens of the given texts" not in replayed(tmp_path / "written").output
    long = CliRunner().invoke(
        replay_command, [str(tmp_path / "written"), "--rules", "KSeq", "--paths", "1", "--length", "2,50"]
    )
    assert long.exit_code == 2 and "requires a text with more than 50 contexts" in long.output


@pytest.mark.parametrize("special", ["<s> $A", "<s> $A </s>"])
def test_special_tokens_of_chats_are_those_of_the_template(models: Any, special: str) -> None:
    """The template writes <s> itself; a text without messages has the tokenizer's own special tokens."""
    vocabulary = {name: number for number, name in enumerate(["<s>", "</s>", "U", "A", "w1", "w2", "w3", "w4"])}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="</s>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    words.post_processor = tokenizers.processors.TemplateProcessing(special, special_tokens=[("<s>", 0), ("</s>", 1)])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = "<s> U {{ messages[0].content }} A "
    pair = Pair(models[1].target, models[1].draft, tokenizer)
    messages = [{"role": "user", "content": "w1 w2"}]
    entries = [{"messages": messages, "text": "w3 w4"}, {"messages": None, "text": "w3 w4"}]
    end = [1] * special.count("</s>")
    read = capture_shards.windows(entries, pair, capture_shards.Reading(skip=1))
    assert [window.tokens for window in read] == [[0, 2, 4, 5, 3, 6, 7], [0, 6, 7, *end]]
    assert [window.first for window in read] == [5, 1]
    written = capture_shards.windows(entries, pair, capture_shards.Reading(sample=3))
    assert [window.tokens for window in written] == [[0, 2, 4, 5, 3], [0, 6, 7, *end]]
    assert pair.encode("w1 w2", chat=True) == [0, 2, 4, 5, 3]
