"""Comparison of rules, path rules and the engine on a device with the CPU in float64, on random inputs and boundary cases."""

from __future__ import annotations

import copy
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch

import ot_draft as otd
from llm_demo.gpu.roofline import SWITCH, Timer
from ot_draft.decoding import DecodeOptions, Drafting, Pair, decode, decode_steps, reference_decode
from ot_draft.decoding.draft_models import StateDraft
from ot_draft.laws import is_defined
from ot_draft.trees import NaivePath

Row = dict[str, Any]
TINY = 1e-45  # the smallest float32
BOUNDARY = {
    "one token": ([1.0], [1.0]),
    "p == q": ([0.5, 0.25, 0.25], [0.5, 0.25, 0.25]),
    "p one-hot": ([0, 1, 0], [0.5, 0.25, 0.25]),
    "q one-hot": ([0.5, 0.25, 0.25], [0, 1, 0]),
    "both one-hot": ([1, 0, 0], [0, 1, 0]),
    "disjoint": ([0.5, 0.5, 0, 0], [0, 0, 0.25, 0.75]),
    "zeros in p": ([0, 0.375, 0, 0.625], [0.25] * 4),
    "zeros in q": ([0.25] * 4, [0, 0.375, 0, 0.625]),
    "one ulp apart": ([0.5 - 2**-25, 0.5 + 2**-25], [0.5 + 2**-25, 0.5 - 2**-25]),
    "subnormal p": ([TINY, 0.5, 0.5], [0.25, 0.25, 0.5]),
    "subnormal q": ([0.25, 0.25, 0.5], [TINY, 0.5, 0.5]),
    "ties": ([0.5, 0.25, 0.125, 0.125], [0.25, 0.125, 0.3125, 0.3125]),
}
ROUNDING = 1e-5  # tolerance for float32
# Kernels bound K-SEQ's factor and the masses of recursive rejection, and Optimal approximates its levels by classes.
TOLERANCE = {"KSeq": 5e-3, "RecursiveRejection": 2e-3, "Optimal": 2e-2}
WAYS = ("torch", "triton")
NEAR = {"Optimal": otd.rules.Optimal(classes=256)}  # on a device it always uses classes


def rule_checks(device: torch.device, sizes: tuple[int, ...] = (5, 300, 5000, 32_000), rows: int = 4) -> Iterator[Row]:
    """Check every rule: its output distribution over all drafts of the boundary cases, and sampled drafts of larger problems."""
    for rule in (NEAR.get(rule.name, rule) for rule in otd.rules.ALL if not rule.cost.solves_program):
        for k in (1, 2, 3):
            for way in WAYS if is_defined(rule.law, k) else ():
                worst, case = _boundary(rule, device, k, way)
                yield _row(f"boundary, k = {k}", rule.name, way, worst, ROUNDING, case)
        for n in sizes:
            k = 8 if is_defined(rule.law, 8) and n > 8 else 2
            for way, error in _random(rule, device, rows, n, k).items():
                yield _row(f"random, n = {n}, k = {k}", rule.name, way, error, TOLERANCE.get(rule.name, ROUNDING))


@contextmanager
def computed_by(way: str, device: torch.device) -> Iterator[None]:
    """Compute with kernels for every size, or without kernels. Tensors must be on the device: there are no kernels for a CPU."""
    os.environ[SWITCH] = "1" if way == "triton" and device.type == "cuda" else "0"
    try:
        yield
    finally:
        os.environ.pop(SWITCH)


def _row(check: str, name: str, way: str, error: float, limit: float, case: str = "") -> Row:
    passed = error <= limit  # false for NaN
    return {"check": check, "of": name, "way": way, "error": f"{error:.3g}", "limit": limit, "passed": passed, "case": case}  # fmt: skip


