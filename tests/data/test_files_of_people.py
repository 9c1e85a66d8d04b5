"""Files as people have them: each kind is read, with the values it means, or refused in a line that says what was found."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import ot_draft as otd
from ot_draft.cli import main
from ot_draft.data import open_shards, read_pairs

LONG = np.dtype(np.longdouble)  # float64 on some machines
P, Q = np.array([[[0.5, 0.5], [0.25, 0.75], [1, 0]], [[0.25, 0.75], [0.5, 0.5], [0, 1]]])
LOGITS = np.random.default_rng(5).normal(0, 3, (2, 3, 8)).astype(np.float32)
SHORT = {"target_logits": LOGITS[0], "draft_logits": LOGITS[1, :, :6]}
RECORDS = [{"p": p, "q": q, "text": f"t{row}"} for row, (p, q) in enumerate(zip(P.tolist(), Q.tolist(), strict=True))]
LINES = "".join(json.dumps(record) + "\n" for record in RECORDS)
TABLE = [("pair", "p", "q"), *((pair, P[pair, t], Q[pair, t]) for pair in range(3) for t in range(2))]
Laws = tuple[Any, Any]
Case = tuple[str, Callable[[Path], object], Laws | str]


def laws(*logits: Any) -> Laws:
    exp = [np.exp(x.astype(float) - x.max(-1, keepdims=True)) for x in logits]
    p, q = (x / x.sum(-1, keepdims=True) for x in exp)
    return p, q


def text(content: str | bytes) -> Callable[[Path], object]:
    return lambda file: file.write_bytes(content if isinstance(content, bytes) else content.encode())


def table(delimiter: str = ",", comma: bool = False, rows: Sequence[Any] = TABLE) -> str:
    plain = "\n".join(delimiter.join(map(str, row)) for row in rows) + "\n"
    return plain.replace(".", ",") if comma else plain


def tensors(of: Callable[[Any], dict[str, Any]], writer: str = "torch") -> Callable[[Path], object]:
    """A file of what `of` makes, given torch, by torch.save or as safetensors."""

    def write(file: Path) -> object:
        torch = pytest.importorskip("torch")
        if writer == "torch":
            return torch.save(of(torch), file)
        return pytest.importorskip("safetensors.torch").save_file(of(torch), file)

    return write


def logits(kind: str) -> Callable[[Any], dict[str, Any]]:
    return lambda torch: {
        name: torch.tensor(x).to(getattr(torch, kind))
        for name, x in zip(("target_logits", "draft_logits"), LOGITS, strict=True)
    }


def rounded(kind: str) -> Laws:
    torch = pytest.importorskip("torch")
    return laws(*(torch.tensor(x).to(getattr(torch, kind)).float().numpy() for x in LOGITS))


def parquet(columns: dict[str, Any], **options: Any) -> Callable[[Path], object]:
    return lambda file: pytest.importorskip("pyarrow.parquet").write_table(
        pytest.importorskip("pyarrow").table(columns), file, **options
    )


def saved(save: Callable[..., None], *arrays: Any, **named: Any) -> Callable[[Path], object]:
    def write(file: Path) -> None:
        with file.open("wb") as stream:  # numpy would add an ending of its own
            save(stream, *arrays, **named)

    return write


THREE_D = {"p": np.stack([P, P]).tolist(), "q": np.stack([Q, Q]).tolist()}
BOTH = (np.concatenate([P, P]), np.concatenate([Q, Q]))

READ: list[Case] = [
    ("bf16.safetensors", tensors(logits("bfloat16"), "safetensors"), "bfloat16"),
    ("e4m3.safetensors", tensors(logits("float8_e4m3fn"), "safetensors"), "float8_e4m3fn"),
    ("e5m2.safetensors", tensors(logits("float8_e5m2"), "safetensors"), "float8_e5m2"),
    ("f8.pt", tensors(logits("float8_e4m3fn")), "float8_e4m3fn"),
    ("bf16.pth", tensors(logits("bfloat16")), "bfloat16"),
    ("f16.bin", tensors(logits("float16")), "float16"),
    ("old.pt", lambda file: pytest.importorskip("torch").save(
        logits("float32")(pytest.importorskip("torch")), file, _use_new_zipfile_serialization=False), "float32"),
    ("numpy.pt", tensors(lambda torch: {"p": P, "q": Q.astype("f4")}), (P, Q)),
    ("stacked.pth", tensors(lambda torch: np.stack([P, Q])), (P, Q)),
    ("records.pt", tensors(lambda torch: [{"p": torch.tensor(p), "q": torch.tensor(q)} for p, q in zip(P, Q, strict=True)]), (P, Q)),
    ("lists.pt", tensors(lambda torch: {"p": [torch.tensor(p) for p in P], "q": Q.tolist()}), (P, Q)),
    ("LOUD.NPZ", saved(np.savez, p=P, q=Q), (P, Q)),
    ("fortran.npz", saved(np.savez, p=np.asfortranarray(P), q=Q), (P, Q)),
    ("names.npz", saved(np.savez, **{"P": P, " q": Q}), (P, Q)),
    ("LOUD.NPY", saved(np.save, np.stack([P, Q]).astype(">f4")), (P, Q)),
    ("fortran.npy", saved(np.save, np.asfortranarray(np.stack([P, Q]))), (P, Q)),
    ("lines.jsonl", text(LINES), (P, Q)),
    ("lines.json", text(LINES), (P, Q)),
    ("list.json", text(json.dumps(RECORDS)), (P, Q)),
    ("late_fraction.jsonl", text('{"p": [1, 0], "q": [0, 1]}\n{"p": ["1/3", "2/3"], "q": [1, 0]}'),
     (np.array([[1, 0], [1 / 3, 2 / 3]]), np.array([[0, 1], [1, 0]]))),
    ("bom.jsonl", text("\ufeff" + LINES), (P, Q)),
    ("lines.jsonl.gz", lambda file: file.write_bytes(gzip.compress(LINES.encode())), (P, Q)),
    ("logits.jsonl", text('{"target_logits": [0, -Infinity], "draft_logits": [1, 1.0]}\n'), ([[1, 0]], [[0.5, 0.5]])),
    ("comma.csv", text(table()), (P, Q)),
    ("semicolon.csv", text(table(";")), (P, Q)),
    ("decimal_commas.csv", text(table(";", comma=True)), (P, Q)),
    ("excel.csv", text("\ufeffsep=;\r\n" + table(";", comma=True).replace("\n", "\r\n")), (P, Q)),
    ("quoted.csv", text('"p","q"\n"0,5","0,25"\n"0,5","0,75"\n'), ([[0.5, 0.5]], [[0.25, 0.75]])),
    ("tabs.tsv", text(table("\t", comma=True)), (P, Q)),
    ("packed.csv.gz", lambda file: file.write_bytes(gzip.compress(table(";").encode())), (P, Q)),
    ("smallest.csv", text("p,q\n1e-999,.5\n1,.5\n"), ([[0, 1]], [[0.5, 0.5]])),
    ("capital.csv", text(table().replace("pair,p,q", " Pair, P , Q")), (P, Q)),
    ("index.csv", text(",p,q\n0,.5,.25\n1,.5,.75\n"), ([[0.5, 0.5]], [[0.25, 0.75]])),
    ("empty_rows.csv", text(table() + ",,\n,,\n\n"), (P, Q)),
    ("empty_columns.csv", text("p,q,,\n.5,.25,,\n.5,.75,,\n"), ([[0.5, 0.5]], [[0.25, 0.75]])),
    ("other_names.csv", text("Target;Draft\n1;0,5\n0;0,5\n"), ([[1, 0]], [[0.5, 0.5]])),
    ("logits.csv", text("p_logits,q_logits\n0,1\n-inf,1\n"), ([[1, 0]], [[0.5, 0.5]])),
    ("logprobs.csv", text("target_logprobs,draft_logprobs\n0,-0.6931471805599453\n-inf,-0.6931471805599453\n"), ([[1, 0]], [[0.5, 0.5]])),
    ("lists_of_lists.parquet", parquet(THREE_D), BOTH),
    ("groups.parquet", parquet({"p": P.tolist(), "q": Q.tolist()}, row_group_size=1), (P, Q)),
    ("two words é.npz", saved(np.savez, p=P, q=Q), (P, Q)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "write", "wanted"), READ, ids=[case[0] for case in READ])
def test_what_is_unambiguous_is_read(
    name: str, write: Callable[[Path], object], wanted: Laws | str, tmp_path: Path
) -> None:
    file = tmp_path / name
    write(file)
    p, q = rounded(wanted) if isinstance(wanted, str) else wanted
    pairs, (shard,) = read_pairs(file), open_shards([file])
    np.testing.assert_allclose([pairs.p.astype(float), pairs.q.astype(float)], [p, q], rtol=0, atol=1e-15)
    each = [shard.read(row, row + 1) for row in range(shard.rows)]
    np.testing.assert_array_equal(np.concatenate([p for p, _ in each]), pairs.p.astype(float))
    np.testing.assert_array_equal(np.concatenate([q for _, q in each]), pairs.q.astype(float))
    assert pairs.p.dtype.hasobject == ("fraction" in name)
    if "lines" in name or name == "list.json":
        assert pairs.labels["text"] == ("t0", "t1", "t2")


@pytest.mark.parametrize("kind", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_every_number_of_a_type_that_numpy_has_not(kind: str, tmp_path: Path) -> None:
    """All that 8 bits, and all that 16 bits may be, beside torch's own conversion."""
    torch = pytest.importorskip("torch")
    bits = torch.arange(1 << 16 if kind == "bfloat16" else 256, dtype=torch.int32)
    stored = bits.to(torch.uint16 if kind == "bfloat16" else torch.uint8).view(getattr(torch, kind)).reshape(4, -1)
    file = tmp_path / "a.safetensors"
    pytest.importorskip("safetensors.torch").save_file({"p_logits": stored, "q_logits": stored.clone()}, file)
    found = otd.data.formats.columns(file)["p_logits"]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(found.whole().astype(np.float32), stored.float().numpy())
    np.testing.assert_array_equal(found.rows(2, 3)[0].astype(np.float32), stored.float().numpy()[2])


