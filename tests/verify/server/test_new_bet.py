"""The bet of examples/contributing is fair, and takes its weight from its family."""

from __future__ import annotations

import numpy as np
import pytest
from contributing import example

from ot_draft.verify.server import Token
from ot_draft.verify.server.bets import Bets, Scores
from ot_draft.verify.server.blocks import stack
from ot_draft.verify.server.wealth import Wealth


def test_it_is_fair_and_no_dearer(monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("even_ids", monkeypatch)
    laws = np.random.default_rng(0).dirichlet(np.ones(100), size=5)  # of more tokens than are kept: there is a rest
    mean = np.zeros((5, 1))
    for token in range(100):
        tokens = stack(Token.of_arrays(np.full(5, token), laws))
        listed, rest = module.even_ids(tokens)
        y, m = Scores(listed[None], np.full((1, 5), rest)).outcomes(tokens)
        mean += laws[:, [token]] * y
    assert np.allclose(mean, m) and m.min() > 0.1 and m.max() < 0.9
    bets = Bets().placed
    before, after = (np.exp(Wealth(1e-4, placed)._weights) for placed in (bets, (*bets, module.EVEN)))
    others = np.array([bet.family != module.EVEN.family for bet in bets])
    assert np.isclose(after.sum(), before.sum()) and np.allclose(after[:-1][others], before[others])
