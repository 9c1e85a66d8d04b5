"""The court of record: every published verifier, judged exactly, with the smallest counterexample and the distance to
the optimum."""

import importlib

from .record import Work
from .trial import Judgement, judge_work

FILES = ["instances", "trees", "hsd", "races", "sjd", "own_targets", "cactus", "looser_tests", "engines"]
_MODULES = [importlib.import_module(f"proofs_checks.court.works.{file}") for file in FILES]
REGISTER: dict[str, tuple[Work, str]] = {  # every work by its name, with what its file says
    work.name: (work, (module.__doc__ or "").strip())
    for module in _MODULES
    for work in getattr(module, "WORKS", None) or (module.WORK,)
}
__all__ = ["REGISTER", "Judgement", "Work", "judge_work"]
