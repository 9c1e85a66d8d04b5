"""With models of transformers: a server of the model one thinks, of another one, and `decode --audit`."""

from __future__ import annotations

import json
import re
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")

from slow import slow  # noqa: E402
from tiny_folders import WORDS, save_tiny_pair, tokenizer  # noqa: E402
from tiny_models import tiny_llama  # noqa: E402

from ot_draft.cli import main  # noqa: E402
from ot_draft.verify.server import Audit, CannotAudit, Token, emitted_with_laws  # noqa: E402
from ot_draft.verify.server.answers import Answer, Emitted  # noqa: E402
from ot_draft.verify.server.reference import DraftLaws, LocalModel  # noqa: E402

from .chains import inverse  # noqa: E402
from .completions_server import Generate, columns, entries, serving  # noqa: E402

N = len(WORDS)


def audit(*words: str) -> Result:
    return CliRunner().invoke(main, ["audit", *words])


def sampled(model: Any, draft: Any = None, share: float = 0.0) -> Generate:
    """Plain sampling, one token after the other; a share of the tokens are drafts that nobody verified."""
    generator, lock = np.random.default_rng(0), threading.Lock()

    def generate(fields: dict[str, Any]) -> tuple[Any, Any]:
        prompt = fields["prompt"]
        text = [WORDS.index(word) for word in prompt.split()] if isinstance(prompt, str) else list(prompt)
        tokens, laws = [], []
        with lock, torch.no_grad():
            for _ in range(fields["max_tokens"]):
                law, drawn = law_of(model, text), generator.random(2)
                source = law_of(draft, text) if drawn[0] < share else law
                token = int(inverse(source[None], drawn[1:])[0])
                text, tokens, laws = [*text, token], [*tokens, token], [*laws, law]
        return np.array(tokens), np.stack(laws)

    return generate


def law_of(model: Any, text: list[int]) -> Any:
    return torch.softmax(model(torch.tensor([text])).logits[0, -1].double(), -1).numpy()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("served")
    tiny_llama(3, N, dtype=torch.float32).save_pretrained(made)
    tokenizer(WORDS).save_pretrained(made)
    return made


