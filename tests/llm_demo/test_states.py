"""Training on what the target thought: what is kept of it, the losses of both passes, the optimizer, and both commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tiny_models import tiny_llama

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("safetensors.torch")

from llm_demo.distil import hidden_states, states  # noqa: E402
from llm_demo.distil.hidden_states import TEMPERATURES, HeldStates, HiddenStates  # noqa: E402
from llm_demo.distil.muon import MuonOnCpu, muon, orthogonal  # noqa: E402
from llm_demo.distil.states import Distance, StateTrainer, Weights, kl_first, state_draft  # noqa: E402
from llm_demo.distil.text import read_corpus  # noqa: E402
from llm_demo.distil.train import Recipe, as_tensors, some_of, student, write_draft  # noqa: E402
from ot_draft.decoding import CannotDecode, Pair  # noqa: E402
from ot_draft.decoding.draft_models import StateDraft  # noqa: E402
from ot_draft.decoding.language_model import hidden_states as states_of  # noqa: E402
from ot_draft.decoding.language_model import language_model  # noqa: E402

N, READS = 12, (1, 2)
LENGTHS, WRITTEN = (9, 5, 7, 6, 9, 8), (3, 2, 1, 4, 5, 2)


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A tiny one of three layers, which the commands load, too."""
    model = tiny_llama(3, N, 3, torch.float32, tie_word_embeddings=True)
    for module in (states, hidden_states):
        monkeypatch.setattr(module, "load_pair", lambda **options: Pair(model))
    monkeypatch.setattr(states, "HELD_BACK", 1)
    return model


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    starts = np.cumsum((0, *LENGTHS[:-1]))
    tokens = generator.integers(N, size=sum(LENGTHS)).astype(np.uint16)
    file = tmp_path / "corpus.npz"
    np.savez(file, tokens=tokens, starts=starts, first_written=np.array(WRITTEN))
    return file


@pytest.fixture
def known(target: Any, corpus: Path, tmp_path: Path) -> HiddenStates:
    made = HiddenStates.begin(tmp_path / "hidden_states", read_corpus(corpus), target, 4, 0)
    assert made.reads.tolist() == list(READS) and made.texts == read_corpus(corpus)
    for batch in made.batches:
        hidden_states.read(target, made, batch)
    return made


@pytest.fixture
def draft_file(target: Any, tmp_path: Path) -> Path:
    """One layer, which reads no states."""
    from safetensors.torch import save_file

    made = student(target, [0, 1, 2, 4, 5, 7, 8, 11], Recipe(layers=1))
    save_file(as_tensors(made), tmp_path / "start.safetensors")
    return tmp_path / "start.safetensors"


def told(draft: StateDraft) -> StateDraft:
    """One on which the states have an effect."""
    with torch.no_grad():
        draft.project.weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    return draft


def test_every_text_is_in_one_batch() -> None:
    found = hidden_states.batches_of(np.arange(50) % 7, 8, np.random.default_rng(1))
    assert found.shape == (7, 8) and sorted(found[found >= 0].tolist()) == list(range(50))
    widths = [np.ptp((batch[batch >= 0] % 50) % 7) for batch in found]
    assert max(widths) <= 2


def test_what_the_target_thinks_is_kept(target: Any, known: HiddenStates) -> None:
    assert known.done.all()
    for text, (length, first) in enumerate(zip(LENGTHS, WRITTEN, strict=True)):
        place = known.place(text)
        tokens = torch.from_numpy(known.tokens[place].astype(np.int64))[None]
        read = target(tokens, output_hidden_states=True)
        kept = torch.from_numpy(known.states[place]).float()
        torch.testing.assert_close(kept[:, -1], read.hidden_states[-1][0], atol=4e-3, rtol=2e-3)
        features = states_of(language_model(target, N, READS), tokens[0].tolist()).reshape(length, 3, 16)
        torch.testing.assert_close(kept[:, :-1], features[:, :-1], atol=4e-3, rtol=2e-3)
        for number, temperature in enumerate(TEMPERATURES):
            sums = torch.from_numpy(known.log_sums[place][first - 1 :, number])
            wanted = (read.logits[0, first - 1 :] / temperature).logsumexp(-1)
            torch.testing.assert_close(sums, wanted, atol=2e-2, rtol=2e-3)


