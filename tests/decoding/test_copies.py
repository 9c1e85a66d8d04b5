"""A copy of a model is itself: no packed module remembers another one than those that it consists of."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tiny_models import tiny_llama

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from llm_demo.bench.trees.prefixes import PrefixLogits  # noqa: E402
from ot_draft.decoding import Pair  # noqa: E402
from ot_draft.decoding.cpu import pack, pack_float16  # noqa: E402
from ot_draft.decoding.load import as_llama  # noqa: E402
from ot_draft.decoding.self_draft import without_layers  # noqa: E402

N, TEXT, BEHIND = 11, [1, 2, 3, 4], [(), (5,), (5, 6), (7,)]
Change = Callable[[Any], Any]

MAKES: dict[str, list[Change]] = {
    "plain": [],
    "packed": [lambda model: pack(model, 0)],
    "16 bits": [lambda model: pack_float16(model, 0), lambda model: pack(model, 0)],
}


def stored(model: Any) -> Any:
    """By torch's own way."""
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES: dict[str, Change] = {
    "itself": lambda model: model,
    "shallow": copy.copy,
    "deep": copy.deepcopy,
    "pickled": lambda model: pickle.loads(pickle.dumps(model)),
    "stored": stored,
}


@cache
def _llama(layers: int) -> Any:
    return tiny_llama(5, N, layers, torch.float32, num_attention_heads=4, num_key_value_heads=2)


def llama(layers: int = 3) -> Any:
    """A plain model of transformers, always the same."""
    return copy.deepcopy(_llama(layers))


def never_had(missing: int) -> Any:
    """One of two layers, with the weights of the others."""
    weights, model = llama().state_dict(), llama(2)
    for number, layer in enumerate(other for other in range(3) if other != missing):
        for name in model.model.layers[number].state_dict():
            weights[f"model.layers.{number}.{name}"] = _llama(3).state_dict()[f"model.layers.{layer}.{name}"]
    model.load_state_dict({name: weights[name] for name in model.state_dict()})
    return model


def laws(model: Any) -> Any:
    """By the engine's passes over its cache (4, n), then by transformers' own along the text (4, n)."""
    behind = torch.stack(PrefixLogits(model, TEXT, N).at(BEHIND))
    return torch.cat((behind, model(torch.tensor([TEXT])).logits[0])).softmax(-1)


def changed(model: Any, how: str) -> Any:
    for change in MAKES[how]:
        change(model)
    return model


@pytest.mark.parametrize("missing", [0, 2])
@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("behind", ["plain", "packed"])
@pytest.mark.parametrize("before", MAKES)
def test_a_target_without_layers_is_one_that_never_had_them(
    before: str, behind: str, copied: str, missing: int
) -> None:
    """What is done to the target before and to the shorter one behind, and how either is copied, changes nothing."""
    target = COPIES[copied](changed(llama(), before))
    shorter = changed(COPIES[copied](without_layers(target, [missing])), behind)
    few = {"rtol": 0.0, "atol": 1e-2 if "16 bits" in before else 1e-5}
    torch.testing.assert_close(laws(shorter), laws(never_had(missing)), **few)
    torch.testing.assert_close(laws(target), laws(llama()), **few)
    apart = torch.minimum(laws(target), laws(shorter)).sum(-1)
    assert (apart < 0.99).all() and apart.mean() < 0.9, f"the target's own law: {apart.tolist()}"


@pytest.mark.parametrize("how", [how for how in MAKES if "16" not in how])
@pytest.mark.parametrize("copied", ["deep", "pickled", "stored"])
def test_a_copy_shares_nothing_with_what_it_was_copied_from(how: str, copied: str) -> None:
    model = changed(llama(), how)
    other, wanted = COPIES[copied](model), laws(model)
    with torch.no_grad():
        for weight in (*model.parameters(), *(m._layout.weight for m in model.modules() if hasattr(m, "_layout"))):
            weight.zero_()
    torch.testing.assert_close(laws(other), wanted, rtol=0, atol=1e-6)
    assert not torch.allclose(laws(model), wanted, atol=1e-3)


@pytest.mark.slow
def test_a_pickled_model_is_read_in_another_process(tmp_path: Path) -> None:
    model = changed(as_llama(llama()), "packed")  # one of transformers' own would tell no hidden states there
    (tmp_path / "model").write_bytes(pickle.dumps(Pair(model, None)))
    read = f"import pickle; m = pickle.load(open({str(tmp_path / 'model')!r}, 'rb')).target; import torch;"
    shown = "out = m(torch.tensor([[1, 2, 3, 4]]), output_hidden_states=True); print(len(out.hidden_states), *out.logits[0, -1].tolist())"
    printed = subprocess.run([sys.executable, "-c", read + shown], capture_output=True, text=True, check=True).stdout
    count, *logits = map(float, printed.split())
    assert count == 4
    torch.testing.assert_close(torch.tensor(logits), model(torch.tensor([TEXT])).logits[0, -1], rtol=0, atol=1e-5)
