"""Logs and what reported log-probabilities mean."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from mutants.catalogue import TABLES

from ot_draft.cli import main
from ot_draft.verify.server import CannotAudit
from ot_draft.verify.server.reported import Reported

from .chains import random_pair, right, run
from .completions_server import evidence_of


def audit(*words: str) -> Result:
    return CliRunner().invoke(main, ["audit", *words])


def lines(wrong: str | None, count: int, dense: bool) -> list[dict[str, Any]]:
    pair = random_pair(1)
    tables = right(pair) if wrong is None else TABLES[wrong](pair)
    emitted = run(pair, tables, 1.0, 4, count // 4, np.random.default_rng(0))
    found = []
    for i, (request, at) in enumerate(np.ndindex(emitted.token.shape)):
        law, token = pair.p[emitted.last[request, at]], int(emitted.token[request, at])
        entry: dict[str, Any] = {
            "token": token,
            "request": f"r{request}",
            "step_offset": int(emitted.place[request, at]),
        }
        order = np.argsort(-law)[:8]
        top = {"ids": order.tolist(), "own": float(law[token])}
        top |= {"logprobs": np.log(law[order]).tolist()} if i % 2 else {"probabilities": law[order].tolist()}
        found.append(entry | ({"target_probs": law.tolist()} if dense else top))
    return found


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "top"])
def test_a_log_in_lines(dense: bool, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(map(json.dumps, lines(None, 800, dense))) + "\n\n")
    done = audit(str(log), "--json", "-")
    assert done.exit_code == 0, done.output
    assert evidence_of(done.stdout)["tokens"] == 800
    log.write_text("\n".join(map(json.dumps, lines("last token greedy", 2000, dense))))
    done = audit(str(log))
    assert done.exit_code == 1 and "biased" in done.output, done.output


def test_a_compressed_log_is_read_and_other_formats_are_named(tmp_path: Path) -> None:
    text = "\n".join(map(json.dumps, lines("last token greedy", 2000, dense=True))).encode()
    for name in ("log.jsonl.gz", "log.jsonl"):  # by its bytes, not by its name
        (tmp_path / name).write_bytes(gzip.compress(text))
        done = audit(str(tmp_path / name))
        assert done.exit_code == 1 and "biased" in done.output, done.output
    (tmp_path / "half.gz").write_bytes(gzip.compress(text)[:-2000])
    done = audit(str(tmp_path / "half.gz"))
    assert done.exit_code == 2 and "lines could be read" in " ".join(done.output.split()), done.output
    for head, said in ((b"PAR1\0", "is a Parquet file"), (b"BZh9", "bzip2"), (b"\x28\xb5\x2f\xfd", "zstd")):
        (tmp_path / "other").write_bytes(head + bytes(100))
        done = audit(str(tmp_path / "other"))
        assert done.exit_code == 2 and said in " ".join(done.output.split()) and "codec" not in done.output, done.output


def test_a_log_in_arrays(tmp_path: Path) -> None:
    entries = lines("every draft taken", 1200, dense=True)
    token, law = (np.array([entry[name] for entry in entries]) for name in ("token", "target_probs"))
    np.savez(tmp_path / "dense.npz", token=token, target_probs=law)
    ids = np.argsort(-law, axis=1)[:, :8]
    mass = np.take_along_axis(law, ids, axis=1)
    ids[0, 5:] = -1
    np.savez(tmp_path / "sparse.npz", token=token, ids=ids, probabilities=mass, request=np.arange(1200) // 100)
    for name in ("dense.npz", "sparse.npz"):
        done = audit(str(tmp_path / name), "--html", str(tmp_path / "a.html"))
        assert done.exit_code == 1, (name, done.output)
    assert "biased" in (tmp_path / "a.html").read_text()
    np.savez(tmp_path / "short.npz", token=token[:5], target_probs=law)
    assert "target_probs must have one row per token, got shape (1200, 24) for 5 tokens" in " ".join(
        audit(str(tmp_path / "short.npz")).output.split()
    )
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04")
    assert audit(str(tmp_path / "bad.npz")).exit_code == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"token": 1, "target_probs": [0.5, 0.5]', "line 2: not JSON"),
        ("[1]", "line 2: [1] is not an object"),
        ('{"target_probs": [0.5, 0.5]}', "line 2: token must be an integer"),
        ('{"token": true, "target_probs": [0.5, 0.5]}', "line 2: token must be an integer"),
        ('{"token": 1, "target_probs": [0.5, 0.6]}', "line 2: target_probs must be probabilities with sum 1, got sum 1.1"),
        ('{"token": 1, "target_probs": [NaN, 1]}', "line 2: target_probs must be a list of numbers"),
        ('{"token": 1, "target_probs": ["a"]}', "line 2: "),
        ('{"token": 1}', "line 2: no distribution"),
        ('{"token": 1, "ids": [1, 2]}', "line 2: no distribution"),
        ('{"token": 1, "ids": [1, 2.5], "probabilities": [0.5, 0.1]}', "line 2: ids must be whole numbers"),
        ('{"token": 1, "target_probs": [0.5, 0.5], "draft_probs": [null, 1]}', "Omit draft_probs where it is unknown"),
        ('{"token": 1, "ids": [1, 2], "logprobs": [0.5, -1]}', "line 2: logprobs must be at most 0, got 0.5"),
        ('{"token": 1, "target_probs": [0.5, 0.5], "lwa": 1}', "line 2: 'lwa' is not a key"),
        ('{"token": 1, "target_probs": [0.5, 0.5], "step_offset": "x"}', "line 2: step_offset must be an integer of at least -1"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_named(line: str, said: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"token": 1, "target_probs": [0.5, 0.5]}\n' + line + "\n")
    done = audit(str(log))
    assert done.exit_code == 2 and said in " ".join(done.output.split()), done.output


def test_lines_that_cannot_be_read_are_left_out_and_counted(tmp_path: Path) -> None:
    """Each kind with the first of its lines; the verdict is on the rest, and bounds what is missing too."""
    bad = ["{", '{"token": 1}', '{"token": 1, "target_probs": [0, 0]}', '{"token": 1, "target_probs": [1e999, 0]}', "[" * 100_000,
           "\\ud800", '{"token": 1180591620717411303424, "target_probs": [0.5, 0.5]}',
           '{"token": 1, "token": 2, "target_probs": [0.5, 0.5]}']  # fmt: skip
    good = [json.dumps(entry) for entry in lines(None, 4000, dense=True)]
    wrong = [json.dumps(entry) for entry in lines("last token greedy", 4000, dense=True)]
    log = tmp_path / "log.jsonl"
    log.write_bytes(
        "\n".join([good[0], *bad, *bad, *good[1:]]).encode() + b'\n{"token": 1, "target_probs": "\xff"}\n{"tok'
    )
    done = audit(str(log), "--json", "-")
    found = evidence_of(done.stdout)
    assert done.exit_code == 0 and (found["tokens"], found["unreadable"]) == (4000, 18), done.output
    assert "log.jsonl, line 2: not JSON" in str(found["left_out"]) and found["bound"] > 18 / 4018
    log.write_text("\n".join([*bad * 10, *wrong]))
    assert audit(str(log)).exit_code == 1
    log.write_text("\n".join([*bad * 40, *good]))
    done = audit(str(log), "--json", "-")
    found = evidence_of(done.stdout)
    assert done.exit_code == 2 and found["status"] == "not decided" and "320 of 4,320" in found["reason"]
    log.write_text("\n".join(bad))
    assert audit(str(log)).exit_code == 2 and "none of 8 tokens can be read" in " ".join(audit(str(log)).output.split())


LAWS = {"token": np.zeros(3, dtype=int), "target_probs": np.full((3, 2), 0.5)}
LISTS = {"token": np.zeros(3, dtype=int), "ids": np.zeros((3, 1), dtype=int), "probabilities": np.full((3, 1), 0.5)}


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (LAWS | {"token": np.full(3, 0.7)}, "token must be an integer"),
        (
            LAWS | {"target_probs": np.full((3, 2), 0.5 + 0j)},
            "target_probs must be real numbers, got type complex128",
        ),
        (LAWS | {"request": np.array([np.nan, 1, 2])}, "the name of a request"),
        (LISTS | {"ids": np.full((3, 1), 0.5)}, "ids must be whole numbers, got type float64"),
        (LISTS | {"whole": np.array(["no", "no", "no"])}, "whole must be true or false"),
        (LISTS | {"position": np.array([0.5, 1, 2])}, "position must be an integer"),
        (LISTS | {"probabilities": np.full((3, 2), 0.5)}, "none of 3 tokens can be read"),
        ({"token": np.zeros(()), "target_probs": np.zeros((1, 2))}, "token must have one row per token, got shape ()"),
    ],
)
def test_arrays_that_would_have_to_be_repaired_are_refused(arrays: dict[str, Any], said: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", **arrays)
    done = audit(str(tmp_path / "log.npz"))
    assert done.exit_code == 2 and said in " ".join(done.output.split()), done.output


def test_rows_of_arrays_that_cannot_be_read_are_left_out_and_counted(tmp_path: Path) -> None:
    entries = lines(None, 2000, dense=True)
    token, law = (np.array([entry[name] for entry in entries]) for name in ("token", "target_probs"))
    law[1234, 0] = np.nan
    np.savez(
        tmp_path / "log.npz", token=token, target_probs=law, request=np.array([entry["request"] for entry in entries])
    )
    done = audit(str(tmp_path / "log.npz"), "--json", "-")
    found = evidence_of(done.stdout)
    assert done.exit_code == 0 and found["unreadable"] == 1 and "row 1234" in str(found["left_out"]), done.output
    (tmp_path / "array.npz").write_bytes((tmp_path / "log.npz").read_bytes()[:-60])
    with (tmp_path / "one.npz").open("wb") as file:
        np.save(file, law)
    for name in ("array.npz", "one.npz"):
        assert audit(str(tmp_path / name)).exit_code == 2


def test_no_log() -> None:
    assert "start with http" in audit("nothing.jsonl").output


LOGS = np.log(np.array([0.4, 0.3, 0.15, 0.1, 0.03]))  # of five tokens; .02 is the rest


def test_a_law_that_can_be_known() -> None:
    def law(**given: Any) -> Any:
        found = Reported(listed=5, **given).distribution(LOGS)
        return None if found is None else found.tolist()

    assert law() == pytest.approx([0.4, 0.3, 0.15, 0.1, 0.03])
    assert law(top_k=2) == pytest.approx([4 / 7, 3 / 7, 0, 0, 0])
    assert law(top_k=2, temperature=0.5) == pytest.approx([16 / 25, 9 / 25, 0, 0, 0])
    assert law(temperature=0) == pytest.approx([1, 0, 0, 0, 0])
    assert law(top_p=0.6) == pytest.approx([4 / 7, 3 / 7, 0, 0, 0])
    assert law(top_p=0.7) is None  # .4 + .3 is .7: rounding decides
    assert law(top_p=0.99) is None  # the list ends before
    assert law(top_k=2, temperature=0.5, top_p=0.6) == pytest.approx([1, 0, 0, 0, 0])
    assert law(top_k=2, temperature=0.5, top_p=0.6, temperature_last=True) == pytest.approx([16 / 25, 9 / 25, 0, 0, 0])
    assert law(mode="tempered", temperature=0.5, top_k=2) == pytest.approx([4 / 7, 3 / 7, 0, 0, 0])
    assert law(mode="processed", temperature=0.5, top_k=40) == pytest.approx([0.4, 0.3, 0.15, 0.1, 0.03])
    assert Reported(listed=3, top_k=1).distribution(np.log([0.4, 0.4, 0.1])) is None  # a tie at the edge


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"temperature": 0.7, "top_p": 0.9}, "raw log-probabilities of 20 tokens"),
        ({"temperature": 0.7, "top_k": 21}, "raw log-probabilities of 20 tokens"),
        ({"top_k": 50}, "top-k 50"),
        ({"temperature": 0.7, "mode": "tempered", "top_k": 50}, "top-k 50"),
        ({"temperature": -1}, "temperature -1"),
        ({"top_p": 0}, "top-p 0"),
        ({"mode": "cooked"}, "cooked"),
    ],
)
def test_a_law_that_cannot_be_known_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(CannotAudit, match=said):
        Reported(**given)


def test_the_report_says_what_an_e_value_is(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(each) + "\n" for each in lines(None, 40, True)))
    shown = " ".join(audit(str(log), "--level", "0.001").stdout.split())
    assert "e-value: evidence against the hypothesis that the server is unbiased" in shown
    assert "at least 1/alpha = 1,000 rejects it at level alpha = 0.001" in shown
