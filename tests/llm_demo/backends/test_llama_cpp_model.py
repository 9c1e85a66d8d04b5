"""Passes in llama.cpp on a stand-in for llama-cpp-python: trees, rules and caches, token for token with decoding without any of them.

llama.cpp itself is not run here: docs/backends.md says what was tried with it, by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_llama_cpp import LETTERS, ToyLlamaCpp, ToyModel

torch = pytest.importorskip("torch")

from llm_demo.backends.llama_cpp_cells import TextCells  # noqa: E402
from llm_demo.backends.llama_cpp_context import Context  # noqa: E402
from llm_demo.backends.llama_cpp_model import LlamaCppFile  # noqa: E402
from llm_demo.bench.trees.prefixes import PrefixLogits  # noqa: E402
from ot_draft.decoding import (  # noqa: E402
    Auto,
    CannotDecode,
    DecodeOptions,
    Drafting,
    Pair,
    SamplingParams,
    decode,
    decode_steps,
    load_pair,
)
from ot_draft.decoding.cascade import CascadePath  # noqa: E402
from ot_draft.decoding.language_model import language_model  # noqa: E402
from ot_draft.decoding.methods import method_called, shape_of  # noqa: E402
from ot_draft.decoding.reference import reference_decode  # noqa: E402
from ot_draft.errors import MissingPackage  # noqa: E402
from ot_draft.trees import BlockVerification, CountedTree, FixedTree, TreeShape  # noqa: E402

PROMPTS = [3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1], [8]
GREEDY = SamplingParams(0.0)
CHAIN = Drafting(CascadePath.of(4, 2), BlockVerification())
SHAPES = (0, 0, 1, 1, 3), (0, 0, 0, 2, 2, 3, 5), (0, 1, 2, 3)


def toy_pair(apart: float = 0.4) -> Pair:
    """A target and a draft near it."""
    functions = ToyLlamaCpp({"target.gguf": ToyModel(LETTERS, 0.0), "draft.gguf": ToyModel(LETTERS, apart)})
    target = LlamaCppFile(Path("target.gguf"), functions)
    return Pair(target, target.beside(Path("draft.gguf")), target.tokenizer, law=target.law)


def of_trees(shape: tuple[int, ...]) -> Drafting:
    """What is drafted."""
    return Drafting.of(FixedTree(TreeShape(shape)))


def apart_from_plain(pair: Pair, shape: tuple[int, ...], tokens: int = 24) -> int:
    """Laws at emitted tokens of trees that are not, in every bit, those of the text read by itself."""
    options = DecodeOptions(SamplingParams(), max_tokens=tokens, stop=(), seed=3, laws=True)
    text, laws = list(PROMPTS[0]), list[Any]()
    for step in decode_steps(pair, [PROMPTS[0]], of_trees(shape), options):
        born = step.tokens(0)
        assert step.p is not None
        laws += [step.p[0, node] for node in [0, *step.nodes[0].tolist()][: len(born)]]
        text += born
    places = list(range(len(PROMPTS[0]), len(text)))
    wanted = language_model(pair.target, pair.n).full_pass(text, places).logits.softmax(-1)
    return int((torch.stack(laws) != wanted).any(-1).sum())


@pytest.mark.parametrize("shape", SHAPES)
def test_laws_of_trees_are_those_of_the_text_read_by_itself(shape: tuple[int, ...]) -> None:
    assert apart_from_plain(toy_pair(), shape) == 0


def test_prefixes_of_a_text_that_goes_on_have_the_logits_of_plain_passes() -> None:
    pair, text = toy_pair(), tuple(PROMPTS[0])
    model = language_model(pair.target, pair.n)
    reader = PrefixLogits(pair.target, text, pair.n)
    reader.at([(7,), (2, 9), (2, 3), (2, 9, 9)])
    for new in ((2, 9, 1), (), (4,), (5, 6, 7), (7,)):
        reader.go_on(new)
        text += new
        for prefix in ((), (8,), (8, 1), (3,), (7, 2)):
            whole = [*text, *prefix]
            assert torch.equal(reader.at([prefix])[0], model.full_pass(whole, [len(whole)]).logits[0])


@pytest.mark.parametrize("shape", SHAPES)
def test_greedy_texts_are_those_of_plain_decoding(shape: tuple[int, ...]) -> None:
    """Several texts at a time, of other lengths, too."""
    pair, options = toy_pair(), DecodeOptions(GREEDY, max_tokens=30, stop=())
    made = decode(pair, PROMPTS, of_trees(shape), options)
    assert (
        made.tokens == decode(pair, PROMPTS, Drafting.autoregressive(), options).tokens and made.block_efficiency > 1.2
    )


RULES = [
    ("speculativesampling", None, (1, 4)),
    ("block", None, (1, 4)),
    ("joint", None, (3, 3)),
    ("recursiverejection", None, (3, 3)),
    ("kseq", None, (3, 2)),
    ("optimal", "hybrid:auto", (2, 2)),
    ("recursiverejectionwithoutreplacement", None, (3, 2)),
    ("traversal", None, (3, 2)),
]


@pytest.mark.parametrize(("rule", "law", "shape"), RULES)
def test_drawn_texts_are_those_of_the_reference(rule: str, law: str | None, shape: tuple[int, int]) -> None:
    """The draft's cache, too: another q would draw other drafts."""
    pair, options = toy_pair(), DecodeOptions(max_tokens=24, stop=(), seed=2)
    drafting = method_called(rule, law, shape_of(*shape, None)).drafting
    made = decode(pair, PROMPTS[:2], drafting, options)
    wanted = [reference_decode(pair, prompt, drafting, options, row) for row, prompt in enumerate(PROMPTS[:2])]
    assert made.tokens == wanted and made.block_efficiency > 1.2


