"""Real bugs replayed in vLLM on the CPU: what `conform` finds, and what engines' own published tests would have found.

    python tests/engines/replay.py FILE.json            in the environment of `make engines`; writes docs/data/replayed_bugs.csv, too
    python tests/engines/replay.py FILE.json "BUG" ...  these alone, the others as the file has them; "table": none

Of the suite's kinds the first one is sent, greedy requests, and those that the bug is about.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from published_tests import kl_is_small

from ot_draft.verify.engine import suite
from ot_draft.verify.engine.kinds import KINDS, PLAIN, Kind, kinds_for

HERE = Path(__file__).parent
REQUESTS = 1200
OUT = HERE.parents[1] / "docs" / "data" / "replayed_bugs.csv"  # docs/conform.md shows it
OTHERS = ("L2 shrinks", "10 sigma", "KL < .01", "greedy equal")


def replayed(folder: Path, bugs: Sequence[str]) -> list[dict[str, Any]]:
    """A row a bug."""
    from planted_vllm import DEFECTS, MANY, ROWS

    rows: list[dict[str, Any]] = []
    trial = suite.EngineTrial(
        str(HERE / "planted_vllm.py"), {}, folder / "8", 8, None, 1e-6, 3000.0, np.random.default_rng(0)
    )
    try:
        trial.start()
        trial._described["functions"].remove("step")  # it asks the sampler alone, and takes long
        for bug in bugs:
            about, begun = ROWS.get(bug, {PLAIN}), time.monotonic()
            trial.requests = MANY.get(bug, REQUESTS)
            kinds = {PLAIN: replace(KINDS[PLAIN], share=1.0 if about & {PLAIN, "requests are independent"} else 0.3)}
            kinds |= {name: replace(KINDS[name], share=1.0) for name in about & KINDS.keys() - {PLAIN}} | {
                "greedy": KINDS["greedy"]
            }
            sent = kinds_for(trial.n) if bug == "none" else kinds
            suite.kinds_for = lambda n, sent=sent: dict(sent)  # type: ignore[assignment, misc]
            trial.call("plant", f"own, {DEFECTS.get(bug, bug)}" if bug != "none" else "own")
            rows.append({"bug": bug, **one(trial), "about": sorted(about), "seconds": round(time.monotonic() - begun)})
            print(json.dumps(rows[-1]), flush=True)
    finally:
        trial.close()
    return rows


def one(trial: suite.EngineTrial) -> dict[str, Any]:
    """What conform says, and the tests of others."""
    found = list(trial.rows())
    failed = {row.check.rpartition(",")[0]: suite.word(row) for row in suite.EngineReport("", tuple(found)).unsettled}
    others = trial.call("own_tests")
    kind: Kind = trial.kinds[PLAIN]
    others["KL < .01"] = kl_is_small(trial.reference.enumerated(kind), trial.kept.get(PLAIN, []))
    others["greedy equal"] = failed.get("greedy") != "WRONG"
    least = min(row.evidence.p for row in found)
    return {"failed": failed, "least p": least, "passes": others}


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The header and the rows of docs/data/replayed_bugs.csv."""
    lines = [["bug", "ot-draft conform", "L2 distance shrinks", "10 sigma", "KL < 0.01", "greedy completions equal"]]
    for row in rows:
        seen = ", ".join(name for name, verdict in row["failed"].items() if verdict in ("WRONG", "crashed")) or "-"
        marks = ["-" if row["passes"][name] else "found" for name in OTHERS]
        if not {PLAIN, "requests are independent"} & {*row["about"]}:
            marks[OTHERS.index("KL < .01")] = "n/a"
        lines.append([row["bug"], seen, *marks])
    return lines


if __name__ == "__main__":
    from planted_vllm import BUGS, DEFECTS

    answers, every = Path(sys.argv[1]), ["none", *BUGS, *DEFECTS]
    rows = {row["bug"]: row for row in (json.loads(answers.read_text()) if answers.exists() else [])}
    asked = [bug for bug in sys.argv[2:] or every if bug != "table"]
    with tempfile.TemporaryDirectory() as place:
        rows |= {row["bug"]: row for row in (replayed(Path(place), asked) if asked else [])}
    answers.write_text(json.dumps([rows[bug] for bug in every if bug in rows], indent=1))
    with OUT.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(table(json.loads(answers.read_text())))
