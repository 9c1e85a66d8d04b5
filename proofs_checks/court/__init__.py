"""The court of record: every published verifier, judged exactly, with the smallest counterexample and the distance to the optimum."""

import importlib

from .record import Work
from .trial import Judgement, judge_work

NAMES = {  # of a work: its module, in the order of the table
    "leviathan": "leviathan", "spectr": "spectr", "specinfer": "specinfer", "mcsd": "mcsd", "sequoia": "sequoia", "spechub": "spechub",
    "khisti": "khisti", "hu": "hu", "global-resolution": "global_resolution", "block": "block", "traversal": "traversal", "hsd": "hsd", "gbv": "gbv",
    "spectr-gbv": "spectr_gbv", "univer": "univer", "daliri": "daliri", "gls": "gls", "eagle": "eagle", "lookahead": "lookahead", "sjd": "sjd",
    "medusa": "medusa", "lenience": "lenience", "mentored": "mentored", "cascades": "cascades", "diversed": "diversed", "cactus": "cactus",
    "fly": "fly", "mars": "mars", "ears": "ears", "wagner": "wagner", "mtad": "mtad", "transformers": "transformers", "vllm": "vllm",
    "sglang": "sglang", "tensorrt": "tensorrt", "llama-cpp": "llama_cpp", "mlx-lm": "mlx",
}  # fmt: skip

__all__ = ["NAMES", "Judgement", "Work", "judge_work", "reasoning", "work"]


def work(name: str) -> Work:
    """The record of a work."""
    record: Work = importlib.import_module(f"proofs_checks.court.works.{NAMES[name]}").WORK
    return record


def reasoning(name: str) -> str:
    """What its file says about it."""
    return (importlib.import_module(f"proofs_checks.court.works.{NAMES[name]}").__doc__ or "").strip()
