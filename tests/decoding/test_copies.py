"""A copy of a model is itself: no module remembers another one than those that it consists of."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from tiny_models import tiny_llama

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from llm_demo.bench.trees.prefixes import PrefixLogits  # noqa: E402
from ot_draft.decoding.self_draft import without_layers  # noqa: E402

N, TEXT, BEHIND = 11, [1, 2, 3, 4], [(), (5,), (5, 6), (7,)]
Change = Callable[[Any], Any]


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


@pytest.mark.parametrize("missing", [0, 2])
@pytest.mark.parametrize("copied", COPIES)
def test_a_target_without_layers_is_one_that_never_had_them(copied: str, missing: int) -> None:
    """However either is copied."""
    target = COPIES[copied](llama())
    shorter = COPIES[copied](without_layers(target, [missing]))
    few = {"rtol": 0.0, "atol": 1e-5}
    torch.testing.assert_close(laws(shorter), laws(never_had(missing)), **few)
    torch.testing.assert_close(laws(target), laws(llama()), **few)
    apart = torch.minimum(laws(target), laws(shorter)).sum(-1)
    assert (apart < 0.99).all() and apart.mean() < 0.9, f"the target's own law: {apart.tolist()}"


@pytest.mark.parametrize("copied", ["deep", "pickled", "stored"])
def test_a_copy_shares_nothing_with_what_it_was_copied_from(copied: str) -> None:
    model = llama()
    other, wanted = COPIES[copied](model), laws(model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    torch.testing.assert_close(laws(other), wanted, rtol=0, atol=1e-6)
    assert not torch.allclose(laws(model), wanted, atol=1e-3)
