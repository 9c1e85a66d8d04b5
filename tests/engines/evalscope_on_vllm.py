"""evalscope against a real vLLM server, right and with errors planted in its sampler: the number and the sentence of `token_law`.

    PYTHONPATH=. .venv-engines/bin/python tests/engines/evalscope_on_vllm.py PYTHON_WITH_EVALSCOPE FOLDER

PYTHON_WITH_EVALSCOPE is an interpreter that has evalscope, numpy, scipy and httpx. FOLDER keeps what evalscope writes; what is there
is not run again. Not part of the tests: a quarter of an hour. What came out stands in docs/audit.md.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from engine_cases import environment
from power_of_servers import RIGHT, pair_of_servers

ERRORS = (RIGHT, "silently greedy", "recovered from p", "acceptance 1.15 p/q")
PARAMS = {"engine": "vllm", "listed": 8, "ignore_eos": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python")
    parser.add_argument("folder", type=Path)
    parser.add_argument("errors", nargs="*")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--together", type=int, default=32)
    given = parser.parse_intermixed_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and end the server, whose processes are not ours
    params = json.dumps({"token_law": {"extra_params": PARAMS | {"requests": given.requests}}})
    with pair_of_servers("probabilistic", both=False) as pair:
        for error in given.errors or ERRORS:
            folder, begun = given.folder / "".join(c if c.isalnum() else "_" for c in error), time.monotonic()
            report = folder / "reports" / "tiny" / "token_law.json"
            if not report.exists():
                pair.planted.write_text(error)
                command = [given.python, "examples/evalscope_token_law.py", "eval", "--model", "tiny"]
                command += ["--api-url", f"{pair.drafting}/v1", "--api-key", "none", "--datasets", "token_law"]
                command += ["--dataset-args", params]
                command += ["--eval-batch-size", str(given.together), "--work-dir", str(folder), "--no-timestamp"]
                done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
                (folder / "said.txt").write_text(done.stdout + done.stderr)
            found = json.loads(report.read_text())
            scores = [metric["score"] for metric in found["metrics"]]
            print(f"{error} ({time.monotonic() - begun:.0f} s): {scores} {found['analysis']}", flush=True)


if __name__ == "__main__":
    main()
