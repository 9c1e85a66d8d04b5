"""Trees and paths as wholes.

SPECINFER tests each drawn child against what the rejected ones leave of the target. Its trees may also be expanded by the top tokens of
one model; the description does not say which rule is then used (the variants page: with q as it is that would not be lossless). SEQUOIA
does so without replacement. Its code draws the noise of the drafts, and the numbers of the tests, once a prompt: every cycle has the
drafts' noise of the one before, and a uniform number comes again at the same position. Evaluated with one draft per cycle, at one
distribution for all contexts. TRAVERSAL goes from the leaves up. BLOCK verification tests a path as a whole. Of GBV and UNIVER only
abstracts could be read; the nearest rule here is `Joint`. DYSPEC and SPECDEC++ let the shape depend on what was drafted. That is lossless
where a child's being there depends on tokens drawn before it, never on its own: DySpec's values are made before the draw, SpecDec++ ends
the path by a head that has seen the tokens up to there.
"""

from fractions import Fraction
from functools import partial
from typing import Any

import ot_draft as otd
from ot_draft import trees
from ot_draft.trees.drafting.baselines import SampledTree, StoppedPath

from ..by_hand import minus, norm, ratio
from ..record import TREE, AlongPath, Case, Coupled, Form, Known, OneToken, Work, biased
from .several_drafts import ABSTRACT, ALGORITHM, LOSSLESS, RECURSIVE, WALK, WITHOUT, walk

BLOCK = AlongPath(trees.BlockVerification())
STOPPED = StoppedPath(2, 0.5, (0.4,), (0.3, 0.9))  # after a token of mass below .4 it ends
THREE, HALF = 3, Fraction(1, 2)  # tokens of the text


def one_noise(p: Any, q: Any, k: int, again: bool = True) -> Any:
    """Distribution of three tokens, and accepted drafts of a cycle, of one draft per cycle; again: it is the same in every cycle."""
    rest = norm(minus(p, q), p)

    def cycle(text: tuple[int, ...], chance: Any, drafts: list[int], law: dict[tuple[int, ...], Any]) -> None:
        if len(text) >= THREE:
            law[text[:THREE]] = law.get(text[:THREE], 0) + chance
            return
        for x in drafts:
            here = chance * (q[x] if len(drafts) > 1 else 1)
            kept = min(Fraction(1), p[x] / q[x])
            for y in range(len(p)):
                if here * kept * p[y]:
                    cycle((*text, x, y), here * kept * p[y], drafts, law)
                if here * (1 - kept) * rest[y]:
                    cycle((*text, y), here * (1 - kept) * rest[y], drafts, law)

    emitted: dict[tuple[int, ...], Any] = {}
    possible = [x for x, mass in enumerate(q) if mass]
    if again:
        for x in possible:
            cycle((), q[x], [x], emitted)
    else:
        cycle((), Fraction(1), possible, emitted)
    return emitted, sum(min(a, b) for a, b in zip(p, q, strict=True))


def cycles(chance: Any, p: Any, q: Any, k: int) -> Any:
    x, text = chance.draw(q()), list[int]()
    while len(text) < THREE:
        if chance.flip(ratio(p()[x], q()[x])):
            text.append(x)
            text.append(chance.draw(p()))
        else:
            text.append(chance.draw(norm(minus(p(), q()), p())))
    return tuple(text[:THREE])


WORKS = (
    Work("specinfer", "SpecInfer", "Miao et al. 2024", "the library's rule", LOSSLESS, "one pass per draft",
         (Form("node, children drawn from q", OneToken(RECURSIVE), "Coq: sampling.v"),
          Form("tree, children drawn from q", walk(RECURSIVE), WALK)),
         undecided=(("trees expanded by top tokens",
                     "the description does not say which q the test uses; for the unchanged q, see mlc-llm"),)),
    Work("sequoia", "Sequoia", "Chen et al. 2024", "code; the library's rule", "lossless; cover property",
         "one pass over the vocabulary per draft",
         (Form("node", OneToken(WITHOUT), "Coq: sampling.v; exact checks where q runs out"),
          Form("tree", walk(WITHOUT), "Coq: adaptive_trees.v", condition="the noise of drafts and tests is drawn again in every cycle"),
          biased("code: one noise per prompt", Coupled(one_noise, text=THREE, baseline=""), cycles,
                 "self.rand and self.r are drawn in __init__ of SpecTree, once a prompt; prepare_for_next_iter leaves them",
                 Coupled(partial(one_noise, again=False), text=THREE, baseline=""), "draw both again in prepare_for_next_iter",
                 when="sequences of more than one cycle", cycles=2,
                 code="Infini-AI-Lab/Sequoia Tree/SpecTree.py@0ff3ff7, SpecTree; tests/testbed.py",
                 seen="run: SpecTree with one draft: p = q = (1/2, 1/2) gave the first token again as the third in 2,000 of 2,000 prompts",
                 known=(Known(Case(((HALF, HALF),), ((HALF / 2, 3 * HALF / 2),), 1), Fraction(7, 36)),))),
         "Infini-AI-Lab/Sequoia Tree/SpecTree.py@0ff3ff7, accept_step",
         remarks="Code: once all of q is rejected, softmax is uniform on the drafted tokens too, where the paper leaves these out."),
    Work("dyspec", "DySpec", "Xiong et al. 2410.11744", "the library's drafter", LOSSLESS, "one pass per draft",
         (Form("tree whose shape follows the samples", AlongPath(trees.TokenWise(WITHOUT), (2,), 2, SampledTree(3, 2, 2, 2)),
               "Coq: adaptive_trees.v", condition="whether a child is drafted depends on earlier tokens alone"),)),
    Work("specdec-pp", "SpecDec++", "Huang et al. 2405.19715", "code; the library's drafter", LOSSLESS, "a head per token",
         (Form("path that is stopped", AlongPath(trees.TokenWise(otd.rules.SpeculativeSampling()), (1,), 2, STOPPED),
               "Coq: adaptive_trees.v", condition="whether a token is drafted depends on the tokens before it alone"),),
         "Kaffaljidhmah2/SpecDec_pp specdec_pp/hf_generation.py@9c52edc, stop_prediction"),
    Work("block", "Block verification", "Sun et al. 2403.10444", ALGORITHM, "lossless; optimal for one path", "two passes per position",
         (Form("one path", BLOCK, "Coq: block.v; that no lossless rule for one path accepts more: block_optimal.v"),)),
    Work("traversal", "Traversal verification", "Weng et al. 2505.12398", ALGORITHM, "lossless; optimal for one path", "a pass per node",
         (Form("chains", AlongPath(trees.Traversal(), (1, 2)), "Coq: joint.v, adaptive_trees.v"),
          Form("tree, children without replacement", AlongPath(trees.Traversal(), (2,), 2, TREE, WITHOUT.law), "Coq: adaptive_trees.v"),
          Form("tree, children i.i.d.", AlongPath(trees.Traversal(), (2,), 2, TREE, otd.IID()), "Coq: adaptive_trees.v"))),
    Work("gbv", "GBV", "Thomas and Pal 2602.16961v1", ABSTRACT,
         "block verification is optimal for one path, off-path probabilities included; lossless for several", "not read",
         (Form("one path", BLOCK, "its claim of optimality is a theorem, Coq: block_optimal.v"),),
         undecided=(("several paths", "abstract only; the nearest rule here is `Joint`"),)),
    Work("univer", "UniVer", "Weng et al. 2605.04543v1", ABSTRACT, "lossless; optimal within its framework", "not read", (),
         undecided=(("its rule", "abstract only; the nearest rule here is `Joint`"),)),
)  # fmt: skip