def test_what_grows_by_levels_is_looked_up_or_has_a_draft_of_its_own() -> None:
    pair, options = toy_pair(), DecodeOptions(max_tokens=24, stop=(), seed=2)
    counted = Drafting.of(CountedTree(12))
    assert decode(pair, [PROMPTS[0]], counted, options).tokens == [reference_decode(pair, PROMPTS[0], counted, options)]
    greedy = DecodeOptions(GREEDY, max_tokens=30, stop=())
    plain = decode(pair, [PROMPTS[0]], Drafting.autoregressive(), greedy).tokens
    cascade = replace(pair, cascade=pair.target)
    for made_of, policy in (
        (pair, Drafting.looked_up()),
        (pair, Auto()),
        (cascade, CHAIN),
    ):
        assert decode(made_of, [PROMPTS[0]], policy, greedy).tokens == plain


def test_what_is_in_the_cache_is_not_read_again() -> None:
    """A chain's step costs one pass of the target over its tokens, and as many of the draft as it has; none reads a token in vain."""
    pair = toy_pair()
    passes = pair.target.api.passes
    made = decode(pair, [PROMPTS[0]], Drafting.chains(1, 3, BlockVerification()), DecodeOptions(max_tokens=30, stop=()))
    steps = passes[2:]  # behind those of the prompts
    assert made.block_efficiency > 1 and set(steps) <= {1, 2, 4}
    assert steps.count(4) * 3 == sum(count in (1, 2) for count in steps)
    assert 0 < steps.count(2) < steps.count(4)  # the last token of an accepted path, which the draft had not read


def sees_a_sibling(context: Context, rows: Any) -> Any:
    """The last leaf's own sequence is another leaf's."""
    others = [row for row in rows if row.sequences[0] > 0]
    if len(others) > 1:
        others[-1].sequences = [others[0].sequences[0]]
    return rows


def one_place_late(context: Context, rows: Any) -> Any:
    return [replace(row, position=row.position + 1) for row in rows]


def all_in_one(context: Context, rows: Any) -> Any:
    return [replace(row, sequences=[0]) for row in rows]


GIVEN = [sees_a_sibling, one_place_late, all_in_one]


