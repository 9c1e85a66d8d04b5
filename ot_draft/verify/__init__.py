"""Verifiers: of rules (`rule`), samplers (`sampler`), servers and logs (`server`), engines (`engine`), and test vectors (`vectors`)."""

from .outcome import Outcome, Status
from .report import Report

__all__ = ["Outcome", "Report", "Status", "engine", "rule", "sampler", "server", "vectors"]
