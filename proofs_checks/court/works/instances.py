"""Works that are an instance of a rule or a path rule of the library, in paper and code: a few lines each.

They are lossless; what tells them apart is the share of the optimum. For `GBV` and `UniVer` only abstracts could be read: their form is
the rule of the library that fits the words, and the verdict is that rule's.
"""

import ot_draft as ot
from ot_draft import paths

from ..record import TOP, AlongPath, Form, OneToken, Work

SPECULATIVE, K_SEQ, OPTIMAL = ot.rules.SpeculativeSampling(), ot.rules.KSeq(), ot.rules.Optimal()
RECURSIVE, WITHOUT = ot.rules.RecursiveRejection(), ot.rules.RecursiveRejectionWithoutReplacement()
SAMPLE, CHOSEN = ot.rules.NaiveTarget(), ot.rules.NaiveTarget(law=TOP)
BLOCK, JOINT = AlongPath(paths.BlockVerification()), AlongPath(paths.Joint(), (1, 2))
SMALL_TREE, CHAINS = paths.TreeShape.by_level((2, 1)), paths.TreeShape.chains(2, 2)
ALGORITHM = "the library's rule, whose docstring names the paper"
ABSTRACT, LOSSLESS = "from the abstract only", "lossless"

WORKS = (
    Work("leviathan", "Speculative sampling", "Leviathan et al. 2211.17192; Chen et al. 2302.01318", ALGORITHM, LOSSLESS,
         "one pass over the vocabulary a token",
         (Form("token", OneToken(SPECULATIVE, (1,)), "Leviathan et al., Theorem 1; Coq: sampling.v"),
          Form("path", AlongPath(paths.TokenWise(SPECULATIVE)), "the token's rule at every node; Coq: joint.v"))),
    Work("spectr", "SpecTr: K-SEQ and its walk", "Sun et al. 2023, Theorem 2 (walk)", ALGORITHM, "lossless; 1 - 1/e of the optimum",
         "k tests, a few passes for the division factor",
         (Form("K-SEQ", OneToken(K_SEQ), "Coq: k_seq.v, k_seq_sharp.v"),
          Form("walk", AlongPath(paths.TokenWise(K_SEQ), (1, 2)), "SpecTr, Theorem 2; Coq: joint.v"))),
    Work("mcsd", "Multi-candidate speculative decoding", "Yang et al. 2024", "code; the library's rules", LOSSLESS,
         "one pass over the vocabulary a draft",
         (Form("paper and code, with replacement", OneToken(RECURSIVE), "Coq: sampling.v"),
          Form("paper and code, without replacement", OneToken(WITHOUT), "Coq: sampling.v, while q has mass left")),
         "NJUNLP/MCSD MCSD/inference/strategies.py@8aadd65, _MCSSwReplacement, _MCSSwoReplacement"),
    Work("sequoia", "Sequoia", "Chen et al. 2024", "code; the library's rule", "lossless; cover property",
         "one pass over the vocabulary a draft",
         (Form("children of a node", OneToken(WITHOUT), "Coq: sampling.v; exact checks where q runs out"),
          Form("tree", AlongPath(paths.TokenWise(WITHOUT), (2,), 2, SMALL_TREE, WITHOUT.law), "Coq: adaptive_trees.v")),
         "Infini-AI-Lab/Sequoia Tree/SpecTree.py@0ff3ff7, accept_step",
         remarks="Code: once all of q is refused, softmax is uniform on the drafted tokens too, where the paper leaves these out."),
    Work("spechub", "SpecHub", "SpecHub 2024", ALGORITHM, "lossless; near the optimum of two drafts", "linear in the vocabulary",
         (Form("paper", OneToken(ot.rules.SpecHub(), (2,)), "exact checks; the optimum of its own law"),)),
    Work("khisti", "Importance weighting, canonical two steps", "Khisti et al. 2024", ALGORITHM, "lossless; two steps reach the optimum",
         "an integral a token; a linear program",
         (Form("weights p/q", OneToken(ot.rules.ImportanceWeighted()), "Coq: couple.v, whichever way a draft is chosen"),
          Form("two steps, best choice", OneToken(ot.rules.FromCoupling(), (1, 2)), "exact checks; certified by its cut"))),
    Work("hu", "Towards optimal multi-draft speculative decoding", "Hu et al. 2502.18779", ALGORITHM,
         "lossless; greedy drafting reaches its own optimum", "linear in the vocabulary",
         (Form("greedy", OneToken(ot.rules.Greedy()), "exact checks; the optimum: Coq: hybrid.v"),)),
    Work("global-resolution", "Global Resolution", "2511.15898", ABSTRACT, "lossless; solves i.i.d. optimal transport",
         "71 ms a token at (10, 5), it says",
         (Form("the optimum, by this library's construction", OneToken(OPTIMAL), "Coq: optimal.v"),)),
    Work("spectr-gbv", "SpecTr-GBV", "Lin et al. 2604.25925, paths of one token, reconstructed", "claim and a step of its proof",
         "no lossless rule keeps more than sum p (1 - (1 - min(1, q/p))^K)", "not judged",
         (Form("a lossless rule that keeps more", OneToken(OPTIMAL, (2,)),
         "`prove spectr_gbv`: 15/16 where 7/8 is claimed; Coq: spectr_gbv.v"),),
         remarks="The claim is refuted, not the rule: p = (1/2, 1/2), q = (3/4, 1/4), K = 2: optimal selection keeps 15/16, claimed 7/8."),
    Work("block", "Block verification", "Sun et al. 2403.10444", ALGORITHM, "lossless; optimal for one path", "two passes a position",
         (Form("paper", BLOCK, "Coq: block.v; that no lossless rule for one path accepts more: block_optimal.v"),)),
    Work("traversal", "Traversal verification", "Weng et al. 2505.12398", ALGORITHM, "lossless; optimal for one path", "a pass a node",
         (Form("chains", AlongPath(paths.Traversal(), (1, 2)), "Coq: joint.v, adaptive_trees.v"),
          Form("children without replacement", AlongPath(paths.Traversal(), (2,), 2, SMALL_TREE, WITHOUT.law), "Coq: adaptive_trees.v"))),
    Work("gbv", "Greedy multi-path block verification", "Thomas and Pal 2602.16961v1", ABSTRACT,
         "block verification is optimal for one path, off-path probabilities included; lossless for several", "not read",
         (Form("one path", BLOCK, "its claim of optimality is a theorem, Coq: block_optimal.v"),
          Form("several paths: `Joint`, nearest rule", JOINT, "Coq: joint.v, of `Joint`, not of GBV"))),
    Work("univer", "UniVer", "Weng et al. 2605.04543v1", ABSTRACT, "lossless; optimal within its framework", "not read",
         (Form("as far as described: `Joint`", JOINT, "Coq: joint.v, of `Joint`"),)),
    Work("lookahead", "Lookahead decoding, sampling", "Lookahead decoding 2024", "code", LOSSLESS, "none beyond the target's sample",
         (Form("code: one position", OneToken(CHOSEN), "Coq: sampling.v; drafts are chosen before the target's coins"),
          Form("code: n-grams", AlongPath(paths.NaivePath(), (2,), 2, CHAINS, TOP), "exact checks")),
         "hao-ai-lab/LookaheadDecoding lade/decoding.py@eed010d, jacobi_sample_multilevel",
         remarks="An n-gram that appears twice is refused twice; its mass is 0 by then, and nothing changes."),
    Work("mlx-lm", "mlx-lm's speculative_generate_step", "", "code", "same output as without a draft", "none beyond the target's sample",
         (Form("code", OneToken(SAMPLE, (1,)), "the output is the target's sample; Coq: sampling.v"),),
         "ml-explore/mlx-lm mlx_lm/generate.py@d78bf58",
         remarks="Lossless, and far below the optimum: it accepts sum p q where sum min(p, q) is possible."),
)  # fmt: skip