def _boundary(rule: otd.SelectionRule, device: torch.device, k: int, way: str) -> tuple[float, str]:
    """Return the largest error of the output distribution, which must be p, over all boundary cases, and the case."""
    worst = []
    for name, (p, q) in BOUNDARY.items():
        target, draft = (torch.tensor(x, dtype=torch.float32, device=device) for x in (p, q))
        with computed_by(way, device):
            output = otd.evaluate(rule, otd.Problem(target, draft, k, rule.law)).output
        worst.append((float((output - target).abs().max()), name))
    return max(worst, key=lambda case: (case[0] != case[0], case[0]))


def _random(rule: otd.SelectionRule, device: torch.device, rows: int, n: int, k: int) -> dict[str, float]:
    """Return, with and without kernels, the largest difference to float64 on the CPU.

    Compared are the acceptance probabilities, and the residual times its probability. Tokens are sampled from the rule's draft law; every
    other row has an absent draft if the draft law is i.i.d. A rule that computes a transport plan is compared with the plan of the same
    float32 numbers, because several plans are optimal and the one found depends on rounding.
    """
    generator = torch.Generator().manual_seed(1000 * n + k)
    logits = 3 * torch.randn(rows, n, generator=generator)
    p, q = torch.softmax(logits, -1), torch.softmax(logits + torch.randn(rows, n, generator=generator), -1)
    drafts = otd.draw(rule.law, q, k, generator)
    if isinstance(rule.law, otd.IID):
        drafts[::2, -1] = -1
    target, draft = p, q
    if not rule.cost.plans_on_host:
        target, draft = (x.double() / x.double().sum(-1, keepdim=True) for x in (p, q))
    wanted = rule(target, draft, drafts)
    left, found = 1 - wanted.accept.sum(-1, keepdim=True), {}
    for way in WAYS:
        with computed_by(way, device):
            computed = rule(p.to(device), q.to(device), drafts.to(device))
        errors = [computed.accept.cpu() - wanted.accept, left * (computed.residual.cpu() - wanted.residual)]
        errors.append((computed.residual.double().sum(-1) - 1).cpu())
        found[way] = max(float(x.abs().max()) for x in errors)
    return found


PATH_RULES = (
    (otd.trees.TokenWise(otd.rules.KSeq()), otd.IID()),
    (otd.trees.TokenWise(otd.rules.RecursiveRejection()), otd.IID()),
    (otd.trees.TokenWise(otd.rules.Optimal(classes=256)), otd.IID()),
    (otd.trees.TokenWise(otd.rules.RecursiveRejectionWithoutReplacement()), otd.WithoutReplacement()),
    (otd.trees.Joint(classes=256), otd.IID()),
    (otd.trees.Joint(classes=256), otd.Hybrid(top=1)),
    (otd.trees.Traversal(), otd.IID()),
    (otd.trees.NaivePath(), otd.IID()),
)


def path_checks(device: torch.device, n: int = 50, trees: int = 64) -> Iterator[Row]:
    """Check the share of trees on which a path rule selects other tokens than on the CPU, with the same uniforms, in float64."""
    shape = otd.trees.TreeShape.by_level((3, 2, 1))
    for number, (rule, law) in enumerate(PATH_RULES):
        generator = torch.Generator().manual_seed(number)
        logits = 2 * torch.randn(trees, shape.size + 1, n, generator=generator, dtype=torch.float64)
        p, q = torch.softmax(logits, -1), torch.softmax(logits + torch.randn(logits.shape, generator=generator), -1)
        tokens = torch.empty(trees, shape.size, dtype=torch.int64)
        for node in range(shape.size):
            if children := shape.children(node):
                count = len(children)
                tokens[:, children.start - 1 : children.stop - 1] = otd.draw(law, q[:, node], count, generator)
        uniforms = torch.rand(trees, rule.n_uniforms(shape), generator=generator, dtype=torch.float64)
        chosen = []
        for where in (torch.device("cpu"), device):
            tree = shape.tree(tokens.to(where), p.to(where), q.to(where), law)
            chosen.append(rule.select(tree, uniforms.to(where)).tokens)
        off = (chosen[0] != chosen[1].cpu()).any(-1).double().mean()
        yield _row(f"select as on the CPU, {law!r}", rule.name, "torch", float(off), 0.02)


