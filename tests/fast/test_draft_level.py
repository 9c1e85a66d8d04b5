"""One level of a draft in two launches against the array form, by Triton's interpreter; and how many operations a level starts."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import pytest

import ot_draft as otd
from ot_draft.dispatch import formulas_only
from ot_draft.fast import kernels

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
if not kernels.installed():
    pytest.skip("triton is not installed: pip install triton", allow_module_level=True)

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
import triton.runtime.interpreter as interpreter  # noqa: E402
from counted_operations import Counted, Launched  # noqa: E402

from llm_demo.gpu.checks import tiny_pair  # noqa: E402
from ot_draft import arrays as xp  # noqa: E402
from ot_draft.decoding import DecodeOptions, Drafting, Pair, SamplingParams, decode_steps  # noqa: E402
from ot_draft.decoding.drafters import FixedTreeDrafter, ModelDrafter  # noqa: E402
from ot_draft.decoding.loop import begin  # noqa: E402
from ot_draft.decoding.model import Head, ModelInfo  # noqa: E402
from ot_draft.fast.kernels import draft_level  # noqa: E402
from ot_draft.trees import FixedTree, TreeShape  # noqa: E402


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the interpreter's sake; and several blocks in `_draw_children`."""
    monkeypatch.setattr(draft_level, "TOKENS", 512)
    monkeypatch.setattr(draft_level, "BLOCK", 512)


