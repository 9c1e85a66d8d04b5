"""xLLM: until pull 2175 (10 August 2026) the test was told q of the drawn token alone.

The cache of drafts kept q(x) of the drafted token, and the verifier rebuilt a vector with q(x) at x and 0 elsewhere. The test is then
p/q, and the residual (p - q)+ is p without x, which is right for q(x) = 1 only. With two tokens both residuals agree; three show it.
"""

from fractions import Fraction
from typing import Any

from ..by_hand import ratio, without
from ..record import CHAIN, PATH, TARGET_SAMPLE, AlongPath, Form, Work, biased, greedy


def one_entry(model: Any, drafts: Any) -> dict[tuple[int, ...], Any]:
    (path,) = drafts
    law: dict[tuple[int, ...], Any] = {}

    def end(text: tuple[int, ...], following: Any, chance: Any) -> None:
        for y, mass in enumerate(following):
            if mass * chance:
                law[*text, y] = law.get((*text, y), 0) + mass * chance

    chance = Fraction(1)
    for i, x in enumerate(path):
        p, q = tuple(model.target(path[:i])), tuple(model.draft(path[:i]))
        keeps = min(Fraction(1), ratio(p[x], q[x]))
        end(path[:i], without(p, (x,)), chance * (1 - keeps))
        chance *= keeps
    end(path, model.target(path), chance)
    return law


def by_hand(chance: Any, p: Any, q: Any, k: int) -> tuple[int, ...]:
    text: tuple[int, ...] = ()
    for _ in range(2):
        x = chance.draw(q(text))
        if not chance.flip(ratio(p(text)[x], q(text)[x])):
            return (*text, chance.draw(without(p(text), (x,))))
        text = (*text, x)
    return (*text, chance.draw(p(text)))


FILE = "jd-opensource/xllm xllm/core/framework/sampling/rejection_sampler.cpp@2efef04"
BUILD = "xllm/core/runtime/spec_input_builder.cpp@2efef04, build_validate_tensors"
WORK = Work(
    "xllm", "xLLM", "", "code of the sampler and of the MTP worker; pull 2175", "the target's distribution", "none",
    (biased("MTP, EAGLE-3: drawn drafts, q of the token alone", AlongPath(one_entry, measured=False), by_hand,
            "dense_probs.scatter_(-1, draft_token_ids, selected_probs), and recovered_probs.sub_(draft_probs).clamp_min_(0)", PATH,
            "keep the whole row of q", mode=CHAIN, when="sampling, before pull 2175 (10 August 2026)",
            seen="run: build_validate_tensors and random_sample, compiled: within .001 of the distribution in 400,000 rounds",
            code=f"{FILE}; {BUILD}", fixed="pull 2175"),
     Form("chosen drafts with q = 1", TARGET_SAMPLE, "q set to 1; Coq: sampling.v", mode=CHAIN, when="since pull 2175, greedy drafts",
          code="xLLM-AI/xllm pull 2175"),
     greedy("temperature 0")),
    FILE, engine="xLLM", remarks="What pull 2175 changes is read in its thread; the snapshot of the code is older.",
)  # fmt: skip
