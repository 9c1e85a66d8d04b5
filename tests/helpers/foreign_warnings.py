"""A pytest plugin: what other packages warn of is collected over the whole run and shown at its end, and fails one test, not many.

A warning that a line of ours causes is an error where it is raised. One that is attributed to another package, and every
deprecation, is collected. With --newest any of them fails the run, as one test; with the lock only a deprecation of something
that a line of ours uses does, for that is mended here.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("ot_draft", "llm_demo", "figures", "proofs_checks", "tests")
DEPRECATIONS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
NAME = "tests/helpers/foreign_warnings.py::what_other_packages_warn_of"


@dataclass(frozen=True)
class Warned:
    """A warning: the package it is attributed to, its category and message, where it was met first."""

    package: str
    ours: bool
    category: str
    message: str
    place: str

    def __str__(self) -> str:
        return f"{self.package}: {self.category}: {self.message}\n    first at {self.place}"


def own_modules() -> str:
    """A pattern of the names of all modules of this repository: of a test's file its stem is one, or its folder's name."""
    files = list((ROOT / "tests").rglob("*.py"))
    names = {*FOLDERS, *(file.stem for file in files), *(file.parent.name for file in files)} - {"__init__"}
    return rf"({'|'.join(sorted(names))})(\.|$)"


def package_of(file: str) -> tuple[str, bool]:
    """The package and version that a file is of, and whether it is this repository's."""
    path = Path(file)
    if "site-packages" in path.parts:
        top = path.parts[path.parts.index("site-packages") + 1].removesuffix(".py")
        owners = packages_distributions().get(top, [])
        return (f"{owners[0]} {version(owners[0])}" if owners else top), False
    if path.is_relative_to(ROOT):
        return "ot_draft", True
    return f"python {sys.version.partition(' ')[0]}", False


class Collector:
    """What was warned of in a run, each once."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.seen: dict[tuple[str, str, str], Warned] = {}

    @pytest.hookimpl
    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, nodeid: str) -> None:
        """Keep it, if nothing like it was met before."""
        package, ours = package_of(warning_message.filename)
        category, message = warning_message.category.__name__, " ".join(str(warning_message.message).split())[:400]
        place = f"{warning_message.filename}:{warning_message.lineno}" + (f" in {nodeid}" if nodeid else "")
        self.seen.setdefault((package, category, message), Warned(package, ours, category, message, place))

    def failing(self) -> list[Warned]:
        """Those that fail the run."""
        return [each for each in self.seen.values() if self.strict or each.ours]

    @pytest.hookimpl
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """One failed test, if there is anything that fails the run."""
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        failing = self.failing()
        if reporter is None or not failing:
            return
        text = listed(failing)
        report = pytest.TestReport(NAME, (NAME, None, "what other packages warn of"), {}, "failed", text, "call")
        reporter.stats.setdefault("failed", []).append(report)
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The others, for whoever wants to know."""
        failing = self.failing()
        if others := [each for each in self.seen.values() if each not in failing]:
            terminalreporter.section("what other packages warn of")
            terminalreporter.line(listed(others))


def listed(found: Iterable[Warned]) -> str:
    """The warnings by package, a paragraph each."""
    return "\n".join(map(str, sorted(found, key=lambda each: (each.package, each.message))))


def pytest_addoption(parser: pytest.Parser) -> None:
    """--newest: the environment is not that of the lock."""
    parser.addoption(
        "--newest",
        action="store_true",
        help="packages may differ from the lock; what any of them warns of fails one test",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Errors for our own lines; deprecations are collected; workers of xdist report to the one that collects."""
    config.addinivalue_line("filterwarnings", f"error:::{own_modules()}")
    for category in DEPRECATIONS:
        config.addinivalue_line("filterwarnings", f"default::{category.__name__}")
    # Of another package's source, and only in the run that compiles it; in ours ruff finds it (W605).
    config.addinivalue_line("filterwarnings", "ignore:invalid escape sequence")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Collector(config.getoption("newest")), "foreign_warnings_collector")