TREE_RULES = (
    (otd.trees.Traversal(), otd.IID()),
    (otd.trees.Traversal(), otd.WithoutReplacement()),
    (otd.trees.Traversal(), otd.Hybrid(top=2)),
    (otd.trees.TokenWise(otd.rules.KSeq()), otd.IID()),
    (otd.trees.TokenWise(otd.rules.RecursiveRejection()), otd.IID()),
    (otd.trees.TokenWise(otd.rules.RecursiveRejectionWithoutReplacement()), otd.WithoutReplacement()),
    (otd.trees.NaivePath(), otd.IID()),
)


def kernel_checks(device: torch.device, n: int = 5000, trees: int = 64, timed: int = 128_256) -> Iterator[Row]:
    """Check the share of trees of 30 nodes on which the kernel selects other tokens than float64 on the CPU, and time a selection."""
    shape = otd.trees.TreeShape.by_level((6, 2, 1))
    for number, (rule, law) in enumerate(TREE_RULES):
        generator = torch.Generator().manual_seed(number)
        tree = _drafted(shape, trees, n, law, generator)
        exact = _drafted(shape, trees, n, law, generator, tree)
        uniforms = torch.rand(trees, rule.n_uniforms(shape), generator=generator)
        wanted = rule.select(exact, uniforms.double()).tokens
        with computed_by("triton", device):
            found = rule.select(_to(tree, device), uniforms.to(device)).tokens.cpu()
        off = (found != wanted).any(-1).double().mean()
        yield _row(f"kernel = float64, {law!r}", rule.name, "triton", float(off), 0.05)
        one = _to(_drafted(shape, 1, timed, law, generator), device)
        with computed_by("triton", device):
            spent = Timer(device, 5)(partial(rule.select, one, uniforms[:1].to(device)))
        yield _row(
            "microseconds of a selection",
            rule.name,
            "triton",
            spent,
            float("inf"),
            f"{shape.size} nodes, {timed} tokens",
        )


DRAFT_LAWS = (otd.IID(), otd.WithoutReplacement(), otd.Hybrid(top=2))


def draft_checks(device: torch.device, n: int = 5000) -> Iterator[Row]:
    """Check the share of a first step's draft tokens that differ between kernels and array operations, and the largest difference of q."""
    pair = tiny_pair(n, dtype=torch.float32, states=True)
    pair = Pair(pair.target.to(device), pair.draft.to(device))
    prompts, options = [[i, i + 1] for i in range(8)], DecodeOptions(max_tokens=2, stop=(), laws=True)
    for law in DRAFT_LAWS:
        drafting = Drafting(otd.trees.FixedTree(otd.trees.TreeShape.by_level((3, 2, 1)), law), NaivePath())
        found = []
        for way in WAYS:
            with computed_by(way, device):
                found.append(next(iter(decode_steps(pair, prompts, drafting, options))))
        off = (found[0].drafted != found[1].drafted).double().mean()
        yield _row(f"drafted by kernels = by arrays, {law!r}", "draft level", "triton", float(off), 0.05)
        fast, plain = (step.q for step in found)
        assert fast is not None and plain is not None  # laws=True
        apart = (fast[:, 0] - plain[:, 0]).abs().max()
        yield _row(f"q at the root, {law!r}", "draft level", "triton", float(apart), 1e-3)


def _drafted(shape: Any, trees: int, n: int, law: Any, generator: Any, like: Any = None) -> Any:
    """Return random float32 trees; with `like`, trees with its tokens and distributions in float64."""
    if like is not None:
        p, q = (x.double() / x.double().sum(-1, keepdim=True) for x in (like.p, like.q))
        return shape.tree(like.tokens, p, q, law)
    logits = 2 * torch.randn(trees, shape.size + 1, n, generator=generator)
    p, q = torch.softmax(logits, -1), torch.softmax(logits + torch.randn(logits.shape, generator=generator), -1)
    tokens = torch.empty(trees, shape.size, dtype=torch.int64)
    for node in range(shape.size):
        if children := shape.children(node):
            tokens[:, children.start - 1 : children.stop - 1] = otd.draw(law, q[:, node], len(children), generator)
    return shape.tree(tokens, p, q, law)


