"""llama.cpp beside ours: our draft as a GGUF file, the table, by a server that stands in for llama.cpp's, and what is said without it."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tiny_models import tiny_llama, tiny_pair

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")
pytest.importorskip("accelerate")
pytest.importorskip("httpx")
from safetensors.torch import save_file  # noqa: E402

from llm_demo.bench.llama_cpp import command, server  # noqa: E402
from llm_demo.bench.llama_cpp.draft_file import EMBEDDING, weights, write_draft  # noqa: E402
from llm_demo.bench.llama_cpp.method import continued  # noqa: E402
from llm_demo.models.load import DRAFT_FILE, TARGET_FILE, missing_packages, target_directory  # noqa: E402
from llm_demo.prompts import Prompt  # noqa: E402
from llm_demo.rows import read  # noqa: E402
from ot_draft.decoding import CannotDecode, DecodeOptions, SamplingParams, load_draft, load_pair  # noqa: E402
from ot_draft.decoding.draft_models import SubsetDraft  # noqa: E402

N, SUBSET = 40, torch.arange(1, 40, 3)
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2, "tie_word_embeddings": True}
BOX = transformers.GgufConfig(dequantize=True)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, SubsetDraft]:
    """A GGUF file of a target (of its tensors only the embedding), layers for it, and the draft that `load_draft` makes of both."""
    folder = tmp_path_factory.mktemp("tiny")
    target = tiny_llama(0, N, dtype=torch.float32, spread=0.1, **SIZES)
    embedding = target.get_input_embeddings().weight
    packed = gguf.quants.quantize(embedding.numpy(), gguf.GGMLQuantizationType.Q8_0)
    embedding.copy_(torch.from_numpy(gguf.quants.dequantize(packed, gguf.GGMLQuantizationType.Q8_0)))
    _write_target(folder / "target.gguf", target.config, packed)
    small = tiny_llama(1, N, 2, torch.float16, 0.1, **SIZES).state_dict()
    layers = {name: tensor for name, tensor in small.items() if "embed" not in name and "lm_head" not in name}
    save_file({**layers, "vocabulary_subset": SUBSET.int()}, folder / "draft.safetensors")
    return folder / "target.gguf", folder / "draft.safetensors", load_draft(target, folder / "draft.safetensors")


def _write_target(file: Path, config: Any, embedding: Any) -> None:
    writer = gguf.GGUFWriter(file, "llama")
    for add, value in (
        (writer.add_name, "tiny"),
        (writer.add_file_type, 3),
        (writer.add_block_count, 1),
        (writer.add_context_length, 256),
        (writer.add_embedding_length, config.hidden_size),
        (writer.add_feed_forward_length, 9),  # the draft's is another
        (writer.add_head_count, config.num_attention_heads),
        (writer.add_head_count_kv, config.num_key_value_heads),
        (writer.add_rope_freq_base, config.rope_parameters["rope_theta"]),
        (writer.add_layer_norm_rms_eps, config.rms_norm_eps),
        (writer.add_vocab_size, N),
        (writer.add_tokenizer_model, "gpt2"),
        (writer.add_token_list, [f"t{i}" for i in range(N)]),
        (writer.add_token_merges, ["t 1"]),
    ):
        add(value)
    writer.add_tensor(EMBEDDING, embedding, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _read(file: Path) -> Any:
    model = transformers.AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32, quantization_config=BOX, local_files_only=True
    )
    return model.eval()


def _laws(model: Any, draft: SubsetDraft, tokens: Any) -> tuple[Any, Any]:
    """Of a model on the whole vocabulary, given the subset, and of the draft."""
    with torch.inference_mode():
        return model(tokens).logits[..., draft.vocabulary_subset].softmax(-1), draft(tokens).softmax(-1)


@pytest.mark.parametrize(("kind", "least", "most"), [("f16", 0, 1e-6), ("q8_0", 1e-5, 0.02)])
def test_the_file_has_the_laws_of_the_draft(kind: str, least: float, most: float, tiny: Any, tmp_path: Path) -> None:
    """As transformers reads it; the layers are in half precision already, so that f16 rounds nothing."""
    target, layers, draft = tiny
    write_draft(target, layers, tmp_path / "draft.gguf", kind)
    tokens = torch.randint(N, (8, 20), generator=torch.Generator().manual_seed(3))
    theirs, ours = _laws(_read(tmp_path / "draft.gguf"), draft, tokens)
    assert least <= (theirs - ours).abs().sum(-1).max() / 2 < most
    assert (ours - 1 / len(SUBSET)).abs().sum(
        -1
    ).mean() > 0.2  # the laws say something, and other things in other places
    assert (ours[:, 1:] - ours[:, :-1]).abs().sum(-1).mean() > 0.2


def test_settings_tokenizer_and_embedding_are_the_targets(tiny: Any, tmp_path: Path) -> None:
    target, layers, _ = tiny
    write_draft(target, layers, tmp_path / "draft.gguf", "q8_0")
    before, after = gguf.GGUFReader(target), gguf.GGUFReader(tmp_path / "draft.gguf")
    changed = {
        name
        for name, field in after.fields.items()
        if not name.startswith("GGUF.")
        and (name not in before.fields or field.contents() != before.fields[name].contents())
    }
    assert changed == {"general.name", "llama.block_count", "llama.feed_forward_length", "general.file_type"}
    assert set(before.fields) <= set(after.fields)
    assert after.fields["llama.block_count"].contents() == 2
    assert after.fields["tokenizer.ggml.tokens"].types == before.fields["tokenizer.ggml.tokens"].types
    kept = next(tensor for tensor in after.tensors if tensor.name == EMBEDDING)
    assert (kept.data == before.tensors[0].data).all() and kept.tensor_type == before.tensors[0].tensor_type
    count, size, types = weights(tmp_path / "draft.gguf")
    matrices = N * 64 + 2 * (64 * (64 + 32 + 32 + 64) + 3 * 64 * 96)
    assert (count, size, types) == (matrices + 5 * 64, matrices // 32 * 34 + 4 * 5 * 64, "Q8_0 F32")


def test_layers_of_another_kind_of_model_are_refused(tiny: Any, tmp_path: Path) -> None:
    save_file(
        {"model.layers.0.mlp.gate_proj.weight": torch.ones(4, 4), "fuse.weight": torch.ones(4, 4)}, tmp_path / "a"
    )
    with pytest.raises((CannotDecode, KeyError)):
        write_draft(tiny[0], tmp_path / "a", tmp_path / "draft.gguf", "f16")


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_packages()), reason="the embedded models are not installed")
def test_the_embedded_draft_as_a_file(tmp_path: Path) -> None:
    target = target_directory() / TARGET_FILE
    pair = load_pair(str(target), str(DRAFT_FILE), backend="torch")
    tokens = torch.tensor(
        [pair.encode("The museum opens at nine in the morning. def merge(left, right):\n    return left")]
    )
    write_draft(target, DRAFT_FILE, tmp_path / "draft.gguf", "f16")
    theirs, ours = _laws(_read(tmp_path / "draft.gguf"), pair.draft, tokens)
    assert (theirs - ours).abs().sum(-1).max() / 2 < 1e-4


class Answers(BaseHTTPRequestHandler):
    """POST /completion as llama.cpp answers it: 10 tokens, of which so many were drafted, in 90 ms without the first one."""

    def do_POST(self) -> None:
        self.server.seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))  # type: ignore[attr-defined]
        status, timings = self.server.answer  # type: ignore[attr-defined]
        body = json.dumps({"content": "", "timings": timings} if timings else {"error": "no such thing"}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        """Nothing."""


@contextmanager
def standing_in(status: int = 200, **timings: float) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Its address, and the requests that it saw."""
    found = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    found.seen, found.answer = [], (status, timings)  # type: ignore[attr-defined]
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{found.server_port}", found.seen  # type: ignore[attr-defined]
    finally:
        found.shutdown()
        thread.join()
        found.server_close()


