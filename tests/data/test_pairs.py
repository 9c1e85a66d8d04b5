"""Files of pairs: what is odd in them is refused in one line, or read as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ot_draft as otd
from ot_draft.data import compare_rules, summarise
from ot_draft.data.pairs import as_pairs, read_pairs
from ot_draft.data.shards import laws_of_logits
from ot_draft.data.study import Study, choose_rules

ODD = {
    "large.json": ('{"p": [%s, 0], "q": [1, 0]}' % ("9" * 400), "cannot be read: int too large"),
    "nested.json": ("[" * 100_000, "cannot be read: maximum recursion depth"),
    "true.json": ('{"p": [true, 0.0], "q": [0.5, 0.5]}', "p[0] must be a number in lists of one length, got true"),
    "large.csv": ("p,q\n1e400,1\n0,0\n", "cannot be read: integer division result too large"),
    "small.csv": (
        "p,q\n1e-99999999,1\n1,0\n",
        "must be a fraction or a decimal of at most 1000 digits, got '1e-99999999'",
    ),
    "twice.csv": ("p,p,q\n.1,.5,.5\n.9,.5,.5\n", "each once, and pair, got p, p."),
    "decimal_commas.csv": (
        "p,q\n0,5,0,5\n1,0\n",
        "line 2 must have as many cells as the header, got more. Write decimals as 0.5",
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_files_are_refused(name: str, tmp_path: Path) -> None:
    text, message = ODD[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(otd.InvalidDistribution, match=f"{re.escape(name)}.*{re.escape(message)}"):
        read_pairs(tmp_path / name)


def test_the_arrays_of_an_npz_without_pairs_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "pairs.npz", first=[1.0], second=[1.0])
    with pytest.raises(otd.InvalidDistribution, match=r"pairs.npz: names must be p and q, .*, got first, second\."):
        read_pairs(tmp_path / "pairs.npz")


def test_a_byte_order_mark_is_no_part_of_the_header(tmp_path: Path) -> None:
    (tmp_path / "sheet.csv").write_text("\ufeffp,q\n0.5,0.25\n0.5,0.75\n", encoding="utf-8")
    assert read_pairs(tmp_path / "sheet.csv").p.tolist() == [[0.5, 0.5]]


def test_temperatures_are_numbers() -> None:
    p = np.full((2, 3, 4), 0.25)
    with pytest.raises(otd.InvalidDistribution, match="there: temperatures must be numbers, got dtype <U1"):
        as_pairs({"p": p, "q": p, "temperatures": np.array(["a", "b"])}, "there")


@pytest.mark.parametrize("batch", [(2,), (2, 3), (2, 3, 2)])
def test_temperatures_are_those_of_the_first_axis(batch: tuple[int, ...]) -> None:
    p = np.full((*batch, 4), 0.25)
    pairs = as_pairs({"p": p, "q": p, "temperatures": np.array([1.0, 0.6])}, "there")
    each = len(pairs) // 2
    assert pairs.group == ("1.0",) * each + ("0.6",) * each


@pytest.mark.parametrize(
    ("temperatures", "said"),
    [
        (
            [1.0, 0.6, 0.3],
            r"temperatures must be one number for each entry of the first axis of p, of shape \(2,\), got shape \(3,\)",
        ),
        ([[1.0, 0.6]], r"shape \(1, 2\)"),
        (1.0, r"shape \(\)"),
        ([1.0, np.nan], "must be finite numbers >= 0, got nan. Correct entry 1"),
        ([-0.6, 1.0], "must be finite numbers >= 0, got -0.6. Correct entry 0"),
        ([np.inf, 1.0], "must be finite numbers >= 0, got inf. Correct entry 0"),
    ],
)
def test_temperatures_that_do_not_fit_are_not_passed_over(temperatures: Any, said: str) -> None:
    p = np.full((2, 3, 4), 0.25)
    with pytest.raises(otd.InvalidDistribution, match=f"there: {said}" if said[0] == "t" else said):
        as_pairs({"p": p, "q": p, "temperatures": np.array(temperatures)}, "there")


def test_a_temperature_beside_one_pair_without_axes_is_refused() -> None:
    p = np.full(4, 0.25)
    with pytest.raises(otd.InvalidDistribution, match=r"for each entry of the first axis of p, of shape \(\)"):
        as_pairs({"p": p, "q": p, "temperatures": np.array(0.6)}, "there")


@pytest.mark.parametrize(
    "logits",
    [np.array(1.0), np.zeros((2, 0)), np.zeros((1, 2), complex), np.array([["a", "b"]]), np.zeros((1, 2), bool)],
    ids=lambda x: f"{x.dtype} {x.shape}",
)
def test_logits_that_are_no_numbers(logits: Any) -> None:
    with pytest.raises(
        otd.InvalidDistribution, match=r"shard: logits must be floating-point of shape \(..., n\), n >= 1, got dtype"
    ):
        laws_of_logits(logits, source="shard")


def test_logits_as_far_apart_as_floats_go() -> None:
    assert laws_of_logits(np.array([[1e308, -1e308, 1e308]])).tolist() == [[0.5, 0.0, 0.5]]
    assert laws_of_logits(np.array([[0.0, -np.inf, -1.0]]), 1e-320).tolist() == [[1.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("study", "said"),
    [
        ({"ks": (2, 4, 2)}, "ks must differ, got 2 twice"),
        (
            {"rules": (otd.rules.KSeq(), otd.rules.KSeq())},
            r"rules must differ, got KSeq\(.*\) twice. Give it once",
        ),
    ],
)
def test_what_stands_twice_in_a_study_would_count_twice(study: Any, said: str) -> None:
    with pytest.raises(otd.InvalidArgument, match=said):
        Study(**study)


def test_a_rule_that_is_named_twice_is_compared_once() -> None:
    assert choose_rules(["KSeq", "k-seq"]) == (otd.rules.KSeq(),) == choose_rules(["KSeq", "KSeq"], ["iid", "iid"])


def test_two_rules_of_one_name_are_no_mean() -> None:
    class Optimal(otd.rules.KSeq):
        """Another rule of this name."""

    p = np.full((2, 4), 0.25)
    pairs, study = as_pairs({"p": p, "q": p}, "there"), Study((2,), (otd.rules.Optimal(), Optimal()))
    with pytest.raises(otd.InvalidArgument, match=r"two rows of Optimal under iid with k = 2, .* Rename one"):
        summarise(compare_rules(pairs, study), pairs)
