"""Distillation: where the draft starts, what is trained, on which text, and what comes out as a file."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tiny_models import tiny_llama

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

from llm_demo import acceptance  # noqa: E402
from llm_demo.data.continue_prompts import read_entries  # noqa: E402
from llm_demo.distil import command as distil  # noqa: E402
from llm_demo.distil import corpus as distil_corpus  # noqa: E402
from llm_demo.distil import text as distil_text  # noqa: E402
from llm_demo.distil import train as distil_train  # noqa: E402
from llm_demo.distil.states import StateTrainer, state_draft  # noqa: E402
from llm_demo.distil.text import Text  # noqa: E402
from llm_demo.distil.train import Recipe, Trainer, student  # noqa: E402
from llm_demo.prompts import FILE, Prompt  # noqa: E402
from ot_draft.decoding import CannotDecode, Pair, decode, load_draft  # noqa: E402
from ot_draft.decoding.draft_models import StateDraft  # noqa: E402

CONTEXTS = Path(__file__).parents[2] / "figures" / "data" / "contexts.jsonl"
RECIPE = Recipe(layers=1, rows=4, length=12, warm_up=2)
WHOLE = range(12)


def tiny_target(**changes: Any) -> Any:
    return tiny_llama(3, 12, 2, dtype=torch.float32, tie_word_embeddings=True, **changes)


class Tokenizer:
    """Letters as tokens 0 .. 11; no chat template."""

    chat_template = None

    def __call__(self, text: str, add_special_tokens: bool = True) -> Any:
        return SimpleNamespace(input_ids=[ord(letter) % 12 for letter in text][:5])


def tiny_texts(target: Any, count: int = 8, length: int = 12) -> list[Text]:
    pair = Pair(target, target, Tokenizer())
    return distil_text.sample(pair, count, length, seed=2)


def test_a_corpus_is_written_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tiny_target()
    monkeypatch.setattr(distil_corpus, "load_pair", lambda **options: Pair(target, target, Tokenizer()))
    file, given = tmp_path / "corpus.npz", ["--minutes", "1e-9", "--rows", "4", "--length", "6"]
    for seed, count in ((2, 4), (2, 4), (3, 8)):  # what is there already is not written again
        result = CliRunner().invoke(distil_corpus.main, ["--out", str(file), "--seed", str(seed), *given])
        assert result.exit_code == 0 and f"{count} texts in all" in result.output, result.output
    texts = distil_text.read_corpus(file)
    assert texts[:4] == distil_text.sample(Pair(target, None, Tokenizer()), 4, 6, seed=2)
    assert all(text.start <= 5 and len(text.tokens) == text.start + 6 for text in texts)
    np.savez(file, tokens=np.arange(3))
    result = CliRunner().invoke(distil_corpus.main, ["--out", str(file), *given])
    assert result.exit_code == 2 and "has no array" in result.output


def test_a_student_of_all_layers_is_the_target() -> None:
    target = tiny_target()
    draft = student(target, WHOLE, replace(RECIPE, layers=2))
    tokens = torch.tensor([[1, 5, 7, 2]])
    assert torch.allclose(draft(tokens), target(tokens).logits, atol=1e-5)
    overlap = Trainer(target, draft, RECIPE).losses(tiny_texts(target))[1]
    assert float(overlap.detach()) == pytest.approx(1, abs=1e-5)


def test_a_narrow_student_keeps_the_units_of_the_largest_weights() -> None:
    target = tiny_target()
    layer = target.model.layers[0].mlp
    with torch.no_grad():
        for unit in range(10):  # units without effect
            layer.gate_proj.weight[unit] *= 1e-4
    draft = student(target, WHOLE, replace(RECIPE, mlp=22))
    assert torch.equal(draft.backbone.layers[0].mlp.gate_proj.weight, layer.gate_proj.weight[10:])
    assert torch.equal(draft.backbone.layers[0].mlp.down_proj.weight, layer.down_proj.weight[:, 10:])


def test_losses_are_those_of_the_laws() -> None:
    target, subset = tiny_target(), [0, 2, 3, 9]
    draft, text = student(target, subset, RECIPE), Text([1, 2, 3, 4, 9], 3)
    entropy, overlap = Trainer(target, draft, RECIPE).losses([text])
    tokens = torch.tensor([text.tokens])
    p = target(tokens).logits[0, 2:4].softmax(-1)[:, subset]  # of the tokens after positions 2 and 3
    q = draft(tokens)[0, 2:4].softmax(-1)
    assert float(overlap.detach()) == pytest.approx(float(torch.minimum(p, q).sum(-1).mean().detach()), abs=1e-6)
    assert float(entropy.detach()) == pytest.approx(float(-(p * q.log()).sum(-1).mean().detach()), abs=1e-5)


def test_training_brings_the_draft_nearer_and_leaves_the_target_alone() -> None:
    target = tiny_target()
    before = {name: value.clone() for name, value in target.state_dict().items()}
    texts, draft = tiny_texts(target), student(target, WHOLE, RECIPE)
    trainer = Trainer(target, draft, RECIPE)
    entropy, overlap = (float(loss.detach()) for loss in trainer.losses(texts))
    for step in range(60):
        told = trainer.step(texts, step / 60)
        assert all(isinstance(each, torch.Tensor) for each in told)  # numbers would wait for a device
    after = [float(loss.detach()) for loss in trainer.losses(texts)]
    assert after[0] < entropy - 0.02 and after[1] > overlap + 0.02
    assert all(torch.equal(value, before[name]) for name, value in target.state_dict().items())
    assert torch.equal(draft.backbone.get_input_embeddings().weight, before["model.embed_tokens.weight"])


def test_the_end_of_training_is_about_overlap() -> None:
    target = tiny_target()
    texts = tiny_texts(target)
    early, late = (Trainer(target, student(target, WHOLE, RECIPE), RECIPE) for _ in range(2))
    for trainer, progress in ((early, 0.5), (late, 0.8)):  # from the same weights, at rates that differ
        rates = trainer.optimizers.each
        trainer.optimizers.each = tuple((each, rate / (1 - progress)) for each, rate in rates)  # by nothing
        trainer.step(texts, progress)
    weights = [trainer.draft.backbone.layers[0].mlp.up_proj.weight for trainer in (early, late)]
    assert not torch.allclose(*weights, atol=1e-5)


def test_a_file_is_read_back_as_the_same_draft(tmp_path: Path) -> None:
    target = tiny_target()
    draft = student(target, [1, 4, 5], replace(RECIPE, mlp=20))
    file = distil.save(draft, {"steps": 3}, tmp_path / "new", "draft")
    read = load_draft(target, file)
    tokens = torch.tensor([[1, 5, 7]])
    assert torch.allclose(read(tokens), draft(tokens), atol=2e-2) and read.vocabulary_subset.tolist() == [1, 4, 5]
    fields = json.loads(file.with_suffix(".json").read_text())
    assert fields["bytes"] == file.stat().st_size and fields["steps"] == 3 and len(fields["sha256"]) == 64
    assert all(value.dtype in (torch.float16, torch.int32) for value in safetensors.load_file(file).values())


def test_what_follows_sampled_positions_counts() -> None:
    tokens, counted = distil_train.batch_of([Text([5, 6, 7, 8], 2), Text([9, 9], 1)], torch.device("cpu"))
    assert tokens.tolist() == [[5, 6, 7, 8], [9, 9, 0, 0]]
    assert counted.tolist() == [[False, True, True, False], [True, False, False, False]]


def test_texts_are_the_targets_and_other_than_the_held_out_ones() -> None:
    target = tiny_target()
    texts = tiny_texts(target)
    assert len(texts) == 8 and all(len(text.tokens) - text.start == 12 and text.start > 0 for text in texts)
    assert texts == tiny_texts(target) and len({tuple(text.tokens) for text in texts}) > 4
    held_out = {entry["messages"][-1]["content"] for entry in read_entries(FILE) if entry["messages"]}
    every = distil_text.questions(0, len(distil_text.TOPICS) * len(distil_text.FORMS))
    assert len(set(every)) == len(every) > 1500 and not held_out & set(every)


def test_of_the_texts_some_are_opened_by_the_target_and_some_go_on_from_a_piece_of_a_file() -> None:
    class Chat(Tokenizer):
        chat_template = "yes"

        def __call__(self, text: str, add_special_tokens: bool = True) -> Any:
            return SimpleNamespace(input_ids=list(text.encode()))

        def apply_chat_template(self, messages: Any, tokenize: bool, add_generation_prompt: bool = False) -> str:
            return f"USER {messages[0]['content']} END" + " ANSWER" * add_generation_prompt

    made = [
        bytes(tokens).decode()
        for tokens in distil_text.beginnings(SimpleNamespace(tokenizer=Chat(), encode=encode_chat), 1, 200)
    ]
    opened = [text for text in made if text == "USER "]
    pieces = [text for text in made if "USER" not in text]
    assert 50 < len(opened) < 110 and 20 < len(pieces) < 65
    assert all(distil_text.SHORTEST <= len(text.encode()) <= distil_text.LONGEST for text in pieces)
    measured = (json.loads(line)["source"] for line in CONTEXTS.read_text(encoding="utf-8").splitlines())
    files = {source.split(", ")[1].split(".")[0] + ".py" for source in measured if "standard library" in source}
    assert len(files) == 10 and not files & {file.name for file in distil_text._files()}
    assert len(set(pieces)) == len(pieces) and sum("def " in text or "self" in text for text in pieces) > 2
    assert sum(text.startswith("USER") and text.endswith("END ANSWER") for text in made) == 200 - len(opened + pieces)


def test_where_the_template_begins_with_what_the_user_says_no_prompt_is_empty() -> None:
    class Bare(Tokenizer):
        chat_template = "yes"

        def __call__(self, text: str, add_special_tokens: bool = True) -> Any:
            return SimpleNamespace(input_ids=list(text.encode()))

        def apply_chat_template(self, messages: Any, tokenize: bool) -> str:
            return str(messages[0]["content"])

    assert all(distil_text.beginnings(SimpleNamespace(tokenizer=Bare(), encode=encode_chat), 1, 40))


def encode_chat(text: str, chat: bool = False) -> list[int]:
    return list(f"USER {text} END ANSWER".encode())


def test_the_most_frequent_tokens() -> None:
    texts = [Text([7, 7, 7, 1, 3, 3, 5], 3), Text([0, 3, 5], 1)]
    assert distil_text.frequent_tokens(texts, 2, 9) == [3, 5]  # prompts are not counted
    assert distil_text.frequent_tokens(texts, 4, 9) == [0, 1, 3, 5]


def test_a_whole_run(tmp_path: Path) -> None:
    target, said = tiny_target(), []
    pair = Pair(target, target, Tokenizer())
    draft, made = distil.distil(pair, RECIPE, 6, 0.02, write=4, say=said.append)
    assert made["steps"] > 0 and made["tokens_written"] == 12 * made["texts"] and said
    assert len(draft.vocabulary_subset) == 6 and not any(weight.requires_grad for weight in draft.parameters())
    file = distil.save(draft, made, tmp_path, "draft")
    loaded = Pair(target, load_draft(target, file), Tokenizer())
    assert decode(loaded, [[1, 2]]).tokens[0]


@pytest.mark.parametrize("numbers", [torch.float32, torch.bfloat16])
def test_a_draft_that_reads_states_goes_on_from_a_file(
    tmp_path: Path, numbers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a target that may be of 16 bits, which stays as it is."""
    monkeypatch.setattr(distil, "time", SimpleNamespace(perf_counter=partial(next, itertools.count(0, 0.3))))
    recipe = replace(RECIPE, reads=(1,))
    began = student(tiny_target(), [1, 4, 5, 7, 9, 11], recipe)
    began.project.weight.data.normal_(0, 0.3)
    file = distil.save(began, {}, tmp_path, "draft")
    target, said = tiny_target().to(numbers), []
    pair = Pair(target, target, Tokenizer())
    draft, made = distil.distil(pair, recipe, 3, 0.03, write=32, say=said.append, start=file)
    assert made["steps"] > 0 and draft.vocabulary_subset.tolist() == [1, 4, 5, 7, 9, 11]
    assert all(value.dtype == numbers for value in target.state_dict().values() if value.is_floating_point())
    assert all(weight.dtype == torch.float32 for weight in draft.parameters())
    changed = (draft.project.weight - state_draft(tiny_target(), file, (1,)).project.weight).detach().abs().max()
    assert 0 < float(changed) < 0.1 * made["steps"]
    assert "held back" in said[-1] and len(made["by_tenths"]["means"][0]) == 3
    done = CliRunner().invoke(distil.main, ["--out", str(tmp_path), "--start", str(file)])
    assert done.exit_code == 2 and "--states" in done.output


