"""`ot-draft audit servers` on real servers of llama.cpp: n-gram drafts beside none, and a proxy that changes requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from servers import audited, changed
from test_llama_server import gguf, prompts, serving

__all__ = ["gguf", "prompts"]


def test_drafts_by_lookup_change_nothing(gguf: Path, prompts: Path, tmp_path: Path) -> None:
    for name in ("plain", "ngram"):
        (tmp_path / name).mkdir()
    with serving(gguf, "none", tmp_path / "plain") as plain, serving(gguf, "ngram", tmp_path / "ngram") as drafting:
        asked = ("--prompts", str(prompts), "--tokens", "1500", "--timeout", "300", "--lengths", "8")
        status, found, said = audited("servers", tmp_path, drafting, plain, *asked)
    assert status == 0, said
    assert found["draft tokens of the first server by its own count"] > 0, (
        "the comparison says nothing about drafts: there were none"
    )


@pytest.mark.parametrize("changes", [{"temperature": 0.0}, {"top_p": 0.6}])
def test_a_server_that_is_asked_for_something_else_differs(
    changes: dict[str, Any], gguf: Path, prompts: Path, tmp_path: Path
) -> None:
    with serving(gguf, "none", tmp_path) as url, changed(url, lambda fields: fields | changes) as other:
        asked = ("--tokens", "4000", "--timeout", "300")
        status, found, said = audited("servers", tmp_path, other, url, *asked)
    assert status == 1, said
    assert found["decided_at"] < 3_000
