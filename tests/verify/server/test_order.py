"""The order of a log: texts in their order are judged, rows out of order or given twice are never held against the sampler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from ot_draft.arrays import Array
from ot_draft.cli import main
from ot_draft.verify.outcome import Status
from ot_draft.verify.server import Audit, Token

from .chains import inverse, softmax

ROWS, LENGTH, N = 8, 200, 24


def texts() -> tuple[Array, Array, Array]:
    """Laws (N, N) of a Markov chain, its tokens and the ones before them (ROWS, LENGTH)."""
    generator = np.random.default_rng(5)
    p = softmax(2 * generator.normal(size=(N, N)))
    last, columns = generator.integers(N, size=ROWS), []
    for _ in range(LENGTH):
        token = inverse(p[last], generator.random(ROWS))
        columns.append((token, last))
        last = token
    return p, *(np.stack(side, axis=1) for side in zip(*columns, strict=True))


IN_ORDER = [(row, position) for position in range(LENGTH) for row in range(ROWS)]
ORDERS = {
    "reversed": IN_ORDER[::-1],
    "each text reversed": sorted(IN_ORDER, key=lambda place: (place[0], -place[1])),
    "every row twice": [place for place in IN_ORDER for _ in range(2)],
    "the whole log twice": IN_ORDER * 2,
    "shuffled": [IN_ORDER[i] for i in np.random.default_rng(0).permutation(len(IN_ORDER))],
}


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("way", ["of_law", "of_top", "of_arrays"])
def test_rows_out_of_order_are_left_out_and_counted(name: str, way: str) -> None:
    audit, (p, token, last) = Audit(), texts()
    at = tuple(np.array(ORDERS[name]).T)
    if way == "of_arrays":
        audit.add(*Token.of_arrays(token[at], p[last[at]], request=at[0], position=at[1]))
    for row, position in ORDERS[name] if way != "of_arrays" else ():
        law, known = p[last[row, position]], {"request": f"text {row}", "position": position}
        if way == "of_law":
            audit.add(Token.of_law(int(token[row, position]), law, **known))
        else:
            audit.add(Token.of_top(int(token[row, position]), np.arange(N), law, **known))
    report = audit.report()
    assert (
        not audit.biased and report.status == Status.UNDECIDED and report.evidence.unreadable >= len(at[0]) / 2 - ROWS
    )
    assert "every token once, each sequence in order" in report.evidence.reason


def test_texts_without_a_name_begin_anew_where_positions_do() -> None:
    audit, (p, token, last) = Audit(), texts()
    for row in range(ROWS):
        for position in range(LENGTH):
            audit.add(Token.of_law(int(token[row, position]), p[last[row, position]], position=position))
    report = audit.report()
    assert report.word == "no bias found" and report.evidence.unreadable == 0


@pytest.mark.parametrize("names", [("first", "then"), ("then", "first"), (1, 2), (2, 1)])
def test_a_text_may_quote_one_before_it(names: tuple[Any, Any]) -> None:
    """Each second text is sure, nearly, of the tokens of the first: read before it, it would give these away."""
    generator, audit = np.random.default_rng(3), Audit()
    for chat in range(150):
        law = generator.dirichlet(np.full(8, 0.7), size=16)
        token = inverse(law, generator.random(16))
        quoting = 0.6 * np.eye(8)[token] + 0.4 * law
        quote = inverse(quoting, generator.random(16))
        for name, laws, tokens in zip(names, (law, quoting), (token, quote), strict=True):
            for i in range(16):
                request = f"{name} {chat}" if isinstance(name, str) else 10 * chat + name
                audit.add(Token.of_law(int(tokens[i]), laws[i], request=request, position=i, batch=chat))
    assert not audit.biased and audit.report().evidence.log_largest < 5


def test_a_log_is_not_overwritten_and_a_folder_that_is_not_there_is_refused_first(tmp_path: Path) -> None:
    p, token, last = texts()
    log = tmp_path / "log.jsonl"
    log.write_text(
        "\n".join(
            json.dumps({"token": int(t), "target_probs": p[x].tolist()}) for t, x in zip(token[0], last[0], strict=True)
        )
    )
    before = log.read_bytes()
    for option in ("--json", "--html"):
        done = CliRunner().invoke(main, ["audit", str(log), option, str(log)])
        assert done.exit_code == 2 and "must differ from the audited log" in done.output and log.read_bytes() == before
        done = CliRunner().invoke(main, ["audit", str(log), option, str(tmp_path / "none" / "page")])
        assert done.exit_code == 2 and "must be in an existing folder" in done.output
