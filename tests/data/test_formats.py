"""Pairs in files of every kind are the same pairs, to `compare` and to `sweep`; what is none of them is refused by name."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ot_draft as otd
from ot_draft.data import open_shards, read_pairs
from ot_draft.data.formats import columns

WEIGHTS = np.random.default_rng(3).integers(1, 9, size=(2, 5, 4)).astype(float)
WEIGHTS[..., -1] = 64 - WEIGHTS[..., :-1].sum(-1)  # 64ths are exact in every number type
P, Q = WEIGHTS / 64
Writer = Callable[[Path, dict[str, Any]], None]


def write_json(file: Path, arrays: dict[str, Any]) -> None:
    file.write_text(json.dumps({name: array.tolist() for name, array in arrays.items()}))


def write_csv(file: Path, arrays: dict[str, Any]) -> None:
    p, q = arrays.values()
    rows = [
        f"{pair},{a!r},{b!r}" for pair in range(len(p)) for a, b in zip(p[pair].tolist(), q[pair].tolist(), strict=True)
    ]
    file.write_text("\n".join(["pair,p,q", *rows]))


def write_parquet(file: Path, arrays: dict[str, Any]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({name: list(array) for name, array in arrays.items()}), file)


def write_safetensors(file: Path, arrays: dict[str, Any]) -> None:
    pytest.importorskip("safetensors.numpy").save_file(arrays, file)


def write_torch(file: Path, arrays: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    torch.save({name: torch.tensor(array) for name, array in arrays.items()}, file)


WRITERS: dict[str, Writer] = {
    ".npz": lambda file, arrays: np.savez(file, **arrays),
    ".npy": lambda file, arrays: np.save(file, np.stack(list(arrays.values()))),
    ".json": write_json,
    ".csv": write_csv,
    ".parquet": write_parquet,
    ".safetensors": write_safetensors,
    ".pt": write_torch,
}
NAMED = [kind for kind in WRITERS if kind not in (".npy", ".csv")]


def agree(file: Path, p: Any = P, q: Any = Q, error: float = 0.0) -> None:
    """Both readers, whole and by rows."""
    pairs, (shard,) = read_pairs(file), open_shards([file])
    np.testing.assert_allclose(pairs.p.astype(float), p, rtol=0, atol=error)
    np.testing.assert_allclose(pairs.q.astype(float), q, rtol=0, atol=error)
    found = [np.concatenate(parts) for parts in zip(shard.read(0, 2), shard.read(2, 5), strict=True)]
    np.testing.assert_allclose(found, [p, q], rtol=0, atol=error)


@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_of_file_holds_the_same_pairs(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"pairs{kind}"
    WRITERS[kind](file, {"p": P, "q": Q})
    agree(file)
    digest = open_shards([file])[0].digest
    swapped = tmp_path / f"swapped{kind}"
    WRITERS[kind](swapped, {"p": Q, "q": P})
    assert open_shards([swapped])[0].digest != digest
    agree(swapped, Q, P)


@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize(
    "names",
    [("target", "draft"), ("target_probs", "draft_probs"), ("target_logits", "draft_logits"), ("p_logits", "q_logits")],
    ids=lambda names: names[0],
)
def test_arrays_under_other_names(kind: str, names: tuple[str, str], tmp_path: Path) -> None:
    logits = "logits" in names[0]
    file = tmp_path / f"pairs{kind}"
    WRITERS[kind](file, dict(zip(names, np.log([P, Q]) + 3 if logits else (P, Q), strict=True)))
    agree(file, error=1e-12 * logits)


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind not in (".csv", ".json")])
@pytest.mark.parametrize("number", ["f2", "f4"])
def test_other_number_types(kind: str, number: str, tmp_path: Path) -> None:
    file = tmp_path / f"pairs{kind}"
    WRITERS[kind](file, {"p": P.astype(number), "q": Q.astype(number)})
    agree(file)


@pytest.mark.parametrize("n", [7, 5000])
def test_masses_of_float16_as_far_as_they_are_laws(n: int, tmp_path: Path) -> None:
    p, q = np.random.default_rng(n).dirichlet(np.full(n, 0.3), size=(2, 3))
    file = tmp_path / "pairs.npz"
    np.savez(file, p=p.astype("f2"), q=q.astype("f2"))
    pairs = read_pairs(file)
    assert abs(pairs.p - p).sum(-1).max() < 1e-3 and np.allclose(pairs.p.sum(-1), 1, rtol=0, atol=1e-12)
    for wrong in (p * 0.99, np.where(np.arange(n) == 1, np.nan, p), np.where(np.arange(n) == 0, -0.1, p)):
        np.savez(file, p=wrong.astype("f2"), q=q.astype("f2"))
        with pytest.raises(otd.InvalidDistribution, match=r"row 0: p must be probabilities .* in float16"):
            read_pairs(file)


def test_bfloat16_and_one_tensor_in_a_file_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    file = tmp_path / "pairs.pt"
    torch.save(torch.tensor(np.stack([P, Q])), file)
    agree(file)
    logits = {name: torch.tensor(np.log(x)).bfloat16() for name, x in (("target_logits", P), ("draft_logits", Q))}
    torch.save(logits, file)
    agree(file, *(logits[name].double().softmax(-1).numpy() for name in logits), error=1e-6)


class Bomb:
    """What unpickling would run."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return (pytest.fail, ("the file was unpickled",))


