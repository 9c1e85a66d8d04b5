"""The court of record: every published verifier, judged exactly, with the smallest counterexample and the distance to
the optimum."""

import importlib

from .record import Work
from .trial import Judgement, judge_work

FILES = (
    "instances",
    "specinfer",
    "eagle",
    "hsd",
    "races",
    "sjd",
    "medusa",
    "own_targets",
    "cactus",
    "looser_tests",
    "mtad",
    "engines",
)


def _read() -> dict[str, tuple[Work, str]]:
    """Every work by its name, with what its file says."""
    found = {}
    for file in FILES:
        module = importlib.import_module(f"proofs_checks.court.works.{file}")
        for work in getattr(module, "WORKS", None) or (module.WORK,):
            found[work.name] = work, (module.__doc__ or "").strip()
    return found


REGISTER = _read()
__all__ = ["REGISTER", "Judgement", "Work", "judge_work"]
