"""MLC-LLM: one kernel verifies chains and trees by recursive rejection; the children of a tree are chosen, not drawn.

TREE. With spec_tree_width above 1 the children are the draft's most probable tokens, and each is tested with p/q as if it had been drawn
from q. SpecInfer's trees that are expanded by top tokens, tested so, are the same rule. CHAIN. The token is drawn from q after top-p; q is
stored before top-p, and p is used after it.
"""

from fractions import Fraction
from typing import Any

import ot_draft as otd

from ..by_hand import most_probable, norm, ratio, recursive, usual_residual
from ..record import CHAIN, PATH, TOP, TREES, Case, Form, Known, OneToken, Work, biased, greedy
from ..rules import DrawnFrom, Single, capped_ratio, left
from .specexec import by_rows

PART = Fraction(7, 10)
NAIVE = otd.rules.NaiveTarget(law=TOP)


def nucleus(masses: Any) -> tuple[Fraction, ...]:
    """The fewest most probable tokens that have the part, normalised."""
    order = most_probable(masses, len(masses))
    kept = [y for i, y in enumerate(order) if sum(masses[z] for z in order[:i]) < PART]
    return norm([mass if y in kept else 0 for y, mass in enumerate(masses)])


def cut(p: Any) -> Any:
    return by_rows(nucleus, p)


def with_top_p(chance: Any, p: Any, q: Any, k: int) -> tuple[int]:
    target, raw = nucleus(p()), q()
    x = chance.draw(nucleus(raw))
    return (x,) if chance.flip(ratio(target[x], raw[x])) else (chance.draw(usual_residual(target, raw, x)),)


def cut_chain(reported: Any) -> OneToken:
    return OneToken(Single(lambda p, q: capped_ratio(cut(p), reported(q)), lambda p, q: left(cut(p), reported(q))), (1,), DrawnFrom(cut),
                    expected=nucleus)  # fmt: skip


EXAMPLE = Case(((Fraction(1, 2), Fraction(1, 2), Fraction(0)),), ((Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)),), 1)
KERNEL = "mlc-ai/mlc-llm python/mlc_llm/op/batch_spec_verify.py@a2bcc5c"
DRAFT = "mlc-ai/mlc-llm cpp/serve/engine_actions/batch_draft.cc@ef84353"
WORK = Work(
    "mlc-llm", "MLC-LLM", "", "code of the kernel, of batch_draft.cc and batch_verify.cc", "none in the files that were read",
    "a pass over the vocabulary for each rejection",
    (biased("tree: the draft's most probable tokens", OneToken(otd.rules.RecursiveRejection(), (1, 2), TOP), recursive(True, False),
            "mstates[i]->AddDraftToken(top_k_token, draft_token_slots_[j], parent_idx); then p_child >= uniform_sample * q_child",
            OneToken(NAIVE, (1, 2)), "set q = 1 for a chosen child, or draw the children", mode=TREES,
            when="spec_tree_width above 1, temperature above 0", seen="read, not run", code=f"{KERNEL}; {DRAFT}"),
     biased("chain with top-p", cut_chain(lambda q: q), with_top_p,
            "ScatterDraftProbs(probs_on_device, ..), where the token was drawn from renormalized_probs", cut_chain(cut),
            "store renormalized_probs", mode=CHAIN, when="spec_tree_width 1, top-p below 1", sampling="top-p 7/10", seen="read, not run",
            code=DRAFT, known=(Known(EXAMPLE, Fraction(1, 6)),)),
     Form("chain without top-p", PATH, "speculative sampling; Coq: sampling.v", mode=CHAIN, when="spec_tree_width 1, top-p 1",
          condition="exact up to a residual mass of 1e-7, below which the draft token is kept", code=KERNEL),
     greedy("chain at temperature 0", when="spec_tree_width 1", code=KERNEL)),
    f"{KERNEL}; {DRAFT}", engine="MLC-LLM",
)  # fmt: skip
