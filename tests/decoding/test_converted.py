"""A GGUF file is converted once: what is read from the folder is what is in the file, and no broken folder is read."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ot_draft.decoding.converted import SIZES, cache_folder, converted  # noqa: E402


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "model.gguf"
    made.write_bytes(b"weights")
    return made


class Convert:
    """Writes one file, and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, folder: Path) -> None:
        self.count += 1
        (folder / "model.safetensors").write_text("converted")


def test_a_file_is_converted_once(file: Path, tmp_path: Path) -> None:
    convert, cache = Convert(), tmp_path / "cache"
    first = converted(file, convert, cache)
    assert converted(file, convert, cache) == first and convert.count == 1
    assert (first / "model.safetensors").read_text() == "converted"
    assert [path.name for path in cache.iterdir()] == [first.name]


def test_the_folder_is_that_of_the_content(file: Path, tmp_path: Path) -> None:
    convert, cache = Convert(), tmp_path / "cache"
    first = converted(file, convert, cache)
    file.write_bytes(b"WEIGHTS")  # same name, same size
    assert converted(file, convert, cache) != first and convert.count == 2


@pytest.mark.parametrize("broken", ["cut short", "a file lacks", "no sizes", "no JSON", "a file too many"])
def test_a_broken_folder_is_made_again(file: Path, tmp_path: Path, broken: str) -> None:
    convert, cache = Convert(), tmp_path / "cache"
    folder = converted(file, convert, cache)
    weights = folder / "model.safetensors"
    {
        "cut short": lambda: weights.write_text("conv"),
        "a file lacks": weights.unlink,
        "no sizes": (folder / SIZES).unlink,
        "no JSON": lambda: (folder / SIZES).write_text("{"),
        "a file too many": lambda: (folder / "other.safetensors").write_text("other"),
    }[broken]()
    assert converted(file, convert, cache) == folder and convert.count == 2
    assert weights.read_text() == "converted" and len(list(folder.iterdir())) == 2


def test_a_conversion_that_fails_leaves_nothing(file: Path, tmp_path: Path) -> None:
    def fails(folder: Path) -> None:
        (folder / "model.safetensors").write_text("conv")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError):
        converted(file, fails, tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def test_another_process_may_be_first(file: Path, tmp_path: Path) -> None:
    convert, cache = Convert(), tmp_path / "cache"

    def overtaken(folder: Path) -> None:
        convert(folder)
        assert converted(file, convert, cache)

    assert converted(file, overtaken, cache) is not None and convert.count == 2
    assert converted(file, convert, cache) is not None and convert.count == 2


def test_no_place_for_it_is_a_warning(file: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="OT_DRAFT_CACHE"):
        assert converted(file, Convert(), tmp_path / "cache") is None


def test_a_user_without_a_home_is_no_crash(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    for name in ("OT_DRAFT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.warns(UserWarning, match="the cache folder cannot be written .*OT_DRAFT_CACHE"):
        assert converted(file, Convert()) is None


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("OT_DRAFT_CACHE", raising=False)
    assert cache_folder() == tmp_path / "ot_draft"
    monkeypatch.setenv("OT_DRAFT_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


@pytest.mark.slow  # the file is parsed: 15 s
def test_the_embedded_target_is_the_same_by_its_folder() -> None:
    load = pytest.importorskip("llm_demo.models.load")
    if load.missing_packages():
        pytest.skip(f"no {', '.join(load.missing_packages())}: see the Makefile")
    plain = load.load_pair(draft="lookup", backend="torch", cache=False)
    by_folder = load.load_pair(draft="lookup", backend="torch")
    for name, tensor in plain.target.state_dict().items():
        assert torch.equal(tensor, by_folder.target.state_dict()[name]), name
    assert plain.target.config.eos_token_id == by_folder.target.config.eos_token_id
    text = "Naïve 日本 <|im_start|>user\n  x = [1,2]<|im_end|>"
    assert plain.tokenizer(text).input_ids == by_folder.tokenizer(text).input_ids
    assert plain.tokenizer.chat_template == by_folder.tokenizer.chat_template
    assert plain.tokenizer.all_special_ids == by_folder.tokenizer.all_special_ids