def ragged(file: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(
        pyarrow.table({"p": [[1.0], [0.5, 0.5]], "q": [[1.0], [1.0]]}), file
    )


def absent(file: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table({"p": [[1.0], None], "q": [[1.0], [1.0]]}), file)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("text.parquet", lambda file: file.write_text("no parquet")),
        ("empty.parquet", lambda file: file.write_bytes(b"")),
        ("ragged.parquet", ragged),
        ("absent.parquet", absent),
        ("text.pt", lambda file: file.write_text("no tensors")),
        ("bomb.pt", lambda file: file.write_bytes(pickle.dumps(Bomb(), protocol=2))),
        ("empty.pt", lambda file: file.write_bytes(b"")),
        ("text.safetensors", lambda file: file.write_text("no tensors")),
        ("long.safetensors", lambda file: file.write_bytes((1 << 62).to_bytes(8, "little") + b"{}")),
        ("empty.safetensors", lambda file: file.write_bytes(b"")),
        ("ragged.json", lambda file: file.write_text('{"p": [["1"], ["1/2", "1/2"]], "q": [["1"], ["1"]]}')),
        ("number.json", lambda file: file.write_text('{"p": 1, "q": 1}')),
        ("word.json", lambda file: file.write_text('{"p": ["a"], "q": [1]}')),
        ("null.json", lambda file: file.write_text('{"p": [null], "q": [1]}')),
    ],
)
def test_what_holds_no_pairs_is_refused_by_name(name: str, write: Callable[[Path], Any], tmp_path: Path) -> None:
    file = tmp_path / name
    write(file)
    for read in (read_pairs, lambda file: [shard.read(0, shard.rows) for shard in open_shards([file])]):
        with pytest.raises(otd.InvalidDistribution) as refused:
            read(file)
        assert str(file) in str(refused.value) and "\n" not in str(refused.value)


def test_a_file_that_was_written_again_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "pairs.json"
    write_json(file, {"p": P, "q": Q})
    agree(file)
    write_json(file, {"p": Q, "q": P, "kind": np.array(["a"] * 5)})
    agree(file, Q, P)
    assert read_pairs(file).labels == {"kind": ("a",) * 5}


def test_rows_of_stacked_p_and_q_are_read_without_the_rest(tmp_path: Path) -> None:
    both = np.arange(2 * 3 * 4 * 5, dtype=np.float64).reshape(2, 3, 4, 5)
    np.save(tmp_path / "both.npy", both)
    found = columns(tmp_path / "both.npy")
    for name, half in zip("pq", both, strict=True):
        assert found[name].shape == (3, 4, 5)
        assert np.array_equal(found[name].rows(2, 7), half.reshape(-1, 5)[2:7])