@pytest.mark.parametrize("style", [columns, entries], ids=["columns", "entries"])
def test_the_model_served_is_the_one_in_the_folder(style: Any, folder: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts"
    prompts.write_text("a b c\n[3, 1, 4]\n")
    asked = (
        "--prompts",
        str(prompts),
        "--tokens",
        "60",
        "--length",
        "8",
        "--concurrency",
        "4",
        "--reference",
        str(folder),
    )
    with serving(sampled(tiny_llama(3, N, dtype=torch.float32)), style) as (url, _):
        done = audit(url, *asked)
        assert done.exit_code == 0 and "reference: agrees with the distribution served" in done.output, done.output
    with serving(sampled(tiny_llama(4, N, dtype=torch.float32)), style) as (url, _):
        done = audit(url, *asked)
        assert done.exit_code == 1 and "reference: differs from the distribution served" in done.output, done.output


@pytest.mark.parametrize("option", ["--reference", "--draft"])
def test_a_folder_without_a_model(option: str, tmp_path: Path) -> None:
    done = audit("http://localhost:1", option, str(tmp_path))
    assert done.exit_code == 2 and "no model of transformers" in done.output
    log = tmp_path / "log.jsonl"
    log.write_text('{"token": 0, "target_probs": [0.5, 0.5]}\n')
    done = audit(str(log), option, str(tmp_path))
    assert done.exit_code == 2 and f"{option} " in done.output


@pytest.mark.parametrize("style", [slow(columns, id="columns"), pytest.param(entries, id="entries")])
def test_unverified_drafts_are_found_with_the_draft_models_folder(style: Any, folder: Path, tmp_path: Path) -> None:
    """By a bet on what the draft prefers; with a right server it has no bias."""
    prompts, model, draft = tmp_path / "prompts", *(tiny_llama(seed, N, dtype=torch.float32) for seed in (3, 5))
    prompts.write_text("a b c\n[3, 1, 4]\n")
    draft.save_pretrained(tmp_path / "draft")
    tokenizer(WORDS).save_pretrained(tmp_path / "draft")
    asked = (
        "--prompts",
        str(prompts),
        "--tokens",
        "600",
        "--length",
        "8",
        "--concurrency",
        "4",
        "--top-logprobs",
        str(N - 2),
    )
    for share in (0.3, 0.0):
        with serving(sampled(model, draft, share), style) as (url, _):
            done = audit(url, *asked, "--draft", str(tmp_path / "draft"))
        assert done.exit_code == (share > 0), done.output
        assert ("strongest evidence: a token weighted by min(1, q / (4 p))" in " ".join(done.output.split())) == (
            share > 0
        )
        assert "draft distribution: of" in done.output, done.output


def test_the_drafts_laws_depend_on_the_tokens_before_alone(tmp_path: Path) -> None:
    model = tiny_llama(5, N, dtype=torch.float32)
    model.save_pretrained(tmp_path)
    laws = DraftLaws(LocalModel(tmp_path), 0.7)
    texts = [[1, 2, 3, 4, 0], [1, 2, 3], [1, 2, 3, 0, 1], [1, 2, -3, 4]]  # -3: a name that is no token's
    rows = [laws.rows([3, 1, 4], answer(text), 6) for text in texts]
    assert [len(each) for each in rows] == [5, 3, 5, 3]
    assert all((each[:3] == rows[0][:3]).all() for each in rows) and (rows[0][4] != rows[2][4]).any()
    logits = model(torch.tensor([[3, 1, 4, 1, 2]])).logits[0, -1].double() / 0.7
    assert np.allclose(rows[0][2], torch.softmax(logits, -1).numpy(), atol=1e-6)
    there = laws.on(rows[0][2], np.array([4, -12, 0, 2]), np.array([0.4, 0.3, 0.2, 0.1]))
    assert (there == [rows[0][2][4], 0.0, rows[0][2][0], rows[0][2][2]]).all()
    assert laws.overlap == pytest.approx(np.minimum(there, [0.4, 0.3, 0.2, 0.1]).sum())
    with pytest.raises(CannotAudit, match="must have the server's vocabulary"):
        laws.on(rows[0][2], np.array([N, N + 1, 0]), np.full(3, 0.3))
    with pytest.raises(CannotAudit, match="no distributions after 7 tokens"):
        laws.rows([3, N], answer([1]), 6)


def answer(tokens: list[int]) -> Answer:
    return Answer(tuple(Emitted(token, -1.0, np.array([0]), np.array([-1.0])) for token in tokens), "length")


def test_decoding_is_audited_and_its_log_can_be_read_again(tmp_path: Path) -> None:
    models, log = save_tiny_pair(tmp_path), tmp_path / "log.jsonl"
    words = [
        "decode",
        *models,
        "--prompt",
        "a b c",
        "--prompt",
        "d e",
        "--no-chat",
        "--max-tokens",
        "40",
        "--rule",
        "joint",
    ]
    done = CliRunner().invoke(main, [*words, "--audit", str(log)])
    assert done.exit_code == 0, done.output
    assert "audit: no bias found in 80 tokens" in done.output
    again = audit(str(log))
    assert again.exit_code == 0 and "no bias found in 80 tokens" in again.output
    e_values = [re.findall(r"e-value (\d[\d.e+^]*\d)", output)[0] for output in (done.output, again.output)]
    assert e_values[0] == e_values[1]
    refused = CliRunner().invoke(main, [*words, "--audit", str(log)])
    assert refused.exit_code == 2 and "must be a new file" in refused.output


def test_decoding_reports_what_the_audit_of_its_log_reports(tmp_path: Path) -> None:
    """Every line of the log lists 64 tokens, also improbable ones: a shorter list would not be tested."""
    from ot_draft.cli.decode.run import Audited

    generator, steps = np.random.default_rng(0), []
    for _ in range(48):
        p = np.exp(3 * generator.standard_normal(1_000))
        p /= p.sum()
        law, token = torch.tensor(p)[None, None], int(generator.choice(1_000, p=p))
        about = {
            "number": 0,
            "nodes": torch.zeros(1, 0, dtype=int),
            "tokens": partial(lambda token, row: [token], token),
        }
        steps.append(SimpleNamespace(p=law, q=law, **about))
    audited = Audited(tmp_path / "log.jsonl")
    assert len(list(audited(iter(steps), 0))) == 48
    evidence = audited.close().evidence
    again = json.loads(audit(str(tmp_path / "log.jsonl"), "--json", "-").stdout)["outcomes"][0]["evidence"]
    assert evidence.tokens == again["tokens"] == 48 and evidence.log_e_value == pytest.approx(again["log_e_value"])


def test_a_step_without_laws_is_refused() -> None:
    class Bare:
        number, p, q = 3, None, None

    with pytest.raises(CannotAudit, match="step 3 has no distributions"):
        list(emitted_with_laws(Bare(), 0))


def test_a_decoding_loop_with_a_planted_error_is_found() -> None:
    """The tokens of a real loop under a rule that takes every draft, by the laws of its steps."""
    from tiny_models import tiny_pair

    import ot_draft as otd
    from ot_draft.decoding import DecodeOptions, Drafting, decode_steps

    class TakeAll(otd.SelectionRule):
        law = otd.IID()

        def __call__(self, p: Any, q: Any, drafts: Any) -> Any:
            good = otd.rules.SpeculativeSampling()(p, q, drafts)
            return otd.Selection(torch.ones_like(good.accept), good.residual)

    found = []
    for rule in (TakeAll(), otd.rules.SpeculativeSampling()):
        judge = Audit()
        drafting = Drafting.chains(1, 3, otd.trees.TokenWise(rule))
        prompts = [[i % N, (i + 1) % N] for i in range(50)]
        for step in decode_steps(tiny_pair(2, N), prompts, drafting, DecodeOptions(max_tokens=60, laws=True)):
            for row in range(50):
                for token, law, draft_law in emitted_with_laws(step, row):
                    judge.add(Token.of_law(token, law, request=row, draft_probs=draft_law))
        found.append(judge.biased)
    assert found == [True, False]
