"""The decoding engine with a path rule for another target: the first token follows r, not p."""

from __future__ import annotations

import numpy as np
import pytest
from chances import chance
from tiny_models import tiny_pair

import ot_draft as ot
from ot_draft import paths, targets

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.decoding.draft_plan import Drafting  # noqa: E402
from ot_draft.decoding.loop import Options, decode  # noqa: E402
from ot_draft.decoding.reference import next_token  # noqa: E402
from ot_draft.decoding.sampling_settings import Sampling  # noqa: E402

N, TEXTS, FALSE_ALARM = 8, 1500, 1e-9


@pytest.mark.parametrize(
    "rule",
    [
        paths.Toward(targets.TotalVariation(0.3), paths.Joint()),
        paths.Toward(targets.Ensemble(0.2), paths.TokenWise(ot.rules.KSeq())),
    ],
)
def test_the_first_token_follows_the_target_of_the_rule(rule: paths.Toward) -> None:
    pair = tiny_pair(seed=11, n=N, layers=2)
    prompt = [1, 2, 3, 4]
    p, q = (next_token(model, prompt, Sampling(), N).double() for model in (pair.target, pair.draft))
    r = rule.target(p / p.sum(), q / q.sum(), 3).numpy()
    assert abs(r - p.numpy()).sum() > 0.1
    tokens = decode(pair, [prompt] * TEXTS, Drafting.chains(3, 2, rule), Options(Sampling(), max_tokens=1)).tokens
    counts = np.bincount(np.array(tokens)[:, 0], minlength=N)
    assert chance(counts, r) > FALSE_ALARM
    assert chance(counts, p.numpy()) < FALSE_ALARM