def npz_bytes(file: Path) -> bytes:
    np.savez(file.with_suffix(".npz"), p=P, q=Q)
    return file.with_suffix(".npz").read_bytes()


def cut(file: Path) -> int:
    return file.write_bytes(file.read_bytes()[:-99])


REFUSED: list[tuple[str, Callable[[Path], object], str]] = [
    ("mixed.csv", text("p;q\n0,5;0.25\n0,5;0.75\n"), "one decimal separator, got commas in line 2 and points in line 2"),
    ("header.csv", text("prob;draft_prob\n0,5;0,25\n"), "a header of the columns p and q (and pair), each once, got 'prob;draft_prob'"),
    ("none.csv", text("0.5,0.25\n0.5,0.75\n"), "got '0.5,0.25'. Add it above"),
    ("ids.json", text('{"ids": [[1, 2, 2]], "p": [[0.5, 0.3, 0.2]], "q": [[0.5, 0.2, 0.3]]}'), "got ids. Rename or remove it"),
    ("ids.jsonl", text('{"Token_IDs": [1, 2], "p": [0.5, 0.5], "q": [0.5, 0.5]}'), "line 1: names must be p and q"),
    ("ids.csv", text("ids,p,q\n1,.5,.25\n1,.5,.75\n"), "got ids. Rename or remove it"),
    ("ids.npz", saved(np.savez, target_logits=LOGITS[0], draft_logits=LOGITS[1], target_ids=P, draft_ids=Q), "got target_ids, draft_ids"),
    ("ids.pt", tensors(lambda torch: logits("float32")(torch) | {"indices": torch.ones(3)}), "got indices"),
    ("ids.safetensors", tensors(lambda torch: logits("float32")(torch) | {"indices": torch.ones(3)}, "safetensors"), "got indices"),
    ("ids.parquet", parquet({"p": P.tolist(), "q": Q.tolist(), "ids": [1, 2, 3]}), "got ids"),
    ("same.npz", saved(np.savez, p=P, q=Q, tokens=np.array([[1, 2], [3, 3], [4, 5]])), "row 1: tokens must be different token ids"),
    ("both.npz", saved(np.savez, p=P, q=Q, target_logits=P, draft_logits=Q), "got p, q, target_logits, draft_logits"),
    ("bits.npz", saved(np.savez, target_logits=LOGITS[0].view("u2"), draft_logits=LOGITS[1].view("u2")),
     "target_logits must be floating-point of shape (..., n), n >= 1, got dtype uint16"),
    ("bits.pt", tensors(lambda torch: {name: x.view(torch.int16) for name, x in logits("bfloat16")(torch).items()}), "got dtype int16"),
    ("bits.safetensors", tensors(lambda torch: {name: x.view(torch.uint16) for name, x in logits("bfloat16")(torch).items()},
     "safetensors"), "got dtype uint16"),
    *([("long.npz", saved(np.savez, p=P.astype(LONG), q=Q.astype(LONG)), f"or Fractions, got {LONG}")] if LONG.itemsize > 8 else []),
    ("value.npz", saved(np.savez, p=P, q=Q, value=[[1, 2, 2]]), "got value. Rename or remove it"),
    ("bits.parquet", parquet({"p_logits": [[16000, 0]], "q_logits": [[16000, 1]]}), "got dtype int64"),
    ("top.npz", saved(np.savez, target_logprobs=np.log([[0.5, 0.25]]), draft_logprobs=np.log([[0.5, 0.5]])), "got sum 0.75"),
    ("logits.npy", saved(np.save, LOGITS), "p and q are read as probabilities. For logits, use --logits (logits=True)"),
    ("logits.npz", saved(np.savez, target=LOGITS[0].astype(float), draft=LOGITS[1].astype(float)), "are read as probabilities"),
    ("cells.csv", text('p,q\n"[0.5, 0.5]","[0.25, 0.75]"\n'), "column p: a cell must be one number"),
    ("percent.csv", text("p,q\n50%,25%\n50%,75%\n"), "line 2, column p must be a fraction or a decimal of at most 1000 digits, got '50%'"),
    ("hole.csv", text("p,q\n.5,.25\n,\n.5,.75\n"), "line 3 must hold two probabilities, got an empty row"),
    ("half.csv", text("p,q\n.5,.25\n.5,\n"), "line 3: column q must hold a number, got ''"),
    ("word.csv", text("p,q\n.5,.25\nn/a,.75\n"), "line 3, column p must be a fraction"),
    ("only_header.csv", text("p,q\n"), "must have one row per token, got a header only"),
    ("empty.csv", text(""), "each once, got ''"),
    ("latin.csv", text("p;q;Wörter\n".encode("latin1")), "cannot be read: 'utf-8' codec"),
    ("thousands.csv", text("p;q\n1.000,5;1\n"), "got commas in line 2 and points in line 2"),
    ("logits.csv", text("p_logits,q_logits\n0,1\nx,1\n"), "line 3, column p_logits must be a number, got 'x'"),
    ("scalar.json", text("3"), 'must hold one object {"p": [...], "q": [...]}, a list of such objects, or one per line, got int.'),
    ("numbers.json", text("[[0.5, 0.5]]"), "or one per line, got list."),
    ("nothing.json", text("[]"), "got an empty list"),
    ("cut.json", text(json.dumps(RECORDS)[:40]), "cannot be read: Unterminated string"),
    ("cut.jsonl", text(LINES[:-9]), "line 3 must be JSON, got an error at column 36 (Unterminated string"),
    ("array.jsonl", text("[1, 2]\n"), "line 1 must be an object, got list"),
    ("ragged.jsonl", text(LINES + '{"p": [1], "q": [1]}'), "p must have the shape of the first, (2,), got (1,)"),
    ("lacking.jsonl", text(LINES + '{"p": [1, 0]}'), "line 4 must hold q, as other pairs do, got p"),
    ("null.jsonl", text('{"p": [null, 1], "q": [1, 0]}'), "line 1: p[0] must be a number in lists of one length, got null"),
    ("percent.jsonl", text('{"p": ["50%", "50%"], "q": ["1", "0"]}'), "line 1: p[0] must be a fraction"),
    ("mixed.jsonl", text('{"p": ["1/2", 0.5], "q": [1, 0]}'), "line 1: p[1] must be a string, as another mass is"),
    ("lines.jsonl", text('{"p": ["1/2", "1/2"], "q": [1, 0]}\n{"p": [0.5, 0.5], "q": [1, 0]}'), "line 2: p must hold strings"),
    ("true.jsonl", text('{"p": [true, 0], "q": [1, 0]}'), "line 1: p[0] must be a number in lists of one length, got true"),
    ("none.jsonl", text("\n"), "must hold p and q"),
    ("cut.csv.gz", lambda file: file.write_bytes(gzip.compress(table().encode() * 999)[:60]), "cannot be read: Compressed file ended"),
    ("really.npy", lambda file: file.write_bytes(npz_bytes(file)), "examples/convert.md"),
    ("raw.bin", text(P.tobytes()), "must be a file of torch.save with tensors alone"),
    ("object.pt", tensors(lambda torch: {"p": Path("a"), "q": 1}), "must be a file of torch.save with tensors alone"),
    ("ragged.pt", tensors(lambda torch: {"p": [torch.ones(1), torch.ones(2) / 2], "q": [1.0, 0]}), "p must be a dense tensor of floats"),
    ("number.pth", tensors(lambda torch: 3), "must hold tensors by name"),
    ("vector.pt", tensors(lambda torch: torch.ones(4) / 4), "must hold p and q stacked, shape (2, ..., n), got shape (4,)"),
    ("sparse.pt", tensors(lambda torch: {"p": torch.eye(2).to_sparse(), "q": torch.eye(2)}),
     "p must be a dense tensor of floats (can't convert Sparse"),
    ("null.parquet", parquet({"p": [[[0.5, 0.5]], [[0.5, None]]], "q": [[[0.5, 0.5]], [[1.0, 0]]]}), "row 1: p must hold numbers"),
    ("ragged.parquet", parquet({"p": [[[1.0, 0]], [[1.0]]], "q": [[[1.0, 0]], [[1.0, 0]]]}), "got a list of 1 (row 0"),
    ("first.parquet", parquet({"p": [None, [1.0]], "q": [[1.0], [1.0]]}), "row 0: p must be a list of one length"),
    ("words.parquet", parquet({"p": [["a", "b"]], "q": [["a", "b"]]}), "p must hold numbers, got string"),
    ("rounded.npz", saved(np.savez, p=P * 0.995, q=Q), "For rounded probabilities, use --normalise (normalise=True)"),
    ("nan.npz", saved(np.savez, p=np.where(np.arange(3)[:, None] == 1, np.nan, P), q=Q), "row 1: p, token 0 must be finite, got nan"),
    ("counts.npz", saved(np.savez, p=np.array([[3, 1]]), q=np.array([[1, 1]])), "or Fractions, got int64"),
    ("complex.npz", saved(np.savez, p=P + 0j, q=Q), "or Fractions, got complex128"),
    ("half.npz", saved(np.savez, p=P), "must hold p and q, or target_logits and draft_logits, got p"),
    ("twice.npz", saved(np.savez, **{"P": P, " p": P, "q": Q}), "got P, p. Rename or remove it"),
    ("pairs.xlsx", text("PK"), ".tsv, got '.xlsx'. Convert it as in examples/convert.md."),
    ("pairs", text("PK"), "must end in .npz"),
    ("cut.npy", lambda file: file.write_bytes(saved_bytes(file)[:-8]), "need 96 bytes, got 88"),
    ("cut.parquet", lambda file: (parquet({"p": P.tolist(), "q": Q.tolist()})(file), cut(file)), "cannot be read"),
    ("cut.safetensors", lambda file: (tensors(logits("bfloat16"), "safetensors")(file), cut(file)),
     "cannot be read"),
    ("cut.pt", lambda file: (tensors(logits("bfloat16"))(file), cut(file)), "must be a file of torch.save with tensors alone"),
    ("widths.npz", saved(np.savez, **SHORT), "If the token ids agree, use --pad (pad=True), which appends -inf to the shorter one"),
    ("rows.npz", saved(np.savez, p=P, q=Q[:2]), "of one shape (..., n), n >= 1, got (3, 2) and (2, 2) of p and q"),
]  # fmt: skip