@pytest.mark.parametrize(("products", "tolerance"), [(torch.float32, 3e-3), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("temperature", [0, 1])
def test_losses_are_distances_of_the_laws_that_are_drafted_from(
    target: Any, known: HiddenStates, draft_file: Path, temperature: int, products: Any, tolerance: float
) -> None:
    torch.manual_seed(1)
    draft = told(state_draft(target, draft_file, READS))
    trainer = StateTrainer(draft, [known], 0.01, 0.01, 0, products)
    batch = known.batches[0][known.batches[0] >= 0]
    choose: Callable[[int], Any] = lambda size: torch.full((size,), temperature)  # noqa: E731
    found = [float(loss.detach()) for loss in trainer.losses(known, batch, choose)]
    for own in (0, 1, 2):
        wanted = _distances(target, draft, known, batch, TEMPERATURES[temperature], own)
        if own:
            wanted = wanted[: (len(batch) + 1) // 2]
        assert found[own] == pytest.approx(np.mean(np.concatenate(wanted)), abs=tolerance)
    assert len(found) == 3 and abs(found[0] - found[1]) > 0.003 and abs(found[1] - found[2]) > 0.001


def _distances(
    target: Any, draft: StateDraft, known: HiddenStates, batch: Any, temperature: float, own: int
) -> list[np.ndarray]:
    """By text, at every place that counts; own: of how many tokens the draft is told its own states."""
    models = language_model(target, N, READS), language_model(draft, N)
    values = []
    for text in batch:
        tokens = known.tokens[known.place(text)].astype(int).tolist()
        of_text = []
        for length in range(int(known.written[text]), len(tokens) + 1):
            features = states_of(models[0], tokens[: max(length - 1 - own, 0)])
            p = models[0].full_pass(tokens, [length]).logits[0]
            logits = models[1].full_pass(tokens[:length], [length], features).logits
            q = models[1].info.expand_to_vocab(logits, float("-inf"))[0]
            laws = [(logits.detach() / temperature).softmax(-1) for logits in (p, q)]
            of_text.append(1 - float(torch.minimum(*laws).sum()))
        values.append(np.array(of_text))
    return values


@pytest.mark.parametrize("weights", [Weights(), Weights(0.3, 0.5, 0.7), kl_first(0.0), kl_first(0.75)])
def test_the_gradient_is_that_of_the_losses(weights: Weights) -> None:
    generator = torch.Generator().manual_seed(0)
    states_, head = torch.randn(7, 5, generator=generator, dtype=torch.float64), torch.randn(9, 5, dtype=torch.float64)
    p = torch.rand(7, 9, generator=generator, dtype=torch.float64)
    p = 0.9 * p / p.sum(-1, keepdim=True)
    inverse = torch.tensor([1.0, 2.0, 1.0, 1.0, 0.5, 1.0, 2.0], dtype=torch.float64)
    states_.requires_grad_()

    def slow(a: Any, weights: Weights) -> Any:
        log_q = (inverse[:, None] * (a @ head.T)).log_softmax(-1)
        overlap = torch.minimum(p, log_q.exp()).sum(-1)
        kl, log_acceptance = -(p * log_q).sum(-1), -overlap.log()
        return (weights.distance * (1 - overlap) + weights.kl * kl + weights.log_acceptance * log_acceptance).mean()

    loss = Distance.apply(states_, list(p.split(states.CHUNK)), inverse, head, weights)
    loss.backward()
    torch.testing.assert_close(loss, slow(states_, Weights()))
    torch.testing.assert_close(states_.grad, torch.autograd.grad(slow(states_, weights), states_)[0])


def test_the_loss_moves_from_kl_to_log_acceptance() -> None:
    assert [kl_first(progress) for progress in (0, 0.25, 0.5, 1)] == [
        Weights(0, 1, 0),
        Weights(0, 0.5, 0.5),
        Weights(0, 0, 1),
        Weights(0, 0, 1),
    ]


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, head, p = torch.randn(7, 5), torch.randn(9, 5), torch.rand(7, 9).softmax(-1)
    whole = Distance.apply(x, [p], torch.ones(7), head)
    monkeypatch.setattr(states, "CHUNK", 3)
    torch.testing.assert_close(Distance.apply(x, list(p.split(3)), torch.ones(7), head), whole)


def test_training_brings_it_nearer_in_all_passes(target: Any, known: HiddenStates, draft_file: Path) -> None:
    torch.manual_seed(0)
    draft = state_draft(target, draft_file, READS)
    before = {name: weight.clone() for name, weight in draft.named_parameters()}
    trainer = StateTrainer(draft, [known], 0.02, 0.02, 0)
    batch = known.batches[-1][known.batches[-1] >= 0]
    trainer.queue = [(known, batch)] * 40
    first = trainer.step(0.0)
    for _ in range(39):
        last = trainer.step(0.3)
    assert len(last) == 3 and all(last > first + 0.05)
    changed = {name for name, weight in draft.named_parameters() if not torch.equal(weight, before[name])}
    assert changed == {name for name in before if "embed_tokens" not in name and not name.startswith("head")}
    assert trainer.seen == 40 * sum(LENGTHS[text] - WRITTEN[text] + 1 for text in batch)


def test_what_is_held_in_memory_is_what_is_kept_on_the_disk(target: Any, known: HiddenStates, draft_file: Path) -> None:
    """In every batch, and so losses are equal."""
    held = HeldStates.of(target, known.texts, 4)
    draft = told(state_draft(target, draft_file, READS))
    trainer = StateTrainer(draft, [held], 0.01, 0.01, 0)
    assert sorted(held.batches[held.batches >= 0].tolist()) == list(range(len(LENGTHS))) and held.done.all()
    for batch in (np.array([0, 1]), np.array([3]), np.array([5, 2, 4])):
        for mine, theirs in zip(held.arrays(batch), known.arrays(batch), strict=True):
            for row, text in enumerate(batch):
                length, first = LENGTHS[text], WRITTEN[text] - 1 if mine.shape[2:] == (2,) else 0
                torch.testing.assert_close(mine[row, first:length], theirs[row, first:length], atol=2e-3, rtol=2e-3)
        losses = [trainer.losses(each, batch, lambda size: torch.arange(size) % 2) for each in (held, known)]
        torch.testing.assert_close(*losses, atol=1e-4, rtol=1e-4)


def test_layers_whose_states_are_read() -> None:
    assert [some_of(layers) for layers in (30, 12, 2, 1)] == [(3, 15, 27), (1, 6, 11), (1,), (1,)]


def test_it_begins_as_the_draft_that_it_begins_with(target: Any, draft_file: Path, tmp_path: Path) -> None:
    from ot_draft.decoding import load_draft

    plain, draft = load_draft(target, draft_file), state_draft(target, draft_file, READS)
    tokens, before = torch.tensor([[1, 2, 3]]), torch.randn(1, 3, 16)
    torch.testing.assert_close(draft(tokens, before=before), plain(tokens))
    write_draft(told(draft), tmp_path / "states.safetensors")
    again = state_draft(target, tmp_path / "states.safetensors", READS, torch.tensor([1, 3]))
    assert again.reads == READS and again.vocabulary_subset.tolist() == [1, 3]
    torch.testing.assert_close(again.states(tokens, before), draft.states(tokens, before), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("products", [torch.float32, torch.bfloat16])
def test_a_square_of_muons_is_about_orthogonal_and_steps_are_torchs(products: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    for shape in ((6, 6), (5, 9), (9, 5)):
        x = torch.randn(shape, generator=generator)
        values = torch.linalg.svdvals(orthogonal(x))
        assert float(values.min()) > 0.5 and float(values.max()) < 1.5
        mine, theirs = (torch.nn.Parameter(torch.ones(shape)) for _ in range(2))
        optimizers = muon([mine], 0.1, products), torch.optim.Muon([theirs], lr=0.1, weight_decay=0.0)
        assert isinstance(optimizers[0], MuonOnCpu)
        for step in range(3):
            for weight, optimizer in zip((mine, theirs), optimizers, strict=True):
                weight.grad = x * (step + 1) + torch.eye(*shape)
                optimizer.step()
        torch.testing.assert_close(mine, theirs, atol=0.02, rtol=0.02)  # theirs multiplies in bfloat16


def test_several_folders_are_one_corpus(target: Any, known: HiddenStates, draft_file: Path) -> None:
    draft = state_draft(target, draft_file, READS)
    trainer = StateTrainer(draft, [known, known], 0.01, 0.01, 0)
    assert len(trainer.known()) == 2 * len(known.batches)
    seen = [tuple(trainer.next()[1].tolist()) for _ in range(2 * len(known.batches) - 1)]  # one is held back
    assert sorted(map(seen.count, set(seen))) == [1] + [2] * (len(known.batches) - 1)
    other = replace(known, reads=np.array([1]))
    with pytest.raises(CannotDecode, match="after the same layers"):
        StateTrainer(draft, [known, other], 0.01, 0.01, 0)


def test_what_is_held_back_is_never_trained_on_while_folders_grow(
    target: Any, known: HiddenStates, draft_file: Path
) -> None:
    """Of the first of two one batch was read when it began: what is read there later comes before the other's."""
    first, all_done = replace(known, done=known.done.copy()), known.done.copy()
    first.done[:] = False
    trainer = StateTrainer(state_draft(target, draft_file, READS), [first, known], 0.01, 0.01, 0)
    first.done[:] = all_done
    held = [(id(each), batch.tolist()) for each, batch in trainer.held_back.values()]
    trained = [trainer.next() for _ in range(len(trainer.known()) - 1)]
    assert held[0] not in [(id(each), batch.tolist()) for each, batch in trained]


def test_the_overlap_that_is_told_is_the_mean_over_places(
    target: Any, known: HiddenStates, draft_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two batches of unequal sizes."""
    monkeypatch.setattr(states, "HELD_BACK", 2)
    known = replace(known, batches=np.array([[1, 3, 5, 2], [0, -1, -1, -1], [4, -1, -1, -1]]))
    draft = told(state_draft(target, draft_file, READS))
    trainer = StateTrainer(draft, [known], 0.01, 0.01, 0)
    for temperature in (0, 1):
        for own, found in enumerate(trainer.check(temperature)):
            texts = [[1, 3], [0]] if own else [[1, 3, 5, 2], [0]]
            wanted = [_distances(target, draft, known, each, TEMPERATURES[temperature], own) for each in texts]
            assert found == pytest.approx(1 - np.concatenate([*wanted[0], *wanted[1]]).mean(), abs=3e-3)


def test_what_does_not_fit_is_said(
    target: Any, known: HiddenStates, corpus: Path, draft_file: Path, tmp_path: Path
) -> None:
    write_draft(state_draft(target, draft_file, (1,)), tmp_path / "other.safetensors")
    with pytest.raises(CannotDecode, match=r"after layers \(1, 2\), got \(1,\)"):
        state_draft(target, tmp_path / "other.safetensors", READS)
    known.done[:] = False
    with pytest.raises(CannotDecode, match="at least 2 batches, got 0"):
        StateTrainer(state_draft(target, draft_file, READS), [known], 0.01, 0.01, 0)
    bad, other = tmp_path / "bad.npz", tmp_path / "other.npz"
    np.savez(bad, tokens=np.arange(3), starts=np.zeros(1, int))
    np.savez(other, tokens=np.arange(3), starts=np.zeros(1, int), first_written=np.ones(1, int))
    for file, said in ((bad, "has no array 'first_written'"), (other, "another corpus")):
        result = CliRunner().invoke(
            hidden_states.main, ["--corpus", str(file), "--out", str(tmp_path / "hidden_states")]
        )
        assert result.exit_code == 2 and said in " ".join(result.output.replace("\u2502", "").split())


def test_both_commands(target: Any, corpus: Path, draft_file: Path, tmp_path: Path, monkeypatch: Any) -> None:
    out, runner = tmp_path / "read", CliRunner()
    stopped = runner.invoke(
        hidden_states.main, ["--corpus", str(corpus), "--out", str(out), "--rows", "2", "--minutes", "1e-9"]
    )
    assert stopped.exit_code == 0, stopped.output
    assert HiddenStates.open(out).done.sum() == 2
    for others in (["--rows", "3"], ["--rows", "2", "--seed", "1"]):
        refused = runner.invoke(hidden_states.main, ["--corpus", str(corpus), "--out", str(out), *others])
        assert refused.exit_code == 2 and "--rows and --seed must be those of the first run" in refused.output
    went_on = runner.invoke(
        hidden_states.main, ["--corpus", str(corpus), "--out", str(out), "--rows", "2", "--dtype", "bfloat16"]
    )
    assert went_on.exit_code == 0 and HiddenStates.open(out).done.all()
    file = tmp_path / "trained.safetensors"
    arguments = [
        "--hidden-states",
        str(out),
        "--out",
        str(file),
        "--start",
        str(draft_file),
        "--minutes",
        ".02",
        "--dtype",
        "bfloat16",
        "--subset",
        "9",
    ]
    trained = runner.invoke(states.main, arguments)
    assert trained.exit_code == 0, trained.output
    assert "held back" in trained.output
    monkeypatch.undo()
    fresh = tiny_llama(3, N, 3, torch.float32, tie_word_embeddings=True)
    draft = state_draft(fresh, file, READS)
    assert draft.reads == READS and len(draft.vocabulary_subset) == 9
    known = HiddenStates.open(out)
    written = Counter(t for text in range(6) for t in known.tokens[known.place(text)][known.written[text] :].tolist())
    assert draft.vocabulary_subset.tolist() == sorted(sorted(range(N), key=lambda token: (-written[token], token))[:9])
