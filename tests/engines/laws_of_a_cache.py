"""Whose laws a request reports that was given another one's tokens: those of its text, or those of what it drafted itself?

    PYTHONPATH=. .venv-engines/bin/python tests/engines/laws_of_a_cache.py --rounds 40

Two requests at a time in vLLM's engine on the CPU, with a draft model; in the sampler the second one gets the first one's tokens
(`errors_in_vllm`). What is reported for the second is set beside the law by transformers of two texts: the one that came out, and the
one that the cache holds: drafts that were read, where they count as accepted, in the place of the tokens that came. A minute, no test.
What came out stands in docs/audit.md.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from errors_in_vllm import ERRORS, planted
from power_in_vllm import Model

from ot_draft.integrations import vllm_patches
from ot_draft.verify.engine.tiny_pair import write

ERROR = "last request has the output of the first"
N = 8  # tokens of the tiny pair
LENGTH, DRAFTS = 12, 3


def cached(prompt: list[int], answer: list[int], steps: list[tuple[list[int], list[int]]]) -> list[int]:
    """The text that the cache holds once the answer is whole. steps: drafts of each, and the tokens that came, after the answer's first."""
    text = [*prompt, answer[0]]
    for drafts, came in steps:
        text += [
            *drafts[: len(came) - 1],
            came[-1],
        ]  # all but the last were read as drafts; the last one is read in the next step
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--error", choices=["", *ERRORS], default=ERROR)
    given = parser.parse_args()
    from vllm import LLM, SamplingParams
    from vllm.v1.sample import rejection_sampler

    target, draft = write(Path(tempfile.mkdtemp()))
    drafting = {
        "method": "draft_model",
        "model": str(draft),
        "num_speculative_tokens": DRAFTS,
        "draft_sample_method": "probabilistic",
    }
    llm = LLM(model=str(target), dtype="float32", enforce_eager=True, max_model_len=64, max_num_seqs=8, skip_tokenizer_init=True,
              enable_prefix_caching=False, speculative_config=drafting)  # fmt: skip
    vllm_patches.apply_patches()
    p, calls = Model(target), list[tuple[list[int], list[int]]]()
    asked = SamplingParams(temperature=1.0, max_tokens=LENGTH, ignore_eos=True, detokenize=False, logprobs=N)
    apart: dict[str, list[float]] = {"text": [], "cache": []}
    with planted(rejection_sampler, given.error, np.random.default_rng(1)):
        own = rejection_sampler.rejection_sample

        def recorded(drafts: Any, counts: list[int], *rest: Any, **named: Any) -> Any:
            out = own(drafts, counts, *rest, **named)
            if len(counts) == 2 and all(counts):
                came = [token for token in out[1].tolist() if token >= 0]
                calls.append((drafts[counts[0] :].tolist(), came))
            return out

        with mock.patch.object(rejection_sampler, "rejection_sample", recorded):
            for number in range(given.rounds):
                calls.clear()
                prompts = [p.prompts[(2 * number + i) % len(p.prompts)] for i in range(2)]
                done = llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], asked, use_tqdm=False)
                answer = done[1].outputs[0]
                text, held = [*prompts[1], *answer.token_ids], cached(prompts[1], list(answer.token_ids), calls)
                for place, row in enumerate(answer.logprobs):
                    law = np.zeros(N)
                    law[list(row)] = np.exp([each.logprob for each in row.values()])
                    at = len(prompts[1]) + place
                    if text[:at] == held[:at] or len(held) < at:
                        continue
                    for name, whole in (("text", text), ("cache", held)):
                        apart[name].append(float(np.abs(p.laws([tuple(whole[:at])], "plain")[0] - law).sum() / 2))
    for name, distances in apart.items():
        if distances:
            print(
                f"law of the {name}: total variation {np.mean(distances):.2g} on average, {np.max(distances):.2g} at most"
            )
    print(f"{len(apart['text'])} places whose text is not what the cache holds, of {given.rounds * LENGTH}")


if __name__ == "__main__":
    main()