def _to(tree: Any, device: torch.device) -> Any:
    return tree.bounds.tree(tree.tokens.to(device), tree.p.to(device), tree.q.to(device), tree.law)


DRAFTINGS = {
    "autoregressive": Drafting.autoregressive(),
    **{
        f"{rule.name}, {law!r}": Drafting.chains(3, 3, rule, law)
        for rule, law in PATH_RULES
        if not isinstance(rule, NaivePath)
    },
    **{f"dynamic, {name}": Drafting.of(make(6)) for name, make in otd.trees.drafting.ALL.items()},
}


def engine_checks(device: torch.device, tokens: int = 24) -> Iterator[Row]:
    """Check the share of completions of a tiny model in float64 that differ from the reference on the CPU, with and without CUDA graphs."""
    for states in (False, True):
        here, there = (tiny_pair(states=states) for _ in range(2))  # two pairs, since modules are moved in place
        there = Pair(there.target.to(device), there.draft.to(device))
        yield from _engine_checks(here, there, tokens, "states, " if states else "")


def _engine_checks(pair: Pair, there: Pair, tokens: int, word: str) -> Iterator[Row]:
    prompts, options = [[1, 2, 3], [4], [5, 6]], DecodeOptions(max_tokens=tokens, stop=())
    for name, drafting in DRAFTINGS.items():
        wanted = [reference_decode(pair, prompt, drafting, options, row) for row, prompt in enumerate(prompts)]
        for graphs in (False, True):
            texts = decode(there, prompts, drafting, DecodeOptions(max_tokens=tokens, stop=(), graphs=graphs)).tokens
            off = sum(a != b for a, b in zip(texts, wanted, strict=True)) / len(prompts)
            yield _row("engine = reference", word + name, "graphs" if graphs else "no graphs", off, 0.0)


# Draftings for which synchronisations with the device are counted.
WAITED_FOR = ("autoregressive", "Joint, IID()", "Traversal, IID()")
WARM, COUNTED = 3, 5  # steps


def wait_checks(device: torch.device) -> Iterator[Row]:
    """Check the mean number of synchronisations with the device per step, which must be at most 1."""
    pair = tiny_pair(states=True)
    pair = Pair(pair.target.to(device), pair.draft.to(device))
    for name in WAITED_FOR:
        steps = decode_steps(pair, [[1, 2, 3], [4]], DRAFTINGS[name], DecodeOptions(max_tokens=60, stop=()))
        list(islice(steps, WARM))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                list(islice(steps, COUNTED))
            finally:
                torch.cuda.set_sync_debug_mode("default")
        waits = [each for each in caught if "a synchronizing CUDA operation" in str(each.message)]
        lines = Counter(f"{Path(each.filename).name}:{each.lineno}" for each in waits)
        yield _row("waits for the device a step", name, "graphs", len(waits) / COUNTED, 1.0, str(dict(lines)))


def tiny_pair(
    n: int = 16, hidden: int = 32, layers: int = 2, dtype: torch.dtype = torch.float64, states: bool = False
) -> Pair:
    """Return a small random target, and a draft that is the target with noise on its weights; with states, a hidden-state draft."""
    from transformers import LlamaConfig, LlamaForCausalLM

    ends: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    config = LlamaConfig(
        vocab_size=n, hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=layers, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=512, initializer_range=0.4, **ends,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: Any = LlamaForCausalLM(config)
        target = model.to(dtype).eval().requires_grad_(False)
        draft = copy.deepcopy(target)
        for weight in draft.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
        if states:
            with_states = StateDraft(draft.model, target.get_input_embeddings(), torch.arange(n), (1,)).to(dtype)
            for weight in (with_states.fuse.weight, with_states.project.weight):
                weight.data.normal_(0, 0.2)
            draft = with_states.eval().requires_grad_(False)
    return Pair(target, draft)