def test_a_draft_that_reads_states_is_made_from_the_targets_layers() -> None:
    target = tiny_target()
    recipe = replace(RECIPE, reads=(1,))
    # Texts are written until some can be held back, however short the time.
    draft, made = distil.distil(Pair(target, target, Tokenizer()), recipe, 6, 1e-9, 14, say=lambda line: None)
    assert isinstance(draft, StateDraft) and draft.reads == (1,) and len(draft.vocabulary_subset) == 6
    assert float(draft.project.weight.abs().max()) > 0 and made["texts"] >= 7 * recipe.rows


def test_what_does_not_fit_is_said_before_any_text_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy, too, and the target stays as it is."""
    monkeypatch.setattr(distil, "sample", lambda *given: pytest.fail("a text was written"))
    reads = replace(RECIPE, reads=(1,))
    start = distil.save(student(tiny_target(), WHOLE, reads), {}, tmp_path, "start")
    other = distil.save(student(tiny_target(hidden_size=32), WHOLE, reads), {}, tmp_path, "other")
    text = tmp_path / "text.safetensors"
    text.write_text("no draft")
    untied = tiny_llama(3, 12, 2, dtype=torch.float32)
    half = tiny_target().to(torch.bfloat16)
    from transformers import GPT2Config, GPT2LMHeadModel, Qwen2Config, Qwen2ForCausalLM

    small = {
        "vocab_size": 12,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    qwen = Qwen2ForCausalLM(Qwen2Config(**small, num_key_value_heads=1))
    gpt = GPT2LMHeadModel(GPT2Config(vocab_size=12, n_embd=16, n_layer=2, n_head=2))
    for target, recipe, file, said in (
        (half, reads, other, "other.safetensors is not a draft of this target"),
        (half, reads, text, "text.safetensors is not a draft of this target"),
        (half, replace(RECIPE, reads=(2,)), start, r"after layers \(2,\), got \(1,\)"),
        (untied, reads, start, "--states"),
        (half, replace(RECIPE, layers=3), None, "--layers must be at most 2 for this target, got 3"),
        (half, replace(RECIPE, mlp=33), None, "--mlp must be at most 32 for this target, got 33"),
        (qwen, RECIPE, None, "not a draft of this target"),  # whose biases no file of layers has
        (gpt, RECIPE, None, "target must be a Llama"),
    ):
        with pytest.raises(CannotDecode, match=said):
            distil.distil(Pair(target, None, Tokenizer()), recipe, 6, 1, 4, start=file)
    assert {value.dtype for value in half.state_dict().values()} == {torch.bfloat16}


def test_more_prompts_than_there_are_is_said_before_any_text_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distil, "sample", lambda *given: pytest.fail("a text was written"))
    monkeypatch.setattr(distil, "load_pair", lambda *given, **options: Pair(tiny_target(), None, Tokenizer()))
    done = CliRunner().invoke(distil.main, ["--out", str(tmp_path), "--prompts", "201"])
    assert done.exit_code == 2 and "Use fewer prompts" in done.output


def test_what_a_start_says_itself_is_not_asked_for(tmp_path: Path) -> None:
    (tmp_path / "start.safetensors").touch()
    given = ["--out", str(tmp_path), "--states", "--start", str(tmp_path / "start.safetensors")]
    for name, value in (("--layers", "2"), ("--mlp", "7"), ("--subset", "9")):
        done = CliRunner().invoke(distil.main, [*given, name, value])
        assert done.exit_code == 2 and f"{name} must not be given with --start" in done.output


def test_the_command_writes_the_trained_draft_as_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name and the sizes of the draft that it began with; whatever happens later, the file is there."""
    target = tiny_target()
    monkeypatch.setattr(distil, "load_pair", lambda *given, **options: Pair(target, None, Tokenizer()))
    start = distil.save(student(target, [1, 4, 5, 7], replace(RECIPE, reads=(1,), mlp=20)), {}, tmp_path, "start")
    trained, kept = StateTrainer.step, list[Any]()
    monkeypatch.setattr(
        StateTrainer, "step", lambda trainer, progress: kept.append(trainer) or trained(trainer, progress)
    )
    monkeypatch.setattr(distil, "time", SimpleNamespace(perf_counter=partial(next, itertools.count(0, 0.8))))
    monkeypatch.setattr(acceptance, "measure", lambda *given: 1 / 0)
    monkeypatch.setattr(distil, "read_prompts", lambda *given: [])
    out = tmp_path / "out"
    given = ["--out", str(out), "--states", "--start", str(start), "--minutes", ".1", "--rows", "4", "--length", "6"]
    done = CliRunner().invoke(distil.main, [*given, "--write", "28"])
    assert isinstance(done.exception, ZeroDivisionError), done.output
    file = out / "draft-1-layers-states.safetensors"
    weights = safetensors.load_file(file)
    for name, value in distil_train.as_tensors(kept[-1].draft).items():
        assert torch.equal(weights[name], value)
    recipe = json.loads(file.with_suffix(".json").read_text())["recipe"]
    wanted = {"layers": 1, "mlp": 20, "reads": [1], "rows": 4, "length": 6, "muon": [0.004, 0.006], "start": start.name}
    assert {name: recipe[name] for name in wanted} == wanted
    assert not list(out.glob("*.part"))
    # One that is stopped has what it had a twentieth of the time before.
    file.unlink()
    monkeypatch.setattr(distil, "tenths", lambda curve: 1 / 0)
    done = CliRunner().invoke(distil.main, [*given, "--write", "28"])
    assert isinstance(done.exception, ZeroDivisionError) and load_draft(target, file).reads == (1,)


