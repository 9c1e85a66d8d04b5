"""Whatever is given, no wealth but a number: what is no law is refused or left out and counted, and the rest is judged."""

from __future__ import annotations

import contextlib
import json
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ot_draft.verify.server import Audit, CannotAudit, Token, read_log
from ot_draft.verify.server.records import ENTRY

EXTREME = st.sampled_from(
    [
        0.0,
        -0.0,
        1.0,
        0.5,
        5e-324,
        1e-320,
        1e-300,
        1e-45,
        2.0**-24,
        1 - 1e-16,
        1.0005,
        1e308,
        -1e308,
        np.inf,
        -np.inf,
        np.nan,
        -1e-9,
    ]
)
NUMBER = EXTREME | st.floats(0, 1)
WHOLE = st.integers(-3, 6) | st.sampled_from([2**31, 2**62, 2**63, 2**64, 2**70, -(2**70), 10**100])
OTHER = st.sampled_from([None, True, "0.5", "x", "\ud800", 1j, 0.5, 3.7, np.nan, [], [1], {}, b"1", np.float32(1)])
LIST = st.lists(NUMBER, max_size=5) | st.lists(NUMBER | OTHER, max_size=3)
DTYPES = st.sampled_from([None, np.float16, np.float32, np.float64, np.int64, np.uint64, bool, complex, object, "U4"])
FUZZ = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


def cast(values: Any, dtype: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return values if dtype is None else np.array(values, dtype=dtype)
        except (TypeError, ValueError, OverflowError):
            return values


def law(values: list[float], dtype: Any) -> Any:
    """A law where it can be one, else as it is."""
    try:
        found = np.array(values, dtype=float)
        if np.all((found >= 0) & (found < 1e300)) and found.sum() > 1e-300:
            values = (found / found.sum()).tolist()
    except (TypeError, ValueError, OverflowError):
        pass
    return cast(values, dtype)


def settled(audit: Audit) -> None:
    audit.add(Token.of_law(0, np.array([0.5, 0.5])))
    assert np.isfinite(audit.log_e_value)
    report = audit.report()
    assert np.isfinite([report.evidence.bound, report.evidence.observed_bias, report.evidence.log_largest]).all()
    assert 0 <= report.evidence.bound <= 1 and str(report)
    json.dumps(report.record, allow_nan=False, default=float)


@FUZZ
@given(st.data())
def test_tokens_one_by_one(data: st.DataObject) -> None:
    audit = Audit()
    for _ in range(4):
        known = data.draw(
            st.fixed_dictionaries(
                {}, optional=dict.fromkeys(("request", "position", "batch", "step_offset"), WHOLE | OTHER)
            )
        )
        mass = (
            law(data.draw(LIST), data.draw(DTYPES))
            if data.draw(st.booleans())
            else cast(data.draw(LIST), data.draw(DTYPES))
        )
        if data.draw(st.booleans()):
            known["draft_probs"] = law(data.draw(LIST), data.draw(DTYPES))
        token = data.draw(WHOLE | OTHER)
        try:
            if data.draw(st.booleans()):
                audit.add(Token.of_law(token, mass, **known))
            else:
                ids = data.draw(st.lists(WHOLE, max_size=5, unique=True) | st.just(list(range(len(mass)))))
                own, whole = data.draw(NUMBER | OTHER), data.draw(st.booleans())
                audit.add(Token.of_top(token, ids, mass, own, whole=whole, **known))
        except CannotAudit as error:
            audit.leave_out(str(error), "here")
    settled(audit)


@FUZZ
@given(st.data())
def test_tokens_in_arrays(data: st.DataObject) -> None:
    audit, rows = Audit(), data.draw(st.integers(0, 3))
    laws = cast(
        [law(data.draw(st.lists(NUMBER, min_size=3, max_size=3)), None) for _ in range(rows)], data.draw(DTYPES)
    )
    columns = st.lists(WHOLE | OTHER, min_size=rows, max_size=rows) | st.lists(
        st.integers(0, 2), min_size=rows, max_size=rows
    )
    known = data.draw(
        st.fixed_dictionaries(
            {}, optional=dict.fromkeys(("request", "position", "batch", "step_offset", "lwa"), columns)
        )
    )
    if data.draw(st.booleans()):
        known["draft"] = cast(
            [law(data.draw(st.lists(NUMBER, min_size=3, max_size=3)), None) for _ in range(rows)], None
        )
    try:
        audit.add(*Token.of_arrays(data.draw(columns), laws, **known))
    except CannotAudit as error:
        audit.leave_out(str(error), "here")
    settled(audit)


VALUE = NUMBER | WHOLE | LIST | st.sampled_from([None, True, "x", "\ud800", [], {}, [[1]]])
OBJECT = st.fixed_dictionaries({}, optional=dict.fromkeys((*sorted(ENTRY), "lwa"), VALUE))
LINE = OBJECT.map(lambda entry: json.dumps(entry, default=str).encode()) | st.binary(max_size=20)


@FUZZ
@given(st.lists(LINE, max_size=5))
def test_a_log_in_lines(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("poison") / "log.jsonl"
    path.write_bytes(b"\n".join([b'{"token": 0, "target_probs": [0.5, 0.5]}', *lines]))
    audit = Audit()
    for token in read_log(path, audit.leave_out):
        audit.add(token)
    assert audit.tokens >= 1
    settled(audit)


@FUZZ
@given(st.data())
def test_a_log_in_arrays(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path, arrays = tmp_path_factory.mktemp("poison") / "log.npz", {}
    for name in [*data.draw(st.lists(st.sampled_from(sorted(ENTRY)), unique=True)), "token"]:
        shape = data.draw(st.sampled_from([(2,), (2, 3), (2, 0), (), (2, 2, 2)]))
        values = data.draw(st.lists(NUMBER | WHOLE.filter(lambda value: abs(value) < 2**62), min_size=8, max_size=8))
        arrays[name] = np.resize(cast(cast(values, float), data.draw(DTYPES)), shape)
    arrays = {name: array for name, array in arrays.items() if array.dtype != object}
    np.savez(path, **arrays)
    audit = Audit()
    with contextlib.suppress(CannotAudit):
        for token in read_log(path, audit.leave_out):
            audit.add(token)
    settled(audit)


@FUZZ
@given(st.binary(max_size=60), st.integers(0, 400), st.booleans())
def test_a_broken_file_of_arrays(tmp_path_factory: pytest.TempPathFactory, junk: bytes, at: int, cut: bool) -> None:
    path = tmp_path_factory.mktemp("poison") / "log.npz"
    np.savez_compressed(path, token=np.zeros(9, dtype=int), target_probs=np.full((9, 2), 0.5))
    there = path.read_bytes()
    path.write_bytes(there[:at] + junk + (b"" if cut else there[at + len(junk) :]))
    audit = Audit()
    with contextlib.suppress(CannotAudit):
        for token in read_log(path, audit.leave_out):
            audit.add(token)
    settled(audit)
