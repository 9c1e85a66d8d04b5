"""Engines' own samplers, by version.

VLLM, NOISE. In the second runner the Gumbel noise that drew the draft was used again for the recovered token (pull 54282). Given the
refused draft x, the noise of the others is no longer fresh: what is recovered is the winner of a race of the same exponentials. Its law
is rational.
LLAMA.CPP, EXAMPLE. The draft is the likeliest candidate (cur_p->data[is], in falling order), and no draw. It is kept with probability
p/q, else the target becomes norm((p - q)+). With a chosen token, q in that test has to be 1.
"""

from fractions import Fraction
from typing import Any

import numpy as np

import ot_draft as ot

from ...races import exponential_race
from ...random_cases import Case
from ..by_hand import likeliest, minus, mode, norm, single, usual_residual, usual_test, without
from ..record import SPECULATIVE, TOP, Coupled, Form, OneToken, Work, biased
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


TRUNCATED = single(usual_test, usual_residual, top_two)
WORKS = (
    Work("transformers", "transformers' assisted generation", "", "code; issue's description", "lossless (Leviathan et al., Algorithm 1)",
         "one pass over the vocabulary a token",
         (Form("q as drawn", SPECULATIVE, STANDARD),
          biased("drafts truncated, q reported without", OneToken(RULE, (1,), DrawnFrom(top(2))), TRUNCATED,
                 "candidate_logits are not those that the candidates were drawn from (as issue 47932 describes)", SPECULATIVE,
                 "report the law after the assistant's own processors")),
         "huggingface/transformers src/transformers/generation/utils.py, _speculative_sampling, in copies; issue 47932"),
    Work("vllm", "vLLM's rejection samplers", "", "code of V1; pull's description", "strictly follows Leviathan et al.",
         "one pass a token",
         (Form("V1, draft_probs given", SPECULATIVE, STANDARD),
          Form("V1, draft_probs None (n-gram)", OneToken(CHOSEN, (1,)), "q set to 1 for a token that is no draw; Coq: sampling.v"),
          biased("synthetic acceptance 3/5, for benchmarks", OneToken(Single(lambda p, q: 0 * p + RATE, lambda p, q: p), (1,)),
                 single(lambda p, q, x: RATE, lambda p, q, x: p), "acceptance by a given rate, whatever p says", SPECULATIVE,
                 "standard acceptance: the rate is what min(p, q) gives", on_purpose=True),
          biased("second runner before pull 54282: noise again",
                 Coupled(used_again, in_floats=lambda p, q: np.minimum(p, q).sum()), race_by_hand,
                 "the recovered token takes the Gumbel noise that drew the draft", SPECULATIVE, "fresh noise",
                 rests_on="exact integration of the race")),
         "vllm-project/vllm vllm/v1/sample/rejection_sampler.py@0097a7b; second runner: pull 54282"),
    Work("sglang", "SGLang's target-only tree kernel", "", "code, by text search in copies", "lossless at thresholds 1", "none",
         (Form("thresholds 1", OneToken(ot.rules.lossy.TwoThresholds(1, 1)), "a draw from p, child by child; Coq: sampling.v"),
          biased("threshold_acc = 1/2", OneToken(ot.rules.lossy.TwoThresholds(1, HALF), (1, 2)), thresholds,
                 "coin <= prob_acc / threshold_acc", OneToken(CHOSEN, (1, 2)), "threshold_acc = 1", on_purpose=True)),
         "sgl-project/sglang csrc/speculative/speculative_sampling.cuh, TreeSpeculativeSamplingTargetOnly"),
    Work("llama-cpp", "llama.cpp's samplers", "", "code of the example; the server's sampler from its description",
         "stochastic verification", "none (server); one pass over the candidates (example)",
         (Form("common_sampler_sample_and_accept_n", OneToken(CHOSEN, (1,)), "the output is the target's sample; Coq: sampling.v"),
          biased("examples/speculative, one sequence, temperature > 0", OneToken(RULE, (1,), TOP), single(usual_test, usual_residual, mode),
                 "r <= p_tgt / p_dft, for the token cur_p->data[is].id, which was not drawn", OneToken(CHOSEN, (1,)),
                 "p_dft = 1 and p_tgt = 0 after a refusal; or draw the draft")),
         "ggml-org/llama.cpp examples/speculative/speculative.cpp@007d713",
         remarks="The residual subtracts candidate by candidate, sorted by id: it fits where both models kept the same ones."),
)  # fmt: skip
