"""The option of examples/contributing, added by a field and a row, is parsed, refused beside what it excludes, and in the help."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from contributing import example

from ot_draft.cli.decode import settings
from ot_draft.cli.decode.options import DraftOptions, ModelOptions, PromptOptions, SamplingOptions
from ot_draft.cli.options import with_options

GROUPS = (
    ("prompts", PromptOptions),
    ("models", ModelOptions),
    ("sampling", SamplingOptions),
    ("drafts", DraftOptions),
)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> click.Command:
    module = example("quiet_option", monkeypatch)
    monkeypatch.setattr(settings, "EXCLUSIONS", (*settings.EXCLUSIONS, *module.EXCLUSIONS))

    @click.command()
    @with_options(*GROUPS, ("output", module.OutputOptions))
    def decode(**groups: Any) -> None:
        """Says what was parsed."""
        asked = settings.DecodeSettings(**groups)
        click.echo(f"{asked.output.quiet} {asked.drafts.size} {asked.sampling.max_tokens} {asked.chooses}")  # type: ignore[attr-defined]

    return decode


def call(command: click.Command, *words: str) -> Result:
    return CliRunner().invoke(command, words)


def test_it_is_parsed_and_refused_by_its_row(command: click.Command) -> None:
    assert call(command).output == "False (4, 4) 64 True\n"
    assert call(command, "--quiet", "--shape", "2x3", "--max-tokens", "7").output == "True (2, 3) 7 False\n"
    refused = call(command, "--quiet", "--compare")
    assert refused.exit_code == 2 and refused.stderr.endswith(
        "Error: --quiet requires a single rule. Remove --compare.\n"
    )
    assert call(command, "--compare").output == "False (4, 4) 64 True\n"


def test_it_is_in_the_help_after_the_options_that_were_there(command: click.Command) -> None:
    said = call(command, "--help").output
    assert said.index("--prompt ") < said.index("--temperature") < said.index("--audit") < said.index("--quiet")