def test_states_leave_room_for_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,000 numbers of 4 bytes on a device of 10,000 bytes, of which 2,000 are taken, .6 of 4,000 are left."""
    weight = torch.zeros(1000)
    target = SimpleNamespace(device=torch.device("cuda"), parameters=lambda: [weight])
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=10_000))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2000)
    for size, full in ((2399, False), (2401, True)):
        monkeypatch.setattr(distil.HeldStates, "bytes_of", lambda *given, size=size: size)
        assert distil.fills_memory(target, [Text([1], 1)]) is full


def test_along_a_path_the_target_itself_is_always_accepted_and_others_are_less() -> None:
    target, other = (tiny_llama(seed, 12, 1, dtype=torch.float32) for seed in (1, 2))
    prompts = [Prompt("a", [1, 2, 3]), Prompt("b", [4, 5])]
    whole = acceptance.accepted_along(Pair(target, target), prompts, 3, (0.6, 1.0), tokens=12, batch=2)
    assert whole == {0.6: [1.0, 1.0, 1.0], 1.0: [1.0, 1.0, 1.0]}
    (less,) = acceptance.accepted_along(Pair(target, other), prompts, 3, (1.0,), tokens=40).values()
    assert 0 < less[0] < 1 and len(less) == 3


def test_acceptance_is_one_of_the_target_itself_and_less_of_others() -> None:
    target = tiny_target()
    prompts = [Prompt("prose", [1, 2]), Prompt("code", [3]), Prompt("prose", [5, 6, 7])]
    whole = Pair(target, student(target, WHOLE, replace(RECIPE, layers=2)))
    rows = acceptance.measure(whole, prompts, (0.6, 1.0), tokens=5, batch=2)
    assert [(row["temperature"], row["kind"]) for row in rows] == [
        (t, k) for t in (0.6, 1.0) for k in ("prose", "code", "all")
    ]
    assert all(row["acceptance"] == pytest.approx(1, abs=1e-4) for row in rows)
    assert rows[2]["positions"] == rows[0]["positions"] + rows[1]["positions"] == 15
    part = Pair(target, student(target, [0, 1, 2], RECIPE))
    assert acceptance.measure(part, prompts, (1.0,), tokens=5)[-1]["acceptance"] < 0.9
    lines = acceptance.as_markdown(rows).splitlines()
    assert len(lines) == 5 and len({line.count("|") for line in lines}) == 1


def test_overlaps_are_sums_of_smaller_masses() -> None:
    target, other = tiny_target(), tiny_llama(8, 12, 1, dtype=torch.float32)
    text = [1, 2, 3, 4]
    p, q = (model(torch.tensor([text])).logits[0, 1:3].div(0.6).softmax(-1) for model in (target, other))
    found = acceptance.overlaps(Pair(target, other), text, 2, 0.6)
    assert np.allclose(found, torch.minimum(p, q).sum(-1), atol=1e-6)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_no_cuda_is_one_clear_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(distil.main, ["--device", "cuda", "--out", str(tmp_path)])
    assert done.exit_code == 2 and "requires CUDA" in done.output and "Traceback" not in done.output