def test_what_the_server_is_asked() -> None:
    with standing_in(predicted_n=10, predicted_ms=90) as (url, seen):
        done = continued(url, [3, 1, 4], DecodeOptions(SamplingParams(0.6), max_tokens=10), 7)
    assert (done.tokens, done.accepted, done.calls, done.seconds) == (10, 0, 10, 0.09)
    (asked,) = seen
    assert (asked["prompt"], asked["n_predict"], asked["seed"], asked["temperature"]) == ([3, 1, 4], 10, 7, 0.6)
    assert (asked["top_k"], asked["top_p"], asked["min_p"], asked["cache_prompt"]) == (0, 1, 0, False)


@pytest.mark.parametrize(
    ("status", "timings", "said"),
    [(500, {}, "answers 500"), (200, {}, "not return timings"), (200, {"prompt_n": 3}, "not return timings")],
)
def test_a_server_that_does_not_answer_well(status: int, timings: dict[str, float], said: str) -> None:
    with standing_in(status, **timings) as (url, _), pytest.raises(CannotDecode, match=said):
        continued(url, [1], DecodeOptions(), 0)


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(CannotDecode, match="does not answer"):
        continued(f"http://127.0.0.1:{server.free_port()}", [1], DecodeOptions(), 0)


def test_the_table(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, layers, _ = tiny
    out, started = tmp_path / "rows.csv", []
    prompts = [Prompt("chat", [1, 2, 3]), Prompt("code", [4, 5, 4])]
    with standing_in(predicted_n=10, predicted_ms=90, draft_n=12, draft_n_accepted=4) as (url, seen):

        @contextmanager
        def instead(python: str, settings: server.Settings, log: Path) -> Iterator[str]:
            started.append(settings)
            assert settings.gguf == str(target) and Path(settings.draft).is_file()
            yield url

        monkeypatch.setattr(command, "llama_server", instead)
        monkeypatch.setattr(command, "version", lambda python: "1.2.3")
        monkeypatch.setattr(command, "load_pair", lambda *files: tiny_pair(0))
        monkeypatch.setattr(command, "read_prompts", lambda *which: prompts)
        words = ["--out", out, "--target", target, "--draft", layers, "--temperature", "0.6", "--tokens", "8"]
        done = CliRunner().invoke(command.main, list(map(str, words)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    rows = read(out)
    assert [(settings.drafts, settings.length) for settings in started] == list(command.SERVERS)
    assert len(seen) == len(prompts) * len(started) and {asked["temperature"] for asked in seen} == {0.6}
    assert len(rows) == 3 * (4 + len(started)) == len(done.output.splitlines()[-len(rows) :])
    theirs = [row for row in rows if row["engine"] == "llama.cpp"]
    assert len(theirs) == 3 * len(started)
    for row in theirs:  # 6 calls, 5 of them in 90 ms
        assert float(row["tokens_a_call"]) == pytest.approx(10 / 6, rel=1e-3)
        assert float(row["tokens_a_second"]) == pytest.approx(10 / 6 / 0.018, rel=1e-3)
        assert float(row["of_its_plain"]) == pytest.approx(1, rel=1e-3) and row["weights"] == "Q8_0"
    ours = [row for row in rows if row["engine"] == "ot_draft"]
    assert {row["weights"] for row in ours} == {"F32, from Q8_0"} and all(
        "xllamacpp 1.2.3" in row["versions"] for row in rows
    )
    assert [row["of_its_plain"] for row in ours if row["method"] == "autoregressive"] == ["1"] * 3
    assert {row["method"].split(",")[0].split()[0] for row in ours} == {
        "autoregressive",
        "speculativesampling",
        "block",
        "auto",
    }


@pytest.mark.parametrize(
    ("python", "said"),
    [(sys.executable, f"pip install --no-deps {server.WHEEL}"), ("/nowhere/python", "must be a Python executable")],
)
def test_without_llama_cpp(python: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of its name that cannot be imported: whether it is installed here or not, this python has none."""
    (tmp_path / "xllamacpp.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = CliRunner().invoke(command.main, ["--out", str(tmp_path / "rows.csv"), "--llama-python", python])
    assert done.exit_code == 2 and said in " ".join(done.output.split()) and not (tmp_path / "rows.csv").exists()


def test_a_server_that_ends_at_once_is_seen_and_quoted(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with (
        server.running([sys.executable, "-c", "raise SystemExit('no memory left')"], log, {}) as process,
        pytest.raises(CannotDecode, match="ended with 1:\nno memory left"),
    ):
        server.until_it_answers(f"http://127.0.0.1:{server.free_port()}", log, process)


def test_the_wheel_is_the_one_that_the_engines_are_tested_with() -> None:
    assert f'LLAMA = "{server.WHEEL}"' in (Path(__file__).parents[1] / "engines/set_up.py").read_text()
