"""One vLLM engine in a process of its own: texts of mixed batches, from vLLM's sampler, the plugin's, and the plugin's with errors.

Called as  python engine_process.py JOB.json OUT.json. The engine runs inside this process, so that its sampler can be changed
between two batches; that the plugin loads by its entry point, in the engine's own processes, is for the tests of servers.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}
os.environ.pop("OT_DRAFT_VLLM", None)

import numpy as np
from planted_in_plugin import PLANTED, planted
from requests_and_laws import KINDS, MIN_P, TOKENS, Kind

from ot_draft.integrations import vllm, vllm_on_cpu
from ot_draft.integrations.chains import CHAIN_RULES


@contextmanager
def sampler(name: str) -> Iterator[None]:
    """By name: "own", "own, FUNCTION not mended", a rule of the plugin, or "RULE, ERROR" for one with an error in it."""
    host = sys.modules[vllm_on_cpu.SAMPLER]
    manager = sys.modules[vllm_on_cpu.GRAMMAR].StructuredOutputManager  # type: ignore[attr-defined]
    runner = sys.modules[vllm_on_cpu.RUNNER].GPUModelRunner  # type: ignore[attr-defined]
    places = [(host, "expand_batch_to_tokens"), (host, "apply_sampling_constraints")]
    places += [(manager, "validate_tokens"), (manager, "grammar_bitmask")]
    places += [(runner, "_sample"), (runner, "_bookkeeping_sync")]
    rule, _, error = name.partition(", ")
    with ExitStack() as stack:
        for owner, function in places:
            stack.enter_context(mock.patch.object(owner, function, getattr(owner, function)))
        before = [getattr(owner, function) for owner, function in places]
        vllm_on_cpu.mend()
        for (owner, function), unmended in zip(places, before, strict=True):
            if error == f"{function} not mended":
                setattr(owner, function, unmended)
        if rule in CHAIN_RULES:
            ours = partial(vllm.rejection_sample, rule=CHAIN_RULES[rule])
            stack.enter_context(mock.patch.object(host, "rejection_sample", ours))
            if error in PLANTED:
                stack.enter_context(planted(error))
        yield


def parameters(kind: Kind, number: int) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    options = dict(kind.options)
    if kind.grammar:
        regex = "".join(f"[{letters}]" for letters in kind.grammar)
        options["structured_outputs"] = StructuredOutputsParams(regex=regex)
    return SamplingParams(
        temperature=kind.temperature,
        seed=10_000 + number if kind.seeded else None,
        max_tokens=TOKENS,
        ignore_eos=True,
        detokenize=False,
        **options,
    )


def texts(llm: Any, kinds: dict[str, Kind], count: int, seed: int) -> dict[str, list[list[int]]]:
    """The texts of so many requests of each kind, in one random order."""
    order = np.random.default_rng(seed).permutation(np.repeat(list(kinds), count))
    prompts = [{"prompt_token_ids": list(kinds[name].prompt)} for name in order]
    out = llm.generate(prompts, [parameters(kinds[name], i) for i, name in enumerate(order)], use_tqdm=False)
    found: dict[str, list[list[int]]] = {name: [] for name in kinds}
    for name, answer in zip(order, out, strict=True):
        found[name].append(list(answer.outputs[0].token_ids))
    return found


def refusal(llm: Any) -> str:
    """What vLLM says to min-p."""
    try:
        texts(llm, MIN_P, 1, 0)
    except Exception as error:  # whatever the engine raises is the answer
        return f"{type(error).__name__}: {error}"
    return ""


def counters(llm: Any) -> dict[str, float]:
    return {x.name.split(":")[1]: x.value for x in llm.get_metrics() if "spec_decode" in x.name and hasattr(x, "value")}


def main(job_file: str, out_file: str) -> None:
    from vllm import LLM

    job = json.loads(Path(job_file).read_text())
    started = time.perf_counter()
    llm = LLM(
        model=job["target"],
        dtype="float32",
        enforce_eager=True,
        max_model_len=64,
        max_num_seqs=96,
        max_num_batched_tokens=job.get("batched_tokens", 512),
        speculative_config=job["speculative"],
        disable_log_stats=False,
    )
    answer: dict[str, Any] = {"seconds": {"start": time.perf_counter() - started}, "texts": {}, "counters": {}}
    answer["min-p"] = refusal(llm) if job["speculative"] else ""
    known = KINDS | MIN_P
    for seed, (name, names, count) in enumerate(job["runs"]):
        before, begun = counters(llm), time.perf_counter()
        with sampler(name):
            try:
                found: Any = texts(llm, {kind: known[kind] for kind in names}, count, seed)
            except Exception as error:  # memory that nobody wrote may hold anything; an engine that raised cannot go on
                if "not mended" not in name:
                    raise
                found = f"{type(error).__name__}: {error}"
        answer["texts"][name] = found
        answer["counters"][name] = {key: value - before.get(key, 0) for key, value in counters(llm).items()}
        answer["seconds"][name] = time.perf_counter() - begun
        Path(out_file).write_text(json.dumps(answer))
        if isinstance(found, str):
            break


if __name__ == "__main__":
    main(*sys.argv[1:])
