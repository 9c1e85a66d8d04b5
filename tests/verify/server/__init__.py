"""Tests of the audit; a package, so that `PYTHONPATH=tests python -m audit.power` measures what it finds."""
