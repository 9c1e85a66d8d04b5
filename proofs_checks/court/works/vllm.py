"""vLLM's rejection samplers: of V1, and of the second runner.

NOISE. In the second runner the Gumbel noise that drew the draft was used again for the recovered token, until pull 54282. Given the refused
draft x, the noise of the others is no longer fresh: what is recovered is the winner of a race of the same exponentials. Its law is
rational. Only with draft_sample_method="probabilistic": with the default, greedy, no noise drew the draft, and V1 draws its own. BLOCK and
SYNTHETIC are the second runner's; at 02e318b synthetic draws the rest from norm((p - q)+).
"""

from fractions import Fraction
from typing import Any

import numpy as np

import ot_draft as ot
from ot_draft import paths

from ...paths.path_cases import Told
from ...races import exponential_race
from ...random_cases import Case
from ..by_hand import minus, norm, single, usual_residual
from ..record import READ, SPECULATIVE, TOP, AlongPath, Coupled, Form, OneToken, Work, biased
from ..rules import Single

RATE = Fraction(3, 5)
CHOSEN = ot.rules.NaiveTarget(law=TOP)
STANDARD = "speculative sampling; Coq: sampling.v"
V1 = "vllm-project/vllm v1/sample/rejection_sampler.py@0097a7b"
V2 = "vllm-project/vllm v1/worker/gpu/spec_decode/rejection_sampler_utils.py@02e318b"
LAW, NONE = "draft's law given", "no law given (n-gram, greedy draft)"


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


def block_of_one_hot(model: Any, drafts: Any) -> Any:
    """Block verification of a chosen path: q is 1 on its tokens."""
    path = drafts.tokens

    def draft(prefix: tuple[int, ...]) -> Any:
        return np.array([Fraction(int(y == path[len(prefix)])) for y in range(len(model.target(prefix)))], dtype=object)

    return paths.BlockVerification()(Told(model.target, draft), (path,))


WORK = Work(
    "vllm", "vLLM", "", "code of V1 and of the second runner (V2); pulls 47386, 54282",
    "strictly follows Leviathan et al.; block verification",
    "one pass a token",
    (Form("standard, " + LAW, SPECULATIVE, STANDARD, code=f"{V1}; {V2}"),
     Form("standard, " + NONE, OneToken(CHOSEN, (1,)), "q set to 1 for a token that is no draw; Coq: sampling.v",
          code=f"{V1}; {V2}"),
     Form("V2 block, " + LAW, AlongPath(paths.BlockVerification()), "block verification; Coq: block.v", code=V2),
     Form("V2 block, no law: chosen path", AlongPath(block_of_one_hot, shape=paths.TreeShape.chains(1, 2), law=TOP),
          "block verification with q = 1 on the path; exact checks", code=V2),
     biased("V2 synthetic at rate 3/5, for benchmarks", OneToken(Single(lambda p, q: 0 * p + RATE), (1,)),
            single(lambda p, q, x: RATE, usual_residual), "accepted &= u < rate, whatever p says", SPECULATIVE,
            "standard acceptance: the rate is what min(p, q) gives", on_purpose=True, when="synthetic acceptance asked for",
            code=V2, seen=READ),
     biased("V2: the draft's noise again", Coupled(used_again, in_floats=lambda p, q: np.minimum(p, q).sum()), race_by_hand,
            "the recovered token takes the Gumbel noise that drew the draft", SPECULATIVE, "fresh noise, as pull 54282 has it",
            rests_on="exact integration of the race", when='before pull 54282, only with draft_sample_method="probabilistic"',
            code=f"{V2}; vllm 0.28.0, the same", mended="pull 54282: a salt of its own (v1/worker/gpu/sample/gumbel.py@03f97cc)",
            seen=f"{READ}; others counted 131,072 draws on a GPU: (.1, .6, .3) came as (.102, .630, .268)")),
    f"{V1}; {V2}", engine=True,
    remarks="Coins are taken as independent of noise. Synthetic with (p - q)+ empty, an argmax of -inf, is judged as p.",
    not_judged=(("fly", "the code read knows standard, synthetic and block only"),),
)  # fmt: skip
