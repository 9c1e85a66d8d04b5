"""Errors planted in vLLM's sampler on the CPU: tokens until the two audits see them, level 1e-6, as a table.

    PYTHONPATH=. .venv-engines/bin/python tests/engines/power_in_vllm.py --tokens 50000 --out table.json

One engine with a draft model; the plain side and the laws are those of the same model under transformers, enumerated. Not part of the
tests: an hour. What came out stands in docs/audit.md.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR",
               "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1",
               "VLLM_CPU_OMP_THREADS_BIND": "nobind"}  # fmt: skip
os.environ.pop("OT_DRAFT_VLLM", None)

import numpy as np
from errors_in_vllm import CUT, ERRORS, planted

from ot_draft.integrations import vllm_patches
from ot_draft.verify.engine.kinds import Kind
from ot_draft.verify.engine.tiny_pair import write
from ot_draft.verify.server import Audit, Token
from ot_draft.verify.server.against import Setting, TwoServerTest

N = 8  # tokens of the tiny pair
COUNT = 16  # prompts
OPTIONS = {"plain": (1.0, {}), "cut": (0.6, {"top_k": 5})}
WAVES = ((8, 16), (32, 16), (4, 32))  # of the audit by laws: requests and tokens an answer


class Model:
    """The law of the next token under transformers, remembered by context and options."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
        self.logits: dict[tuple[int, ...], np.ndarray] = {}
        self.prompts = surest(self, COUNT)

    def laws(self, texts: Sequence[tuple[int, ...]], kind: str) -> np.ndarray:
        """(R, n); the texts are of one length."""
        import torch

        if new := list({text for text in texts if text not in self.logits}):
            with torch.no_grad():
                rows = self.model(torch.tensor(new)).logits[:, -1].double().numpy()
            self.logits |= dict(zip(new, rows, strict=True))
        temperature, options = OPTIONS[kind]
        nothing = np.zeros((len(texts), 0), dtype=np.int64)
        asked = Kind((), {"temperature": temperature, **options})
        return asked.masses(np.array([self.logits[text] for text in texts]), nothing)[0]


def surest(p: Model, count: int) -> list[list[int]]:
    """The prompts of four letters whose first token is surest: vLLM never drafts for it, and what comes after comes again then."""
    prompts = list(product(range(N - 1), repeat=4))
    order = np.argsort(-p.laws(prompts, "plain").max(1))
    return [list(prompts[i]) for i in order[:count]]


class Plain:
    """A side that draws from the enumerated law."""

    def __init__(self, model: Model, generator: np.random.Generator) -> None:
        self.model, self.generator = model, generator

    def ask(self, requests: Sequence[tuple[str, Any]], tokens: int) -> list[Any]:
        texts, (kind,) = [tuple(prompt) for _, prompt in requests], {kind for kind, _ in requests}
        for _ in range(tokens):
            laws = self.model.laws(texts, kind)
            drawn = (laws.cumsum(1) < self.generator.random((len(texts), 1))).sum(1)
            texts = [(*text, int(token)) for text, token in zip(texts, drawn, strict=True)]
        return [np.array(text[-tokens:]) for text in texts]


class Drafting:
    """A side that asks the engine."""

    def __init__(self, llm: Any) -> None:
        self.llm = llm

    def ask(self, requests: Sequence[tuple[str, Any]], tokens: int) -> list[Any]:
        from vllm import SamplingParams

        prompts = [{"prompt_token_ids": list(prompt)} for _, prompt in requests]
        asked = [SamplingParams(temperature=OPTIONS[kind][0], max_tokens=tokens, ignore_eos=True, detokenize=False,
                                **OPTIONS[kind][1]) for kind, _ in requests]  # fmt: skip
        out = self.llm.generate(prompts, asked, use_tqdm=False)
        return [np.array(each.outputs[0].token_ids) for each in out]


def by_laws(side: Drafting, p: Model, q: Model, kind: str, tokens: int, with_draft: bool) -> int | None:
    """Tokens until the audit of laws calls the engine biased."""
    audit, number, wave = Audit(), 0, 0
    while audit.tokens < tokens and not audit.biased:
        rows, length = WAVES[wave % len(WAVES)]
        prompts = [p.prompts[(number + i) // 2 % COUNT] for i in range(rows)]
        answers = np.array(side.ask([(kind, prompt) for prompt in prompts], length))
        texts = [[tuple(prompt) + tuple(answer[:t].tolist()) for prompt, answer in zip(prompts, answers, strict=True)]
                 for t in range(length)]  # fmt: skip
        laws = np.stack([p.laws(each, kind) for each in texts], axis=1).reshape(-1, N)
        known = {"draft": np.stack([q.laws(each, kind) for each in texts], axis=1).reshape(-1, N)} if with_draft else {}
        request = np.repeat(number + np.arange(rows), length)
        audit.add(*Token.of_arrays(answers.ravel(), laws, request=request, position=np.tile(np.arange(length), rows),
                       batch=np.full(rows * length, wave), **known))  # fmt: skip
        number, wave = number + rows, wave + 1
    return audit.report().evidence.decided_at


def by_texts(side: Drafting, p: Model, kind: str, tokens: int, seed: int) -> int | None:
    """Tokens of both sides until `audit servers` calls them different."""
    plain = Plain(p, np.random.default_rng([seed, 3]))
    return TwoServerTest(side, plain, [Setting(kind, p.prompts, 1.0)], seed=seed).run(tokens).evidence.decided_at


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--columns", default="against,without,with")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("errors", nargs="*", default=["", *ERRORS])
    given = parser.parse_args()
    from vllm import LLM
    from vllm.v1.sample import rejection_sampler

    target, draft = write(Path(tempfile.mkdtemp()))
    speculative = {"method": "draft_model", "model": str(draft), "num_speculative_tokens": 3,
                   "draft_sample_method": "probabilistic"}  # fmt: skip
    llm = LLM(model=str(target), dtype="float32", enforce_eager=True, max_model_len=64, max_num_seqs=64,
              speculative_config=speculative, skip_tokenizer_init=True)  # fmt: skip
    vllm_patches.apply_patches()
    side, p, q = Drafting(llm), Model(target), Model(draft)
    for error in given.errors:
        kind, found = "cut" if error in CUT else "plain", {}
        for column in given.columns.split(","):
            begun = time.process_time()
            with planted(rejection_sampler, error, np.random.default_rng([given.seed, 1])):
                if column == "against":
                    found[column] = by_texts(side, p, kind, given.tokens, given.seed)
                else:
                    found[column] = by_laws(side, p, q, kind, given.tokens, column == "with")
            found[f"{column}, CPU seconds"] = round(time.process_time() - begun)
        print(error or "right", found, flush=True)
        table = json.loads(given.out.read_text()) if given.out.exists() else {}
        given.out.write_text(json.dumps(table | {error or "right": found}, indent=1))


if __name__ == "__main__":
    main()
