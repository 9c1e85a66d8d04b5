"""Engines' own samplers, by version.

VLLM, NOISE. In the second runner the Gumbel noise that drew the draft was used again for the recovered token (pull 54282). Given the
refused draft x, the noise of the others is no longer fresh: what is recovered is the winner of a race of the same exponentials. Its law
is rational. BLOCK and SYNTHETIC are the second runner's; at 02e318b synthetic draws the rest from norm((p - q)+).
SGLANG. One coin goes through the children of a node. Until pull 7207 that coin, known to be above their mass s, made the final draw too.
LLAMA.CPP, EXAMPLE. With `temp` > 0 and one sequence (n_parallel = 1) the draft is data[0] of the candidates in falling order, and not the
token that the draft's sampler drew. It is kept with probability p/q, else the target becomes norm((p - q)+). With a chosen token, q in
that test has to be 1. Branches: drafting loop, 'add drafted token for each sequence'; verification, `if (params.sampling.temp > 0)`,
'stochastic verification'. Judged where both models keep the same candidates. Not concerned: `temp` <= 0, drafts with one candidate
(top-k 1, backend sampling), and the server, which compares with the target's sample.
"""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

import ot_draft as ot
from ot_draft import paths

from ...paths.path_cases import Told
from ...races import exponential_race
from ...random_cases import Case
from ..by_hand import likeliest, minus, mode, norm, ratio, single, usual_residual, usual_test, without
from ..record import SPECULATIVE, TOP, AlongPath, Coupled, Form, OneToken, Work, biased
from ..rules import DrawnFrom, Single, top

RATE, HALF = Fraction(3, 5), Fraction(1, 2)
CHOSEN = ot.rules.NaiveTarget(law=TOP)
RULE = ot.rules.SpeculativeSampling()
STANDARD = "speculative sampling; Coq: sampling.v"


def top_two(q: Any) -> Any:
    return norm([mass if y in likeliest(q, 2) else 0 for y, mass in enumerate(q)])


def used_again(p: Any, q: Any, k: int) -> Any:
    """Draft x with q; kept with min(1, p/q); else argmin E/(p - q)+ of the exponentials whose argmin E/q was x."""
    race = exponential_race.joint(Case(tuple(norm(minus(p, q), p)), q, 1, 0))
    kept = [min(a, b) for a, b in zip(p, q, strict=True)]
    refused = [1 - min(Fraction(1), a / b) if b else Fraction(0) for a, b in zip(p, q, strict=True)]
    return [kept[y] + sum(r * race[x][y] for x, r in enumerate(refused)) for y in range(len(p))], sum(kept)


def race_by_hand(chance: Any, p: Any, q: Any, k: int) -> Any:
    """Three tokens at most: the draft x won with E_x = t q_x, t exponential; each other exponential is t q_y and a fresh one more."""
    target, draft = p(), q()
    x = chance.draw(draft)
    if chance.flip(target[x] / draft[x]):
        return (x,)
    rest = norm(minus(target, draft))
    a, *others = [y for y, mass in enumerate(rest) if mass]
    if not others:
        return (a,)
    (b,) = others
    ahead = draft[b] / rest[b] - draft[a] / rest[a]  # how far a is ahead at the start, in units of t
    both = rest[a] + rest[b]
    wins = 1 - rest[b] / both / (1 + rest[a] * ahead) if ahead >= 0 else rest[a] / both / (1 - rest[b] * ahead)
    return (a,) if chance.flip(wins) else (b,)


def thresholds(chance: Any, p: Any, q: Any, k: int) -> Any:
    target, reached = p(), Fraction(0)
    drafts = likeliest(q(), k)
    for x in drafts:
        before, reached = reached, min(Fraction(1), reached + target[x] / HALF)
        if before < 1 and chance.flip((reached - before) / (1 - before)):
            return (x,)
    return (chance.draw(without(target, drafts)),)


def block_of_one_hot(model: Any, drafts: Any) -> Any:
    """Block verification of a chosen path: q is 1 on its tokens."""
    path = drafts.tokens

    def draft(prefix: tuple[int, ...]) -> Any:
        return np.array([Fraction(int(y == path[len(prefix)])) for y in range(len(model.target(prefix)))], dtype=object)

    return paths.BlockVerification()(Told(model.target, draft), (path,))


def coin_again(p: Any, q: Any, k: int) -> Any:
    """The coin u, uniform above s, draws from what is left of p, in the order of tokens, at u (1 - s)."""
    drafts = likeliest(q, k)
    output = [mass if x in drafts else Fraction(0) for x, mass in enumerate(p)]
    rest, start = 1 - sum(output), Fraction(0)
    for y, mass in enumerate(p):
        if y not in drafts and rest:
            end = start + mass
            output[y] = max(Fraction(0), min(end, rest) - max(start, rest * (1 - rest))) / rest
            start = end
    return output, 1 - rest


def coin_by_hand(chance: Any, p: Any, q: Any, k: int) -> Any:
    """The same in places of the coin itself."""
    target, reached, drafts = p(), Fraction(0), likeliest(q(), k)
    for x in drafts:
        if chance.flip(ratio(target[x], 1 - reached)):
            return (x,)
        reached += target[x]
    places = [Fraction(0)]
    for y, mass in enumerate(target):
        places.append(places[-1] + (0 if y in drafts else mass) / (1 - reached))
    return (chance.draw(norm([high - max(low, reached) for low, high in pairwise(places)])),)