def the_row_before(logits: list[Any]) -> list[Any]:
    return [logits[max(place - 1, 0)] for place in range(len(logits))]


def found(pair: Pair) -> bool:
    """Whether the laws of trees are not those of their texts, or a pass was refused."""
    try:
        return apart_from_plain(pair, SHAPES[0]) + apart_from_plain(pair, SHAPES[1]) > 0
    except CannotDecode:
        return True


@pytest.mark.parametrize("fault", GIVEN)
def test_what_is_given_wrongly_is_found(fault: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    right, pair = Context.decode, toy_pair()
    seen = list[int]()

    def wrong(self: Context, rows: Any) -> Any:
        seen.append(len(rows))
        return right(self, fault(self, rows) if len(rows) in (6, 8) else rows)  # trees, not the text by itself

    monkeypatch.setattr(Context, "decode", wrong)
    assert found(pair) and {6, 8} & set(seen)


def test_logits_of_another_row_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Context.decode
    monkeypatch.setattr(Context, "decode", lambda self, rows: the_row_before(right(self, rows)))
    assert found(toy_pair())


@pytest.mark.parametrize("name", ["cut", "keep", "share", "bring"])
def test_cells_that_stay_or_are_not_brought_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, name, lambda self, *given: None)
    assert found(toy_pair())