@pytest.fixture(autouse=True)
def bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter (Triton 3.9) keeps bfloat16 as uint16, multiplies matrices of these integers, and rounds down."""
    builder = interpreter.InterpreterBuilder
    dot, cast = builder.create_dot, builder.cast_impl

    def wide(x: Any) -> Any:
        if x.dtype.scalar != tl.bfloat16:
            return x
        return interpreter.TensorHandle((x.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def create_dot(self: Any, a: Any, b: Any, *others: Any) -> Any:
        return dot(self, wide(a), wide(b), *others)

    def cast_impl(self: Any, x: Any, kind: Any) -> Any:
        if (x.dtype.scalar, kind.scalar) != (tl.float32, tl.bfloat16):
            return cast(self, x, kind)
        rounded = torch.from_numpy(np.ascontiguousarray(x.data)).bfloat16().view(torch.int16)
        return interpreter.TensorHandle(rounded.numpy().view(np.uint16), tl.bfloat16)

    monkeypatch.setattr(builder, "create_dot", create_dot)
    monkeypatch.setattr(builder, "cast_impl", cast_impl)


KINDS = ("random", "ties", "zeros", "one-hot", "not a number")
LAWS = (otd.IID(), otd.WithoutReplacement(), otd.Hybrid(1), otd.Hybrid(3))


class Level:
    """A random level: hidden states, a head, nodes with random numbers of children, some of them absent."""

    def __init__(self, seed: int) -> None:
        numbers = np.random.default_rng(seed)
        generator = torch.Generator().manual_seed(seed)
        self.kind, self.law = KINDS[seed % len(KINDS)], LAWS[int(numbers.integers(len(LAWS)))]
        self.temperature = (1.0, 0.0, 0.6)[int(numbers.integers(3))]
        self.dtype = (torch.float32, torch.bfloat16)[int(numbers.integers(2))]
        self.n = int(numbers.choice([1, 2, 7, 60, 1024, 1025, 5000]))
        scored = int(numbers.integers(1, self.n + 1))
        self.scored = (
            torch.randperm(self.n, generator=generator)[:scored].sort().values if numbers.random() < 0.7 else None
        )
        count, batch, width = scored if self.scored is not None else self.n, int(numbers.integers(1, 9)), 20
        children = [int(numbers.integers(0, 9)) for _ in range(int(numbers.integers(1, 3)))]
        children[0] = max(children[0], 1)
        # Multiples of 1/4: their products are exact, so that both forms round the same logits.
        spread = {"ties": 1, "zeros": 400, "one-hot": 4000}.get(self.kind, 6)
        self.states = torch.randint(-spread, spread + 1, (batch, len(children), width), generator=generator).div(4)
        self.weight = torch.randint(-2, 3, (count, width), generator=generator).div(4).to(self.dtype)
        if self.kind == "not a number":
            self.states[0, 0, 0] = torch.tensor([torch.nan, torch.inf])[seed % 2]
        self.states = self.states.to(self.dtype)
        nodes = len(children)
        self.begins = torch.tensor(np.cumsum([0, nodes, *children]), dtype=torch.int32)
        self.uniforms = torch.rand(batch, int(self.begins[-1]), generator=generator)
        self.uniforms[0, nodes] = (0.0, 1 - 2.0**-24)[seed % 2]
        self.tokens = torch.zeros(batch, int(self.begins[-1]), dtype=torch.int64)
        self.tokens[:, :nodes][torch.rand(batch, nodes, generator=generator) < 0.1] = -1
        self.nodes = nodes

    def drawn(self) -> tuple[Any, Any, Any]:
        """q, tokens and without_law of the kernels."""
        batch = len(self.tokens)
        q, tokens = torch.zeros(batch, self.nodes, self.n), self.tokens.clone()
        lost = torch.zeros(batch, dtype=torch.int64)
        draft_level.draw_level(
            self.states, Head(self.weight), self.temperature, self.law, self.scored, 1, self.begins, self.uniforms, q,
            tokens, lost, 8,
        )  # fmt: skip
        return q, tokens, lost

    def distributions(self) -> Any:
        """q (B, W, n) of the array form, NaN where the logits give no distribution."""
        logits = (self.states.double() @ self.weight.double().T).to(self.dtype)
        masses = SamplingParams(self.temperature).masses(logits)
        gone = masses[..., :1].isnan()
        info = ModelInfo(self.n, torch.device("cpu"), self.dtype, self.scored)
        return info.expand_to_vocab(torch.where(gone, 1 / masses.shape[-1], masses), 0), gone[..., 0]

    def draws(self, q: Any) -> Any:
        """Children by the draft law from these q."""
        tokens = self.tokens.clone()
        for place in range(self.nodes):
            children = slice(*self.begins[1 + place : 3 + place].tolist())
            with formulas_only():
                drawn = self.law.draw(q[:, place].double(), self.uniforms[:, children].double())
            tokens[:, children] = torch.where(self.tokens[:, place : place + 1] < 0, -1, drawn)
        return tokens


def wrong(level: Level) -> str:
    """What of a level differs from the array form; empty where nothing does."""
    q, tokens, lost = level.drawn()
    wanted, gone = level.distributions()
    if not torch.allclose(q, wanted, rtol=2e-6, atol=1e-30):
        return f"q: {(q - wanted).abs().max()}"
    if not torch.equal(tokens, level.draws(q)):
        return "tokens"
    there = level.tokens[:, : level.nodes] >= 0
    return "" if torch.equal(lost, (gone & there).sum(1)) else "number of nodes without a distribution"


@pytest.mark.parametrize("part", range(4))
def test_random_levels(part: int) -> None:
    """200 levels: 1 to 5,000 tokens, all laws, temperatures and number types, ties, zeros, absent nodes, logits that are no numbers."""
    for seed in range(50 * part, 50 * part + 50):
        level = Level(seed)
        assert not wrong(level), (seed, wrong(level), level.kind, level.law, level.temperature, level.n)


def _all_siblings_are_drawn_from_q(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(draft_level, "_without", triton.jit(_with_all))


def _with_all(mass: Any, place: Any, gone: Any) -> Any:
    return mass


def _given(**changes: Any) -> Callable[[pytest.MonkeyPatch], None]:
    """The kernels are given other arguments, each made from the right one."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        made, names = draft_level.draw_level, list(signature(draft_level.draw_level).parameters)

        def draw_level(*args: Any) -> None:
            made(*(changes.get(name, lambda x: x)(value) for name, value in zip(names, args, strict=True)))

        patch.setattr(draft_level, "draw_level", draw_level)

    return plant