TRUNCATED = single(usual_test, usual_residual, top_two)
WORKS = (
    Work("transformers", "transformers' assisted generation", "", "code; issue's description", "lossless (Leviathan et al., Algorithm 1)",
         "one pass over the vocabulary a token",
         (Form("q as drawn", SPECULATIVE, STANDARD),
          biased("drafts truncated, q reported without", OneToken(RULE, (1,), DrawnFrom(top(2))), TRUNCATED,
                 "candidate_logits are not those that the candidates were drawn from (as issue 47932 describes)", SPECULATIVE,
                 "report the law after the assistant's own processors")),
         "huggingface/transformers src/transformers/generation/utils.py, _speculative_sampling, in copies; issue 47932"),
    Work("vllm", "vLLM's rejection samplers", "", "code of V1 and of the second runner (V2); pull's description",
         "strictly follows Leviathan et al.; block verification",
         "one pass a token",
         (Form("V1 and V2 standard, draft's law given", SPECULATIVE, STANDARD),
          Form("V1 and V2 standard, no law (n-gram)", OneToken(CHOSEN, (1,)), "q set to 1 for a token that is no draw; Coq: sampling.v"),
          Form("V2 block, draft's law given", AlongPath(paths.BlockVerification()), "block verification; Coq: block.v"),
          Form("V2 block, no law: chosen path", AlongPath(block_of_one_hot, shape=paths.TreeShape.chains(1, 2), law=TOP),
               "block verification with q = 1 on the path; exact checks"),
          biased("V2 synthetic at rate 3/5, for benchmarks", OneToken(Single(lambda p, q: 0 * p + RATE), (1,)),
                 single(lambda p, q, x: RATE, usual_residual), "accepted &= u < rate, whatever p says", SPECULATIVE,
                 "standard acceptance: the rate is what min(p, q) gives", on_purpose=True),
          biased("second runner before pull 54282: noise again",
                 Coupled(used_again, in_floats=lambda p, q: np.minimum(p, q).sum()), race_by_hand,
                 "the recovered token takes the Gumbel noise that drew the draft", SPECULATIVE, "fresh noise",
                 rests_on="exact integration of the race")),
         "vllm-project/vllm v1/sample/rejection_sampler.py@0097a7b; v1/worker/gpu/spec_decode/rejection_sampler_utils.py@02e318b",
         remarks="Coins are taken as independent of noise. Synthetic with (p - q)+ empty, an argmax of -inf, is judged as p.",
         not_judged="fly: the code read knows standard, synthetic and block only"),
    Work("sglang", "SGLang's target-only tree kernel", "", "code, also with one coin (commit not known); pulls",
         "lossless at thresholds 1", "none",
         (Form("thresholds 1", OneToken(ot.rules.lossy.TwoThresholds(1, 1)), "a draw from p, child by child; Coq: sampling.v"),
          Form("thresholds 1, several steps", AlongPath(paths.NaivePath(), (2,), 2, paths.TreeShape.by_level((2, 1)), TOP),
               "a fresh coin at every node; exact checks"),
          biased("before pull 7207: coin used again", Coupled(coin_again, (1, 2)), coin_by_hand,
                 "u = coin * sum_relu_q_minus_p, with the coin that has refused the children", OneToken(CHOSEN, (1, 2)),
                 "a coin of its own for the final draw, as the pull has it", rests_on="exact integration over the coin"),
          biased("threshold_acc = 1/2", OneToken(ot.rules.lossy.TwoThresholds(1, HALF), (1, 2)), thresholds,
                 "coin <= prob_acc / threshold_acc", OneToken(CHOSEN, (1, 2)), "threshold_acc = 1", on_purpose=True)),
         "sgl-project/sglang sgl-kernel/csrc/speculative/speculative_sampling.cuh@b227f63, TreeSpeculativeSamplingTargetOnly",
         remarks="Its coins are in [0, 1) and compared with <=: a coin of exactly 0 takes a child of mass 0 (until pull 35798)."),
    Work("llama-cpp", "llama.cpp's samplers", "", "code of the example and of common/sampling.cpp; neither was run",
         "stochastic verification", "none (server); one pass over the candidates (example)",
         (Form("common_sampler_sample_and_accept_n", OneToken(CHOSEN, (1,)), "the output is the target's sample; Coq: sampling.v"),
          biased("examples/speculative, one sequence, temperature > 0", OneToken(RULE, (1,), TOP), single(usual_test, usual_residual, mode),
                 "id = cur_p->data[is].id, not the drawn token; then r <= p_tgt / p_dft", OneToken(CHOSEN, (1,)),
                 "p_dft = 1 and p_tgt = 0 after a refusal; or draw the draft")),
         "ggml-org/llama.cpp examples/speculative/speculative.cpp@007d713; common/sampling.cpp@00efb3e",
         remarks="The residual subtracts the i-th candidate from the i-th, sorted by id: it fits where both models kept the same ones.",
         not_judged="example with several sequences: branches split by p_split, whose bookkeeping was not rebuilt"),
)  # fmt: skip
