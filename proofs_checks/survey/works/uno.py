"""Uno: drafts from the model's own diffusion head; trees by the target's draws, chains by p/q.

TREE. Every node of a tree of the draft's most probable tokens has one draw of the target, and the walk follows it. CHAIN, TOP-K.
Speculative sampling with two distributions that the same settings have cut. CHAIN WITHOUT TOP-K. Its kernel draws the token after a
rejection by Gumbel noise of seed counter + row, where the counter grows by one per cycle: row 1 of a cycle and row 0 of the next have the
same noise. If the first is rejected at its second draft token and the next at its first, both tokens are the winner of one race. The
counter starts at 0 in every run. Evaluated over two cycles, at one distribution for all contexts, from the first draft on: a kept draft,
the token of the race, a clean token, the token of the race.
"""

from fractions import Fraction
from functools import partial
from itertools import product
from math import prod
from typing import Any

from ot_draft import trees

from ..by_hand import minus, norm, ratio
from ..record import SPECULATIVE, TOP, TREE, AlongPath, Case, Coupled, Form, Known, Work, biased


def in_two_cycles(p: Any, q: Any, k: int, again: bool = True) -> Any:
    """Distribution of four tokens of two cycles of two drafts each, and accepted drafts of a cycle. again: both corrections share noise."""
    kept = [min(a, b) for a, b in zip(p, q, strict=True)]
    rest, refused = norm(minus(p, q), p), 1 - sum(kept)
    emitted = {}
    for text in product(range(len(p)), repeat=4):
        x, correction, clean, last = text
        both = kept[x] * refused**2 * rest[correction] * p[clean]
        together = int(last == correction) if again else rest[last]
        emitted[text] = prod(p[y] for y in text) + both * (together - rest[last])
    return emitted, sum(kept) + sum(kept) ** 2


def two_cycles(chance: Any, p: Any, q: Any, k: int) -> Any:
    """The same with every draw and uniform number of the two cycles; after the text it goes on as the target does."""
    x = chance.draw(q())
    rest = norm(minus(p(), q()), p())
    if not chance.flip(ratio(p()[x], q()[x])):
        return (chance.draw(rest),)
    y = chance.draw(q())
    if chance.flip(ratio(p()[y], q()[y])):
        return (x, y)
    correction, clean, z = chance.draw(rest), chance.draw(p()), chance.draw(q())
    last = z if chance.flip(ratio(p()[z], q()[z])) else correction
    return (x, correction, clean, last)


QUARTER = Fraction(1, 4)
ONE_TOKEN = Case(((2 * QUARTER, QUARTER, QUARTER),), ((4 * QUARTER, 0 * QUARTER, 0 * QUARTER),), 1)
AT = "ifm-ai/uno nano_vllm_uno/engine/"
WORK = Work(
    "uno", "Uno", "2609.04010", "code of the engine; the paper's abstract", "lossless", "one pass per token",
    (Form("code: tree", AlongPath(trees.NaivePath(), (2,), 2, TREE, TOP), "one draw of the target per node, followed; exact checks",
          code=AT + "draft_tree.py@9018a5d, walk_tree"),
     Form("code: chain, top-k", SPECULATIVE, "speculative sampling; Coq: sampling.v", when="top-k below the vocabulary's size",
          code=AT + "two_pass_decoding.py@9018a5d, _sparse_verify_tensors"),
     biased("code: chain without top-k, two cycles", Coupled(in_two_cycles, text=4, baseline=""), two_cycles,
            "u = tl.rand(gumbel_seed + row, offs), with a gumbel_seed that grows by one per cycle",
            Coupled(partial(in_two_cycles, again=False), text=4, baseline=""),
            "a seed that no other row has, as counter * rows + row", when="its default: no top-k; blocks of three tokens or more",
            code=AT + "fused_verify_kernel.py@9018a5d, fused_spec_verify_from_logits; two_pass_decoding.py, _verify_unfiltered_fused",
            seen="run: its kernel, in an interpreter: row 1 of a call and row 0 of the next gave one token, 400 times of 400",
            cycles=2, known=(Known(ONE_TOKEN, QUARTER / 4),))),
)  # fmt: skip
