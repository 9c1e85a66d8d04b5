"""Tests of the audit; a package, so that `python -m tests.audit.power` measures what it finds."""
