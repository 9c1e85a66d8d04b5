"""llama.cpp: the server's sampler, and the example `speculative`.

The server compares the draft with the target's own sample. The EXAMPLE, with its defaults (temperature .8, one sequence), drafts data[0]
of the candidates in falling order, and not the token that the draft's sampler drew. It is kept if r <= p_tgt / p_dft, as if it had been
drawn; p_tgt is 0 where the target does not have the token among its candidates (with several sequences: the value of the sequence
before). After a rejection both lists of candidates are sorted by id and subtracted index by index, not id by id: right only where both
models kept the same tokens, and by default top-k, top-p and min-p cut each list by itself. So drawing the draft alone does not repair it.
With SEVERAL SEQUENCES a branch splits into the next candidates whose mass is above p_split, .1; the active ones are tested in random
order by the same test, and those that were not tested stay active after a token of another branch. Temperature <= 0, one candidate (top-k
1) and sampling on the backend are not concerned. Pull 5625, which brought the rule in 2024, says that it covers the verification and
leaves the drawing of drafts open.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft import arrays as xp
from ot_draft import trees

from ..by_hand import most_probable, norm, ratio
from ..record import CHAIN, TOP, TREES, AlongPath, Case, Form, Known, OneToken, Work, biased, greedy

CHOSEN, SPLIT = otd.rules.NaiveTarget(law=TOP), Fraction(1, 10)
TWO = trees.TreeShape.chains(2, 2)


def by_place(candidates: Any, target: Any, q: Any) -> Any:
    """The residual of the target (n,) when the i-th candidate of q is subtracted from the i-th of these; candidates have mass."""
    others, left = np.flatnonzero(q), target + 0
    both = min(len(candidates), len(others))
    left[candidates[:both]] = left[candidates[:both]] - q[others[:both]]
    return xp.normalise(np.maximum(left, 0 * target), otherwise=target)


@dataclass(frozen=True)
class ByPlace(otd.SelectionRule):
    """Test the first draft with p/q, else draw from what `by_place` leaves."""

    law: otd.DraftLaw = TOP

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        first = xp.first_present(drafts)
        accept = xp.where(first, xp.minimum(xp.divide(xp.gather(p, drafts), xp.gather(q, drafts), 0), 1), 0)
        p, q = np.broadcast_arrays(p, q)
        both = zip(p.reshape(-1, p.shape[-1]), q.reshape(-1, p.shape[-1]), strict=True)
        rows = [by_place(np.flatnonzero(mine), mine, other) for mine, other in both]
        return otd.Selection(accept, np.stack(rows).reshape(p.shape))


def listed(p: Any, q: Any) -> list[Fraction]:
    """The same with lists of pairs, as the code has them."""
    mine, other = ([[y, mass] for y, mass in enumerate(masses) if mass] for masses in (p, q))
    for i, pair in enumerate(mine):
        pair[1] = max(Fraction(0), pair[1] - (other[i][1] if i < len(other) else 0))
    found = dict(map(tuple, mine))
    return list(norm([found.get(y, Fraction(0)) for y in range(len(p))], p))


def example(drawn: bool) -> Any:
    """The program of one position: the draft token is the most probable candidate, or drawn."""

    def program(chance: Any, p: Any, q: Any, k: int) -> Any:
        x = chance.draw(q()) if drawn else most_probable(q(), 1)[0]
        return (x,) if chance.flip(ratio(p()[x], q()[x])) else (chance.draw(listed(p(), q())),)

    return program


def several(model: Any, tree: Any) -> Any:
    """Two sequences: they part at the first position, where the second candidate has enough mass, then each takes its most probable tokens.

    Sequences that were not tested stay active after a token that another one had accepted.
    """
    law: dict[tuple[int, ...], Any] = {}
    root = model.draft(())
    sequences = [(x, y) for i, (x, ((y, _),)) in enumerate(tree.forest) if x >= 0 and (not i or root[x] > SPLIT)]

    def place(i: int, active: list[Any], kept: Any, emitted: tuple[int, ...], chance: Any) -> None:
        target = model.target(kept[:i])
        candidates = np.flatnonzero(target)

        def test(waiting: list[Any], target: Any, p_tgt: Any, chance: Any) -> None:
            if not waiting:
                for token, mass in enumerate(target.tolist()):
                    if mass and chance:
                        law[*emitted, token] = law.get((*emitted, token), 0) + chance * mass
            for sequence in waiting:
                x, q = sequence[i], model.draft(sequence[:i])
                found = target[x] if x in candidates else p_tgt  # a token of no candidate is told the mass before
                accept = min(1, found / q[x])
                each = chance / len(waiting)
                others = [other for other in waiting if other != sequence]
                if each * accept:
                    place(i + 1, waiting, sequence, (*emitted, x), each * accept)
                if each * (1 - accept):
                    test(others, by_place(candidates, target, q), found, each * (1 - accept))

        test(active if i < 2 else [], target, 0, chance)

    place(0, sequences, (), (), Fraction(1))
    return law


def several_by_hand(chance: Any, p: Any, q: Any, k: int) -> Any:
    def left(candidates: list[int], target: Any, draft: Any) -> Any:
        others = [mass for mass in draft if mass]
        cut = [Fraction(0)] * len(target)
        for i, y in enumerate(candidates):
            cut[y] = max(Fraction(0), target[y] - (others[i] if i < len(others) else 0))
        return norm(cut, target)

    starts = [x for i, x in enumerate(most_probable(q(), 2)) if not i or q()[x] > SPLIT]
    active = [(x, most_probable(q((x,)), 1)[0]) for x in starts]
    text: tuple[int, ...] = ()
    context: tuple[int, ...] = ()
    for i in range(2):
        target, p_tgt, accepted = p(context), Fraction(0), False
        candidates = [y for y, mass in enumerate(target) if mass]
        while active and not accepted:
            pick = chance.draw([Fraction(1, len(active))] * len(active))
            sequence = active[pick]
            x, draft = sequence[i], q(sequence[:i])
            p_tgt = target[x] if x in candidates else p_tgt
            if chance.flip(p_tgt / draft[x]):
                text, context, accepted = (*text, x), sequence[: i + 1], True
            else:
                active = [*active[:pick], *active[pick + 1 :]]
                target = left(candidates, target, draft)
        if not accepted:
            return (*text, chance.draw(target))
    return (*text, chance.draw(p(context)))


EIGHTH = Fraction(1, 8)
APART = Case(
    ((0 * EIGHTH, 3 * EIGHTH, 3 * EIGHTH, 2 * EIGHTH),), ((2 * EIGHTH, 4 * EIGHTH, 2 * EIGHTH, 0 * EIGHTH),), 1
)
SEEN = "run: its verification, compiled (as llama-cpp-python 0.3.36 has it): within .0005 of the distribution in a million rounds"
DRAWN = OneToken(ByPlace(otd.IID()), (1,))
WORKS = (
    Work("llama-cpp", "llama.cpp", "", "code of the example and of common/sampling.cpp",
         "stochastic verification", "none (server); one pass over the candidates (example)",
         (Form("server: common_sampler_sample_and_accept_n", OneToken(CHOSEN, (1,)), "the output is the target's sample; Coq: sampling.v",
               mode=CHAIN, when="not with its synthetic acceptance for benchmarks (pull 27711)"),
          biased("example `speculative`, one sequence", OneToken(ByPlace(), (1,)), example(drawn=False),
                 "id = cur_p->data[is].id, not the drawn token; then r <= p_tgt / p_dft; lists subtracted index by index",
                 OneToken(CHOSEN, (1,)),
                 "p_dft = 1 and p_tgt = 0 after a rejection; drawing the draft is not enough",
                 mode=CHAIN, when="its defaults: temperature 0.8, --parallel 1",
                 seen=SEEN, known=(Known(APART, 3 * EIGHTH, "the draft drawn", DRAWN, example(drawn=True)),)),
          biased("example `speculative`, several sequences", AlongPath(several, (2,), 2, TWO, TOP), several_by_hand,
                 "the same test, of the next candidates above p_split, in random order",
                 AlongPath(trees.NaivePath(), (2,), 2, TWO, TOP), "draw from the target, and go on where a sequence holds the token",
                 mode=TREES, when="--parallel 2, p_split 0.1, temperature above 0", seen=SEEN),
          greedy("server at temperature 0")),
         "ggml-org/llama.cpp examples/speculative/speculative.cpp@007d713; common/sampling.cpp@00efb3e", engine="llama.cpp",
         remarks="Where nothing is left the code divides by 0; it is evaluated as the target. Pull 5625 left the drawing of drafts open."),
)  # fmt: skip