# The same, as they are read: without the commands around it.
NAMED: list[tuple[str, Callable[[Path], object], str]] = [
    ("rows.pt", tensors(lambda torch: {"p": torch.eye(2), "q": torch.eye(2).to_sparse()}),
     "q must be a dense tensor of floats"),
    ("meta.pt", tensors(lambda torch: {"p": torch.eye(2, device="meta"), "q": torch.eye(2)}),
     "p must be a dense tensor of floats (can't convert meta"),
    ("quantised.pt", tensors(lambda torch: {"p": torch.quantize_per_tensor(torch.eye(2), 0.1, 0, torch.quint8), "q": torch.eye(2)}),
     "p must be a dense tensor of floats"),
    ("words.pt", text("hello"), "must be a file of torch.save with tensors alone"),
    ("smaller.csv", text("p,q\n1e-1001,.5\n1,.5\n"), "digits, got '1e-1001'"),
    ("smallest.json", text('{"p": ["1e-999", "1"], "q": [1, 0]}'), "p must sum to 1 (tolerance 0), got 1 and about 1e-999"),
    ("no_bytes.json", text(""), "cannot be read: Expecting value"),
    ("ragged.json", text('{"p": [[1, 0], [1]], "q": [[1, 0], [1, 0]]}'),
     "p[0] must be a number in lists of one length, got [1, 0]"),
    ("words.json", text('{"p_logits": [[0, 1], [0, "x"]], "q_logits": [[0, 1], [0, 1]]}'), 'p_logits[1][1] must be a number'),
    ("inf.jsonl", text('{"p_logits": [0, 1], "q_logits": [0, 1]}\n{"p_logits": [0, 1], "q_logits": [0, Infinity]}\n'),
     "got token 1: logit inf. Capture the row again"),
    ("shapes.npz", saved(np.savez, p=P[:1], q=Q[0, :1]), "arrays of one shape"),
]  # fmt: skip


