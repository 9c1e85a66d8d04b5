"""llama.cpp itself on the embedded target, with the embedded draft as a GGUF file, where llama-cpp-python is installed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from slow import slow

torch = pytest.importorskip("torch")

from llm_demo.models.load import DRAFT_FILE, TARGET_FILE, missing_packages, target_directory  # noqa: E402

if lacks := [*missing_packages(), *(["llama-cpp-python"] if find_spec("llama_cpp") is None else [])]:
    pytest.skip(f"needs {', '.join(lacks)}", allow_module_level=True)

from llm_demo.bench.bits import compared  # noqa: E402
from llm_demo.bench.llama_cpp.draft_file import write_draft  # noqa: E402
from ot_draft.decoding import DecodeOptions, Drafting, Pair, SamplingParams, decode, load_pair  # noqa: E402
from ot_draft.decoding.methods import method_called, shape_of  # noqa: E402
from ot_draft.decoding.reference import reference_decode  # noqa: E402
from ot_draft.trees import FixedTree, TreeShape  # noqa: E402

TEXTS = "Once upon a time there was a", "def fibonacci(n):"
TREE = TreeShape((0, 0, 1, 1, 3))
RULES = [slow("block", (1, 4)), slow("joint", (2, 2)), slow("recursiverejection", (3, 2)), slow("kseq", (2, 2))]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    target, draft = target_directory() / TARGET_FILE, tmp_path_factory.mktemp("draft") / "draft.gguf"
    write_draft(target, DRAFT_FILE, draft)
    torch.set_num_threads(1)
    return load_pair(str(target), str(draft), backend="llama.cpp")


@pytest.mark.parametrize(("rule", "shape"), RULES)
def test_texts_drawn_at_temperature_1_are_those_of_the_reference(pair: Pair, rule: str, shape: tuple[int, int]) -> None:
    """Which reads every text of a step anew, without a cache."""
    options = DecodeOptions(SamplingParams(), max_tokens=5, stop=(), seed=2)
    prompts, drafting = (
        [pair.encode(text) for text in TEXTS],
        method_called(rule, None, shape_of(*shape, None)).drafting,
    )
    made = decode(pair, prompts, drafting, options)
    wanted = [reference_decode(pair, prompt, drafting, options, row) for row, prompt in enumerate(prompts)]
    assert made.tokens == wanted and made.block_efficiency > 1.1
    other = DecodeOptions(SamplingParams(), max_tokens=5, stop=(), seed=3)
    assert decode(pair, prompts, drafting, other).tokens != wanted


def test_laws_by_trees_are_those_of_plain_decoding_in_every_bit(pair: Pair) -> None:
    prompt = pair.encode(TEXTS[0])
    far, equal, _ = compared(pair, prompt, 24, seed=5).T
    assert len(far) >= 48 and not far.any() and equal.all()
    greedy = DecodeOptions(SamplingParams(0.0), max_tokens=24, stop=())
    tree, plain = (
        decode(pair, [prompt], each, greedy) for each in (Drafting.of(FixedTree(TREE)), Drafting.autoregressive())
    )
    assert tree.tokens == plain.tokens and tree.block_efficiency > 1
