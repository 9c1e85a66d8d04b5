"""What a policy loses in hindsight: the costs that are read from the table of backends, and what a text's steps are charged."""

from __future__ import annotations

import click
import pytest
from tiny_models import tiny_pair

pytest.importorskip("torch")
pytest.importorskip("transformers")

from llm_demo.bench import hindsight
from llm_demo.prompts import Prompt
from ot_draft.decoding import DecodeOptions, Drafting, PromptLookup
from ot_draft.decoding.model import CallSizes
from ot_draft.trees import BlockVerification

PASSES = {1: 20.0, 2: 21.0, 3: 22.0, 4: 24.0, 5: 25.0, 6: 26.0, 8: 30.0, 16: 50.0, 32: 90.0}
ROW = {f"ms_{number}": str(ms) for number, ms in PASSES.items()}
ROW |= {f"draft_ms_{rows}": str(2 + 0.1 * rows) for rows in (1, 2, 4, 8)}
ROW |= {"plain_step_ms": "23", "drafted_step_ms": "28.1", "changed_ms": "5"}
CHAIN = Drafting.chains(1, 1, BlockVerification())
OPTIONS = DecodeOptions(max_tokens=6, stop=())


def test_costs_add_up_to_the_measured_steps() -> None:
    costs = hindsight.costs_in(ROW)
    assert costs.verify[1] == 23 and costs.verify[2] == 24
    assert costs.of(1, 1) == pytest.approx(28.1)
    assert costs.of(1, 2) == pytest.approx(25 + 2 * 2.1 + 2)
    assert costs.change == 5
    with pytest.raises(click.UsageError, match="lacks the columns changed_ms"):
        hindsight.costs_in({name: ms for name, ms in ROW.items() if name != "changed_ms"})


@pytest.mark.parametrize("least", [1, 2])
def test_a_step_is_charged_its_passes_and_its_change_of_positions(least: int) -> None:
    clock = hindsight.Clock(hindsight.costs_in(ROW), CallSizes(least))
    charged = []
    for drafting in (
        Drafting.autoregressive(),
        CHAIN,
        Drafting.chains(1, 3, BlockVerification()),
        Drafting.autoregressive(),
    ):
        before = clock.ms
        clock.charge(drafting)
        charged.append(clock.ms - before)
    change = 5 if least == 1 else 0  # from one position to two
    assert charged == pytest.approx([23, 28.1 + change, 27 + 3 * 2.1 + 2 + 5, 23 + 5])
    clock.charge(Drafting.looked_up(PromptLookup(3, 1)).shortened(1))
    assert clock.ms - sum(charged) == pytest.approx(24 + 2 + change)  # no draft pass


def test_plain_decoding_is_the_measure_and_no_tokens_are_lost_or_won() -> None:
    costs, pair, prompt = hindsight.costs_in(ROW), tiny_pair(), Prompt("chat", [1, 2, 3])
    tokens, ms = hindsight.tokens_and_ms(pair, Drafting.autoregressive(), prompt, OPTIONS, costs)
    assert (tokens, ms) == (6, pytest.approx(6 * 23))
    tokens, ms = hindsight.tokens_and_ms(pair, CHAIN, prompt, OPTIONS, costs)
    assert tokens == 6 and 3 * 28.1 <= ms + 1e-9 <= 6 * 28.1 + 1e-6
    found = [("chat", 6, 6 * 23.0), ("code", 6, 3 * 23.0)]
    rows = {row["kind"]: row for row in hindsight.rows_of("auto", found, 23.0, 1.0)}
    assert [rows[kind]["ratio"] for kind in ("chat", "code", "all")] == ["1.000", "2.000", "1.333"]
    assert rows["all"]["least"] == "1.000"


def test_auto_is_told_the_costs_and_begins_anew() -> None:
    makers = hindsight.contenders(hindsight.costs_in(ROW))
    one, other = makers["auto"](), makers["auto"]()
    assert one is not other and one.costs.change == 5 and not one.uses_clock
    assert list(makers)[1:] == [f"{K}x{L}" for K, L in hindsight.SHAPES]