def test_cells_out_of_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells of an accepted path that stay where they are, and what is read next before them: the law is right, its bits are not."""

    def stay(self: Context, source: int, start: int, end: int) -> None:
        spare = self.api.llama_memory_seq_cp
        spare(self._memory, source, 127, start, end)
        self.api.llama_memory_seq_rm(self._memory, 0, start, -1)
        spare(self._memory, 127, 0, start, end)
        self.keep(0)

    monkeypatch.setattr(Context, "bring", stay)
    assert found(toy_pair())


def cells(count: int = 64) -> TextCells:
    """Of one text, empty."""
    return TextCells(toy_pair().target.context(count))


def causal(count: int, width: int = 64) -> Any:
    return np.tril(np.ones((count, width), bool))


def test_what_a_pass_may_not_ask_is_refused() -> None:
    text = cells()
    text.read([1, 2, 3], [0, 1, 2], [0, 1, 2], causal(3), [False, False, True])
    attention_mask = causal(4)[3:]
    with pytest.raises(CannotDecode, match="slot 3 must have position 3, got 5"):
        text.read([4], [3], [5], attention_mask, [True])
    with pytest.raises(CannotDecode, match="slot 3 must attend to itself"):
        text.read([4], [3], [3], causal(3)[2:], [True])
    text.read([4, 5], [3, 4], [3, 3], np.stack((causal(4)[3], causal(3)[2] | (np.arange(64) == 4))), [True, True])
    gap = causal(3)[2:] | (np.arange(64) == 3) | (np.arange(64) == 4) | (np.arange(64) == 5)
    with pytest.raises(CannotDecode, match="slot 5 must attend to tokens of its sequence, got slot 4"):
        text.read([6], [5], [5], gap, [True])
    text.read([7], [2], [2], causal(3)[2:], [True])  # what hung on it is forgotten
    with pytest.raises(CannotDecode, match="tokens of its sequence, got slot 3"):
        text.read([6], [4], [4], causal(5)[4:], [True])


def test_a_tree_of_too_many_ways_is_refused() -> None:
    text, attention_mask = cells(400), np.zeros((200, 400), bool)
    attention_mask[:, 0] = attention_mask[np.arange(200), np.arange(200)] = True
    with pytest.raises(CannotDecode, match="at most 126 leaves"):
        text.read([1] * 200, list(range(200)), [0] + [1] * 199, attention_mask, [True] * 200)


def test_long_passes_are_read_in_parts_with_the_same_logits() -> None:
    pair = toy_pair()
    long = [place % 15 for place in range(150)]
    along = language_model(pair.target, pair.n).full_pass(long, list(range(1, 151))).logits
    assert max(pair.target.api.passes) == 63
    last = language_model(pair.target, pair.n).full_pass(long, [100]).logits
    assert torch.equal(along[99:100], last) and max(pair.target.api.passes) == 100


def test_contexts_are_used_again() -> None:
    target = toy_pair().target
    first, other = target.context(20), target.context(20)
    target.take_back([first])
    assert first is not other and target.context(200) is first and target.context(300).cells == 512
    with pytest.raises(CannotDecode, match="context of 9984 cells"):
        target.context(9984)


def test_words_of_the_file() -> None:
    pair = toy_pair()
    assert pair.encode("cab") == [1, 2, 0, 1] and pair.text([1, 2, 3, 0]) == "cd"
    assert pair.encode("ed", chat=True) == [1, 4, 3] and pair.stop_tokens == (0,)
    assert pair.law == "the file's weights (Q8_0), 8-bit activations, llama.cpp's"
    assert len(pair.tokenizer("cdefghijklmnop" * 20).input_ids) == 281


def test_what_it_does_not_do_is_named() -> None:
    pair = toy_pair()
    functions = ToyLlamaCpp({"mamba.gguf": ToyModel(LETTERS, 0.0, "toy recurrent F16")})
    recurrent = LlamaCppFile(Path("mamba.gguf"), functions)
    assert recurrent.law == "the file's weights (F16), llama.cpp's"
    with pytest.raises(CannotDecode, match=r"mamba.gguf has recurrent layers"):
        decode(Pair(recurrent, None), [[1, 2]], options=DecodeOptions(max_tokens=3))
    with pytest.raises(CannotDecode, match=r"cannot load nothing.gguf"):
        LlamaCppFile(Path("nothing.gguf"), functions)
    with pytest.raises(CannotDecode, match="has no GPU"):
        LlamaCppFile(Path("mamba.gguf"), functions, gpu=True)
    for ask in (
        lambda: language_model(pair.target, pair.n, (1,)),
        lambda: language_model(pair.target, pair.n).cache(8).states_at(torch.zeros(1, 1)),
    ):
        with pytest.raises(CannotDecode, match="no hidden states"):
            ask()


def test_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "t.gguf": ToyModel(LETTERS, 0.0),
        "d.gguf": ToyModel(LETTERS[:-2], 0.1),
        "o.gguf": ToyModel(LETTERS[::-1], 0),
    }
    functions = ToyLlamaCpp(files)
    names = {name: str(tmp_path / name) for name in files}
    for name in names.values():
        Path(name).write_bytes(b"")
    monkeypatch.setattr("llm_demo.backends.llama_cpp_model.api", lambda: functions)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: object())

    def loaded(draft: str, **settings: Any) -> Pair:
        return load_pair(names["t.gguf"], draft, backend="llama.cpp", **settings)

    pair, options = loaded(names["d.gguf"]), DecodeOptions(GREEDY, max_tokens=20, stop=())
    plain = decode(pair, [PROMPTS[1]], Drafting.autoregressive(), options).tokens
    drafted = decode(pair, [PROMPTS[1]], of_trees(SHAPES[0]), options)
    assert drafted.tokens == plain and drafted.block_efficiency > 1 and pair.name
    assert loaded("lookup").draft is None and loaded(names["t.gguf"]).draft is not None
    chain = loaded(f"chain:{names['d.gguf']},{names['t.gguf']}")
    assert chain.cascade.vocabulary_size == 16 and chain.draft.vocabulary_size == 14
    with pytest.raises(CannotDecode, match="the tokenizers differ"):
        loaded(names["o.gguf"])
    with pytest.raises(CannotDecode, match=r"gives no access to embeddings and hidden states"):
        loaded("states.safetensors")
    with pytest.raises(CannotDecode, match="to draft for itself"):
        loaded("skip:1")
    with pytest.raises(CannotDecode, match=r"backend llama.cpp requires a .gguf target"):
        loaded("lookup", dtype="float16")
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    with pytest.raises(MissingPackage, match=r"llama-cpp-python is not installed\. Run  pip install"):
        loaded("lookup")
