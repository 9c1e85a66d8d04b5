"""At a real vocabulary's size the plugin's samplers are not slower than vLLM's own on the CPU; for one request alone, as fast."""

from __future__ import annotations

import json
import subprocess
import sys

from engine_cases import HERE, RULES, environment


ALONE = 1.25  # for one request, whose call takes two milliseconds: what counts as equal


def test_the_plugin_is_not_slower_than_the_engines_own_sampler() -> None:
    command = [sys.executable, str(HERE / "sampler_speed.py")]
    done = subprocess.run(
        command, env=environment(VLLM_LOGGING_LEVEL="ERROR"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    times = json.loads(done.stdout.splitlines()[-1])
    print(times)
    allowed = {batch: each["own"] * (ALONE if batch == "1 request" else 1) for batch, each in times.items()}
    slower = {batch: each for batch, each in times.items() if max(each[rule] for rule in RULES) > allowed[batch]}
    assert slower == {}