def saved_bytes(file: Path) -> bytes:
    saved(np.save, np.stack([P, Q]))(file)
    return file.read_bytes()


@pytest.mark.parametrize(("name", "write", "message"), REFUSED, ids=[case[0] for case in REFUSED])
def test_the_rest_is_refused_in_one_line(
    name: str, write: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    write(file)
    for words in (["compare", file, "--jobs", 1], ["sweep", file, "--out", tmp_path / "out", "--engine", "sequential"]):
        result = CliRunner().invoke(main, [*map(str, words), "--k", "2", "--rules", "Optimal"])
        assert result.exit_code == 2 and result.stderr.count("\n") == 1, (
            result.exit_code,
            result.output,
            result.exception,
        )
        assert message in result.stderr and str(file) in result.stderr, result.stderr
        assert len(result.stderr) < len(str(file)) + 420 and "array(" not in result.stderr
    if "logits" in message:
        assert "normalise" not in result.stderr


@pytest.mark.parametrize(("name", "write", "message"), NAMED, ids=[case[0] for case in NAMED])
@pytest.mark.filterwarnings("ignore")  # torch's own, of how such tensors are written
def test_the_array_the_place_and_the_remedy_are_named(
    name: str, write: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    write(file)
    with pytest.raises(otd.InvalidDistribution) as error:
        read_pairs(file)
    said = str(error.value)
    assert message in said and str(file) in said and len(said) < len(str(file)) + 300, said


def test_a_folder_of_that_name(tmp_path: Path) -> None:
    for name in ("a.npz", "a.csv", "a.pt", "a.safetensors", "a.parquet", "a.jsonl.gz"):
        (tmp_path / name).mkdir()
        result = CliRunner().invoke(main, ["compare", str(tmp_path / name)])
        assert result.exit_code == 2 and re.search("directory", result.stderr), result.stderr


@pytest.mark.parametrize("kind", ["f4", "f2"])
def test_logits_of_two_widths_are_filled_up_where_that_is_asked_for(kind: str, tmp_path: Path) -> None:
    file, scaled = tmp_path / "a.npz", {name: (10 * x).astype(kind) for name, x in SHORT.items()}
    np.savez(file, **scaled)
    pairs = read_pairs(str(file), pad=True)  # a name does as well as a path
    p, q = laws(*scaled.values())
    np.testing.assert_allclose(pairs.p, p, atol=1e-15)
    np.testing.assert_allclose(pairs.q, np.pad(q, ((0, 0), (0, 2))), atol=1e-15)
    assert pairs.padding == "draft_logits has 6 tokens, 8 with -inf at the end (--pad)"
    result = CliRunner().invoke(main, ["compare", str(file), "--pad", "--k", "2", "--jobs", "1", "--rules", "Optimal"])
    assert result.exit_code == 0 and pairs.padding in result.stderr, result.output
    told = CliRunner().invoke(
        main, ["compare", str(file), "--pad", "--k", "2", "--jobs", "1", "--rules", "Optimal", "--json"]
    )
    found = json.loads(told.stdout)
    assert found["padding"] == pairs.padding
    wanted = otd.optimal_acceptance(pairs.p, pairs.q, 2).mean()
    assert found["summary"][0]["accepted"] == pytest.approx(wanted, abs=1e-12)


def test_masses_of_two_widths(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"p": [["1/2", "1/4", "1/4"]], "q": [["1/3", "2/3"]]}')
    with pytest.raises(otd.InvalidDistribution, match=r"appends mass 0 to the shorter"):
        read_pairs(file)
    pairs = read_pairs(file, pad=True)
    assert pairs.q.tolist() == [[otd.problem.Fraction(1, 3), otd.problem.Fraction(2, 3), 0]]  # type: ignore[attr-defined]
    assert pairs.padding == "q has 2 tokens, 3 with mass 0 at the end (--pad)"


def test_masses_of_every_kind_as_pairs_that_were_rounded(tmp_path: Path) -> None:
    file, out = tmp_path / "a.csv", tmp_path / "out"
    file.write_text("p;q\n0,333;0,25\n0,667;0,75\n0,001;0\n")
    words = ["sweep", str(file), "--normalise", "--out", str(out), "--engine", "sequential", "--k", "2", "--json"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    p = np.array([0.333, 0.667, 0.001]) / 1.001
    assert json.loads(result.stdout)[-1]["optimum"] == pytest.approx(
        float(otd.optimal_acceptance(p, np.array([0.25, 0.75, 0]), 2))
    )
    refused = CliRunner().invoke(main, [*words[:2], *words[3:]])
    assert refused.exit_code == 2


def test_two_names_that_may_both_be_p_never_overwrite_each_other(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    for content, said in (
        ('{"p": [1, 0], "P": [0, 1], "q": [1, 0]}', "got p, P."),
        ('[{"p": [1, 0], "P": [0, 1], "q": [1, 0]}]', "got p, P."),
        ('{"p": [1, 0], "p": [0, 1], "q": [1, 0]}', "p occurs twice in one object"),
        ('{"pairs": [{"p": [1, 0], "q": [1, 0]}]}', "got pairs."),
        ('{"p": {"a": 1}, "q": {"a": 1}}', "p must be a number in lists of one length, got {"),
    ):
        file.write_text(content)
        with pytest.raises(otd.InvalidDistribution, match=re.escape(said)):
            read_pairs(file)


def test_a_file_of_torch_without_a_tensor_says_what_it_holds(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    file = tmp_path / "a.pt"
    torch.save({"pairs": {"p": torch.ones(1, 1)}}, file)
    with pytest.raises(otd.InvalidDistribution, match=re.escape("got pairs.")):
        read_pairs(file)
    file.write_bytes(b"")
    with pytest.raises(otd.InvalidDistribution, match="tensors alone"):
        read_pairs(file)


def test_p_and_q_in_two_files(tmp_path: Path) -> None:
    """p as float32 in Fortran order, q as float64: the same pairs as in one file."""
    p, q, other = tmp_path / "p.npy", tmp_path / "q.npy", tmp_path / "q.json"
    np.save(p, np.asfortranarray(P.astype("f4")))
    np.save(q, Q)
    other.write_text("[]")
    words = ["--k", "1", "--rules", "Optimal", "--jobs", "1", "--json"]
    result = CliRunner().invoke(main, ["compare", str(p), str(q), *words])
    assert result.exit_code == 0, result.output
    wanted = float(np.minimum(P, Q).sum(-1).mean())
    assert json.loads(result.stdout)["summary"][0]["accepted"] == pytest.approx(wanted, abs=1e-12)
    refused = CliRunner().invoke(main, ["compare", str(p), str(other), *words])
    assert refused.exit_code == 2 and "two files must be .npy" in refused.stderr


@pytest.mark.parametrize("names", [("target_logits", "draft_logits"), ("p_logprobs", "q_logprobs"), ("p", "q"), ()])
def test_compare_divides_logits_by_the_temperature(names: tuple[str, ...], tmp_path: Path) -> None:
    """Under names of logits and of log-probabilities; with --logits under p and q, and in two .npy files."""
    file, draft = tmp_path / "a.npz", tmp_path / "q.npy"
    logits = LOGITS.astype(float)
    scores = np.log(np.stack(laws(*logits))) if "p_logprobs" in names else logits
    words = ["compare", str(file), "--temperature", "0.5", "--k", "1", "--rules", "Optimal", "--jobs", "1", "--json"]
    words += ["--logits"] * ("q" in names or not names)
    if names:
        np.savez(file, **dict(zip(names, scores, strict=True)))
    else:
        words[1:2] = [str(tmp_path / "p.npy"), str(draft)]
        np.save(words[1], scores[0])
        np.save(draft, scores[1])
        without = CliRunner().invoke(main, [word for word in words if word != "--logits"])
        assert without.exit_code == 2 and "use --logits" in without.stderr
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)["summary"][0]
    p, q = laws(*(2 * logits))
    assert (
        summary["accepted"] == pytest.approx(np.minimum(p, q).sum(-1).mean(), abs=1e-12) and summary["group"] == "0.5"
    )
    np.savez(file, p=P, q=Q)
    words = [word for word in ["compare", str(file), *words[2 + (not names) :]] if word != "--logits"]
    assert "temperature must be 1 for probabilities" in CliRunner().invoke(main, words).stderr
