"""Rules for several drafts of one token, most of them walked down a tree as well; a few lines each, as the library has them.

They are lossless; what tells them apart is the share of the optimum. MCSD's code, asked for top candidates, tests them as if they had been
drawn. Of GLOBAL RESOLUTION only the abstract could be read: it solves the optimal transport that `otd.rules.Optimal` solves. SPECTR-GBV
claims that no lossless rule keeps more than sum p (1 - (1 - min(1, q/p))^K); that is refuted (`prove spectr_gbv`): p = (1/2, 1/2),
q = (3/4, 1/4), K = 2, where `Optimal` keeps 15/16 and 7/8 is claimed.
"""

from dataclasses import dataclass
from typing import Any

import ot_draft as otd
from ot_draft import trees

from ..by_hand import recursive, top_two
from ..record import RUN, TOP, TREE, AlongPath, Form, OneToken, Work, biased
from ..rules import top

K_SEQ, OPTIMAL, GREEDY = otd.rules.KSeq(), otd.rules.Optimal(), otd.rules.Greedy()
RECURSIVE, WITHOUT = otd.rules.RecursiveRejection(), otd.rules.RecursiveRejectionWithoutReplacement()
ALGORITHM = "the library's rule, whose docstring names the paper"
ABSTRACT, LOSSLESS, WALK = (
    "from the abstract only",
    "lossless",
    "the node's rule at every node; SpecTr, Theorem 2; Coq: joint.v",
)


def walk(rule: otd.SelectionRule) -> AlongPath:
    """The rule down a tree of two levels with two children per node."""
    return AlongPath(trees.TokenWise(rule), (2,), 2, TREE, rule.law)


@dataclass(frozen=True)
class Cut(otd.SelectionRule):
    """Recursive rejection of the two most probable tokens, with q on these two, normalised."""

    law: otd.DraftLaw = TOP

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        return WITHOUT(p, top(2)(q), drafts)


def cut_by_hand(chance: Any, p: Any, q: Any, k: int) -> Any:
    return recursive(True, True)(chance, p, lambda *prefix: top_two(q(*prefix)), k)


WORKS = (
    Work("spectr", "SpecTr: K-SEQ and its walk", "Sun et al. 2023, Theorem 2 (walk)", ALGORITHM, "lossless; 1 - 1/e of the optimum",
         "k tests, a few passes for the division factor",
         (Form("K-SEQ", OneToken(K_SEQ), "Coq: k_seq.v, k_seq_sharp.v"),
          Form("walk, paths", AlongPath(trees.TokenWise(K_SEQ), (1, 2)), WALK),
          Form("walk, tree", walk(K_SEQ), WALK))),
    Work("mcsd", "MCSD", "Yang et al. 2024", "code; the library's rules", LOSSLESS,
         "one pass over the vocabulary per draft",
         (Form("node, with replacement", OneToken(RECURSIVE), "Coq: sampling.v"),
          Form("node, without replacement", OneToken(WITHOUT), "Coq: sampling.v, while q has mass left"),
          Form("tree, with replacement", walk(RECURSIVE), WALK),
          Form("tree, without replacement", walk(WITHOUT), "Coq: adaptive_trees.v"),
          biased("code: top candidates at draft temperature 0", OneToken(Cut(), (2,)), cut_by_hand,
                 "topk_probs = softmax(topk_logit) of chosen candidates goes into the test for drawn ones",
                 OneToken(otd.rules.NaiveTarget(law=TOP), (2,)), "q = 1 on a chosen candidate, its p set to 0 after a rejection",
                 when="draft_model_temp 0 and target_model_temp above 0, which its scripts never use; replacement=False", seen=RUN,
                 sampling="temperature 0, in the draft model")),
         "NJUNLP/MCSD MCSD/inference/strategies.py@8aadd65, _MCSSwReplacement, _MCSSwoReplacement"),
    Work("spechub", "SpecHub", "SpecHub 2024", ALGORITHM, "lossless; near the optimum of two drafts", "linear in the vocabulary",
         (Form("node", OneToken(otd.rules.SpecHub(), (2,)), "exact checks; the optimum of its draft distribution"),
          Form("tree", walk(otd.rules.SpecHub()), WALK))),
    Work("khisti", "Khisti et al., importance weighting", "Khisti et al. 2024", ALGORITHM, "lossless; two steps reach the optimum",
         "an integral per token; a linear program",
         (Form("weights p/q: node", OneToken(otd.rules.ImportanceWeighted()), "Coq: couple.v, whichever way a draft is chosen"),
          Form("weights p/q: tree", walk(otd.rules.ImportanceWeighted()), WALK),
          Form("two steps, best choice: node", OneToken(otd.rules.FromCoupling(), (1, 2)), "exact checks; certified by its cut"),
          Form("two steps, best choice: tree", walk(otd.rules.FromCoupling()), WALK))),
    Work("hu", "Hu et al., optimal multi-draft", "Hu et al. 2502.18779", ALGORITHM,
         "lossless; greedy drafting reaches its own optimum", "linear in the vocabulary",
         (Form("greedy: node", OneToken(GREEDY), "exact checks; the optimum: Coq: hybrid.v"),
          Form("greedy: tree", walk(GREEDY), WALK))),
    Work("global-resolution", "Global Resolution", "2511.15898", ABSTRACT, "lossless; solves i.i.d. optimal transport",
         "71 ms per token at (10, 5), it says", (),
         undecided=(("its solver", "abstract only; the optimum that it states is `Optimal`'s here (Coq: optimal.v)"),)),
    Work("spectr-gbv", "SpecTr-GBV", "Lin et al. 2604.25925", "claim and a step of its proof",
         "no lossless rule keeps more than sum p (1 - (1 - min(1, q/p))^K)", "undecided", (),
         undecided=(("its rule", "not read; its claim is refuted, 15/16 where 7/8 is claimed (`prove spectr_gbv`; Coq: spectr_gbv.v)"),)),
)  # fmt: skip
