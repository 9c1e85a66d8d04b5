"""The plugin of pytest: options, a summary and report files for tests made by `parametrize_with_rule_checks`.

Loaded by every pytest run where ot_draft is installed, so what the checks need is imported where there is something to do.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

RECORDS = pytest.StashKey[list[dict[str, Any]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("ot_draft", "checks of selection rules")
    group.addoption("--ot-max-examples", type=int, metavar="N", help="Largest number of problems a property.")
    group.addoption("--ot-report", action="append", choices=("html", "json"), default=[],
                    help="Write ot-report.html or ot-report.json; may be given several times.")  # fmt: skip
    group.addoption("--ot-report-dir", type=Path, default=Path(), metavar="DIR", help="Where to write them [here].")
    group.addoption("--ot-conform", action="append", default=[], metavar="ENGINE",
                    help="A test that ENGINE conforms, as `ot-draft conform ENGINE`; may be given several times.")  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Results are collected where the session ends: not in a worker of pytest-xdist, which sends its reports there."""
    most = config.getoption("ot_max_examples")
    if most is not None and most < 1:
        raise pytest.UsageError(f"--ot-max-examples must be at least 1, got {most}. Pass a number of problems.")
    if config.getoption("ot_report"):
        _check_folder(config.getoption("ot_report_dir"))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(), "ot_draft_results")


def _check_folder(folder: Path) -> None:
    """A usage error where no report can be written, before the tests and not after them."""
    import click

    from .cli.options import can_write_into

    try:
        can_write_into("--ot-report-dir", folder)
    except click.UsageError as error:
        raise pytest.UsageError(error.message) from error


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """One more test for each engine that is named."""
    items += [Conformance.from_parent(session, name=f"conform[{engine}]") for engine in config.getoption("ot_conform")]


class Conformance(pytest.Item):
    """Pass if all checked rows have the target distribution; otherwise fail and list the rows."""

    def runtest(self) -> None:
        """Run the suite."""
        from .verify.engine.suite import conform, line

        report = conform(self.name.removeprefix("conform[").removesuffix("]"))
        if report.exit_status:
            pytest.fail("\n".join([*map(line, report.unsettled), report.sentence]), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """The check of a test made by `parametrize_with_rule_checks` is given the option; what came out of it is kept.

    A test that did not call it has checked nothing, and fails.
    """
    check = getattr(item, "callspec", None) and item.callspec.params.get("check")  # type: ignore[attr-defined]
    records = getattr(check, "ot_records", None)
    if check is None or records is None:
        return (yield)
    check.max_examples = item.config.getoption("ot_max_examples") or check.max_examples
    records.clear()
    try:
        result = yield
        if not records and item.get_closest_marker("xfail") is None:  # such a one fails by passing
            pytest.fail("nothing was checked: the body of the test is  check(rule)", pytrace=False)
        return result
    finally:
        item.stash[RECORDS] = [*records]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Results travel as an attribute of the test's report: pytest-xdist carries it, and user_properties stay the user's."""
    report = yield
    if call.when == "call" and RECORDS in item.stash:
        report.ot_draft = item.stash[RECORDS]
    return report


class Results:
    """Outcomes of all checks of the session."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what the report carries, with the reason of an expected failure."""
        expected = {"expected_failure": report.wasxfail} if hasattr(report, "wasxfail") else {}
        self.records += [record | expected for record in getattr(report, "ot_draft", [])]

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Write the report files, the answers for each rule, and a line for each of its properties; with -q the wrong ones only."""
        formats = config.getoption("ot_report")
        if not self.records and not formats:
            return
        from .verify.rule.report_files import reports_of, summary_lines, write_reports

        reports = reports_of(self.records)
        lines = list(summary_lines(reports, wrong_only=config.get_verbosity() < 0))
        if lines:
            terminalreporter.section("selection rules")
        for line in lines:
            terminalreporter.line(line)
        for file in write_reports(formats, reports, config.getoption("ot_report_dir")):
            terminalreporter.line(f"ot_draft report: {file}")