FAULTS = {
    "siblings that are gone are drawn again": _all_siblings_are_drawn_from_q,
    "another temperature": _given(temperature=lambda temperature: temperature + 0.1),
    "a number of another child": _given(uniforms=lambda uniforms: uniforms.roll(1, 1)),
    "another law": _given(law=lambda law: otd.Hybrid(2) if law == otd.Hybrid(3) else law),
    "q of another node": _given(q=lambda q: q.flip(1)),
    "without_law is not counted": _given(without_law=lambda count: count.clone()),
    "absent nodes are not known": _given(tokens=lambda tokens: tokens.clamp_(min=0)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[fault](monkeypatch)
    levels = (level for level in map(Level, range(60)) if level.n <= 60)
    assert any(map(wrong, levels))


def test_a_level_with_a_norm() -> None:
    """RMSNorm and product in one launch: as the norm of transformers, to rounding of the number type."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    generator = torch.Generator().manual_seed(3)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 0.1)):
        norm = LlamaRMSNorm(100).to(dtype)
        norm.weight.data = torch.rand(100, generator=generator).to(dtype)
        states = (30 * torch.randn(2, 3, 100, generator=generator)).to(dtype)
        weight = torch.randn(70, 100, generator=generator).to(dtype)
        q, tokens = torch.zeros(2, 3, 70), torch.zeros(2, 6, dtype=torch.int64)
        begins = torch.tensor([0, 3, 4, 5, 6], dtype=torch.int32)
        draft_level.draw_level(
            states, Head(weight, norm.weight, norm.variance_epsilon), 1.0, otd.IID(), None, 1, begins, torch.rand(2, 6), q,
            tokens, torch.zeros(2, dtype=torch.int64), 1,
        )  # fmt: skip
        wanted = torch.softmax((norm(states) @ weight.T).float(), -1)
        assert (q - wanted).abs().max() <= tolerance and not torch.allclose(
            q, torch.softmax((states @ weight.T).float(), -1), atol=tolerance
        )


def steps(pair: Pair, tree: FixedTree, at: SamplingParams) -> list[Any]:
    options = DecodeOptions(at, max_tokens=8, stop=(), laws=True)
    return list(decode_steps(pair, [[1, 2, 3], [4]], Drafting(tree, otd.trees.NaivePath()), options))


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_decoding_drafts_the_same(law: Any, temperature: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft of hidden states: tokens, q and emitted tokens are those of the array form."""
    pair = tiny_pair(dtype=torch.float32, states=True)
    tree = FixedTree(TreeShape((0, 0, 0, 1, 1, 2, 4, 4, 5)), law)
    found = []
    for switch in "01":
        monkeypatch.setenv("OT_DRAFT_TRITON", switch)
        found.append(steps(pair, tree, SamplingParams(temperature)))
    assert len(found[0]) == len(found[1])
    for plain, fused in zip(*found, strict=True):
        for name in ("drafted", "parents", "emitted", "length"):
            assert torch.equal(getattr(plain, name), getattr(fused, name)), name
        inner = sorted(set(tree.shape.parents))
        assert torch.allclose(plain.q[:, inner], fused.q[:, inner], atol=1e-5)


def drafter_of(shape: TreeShape, switch: str, patch: pytest.MonkeyPatch) -> Any:
    patch.setenv("OT_DRAFT_TRITON", switch)
    pair, drafting = tiny_pair(dtype=torch.float32, states=True), Drafting(FixedTree(shape), otd.trees.NaivePath())
    engines = begin(pair, [[1, 2, 3]], drafting, DecodeOptions(stop=()))
    return engines.state.drafter(drafting.tree)


def test_which_drafters_the_kernels_take(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = TreeShape.chains(2, 2)
    assert type(drafter_of(shape, "1", monkeypatch)) is FixedTreeDrafter
    assert type(drafter_of(shape, "0", monkeypatch)) is ModelDrafter
    drafter = drafter_of(shape, "1", monkeypatch)
    runner, tree = drafter.runner, drafter.tree
    takes = FixedTreeDrafter.takes
    assert takes(tree, runner, torch.float32) and not takes(tree, runner, torch.float64)
    assert not takes(FixedTree(shape, otd.Hybrid("auto")), runner, torch.float32)
    assert not takes(otd.trees.CountedTree(4), runner, torch.float32)
    object.__setattr__(runner, "sampling", SamplingParams(0.8, top_p=0.9))
    assert not takes(tree, runner, torch.float32)


def operations(length: int, switch: str, patch: pytest.MonkeyPatch) -> int:
    """Operations that a draft of 4 paths starts, but for those of the draft model's layers; as on a device, where no value is read."""
    drafter = drafter_of(TreeShape.chains(4, length), switch, patch)
    runner = drafter._headless if switch == "1" else drafter.runner
    backbone = runner.model.model
    width = backbone.head.weight.shape[1]
    backbone.states = lambda tokens, *_, **__: torch.zeros(*tokens.shape, width)
    launched = Launched()
    for name in ("_scores", "_draw_children"):
        patch.setattr(draft_level, name, launched)
    patch.setattr(xp, "holds_without_sync", lambda condition: False)
    uniforms = torch.rand(1, drafter.tree.counts.n_uniforms)
    drafter.propose(uniforms)
    launched.count = 0
    with Counted() as counted:
        drafter.propose(uniforms)
    assert launched.count == 2 * length * (switch == "1")
    return counted.count + launched.count


def test_operations_of_a_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two launches from the last hidden state to the children; beside them what the draft model reads."""
    each = [operations(4, switch, monkeypatch) - operations(3, switch, monkeypatch) for switch in "01"]
    assert each[1] <= 12 < each[0]
